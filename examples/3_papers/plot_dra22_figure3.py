"""
Reconstructing the images that a model was trained on
=====================================================

A logistic regression tells the handwritten digits 0 and 1 apart. An attacker who knows all of its
12,665 training images but one reconstructs that one from the published coefficients. [DRA22] bounds
how well this can be done: no unbiased attacker has a mean squared error per pixel below the
reciprocal square of the (diagonal) Fisher information loss of the image. Figure 3 of that paper
sets the errors of the attack of [BCH22] against this bound.

This script recomputes the figure: all images at once, from ten releases. By default 2,000 of the
images are attacked; ``python plot_dra22_figure3.py --full`` attacks all of them.

[DRA22] Guo, Karrer, Chaudhuri, van der Maaten. Bounding Training Data Reconstruction in Private
(Deep) Learning. ICML 2022.

[BCH22] Balle, Cherubin, Hayes. Reconstructing Training Data with Informed Adversaries. S&P 2022.
"""

# %%
# The model of the paper
# ----------------------
# Pixels between 0 and 1, a penalty of 0.01, and very little noise. The label of an image is known
# to the attacker, so only pixels count as leaked (``private_target=False``).
import sys
import time

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from skleak.attacks import InformedReconstruction
from skleak.datasets import fetch_mnist
from skleak.linear_model import PrivateLogisticRegression
from skleak.plotting import ReconstructionDisplay

NOISE_SCALE, N_RELEASES = 1e-5, 10
X, y = fetch_mnist((0, 1), preprocessing="unit_interval", return_X_y=True)
n = len(y)
targets = np.arange(n)
if "--full" not in sys.argv:
    targets = np.sort(np.random.default_rng(0).choice(n, 2000, replace=False))
start = time.perf_counter()
model = PrivateLogisticRegression(noise_scale=0.0, alpha=1e-2, private_target=False).fit(X, y)
coefficients = np.append(model.coef_, model.intercept_)
model.set_params(noise_scale=NOISE_SCALE).fit(X, y)
bounds = model.diagonal_fisher_information_loss_[targets] ** -2.0
print(f"{n} images of {X.shape[1]} pixels, fitted twice in {time.perf_counter() - start:.1f} s")
print("bound on the mean squared error per pixel, over images")
for share in (0.0, 0.01, 0.1, 0.5, 0.9, 1.0):
    print(f"  quantile {share:<4}  {np.quantile(bounds, share):.3g}")

# %%
# Pixels lie between 0 and 1, so that a bound above 1 says the image is safe from this attacker, and
# one of 0.0001 that it can be seen in all detail.
#
# The attack
# ----------
# Training left the gradients of all images in balance. The attacker computes those of the images
# known at the published coefficients; what is missing is the gradient of the unknown image, which
# is a multiple of it. Every release has fresh noise, and the error that is bounded is the mean over
# releases: all images share the noise of one, and in a lucky one most errors lie below the bound.
attack = InformedReconstruction(model, records=targets, bounds=None).fit(X, y)
truth = X[targets]
by_size = np.argsort(bounds, kind="stable")
shown = np.concatenate([by_size[:8], by_size[-8:]])
rng = np.random.default_rng(0)
errors, clipped = np.empty((N_RELEASES, len(targets))), np.empty((N_RELEASES, len(targets)))
start = time.perf_counter()
for k in range(N_RELEASES):
    release = coefficients + NOISE_SCALE * rng.normal(size=len(coefficients))
    # One release at a time, for the images that it gives fill 80 MB.
    guesses = attack.predict(release)
    # An image that takes no part in training is guessed far, or infinitely, off.
    with np.errstate(over="ignore", invalid="ignore"):
        errors[k] = np.nan_to_num(np.mean((guesses - truth) ** 2, axis=1), nan=np.inf)
    clipped[k] = np.mean((np.clip(np.nan_to_num(guesses), 0.0, 1.0) - truth) ** 2, axis=1)
    if k == 0:
        images = guesses[shown]
seconds = time.perf_counter() - start
print(f"{len(targets)} images from each of {N_RELEASES} releases in {seconds:.1f} s")

# %%
# Errors against bounds
# ---------------------
# Ten releases are few, so an error may lie below its bound by chance. How far? The fewer directions
# the noise has, the more the error varies: at worst there is a single one, and the mean is as
# a chi-squared variable with ten degrees of freedom. Whatever of the images with a bound of at most
# 1 lies below the quantile of that, corrected for the number of images, contradicts the bound.
mean = errors.mean(axis=0)
exposed = bounds <= 1.0
ratio = mean[exposed] / bounds[exposed]
by_chance = stats.chi2.ppf(0.01 / exposed.sum(), N_RELEASES) / N_RELEASES
print(f"{exposed.sum()} images have a bound of at most 1")
print(f"error over bound: smallest {ratio.min():.2f}, a tenth below {np.quantile(ratio, 0.1):.2f}")
print(f"{np.sum(ratio < 1.0)} errors below their bound, {np.sum(ratio < by_chance)} beyond chance")
if np.any(ratio < by_chance):
    raise ValueError("An error lies below its bound by more than chance explains.")
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
cut = clipped.mean(axis=0)
figure, axes = plt.subplots(1, 2, figsize=(11.5, 5.0), layout="constrained")
for ax, values, name in (
    (axes[0], np.minimum(mean, limit), "Reconstructions as they are"),
    (axes[1], cut, "Pixels cut to between 0 and 1 (biased)"),
):
    display = ReconstructionDisplay(truth[shown], images, values, bounds, shown=shown, name=name)
    display.plot(ax)
    ax.axvline(1.0, color="#1b2430", ls=":", lw=1.0)
    ax.set_xlabel("lower bound on the mean squared error per pixel")

# %%
# The images themselves, from one release: the eight with the smallest bounds, odd ones which the
# model would not have predicted well without them, and the eight with the largest, which are
# predicted so well that training hardly needed them. Guesses about these are noise, and nearly the
# same noise for all; errors are those of pixels cut to between 0 and 1.
display = ReconstructionDisplay(
    truth[shown], images, cut, bounds, shown=shown, image_shape=(28, 28)
)
_ = display.plot_images()
plt.show()
