"""
Evening what is leaked in total
===============================

IRFIL ([FIL21] algorithm 1) gives records weights under which all would leak the same, were the
weights constants. They are functions of the data, and in total some records leak more than others
(see :ref:`sphx_glr_auto_examples_4_beyond_the_papers_plot_total_leakage.py`).
``reweighting="total"`` uses weights under which the *total* leakage is much closer to even. It is
not equal, and the second half of this page shows why an equal one is out of reach. But it is
exact: what ``fisher_information_loss_`` says of a record counts all that its weight gives away.

[FIL21] Hannun, Guo, van der Maaten. Measuring Data Leakage in Machine-Learning Models with Fisher
Information. UAI 2021.
"""

# %%
# Three reweightings of one model
# -------------------------------
# Patients of a warfarin study, of whom 3,855 train the model and the others test it, under a
# strong and a weak penalty. The leakage is that of the whole record (all columns and the dose) at
# unit noise.
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skleak.datasets import fetch_iwpc
from skleak.exceptions import UnevenLeakageWarning
from skleak.linear_model import IRFIL, EvenTotal, PrivateLinearRegression

patients, dose = fetch_iwpc(encoded=True, return_X_y=True)
X_all, y_all = patients.to_numpy(dtype=float), np.asarray(dose, dtype=float)
rows = np.random.default_rng(0).permutation(len(y_all))
train, test = rows[:3855], rows[3855:]
X, y = X_all[train], y_all[train]
COLORS = {"none": "#a3260f", "irfil": "#3f6fb0", "total": "#2e7d5b"}
ALPHAS = (1e-2, 1e-4)
OPTIONS = {"tol": 1e-11, "max_iter": 60}
RULES = {"none": None, "irfil": IRFIL(**OPTIONS), "total": EvenTotal(**OPTIONS)}


def fitted(name: str, alpha: float, noise_scale: float, X=X, y=y) -> PrivateLinearRegression:
    model = PrivateLinearRegression(
        noise_scale,
        alpha=alpha,
        fit_intercept=False,
        reweighting=RULES[name],
    )
    with warnings.catch_warnings():
        # Where the largest loss rises is one of the figures shown here.
        warnings.filterwarnings("ignore", "With .* somebody leaks more", UnevenLeakageWarning)
        return model.fit(X, y)


def leakage(model: PrivateLinearRegression) -> np.ndarray:
    with warnings.catch_warnings():
        # "total" always says how far from equal it is. That is one of the figures shown here.
        warnings.filterwarnings("ignore", "`reweighting='total'` evens", UnevenLeakageWarning)
        return model.fisher_information_loss_


losses, residuals, lines = {}, {}, {}
for alpha in ALPHAS:
    for name in COLORS:
        model, noiseless = fitted(name, alpha, 1.0), fitted(name, alpha, 0.0)
        losses[alpha, name] = each = leakage(model)
        residuals[alpha, name] = np.abs(y - noiseless.predict(X))
        lines[f"{alpha:g}", name] = {
            "spread": each.std() / each.mean(),
            "mean": each.mean(),
            "largest": each.max(),
            "largest weight": 1.0 if name == "none" else model.sample_reweights_.max(),
            "R^2, others, no noise": noiseless.score(X_all[test], y_all[test]),
        }
table = pd.DataFrame(lines).T.rename_axis(["alpha", "reweighting"])
print(table.to_string(float_format="{:.3g}".format))
for alpha in ALPHAS:
    spread, largest = (table.loc[f"{alpha:g}"][column] for column in ("spread", "largest"))
    if not spread["total"] < 0.6 * spread["irfil"]:
        raise ValueError(f"alpha {alpha:g}: `total` should be much more even than `irfil`.")
    if not largest["total"] < min(largest["none"], largest["irfil"]):
        raise ValueError(f"alpha {alpha:g}: `total` should have the smallest largest leakage.")

