"""``skleak audit``: train on a table, attack the releases, and say what was found."""

import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import adds_noise
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.cli._columns import Decisions, read_table
from skleak.cli._gate import judge, sarif
from skleak.cli._models import load_model, on_columns
from skleak.cli._options import PARAMETERS, Audit
from skleak.cli._preparation import Prepared, prepare
from skleak.cli._terminal import complain, one_line, say, wrap, write
from skleak.exceptions import IncompleteAuditWarning
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.report import AuditReport
from skleak.report.document import sentences
from skleak.report.reports import check_enough
from skleak.utils._typing import Array

_MODELS: dict[str, Any] = {
    "linear": PrivateLinearRegression,
    "logistic": PrivateLogisticRegression,
    "poisson": PrivatePoissonRegressor,
}
_OF_OURS = ("alpha", "reweighting", "no_intercept")
_NOT_KEPT = 3


def audit(options: Audit, file: Path) -> int:
    """Run the command; its exit code is 0, or 3 where the limit is not kept, or nothing tells."""
    try:
        return _audit(options, file)
    except Exception as error:
        if not options.brief:
            raise
        # Also of a model of the user's: any text may quote a value.
        raise ValueError(
            f"{type(error).__name__}. What it says may name records, or hold their values: run the "
            "same command without --brief where only those who may see the data read it"
        ) from None


def _audit(options: Audit, file: Path) -> int:
    own = load_model(options.model)
    _check(options, own)
    decisions = Decisions()
    frame, how = read_table(file, options.nominal, decisions)
    read = {"file": file.name, "how": how, "n_read": len(frame), "n_columns": len(frame.columns)}
    prepared = prepare(frame, options, own, decisions)
    attacked = None if prepared.attacked is None else options.max_records
    if options.brief or options.sarif or options.summary:
        check_enough(attacked or prepared.facts.get("n_persons", len(prepared.X)))
    # The gate judges the noise that is stated, and none that is chosen here.
    levels = options.noise_scale
    chosen = own is None and levels is None and options.fail_above is None
    if chosen:
        levels = usual_noise(prepared.model, prepared.y)
    if not options.brief:
        facts = prepared.facts | read | {"attacked": attacked, "levels": levels if chosen else ()}
        facts |= {"source": own and options.model, "membership": options.membership}
        lines = [f"- {line}" for line in decisions.lines(options.full)]
        say(wrap(sentences("command_audit", facts)), *([wrap(lines, "  ")] if lines else []), "")
    report = _fit(_auditor(options, prepared, own, levels), prepared, options)
    if not options.brief:
        say(report.to_text(full=options.full).replace("to_text(full=True)", "--full"))
    _write(report, options)
    if options.fail_above is None:
        return 0
    if options.of is None:
        complain("skleak audit: --fail-above is about everyone; as before is --of average")
    passed, line = judge(report, options)
    say(line)
    return 0 if passed else _NOT_KEPT


def _check(options: Audit, own: Any) -> None:
    """Refuse options that do not go together."""
    wrong = [f"--{name.replace('_', '-')}" for name in _OF_OURS if getattr(options, name)]
    problem = ""
    if own is not None and wrong:
        problem = f"{', '.join(wrong)}: of our own models only; set it in {options.model}"
    elif options.membership and options.sensitive is not None:
        problem = "--membership and --sensitive are two audits: take one of the two"
    elif options.membership and options.prior not in (None, "auto"):
        problem = f"--prior {options.prior} is of columns; membership has even odds here"
    elif options.membership or options.sensitive is not None:
        return
    elif options.secrets == "drawn":
        problem = "--secrets drawn cannot redraw whole records. Name a column in --sensitive"
    elif own is not None and not adds_noise(own):
        kind = f"{options.model} is a {type(own).__name__}, no private estimator"
        problem = f"--sensitive: name a column, or take --membership, as {kind}"
    if problem:
        raise ValueError(problem)


def _auditor(options: Audit, prepared: Prepared, own: Any, levels: Any) -> BaseEstimator:
    given = {name: getattr(options, option) for option, name in PARAMETERS.items()}
    given |= {"noise_scales": levels, "records": prepared.attacked, "random_state": options.seed}
    given["verbose"] = 0 if options.quiet or options.brief else 1
    given = {name: value for name, value in given.items() if str(value) not in ("None", "auto")}
    of_model = {name: given.pop(name) for name in ("alpha", "reweighting") if name in given}
    if own is None:
        noise = {} if levels is None else {"noise_scale": max(levels)}
        kind = _MODELS[prepared.model]
        own = kind(fit_intercept=not options.no_intercept, **noise, **of_model)
    if prepared.preprocessing is None:
        pipeline = on_columns(own, options.sensitive)
    else:
        pipeline = Pipeline([("columns", prepared.preprocessing), ("model", own)])
    if options.membership:
        return MembershipAuditor(pipeline, **given)
    return LeakageAuditor(pipeline, options.sensitive, **given)


def usual_noise(model: str, y: Array) -> list[float]:
    """Noise scales from one that hides little to one that hides most records.

    Shapes: ``y`` (n,); returns: a power of ten near what one of n records moves a coefficient of a
    standardized column by, ten times and a hundred times that.
    """
    step = 4.0  # residual of at most 1, curvature of at most a quarter
    if model != "logistic":
        step = float(np.std(y) / (np.mean(y) if model == "poisson" else 1.0))
    exponent = round(math.log10(step / len(y)))
    return [float(f"1e{exponent + k}") for k in range(3)]


def _fit(auditor: Any, prepared: Prepared, options: Audit) -> AuditReport:
    try:
        with _warnings_in_one_line(options.brief):
            auditor.fit(prepared.X, prepared.y, prepared.X_test, prepared.y_test)
    except KeyboardInterrupt:
        path = options.checkpoint
        kept = "Nothing is kept; with --checkpoint PATH the same command would go on from here"
        if path is not None and path.exists():
            kept = f"What is finished is in {str(path)!r}: the same command goes on from it"
        raise KeyboardInterrupt(f"interrupted. {kept}") from None
    # An auditor does not know that the records it is given were drawn at random.
    sampled = {} if prepared.attacked is None else {"sampled": True}
    return replace(auditor.report_, settings=auditor.report_.settings | sampled)


@contextmanager
def _warnings_in_one_line(brief: bool) -> Iterator[None]:
    """Tell every warning once, without the place in the code that gave it; in brief its type.

    Worker processes print their warnings themselves, and are silent in brief.
    """
    shown: set[str] = set()
    before = os.environ.get("PYTHONWARNINGS", "")

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        text = category.__name__ if brief else one_line(message)
        if text not in shown:
            shown.add(text)
            complain(f"skleak audit: warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        # Rare levels may all be held out; they are encoded like other rare ones, or like none.
        warnings.filterwarnings("ignore", message="Found unknown categories")
        # The command says itself what is kept.
        warnings.simplefilter("ignore", IncompleteAuditWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        os.environ["PYTHONWARNINGS"] = "ignore" if brief else before
        try:
            yield
        finally:
            os.environ["PYTHONWARNINGS"] = before


def _write(report: AuditReport, options: Audit) -> None:
    """Write the report, and what others may read: no name, and no value of a record."""
    write(report, options.out)
    if options.summary is not None:
        with options.summary.open("a", encoding="utf-8") as file:
            file.write(report.to_markdown() + "\n")
    if options.sarif is not None:
        options.sarif.write_text(sarif(report, options), encoding="utf-8")
    if options.brief:
        say(report.to_markdown())
    else:
        say(f"The report, which is confidential: {options.out}")
