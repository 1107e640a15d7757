"""
Noise where it costs least
==========================

Output perturbation adds the same noise to every coefficient. But the training objective is steep
in some directions and flat in others: noise along a flat direction costs little accuracy, and
hides as much. ``noise_covariance`` gives the noise a shape.

* ``"curvature"``: the inverse Hessian of the fit itself. It depends on the records, and so does
  the covariance of the release, which leaks as well: the leakage stated counts both terms.
* a matrix from **public** records, here the shape whose largest leakage is as small as it can be
  (``skleak.influence.minimax_shape``). It depends on no confidential record, and only the mean of
  the release leaks.

This script weighs leakage against accuracy for patients of a warfarin study. A fifth of them, who
are not in the training data, count as public records, and the error is measured on them as well.
"""

# %%
# Three shapes of noise
# ---------------------
import matplotlib.pyplot as plt
import numpy as np

from skleak.datasets import fetch_iwpc
from skleak.influence import minimax_shape
from skleak.linear_model import PrivateLinearRegression

X, y = fetch_iwpc(encoded=True, return_X_y=True)
X, y = X.to_numpy(dtype=float), np.asarray(y, dtype=float)
order = np.random.default_rng(0).permutation(len(y))
train, held_out = order[:3855], order[3855:]
ALPHA, SCALES = 1e-2, np.geomspace(1e-3, 1.0, 13)


def fitted(rows, noise_scale, covariance="isotropic"):
    """A private model; its noise plays no part in what is measured below."""
    model = PrivateLinearRegression(
        noise_scale, noise_covariance=covariance, alpha=ALPHA, fit_intercept=False
    )
    return model.fit(X[rows], y[rows])


public = minimax_shape(fitted(held_out, 1.0), tol=1e-3)
print(f"minimax shape of {len(held_out)} public records: {len(public.support)} determine it")
covariances = {"isotropic": "isotropic", "curvature": "curvature", "minimax": public.shape}

# %%
# Leakage and error at every noise scale
# --------------------------------------
# The error on held-out patients is the expected one: noise of covariance C raises the mean squared
# error by ``tr(C M)``, with M their mean square, so that no release needs to be drawn. The shape
# of the noise is known here, to whoever trains the model.
truth, features = y[held_out], X[held_out]
moments = features.T @ features / len(truth)
noiseless = fitted(train, 0.0)
residual = np.mean((truth - features @ noiseless.coef_) ** 2)
spread = np.var(truth)


def inverse_hessian() -> np.ndarray:
    """Inverse of the mean Hessian of the training objective."""
    return np.linalg.inv(X[train].T @ X[train] / len(train) + ALPHA * np.eye(X.shape[1]))


curves = {}
for name, covariance in covariances.items():
    shape = {"isotropic": np.eye(X.shape[1]), "curvature": inverse_hessian()}.get(name, covariance)
    shape = shape * len(shape) / np.trace(shape)
    cost = np.trace(shape @ moments)
    rows = []
    for scale in SCALES / np.sqrt(cost):
        model = fitted(train, scale, covariance)
        score = 1.0 - (residual + scale**2 * cost) / spread
        rows.append((score, model.fisher_information_loss_.max()))
    curves[name] = np.array(rows)

# %%
# Scales were chosen such that all three shapes have the same error. The largest loss of a patient,
# both terms counted, and how many times smaller it is than under isotropic noise:
best = 1.0 - residual / spread
print(f"\nR^2 on held-out patients without noise: {best:.3f}")
print(f"{'R^2':>8}" + "".join(f"{name:>12}" for name in curves) + "   isotropic over the others")
for k in range(0, len(SCALES), 2):
    losses = [curve[k, 1] for curve in curves.values()]
    ratios = "  ".join(f"{losses[0] / each:8.2f}" for each in losses[1:])
    print(f"{curves['isotropic'][k, 0]:8.3f}" + "".join(f"{each:12.3g}" for each in losses), ratios)

# %%
# The covariance of "curvature" leaks by itself, at any noise scale: the curve ends at a floor. For
# releases that are worth something it is far below what the mean leaks.
report = fitted(train, SCALES[4], "curvature").leakage_report()
print(f"\nlargest loss through the covariance: {report.dataset['through_covariance_max_loss']:.3f}")
for line in report.findings:
    if "curvature" in line:
        print(line)
useful = curves["isotropic"][:, 0] > 0.9 * best
gains = {name: curves["isotropic"][useful, 1] / curve[useful, 1] for name, curve in curves.items()}
for name in ("curvature", "minimax"):
    least = gains[name].min()
    print(f"{name}: at equal error, at least {least:.2f} times less where R^2 > {0.9 * best:.2f}")
    if least < 4.0:
        raise ValueError(f"{name} does not cut the largest leakage by a factor of 4: {least:.3f}.")

# %%
figure, axes = plt.subplots(figsize=(7.0, 4.5), layout="constrained")
colours = {"isotropic": "#a3260f", "curvature": "#3f6fb0", "minimax": "#1f6b42"}
for name, curve in curves.items():
    axes.plot(curve[:, 1], curve[:, 0], "o-", ms=4, color=colours[name], label=name)
axes.axhline(best, color="#1b2430", ls="--", lw=1.0)
axes.set(xscale="log", ylim=(0.0, None))
axes.set_xlabel("largest Fisher information loss of a patient, both terms")
axes.set_ylabel("expected R² on held-out patients")
axes.legend(frameon=False)
plt.show()
