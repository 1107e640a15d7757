"""
Which images was a network trained on?
======================================

A network that does better on its training images than on fresh ones gives away which they are. By
how much at least is a theorem: half plus half the generalisation gap is the share of right guesses
that some attack reaches ([BIL23] theorem 2). The message of this example: with more training images
the gap falls, and with it the attacks; but attacks that look at the loss, and not only at right and
wrong, see much more than the gap says.

The curves are those of [BIL23] figure 4, for the ten digits of MNIST and a plain network. The
script stops with an error if gap or attack do not fall with the number of images, or no attack
reaches the bound. ``python plot_bil23_figure4.py --data PATH.npz`` takes other images, such as
Fashion-MNIST or CIFAR-10, from arrays ``x_train``, ``y_train``, ``x_test`` and ``y_test``;
``--full`` trains more networks.

[BIL23] Del Grosso, Pichler, Palamidessi, Piantanida. Bounding Information Leakage in Machine
Learning. Neurocomputing 534, 2023.
"""

# %%
# The images
# ----------
import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter, PercentFormatter
from sklearn.neural_network import MLPClassifier

from skleak.attacks import MembershipInference
from skleak.bounds import membership_lower_bound_bounded
from skleak.datasets import fetch_mnist
from skleak.metrics import generalization_gap, mean_interval

parser = argparse.ArgumentParser()
parser.add_argument("--data", help="npz file of other images", metavar="PATH.npz")
parser.add_argument("--full", action="store_true", help="train more networks")
options = parser.parse_args()

if options.data:
    with np.load(options.data) as arrays:
        X = np.concatenate([arrays["x_train"], arrays["x_test"]])
        y = np.concatenate([arrays["y_train"], arrays["y_test"]]).ravel()
    X = X.reshape(len(X), -1) / np.float32(255.0)
else:
    X, y = fetch_mnist(None, return_X_y=True)
    X = X.astype(np.float32)
print(f"{len(y)} images of {X.shape[1]} numbers, {len(np.unique(y))} classes")

# %%
# The game
# --------
# A network is trained on some of the images, until its loss stops falling. The attacker is shown
# its training images and as many fresh ones, at most 2,000 of each, and says of every one whether
# the network was trained on it. The network is scikit-learn's, as it comes: one layer of 100 units.
# No two networks of a size share an image.
#
# A score says how well the network fits an image; those above a threshold are called members. The
# attacker finds the threshold on a network of its own, trained on other images in the same way: the
# one that would have been right most often there (Shokri et al. 2017). "loss, half" does without:
# it calls everything a member that fits better than the median of fresh images does.
SCORES = {"loss": "loss", "modified_entropy": "modified entropy", "gradient_norm": "gradient norm"}
N_CANDIDATES = 2000
n_networks = {100: 20, 300: 10, 1000: 6, 3000: 5, 10_000: 5}
if options.full:
    n_networks = {100: 100, 300: 50, 1000: 20, 3000: 10, 10_000: 5, 20_000: 2}


def train(records, seed):
    """Network, its candidates and which of them are members, from training and fresh images."""
    members, fresh = records
    network = MLPClassifier((100,), max_iter=1000, random_state=seed).fit(X[members], y[members])
    candidates = np.concatenate([members[: len(fresh)], fresh])
    return network, candidates, np.arange(len(candidates)) < len(fresh)


def best_threshold(score, network, candidates, member):
    """Threshold that is right most often about a network whose members are known."""
    attack = MembershipInference(statistic=score).fit(X[candidates], y[candidates])
    false_alarms, hits, thresholds = attack.roc_curve(network, member)
    return float(np.nan_to_num(thresholds[np.argmax(hits - false_alarms)]))


def success(score, threshold, network, candidates, member, *reference):
    """Share of right guesses, half of them about members."""
    attack = MembershipInference(statistic=score, threshold=threshold).fit(
        X[candidates], y[candidates], *reference
    )
    return attack.score(network, member)


