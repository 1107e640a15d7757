"""
Membership in a linear regression, attacked and bounded
=======================================================

Whoever knows how a linear regression was trained can tell a record it was trained on from a fresh
one, and on Gaussian data the best way is known exactly ([BIL23] section 5). The message of this
example: the attack weakens as records are added, but slower than the generalization gap suggests,
and bounds from gap and from information leave it room on both sides.

The curves are those of [BIL23] figure 3, recomputed: d = 20 columns, 21 to 140 records, noise of
scale 1. The success is exact, by one-dimensional integrals, where the paper simulates it.

[BIL23] Del Grosso, Pichler, Palamidessi, Piantanida. Bounding Information Leakage in Machine
Learning. Neurocomputing 534, 2023.
"""

# %%
# The game
# --------
# A row of the design is drawn, and with it its training response or a fresh one. The attacker is
# given model, row and response, knows the true coefficients and the noise, and compares two
# densities: of the residual, smaller for members by as much as the leverage of the row says, and
# of the true error.
#
# The attacker in the authors' code is given the response, and not whose it is: it compares the
# means of the two densities over all rows. Both are played here.
import _bil23
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _reproduction import Reproduction
from scipy import stats

from skleak.attacks import GaussianLinearMembership
from skleak.bounds import generalization_gap_bound
from skleak.metrics import binomial_interval

N_COLUMNS, TRIALS, CLIPS = 20, 20_000, (0.25, 1.0, 4.0)
SIZES = [21, 40, 60, 80, 100, 120, 140]
page = Reproduction(
    __file__,
    "BIL23",
    "figure 3",
    "membership in a linear regression on Gaussian data, exactly",
    "Drawn as in the paper: 20 columns, 21 to 140 records. 20,000 games, where the data files of "
    "the authors' code, which are what is compared with, hold 1,000.",
)


def rows_unknown(attack, X, coef, rng):
    """Share of right guesses of who does not know which row the response belongs to."""
    theta, _, response, member = attack.sample(TRIALS, random_state=rng)
    residual, error = response[:, None] - theta @ X.T, response[:, None] - X @ coef
    scale = np.sqrt(1.0 - attack.leverages_)
    inside = stats.norm.pdf(residual, scale=scale).mean(axis=1)
    return int(np.sum((inside > stats.norm.pdf(error).mean(axis=1)) == member))


def clipped_mean(variance, clip):
    """Mean of a squared normal error of that variance, cut at ``clip``."""
    ratio = clip / variance
    return variance * stats.chi2.cdf(ratio, 3) + clip * stats.chi2.sf(ratio, 1)


def compute():
    """Exact success, simulations, bounds, and gaps of the cut loss, for every size."""
    rng = np.random.default_rng(0)
    rows = []
    for size in SIZES:
        X, coef = rng.normal(size=(size, N_COLUMNS)), rng.normal(size=N_COLUMNS)
        attack = GaussianLinearMembership(sigma=1.0, coef=coef).fit(X)
        theta, row, response, member = attack.sample(TRIALS, random_state=rng)
        lower, upper = attack.expected_score_bounds()
        found = {
            "records": size,
            "attack, exact": attack.expected_score().mean(),
            "right": int(np.sum(attack.predict(theta, row, response) == member)),
            "right, row unknown": rows_unknown(attack, X, coef, rng),
            "bound from the gap": lower,
            "bound from the information": upper,
            "gap": attack.generalization_gap(),
            # About a member: that about a record that is one at even odds is half of it.
            "information": 2.0 * attack.mutual_information(),
        }
        for clip in CLIPS:
            train = clipped_mean(1.0 - attack.leverages_, clip).mean()
            found[f"train, cut at {clip}"] = train
            fresh = clipped_mean(1.0 + attack.leverages_, clip).mean()
            found[f"gap, cut at {clip}"] = fresh - train
        rows.append(found)
    return {"table": pd.DataFrame(rows)}


table = pd.DataFrame(page.results(compute)["table"]).set_index("records")
for size, row in table.iterrows():
    simulated = binomial_interval(int(row["right"]), TRIALS, 0.999)
    if not simulated.low <= row["attack, exact"] <= simulated.high:
        raise ValueError(f"The simulation misses the exact success with {size} records.")
    if not row["bound from the gap"] <= row["attack, exact"] <= row["bound from the information"]:
        raise ValueError(f"A bound does not hold with {size} records.")

