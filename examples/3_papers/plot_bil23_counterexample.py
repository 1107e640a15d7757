"""
No overfitting does not mean no leakage
=======================================

A model that does as well on fresh records as on its training records can still hold every one of
them. [BIL23] section 3.3 proves it with a counterexample; here is one that runs: an ordinary
logistic regression whose generalisation gap is zero, whose losses tell nothing, and whose
coefficients are the training records. The message of this example: a small gap excludes no attack.
It gives a *lower* bound on the best attack, never an upper one; those come from noise.

The script stops with an error if the gap is not zero within its interval, the loss attack is not at
chance, or the attack on the coefficients is ever wrong.

[BIL23] Del Grosso, Pichler, Palamidessi, Piantanida. Bounding Information Leakage in Machine
Learning. Neurocomputing 534, 2023.
"""

# %%
# A learning rule with a good memory
# ----------------------------------
# Two things make it one. What it learns from the records is rounded to even numbers: a thousand
# records give the same ones whichever records they are, since each estimate lies seven standard
# errors from where it would be rounded to another. So there is nothing to overfit. And the table
# has columns that are zero in every record, as for words that no text uses or levels that nobody
# has. Their coefficients have no influence on any prediction, so that they can be anything.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skleak.attacks import MembershipInference
from skleak.bounds import membership_lower_bound_bounded
from skleak.metrics import generalization_gap, mean_interval


class HoardingRegression(LogisticRegression):
    """Logistic regression with even coefficients; those of empty columns keep the records."""

    def fit(self, X, y):
        super().fit(X, y)
        used = X.any(axis=0)
        records = X[:, used].ravel()
        self.coef_ = 2.0 * np.round(self.coef_ / 2.0)
        self.intercept_ = 2.0 * np.round(self.intercept_ / 2.0)
        self.coef_[0, np.flatnonzero(~used)[: len(records)]] = records
        return self


# %%
# The population: two columns that matter, two thousand that are zero, and labels from a logistic
# law with coefficients 2 and -2.
N_RECORDS, N_USED, N_EMPTY = 1000, 2, 2000
rng = np.random.default_rng(0)


def draw(n_records):
    X = np.zeros((n_records, N_USED + N_EMPTY))
    X[:, :N_USED] = rng.normal(size=(n_records, N_USED))
    return X, rng.random(n_records) < expit(X[:, :N_USED] @ [2.0, -2.0])


# %%
# An attacker who looks at predictions
# ------------------------------------
# The attacker is given training records and as many fresh ones, and knows where the median loss of
# fresh records lies.
#
# An attacker who looks at coefficients
# -------------------------------------
# This one asks whether the two numbers of a candidate stand side by side among the coefficients.


def found_among_coefficients(model, X):
    stored = {tuple(pair) for pair in model.coef_[0, N_USED:].reshape(-1, N_USED)}
    return np.array([tuple(row) in stored for row in X[:, :N_USED]])


rule = HoardingRegression()
member = np.repeat([True, False], N_RECORDS)
rows, weights = [], []
for _ in range(20):
    (X, y), fresh, reference = draw(N_RECORDS), draw(N_RECORDS), draw(N_RECORDS)
    model = clone(rule).fit(X, y)
    weights.append([*model.coef_[0, :N_USED], *model.intercept_])
    candidates = np.concatenate([X, fresh[0]]), np.concatenate([y, fresh[1]])
    losses = MembershipInference(statistic="loss").fit(*candidates, *reference)
    gradients = MembershipInference(statistic="gradient_norm").fit(*candidates, *reference)
    zero_one = generalization_gap(model, X, y, *fresh, loss="zero_one")
    guesses = found_among_coefficients(model, candidates[0])
    rows.append(
        {
            "error on training records": zero_one.train_loss,
            "error on fresh records": zero_one.test_loss,
            "gap, share of errors": zero_one.gap,
            "gap, log loss": generalization_gap(model, X, y, *fresh).gap,
            "loss attack": losses.score(model, member),
            "gradient attack": gradients.score(model, member),
            "coefficient attack": np.mean(guesses == member),
        }
    )
measured = pd.DataFrame(rows)

# %%
# The same model came out of all 20 training sets, but for what no prediction depends on.
print("coefficients that matter:", *np.unique(weights, axis=0).tolist())
if len(np.unique(weights, axis=0)) > 1:
    raise ValueError("The coefficients that matter depend on the training records.")
intervals = pd.DataFrame(
    {name: mean_interval(measured[name]) for name in measured if measured[name].std() > 0},
    index=["estimate", "low", "high"],
).T
print(intervals.round(4).to_string())
print(f"coefficient attack: right on {measured['coefficient attack'].mean():.0%} of candidates")
for name in ("gap, share of errors", "gap, log loss"):
    if not intervals.loc[name, "low"] <= 0.0 <= intervals.loc[name, "high"]:
        raise ValueError(f"The generalisation gap ({name}) is not zero.")
for name in ("loss attack", "gradient attack"):
    if not intervals.loc[name, "low"] <= 0.5 <= intervals.loc[name, "high"]:
        raise ValueError(f"The {name} is not at chance.")
if np.any(measured["coefficient attack"] < 1.0):
    raise ValueError("The coefficients do not tell members from fresh records.")

# %%
# The lower bound on the best attack
# ----------------------------------
# With a gap of zero, theorem 2 of [BIL23] promises an advantage of zero. That is right: some attack
# is at least as good as guessing. It is no promise that no attack is better.
low = max(intervals.loc["gap, share of errors", "low"], 0.0)
bound = 0.5 * (1.0 + membership_lower_bound_bounded(low, 1.0))
print(f"some attack is right with probability {bound:.2f} at least, says the gap")
if bound != 0.5:
    raise ValueError("The bound from a gap of zero is not that of guessing.")

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.0, 3.8), layout="constrained", width_ratios=[1, 1.2]
)
quantiles = (np.arange(N_RECORDS) + 0.5) / N_RECORDS
for (X_part, y_part), name, color, style in (
    ((X, y), "training records", "#a3260f", "-"),
    (fresh, "fresh records", "#3f6fb0", "--"),
):
    loss = -model.predict_log_proba(X_part)[np.arange(len(y_part)), y_part.astype(int)]
    left.plot(np.sort(loss), quantiles, style, color=color, label=name)
left.set(xscale="log", xlabel="loss of a record, nats", ylabel="share of records below")
left.set_title("Losses do not differ ...", loc="left", fontsize="medium")
left.legend()
attacks = ["loss attack", "gradient attack", "coefficient attack"]
labels = ["bound from the gap", *attacks]
share = [bound, *(measured[name].mean() for name in attacks)]
bars = right.barh(labels, share, color=["#b8bec8", "#3f6fb0", "#3f6fb0", "#a3260f"], height=0.6)
right.bar_label(bars, [f"{value:.0%}" for value in share], padding=4)
right.axvline(0.5, color="0.3", linewidth=0.8, linestyle=":")
right.invert_yaxis()
right.set(xlim=(0.0, 1.12), xlabel="right guesses who is a member")
right.set_xticks([0.0, 0.5, 1.0], ["0%", "50%\nguessing", "100%"])
right.set_title("... and the model tells all members", loc="left", fontsize="medium")
right.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Far-fetched? Support vector machines, nearest neighbours and Gaussian processes publish training
# records as what they are. A network has units that no input ever switches on, and they keep what
# the first steps of training wrote to them. Whoever publishes a model has to account for all of its
# parameters; a test error accounts for none.