rng = np.random.default_rng(0)
measured = []
for size, wanted in n_networks.items():
    block = size + min(size, N_CANDIDATES)
    order = rng.permutation(len(y))[: len(y) // block * block].reshape(-1, block)[:wanted]
    if len(order) < 2:
        print(f"too few images for two networks with {size:,} of them each")
        continue
    games = [train((row[:size], row[size:]), seed) for seed, row in enumerate(order)]
    for k, (row, game) in enumerate(zip(order, games, strict=True)):
        members, fresh = row[:size], row[size:]
        gap = generalization_gap(
            game[0], X[members], y[members], X[fresh], y[fresh], loss="zero_one"
        )
        found = {"images": size, "gap": gap.gap}
        found |= {"training error": gap.train_loss, "error": gap.test_loss}
        for score, name in SCORES.items():
            # The attacker's own network is the next one, and the first after the last.
            threshold = best_threshold(score, *games[(k + 1) % len(games)])
            found[name] = success(score, threshold, *game)
        fresh = order[(k + 1) % len(games)][size:]
        found["loss, half"] = success("loss", "calibrated", *game, X[fresh], y[fresh])
        measured.append(found)
measured = pd.DataFrame(measured)

# %%
# The intervals are over networks: what is attacked is the way of training, not one network.
table = {}
for size, group in measured.groupby("images"):
    table[size] = {name: mean_interval(group[name]) for name in group.columns[1:]}
sizes = np.array(list(table))


def of(name, part="estimate"):
    return np.array([getattr(table[size][name], part) for size in sizes])


bound = 0.5 * (1.0 + membership_lower_bound_bounded(np.maximum(of("gap"), 0.0), 1.0))
print(f"networks of a size: {measured.groupby('images').size().tolist()}")
columns = {name: of(name) for name in measured.columns[1:]} | {"bound from the gap": bound}
print(pd.DataFrame(columns, index=pd.Index(sizes, name="images")).round(3).to_string())

best = np.max([of(name) for name in SCORES.values()], axis=0)
if np.any(np.diff(of("gap")) > 0.0) or np.any(np.diff(best) > 0.0):
    raise ValueError("Gap and attacks do not fall with the number of training images.")
if np.any(np.max([of(name, "high") for name in SCORES.values()], axis=0) < bound):
    raise ValueError("No attack reaches the bound, as theory says that some attack does.")

# %%
# All networks fit their training images without error, so the gap is the error on fresh images. To
# call those images members that the network gets right is an attack too, and its success *is* the
# bound. The others do better since they also see how sure the network is. The loss and the two
# scores that were proposed in its place do the same here.
#
# The threshold matters more than the score. "loss, half", which is the default of the attack where
# it has fresh images only, misses the bound on large training sets: the network is nearly certain
# of most images, fresh or not, and what tells them apart is the few fresh ones it is not sure of.
# The theorem is about the best attack; a weak attack shows nothing.
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.0, 4.2), layout="constrained", width_ratios=[2, 1]
)
left.fill_between(sizes, 0.5, bound, color="#3f6fb0", alpha=0.15, linewidth=0)
left.plot(sizes, bound, "--", color="#3f6fb0", label="some attack, at least: bound from the gap")
colors = ["#a3260f", "#d98c2b", "#4b7d3a"]
for k, (name, color) in enumerate(zip(SCORES.values(), colors, strict=True)):
    ends = np.abs(np.stack([of(name, "low"), of(name, "high")]) - of(name))
    shifted = sizes * 1.06 ** (k - 1)
    left.errorbar(shifted, of(name), ends, fmt="o-", color=color, capsize=3, ms=4, label=name)
left.plot(sizes, of("loss, half"), ":", color=colors[0], label="loss, half of fresh ones called")
left.axhline(0.5, color="0.6", linewidth=0.8)
left.annotate("guessing", (sizes[0], 0.5), (0, 3), textcoords="offset points", color="0.4")
left.set(ylabel="right guesses", ylim=(0.48, None))
left.set_title("Attacks see more than the gap", loc="left", fontsize="medium")
left.legend(fontsize="small")
ends = np.abs(np.stack([of("gap", "low"), of("gap", "high")]) - of("gap"))
right.errorbar(sizes, of("gap"), ends, fmt="s-", color="#3f6fb0", capsize=3, ms=4)
right.set_title("Generalisation gap (share of errors)", loc="left", fontsize="medium")
right.set_ylim(0.0, None)
for ax in (left, right):
    ax.set_xscale("log")
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("training images")
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
plt.show()
