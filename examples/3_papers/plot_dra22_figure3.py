"""
Reconstructing the images that a model was trained on
=====================================================

A logistic regression tells the handwritten digits 0 and 1 apart. An attacker who knows all of its
12,665 training images but one reconstructs that one from the published coefficients. [DRA22] bounds
how well this can be done: no unbiased attacker has a mean squared error per pixel below the
reciprocal square of the (diagonal) Fisher information loss of the image. Figure 3 of that paper
sets the errors of the attack of [BCH22] against this bound, and shows the images of the smallest
and largest bounds as they are reconstructed.

This script recomputes the figure: 2,000 images drawn by lot at once, from ten releases.
``python plot_dra22_figure3.py --recompute --images 12665`` attacks all of them.

[DRA22] Guo, Karrer, Chaudhuri, van der Maaten. Bounding Training Data Reconstruction in Private
(Deep) Learning. ICML 2022.

[BCH22] Balle, Cherubin, Hayes. Reconstructing Training Data with Informed Adversaries. S&P 2022.
"""

# %%
# The model of the paper
# ----------------------
# Pixels between 0 and 1, a penalty of 0.01, and very little noise. The label of an image is known
# to the attacker, so only pixels count as leaked (``private_target=False``).
#
# The attack
# ----------
# Training left the gradients of all images in balance. The attacker computes those of the images
# known at the published coefficients; what is missing is the gradient of the unknown image, which
# is a multiple of it. Every release has fresh noise, and the error that is bounded is the mean over
# releases: all images share the noise of one, and in a lucky one most errors lie below the bound.
import argparse

import matplotlib.pyplot as plt
import numpy as np
from _reproduction import Reproduction
from scipy import stats

from skleak.attacks import InformedReconstruction
from skleak.datasets import fetch_mnist
from skleak.linear_model import PrivateLogisticRegression
from skleak.plotting import ReconstructionDisplay

NOISE_SCALE, N_RELEASES, N_SHOWN, WHITE = 1e-5, 10, 8, 255.0
parser = argparse.ArgumentParser()
parser.add_argument("--images", type=int, default=2000, help="number of images attacked")
options, _ = parser.parse_known_args()
page = Reproduction(
    __file__,
    "DRA22",
    "figure 3",
    "errors of reconstructed images against their bounds",
    "Trained on all 12,665 images of the digits 0 and 1, as in the paper; 2,000 of them attacked "
    "from 10 releases, where the authors' code attacks all from up to 10,000.",
)


def compute():
    """Bounds, mean errors over releases, and the images of the extreme bounds."""
    X, y = fetch_mnist((0, 1), preprocessing="unit_interval", return_X_y=True)
    rng = np.random.default_rng(0)
    targets = np.sort(rng.choice(len(y), min(options.images, len(y)), replace=False))
    model = PrivateLogisticRegression(noise_scale=0.0, alpha=1e-2, private_target=False).fit(X, y)
    coefficients = np.append(model.coef_, model.intercept_)
    model.set_params(noise_scale=NOISE_SCALE).fit(X, y)
    bounds = model.diagonal_fisher_information_loss_[targets] ** -2.0
    attack = InformedReconstruction(model, records=targets, bounds=None).fit(X, y)
    truth = X[targets]
    by_size = np.argsort(bounds, kind="stable")
    shown = np.concatenate([by_size[:N_SHOWN], by_size[-N_SHOWN:]])
    errors, clipped = np.zeros(len(targets)), np.zeros(len(targets))
    for k in range(N_RELEASES):
        release = coefficients + NOISE_SCALE * rng.normal(size=len(coefficients))
        # One release at a time, for the images that it gives fill 80 MB.
        guesses = attack.predict(release)
        # An image that takes no part in training is guessed far, or infinitely, off.
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.nan_to_num(np.mean((guesses - truth) ** 2, axis=1), nan=1e300, posinf=1e300)
        errors += np.minimum(off, 1e300) / N_RELEASES
        inside = np.clip(np.nan_to_num(guesses), 0.0, 1.0)
        clipped += np.mean((inside - truth) ** 2, axis=1) / N_RELEASES
        if k == 0:
            images = np.rint(WHITE * inside[shown]).astype(int)
    return {
        "bounds": bounds,
        "errors": errors,
        "clipped": clipped,
        "shown": shown,
        "truth": np.rint(WHITE * truth[shown]).astype(int),
        "images": images,
    }


