"""Sentences: what the numbers of a leakage report mean, and under which assumptions."""

import numpy as np

from skleak.influence.state import RecordBatch
from skleak.reports._facts import LeakageFacts

_MOST_LISTED = 8
# Shapes of the noise that are functions of the records.
_FITTED_SHAPES = {
    "curvature": "the shape of the curvature of this fit",
    "minimax": "the minimax shape of this fit, with equal weights",
}


def findings(report: LeakageFacts) -> tuple[str, ...]:
    """Put the report's numbers into sentences, most important first."""
    return (
        *_exposure(report),
        *_fairness(report),
        *_reweighting(report),
        *_covariance(report),
        _differential_privacy(report),
    )


def assumptions(report: LeakageFacts, batch: RecordBatch) -> tuple[str, ...]:
    """Under which conditions the findings hold."""
    lines = [
        "The bounds are for unbiased attackers. One who guesses from prior knowledge is biased and "
        "may have a smaller error, which the model did not cause.",
        "The attacker is assumed to know everything else: all other records, all other columns of "
        "this record, the algorithm and its parameters. Whoever knows less learns less.",
        "The loss is a local measure: it tells how sharply this release separates small changes "
        "of a record. A column of labels or of 0 and 1 is treated as if it were continuous.",
        "It counts this one release. Independent releases add up: their squared losses are summed.",
        "It is about rows as this model received them, and about one row, not one person with "
        "many. What preprocessing learned from the records before is not counted.",
        "The noise is assumed to be secret and never drawn again."
        if not report.dataset["seeded"]
        else "The noise came from a seed or a generator: whoever has or guesses it draws the noise "
        "again, subtracts it, and learns everything. What is stated here holds for others alone.",
    ]
    if not report.dataset["private_target"]:
        lines.append("The target of every record counts as public.")
    if report.dataset["reweighting"] is not None:
        lines.append(
            "The records were reweighted, and the weights depend on the data. What a record "
            "reveals through its own weight and the weights of others is counted: the derivative "
            "is that of the whole algorithm at its fixed point, which the reweighting must have "
            "reached."
        )
    if report.dataset["noise_covariance"] == "given":
        lines.append(
            "The covariance of the noise was given, and counts as public: what it reveals, had it "
            "been computed from these records, is not in the leakage stated."
        )
    if report.dataset["noise_covariance"] in _FITTED_SHAPES:
        lines.append(
            f"The noise has {_FITTED_SHAPES[report.dataset['noise_covariance']]}, which depends on "
            "the records. What a release reveals through it is counted, for an attacker who sees "
            "the coefficients alone: the covariance itself is confidential."
        )
    if report.dataset["noise_goal"] is not None:
        lines.append(
            "The noise scale was calibrated to the training records "
            f"({report.dataset['noise_goal']}), rounded up to a power of the square root of two, "
            "and is itself a function of them: what it reveals is not in the leakage stated."
            + _rung(report)
        )
    if not np.all(batch.sample_weight == 1.0):
        lines.append(
            "A row is one person: its loss is that of its whole sample weight, and it counts once "
            "in means, medians and spreads, whatever its weight."
        )
    return tuple(lines)


def _exposure(report: LeakageFacts) -> list[str]:
    data, features = report.dataset, report.features
    if not data["converged"]:
        return [
            "The fit did not converge: what it leaks is not known, and no bound on an attacker's "
            "error holds. Raise `max_iter` or `alpha`, or scale the columns, and fit again."
        ]
    if data["max_loss"] == np.inf:
        return [
            "No noise was added: the coefficients are an exact function of the training records, "
            "leakage is infinite, and no lower bound on an attacker's error holds."
        ]
    lines = []
    for name, row in features[features["max_loss"] > 0.0].head(1).iterrows():
        against = ""
        if np.isfinite(row["relative_standard_error"]):
            ratio = row["relative_standard_error"]
            meaning = (
                "so the model tells such an attacker little beyond what knowing the spread of "
                "the column already would"
                if ratio >= 1.0
                else "so the model may tell such an attacker more than the spread of the "
                "column does"
            )
            against = (
                f" The column's standard deviation is {row['column_std']:.3g}: the bound is "
                f"{ratio:.3g} times that, {meaning}."
            )
        lines.append(
            f"Most exposed column, {name}: an unbiased attacker who knows everything else has a "
            f"standard error of at least {row['standard_error']:.3g} (in units of the column) for "
            f"this column of the most exposed record, record {int(row['most_exposed_record'])}."
            + against
        )
    worst = data["most_exposed_records"]
    named = "record is" if len(worst) == 1 else "records are"
    lines.append(
        f"The most exposed {named} {', '.join(map(str, worst[:5]))} (positions in the data, "
        f"from 0): Fisher information loss {data['max_loss']:.3g} for the first, against a median "
        f"of {data['median_loss']:.3g}. In its worst direction an unbiased attacker has a standard "
        f"error of at least {_bound(data['max_loss'])}."
    )
    return lines


