"""
Does the Fisher information loss predict attacks? A gene and a model of doses
=============================================================================

[FIL21] section 6.4 attacks a gene (VKORC1: CC, CT or TT) of patients whose data trained a linear
model of warfarin doses. Its figure 6 shows how often the gene is guessed right over the noise on
the coefficients, for the white-box attack of that paper and the black-box attack of [F14], which
only asks the model for predictions.

This script recomputes those curves for three strengths of the penalty and puts the Fisher
information loss of the gene on the upper axis: it is the one number that says where the attack
begins to fail, whatever the penalty.

[FIL21] Hannun, Guo, van der Maaten. Measuring Data Leakage in Machine-Learning Models with Fisher
Information. UAI 2021.

[F14] Fredrikson et al. Privacy in Pharmacogenetics. USENIX Security 2014.
"""

# %%
# The model of the paper
# ----------------------
# Nominal columns one-hot, the first level dropped; no intercept; four fifths of the patients.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.attacks import BlackBoxAttributeInference, PriorAttack, WhiteBoxAttributeInference
from skleak.datasets import fetch_iwpc
from skleak.linear_model import PrivateLinearRegression

GENE, COLUMNS = "vkorc1", ["vkorc1_CT", "vkorc1_TT"]
X, y = fetch_iwpc(encoded=False, return_X_y=True)
X, _, y, _ = train_test_split(X, y, train_size=0.8, random_state=0)
secret = X[GENE].to_numpy()


def make_model(alpha):
    """The linear model of the paper; its noise is drawn below, so that it is trained once."""
    encode = make_column_transformer(
        (OneHotEncoder(drop="first", sparse_output=False), ["race", "cyp2c9", GENE]),
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    regression = PrivateLinearRegression(noise_scale=0.0, alpha=alpha, fit_intercept=False)
    return make_pipeline(encode, regression).set_output(transform="pandas")


# %%
# Attacks on many releases
# ------------------------
# A release is the minimiser plus noise. The attacks are fitted once on what their adversary knows,
# then guess from as many releases as we like. The black box computes predictions for all variants
# of all patients in every release, and is asked at every third noise scale.
noise_scales = np.geomspace(1e-6, 1.0, 19)
n_releases = 20


def accuracies(attack, coefficients, scale, rng):
    """Share of right guesses in each release, of shape (n_releases,)."""
    noise = scale * rng.normal(size=(n_releases, len(coefficients)))
    guesses = attack.predict(coefficients + noise, noise_scale=scale)
    return np.mean(guesses == secret, axis=1)


def curves(alpha, rng):
    """Mean and standard deviation between releases, and the loss at noise 1, for one penalty."""
    model = make_model(alpha).fit(X, y)
    coefficients = model[-1].coef_
    shell = model[-1].set_params(noise_scale=1.0).fit(model[:-1].transform(X), y)
    loss = shell.fisher_information_loss(features=COLUMNS)
    model = make_model(alpha)
    attacks = {
        "white box, with prior": WhiteBoxAttributeInference(model, GENE),
        "white box, no prior": WhiteBoxAttributeInference(model, GENE, prior="uniform"),
        "black box": BlackBoxAttributeInference(model, GENE),
    }
    rows = []
    for name, attack in attacks.items():
        attack.fit(X, y)
        for scale in noise_scales[:: 3 if name == "black box" else 1]:
            shares = accuracies(attack, coefficients, scale, rng)
            rows.append([alpha, name, scale, shares.mean(), shares.std(ddof=1)])
    return rows, loss.mean()


rng = np.random.default_rng(0)
rows, losses = [], {}
for alpha in (1e-4, 1e-2, 1.0):
    some, losses[alpha] = curves(alpha, rng)
    rows += some
table = pd.DataFrame(rows, columns=["alpha", "attack", "noise scale", "mean", "deviation"])
prior = PriorAttack(GENE).fit(X, y).score(None, secret)
print(f"prior: {prior:.3f}")
for alpha, part in table.groupby("alpha"):
    print(f"\nalpha {alpha:g}, share of right guesses, mean over {n_releases} releases")
    wide = part.pivot(index="noise scale", columns="attack", values="mean")
    wide.insert(0, "mean loss", losses[alpha] / wide.index)
    print(wide.iloc[::3].to_string(float_format="{:.3g}".format))

# %%
# With little noise the white box is right about (almost) everybody. Drowned in noise it falls back
# to the prior where it has one, and to one guess in three where it has none. The black box is right
# about half of the patients whatever the noise, until the predictions are noise too: it imputes
# the gene from the rest of the patient, which no noise on a model prevents.
for alpha, part in table.groupby("alpha"):
    wide = part.pivot(index="noise scale", columns="attack", values="mean")
    deviation = part.pivot(index="noise scale", columns="attack", values="deviation")
    limit = 4.0 * deviation / np.sqrt(n_releases) + 0.02
    ends = {"white box, with prior": prior, "white box, no prior": 1.0 / 3.0}
    for name, end in ends.items():
        if wide[name].iloc[0] < 0.99:
            raise ValueError(f"{name} fails without noise at alpha {alpha:g}.")
        if abs(wide[name].iloc[-1] - end) > limit[name].iloc[-1]:
            raise ValueError(f"{name} does not fall back to {end:.3f} at alpha {alpha:g}.")

# %%
# The deviation between releases is that of a share of all patients: they share the noise of a
# release. A stronger penalty moves the curves to the left, and the loss (upper axis) with them.
COLORS = {
    "white box, with prior": "#a3260f",
    "white box, no prior": "#d98324",
    "black box": "#3f4fb0",
}
figure, axes = plt.subplots(1, 3, figsize=(13.0, 4.4), sharey=True, layout="constrained")
for ax, (alpha, part) in zip(axes, table.groupby("alpha"), strict=True):
    for name, curve in part.groupby("attack", sort=False):
        low, high = curve["mean"] - curve["deviation"], curve["mean"] + curve["deviation"]
        ax.fill_between(curve["noise scale"], low, high, color=COLORS[name], alpha=0.2, lw=0.0)
        ax.plot(curve["noise scale"], curve["mean"], "o-", ms=4, color=COLORS[name], label=name)
    ax.axhline(prior, color="#6b7280", ls="--", lw=1.2, label="prior")
    ax.set(xscale="log", xlabel="noise scale", ylim=(0.25, 1.02))
    ax.set_title(f"alpha {alpha:g}", fontsize="medium")

    def loss_of(scale, loss=losses[alpha]):
        """Mean Fisher information loss at a noise scale, and the other way round."""
        return loss / np.maximum(scale, 1e-300)

    upper = ax.secondary_xaxis("top", functions=(loss_of, loss_of))
    upper.set_xlabel("mean Fisher information loss of the gene")
    ax.spines["right"].set_visible(False)
axes[0].set_ylabel("share of right guesses")
axes[-1].legend(frameon=False, loc="upper right")
plt.show()
