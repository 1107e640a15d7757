"""
Census records: who is at risk, and what reweighting does about it
==================================================================

[FIL21] figure 7 c-d plays on UCI Adult what its panels a-b play on doses of warfarin: a linear
model of income is published, and an attacker who knows all but one value guesses whether a person
is married. Panel c follows the mean leakage of that value, and its spread between persons, over
steps of iteratively reweighted Fisher information loss (IRFIL). Panel d sorts persons into ten
groups by their leakage under the plain model, and shows how often the attack is right in each,
after 0, 2 and 10 steps.

This script recomputes both, and adds a curve that the paper has not: with two values the success of
the attack is a function of one distance, so every point of panel d is known exactly as well.

[FIL21] Hannun, Guo, van der Maaten. Measuring Data Leakage in Machine-Learning Models with Fisher
Information. UAI 2021.
"""

# %%
# The settings of the paper
# -------------------------
# As in the published scripts of the authors: complete records; marital status merged into one 0/1
# column; relationship left out; nominal columns one-hot, their last level dropped; numbers
# standardized; income as -1 and +1; no intercept; penalty 1e-3; noise of scale 1e-3; 100 releases.
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _reproduction import Reproduction
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning

from skleak.datasets import fetch_adult
from skleak.exceptions import UnevenLeakageWarning
from skleak.influence import candidate_encodings
from skleak.linear_model import IRFIL, PrivateLinearRegression

NOISE_SCALE, N_RELEASES, STEPS = 1e-3, 100, (0, 2, 10)
SECRET = "unmarried"
page = Reproduction(
    __file__,
    "FIL21",
    "figure 7 c-d",
    "leakage of marital status over steps of IRFIL, and attacks by decile",
    "All 30,162 complete training records, all of them attacked, 100 releases, as in the paper.",
)


def load():
    """Columns as the authors have them, and income as -1 and +1."""
    people, income = fetch_adult(return_X_y=True)
    numeric = people.select_dtypes("int64").drop(columns="married")
    parts = [(numeric - numeric.mean()) / numeric.std()]
    nominal = people.select_dtypes("category").drop(columns=["marital-status", "relationship"])
    for name, column in nominal.items():
        parts.append(pd.get_dummies(column, prefix=name, dtype=float).iloc[:, :-1])
    parts.append((1.0 - people["married"]).rename(SECRET))
    return pd.concat(parts, axis=1), np.where(income == ">50K", 1.0, -1.0)


def fit(X, y, weights=None, **options):
    """The model of the paper, at noise 1: leakage at another noise follows."""
    model = PrivateLinearRegression(1.0, alpha=1e-3, fit_intercept=False, **options)
    return model.fit(X, y, sample_weight=weights)


# %%
# One run
# -------
# The attacker takes the weights of IRFIL as given, as in the paper: they are the weights of an
# ordinary fit. The model is trained with either value of each person, and the guess is the value
# whose coefficients are nearer to the released ones. All persons share the noise of a release.


def attack(X, y, weights, rng):
    """Right guesses of shape (releases, persons), and their probabilities."""
    model = fit(X, y, weights)
    rows = np.arange(len(y))
    encodings = candidate_encodings(model, X, y, SECRET, [0.0, 1.0], rows=rows)
    truth = X[SECRET].to_numpy().astype(int)
    gap = encodings[rows, 1 - truth] - encodings[rows, truth]
    noise = NOISE_SCALE * rng.normal(size=(N_RELEASES, gap.shape[1]))
    squares = np.einsum("ij,ij->i", gap, gap)
    right = noise @ gap.T < 0.5 * squares
    return right, ndtr(0.5 * np.sqrt(squares) / NOISE_SCALE)


def reweighted(X, y, steps):
    """Leakage of the secret after some steps, its weights held fixed, and those weights."""
    if steps == 0:
        return fit(X, y).fisher_information_loss(features=[SECRET]), np.ones(len(y))
    method = IRFIL(features=[SECRET], method="plain", max_iter=steps)
    with warnings.catch_warnings():
        # The search is cut off after each number of steps to see how far it has come.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UnevenLeakageWarning)
        model = fit(X, y, reweighting=method)
    losses = model.fisher_information_loss(features=[SECRET], conditional=True)
    return losses, model.sample_reweights_


