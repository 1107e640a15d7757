"""
The same accuracy, and a fraction of the leakage
================================================

Noise on the coefficients need not be the same in all directions. Where the loss is flat, noise
costs little accuracy and hides much; isotropic noise wastes its budget on directions in which the
loss is steep. ``noise_covariance="curvature"`` gives the noise the shape of the inverse Hessian of
the fit. ``noise_covariance="minimax"`` asks, too, how far records move the coefficients in every
direction: it is the shape that makes the mean squared leakage smallest at an equal cost. Both
shapes depend on the data, so a release reveals something through the spread of its noise as well
as through its mean; both are counted.

The shape that makes the *largest* leakage through the mean smallest, the exact minimax shape, is
not among the names. It weighs the records by least favorable weights, which are zero but for a
few patients; computed on the training data it is determined by those few, and gives them away.
"minimax" has equal weights in their place. But ``noise_covariance`` also takes a matrix from
public knowledge, and the exact shape computed on **public** patients is here too.

This script compares them for patients of a warfarin study: the largest leakage of a patient over
the error of the released model on others, and what an attack on a gene gains.
"""

# %%
# Four shapes of noise
# --------------------
# Half of the patients that are not trained on count as public; the other half test the model.
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.linalg import sqrtm
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.attacks import WhiteBoxAttributeInference
from skleak.datasets import fetch_iwpc
from skleak.exceptions import PrivacyLeakWarning
from skleak.influence import minimax_shape
from skleak.linear_model import PrivateLinearRegression

OPTIONS = {"alpha": 1e-2, "fit_intercept": False}
X, y = fetch_iwpc(encoded=True, return_X_y=True)
X, y = X.to_numpy(dtype=float), np.asarray(y)
train, rest = train_test_split(np.arange(len(y)), train_size=3855, random_state=0)
public, test = np.array_split(rest, 2)
exact = minimax_shape(PrivateLinearRegression(1.0, **OPTIONS).fit(X[public], y[public]))
shapes = {
    "isotropic": "isotropic",
    "curvature": "curvature",
    "minimax": "minimax",
    "exact minimax, public": exact.shape,
}

# %%
# What the names stand for, from their definitions. With H the Hessian of the objective of n
# patients, A its inverse and ``J_i`` the derivative of the coefficients by the record of patient i,
# "minimax" is the geometric mean of A and ``M = sum J_i J_i^T``, the solution of ``S H S = M``.
noiseless = PrivateLinearRegression(0.0, **OPTIONS).fit(X[train], y[train])
weights, n_train = noiseless.coef_, len(train)
hessian = X[train].T @ X[train] + n_train * OPTIONS["alpha"] * np.eye(X.shape[1])
inverse = np.linalg.inv(hessian)
residuals = noiseless.predict(X[train]) - y[train]
cross = np.outer(X[train].T @ residuals, weights)
moments = (weights @ weights + 1.0) * X[train].T @ X[train] + cross + cross.T
moments += residuals @ residuals * np.eye(X.shape[1])
moments = inverse @ moments @ inverse
half = np.real(sqrtm(inverse))
back = np.linalg.inv(half)
covariances = {
    "isotropic": np.eye(X.shape[1]),
    "curvature": inverse,
    "minimax": half @ np.real(sqrtm(back @ moments @ back)) @ half,
    "exact minimax, public": exact.shape,
}

# %%
# Accuracy against leakage
# ------------------------
# The noise raises the training objective by half the mean square of the predictions it adds, and
# the penalty's share: the same rise for all shapes makes them comparable. Noise of covariance C
# adds ``tr(C X^T X) / m`` to the expected squared error on m other patients.
mean_square = X[test].T @ X[test] / len(test)
residual = np.mean((noiseless.predict(X[test]) - y[test]) ** 2)
rises = np.geomspace(1e-4, 3e-1, 8)
rows = []
for name, shape in shapes.items():
    covariance = covariances[name] * (len(inverse) / np.trace(covariances[name]))
    for rise in rises:
        scale = np.sqrt(2.0 * n_train * rise / np.trace(hessian @ covariance))
        model = PrivateLinearRegression(scale, noise_covariance=shape, **OPTIONS)
        losses = model.fit(X[train], y[train]).fisher_information_loss_
        error = residual + scale**2 * np.trace(covariance @ mean_square)
        rows.append([name, rise, scale, error, losses.max(), losses.mean()])
