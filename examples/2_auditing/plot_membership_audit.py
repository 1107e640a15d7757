"""
Was I in the training data? An audit of membership
==================================================

That a record was used to train a model can be a secret of its own: the model may be about
patients of one clinic. **A forest gives its members away, and nothing tells how many more a
better attack would find. A private model that predicts as well has a ceiling, which no attack
whatsoever exceeds.** An audit plays attacks, and computes what some attack surely reaches and what
none exceeds.
"""

# %%
# Two models
# ----------
# A forest of extremely randomized trees, each of which learns its records by heart, and a logistic
# regression that adds Gaussian noise to its coefficients. They tell benign from malignant tumors.
# A part of the records is kept aside: no model is trained on them, so that they show what a model
# says of strangers.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.audit import MembershipAuditor
from skleak.linear_model import PrivateLogisticRegression

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
split = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
X_train, X_test, y_train, y_test = split
forest = ExtraTreesClassifier(n_estimators=30)
private = make_pipeline(StandardScaler(), PrivateLogisticRegression(alpha=0.03))

# %%
# The game
# --------
# Thirty times, a coin decides of every candidate whether it is a member, a model is trained on
# the members, and the attacks guess who they are. What the attacks may know: all candidates, how
# the model is trained, and the members of the other trainings. Three of them play here.
#
# * ``loss`` calls a record a member where the model is sure of its true label;
# * ``likelihood_ratio`` compares that with what models trained with the record, and without it,
#   say of the same record;
# * ``exact`` is told all other memberships, and reads the coefficients. It needs to know how
#   noise was added, and so plays against the private model only. Nothing beats it.
#
# The private model is audited at three noise scales. Members are the same at all of them.
options = {"n_releases": 30, "random_state": 0}
of_forest = MembershipAuditor(forest, **options).fit(X_train, y_train, X_test, y_test)
noise_scales = [0.05, 0.2, 0.8]
of_private = MembershipAuditor(private, noise_scales=noise_scales, **options)
of_private.fit(X_train, y_train, X_test, y_test)
columns = ["noise_scale", "attack", "success", "tpr_at_1pct_fpr", "lower_bound", "bayes"]
results = pd.concat([of_forest.results_, of_private.results_])
print(results[[*columns, "utility"]].round(3).to_string(index=False))

# %%
# ``success`` is the share of guesses that are right; a coin reaches one half. A mean over all
# records hides the few that are exposed, so look at ``tpr_at_1pct_fpr`` too: how many members
# are found when one stranger in a hundred may be accused. ``lower_bound`` follows from how much
# better the model does on members than on strangers ([BIL23] theorem 2). The forest has a small
# gap, and still leaks a lot: overfitting is not needed. ``bayes`` is what the best of all attacks
# reaches; it is known of the private model, whose noise is.
#
# What is known of the best attack
# --------------------------------
# The bar is where the best attack may lie: from what is surely reached, by an attack that was
# played or by theory, to what none exceeds. Where there is no ceiling it goes on to certainty.
rows = [("forest", of_forest.results_)]
levels = of_private.results_.groupby("noise_scale")
rows += [(f"private, noise {scale:g}", part) for scale, part in levels]
markers = {"loss": "o", "likelihood_ratio": "s", "exact": "D"}
colors = {"loss": "#0072b2", "likelihood_ratio": "#d55e00", "exact": "#009e73"}
figure, axes = plt.subplots(figsize=(8.6, 4.2), layout="constrained")
for place, (_, part) in enumerate(reversed(rows)):
    floor = max(part["lower_bound"].iloc[0], part["success_low"].max(), 0.5)
    known = part["bayes"].notna().all()
    ceiling = part["bayes"].iloc[0] if known else 1.0
    style = {"color": "#b9c2cc"} if known else {"color": "#f3d9c9", "hatch": "///", "ec": "white"}
    axes.barh(place, max(ceiling - floor, 0.004), left=floor, height=0.62, zorder=1, **style)
    for step, (_, row) in zip(np.linspace(0.2, -0.2, len(part)), part.iterrows(), strict=True):
        error = [[row["success"] - row["success_low"]], [row["success_high"] - row["success"]]]
        axes.errorbar(
            row["success"],
            place + step,
            xerr=error,
            fmt=markers[row["attack"]],
            color=colors[row["attack"]],
            ms=6,
            lw=1.2,
            label=row["attack"].replace("_", " ") if place == 0 else None,
        )
    axes.text(1.01, place, f"{part['utility'].iloc[0]:.2f}", va="center", fontsize="small")
axes.text(1.01, len(rows) - 0.45, "accuracy", fontsize="small")
axes.axvline(0.5, color="#1b2733", lw=1.0, ls=":")
axes.set_yticks(range(len(rows)), [name for name, _ in reversed(rows)])
axes.set_xlim(0.42, 1.0)
axes.set_ylim(-0.5, len(rows) - 0.5)
axes.set_xlabel("members and strangers told apart (share of right guesses; 0.5 is a coin)")
axes.set_title("The forest gives its members away; noise puts a ceiling on any attack", loc="left")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(loc="lower right", frameon=False, title="attack")

# %%
# One person at a time
# --------------------
# Records are not alike. ``records_`` has the success of the best attack on each: at the middle
# noise scale most records can hardly be told, and a few stand out. The report names them.
middle = of_private.records_.query("noise_scale == @noise_scales[1]")
print(middle["bayes"].describe()[["mean", "50%", "max"]].round(3).to_string())

# %%
# That game draws all members anew, and a model sees half of the candidates. For the private model
# there is a second one: all others are in, and one record is in or out. ``secrets="drawn"`` plays
# it without training anything again, about the model that is to be published.
drawn = MembershipAuditor(
    private,
    secrets="drawn",
    noise_scales=noise_scales,
    n_releases=100,
    bounds=["bayes", "tradeoff", "fano"],
    random_state=0,
).fit(X_train, y_train)
columns = ["noise_scale", "success_low", "success", "success_high", "bayes", "fano", "verdict"]
print(drawn.results_[columns].round(3).to_string(index=False))
exceeded = {*drawn.results_["verdict"], *of_private.results_["verdict"]}
if "bound exceeded" in exceeded:
    raise ValueError("An attack beats a bound that no attack can beat.")

# %%
# The findings in words; ``report_.to_html("audit.html")`` writes all of them for a browser.
for finding in of_private.report_.findings:
    print("-", finding)
plt.show()