def compute():
    """Both panels."""
    X, y = load()
    rng = np.random.default_rng(0)
    panel_c, panel_d = {"mean": [], "deviation": []}, {}
    for steps in range(11):
        losses, weights = reweighted(X, y, steps)
        panel_c["mean"].append(losses.mean())
        panel_c["deviation"].append(losses.std())
        if steps == 0:
            deciles = np.array_split(np.argsort(losses, kind="stable"), 10)
        if steps in STEPS:
            right, chance = attack(X, y, weights, rng)
            shares = np.array([right[:, decile].mean(axis=1) for decile in deciles])
            panel_d[steps] = {
                "mean": shares.mean(axis=1),
                "deviation": shares.std(axis=1),
                "exact": [chance[decile].mean() for decile in deciles],
                "all": right.mean(),
            }
    return {"c": panel_c, "d": panel_d}


found = page.results(compute)
panel_c, panel_d = found["c"], {int(steps): part for steps, part in found["d"].items()}

# %%
# What can be compared
# --------------------
# The paper prints no number beside these panels, and its curves could not be looked at here.
for steps in (0, 2, 9):
    page.number(f"(c) mean leakage after {steps} steps, noise 1", None, panel_c["mean"][steps])
    page.number(f"(c) its deviation after {steps} steps", None, panel_c["deviation"][steps])
for steps, part in panel_d.items():
    for name, place in (("least", 0), ("most", -1)):
        what = f"(d) right guesses in the decile that leaks {name}, after {steps} steps"
        page.number(what, None, part["mean"][place])
standard_errors = [
    np.abs(np.subtract(part["mean"], part["exact"]))
    / (np.array(part["deviation"]) / np.sqrt(N_RELEASES))
    for part in panel_d.values()
]
page.claim(
    "(d) simulated attack against its exact success: largest difference in standard errors",
    "chance",
    np.max(standard_errors),
    np.max(standard_errors) < 4.0,
    source="formula",
    why="up to four standard errors count as chance",
)

# %%
# After ten steps all lose the same, and the attack is right about all equally often, as far as the
# weights are given. Under the plain model it is not.
ranges = {steps: np.ptp(part["exact"]) for steps, part in panel_d.items()}
print("range over deciles:", {steps: round(float(value), 3) for steps, value in ranges.items()})
if ranges[10] > 0.2 * ranges[0]:
    raise ValueError("The risk is not spread evenly after reweighting.")
if panel_c["deviation"][10] > 0.05 * panel_c["deviation"][0]:
    raise ValueError("The losses are not equal after reweighting.")

figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
mean, deviation = np.array(panel_c["mean"][:10]), np.array(panel_c["deviation"][:10])
axes[0].plot(mean, "s-", color="#3f6fb0")
axes[0].fill_between(range(10), mean - deviation, mean + deviation, color="#3f6fb0", alpha=0.15)
axes[0].set(xlabel="steps of IRFIL", ylabel="mean leakage of the secret, noise 1", title="(c)")
for (steps, part), color in zip(panel_d.items(), ("#a3260f", "#d98324", "#3f6fb0"), strict=True):
    mean, deviation = np.array(part["mean"]), np.array(part["deviation"])
    places = np.arange(1, 11)
    axes[1].plot(places, mean, "s", color=color, ms=4, label=f"after {steps} steps")
    axes[1].plot(places, part["exact"], "-", color=color, lw=1.2)
    axes[1].fill_between(places, mean - deviation, mean + deviation, color=color, alpha=0.15)
axes[1].set(xlabel="decile of persons by leakage, least first", title="(d)")
axes[1].set_ylabel("share of right guesses (lines: exact)")
axes[1].legend(frameon=False)
page.close()
plt.show()