# %%
# The spread is the standard deviation over the mean. With all counted, that of IRFIL is 0.34 under
# the strong penalty, and 0.79 under the weak one, where IRFIL even harms: some patients leak more
# than four times what anyone leaks without weights. ``"total"`` brings the spread to 0.13 and 0.17,
# and has the smallest largest leakage of the three under both. Its mean is a tenth to a fifth above
# that of IRFIL. And *even* does not say *little*: under the weak penalty the mean leakage is almost
# four times that without weights, for a largest one that is only a quarter lower.
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
for ax, alpha in zip(axes, ALPHAS, strict=True):
    for name, color in COLORS.items():
        each = np.sort(losses[alpha, name])
        ax.plot(np.linspace(0.0, 100.0, len(each)), each, color=color, lw=1.8, label=name)
        ax.plot(100.0, each[-1], "o", color=color, ms=5, clip_on=False)
    ax.set(yscale="log", xlim=(0.0, 100.0), xlabel="patients, by what they leak (percent)")
    ax.set_title(f"alpha {alpha:g}", loc="left", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("total leakage at unit noise")
axes[0].legend(frameon=False, title="reweighting")
plt.show()

# %%
# What makes IRFIL uneven
# -----------------------
# The weight of IRFIL is ``level / kappa``, where kappa is what the record leaks at weight one with
# the weights as constants. Two things are left out:
#
# - *Huge weights.* A patient whose dose the model hits has a small kappa, and so a large weight,
#   under the weak penalty up to 50 times the mean. Such a record rules the Hessian, and through it
#   the coefficients and all other weights. None of that is in kappa. The worst of them leaks over
#   20 times the level.
# - *Residuals that move against weights.* A patient whose dose the model misses has a small
#   weight. As the dose moves, the residual grows and the weight falls, and their product hardly
#   changes: of the dose much less is leaked than kappa counts. Some of these patients leak two
#   thirds of the level (lower right of the left panel), and all get less weight than they could.
#
# So ``"total"`` bounds weights by four, smoothly, and lets the residual enter kappa by a factor of
# 0.8, which makes it kappa':
#
# .. math:: 1 / \omega^2 = (\kappa' / \mathrm{level})^2 + 1 / 4^2
#
# Both numbers are constants: fitted to the data at hand, they would leak as well. They were chosen
# once, as a compromise between the public data sets of ``benchmarks/bench_equal_total.py``, of
# which this is one. The bound is no perfect fit: under the weak penalty most patients whose dose
# the model hits now leak less than the others. That is the harmless side to be uneven on.
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
for ax, alpha in zip(axes, ALPHAS, strict=True):
    for name in ("irfil", "total"):
        shown = {"s": 5, "alpha": 0.35, "color": COLORS[name], "rasterized": True}
        ax.scatter(residuals[alpha, name], losses[alpha, name], label=name, **shown)
    ax.set(xscale="log", yscale="log", xlim=(1e-3, 6.0), xlabel="residual of the patient")
    ax.set_title(f"alpha {alpha:g}", loc="left", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("total leakage at unit noise")
handles = axes[0].legend(frameon=False, title="reweighting", markerscale=3.0).legend_handles
for handle in handles:
    handle.set_alpha(1.0)
plt.show()

# %%
# The leakage stated is exact
# ---------------------------
# The weight is an explicit function of the record, the coefficients, their Hessian and the level,
# as IRFIL's is. So the derivative of the whole algorithm follows by implicit differentiation. The
# proof: every entry of the most exposed patient is moved up and down, and all is fitted anew.
STEP = 3e-4
for alpha in ALPHAS:
    stated = losses[alpha, "total"]
    i, jacobian = int(np.argmax(stated)), []
    for j in range(X.shape[1] + 1):
        ends = []
        for step in (STEP, -STEP):
            moved = np.column_stack([X, y])
            moved[i, j] += step
            ends.append(fitted("total", alpha, 0.0, moved[:, :-1], moved[:, -1]).coef_)
        jacobian.append((ends[0] - ends[1]) / (2.0 * STEP))
    refitted = np.linalg.norm(jacobian, 2)
    print(f"alpha {alpha:g}, patient {i}: stated {stated[i]:.5f}, by refits {refitted:.5f}")
    if not abs(refitted / stated[i] - 1.0) < 1e-3:
        raise ValueError("Refits of the whole algorithm contradict the leakage stated.")

# %%
# Why not equal
# -------------
# One could multiply the weight of every record by a number of its own, and search for the numbers
# under which all total leakages are equal. They are found in some thirty steps. But those
# leakages hold the numbers fixed, and the numbers are functions of the data as well, in a new
# way: what *that* algorithm leaks is not what was made equal.
#
# Eight records, one column and one coefficient are enough to see it, and few enough to take every
# derivative by differences of the whole algorithm, with nothing held fixed.
N, PENALTY, SMALL = 8, 0.1, 1e-4


def balance(x, y, multipliers):
    """One coefficient, and weights times kappa, of each of b data sets of shape (b, n)."""
    weights = np.ones(x.shape)
    for _ in range(500):
        hessian = (weights * x * x).sum(axis=-1, keepdims=True) + N * PENALTY
        w = (weights * x * y).sum(axis=-1, keepdims=True) / hessian
        kappa = np.hypot(2.0 * w * x - y, x) / hessian
        target = multipliers / kappa
        target *= N / target.sum(axis=-1, keepdims=True)
        if np.abs(target / weights - 1.0).max() < 1e-13:
            break
        weights = np.sqrt(weights * target)
    return w[..., 0], weights * kappa


def by_differences(algorithm, x, y):
    """What each record leaks: the norm of the derivative of the coefficient, shape (b, n)."""
    table, steps = np.stack([x, y], axis=-1), SMALL * np.eye(2 * N).reshape(-1, N, 2)
    ends = (table[:, None] + sign * steps for sign in (1.0, -1.0))
    high, low = (algorithm(end[..., 0], end[..., 1]) for end in ends)
    return np.linalg.norm((high - low).reshape(-1, N, 2) / (2.0 * SMALL), axis=2)


def multipliers_fixed(x, y, multipliers):
    return by_differences(lambda a, t: balance(a, t, multipliers[:, None])[0], x, y)


def searched(x, y):
    """Multipliers that equalize the total leakage with themselves held fixed."""
    shape, x, y = x.shape, x.reshape(-1, N), y.reshape(-1, N)
    multipliers = np.ones(x.shape)
    for _ in range(100):
        total = multipliers_fixed(x, y, multipliers)
        ratio = total.mean(axis=1, keepdims=True) / total
        if np.abs(ratio - 1.0).max() < 1e-9:
            return multipliers.reshape(shape)
        multipliers *= np.sqrt(ratio)
    raise ValueError("The search should find its multipliers.")


# %%
# Both algorithms on seven draws of the data. Each states one level for all eight records. (The draw
# of seed 4 is left out: for it the search finds no multipliers.)
def true_over_stated(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1, N))
    y = x + rng.normal(size=(1, N))
    one = np.ones(x.shape)
    stated = {"IRFIL": balance(x, y, one)[1]}
    true = {"IRFIL": by_differences(lambda a, t: balance(a, t, np.ones(a.shape))[0], x, y)}
    stated["searched"] = multipliers_fixed(x, y, searched(x, y))
    true["searched"] = by_differences(lambda a, t: balance(a, t, searched(a, t))[0], x, y)
    if not all(np.ptp(each) < 1e-8 * each.mean() for each in stated.values()):
        raise ValueError("Both algorithms should make what they state equal.")
    return {name: (true[name] / stated[name])[0] for name in stated}


draws = [true_over_stated(seed) for seed in (0, 1, 2, 3, 5, 6, 7)]
for name in ("IRFIL", "searched"):
    print(f"{name:9} largest true / stated", *(f"{draw[name].max():6.2f}" for draw in draws))
if not all(draw["searched"].max() > 1.05 for draw in draws):
    raise ValueError("Some record should leak more than the search states.")

figure, ax = plt.subplots(figsize=(8.4, 3.9), layout="constrained")
for name, color, shift in (("IRFIL", COLORS["irfil"], -0.12), ("searched", "#b9770e", 0.12)):
    ratios = np.array([draw[name] for draw in draws])
    places = np.arange(1, len(draws) + 1)[:, None] + shift + np.zeros(ratios.shape)
    label = {"IRFIL": "IRFIL", "searched": "total equalized, multipliers held fixed"}[name]
    ax.plot(places.ravel(), ratios.ravel(), "o", color=color, ms=5, alpha=0.7, label=label)
ax.axhline(1.0, color="#1b2430", ls=":", label="level stated for all")
ax.set(yscale="log", xlabel="draw of eight records", ylabel="true / stated leakage")
ticks = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# Equal is what is stated; what is leaked is not. Some record of every draw leaks more than the
# search says, up to several times as much, and nothing tells beforehand how much more.
# ``benchmarks/bench_equal_total.py`` finds the same on real data. skleak offers no such search: it
# would print a number that is too small for some.
#
# Why the chain does not end
# --------------------------
# Let q(z) be what a record z of weight one does to the coefficients, in all ways: by its gradient,
# its part of the Hessian, and its part of the sum of weights. Under a weight omega(z) it does
# omega q, and what it leaks is the derivative of that product by z. Write the product as a length
# rho = omega \|q\| times a direction u = q / \|q\|. In the trace norm an equal leakage means
#
# .. math:: |\nabla \rho|^2 + \rho^2 |Du|^2 = \mathrm{level}^2 .
#
# This is no equation for the weights of the records that there are. It contains the slope of the
# weight, that is what it would be for records a little different, and so it has to hold for every
# record that there could be: a differential equation of first order (an eikonal equation).
#
# - IRFIL leaves the slope of omega out. One can put in the slope of IRFIL's weights and correct
#   them by it; but corrected weights have another slope. Each correction contains one more
#   derivative than the one before it, and leaks something else than what it was made for.
# - Nor is q given. How far a record moves the coefficients depends on how all weights answer when
#   the coefficients, the Hessian and the level move: on further slopes of the omega that is sought.
#
# So a solution would have to know the weight of all possible records under all possible fits at
# once, and we know of no finite system of equations that gives it. ``"total"`` takes another way: a
# rule simple enough to be differentiated exactly, which avoids the most of what makes IRFIL uneven.
