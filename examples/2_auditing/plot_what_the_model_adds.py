"""
What does the attacker gain from the model?
===========================================

An attacker who knows all of a patient but the genotype, and the warfarin dose the patient got, can
ask a published dose model which genotype fits best. That is often right. But is it the patient's
own record that the model gives away, or what is true of all such patients? Two yardsticks tell:
patients the model has never seen, and a guess that does not use the model at all.
"""

# %%
# Three models of the same data
# -----------------------------
# Half of the patients train the models; the other half, drawn at random, are the control. A linear
# model has few parameters, a forest has many, and a single tree that is grown to the end knows
# every patient by heart.
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

from skleak.attacks import BlackBoxAttributeInference
from skleak.audit import attribute_gain
from skleak.datasets import fetch_iwpc

X, y = fetch_iwpc(return_X_y=True)
X_train, X_control, y_train, y_control = train_test_split(X, y, test_size=0.5, random_state=1)
nominal = ["race", "cyp2c9", "vkorc1"]


def fitted(model):
    """Encode the nominal columns, and fit."""
    encode = make_column_transformer((OneHotEncoder(), nominal), remainder="passthrough")
    return make_pipeline(encode, model).fit(X_train, y_train)


models = {
    "linear regression": fitted(LinearRegression()),
    "random forest": fitted(RandomForestRegressor(30, max_features=0.3, random_state=0)),
    "decision tree": fitted(DecisionTreeRegressor(random_state=0)),
}

# %%
# One attack, two samples
# -----------------------
# The attack takes the genotype of largest posterior probability: its frequency times the likelihood
# of the dose around what the model predicts. It is played against the patients of the training data
# and, in the belief that they were, against those of the control.
gains = {}
for name, model in models.items():
    attack = BlackBoxAttributeInference(model, "vkorc1", criterion="proba")
    gains[name] = attribute_gain(attack, model, X_train, y_train, X_control, y_control)
    print(f"{name}: {gains[name].attrs['verdict']}\n{gains[name].round(3)}\n")

# %%
# The linear model raises the success far above the guess of the most frequent genotype. Yet it is
# as high for patients who never were in the data: the dose depends on the genotype in everybody,
# and the model says so. Nor is a model needed for that, as the imputation shows. What the tree
# tells, it tells of its own patients only. The forest's guesses mix both.
shown = {"training": "#a3260f", "control": "#3b4f9c", "imputation_training": "#8a5a2b"}
figure, axes = plt.subplots(3, 1, figsize=(7.6, 6.0), sharex=True, layout="constrained")
for ax, (name, gain) in zip(axes, gains.items(), strict=True):
    for place, (quantity, color) in enumerate(shown.items()):
        estimate, low, high = gain.loc[quantity]
        ax.plot([low, high], [place, place], color=color, lw=2.4)
        ax.plot([estimate], [place], "o", color=color)
    ax.axvline(gain.loc["baseline_training", "estimate"], color="#1b2430", lw=1.0, ls="--")
    ax.set_yticks(range(3), ["training records", "control records", "imputation"])
    ax.set_ylim(2.6, -0.6)
    ax.set_title(f"{name}: {gain.attrs['verdict']}", fontsize="medium", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
ax.set_xlabel("share guessed right (dashed: the most frequent genotype)")

# %%
# Memory is not skill
# -------------------
# Leaves that must hold more patients remember less of each one. The leakage falls before the
# accuracy does: here privacy costs nothing, since what was learnt by heart was of no use.
rows = {}
for size in (1, 2, 5, 10, 20, 50):
    forest = RandomForestRegressor(30, max_features=0.3, min_samples_leaf=size, random_state=0)
    model = fitted(forest)
    attack = BlackBoxAttributeInference(model, "vkorc1", criterion="proba")
    gain = attribute_gain(attack, model, X_train, y_train, X_control, y_control, imputation=None)
    accuracy = model.score(X_control, y_control)
    rows[size] = [*gain.loc["leakage"], gain.loc["control", "estimate"], accuracy]
columns = ["leakage", "low", "high", "control", "R2 on control"]
table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
table.index.name = "patients in a leaf, at least"
print(table.round(3).to_string())

figure, ax = plt.subplots(figsize=(7.6, 4.0), layout="constrained")
ax.fill_between(table.index, table["low"], table["high"], color="#a3260f", alpha=0.15, lw=0)
ax.plot(table.index, table["leakage"], "o-", color="#a3260f", label="leakage, with its interval")
ax.plot(table.index, table["R2 on control"], "s--", color="#1b2430", label="R² on control")
ax.axhline(0.0, color="#8a8f98", lw=0.8)
ax.set(xscale="log", xlabel="patients in a leaf, at least", ylabel="share")
ax.set_xticks(table.index, [str(size) for size in table.index])
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
