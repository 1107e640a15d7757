"""The report of an audit, and what makes the audit reproducible."""

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pickle import PicklingError
from typing import Any

import numpy as np
import pandas as pd
from joblib import hash as joblib_hash
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline

from skleak._version import __version__
from skleak.adversary.hypotheses import last_step
from skleak.adversary.knowledge import as_table, column_names
from skleak.audit.games._game import Game, Task
from skleak.audit.report._assumptions import assumptions
from skleak.audit.report._labels import label_meaning
from skleak.audit.report._report import AuditReport
from skleak.audit.report._sentences import findings
from skleak.audit.tables._design import Design, Outcome
from skleak.mechanisms import as_reweighting
from skleak.utils._predictions import classifies
from skleak.utils._sklearn_compat import BaseSearchCV
from skleak.utils._typing import Array

# Parameters of a private estimator that decide nothing in its audit.
_UNUSED = ("ledger", "random_state", "verbose")
_SCALE = ("scale", "uncounted")  # stated where the noise scale follows the records
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "pandas", "joblib")


def build_report(
    auditor: Any,
    game: Game,
    outcomes: Mapping[str, Outcome],
    entropy: list[int],
) -> AuditReport:
    """Put the results of an auditor into words."""
    model, table, y = last_step(game.task.estimator), game.task.table, game.task.y
    known = vars(game.facts(outcomes))
    settings = {
        "utility_name": _utility_name(model, y),
        "preprocessing": _preprocessing(auditor, game.task.estimator),
        **{name: value for name, value in known.items() if value or name not in _SCALE},
        "reweighting": _reweighting_name(model),
        "labels": label_meaning(None if game.task.outside else table),
        "max_advantage": float(auditor.max_advantage),
    }
    if game.unseen:
        settings["unseen"] = True
    report = AuditReport(
        estimator=_name(auditor.estimator),
        attribute=_attribute(game.task.attribute, table),
        kind=game.kind,
        results=auditor.results_.copy(),
        records=auditor.records_.copy(),
        checks=game.checks(outcomes),
        groups=game.groups(outcomes),
        settings=settings,
        reproducibility=_reproducibility(auditor, game.task, entropy),
    )
    return replace(report, findings=findings(report), assumptions=assumptions(report))


def identity(auditor: Any, task: Task) -> str:
    """Say what decides what a game is made from, for its checkpoint."""
    own = auditor.get_params(deep=False)
    values = {name: own.get(name) for name in ("attribute", "values", "records")}
    known = [type(auditor).__name__, _identity(auditor.estimator), auditor.refit_preprocessing]
    data = [_data_digest(task), joblib_hash(task.sample_weight)]
    return str(joblib_hash([__version__, *known, *data, values]))


def fingerprint(auditor: Any, game: Game) -> dict[str, str]:
    """Say what decides the results of an audit, for its checkpoint."""
    task, design = game.task, game.design
    seed, own = auditor.random_state, auditor.get_params(deep=False)
    test, weights = (task.X_test, task.y_test), task.sample_weight
    # Rates of drawn memberships are kept with their intervals.
    level = None if "attribute" in own else auditor.confidence_level
    return {
        "version of skleak": __version__,
        "data": _data_digest(task),
        "test data": "None" if test[0] is None else _digest(as_table(test[0]), np.ravel(test[1])),
        "sample_weight": "None" if weights is None else joblib_hash(weights),
        "estimator": _identity(auditor.estimator),
        "auditor": type(auditor).__name__,
        "attribute": repr(own.get("attribute")),
        "attacks": repr(
            [(name, _identity(attack)) for name, attack in _listed(auditor.attacks, design)]
        ),
        "confidence_level": repr(level),
        "noise_scales": repr(design.noise_scales),
        "n_releases": repr(design.n_releases),
        "secrets": task.secrets,
        "releases": repr(own.get("releases")),
        "prior": joblib_hash(auditor.prior),
        "bounds": repr(design.bounds),
        "values": joblib_hash(own.get("values")),
        "records": joblib_hash(design.targets),
        "refit_preprocessing": repr(auditor.refit_preprocessing),
        # Without a seed, the one that the checkpoint holds is gone on with.
        "random_state": repr(seed) if isinstance(seed, int | np.integer) else "None",
    }


