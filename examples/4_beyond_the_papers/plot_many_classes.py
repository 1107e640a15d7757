"""
Ten classes: whose handwriting does a classifier give away?
===========================================================

With more than two classes `PrivateLogisticRegression` is multinomial, one predictor per class, and
knows the leakage of every record as it does for two. This script trains it on the handwritten
digits that come with scikit-learn, finds the images that are most exposed, and checks one of them
by refitting.
"""

# %%
# Fit
# ---
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skleak.linear_model import PrivateLogisticRegression

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, random_state=0, stratify=y)
NOISE_SCALE = 0.1
model = PrivateLogisticRegression(NOISE_SCALE, alpha=1e-2, private_target=False, random_state=0)
model.fit(X_train, y_train)
noiseless = PrivateLogisticRegression(0.0, alpha=1e-2, private_target=False).fit(X_train, y_train)
print(f"coefficients {model.coef_.shape}, intercepts {model.intercept_.shape}")
for name, fitted in (("with noise", model), ("without noise", noiseless)):
    print(f"share of digits recognized {name:13} {fitted.score(X_test, y_test):.3f}")

# %%
# Who is exposed
# --------------
# The loss of an image is the largest over all its pixels together: an attacker who knows all other
# images, and is unbiased, cannot know any pattern in this one with a standard error below one over
# its loss. Pixels lie between 0 and 1.
losses = model.fisher_information_loss_
table = pd.DataFrame({"digit": y_train, "loss": losses}).groupby("digit")["loss"]
print(table.agg(["median", "max"]).round(2).T.to_string())
order = np.argsort(losses)
worst = int(order[-1])
print(f"smallest standard error: {1.0 / losses[worst]:.2f} for the most exposed image, ", end="")
print(f"{1.0 / np.median(losses):.2f} for the median one")

# %%
# The proof for one image: a few pixels are moved, the model is fitted again, and the differences of
# all 650 parameters make columns of the Jacobian.
step = 1e-4


def parameters(pixel: int, change: float) -> np.ndarray:
    """All parameters without noise, had one pixel of the most exposed image been different."""
    moved = X_train.copy()
    moved[worst, pixel] += change
    refit = clone(noiseless).fit(moved, y_train)
    return np.append(np.ravel(refit.coef_), refit.intercept_)


pixels = np.argsort(X_train.std(axis=0))[-3:]  # three are enough to see it
jacobian = np.column_stack(
    [(parameters(j, step) - parameters(j, -step)) / (2.0 * step) for j in pixels]
)
refitted = np.linalg.norm(jacobian, axis=0) / NOISE_SCALE
computed = model.fisher_information_loss(
    X_train[[worst]], y_train[[worst]], per="feature", features=pixels
)[0]
print("by refits ", refitted.round(4))
print("computed  ", computed.round(4))
if np.max(np.abs(refitted - computed)) > 1e-4 * refitted.max():
    raise ValueError("Refits contradict the leakage computed.")

# %%
# The images themselves. Those that leak are the odd ones, on which the model would err without
# them; those that do not look like all others of their digit.
figure, axes = plt.subplots(2, 8, figsize=(9.0, 3.0), layout="constrained")
for row, chosen, name in ((0, order[::-1][:8], "most"), (1, order[:8], "least")):
    for ax, i in zip(axes[row], chosen, strict=True):
        ax.imshow(X_train[i].reshape(8, 8), cmap="gray_r")
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"{y_train[i]}: {losses[i]:.3g}", fontsize="small")
    axes[row, 0].set_ylabel(f"{name} exposed")
plt.show()
