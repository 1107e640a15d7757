"""Under which conditions the numbers of a leakage report hold."""

from skleak.report.leakage._facts import LeakageFacts

_MOST_LISTED = 8
# Shapes of the noise that are functions of the records.
FITTED_SHAPES = {
    "curvature": "the shape of the curvature of this fit",
    "minimax": "the minimax shape of this fit, with equal weights",
}


def assumptions(report: LeakageFacts, is_weighted: bool) -> tuple[str, ...]:
    """Under which conditions the findings hold."""
    lines = [
        "What is gained holds for attackers of any kind, with any knowledge beforehand: no test "
        "tells two values of a column apart better. Standard errors bound unbiased attackers "
        "alone. One who guesses from prior knowledge is biased and may err less, which the model "
        "did not cause; the share of the squared error that is removed is for such a one.",
        "The attacker is assumed to know everything else: all other records, all other columns of "
        "this record, the algorithm and its parameters. Whoever knows less learns less.",
        "The Fisher information loss is a local measure: it tells how sharply this release "
        "separates small changes of a record. What is gained is not read off it: other values are "
        "put in the place of a record's own, and the model is solved for again.",
        "It counts this one release. Independent releases add up: their squared losses are summed.",
        _rows(report),
        "The noise is assumed to be secret and never drawn again."
        if not report.dataset["seeded"]
        else "The noise came from a seed or a generator: whoever has or guesses it draws the noise "
        "again, subtracts it, and learns everything. What is stated here holds for others alone.",
    ]
    if not report.dataset.get("raw_columns"):
        lines.append(
            "Columns are those that the model received, each changed by itself: a 0/1 column of a "
            "one-hot block, too, while the others of its block stay. For what a person has before "
            "it is encoded, ask `skleak.inspection.leakage_report`."
        )
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
    if report.dataset["noise_covariance"] in FITTED_SHAPES:
        lines.append(
            f"The noise has {FITTED_SHAPES[report.dataset['noise_covariance']]}, which depends on "
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
    if report.dataset.get("noise_calibrated"):
        lines.append(
            "The noise scale was read off records (`calibrate`, `noise_scale_of`): that no other "
            "value of a record would have given another one was not checked. If those records are "
            "public, pass it as `float(noise_scale)`."
        )
    if is_weighted:
        lines.append(
            "A row is one person: its loss is that of its whole sample weight, and it counts once "
            "in means, medians and spreads, whatever its weight."
        )
    return tuple(lines)


def _rows(report: LeakageFacts) -> str:
    """Tell what a record is, and which preprocessing is not counted."""
    what = "All but the columns" if report.dataset.get("raw_columns") else "It"
    return (
        f"{what} is about rows as this model received them, and about one row, not one person with "
        "many. What preprocessing learned from the records before is not counted there."
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
            f"{n} records could move it: {listed(some) or 'none'}."
        )
    if len(counted) < len(moves):
        rest = [label for label in moves if label not in counted]
        told += (
            f" How many could by {listed(rest)} was not counted, as no bounds are known for a "
            "goal or a model of this kind, or there are too many records and columns: any may."
        )
    return told


def listed(items: list[str]) -> str:
    """Join a list of names, and say how many more there are."""
    more = len(items) - _MOST_LISTED
    return ", ".join(items[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
