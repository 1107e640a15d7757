"""A leakage report as one HTML page, or as a fragment for a notebook."""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from skleak._version import __version__
from skleak.rendering._format import COVARIANCES, count, number, plural, printable, shorten
from skleak.rendering._histogram import leakage_histogram
from skleak.rendering._svg import HistogramChart, histogram_chart
from skleak.rendering._tables import exposure, shown_features, shown_groups

if TYPE_CHECKING:
    from skleak.reports._leakage_report import LeakageReport

__all__ = ["to_html"]

_N_FEATURES = 30
_N_GROUPS = 30


def to_html(report: "LeakageReport", embedded: bool = False) -> str:
    """Write a report as HTML that needs nothing else: no script, no font, no picture."""
    template = _environment().get_template("leakage_report.html.j2")
    records = report.records
    present = records["sample_weight"].to_numpy() > 0.0
    loss = records["fisher_information_loss"].to_numpy()
    features = shown_features(report.features, _N_FEATURES)
    groups = shown_groups(report.groups, _N_GROUPS)
    return template.render(
        embedded=embedded,
        version=__version__,
        report=report,
        data=report.dataset,
        guarantee=report.differential_privacy,
        chart=_chart(report, loss[present]),
        features=_feature_rows(features),
        n_more_features=len(report.features) - len(features),
        n_sharper=int((report.features["relative_standard_error"].astype(float) < 1.0).sum()),
        n_compared=int(report.features["relative_standard_error"].notna().sum()),
        groups=_group_rows(groups),
        n_more_groups=len(report.groups) - len(groups),
        most_exposed=_record_rows(report, loss),
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("skleak.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["infinity"] = np.inf
    environment.globals["covariances"] = COVARIANCES
    environment.filters |= {
        "number": number,
        "count": count,
        "plural": plural,
        "printable": printable,
        "prose": _prose,
        "shorten": shorten,
    }
    return environment


def _prose(sentence: str) -> Markup:
    """Escape a sentence and set what stands between backticks as code."""
    parts = [escape(part) for part in printable(sentence).split("`")]
    if len(parts) % 2 == 0:  # a lone backtick, of a name
        return Markup("`").join(parts)
    code = Markup("<code>{}</code>").format
    return Markup("").join(code(part) if k % 2 else part for k, part in enumerate(parts))


def _chart(report: "LeakageReport", loss: np.ndarray) -> HistogramChart | None:
    bins = leakage_histogram(loss)
    if bins is None:
        return None
    return histogram_chart(bins, report.dataset["mean_loss"], report.dataset["max_loss"])


def _feature_rows(features: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows with the length of a bar: exposure relative to the largest in the table."""
    exposed = exposure(features)
    finite = exposed[np.isfinite(exposed)]
    largest = finite.max() if len(finite) and finite.max() > 0.0 else 1.0
    rows = _named_rows(features.assign(exposure=exposed))
    for row in rows:
        row["bar"] = 100.0 * min(row["exposure"] / largest, 1.0) if row["exposure"] > 0.0 else 0.0
    return rows


def _group_rows(groups: pd.DataFrame) -> list[dict[str, Any]]:
    rows = _named_rows(groups)
    largest = groups["mean_loss"].max() if len(groups) else 0.0
    for row in rows:
        share = row["mean_loss"] / largest if 0.0 < largest < np.inf else np.nan
        row["bar"] = 100.0 * share if np.isfinite(share) else 0.0
    return rows


def _named_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {"name": name, **row}
        for name, row in zip(table.index, table.to_dict("records"), strict=True)
    ]


def _record_rows(report: "LeakageReport", loss: np.ndarray) -> list[dict[str, float]]:
    mean = report.dataset["mean_loss"]
    return [
        {
            "position": position,
            "loss": loss[position],
            "ratio": loss[position] / mean if 0.0 < mean < np.inf else np.nan,
        }
        for position in report.dataset["most_exposed_records"]
    ]
