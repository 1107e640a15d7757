"""
How much noise hides an attribute?
==================================

A model of the progression of diabetes is to be published, and nobody should learn a patient's sex
from it. `MaxAdvantage` finds the noise at which no attacker, however clever, gains more than a
stated advantage on that attribute of any patient. This example takes the answer apart: it computes
what would have been published had each patient been of the other sex, and the advantage of the best
attacker for every patient over the noise.
"""

# %%
# Ask for an advantage, not for a noise scale
# -------------------------------------------
# Advantage is success beyond the best blind guess, over what is left to gain. The attacker knows
# everything but the sex of one patient: all other records, the other columns and the model's
# settings; whatever is known of the sex beforehand, the gain stays below the target. The noise is
# read off the data, and published as a rung of a public ladder, the powers of the square root of 2.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from skleak.channels import GaussianChannel
from skleak.influence import candidate_encodings
from skleak.linear_model import PrivateLinearRegression
from skleak.mechanisms import MaxAdvantage

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
numeric = [name for name in X if name != "sex"]
X[numeric] = (X[numeric] - X[numeric].mean()) / X[numeric].std()
X["sex"] = (X["sex"] == 2.0).astype(float)

target = 0.1
model = PrivateLinearRegression(MaxAdvantage(target, attribute="sex")).fit(X, y)
print(f"noise scale for an advantage of at most {target}: {model.noise_scale_:.4f}")

# %%
# What would have been published
# ------------------------------
# The minimizer for each patient and each value of the attribute, by closed forms and not by
# refitting: 442 patients, two values, eleven coefficients.
values = [0.0, 1.0]
encodings = candidate_encodings(model, X, y, "sex", values)
prior = np.array([0.5, 0.5])  # under which there is most to gain
print("encodings", encodings.shape, "prior", prior.round(3))

# %%
# The release is the encoding of the true value plus noise, so the best attacker's advantage is a
# closed form in the distance of the two encodings over the noise.
noise_scales = model.noise_scale_ * np.geomspace(1 / 16, 4.0, 61)
advantage = np.array(
    [GaussianChannel(encodings, scale).bayes_advantage(prior) for scale in noise_scales]
)
at_target = GaussianChannel(encodings, model.noise_scale_).bayes_advantage(prior)
# Up to a rung more noise than needed: the square root of 2.
if not target / 1.45 <= at_target.max() <= target:
    raise ValueError(f"The calibrated noise misses its target: {at_target.max():.8f}.")
shares = [0.5, 0.9, 0.99, 1.0]
table = pd.DataFrame(
    np.quantile(advantage[::10], shares, axis=1).T,
    index=pd.Index(noise_scales[::10].round(3), name="noise scale"),
    columns=["median", "90 %", "99 %", "most exposed"],
)
print("Advantage of the best attacker over patients")
print(table.round(4).to_string())

# %%
# The noise that protects the most exposed patient protects the median patient many times over.
figure, ax = plt.subplots(figsize=(8.0, 4.6), layout="constrained")
quantiles = np.quantile(advantage, [0.0, 0.25, 0.5, 0.75, 1.0], axis=1)
ax.fill_between(noise_scales, quantiles[0], quantiles[4], color="#a9bfdc", lw=0, label="range")
ax.fill_between(
    noise_scales, quantiles[1], quantiles[3], color="#3f6fb0", lw=0, label="middle half"
)
ax.plot(noise_scales, quantiles[2], color="#1b2430", lw=2.0, label="median")
worst = at_target.argmax()
ax.plot(noise_scales, advantage[:, worst], color="#b4480c", lw=2.0, label=f"patient {worst}")
ax.axhline(target, color="#1b2430", lw=1.0, ls=":", label=f"target {target}")
ax.axvline(model.noise_scale_, color="#1b2430", lw=1.0, ls="--", label="calibrated noise")
ax.set(xscale="log", xlabel="noise scale", ylabel="advantage of the best attacker")
ax.set_title("How well the sex of each patient can be guessed", fontsize="medium")
ax.margins(x=0.0)
ax.set_ylim(0.0, 1.02)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))

# %%
# What a bound would have cost
# ----------------------------
# For the most exposed patient, the advantage that each bound allows over the noise. A bound that
# stands above the attacker asks for more noise than is needed.
channel = GaussianChannel(encodings[worst], noise_scales)
ladder = channel.advantage_bounds(prior).pivot_table(
    "advantage", index="record", columns="bound", sort=False
)
ladder.index = pd.Index(noise_scales, name="noise scale")
styles = {
    "generalized Fano": ("#e69f00", "--"),
    "Fano, order 1": ("#e69f00", "-"),
    "Fano, exact information": ("#0072b2", "-"),
    "Bayes": ("#1b2430", "-"),
}
figure, ax = plt.subplots(figsize=(8.0, 4.4), layout="constrained")
for bound, (color, stroke) in styles.items():
    ax.plot(ladder[bound], color=color, ls=stroke, lw=3.4 if bound == "Bayes" else 1.7, label=bound)
ax.fill_between(noise_scales, 0.0, ladder["Bayes"], color="#1b2430", alpha=0.07, lw=0.0)
ax.axhline(target, color="#1b2430", lw=1.0, ls=":")
ax.set(xscale="log", xlabel="noise scale", ylabel="advantage over guessing")
ax.set_title(f"Sex of patient {worst}", fontsize="medium")
ax.margins(x=0.0)
ax.set_ylim(0.0, 1.02)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.02, 0.5))
needed = {
    bound: np.exp(np.interp(-target, -values.to_numpy(), np.log(noise_scales)))
    for bound, values in ladder.items()
    if values.min() < target < values.max()
}
print(f"Noise at which each bound allows {target}, for patient {worst}")
print(pd.Series(needed).sort_values().round(3).to_string())
plt.show()
