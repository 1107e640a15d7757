"""
Whose handwriting is this? What a digit classifier knows of its writers
=======================================================================

A network recognises digits from the movement of a pen, and one of its inputs says who of 44 persons
is writing. An attacker who has such a digit, but for the writer, asks the network 44 times and
guesses the writer under whom the network is most certain of the digit. The message of this example:
on a network trained on 100 digits that works fifteen times as well as guessing, although on digits
it was not trained on it hardly works at all. The difference is what the network leaks about its
training records, and it shrinks as they become more.

The curves are those of [BIL23] figure 5, on the PenDigits data with a plain network. The script
stops with an error if the attack does not fall with the number of training records, training
records are not easier to guess than others, or no membership attack reaches the bound.
``python plot_bil23_figure5.py --full`` trains more networks.

[BIL23] Del Grosso, Pichler, Palamidessi, Piantanida. Bounding Information Leakage in Machine
Learning. Neurocomputing 534, 2023.
"""

# %%
# The records
# -----------
# The movement of the pen at 32 points, the number of strokes, the duration, and the writer.
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter, PercentFormatter
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.attacks import BlackBoxAttributeInference, MembershipInference
from skleak.bounds import membership_lower_bound_bounded
from skleak.datasets import fetch_pendigits
from skleak.metrics import generalization_gap, mean_interval

X = fetch_pendigits().frame
y = X.pop("digit").to_numpy()
WRITERS = X["writer"].cat.categories.to_numpy()
print(f"{len(y)} digits of {len(WRITERS)} writers; columns {', '.join([*X.columns[-3:]])} and")
print(f"{', '.join([*X.columns[:2]])} ... {X.columns[63]}")

# %%
# The network
# -----------
# It is scikit-learn's, as it comes: one layer of 100 units, trained until its loss stops falling,
# by when every training record is classified right. The numbers are standardised, the writer is
# one-hot. None of this was chosen with a view to the attack. What changes the result: where pen
# movements are not standardised the writer weighs less among the inputs, and between a fifth and a
# quarter are guessed from 100 records instead of a third; two layers of 200 and 100 units make
# little difference.
model = make_pipeline(
    make_column_transformer(
        (OneHotEncoder(categories=[WRITERS], sparse_output=False), ["writer"]),
        remainder=StandardScaler(),
    ),
    MLPClassifier((100,), max_iter=1000),
)

# %%
# The attacks
# -----------
# Three criteria of [BIL23]: the writer under whom the digit has the largest probability, the writer
# under whom the gradient of the loss is smallest, and the first writer under whom the digit is
# predicted right. All writers are equally likely beforehand. Control records are digits of the
# same writers that the network has never seen, attacked in the same way.
#
# Beside it, the question of membership: which records was the network trained on? The threshold on
# the loss comes from the next network, trained by the attacker.
CRITERIA = ["likelihood", "gradient", "accuracy"]
N_TARGETS = 1000
n_networks = {100: 20, 300: 10, 1000: 6, 3000: 5, 8000: 4}
if "--full" in sys.argv:
    n_networks = {100: 100, 300: 50, 1000: 20, 3000: 20, 8000: 10}


def writers_guessed(network, records):
    """Share of records whose writer is guessed right, by criterion."""
    attack = BlackBoxAttributeInference(network, "writer", values=WRITERS, prior="uniform")
    attack.fit(X.iloc[records], y[records])
    truth = X["writer"].iloc[records].to_numpy()
    # The last step alone is asked, so that every candidate is preprocessed once for all criteria.
    return {c: attack.set_params(criterion=c).score(network[-1], truth) for c in CRITERIA}


def best_threshold(network, candidates, member):
    """Threshold on the loss that is right most often about a network whose members are known."""
    attack = MembershipInference(statistic="loss").fit(X.iloc[candidates], y[candidates])
    false_alarms, hits, thresholds = attack.roc_curve(network, member)
    return float(np.nan_to_num(thresholds[np.argmax(hits - false_alarms)]))


measured = []
for size, wanted in n_networks.items():
    games = []
    for seed in range(wanted):
        order = np.random.default_rng([size, seed]).permutation(len(y))
        members, control = order[:size], order[size : size + N_TARGETS]
        network = clone(model).set_params(mlpclassifier__random_state=seed)
        network.fit(X.iloc[members], y[members])
        few = min(size, N_TARGETS)
        candidates = np.concatenate([members[:few], control[:few]])
        games.append((network, candidates, np.arange(2 * few) < few))
        found = {"records": size} | writers_guessed(network, members[:few])
        found |= {f"{c}, control": s for c, s in writers_guessed(network, control).items()}
        gap = generalization_gap(
            network, X.iloc[members], y[members], X.iloc[order[size:]], y[order[size:]], "zero_one"
        )
        found |= {"gap": gap.gap, "training error": gap.train_loss, "error": gap.test_loss}
        measured.append(found)
    for k, (network, candidates, member) in enumerate(games):
        threshold = best_threshold(*games[(k + 1) % wanted])
        attack = MembershipInference(statistic="loss", threshold=threshold).fit(
            X.iloc[candidates], y[candidates]
        )
        measured[k - wanted]["membership"] = attack.score(network, member)
