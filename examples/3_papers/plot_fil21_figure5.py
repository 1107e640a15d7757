"""
How fast does reweighting make all images lose the same?
========================================================

[FIL21] figure 5 follows iteratively reweighted Fisher information loss (IRFIL): over 15 steps it
shows the standard deviation of the loss between images, which is to vanish, for linear and logistic
regression. This script draws that curve, and the one for Newton's method, which reaches the same
weights in fewer fits.

Then it shows what the figure of the paper cannot: the weights are functions of the images. What
the images lose through all of the algorithm, weights included, stays uneven.

[FIL21] Hannun, Guo, van der Maaten. Measuring Data Leakage in Machine-Learning Models with Fisher
Information. UAI 2021.
"""

# %%
# Step by step
# ------------
# The images and models are those of table 1.
import warnings

import _fil21
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import Reproduction
from sklearn.exceptions import ConvergenceWarning

from skleak.exceptions import UnevenLeakageWarning
from skleak.linear_model import IRFIL

N_STEPS = 15
page = Reproduction(
    __file__,
    "FIL21",
    "figure 5",
    "standard deviation of the loss over steps of IRFIL",
    "All images of both classes and 15 steps, as in the paper: 12,665 images of MNIST.",
)


def curves(kind, name, images):
    """Standard deviations after each step, as in the paper; those of fewer fits; those in all."""

    def fitted(method, steps):
        one = _fil21.model(kind, name, reweighting=IRFIL(method=method, max_iter=steps, tol=1e-12))
        return one.fit(images.X_train, _fil21.targets(kind, images.y_train))

    with warnings.catch_warnings():
        # The search is cut off after each number of steps to see how far it has come.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UnevenLeakageWarning)
        plain = [fitted("plain", steps) for steps in range(1, N_STEPS + 1)]
        quick = [fitted("accelerated", steps) for steps in range(1, N_STEPS + 1)]
    start = _fil21.fit(kind, name, images)[0].fisher_information_loss_.std()
    last = quick[-1]
    return {
        "plain": [start, *(one.conditional_fisher_information_loss_.std() for one in plain)],
        "accelerated": [start, *(one.conditional_fisher_information_loss_.std() for one in quick)],
        "in all": last.fisher_information_loss_.std(),
    }


def compute():
    """Curves of all data that are here, of both models."""
    found = {}
    for name in _fil21.SOURCES:
        images = _fil21.load(name)
        for kind in ("linear", "logistic") if images is not None else ():
            found[f"{name}, {kind}"] = curves(kind, name, images)
    return found


found = page.results(compute)

# %%
# The start of the curves is the standard deviation of table 1. The other points are not known to
# us.
PRINTED = {"MNIST, linear": "0.014", "MNIST, logistic": "0.012"}
for case in (f"{name}, {kind}" for name in _fil21.SOURCES for kind in ("linear", "logistic")):
    lines = found.get(case)
    why = "" if lines else _fil21.MISSING
    start = lines["plain"][0] if lines else None
    page.number(f"{case}: deviation before IRFIL (table 1)", PRINTED.get(case), start, why=why)
    for step in (5, 10, 15):
        here = lines["plain"][step] if lines else None
        page.number(f"{case}: deviation after {step} steps", None, here, why=why)
    if lines:
        if not np.all(np.diff(lines["plain"]) < 0.0):
            raise ValueError(f"{case}: the deviation does not fall at every step.")
        what = f"{case}: deviation with the weights counted"
        page.number(what, None, lines["in all"], source="ours")

# %%
figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.0), sharey=True, layout="constrained")
for ax, kind in zip(axes, ("linear", "logistic"), strict=True):
    for name, marker in zip(_fil21.SOURCES, "os", strict=True):
        lines = found.get(f"{name}, {kind}")
        if lines is None:
            continue
        ax.plot(lines["plain"], f"{marker}-", color="#a3260f", label=f"{name}, as in the paper")
        ax.plot(lines["accelerated"], f"{marker}--", color="#3f6fb0", ms=4, label="Newton")
        ax.axhline(lines["in all"], color="#6b7280", ls=":", label="the weights counted")
    ax.set(yscale="log", xlabel="step of IRFIL", title=kind)
    ax.legend(frameon=False)
axes[0].set_ylabel("standard deviation of the loss")
page.close()
plt.show()