def _listed(attacks: Any, design: Design) -> list[tuple[str, Any]]:
    if isinstance(attacks, dict):
        return list(attacks.items())
    single = isinstance(attacks, str) or hasattr(attacks, "predict")
    return list(zip(design.attacks, [attacks] if single else attacks, strict=False))


def _identity(thing: Any) -> str:
    """Identify an estimator or an attack, whichever process made it and whatever it has seen.

    A ``repr`` is cut short where it is long, and may hold an address of memory.
    """
    if isinstance(thing, str):
        return thing
    model = last_step(thing)
    if hasattr(model, "get_params"):
        thing = clone(thing)
        known = last_step(thing).get_params(deep=False)
        if "noise_scale" in known:
            # The noise of an audit is its own, and no ledger is charged.
            last_step(thing).set_params(**{name: None for name in _UNUSED if name in known})
    try:
        return f"{type(model).__qualname__} {joblib_hash(thing)}"
    except (PicklingError, AttributeError, TypeError):  # functions without a name
        return repr(thing)


def _digest(table: Any, y: Array) -> str:
    frame = pd.DataFrame(table)
    total = hashlib.sha256(repr(list(frame.columns)).encode())
    for column in (*(frame.iloc[:, j] for j in range(frame.shape[1])), pd.Series(y)):
        total.update(pd.util.hash_pandas_object(column, index=False).to_numpy().tobytes())
    return total.hexdigest()


def _data_digest(task: Task) -> str:
    """Hash of all training records; of those outside memory, block by block."""
    return _digest(task.table, task.y) if task.outside is None else task.outside.digest


def _reproducibility(auditor: Any, task: Task, entropy: list[int]) -> dict[str, str]:
    seed = "-".join(f"{word:08x}" for word in entropy)
    return {
        "skleak": __version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
        "estimator": _one_line(auditor.estimator),
        "auditor": _one_line(auditor),
        "entropy of the seeds": seed,
        "data": f"{task.n_records} records, {task.table.shape[1]} columns, SHA-256 "
        f"{_data_digest(task)[:16]}",
    }


def _one_line(thing: Any) -> str:
    """``repr``, which scikit-learn breaks into lines."""
    return " ".join(repr(thing).split())


def _name(estimator: Any) -> str:
    name = type(estimator).__name__
    if isinstance(estimator, Pipeline):
        return f"{name} of {', '.join(_name(step) for _, step in estimator.steps)}"
    if isinstance(estimator, BaseSearchCV):
        return f"{name} of {_name(estimator.estimator)}"
    if isinstance(estimator, TransformedTargetRegressor) and estimator.regressor is not None:
        return f"{name} of {_name(estimator.regressor)}"
    return name


def _reweighting_name(model: Any) -> str | None:
    """Name the reweighting of a model, which may be an object."""
    reweighting = as_reweighting(getattr(model, "reweighting", None))
    return None if reweighting is None else reweighting.name


def _attribute(attribute: Any, table: Any) -> str | None:
    if attribute is None:
        return None
    names = column_names(as_table(table))
    if isinstance(attribute, str):
        return attribute
    return f"column {attribute}" if names is None else str(names[attribute])


def _preprocessing(auditor: Any, estimator: Any) -> str:
    if not isinstance(estimator, Pipeline) or len(estimator.steps) < 2:
        return "none"
    return "refitted" if auditor.refit_preprocessing else "public"


def _utility_name(model: Any, y: Array) -> str:
    if classifies(model, y):
        return "accuracy"
    return "D²" if "Poisson" in type(model).__name__ else "R²"
