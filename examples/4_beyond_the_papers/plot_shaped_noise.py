"""
The same accuracy, and a fraction of the leakage
================================================

Noise on the coefficients need not be the same in all directions. Where the loss is flat, noise
costs little accuracy and hides much; isotropic noise wastes its budget on directions in which the
loss is steep. ``noise_covariance="curvature"`` gives the noise the shape of the inverse Hessian of
the fit. That shape depends on the data, so a release reveals something through the spread of its
noise as well as through its mean; both are counted.

``noise_covariance`` also takes a matrix from public knowledge. The best one for the most exposed
record, computed on **public** patients, is here too. Computed on the training data it would be
determined by a few records, and would give them away.

This script compares them for patients of a warfarin study: the largest leakage of a patient over
the error of the released model on others, and what an attack on a gene gains.
"""

# %%
# Three shapes of noise
# ---------------------
# Half of the patients that are not trained on count as public; the other half test the model.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.attacks import WhiteBoxAttributeInference
from skleak.datasets import fetch_iwpc
from skleak.influence import minimax_shape
from skleak.linear_model import PrivateLinearRegression

OPTIONS = {"alpha": 1e-2, "fit_intercept": False}
X, y = fetch_iwpc(encoded=True, return_X_y=True)
X, y = X.to_numpy(dtype=float), np.asarray(y)
train, rest = train_test_split(np.arange(len(y)), train_size=3855, random_state=0)
public, test = np.array_split(rest, 2)
shapes = {
    "isotropic": "isotropic",
    "curvature": "curvature",
    "minimax, public": minimax_shape(
        PrivateLinearRegression(1.0, **OPTIONS).fit(X[public], y[public])
    ).shape,
}

# %%
# Accuracy against leakage
# ------------------------
# The noise raises the training objective by half the mean square of the predictions it adds, and
# the penalty's share: the same rise for all shapes makes them comparable. Noise of covariance C
# adds ``tr(C M)`` to the expected squared error on other patients, with M the mean square of
# their columns.
noiseless = PrivateLinearRegression(0.0, **OPTIONS).fit(X[train], y[train])
hessian = X[train].T @ X[train] / len(train) + OPTIONS["alpha"] * np.eye(X.shape[1])
moments = X[test].T @ X[test] / len(test)
residual = np.mean((noiseless.predict(X[test]) - y[test]) ** 2)
rises = np.geomspace(1e-4, 3e-1, 8)
rows = []
for name, shape in shapes.items():
    covariance = {"isotropic": np.eye(X.shape[1]), "curvature": np.linalg.inv(hessian)}
    covariance = np.asarray(covariance.get(name, shape))
    covariance = covariance * (len(covariance) / np.trace(covariance))
    for rise in rises:
        scale = np.sqrt(2.0 * rise / np.trace(hessian @ covariance))
        model = PrivateLinearRegression(scale, noise_covariance=shape, **OPTIONS)
        losses = model.fit(X[train], y[train]).fisher_information_loss_
        error = residual + scale**2 * np.trace(covariance @ moments)
        rows.append([name, rise, scale, error, losses.max(), losses.mean()])
columns = ["noise", "rise", "noise scale", "test error", "largest loss", "mean loss"]
frontier = pd.DataFrame(rows, columns=columns)
print(frontier[np.isclose(frontier["rise"], rises[4])].round(4).to_string(index=False))

# %%
# At the same rise of the objective, the most exposed patient leaks several times less.
largest = frontier.pivot(index="rise", columns="noise", values="largest loss")
gain = largest["isotropic"] / largest["curvature"]
print(f"largest loss, isotropic over curvature: {gain.min():.2f} to {gain.max():.2f} times")
if gain.min() < 4.0:
    raise ValueError("Noise in the shape of the curvature should leak at least 4 times less.")

# %%
# Does an attack agree?
# ---------------------
# The white box guesses the gene VKORC1 of every patient who was trained on, and takes all variants
# to be equally likely. Under noise of the shape of the curvature every variant has a mean and a
# covariance of its own, and the attack knows both. Its advantage over guessing is the mean over 60
# releases; all patients share the noise of one, so the standard error is that between releases.
raw, dose = fetch_iwpc(encoded=False, return_X_y=True)
raw, dose = raw.iloc[train].reset_index(drop=True), np.asarray(dose)[train]
encode = make_column_transformer(
    (OneHotEncoder(drop="first", sparse_output=False), ["race", "cyp2c9", "vkorc1"]),
    remainder="passthrough",
)
plain = PrivateLinearRegression(1.0, **OPTIONS).fit(X[train], y[train])
exposed = np.argsort(plain.fisher_information_loss_, kind="stable")[-100:]
advantages = {}
for name in ("isotropic", "curvature"):
    scale = frontier.set_index(["noise", "rise"]).loc[(name, rises[0]), "noise scale"]
    generator = np.random.default_rng(0)
    private = PrivateLinearRegression(
        scale, noise_covariance=name, random_state=generator, **OPTIONS
    )
    pipeline = make_pipeline(encode, private).fit(raw, dose)
    attack = WhiteBoxAttributeInference(pipeline, "vkorc1", prior="uniform").fit(raw, dose)
    encoded = pipeline[:-1].transform(raw)
    releases = []
    for _ in range(60):
        releases.append(private.fit(encoded, dose).release())
    right = attack.predict(releases) == raw["vkorc1"].to_numpy()
    for who, chosen in (("all patients", slice(None)), ("most exposed", exposed)):
        each = 1.5 * (right[:, chosen].mean(axis=1) - 1.0 / 3.0)
        error = each.std(ddof=1) / np.sqrt(len(each))
        print(f"{name:9} advantage over guessing, {who}: {each.mean():.3f} +- {error:.3f}")
    advantages[name] = each.mean()
if advantages["curvature"] > 0.75 * advantages["isotropic"]:
    raise ValueError("The attack should gain less under noise in the shape of the curvature.")

# %%
figure, ax = plt.subplots(figsize=(7.0, 4.4), layout="constrained")
for (name, part), color in zip(
    frontier.groupby("noise", sort=False), ("#a3260f", "#3f6fb0", "#2e7d5b"), strict=True
):
    ax.plot(part["test error"], part["largest loss"], "o-", color=color, label=name, ms=4)
ax.axvline(residual, color="#1b2430", ls=":", lw=1.0)
ax.set(yscale="log", xlabel="mean squared error on patients not trained on")
ax.set_ylabel("largest Fisher information loss of a patient")
ax.legend(frameon=False, title="noise")
plt.show()