def _fairness(report: LeakageFacts) -> list[str]:
    data, groups = report.dataset, report.groups
    if not np.isfinite(data["spread"]):
        return []
    if data["mean_loss"] == 0.0:
        return ["No record leaks anything: the coefficients do not depend on the records."]
    ratio = data["max_loss"] / data["mean_loss"]
    lines = [
        f"Over records, leakage has a mean of {data['mean_loss']:.3g} and a relative spread "
        f"(standard deviation over mean) of {data['spread']:.3g}; the most exposed record leaks "
        f"{ratio:.3g} times the mean."
    ]
    if len(groups) and np.isfinite(data["group_spread"]):
        high, low = groups["mean_loss"].idxmax(), groups["mean_loss"].idxmin()
        lines.append(
            f"Over groups, mean leakage has a relative spread of {data['group_spread']:.3g}: it is "
            f"largest for {high} ({groups.loc[high, 'mean_loss']:.3g}) and smallest for {low} "
            f"({groups.loc[low, 'mean_loss']:.3g})."
        )
    return lines


def _reweighting(report: LeakageFacts) -> list[str]:
    data = report.dataset
    if data["reweighting"] is None or not np.isfinite(data["mean_loss"]):
        return []
    weighted = ""
    if report.records["sample_weight"].nunique() > 1:
        weighted = (
            " What is balanced is leakage per unit of sample weight: a record leaks its weight "
            "times that."
        )
    if data["reweighting"] == "total":
        return [
            "The reweighting evens what records leak with its weights counted, but no weights are "
            "known under which that is equal. For whole records its relative spread is "
            f"{data['spread']:.3g}, the mean is {data['mean_loss']:.3g} and the largest loss "
            f"{data['max_loss']:.3g}. With the weights held fixed ([FIL21] eq. 29) they would be "
            f"{data['conditional_mean_loss']:.3g} and {data['conditional_max_loss']:.3g}."
            + weighted
        ]
    return [
        "The reweighting balances leakage with its weights held fixed: by that measure ([FIL21] "
        f"eq. 29) the mean is {data['conditional_mean_loss']:.3g} and the largest loss "
        f"{data['conditional_max_loss']:.3g}. The weights depend on the data, too: with what they "
        f"reveal, as everywhere in this report, the mean is {data['mean_loss']:.3g} and the "
        f"largest loss {data['max_loss']:.3g}." + weighted
    ]


def _covariance(report: LeakageFacts) -> list[str]:
    data = report.dataset
    if data["noise_covariance"] == "isotropic":
        return []
    if data["noise_covariance"] == "given":
        return [
            "The noise has the covariance that was given, of a root mean square of "
            f"{data['noise_scale']:.3g} over the coefficients."
        ]
    if not np.isfinite(data["mean_loss"]):
        return []
    return [
        f"The noise has {_FITTED_SHAPES[data['noise_covariance']]}, which depends on the records. "
        "Through the mean of the release they leak "
        f"{data['through_mean_mean_loss']:.3g} on average and {data['through_mean_max_loss']:.3g} "
        "at most; through its covariance, which no noise scale lowers, "
        f"{data['through_covariance_mean_loss']:.3g} and "
        f"{data['through_covariance_max_loss']:.3g}. Both are counted everywhere in this report: "
        f"together {data['mean_loss']:.3g} on average and {data['max_loss']:.3g} at most."
    ]


def _differential_privacy(report: LeakageFacts) -> str:
    guarantee = report.differential_privacy
    if not guarantee.holds:
        return "No differential-privacy guarantee holds: " + "; ".join(guarantee.reasons) + "."
    exact = "" if guarantee.exact else " (in exact arithmetic, as the noise has a shape)"
    return (
        "Differential privacy holds under replacement of one row of the table that this model "
        f"received: ({guarantee.epsilon:.4g}, {guarantee.delta:g})-differential privacy, and "
        f"{guarantee.rho:.4g}-zero-concentrated{exact}."
    )


def _rung(report: LeakageFacts) -> str:
    """Tell what the rung of the noise scale may reveal."""
    told = (
        " No other value of an entry of few values that the goal is about, of a single record, "
        "would have given another one; that the fit was not refused is a function of the records, "
        "too, and not counted."
    )
    moves, n = report.dataset["n_records_moving_rung"] or {}, report.dataset["n_records"]
    counted = {label: count for label, count in moves.items() if count is not None}
    if counted:
        most = sorted(counted.items(), key=lambda item: -item[1])
        some = [f"{count} by {name}" for name, count in most if count > 0]
        told += (
            " Other entries were not checked: by another value of one of them, within the range of "
            "its column and, where it has many, as bounded at five values, at most this many of "
            f"{n} records could move it: {_listed(some) or 'none'}."
        )
    if len(counted) < len(moves):
        rest = [label for label in moves if label not in counted]
        told += (
            f" How many could by {_listed(rest)} was not counted, as no bounds are known for a "
            "goal or a model of this kind, or there are too many records and columns: any may."
        )
    return told


def _listed(items: list[str]) -> str:
    """Join a list of names, and say how many more there are."""
    more = len(items) - _MOST_LISTED
    return ", ".join(items[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _bound(loss: float) -> str:
    return f"{1.0 / loss:.3g}" if loss > 0.0 else "infinity"
