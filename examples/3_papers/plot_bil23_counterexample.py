"""
No overfitting does not mean no leakage
=======================================

A model that does as well on fresh records as on its training records can still hold every one of
them. [BIL23] section 3.3 proves it with a counterexample; here is one that runs: an ordinary
logistic regression whose generalization gap is zero, whose losses tell nothing, and whose
coefficients are the training records. The message of this example: a small gap excludes no attack.
It gives a *lower* bound on the best attack, never an upper one; those come from noise.

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
from _reproduction import Reproduction
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
N_RECORDS, N_USED, N_EMPTY, N_MODELS = 1000, 2, 2000, 20
page = Reproduction(
    __file__,
    "BIL23",
    "section 3.3",
    "a model without a generalization gap that holds all of its records",
    "A counterexample of our own that runs, where the paper proves that one exists: 20 models of "
    "1,000 records.",
)


def draw(n_records, rng):
    """Records of the population, and their labels."""
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


def quantiles(model, X, y):
    """Losses of the records in order, every tenth of them."""
    loss = -model.predict_log_proba(X)[np.arange(len(y)), y.astype(int)]
    return np.sort(loss)[5::10]


def compute():
    """Attack the models; what all of them are, and the losses of the last."""
    rng = np.random.default_rng(0)
    member = np.repeat([True, False], N_RECORDS)
    rows, weights = [], []
    for _ in range(N_MODELS):
        (X, y), fresh, reference = (draw(N_RECORDS, rng) for _ in range(3))
        model = clone(HoardingRegression()).fit(X, y)
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
    return {
        "models": pd.DataFrame(rows),
        "weights": np.unique(weights, axis=0),
        "losses": {
            "training records": quantiles(model, X, y),
            "fresh records": quantiles(model, *fresh),
        },
    }


data = page.results(compute)
measured = pd.DataFrame(data["models"])

# %%
# The same model came out of all training sets, but for what no prediction depends on.
print("coefficients that matter:", *data["weights"])
if len(data["weights"]) > 1:
    raise ValueError("The coefficients that matter depend on the training records.")
intervals = pd.DataFrame(
    {name: mean_interval(measured[name]) for name in measured if measured[name].std() > 0},
    index=["estimate", "low", "high"],
).T
print(intervals.round(4).to_string())
for name in ("gap, share of errors", "gap, log loss"):
    low, high = intervals.loc[name, ["low", "high"]]
    near = intervals.loc[name, "estimate"]
    page.claim(f"generalization gap ({name[5:]})", "0", near, bool(low <= 0.0 <= high))
for name in ("loss attack", "gradient attack"):
    low, high = intervals.loc[name, ["low", "high"]]
    near = intervals.loc[name, "estimate"]
    page.claim(f"{name}, right guesses", "chance", near, bool(low <= 0.5 <= high))
perfect = measured["coefficient attack"].mean()
page.claim("attack on the coefficients, right guesses", "all", perfect, perfect == 1.0)

# %%
# The lower bound on the best attack
# ----------------------------------
# With a gap of zero, theorem 2 of [BIL23] promises an advantage of zero. That is right: some attack
# is at least as good as guessing. It is no promise that no attack is better.
low = max(intervals.loc["gap, share of errors", "low"], 0.0)
bound = 0.5 * (1.0 + membership_lower_bound_bounded(low, 1.0))
page.claim("what the gap says of the best attack, right guesses", "half", bound, bound == 0.5)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.0, 3.8), layout="constrained", width_ratios=[1, 1.2]
)
for (name, loss), color, style in zip(
    data["losses"].items(), ["#a3260f", "#3f6fb0"], ["-", "--"], strict=True
):
    shares = (np.arange(len(loss)) + 0.5) / len(loss)
    left.plot(loss, shares, style, color=color, label=name)
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
page.close()
plt.show()

# %%
# Far-fetched? Support vector machines, nearest neighbors and Gaussian processes publish training
# records as what they are. A network has units that no input ever switches on, and they keep what
# the first steps of training wrote to them. Whoever publishes a model has to account for all of its
# parameters; a test error accounts for none.
