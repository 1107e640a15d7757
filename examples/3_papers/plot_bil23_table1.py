"""
How sure may an attacker be? Precision and recall of membership attacks
=======================================================================

An attack that is right 55% of the time is of no use to anyone, unless it is sure of a few records
and right about those. Precision says it: the share of members among the images that an attack calls
members; recall is the share of the members that it calls so. [BIL23] table 1 gives both for attacks
on membership. The message of this example: the attack of the paper calls most members members, and
nearly as many others; an attacker who is content with one member in ten is right about them more
often, and far less so where members are rare.

The networks are those of figure 4, from the results that its script keeps. The numbers of the
paper's table are not known to us, so that none are compared.

[BIL23] Del Grosso, Pichler, Palamidessi, Piantanida. Bounding Information Leakage in Machine
Learning. Neurocomputing 534, 2023.
"""

# %%
# Two attacks
# -----------
# One looks at how sure a network is of an image, whatever it says the image is; the other at its
# loss, which counts what the image really is. Both are about images trained on and as many fresh
# ones, each given to the network by itself. The attack of the paper calls members what the network
# is more than 80% sure of; for the others the threshold is the best one that finds the wanted share
# of members (`precision_at_recall`). It is found on the very images that are attacked, so that the
# numbers are on the attacker's side, the more so the fewer the images.
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _reproduction import Reproduction
from matplotlib.ticker import NullFormatter, PercentFormatter

RECALLS, SCORES = ("0.1", "0.5", "0.9"), ("sure", "loss")
page = Reproduction(
    __file__,
    "BIL23",
    "table 1",
    "precision and recall of attacks on membership",
    "Networks of figure 4 on MNIST, trained on two in three of 10 to 10,000 images. The paper's "
    "networks and numbers are not known to us.",
    derived="in a second, from the results of `plot_bil23_figure4.py`",
)


def compute():
    """Recall and precision of the attack of the paper, and precision at recalls, from figure 4."""
    path = Path(__file__).parent / "results" / "bil23_figure4.json"
    kept = json.loads(path.read_text(encoding="utf-8"))["data"]["MNIST"]
    rows = []
    for row in kept:
        hits, alarms = row["hits, trained"][0], row["alarms, trained"][0]
        found = {"images": row["images"], "recall": hits, "precision": hits / (hits + alarms)}
        for score in SCORES:
            for recall in RECALLS:
                name = f"precision by {score} at recall {recall}"
                found[name.removeprefix("precision ")] = row[name][0]
        rows.append(found)
    return {"table": pd.DataFrame(rows)}


table = pd.DataFrame(page.results(compute)["table"]).set_index("images")
print(table.round(3).to_string())
for size, row in table.iterrows():
    page.number(f"{size:,} images: recall of the attack of the paper", None, row["recall"])
    page.number(f"{size:,} images: precision of the attack of the paper", None, row["precision"])
    for recall in RECALLS:
        page.number(
            f"{size:,} images: precision by loss at recall {recall}",
            None,
            row[f"by loss at recall {recall}"],
        )
if table.drop(columns="recall").min(axis=None) < 0.5 - 0.05:
    raise ValueError("A precision at even odds lies far below one half.")
for score in SCORES:
    falling = np.diff(table[[f"by {score} at recall {recall}" for recall in RECALLS]], axis=1)
    if np.any(falling > 1e-9):
        raise ValueError("The precision rises with the recall.")

# %%
# Members are rare
# ----------------
# A precision at even odds is that of a game. Where one candidate in a hundred is a member, the same
# attack is right about few of those that it calls members. With t the share of members and f that
# of others called members, precision is p t / (p t + (1 - p) f): both shares are those of the game,
# and f follows from its precision.


def at_prior(precision, prior):
    """Precision among candidates of whom a share ``prior`` are members."""
    odds = precision / (1.0 - precision) * prior / (1.0 - prior)
    return odds / (1.0 + odds)


figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.2), layout="constrained")
colors = dict(zip(RECALLS, ["#a3260f", "#d98c2b", "#3f6fb0"], strict=True))
for recall, color in colors.items():
    for score, style in zip(SCORES, [":", "-"], strict=True):
        even = table[f"by {score} at recall {recall}"]
        label = f"recall {float(recall):.0%}" if score == "loss" else None
        left.plot(table.index, even, style, color=color, marker="o", ms=3.5, label=label)
        if score == "loss":
            rare = at_prior(np.minimum(even, 1.0 - 1e-9), 0.01)
            right.plot(table.index, rare, style, color=color, marker="o", ms=3.5, label=label)
left.plot(table.index, table["precision"], "k--", label="attack of the paper")
left.plot([], [], ":", color="0.4", label="by how sure it is")
left.axhline(0.5, color="0.6", linewidth=0.8)
left.set(ylabel="precision", ylim=(0.45, 1.02))
left.set_title("One in two is a member", loc="left", fontsize="medium")
right.plot(table.index, at_prior(table["precision"], 0.01), "k--", label="attack of the paper")
right.axhline(0.01, color="0.6", linewidth=0.8)
right.set(ylabel="precision", ylim=(0.0, 1.02))
right.set_title("One in a hundred is", loc="left", fontsize="medium")
for ax in (left, right):
    ax.set_xscale("log")
    ax.set_xticks([10, 100, 1000], ["10", "100", "1,000"])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xlabel("images drawn")
    ax.legend(fontsize="small")
page.close()
plt.show()
