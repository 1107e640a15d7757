"""
How much noise is enough? An audit
==================================

A model of the progression of diabetes is to be published. An audit plays attacks against it: an
attacker who knows everything but the sex of one patient guesses it from the published
coefficients. The noise on the coefficients is what protects the patient and what costs accuracy,
so the audit goes over a range of noise, and its figure is where the choice is made.
"""

# %%
# The model to publish
# --------------------
# A pipeline like any other. Only its last step is special: it adds Gaussian noise to its
# coefficients. A quarter of the patients is kept aside, to say honestly how well it predicts.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.audit import LeakageAuditor
from skleak.linear_model import PrivateLinearRegression
from skleak.plotting import AuditDisplay, VulnerabilityDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X["sex"] = X["sex"].map({1.0: "female", 2.0: "male"})
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = make_pipeline(
    make_column_transformer(
        (OneHotEncoder(drop="if_binary", sparse_output=False), ["sex"]),
        remainder=StandardScaler(),
    ),
    PrivateLinearRegression(),
)

# %%
# The audit
# ---------
# The auditor takes raw patients. At every noise scale it simulates a hundred published models,
# without training any of them again, and lets four attacks guess:
#
# * ``prior`` guesses the more frequent sex, and looks at nothing;
# * ``imputation`` guesses the sex from the patient's other columns, and never sees the model;
# * ``black_box`` may ask the published model for predictions;
# * ``white_box`` reads the coefficients, and nothing beats it.
noise_scales = np.geomspace(0.03, 30.0, 10)
auditor = LeakageAuditor(model, "sex", noise_scales=noise_scales, secrets="actual", random_state=0)
auditor.fit(X_train, y_train, X_test, y_test)
print(auditor.results_.pivot(index="noise_scale", columns="attack", values="success").round(3))

# %%
# That is the share of patients guessed right. ``results_`` holds far more, in a row for each noise
# scale and attack: here that of the white box where the noise begins to matter. ``bayes`` is what
# the best of all attacks reaches, computed and not simulated; ``tradeoff`` to
# ``reconstruction_robustness`` are bounds on it; ``utility`` is the score of the published model,
# R² on the patients kept aside.
row = auditor.results_.query("attack == 'white_box' and noise_scale > 0.6").iloc[0]
print(row.to_string(float_format="{:.3f}".format))

# %%
# The intervals are wide where the noise decides. One published model is about all patients at
# once, so its noise helps or hurts the guesses about all of them together, and a hundred models
# count as a hundred observations, however many patients there are.
#
# The figure to choose from
# -------------------------
# Above are the share of patients whose sex can be told with more than the limit over a coin, and
# the largest gain, whatever an attacker knows of them; beside these the best attack that was
# tried. Below is what the noise costs.
_ = AuditDisplay.from_auditor(auditor).plot()

# %%
# The decision says whether the limit is kept, and which noise keeps it for everyone.
decision = auditor.report_.decision()
smallest = decision["smallest"]
print(f"at noise {decision['noise']:.3g}, limit {decision['limit']}: {decision['verdict']}")
print(f"noise that keeps it for everyone: {smallest['noise']:.3g}, R² {smallest['utility']:.3f}")

# %%
# Much less noise is enough on average, against attackers who know only how frequent the sexes
# are. Advantage is success beyond that of this prior, over what is left to gain. Say that 0.1 is
# acceptable: that is read off the curve of the best attack, not off an attack that happened to be
# tried.
results = auditor.results_.set_index(["noise_scale", "attack"])
best = results.xs("white_box", level="attack")
allowed = (best["bayes"] - best["baseline"]) / (1.0 - best["baseline"])
enough = allowed.index[allowed <= 0.1].min()
print(f"smallest of these noise scales with an advantage of at most 0.1: {enough:.3g}")
print(f"advantage of the best attack: {allowed[enough]:.3f}")
noiseless = auditor.report_.settings["noiseless_utility"]
print(f"R² there: {best.loc[enough, 'utility']:.3f}, and {noiseless:.3f} without noise")

# %%
# What imputation says
# --------------------
# Sex can be guessed from blood values and height, whoever publishes whatever. An attack that
# knows as much of the patient as the white box does, but has not seen the model, is right this
# often:
print(best[["baseline", "imputation"]].iloc[0].round(3).to_string())

# %%
# So an attack on this model is not to be compared with the prior alone. What it has *from the
# model* is its advantage over imputation, which is negative where the noise drowns the rest: the
# white box is told frequencies of the sexes, and no more of the other columns.
columns = ["advantage", "advantage_over_imputation"]
print(best[columns].round(3).to_string())

# %%
# An attacker would use both. With ``prior="conditional"`` all attacks and bounds start from what
# the other columns say of each patient; the advantage left is what the model adds.
conditional = LeakageAuditor(
    model,
    "sex",
    attacks=["prior", "white_box"],
    noise_scales=enough,
    secrets="actual",
    prior="conditional",
    random_state=0,
).fit(X_train, y_train, X_test, y_test)
columns = ["attack", "success", "baseline", "advantage", "bayes"]
print(conditional.results_[columns].round(3).to_string(index=False))

# %%
# The patients as they are, or as they might be
# ---------------------------------------------
# The audit above has ``secrets="actual"``: the patients are these, and the question is how many
# of them are guessed right. A bound speaks of another game ([FANO23] figure 1): the sex of one
# patient is drawn by chance, the model is trained with it, published, and the sex guessed. That
# is ``secrets="drawn"``, the default. There the bounds hold exactly, for every patient and attack,
# and the success of the white box is that of the best attack up to sampling. Choose "actual" to
# hear how these people would fare, and "drawn" to check attacks against bounds.
drawn = LeakageAuditor(
    model,
    "sex",
    attacks=["prior", "white_box"],
    noise_scales=noise_scales,
    secrets="drawn",
    random_state=0,
).fit(X_train, y_train)
played = drawn.results_.query("attack == 'white_box'").set_index("noise_scale")
print(played[["success_low", "success", "success_high", "bayes", "verdict"]].round(4).to_string())
if "bound exceeded" in {*drawn.results_["verdict"], *drawn.records_["verdict"]}:
    raise ValueError("An attack beats a bound in the very game that the bound is about.")

# %%
# Averages hide the most exposed patients. By how much the model leaks about them (their Fisher
# information loss), the success of the attack and of the best one at the noise chosen above.
# Whoever must protect each patient reads ``bayes`` in ``records_``, and needs more noise.
VulnerabilityDisplay.from_report(drawn.report_, enough, ["white_box", "prior"]).plot()
worst = drawn.records_.query("noise_scale == @enough").nlargest(3, "bayes")
print(worst[["record", "prior", "eta", "bayes"]].round(3).to_string(index=False))

# %%
# The report says what was found in words; ``auditor.report_.to_html("audit.html")`` writes all of
# it for a browser. It names the most exposed patients, and is as confidential as they are.
for finding in auditor.report_.findings:
    print("-", finding)
plt.show()