data = {name: np.array(value) for name, value in page.results(compute).items()}
bounds, mean, cut, shown = data["bounds"], data["errors"], data["clipped"], data["shown"]
truth, images = data["truth"] / WHITE, data["images"] / WHITE

# %%
# Pixels lie between 0 and 1, so that a bound above 1 says the image is safe from this attacker, and
# one of 0.0001 that it can be seen in all detail.
#
# Errors against bounds
# ---------------------
# Ten releases are few, so an error may lie below its bound by chance. How far? The fewer directions
# the noise has, the more the error varies: at worst there is a single one, and the mean is as
# a chi-squared variable with ten degrees of freedom. Whatever of the images with a bound of at most
# 1 lies below the quantile of that, corrected for the number of images, contradicts the bound.
exposed = bounds <= 1.0
ratio = mean[exposed] / bounds[exposed]
by_chance = stats.chi2.ppf(0.01 / exposed.sum(), N_RELEASES) / N_RELEASES
page.claim(
    "images with a bound of at most 1 whose error is below it, beyond chance",
    "0",
    int(np.sum(ratio < by_chance)),
    bool(np.all(ratio >= by_chance)),
)
page.number("share of them whose error is below the bound at all", None, np.mean(ratio < 1.0))
page.number("images with a bound of at most 1, share of those attacked", None, exposed.mean())
for name, value in (("smallest", 0.0), ("median", 0.5), ("largest", 1.0)):
    page.number(f"{name} bound", None, np.quantile(bounds, value))
page.number("error over bound, median of images with a bound of at most 1", None, np.median(ratio))
for words, few in (("smallest", shown[:N_SHOWN]), ("largest", shown[-N_SHOWN:])):
    page.number(
        f"error of the eight images of the {words} bounds, pixels cut to 0 to 1",
        None,
        cut[few].mean(),
    )
if np.mean(ratio < 1.0) > 0.01:
    raise ValueError("More errors lie below their bounds than the noise of ten releases explains.")

# %%
# The bound is sharp for images that leak much: the error is one to three times as large. Of the
# others the attack makes nothing, as the noise drowns the gradient and errors have no limit: those
# at the upper edge of the left panel are larger still.
#
# An attacker who knows that pixels lie between 0 and 1, and cuts what lies outside, does better
# than the bound (right), and may: it holds for unbiased attackers. Where the bound is large, a
# biased guess is safe as well, and the error that of guessing some image.
limit = 10.0 * bounds.max()
figure, axes = plt.subplots(1, 2, figsize=(11.5, 5.0), layout="constrained")
for ax, values, name in (
    (axes[0], np.minimum(mean, limit), "Reconstructions as they are"),
    (axes[1], cut, "Pixels cut to between 0 and 1 (biased)"),
):
    display = ReconstructionDisplay(truth, images, values, bounds, shown=shown, name=name)
    display.plot(ax)
    ax.axvline(1.0, color="#1b2430", ls=":", lw=1.0)
    ax.set_xlabel("lower bound on the mean squared error per pixel")

# %%
# The images themselves, from one release: the eight with the smallest bounds, odd ones which the
# model would not have predicted well without them, and the eight with the largest, which are
# predicted so well that training hardly needed them. Guesses about these are noise, and nearly the
# same noise for all; pixels are cut to between 0 and 1.
display = ReconstructionDisplay(truth, images, cut, bounds, shown=shown, image_shape=(28, 28))
_ = display.plot_images()
page.close()
plt.show()