# %%
# The lower bound
# ---------------
# The paper prints 0.540, 0.517, 0.509, 0.504, 0.502, 0.500 and 0.499. A bound for losses of either
# sign with the tail ``2 exp(-R / 2)`` under both laws, clipped at 10 for any number of records,
# gives all of these digits. A squared error is not negative, which halves its range, and the best
# clip follows from its tail: the bound is then larger everywhere, and never below one half. (Fresh
# errors have a heavier tail than that, as the model adds a variance of its own; the bound here
# counts it.)
gap, cut = table["gap"], 10.0
table["bound as printed"] = 0.5 + (gap - 4.0 * (cut + 2.0) * np.exp(-cut / 2.0)) / (4.0 * cut)
PRINTED = ("0.540", "0.517", "0.509", "0.504", "0.502", "0.500", "0.499")
for size, printed in zip(SIZES, PRINTED, strict=True):
    page.number(f"{size} records: bound from the gap", printed, table["bound as printed"][size])
    better = table["bound from the gap"][size]
    page.claim(
        f"{size} records: the sharper bound from the gap", "at least this", better,
        better >= table["bound as printed"][size],
    )  # fmt: skip
for size, published in zip(SIZES, _bil23.FIGURE_3, strict=True):
    blind = table["right, row unknown"][size] / TRIALS
    variances = published * (1.0 - published) / 1000 + blind * (1.0 - blind) / TRIALS
    limit = 3.0 * float(np.sqrt(variances))
    page.number(
        f"{size} records: success, row unknown", published, blind, limit, source=_bil23.SOURCE,
        why="" if abs(blind - published) <= limit else "beyond the chance of 1,000 games",
    )  # fmt: skip
    known = table["attack, exact"][size]
    page.number(f"{size} records: success, row known, exact", None, known, source="ours")
print(table[["bound as printed", "bound from the gap", "attack, exact"]].round(3).to_string())

# %%
# From the information to the gap
# -------------------------------
# The other way round: the information that the model holds about a record bounds the gap
# ([BIL23] equation 26). It needs a loss with a range, so that the squared error is cut; the gap of
# the cut error and the information are both known exactly.
for clip in CLIPS:
    information, train = table["information"], table[f"train, cut at {clip}"]
    table[f"bound, cut at {clip}"] = generalization_gap_bound(information, clip, train)
    allowed = generalization_gap_bound(information, clip)
    held = table[f"gap, cut at {clip}"] <= table[f"bound, cut at {clip}"]
    page.claim(
        f"gap of the squared error cut at {clip}, over its bound from the information (largest)",
        "at most 1",
        float((table[f"gap, cut at {clip}"] / table[f"bound, cut at {clip}"]).max()),
        bool(held.all() and np.all(table[f"bound, cut at {clip}"] <= allowed)),
    )

# %%
# With 20 columns on 21 records the model goes nearly through its training data, and the attack that
# knows the row is right almost nine times in ten; with seven records a column, 56 times in a
# hundred. Not to know the row costs most of that; the bound from the gap is about who knows it. The
# gap of the cut error takes up to four fifths of what the information allows.
figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, 4.4), layout="constrained")
table["attack, simulated"] = table["right"] / TRIALS
table["row unknown"] = table["right, row unknown"] / TRIALS
styles = {
    "bound from the information": "--",
    "attack, exact": "-",
    "attack, simulated": "o",
    "row unknown": "s-",
    "bound from the gap": "--",
    "bound as printed": ":",
}
for name, style in styles.items():
    left.plot(table.index, table[name], style, label=name, markersize=4)
left.plot(SIZES, _bil23.FIGURE_3, "kx", label="row unknown, published")
left.axhline(0.5, color="0.7", linewidth=0.8)
left.set(xlabel="number of records", ylabel="probability that the guess is right")
left.set_title("The exact attack lies between its bounds", loc="left", fontsize="medium")
left.legend(fontsize="small")
for clip, color in zip(CLIPS, ["#3f6fb0", "#a3260f", "#4b7d3a"], strict=True):
    right.plot(table.index, table[f"bound, cut at {clip}"] / clip, "--", color=color)
    right.plot(
        table.index, table[f"gap, cut at {clip}"] / clip, "-", color=color, label=f"cut at {clip}"
    )
right.plot([], [], "--", color="0.4", label="bound from the information")
right.set(xlabel="number of records", ylabel="gap, as a share of the range", ylim=(0.0, None))
right.set_title("The information bounds the gap", loc="left", fontsize="medium")
right.legend(fontsize="small")
page.close()
plt.show()

# %%
# The record behind the average
# -----------------------------
# The success on a row depends on its leverage alone.
X = np.random.default_rng(1).normal(size=(60, N_COLUMNS))
X[0] *= 4.0
attack = GaussianLinearMembership(sigma=1.0, coef=np.zeros(N_COLUMNS)).fit(X)
success = attack.expected_score()
order = np.argsort(attack.leverages_)
_, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
ax.plot(attack.leverages_[order], success[order], "o-", markersize=3)
ax.set(xlabel="leverage of the row", ylabel="probability that the guess is right")
ax.set_title("Rows far from the others are told apart", fontsize="medium")
print(f"success {success.min():.2f} to {success.max():.2f}, {success.mean():.2f} on average")
plt.show()
