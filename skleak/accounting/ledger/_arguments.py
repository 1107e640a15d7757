"""Arguments of a ledger, checked and brought into the form in which they are kept."""

import json
import os
import unicodedata
from typing import Any

import numpy as np

from skleak.accounting._gaussian import mu_from_epsilon_delta
from skleak.accounting.ledger._rows import RESERVED, Ceilings
from skleak.accounting.ledger._store import MEMORY
from skleak.utils._arguments import check_real, check_scalar
from skleak.utils._typing import FloatArray


def check_ceilings(max_leakage: Any, max_epsilon: Any, delta: Any) -> Ceilings:
    """Ceilings as numbers, with the mu that the one on epsilon allows; infinite for None."""
    leakage, epsilon, mu = np.inf, np.inf, np.inf
    if max_leakage is not None:
        leakage = check_scalar("max_leakage", max_leakage, low_open=True, finite=True)
    if max_epsilon is not None:
        epsilon = check_scalar("max_epsilon", max_epsilon, finite=True)
    delta = check_delta(delta)
    if max_epsilon is not None:
        mu = float(mu_from_epsilon_delta(epsilon, (1.0 - RESERVED) * delta))
    return Ceilings.of(leakage, mu, epsilon, delta)


def check_delta(delta: Any) -> float:
    """Return delta as a float strictly between 0 and 1."""
    return check_scalar("delta", delta, low_open=True, high=1.0, high_open=True)


def check_path(path: Any) -> str:
    """Absolute path, so that a worker in another folder finds the same file."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"`path` must be a string or a path; got {type(path).__name__}. Pass the file of "
            "the ledger, or ':memory:'."
        )
    name = os.fsdecode(path)
    return name if name == MEMORY else os.path.abspath(os.path.expanduser(name))


def check_name(dataset: Any) -> str:
    """Name of a data set in the one form in which it is kept."""
    if not isinstance(dataset, str):
        raise TypeError(f"`dataset` must be a string; got {type(dataset).__name__}.")
    name = str(unicodedata.normalize("NFC", dataset).strip())
    if not name:
        raise ValueError("`dataset` must not be empty. Name the data set.")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"`dataset` must be Unicode text; got {name!r}.") from error
    return name


def check_squared(losses: Any) -> FloatArray:
    """Return the squares of known losses, of shape (n_records,)."""
    hint = (
        "NaN is a loss that is not known, as after a fit that did not converge: nothing is "
        "recorded, so release nothing. Let the fit converge, for instance with a larger `max_iter`."
    )
    array = check_real("fisher_information_loss", losses, hint=hint)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"`fisher_information_loss` must have shape (n_records,); got {array.shape}. "
            "Pass one number per record."
        )
    with np.errstate(over="ignore"):
        return array**2


def check_same_records(dataset: str, expected: int, got: int) -> None:
    """Refuse losses of another number of records than a data set has."""
    if got != expected:
        raise ValueError(
            f"Data set {dataset!r} has {expected} records; got {got}. Use another name for other "
            "records, or `aligned=False` for a part or a resample of these."
        )


def to_json(description: Any) -> str:
    """Write a description of a release as JSON: names and numbers, no data."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(
            f"`description` must be made of JSON values; got a {type(value).__name__}. "
            "Pass names and numbers; no data."
        )

    return json.dumps(description, default=plain)