columns = ["noise", "rise", "noise scale", "test error", "largest loss", "mean loss"]
frontier = pd.DataFrame(rows, columns=columns)
print(frontier[np.isclose(frontier["rise"], rises[4])].round(4).to_string(index=False))

# %%
# At the same rise of the objective, the most exposed patient leaks several times less.
largest = frontier.pivot(index="rise", columns="noise", values="largest loss")
for name in ("curvature", "minimax", "exact minimax, public"):
    gain = largest["isotropic"] / largest[name]
    print(f"largest loss, isotropic over {name}: {gain.min():.2f} to {gain.max():.2f} times")
    if gain.min() < 4.0:
        raise ValueError(f"Noise of the shape {name!r} should leak at least 4 times less.")
if np.any(largest["minimax"] > largest["curvature"]):
    raise ValueError("The minimax shape should leak less than the curvature.")

# %%
# Does an attack agree?
# ---------------------
# The white box guesses the gene VKORC1 of every patient who was trained on, and takes all variants
# to be equally likely. Where the shape depends on the data every variant has a mean and a
# covariance of its own, and the attack knows both. Its advantage over guessing is the mean over 60
# releases; all patients share the noise of one, so the standard error is that between releases.
# What no attack can exceed is that of the channel from the gene of a patient to the release. The
# gene is one column among several: what is best for the whole record need not be best for it.
raw, dose = fetch_iwpc(encoded=False, return_X_y=True)
raw, dose = raw.iloc[train].reset_index(drop=True), np.asarray(dose)[train]
encode = make_column_transformer(
    (OneHotEncoder(drop="first", sparse_output=False), ["race", "cyp2c9", "vkorc1"]),
    remainder="passthrough",
)
plain = PrivateLinearRegression(1.0, **OPTIONS).fit(X[train], y[train])
exposed = np.argsort(plain.fisher_information_loss_, kind="stable")[-100:]
advantages = {}
for name in ("isotropic", "curvature", "minimax"):
    scale = frontier.set_index(["noise", "rise"]).loc[(name, rises[0]), "noise scale"]
    generator = np.random.default_rng(0)
    private = PrivateLinearRegression(
        scale, noise_covariance=name, random_state=generator, **OPTIONS
    )
    pipeline = make_pipeline(encode, private).fit(raw, dose)
    attack = WhiteBoxAttributeInference(pipeline, "vkorc1", prior="uniform").fit(raw, dose)
    encoded = pipeline[:-1].transform(raw)
    releases = []
    with warnings.catch_warnings():
        # The noise of an example can be drawn again, as a release of it says.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        for _ in range(60):
            releases.append(private.fit(encoded, dose).release())
    right = attack.predict(releases) == raw["vkorc1"].to_numpy()
    for who, chosen in (("all patients", slice(None)), ("most exposed", exposed)):
        each = 1.5 * (right[:, chosen].mean(axis=1) - 1.0 / 3.0)
        error = each.std(ddof=1) / np.sqrt(len(each))
        print(f"{name:9} advantage over guessing, {who}: {each.mean():.3f} +- {error:.3f}")
    channel = attack.set_params(records=exposed).fit(raw, dose).channel()
    advantages[name] = 1.5 * (channel.bayes_success(np.full(3, 1.0 / 3.0)).mean() - 1.0 / 3.0)
    print(f"{name:9} advantage that no attack exceeds, most exposed: {advantages[name]:.3f}")
if max(advantages["curvature"], advantages["minimax"]) > 0.8 * advantages["isotropic"]:
    raise ValueError("The attack should gain less under noise of a shape of its own.")

# %%
figure, ax = plt.subplots(figsize=(7.0, 4.4), layout="constrained")
for (name, part), color in zip(
    frontier.groupby("noise", sort=False),
    ("#a3260f", "#3f6fb0", "#b9770e", "#2e7d5b"),
    strict=True,
):
    ax.plot(part["test error"], part["largest loss"], "o-", color=color, label=name, ms=4)
ax.axvline(residual, color="#1b2430", ls=":", lw=1.0)
ax.set(yscale="log", xlabel="mean squared error on patients not trained on")
ax.set_ylabel("largest Fisher information loss of a patient")
ax.legend(frameon=False, title="noise")
plt.show()
