"""``skleak demo``: a private model on bundled data, a report on it, and attacks against it."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.audit import AuditReport, LeakageAuditor
from skleak.cli._arguments import AUDIT_NAME, REPORT_NAME
from skleak.cli._terminal import say, section, wrap, write
from skleak.influence.reweighting import relative_spread
from skleak.linear_model import PrivateLinearRegression
from skleak.metrics import EXCEEDED
from skleak.plotting.labels import number, percent
from skleak.plotting.results import levels, tightest
from skleak.report import align

_ALPHA = 0.1
_SECRET = "sex"
_N_RELEASES = 50


def demo(noise_scale: float, irfil: bool, out: Path) -> int:
    """Run the command; its exit code is 0."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X_train, X_test, y_train, y_test = train_test_split(X.astype({"sex": int}), y, random_state=1)
    ordinary = _pipeline(Ridge(alpha=_ALPHA * len(y_train))).fit(X_train, y_train)
    plain, balanced = (
        _pipeline(PrivateLinearRegression(noise_scale, alpha=_ALPHA, reweighting=reweighting))
        for reweighting in (None, "irfil")
    )
    model = (balanced if irfil else plain).fit(X_train, y_train)
    groups = ("sex " + X_train["sex"].astype(str)).to_numpy()
    report = model[-1].leakage_report(groups=groups)
    audit = _audit(model, noise_scale, (X_train, y_train, X_test, y_test))
    write(report, out)
    write(audit, audit_path(out))

    say(
        f"""\
Data: scikit-learn's diabetes data, {len(X)} patients; target: how far the disease went in
a year. Fitted on {len(X_train)} of them, tested on the other {len(X_test)}.
Model: sex one-hot, the rest standardised; PrivateLinearRegression with alpha {_ALPHA:g}.
Test R²: {model.score(X_test, y_test):.3f} with noise of standard deviation {noise_scale:g}; \
{ordinary.score(X_test, y_test):.3f} by plain ridge regression.
""",
        report.to_text(),
    )
    if noise_scale > 0.0:
        say(_units(model, report.features))
    if irfil:
        plain.fit(X_train, y_train)
        say(_comparison(plain[-1], model[-1]))
    say(_attacked(audit), _next_steps(noise_scale, irfil, out))
    return 0


def audit_path(out: Path) -> Path:
    """Return the path of the audit: beside the report, under a name that tells them apart."""
    if out.name == REPORT_NAME:
        return out.with_name(AUDIT_NAME)
    return out.with_name(f"{out.stem}-audit{out.suffix}")


def _pipeline(model: PrivateLinearRegression | Ridge) -> Pipeline:
    columns = make_column_transformer(
        (OneHotEncoder(drop="if_binary", sparse_output=False), ["sex"]),
        remainder=StandardScaler(),
        verbose_feature_names_out=False,
    )
    return make_pipeline(columns.set_output(transform="pandas"), model)


def _units(model: Pipeline, features: pd.DataFrame) -> str:
    """Translate bounds on standardised columns into the units of the data."""
    scaler = model[0].named_transformers_["remainder"]
    scale = dict(zip(scaler.feature_names_in_, scaler.scale_, strict=True))
    names = [name for name in features.index if name in scale and name != "age"][:3]
    bounds = ", ".join(
        f"{name} {features.loc[name, 'standard_error'] * scale[name]:.3g}" for name in names
    )
    age = features.loc["age", "standard_error"] * scale["age"]
    return section(
        "Units",
        f"""\
Standardising made one unit of a column one standard deviation: the bounds above are
z-scores. In the units of the data, an attacker's standard error is at least
{bounds}; and {age:.3g} years for age, whose standard deviation is {scale["age"]:.3g}.""",
    )


def _audit(model: Pipeline, noise_scale: float, data: Any) -> AuditReport:
    """Attack releases with less noise, the same and more."""
    scales = [0.0, 0.2, 2.0] if noise_scale == 0.0 else [k * noise_scale for k in (0.1, 1.0, 10.0)]
    auditor = LeakageAuditor(
        model, _SECRET, noise_scales=scales, n_releases=_N_RELEASES, prior="conditional"
    )
    auditor.fit(*data)
    report: AuditReport = auditor.report_
    return report


def _attacked(audit: AuditReport) -> str:
    """Tell what the attacks got right, in a sentence and a small table."""
    right = audit.results.pivot(index="noise_scale", columns="attack", values="success")
    shared, bound = levels(audit), tightest(audit)["value"]
    rows = [
        (
            number(noise),
            percent(shared.loc[noise, "baseline"]),
            *(percent(right.loc[noise, name]) for name in ("imputation", "black_box", "white_box")),
            percent(bound[noise], up=True),
            number(shared.loc[noise, "utility"]),
        )
        for noise in right.index
    ]
    header = ("noise", "prior", "imputation", "black box", "white box", "bound", "R²")
    table = "\n".join(align(header, rows))
    meaning = (
        "The prior is what the other columns tell; imputation guesses from them without "
        "the model. No attack is right more often than the bound, on average over secrets drawn "
        "from the prior."
    )
    if (right[["black_box", "white_box"]].max(axis=1) > bound).any():
        beyond = (audit.results["verdict"] == EXCEEDED).any()
        how = "more" if beyond else "no more"
        meaning += f" Where one is in this table, it is so by {how} than chance explains."
    text = f"{wrap(audit.findings[:1])}\n\n{table}\n{wrap([meaning])}"
    return section(f"Attacked: share of records whose {_SECRET} is guessed right", text)


def _comparison(plain: PrivateLinearRegression, balanced: PrivateLinearRegression) -> str:
    losses = {
        "before": plain.fisher_information_loss_,
        "weights fixed": balanced.conditional_fisher_information_loss_,
        "in all": balanced.fisher_information_loss_,
    }
    rows = {
        "spread over records": [
            relative_spread(loss, np.ones_like(loss)) for loss in losses.values()
        ],
        "max loss": [loss.max() for loss in losses.values()],
        "mean loss": [loss.mean() for loss in losses.values()],
        "min loss": [loss.min() for loss in losses.values()],
    }
    header = f"{'':<22}" + "".join(f"{name:>16}" for name in losses)
    lines = [
        f"{label:<22}" + "".join(f"{number(value):>16}" for value in values)
        for label, values in rows.items()
    ]
    meaning = (
        "The reweighting makes the loss equal that records would have if their weights were fixed. "
        "The weights depend on the records, too: in all, the loss is not equal, and the report "
        "counts all of it."
    )
    table = "\n".join([header, *lines])
    return section("Reweighting (IRFIL): before and after", f"{table}\n{wrap([meaning])}")


def _next_steps(noise_scale: float, irfil: bool, out: Path) -> str:
    read = f"Read the report, which is confidential: {out}\nand the audit: {audit_path(out)}"
    if noise_scale == 0.0:
        advice = "Nothing of this fit should leave. Fit with noise: try --noise-scale 2."
        return section("What next", f"{read}\n{advice}")
    advice = "More noise leaks less and predicts worse: try --noise-scale 4."
    if not irfil:
        advice += "\nThe same noise, and a loss that is mostly more even: try --irfil."
    return section(
        "What next",
        f"""\
{read}
{advice}
To publish the model, publish what `release()` returns, never the fitted estimator:
    released = pipeline[-1].release()    # noisy coefficients; no record, no leakage
    released.predict(pipeline[:-1].transform(X_new))
The means and scales in `pipeline[:-1]` were learned from the same patients without
noise, and are not counted here: take them from public knowledge where that matters.
Fitting and releasing again draws new noise, and the leakage of both adds up.""",
    )
