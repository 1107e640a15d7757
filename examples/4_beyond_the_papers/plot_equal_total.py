"""
Why no weights equalise what is leaked
======================================

IRFIL weighs records so that all would leak the same if the weights were constants. They are
functions of the data, and in total some records leak more than others (see
:ref:`sphx_glr_auto_examples_4_beyond_the_papers_plot_total_leakage.py`). Why not equalise the
total, then? Because weights that do are functions of the data as well, in a new way, and the total
leakage of *that* algorithm is another one. What was equalised is once more not what is leaked.

This script shows it on eight records and two columns, where every derivative can be taken by
differences of the whole algorithm, with nothing held fixed. ``benchmarks/bench_equal_total.py``
finds the same on real data; so skleak offers no such reweighting: it would print a number that is
too small for some.
"""

# %%
# Fits, many at a time
# --------------------
# Ridge regression whose weights are ``m_i / kappa_i``: kappa is the leakage of a record at weight
# 1, with the weights as constants, and m are multipliers. All ones make it IRFIL. Data sets are
# stacked, so that all differences are taken at once.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

ALPHA, STEP = 0.1, 1e-4


def balance(X, y, multipliers):
    """Coefficients, shape (b, p), and weights times kappa, (b, n), of b data sets."""
    n, p = X.shape[1:]
    weights = np.ones(y.shape)
    for _ in range(400):
        hessian = np.einsum("bn,bni,bnj->bij", weights, X, X) + n * ALPHA * np.eye(p)
        moment = np.einsum("bn,bni,bn->bi", weights, X, y)
        w = np.linalg.solve(hessian, moment[..., None])[..., 0]
        residual = np.einsum("bni,bi->bn", X, w) - y
        own = residual[..., None, None] * np.eye(p) + X[..., :, None] * w[:, None, None, :]
        jacobians = np.linalg.solve(hessian[:, None], np.concatenate([own, -X[..., None]], axis=3))
        kappa = np.sqrt((jacobians**2).sum(axis=(2, 3)))
        target = multipliers / kappa
        target *= n / target.sum(axis=1, keepdims=True)
        if np.abs(target / weights - 1.0).max() < 1e-13:
            break
        weights = np.sqrt(weights * target)
    return w, weights * kappa


def moved(X, y):
    """All data sets with one entry of one record a step higher or lower."""
    n, p = X.shape[1:]
    table = np.concatenate([X, y[..., None]], axis=2)
    steps = STEP * np.eye(n * (p + 1)).reshape(-1, n, p + 1)
    tables = table[:, None, None] + np.stack([steps, -steps], axis=1)[None]
    tables = tables.reshape(-1, n, p + 1)
    return tables[..., :p], tables[..., p]


def leakage(algorithm, X, y):
    """Frobenius norm of the derivative of an algorithm by each record, shape (b, n)."""
    b, n, p = X.shape
    w = algorithm(*moved(X, y)).reshape(b, n, p + 1, 2, p)
    return np.linalg.norm((w[:, :, :, 0] - w[:, :, :, 1]) / (2.0 * STEP), axis=(2, 3))


# %%
# Two algorithms
# --------------
# IRFIL, and the search for multipliers at which the total leakage of the fit *with these
# multipliers* is equal.
def irfil(X, y):
    return balance(X, y, np.ones(y.shape))[0]


def frozen_leakage(X, y, multipliers):
    """Total leakage of the balanced fit, with the multipliers held fixed."""
    n, p = X.shape[1:]
    same = np.repeat(multipliers, 2 * n * (p + 1), axis=0)
    return leakage(lambda A, t: balance(A, t, same)[0], X, y)


def searched(X, y):
    """Multipliers that equalise the leakage with themselves held fixed."""
    multipliers = np.ones(y.shape)
    for _ in range(60):
        total = frozen_leakage(X, y, multipliers)
        ratio = total.mean(axis=1, keepdims=True) / total
        if np.abs(ratio - 1.0).max() < 1e-9:
            break
        multipliers *= np.sqrt(ratio)
    return multipliers


def equal_total(X, y):
    return balance(X, y, searched(X, y))[0]


# %%
# What they state, and what they leak
# -----------------------------------
# IRFIL states one level for all records, the search another one. What a record leaks in truth is
# the difference of everything: weights, multipliers, coefficients. On some draws of the data no
# record leaks more than the search states; nothing tells beforehand.
rng = np.random.default_rng(4)
X = rng.normal(size=(1, 8, 2))
y = X @ rng.normal(size=2) + rng.normal(size=(1, 8))
stated = {
    "IRFIL": balance(X, y, np.ones(y.shape))[1][0],
    "total equalised": frozen_leakage(X, y, searched(X, y))[0],
}
true = {"IRFIL": leakage(irfil, X, y)[0], "total equalised": leakage(equal_total, X, y)[0]}
table = pd.DataFrame(
    {
        name: {
            "stated level": stated[name].mean(),
            "spread of the stated": np.ptp(stated[name]) / stated[name].mean(),
            "least true / stated": (true[name] / stated[name]).min(),
            "largest true / stated": (true[name] / stated[name]).max(),
            "largest true": true[name].max(),
        }
        for name in stated
    }
)
print(table.to_string(float_format="{:.3g}".format))
if not (table.loc["spread of the stated"] < 1e-8).all():
    raise ValueError("Both algorithms should make what they state equal.")
if not (table.loc["largest true / stated"] > 1.05).all():
    raise ValueError("Some record should leak more than is stated.")

# %%
# Equal is what is stated; what is leaked is not.
figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.9), sharey=True, layout="constrained")
colors = {"IRFIL": "#3f6fb0", "total equalised": "#a3260f"}
for ax, (name, color) in zip(axes, colors.items(), strict=True):
    order, level = np.argsort(true[name]), stated[name].mean()
    records = np.arange(1, len(order) + 1)
    ax.vlines(records, level, true[name][order], color=color, lw=1.4)
    ax.plot(records, true[name][order], "o", color=color, label="what it leaks in truth")
    ax.axhline(level, color="#1b2430", ls=":", label="level stated for all")
    ax.set_title(name, loc="left", fontsize=11)
    ax.set(xlabel="record, by what it leaks", xticks=records)
    ax.legend(frameon=False, loc="lower right")
axes[0].set_ylim(0.0, 1.05 * max(each.max() for each in true.values()))
axes[0].set_ylabel("leakage at unit noise")
plt.show()
