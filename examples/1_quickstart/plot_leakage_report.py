"""
What does this model leak?
==========================

A model of the progression of diabetes is trained on 442 patients and published. How well could
somebody who knows everything else find out a patient's age, or sex? The answer is one number for
each patient and column, and a report in plain words.
"""

# %%
# A pipeline like any other
# -------------------------
# The private estimator is the last step. It adds Gaussian noise to its coefficients and knows what
# they leak about the records that reach it: here in units of standard deviations, as the columns
# are standardized.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.linear_model import PrivateLinearRegression
from skleak.plotting import LeakageDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = make_pipeline(
    make_column_transformer(
        (OneHotEncoder(drop="if_binary", sparse_output=False), ["sex"]),
        remainder=StandardScaler(),
        verbose_feature_names_out=False,
    ),
    PrivateLinearRegression(noise_scale=2.0),
).set_output(transform="pandas")
model.fit(X, y)
private = model[-1]

# %%
# The Fisher information loss of a patient is the reciprocal of the smallest standard error that an
# unbiased attacker can have who knows all the rest.
loss = private.fisher_information_loss_
print(f"{len(loss)} patients: median {np.median(loss):.3f}, largest {loss.max():.3f}")
_ = LeakageDisplay.from_estimator(private)

# %%
# Which columns, which patients
# -----------------------------
# For each column, the most exposed patient: the attacker's standard error is at least this many
# standard deviations of the column. Below 1 the release tells more than the column's spread.
report = private.leakage_report(groups=X["sex"])
_ = LeakageDisplay.from_report(report).plot(kind="features")

# %%
# Leakage is not spread evenly: in each group the most exposed leak several times the median.
_ = LeakageDisplay.from_report(report).plot(kind="groups")

# %%
# The report in words; ``report.to_html("report.html")`` writes it for a browser.
print(report)

# %%
# Leak more evenly
# ----------------
# Reweighting trains the model under which all patients would leak the same if their weights were
# fixed. The weights are a function of the patients as well: what they leak in all is more even
# than before, but not equal.
fair = PrivateLinearRegression(noise_scale=2.0, reweighting="irfil")
fair.fit(model[:-1].transform(X), y)
for name, values in (
    ("as is", loss),
    ("reweighted, weights fixed", fair.conditional_fisher_information_loss_),
    ("reweighted, in all", fair.fisher_information_loss_),
):
    print(f"{name:<26} {min(values):.4f} to {max(values):.4f}")

# %%
# What may leave
# --------------
# The fitted estimator and the report are confidential. What is published is the release: it
# predicts, and holds the noisy coefficients alone.
released = private.release()
print(released)
plt.show()