measured = pd.DataFrame(measured)

# %%
# Intervals are over networks, each with training records of its own drawn from the 10,992. The leak
# is what the attack by likelihood gains on training records over control records.
measured["leak"] = measured["likelihood"] - measured["likelihood, control"]
table = {}
for size, group in measured.groupby("records"):
    table[size] = {name: mean_interval(group[name]) for name in group.columns[1:]}
sizes = np.array(list(table))


def of(name, part="estimate"):
    return np.array([getattr(table[size][name], part) for size in sizes])


bound = 0.5 * (1.0 + membership_lower_bound_bounded(np.maximum(of("gap"), 0.0), 1.0))
print(f"networks of a size: {[*n_networks.values()]}; guessing: {1.0 / len(WRITERS):.3f}")
columns = {name: of(name) for name in measured.columns[1:]} | {"bound from the gap": bound}
print(pd.DataFrame(columns, index=pd.Index(sizes, name="records")).round(3).T.to_string())
print("leak, from", *of("leak", "low").round(3), "to", *of("leak", "high").round(3))
# From 3,000 to 8,000 records little changes, so that chance decides which is larger.
for name in ("likelihood", "gradient", "leak"):
    if np.any(np.diff(of(name)[:4]) > 0.0):
        raise ValueError(f"The success ({name}) does not fall with more training records.")
if np.any(of("leak", "low")[:3] <= 0.0):
    raise ValueError("Training records are not easier to guess than control records.")
if not 0.2 <= of("likelihood")[0] <= 0.5 or of("likelihood")[-1] > 0.1:
    raise ValueError("The attack is far from the published one.")
if np.any(of("membership", "high") < bound):
    raise ValueError("The membership attack does not reach the bound.")

# %%
# From 100 records one writer in three is guessed right, from 8,000 one in 16; guessing is right
# once in 44. In [BIL23] it is 25 to 33 percent and 5 to 8 percent, with a network of their own.
#
# On control records it works twice as often as guessing: persons write one digit more like
# themselves than another, and the network has learned that. It is what can be said of anyone in the
# population; what is above it concerns the training records alone. With 8,000 records it is one in
# a hundred, and no longer told from nothing by these few networks.
#
# Accuracy is no criterion for a network like this: it predicts the right digit under nearly every
# writer, and the first of them is guessed. That an attack fails says nothing about the model.
#
# Membership tells the same story. The gap is below one percent from 3,000 records on, and the bound
# next to nothing. The attack on the loss is above it, until with 8,000 records neither can be told
# from guessing.
figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")


def draw(ax, name, shift=1.0, **style):
    ends = np.abs(np.stack([of(name, "low"), of(name, "high")]) - of(name))
    ax.errorbar(sizes * shift, of(name), ends, capsize=3, ms=4, **style)


draw(left, "likelihood", 0.97, fmt="o-", color="#a3260f", label="likelihood, training records")
draw(left, "gradient", 1.03, fmt="s-", color="#d98c2b", label="gradient, training records")
draw(left, "likelihood, control", 0.97, fmt="o--", color="#3f6fb0", label="likelihood, control")
draw(left, "gradient, control", 1.03, fmt="s--", color="#7fa6d6", label="gradient, control")
draw(left, "accuracy", fmt=".:", color="0.5", label="accuracy, training records")
left.axhline(1.0 / len(WRITERS), color="0.3", linewidth=0.8)
left.annotate(
    "guessing", (sizes[0], 0.0), (0, 1), textcoords="offset points", color="0.3", fontsize="small"
)
left.set(ylabel="writers guessed right", ylim=(0.0, None))
left.set_title("Who wrote a digit: training records give it away", loc="left", fontsize="medium")
right.fill_between(sizes, 0.5, bound, color="#3f6fb0", alpha=0.15, linewidth=0)
right.plot(sizes, bound, "--", color="#3f6fb0", label="some attack, at least: bound from the gap")
draw(right, "membership", fmt="o-", color="#a3260f", label="loss")
right.axhline(0.5, color="0.6", linewidth=0.8)
right.set(ylabel="members and others told apart", ylim=(0.48, None))
right.set_title("Which digits it was trained on", loc="left", fontsize="medium")
for ax in (left, right):
    ax.set_xscale("log")
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("training records")
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.legend(fontsize="small")
plt.show()
