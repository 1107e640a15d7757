"""Public widths of columns: the units in which a ledger measures leakage."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skleak.utils._arguments import check_scalar
from skleak.utils._typing import FloatArray

TARGET, REST, DATA_NORM = "(target)", "(columns)", "data_norm"
Units = dict[str, float | str]  # by column; of `REST` it may be `DATA_NORM`

# Share by which values may pass a width, as they are rounded.
_ROUND_OFF = 1.0 + 1e-9
_HOW = (
    "`units` are public widths, such as 120 for an age in years: a number for each column by its "
    f"name, {TARGET!r} for the target, and {REST!r} for all other columns; or 'data_norm' "
    "instead, for columns whose rows are promised to be no longer than the `data_norm` of the model"
)


def check_units(units: Any) -> Units | None:
    """Return widths by column; one number is that of all columns and of the target."""
    if units is None:
        return None
    if isinstance(units, str):
        units = {REST: units}
    elif not isinstance(units, Mapping):
        units = {REST: units, TARGET: units}
    checked: Units = {}
    for name, width in units.items():
        if not isinstance(name, str):
            raise TypeError(f"{_HOW}; got a name of type {type(name).__name__}.")
        if name == REST and width == DATA_NORM:
            checked[name] = DATA_NORM
            continue
        if isinstance(width, str):
            raise ValueError(f"{_HOW}; got {width!r} for {name!r}.")
        checked[name] = check_scalar(f"units[{name!r}]", width, low_open=True, finite=True)
    if not checked:
        raise ValueError(f"{_HOW}; got none.")
    return checked


def added_units(kept: Units | None, units: Units) -> Units:
    """Return the widths that a ledger does not hold yet; ValueError where it holds others."""
    kept = kept or {}
    for name, width in units.items():
        if name in kept and kept[name] != width:
            raise ValueError(
                f"The ledger measures {name!r} in units of {kept[name]!r}; got {width!r}. What was "
                "released is charged in these units, which cannot change: leave `units` out, or "
                "make a new ledger, which knows nothing of earlier releases."
            )
    return {name: width for name, width in units.items() if name not in kept}


def units_too_late() -> ValueError:
    """Error for units of a ledger in which releases are charged without any."""
    return ValueError(
        "The ledger holds releases that were charged without units: their loss in `units` is not "
        "known. Set `units` before the first release, in a new ledger."
    )


def no_units(path: str) -> ValueError:
    """Error for a ceiling on leakage that says nothing: it holds in whatever units data come."""
    return ValueError(
        f"The ledger {path} has a ceiling on leakage and no units: the Fisher information loss is "
        "measured per unit of the columns, so that any release passes on data in larger numbers. "
        f"Open it once as LeakageLedger(path, units=...). {_HOW}. What was released before is then "
        "of unknown loss, and the ceiling refuses every further release of these data sets: give "
        "those another name, or make a new ledger."
    )


def widths_of(
    units: Units,
    columns: Sequence[str],
    spans: FloatArray,
    *,
    data_norm: float | None,
    classifies: bool,
) -> FloatArray:
    """Return the width of each column and of the target last, (d + 1,), no less than the spans."""
    by_norm = np.nan if data_norm is None else 2.0 * data_norm
    rest = units.get(REST)
    rest = by_norm if rest == DATA_NORM else rest
    found = [units.get(name, rest) for name in columns]
    # A label is one of some classes, coded with 0 and 1.
    found.append(1.0 if classifies else units.get(TARGET))
    names = [*columns, TARGET]
    missing = [name for name, width in zip(names, found, strict=True) if width is None]
    if missing:
        raise ValueError(
            f"The ledger has a unit for some columns, and none for {len(missing)} of this fit, the "
            f"first of them {missing[0]!r}. Add them by LeakageLedger(path, units=...). {_HOW}."
        )
    widths = np.array(found, dtype=float)
    if np.any(np.isnan(widths)):
        raise ValueError(
            "The ledger takes the width of columns from `data_norm`, and the model has none. Pass "
            "a public bound on the Euclidean norm of a row as `data_norm`."
        )
    wider = np.flatnonzero((spans > widths * _ROUND_OFF)[: len(columns) + (not classifies)])
    if len(wider):
        name = names[wider[0]]
        raise ValueError(
            f"{len(wider)} of {len(names)} columns and target span more than their width in the "
            f"units of the ledger, the first of them {name!r} ({widths[wider[0]]:g}): its leakage "
            "would be charged in too small a unit. Pass data in the units of the ledger; or, if "
            "the width is wrong, make a new ledger with one that does not come from the data."
        )
    return widths
