"""
One bound for all images, or one for each
=========================================

Differential privacy gives one bound on how well anybody can reconstruct a training record, the same
for all; Fisher information gives each record its own. [DRA22] figure 2 sets the two side by side
for a logistic regression that tells the handwritten digits 0 and 1 apart, released with noise. The
message: the one bound says that every pixel may be known almost exactly, while all 12,665 of the
others say that none can be, and differ by many powers of ten among themselves.

The bound from differential privacy needs a promise about the norm of an image. The one that the
paper makes does not hold for its images, so that its line is too high; what remains of it when the
promise is kept is shown too.

[DRA22] Guo, Karrer, Chaudhuri, van der Maaten. Bounding Training Data Reconstruction in Private
(Deep) Learning. ICML 2022.
"""

# %%
# The settings of the paper
# -------------------------
# Pixels between 0 and 1, no intercept, a penalty of 0.01, noise of scale 0.01. The label is known
# to the attacker. By the authors' code the information of a record is a mean over ten releases;
# that of the noiseless coefficients is the same for all of them.
import matplotlib.pyplot as plt
import numpy as np
from _reproduction import Reproduction

from skleak.accounting import output_perturbation_sensitivity
from skleak.bounds import hammersley_chapman_robbins_mse
from skleak.datasets import fetch_mnist
from skleak.linear_model import PrivateLogisticRegression

ALPHA, NOISE_SCALE, N_RELEASES, EDGES = 1e-2, 1e-2, 10, np.arange(-1.0, 12.01, 0.125)
page = Reproduction(
    __file__,
    "DRA22",
    "figure 2",
    "bounds on the reconstruction of every image, by Fisher information and by Renyi privacy",
    "All 12,665 training images of the digits 0 and 1, as in the paper.",
)


def compute():
    """Bound of every image, counted by powers of ten, and what differential privacy bounds."""
    X, y = fetch_mnist((0, 1), preprocessing="unit_interval", return_X_y=True)
    X_test, y_test = fetch_mnist(
        (0, 1), subset="test", preprocessing="unit_interval", return_X_y=True
    )
    model = PrivateLogisticRegression(
        noise_scale=0.0, alpha=ALPHA, fit_intercept=False, private_target=False
    ).fit(X, y)
    noise = np.random.default_rng(0).normal(size=(N_RELEASES, X.shape[1]))
    releases = model.coef_.ravel() + NOISE_SCALE * noise
    right = (X_test @ releases.T > 0.0) == (np.asarray(y_test) == model.classes_[1])[:, None]
    model.set_params(noise_scale=NOISE_SCALE, random_state=0).fit(X, y)
    bounds = model.diagonal_fisher_information_loss_**-2.0
    return {
        "images": len(y),
        "largest norm": np.linalg.norm(X, axis=1).max(),
        "counts": np.histogram(np.log10(bounds), EDGES)[0],
        "quantiles": np.quantile(bounds, [0.0, 0.01, 0.1, 0.5, 0.9, 1.0]),
        "above one": np.mean(bounds > 1.0),
        "accuracy": right.mean(),
    }


data = page.results(compute)
n, norm = data["images"], data["largest norm"]

# %%
# The bound from differential privacy
# -----------------------------------
# The sensitivity of the coefficients to one record is 2 R / (n alpha), R being the largest norm of
# an image. Gaussian noise then has a Renyi divergence of order 2 of its square over the variance of
# the noise. The paper prints it without the square, with R = 1. Images of norm 17.2 are among the
# training images, however, and with that the bound is nothing.


def renyi_bound(epsilon):
    """[DRA22] theorem 1 for pixels from 0 to 1, from the divergence of order 2."""
    return float(hammersley_chapman_robbins_mse(epsilon, np.ones(1)))


def divergence(data_norm):
    """Renyi divergence of order 2 of the release under replacement of a record."""
    sensitivity = output_perturbation_sensitivity(1.0, data_norm, n, ALPHA)
    return float((sensitivity / NOISE_SCALE) ** 2)


printed = 2.0 / (n * ALPHA * NOISE_SCALE)
SQUARE = "the paper prints the divergence without its square (erratum)"
page.number(
    "Renyi divergence of order 2, norms up to 1 (nats)",
    printed,
    divergence(1.0),
    0.005,
    source="formula",
    why=f"{SQUARE}; a later version of the authors' code squares it too",
)
page.number(
    "bound from it on the error of a pixel",
    renyi_bound(printed),
    renyi_bound(divergence(1.0)),
    0.0005,
    source="formula",
    why=SQUARE,
)
page.claim(
    "images have norms up to 1, as that bound assumes",
    "1",
    norm,
    norm <= 1.0,
    why="pixels between 0 and 1 make norms up to 17.2",
)
page.number("Renyi divergence for the images as they are (nats)", None, divergence(norm))
page.number(
    "bound from it on the error of a pixel, images as they are", None, renyi_bound(divergence(norm))
)
page.claim("the bound from Renyi privacy", "below 1", renyi_bound(divergence(1.0)), holds=True)
page.claim(
    "share of images whose bound from Fisher information is above 1",
    "all",
    data["above one"],
    data["above one"] == 1.0,
)
quantiles = dict(
    zip(["smallest", "1%", "10%", "median", "90%", "largest"], data["quantiles"], strict=True)
)
for name in ("smallest", "median", "largest"):
    page.number(f"bound from Fisher information, {name}", None, quantiles[name])
page.number("accuracy on the test images, mean of ten releases", None, data["accuracy"])
print("bounds from Fisher information:", {k: float(f"{v:.3g}") for k, v in quantiles.items()})

# %%
# Errors of 1 are those of guessing all black about a white image: to the right of that line a bound
# says that no unbiased attacker sees anything of an image. Those furthest to the left are odd
# images, which the model would not have predicted well without.
figure, ax = plt.subplots(figsize=(8.0, 4.6), layout="constrained")
ax.stairs(
    data["counts"], 10.0**EDGES, fill=True, color="#b8c4d8", label="Fisher information, each image"
)
ax.stairs(data["counts"], 10.0**EDGES, color="#3f6fb0", linewidth=0.8)
for epsilon, style, color, label in (
    (printed, "--", "0.6", "Renyi privacy, as printed"),
    (divergence(1.0), "--", "#a3260f", "Renyi privacy, were norms at most 1"),
):
    ax.axvline(renyi_bound(epsilon), linestyle=style, color=color, label=label)
ax.annotate(
    "Renyi privacy,\nimages as they are", (0.0, 0.35), xycoords="axes fraction", color="#a3260f",
    xytext=(0.04, 0.5), arrowprops={"arrowstyle": "->", "color": "#a3260f"}, fontsize="small",
)  # fmt: skip
ax.axvline(1.0, linestyle=":", color="black", linewidth=1.0)
ax.set(xscale="log", xlim=(1e-5, None), ylabel="images")
ax.set_xlabel("lower bound on the mean squared error of a pixel")
ax.set_title("No unbiased attacker sees an image, say their bounds", loc="left", fontsize="medium")
ax.legend(fontsize="small")
page.close()
plt.show()
