"""
Is the leakage of a record not just its training loss?
======================================================

[FIL21] figure 4 sets the Fisher information loss of 2,000 digits beside two numbers that are
easier to have: the training loss of the digit, and the norm of its gradient. What this script
finds: neither of them stands in for leakage. Rank correlations are 0.3 and 0.4, and of images with
the same gradient norm some leak four times as much as others. What counts is also where the
gradient points, and how firmly the other images hold the model in that direction.

The captions of the paper were not at hand: what its figures 2 to 4 hold is taken from the published
scripts of the authors.

[FIL21] Hannun, Guo, van der Maaten. Measuring Data Leakage in Machine-Learning Models with Fisher
Information. UAI 2021.
"""

# %%
# Three numbers of each image
# ---------------------------
# Linear regression on zeros and ones of MNIST, no penalty: the training loss is half the squared
# residual, and the norm of the gradient is the residual times the norm of the image.
import _fil21
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _reproduction import Reproduction
from scipy.stats import spearmanr

N_SHOWN = 2000
page = Reproduction(
    __file__,
    "FIL21",
    "figure 4",
    "leakage against training loss and gradient norm",
    "2,000 of the 12,665 images as in the paper, drawn anew; correlations of all of them.",
)


def compute():
    """The numbers of some images, and rank correlations over all."""
    images = _fil21.load("MNIST")
    fitted, coefficients = _fil21.fit("linear", "MNIST", images)
    residual = images.X_train @ coefficients - _fil21.targets("linear", images.y_train)
    table = pd.DataFrame(
        {
            "training loss": residual**2 / 2.0,
            "gradient norm": np.abs(residual) * np.linalg.norm(images.X_train, axis=1),
            "leakage": fitted.fisher_information_loss_,
        }
    )
    ranks = {name: spearmanr(table[name], table["leakage"]).statistic for name in table.columns[:2]}
    # Images whose gradients are the same within five percent.
    middle = table["gradient norm"].median()
    alike = table[np.abs(table["gradient norm"] / middle - 1.0) < 0.05]["leakage"]
    drawn = np.random.default_rng(0).choice(len(table), N_SHOWN, replace=False)
    some = table.iloc[np.sort(drawn)]
    return {
        "some": some.map(lambda value: float(f"{value:.4g}")),
        "ranks": ranks,
        "alike": np.quantile(alike, [0.0, 1.0]),
    }


found = page.results(compute)

# %%
for name, rank in found["ranks"].items():
    page.number(f"rank correlation of leakage and {name}, all images", None, rank)
if not all(0.1 < rank < 0.9 for rank in found["ranks"].values()):
    raise ValueError("A rank correlation is near 0 or 1.")
low, high = found["alike"]
page.number("of images with the median gradient norm (5 %): largest over least", None, high / low)
if high < 1.5 * low:
    raise ValueError("The gradient norm says all about the leakage.")

# %%
figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.0), sharey=True, layout="constrained")
for ax, (name, part) in zip(axes, zip("ab", found["ranks"], strict=True), strict=True):
    ax.scatter(found["some"][part], found["some"]["leakage"], s=3, color="#3f6fb0")
    ax.set_xlabel(f"({name}) {part}")
axes[0].set_ylabel("Fisher information loss")
page.close()
plt.show()
