"""``skleak audit``: train on a table, attack the releases, and say what was found."""

import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import adds_noise
from skleak.audit import AuditReport, LeakageAuditor, MembershipAuditor
from skleak.cli._limit import judge
from skleak.cli._models import called, load_model, on_columns
from skleak.cli._preparation import Prepared, prepare
from skleak.cli._reading import Reading, read_table, resolve_column
from skleak.cli._sarif import sarif
from skleak.cli._terminal import complain, one_line, say, section, wrap, write
from skleak.exceptions import IncompleteAuditWarning
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.plotting.labels import count, number, plural
from skleak.report import check_enough
from skleak.utils._typing import Array, FloatArray

Auditor = LeakageAuditor | MembershipAuditor

_MODELS = {
    "linear": PrivateLinearRegression,
    "logistic": PrivateLogisticRegression,
    "poisson": PrivatePoissonRegressor,
}
_ALPHA = 0.01
_ABOVE_THE_LIMIT = 3


@dataclass(frozen=True)
class Options:
    """Options of the command, as `skleak.cli._arguments` describes them."""

    data: str
    target: str
    sensitive: str | None
    membership: bool
    identity: str | None
    drop: list[str]
    nominal: list[str]
    model: str
    alpha: float | None
    noise_scale: list[float] | None
    reweighting: Literal["irfil", "total"] | None
    no_intercept: bool
    test_size: float
    n_releases: int
    secrets: Literal["auto", "actual", "drawn"]
    prior: Literal["marginal", "uniform", "conditional"]
    max_records: int | None
    out: Path
    sarif: Path | None
    summary: Path | None
    brief: bool
    fail_above: float | None
    checkpoint: Path | None
    n_jobs: int | None
    seed: int
    quiet: bool
    # The file that asked for the audit, and the line that says most of it.
    asked_in: tuple[Path, int] | None = None

    @property
    def shares(self) -> bool:
        """True if something is written that others read."""
        return self.brief or self.sarif is not None or self.summary is not None


def audit(options: Options) -> int:
    """Run the command; its exit code is 0, or 3 where the limit is passed."""
    if options.membership and options.sensitive is not None:
        raise ValueError(
            "--membership and --sensitive are two audits: attackers are after who was trained on, "
            "or after a column. Take one of the two"
        )
    reading = read_table(options.data)
    if not options.brief:
        return _audit(options, reading)
    named = {"--target": options.target, "--sensitive": options.sensitive, "--id": options.identity}
    for option, name in named.items():
        _check_column(reading, option, name)
    try:
        with _silent_workers():
            return _audit(options, reading)
    except Exception as error:
        # Also of a model of the user's: any text may quote a value.
        raise ValueError(
            f"{type(error).__name__}. What it says may name records, or hold their values: run the "
            "same command without --brief where only those who may see the data read it"
        ) from None


@contextmanager
def _silent_workers() -> Iterator[None]:
    """Let no worker process print its warnings, whose texts may quote values too."""
    name = "PYTHONWARNINGS"
    before = os.environ.get(name)
    os.environ[name] = "ignore"
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def _check_column(reading: Reading, option: str, name: str | None) -> None:
    """Tell a wrong name without the right ones: of a file without a head they are a record."""
    try:
        if name is not None:
            resolve_column(reading.frame, name, option)
    except ValueError:
        raise ValueError(f"{option}: there is no column {name!r}") from None


def _audit(options: Options, reading: Reading) -> int:
    own = _own_model(options)
    _say(options, wrap([*reading.notes, *_loaded(options, own)]))
    prepared = prepare(
        reading.frame,
        target=options.target,
        sensitive=options.sensitive,
        membership=options.membership,
        identity=options.identity,
        drop=options.drop,
        nominal=options.nominal,
        model=options.model,
        own=own,
        test_size=options.test_size,
        seed=options.seed,
    )
    _check_secret(options)
    if options.shares:
        check_enough(min(len(prepared.X), options.max_records or len(prepared.X)))
    auditor, notes = _auditor(options, prepared, own)
    columns = section("Columns", wrap(prepared.decisions, "- "))
    _say(options, wrap([*prepared.notes, *notes]), columns, "")
    report = _fit(auditor, prepared, options)
    _say(options, report.to_text())
    write(report, options.out)
    _share(report, options)
    _say(options, _next_steps(options, prepared, own))
    if options.fail_above is None:
        return 0
    passed, line = judge(report, options.fail_above)
    _say(options, "", line)
    return 0 if passed else _ABOVE_THE_LIMIT


def _say(options: Options, *texts: str) -> None:
    if not options.brief:
        say(*texts)


def _share(report: AuditReport, options: Options) -> None:
    """Write what others may read: no name, and no value of a record."""
    if options.brief:
        say(report.to_markdown())
    if options.summary is not None:
        with options.summary.open("a", encoding="utf-8") as file:
            file.write(report.to_markdown() + "\n")
    if options.sarif is not None:
        limit = options.fail_above
        limit = float(report.settings["max_advantage"]) if limit is None else limit
        file_of, line = options.asked_in or (Path(options.data), 1)
        text = sarif(report, limit, file_of, line)
        options.sarif.write_text(text, encoding="utf-8")


def _own_model(options: Options) -> Any:
    """Load the model of the user; None for one of ours."""
    own = load_model(options.model)
    if own is None:
        return None
    given = {
        "--alpha": options.alpha is not None,
        "--reweighting": options.reweighting is not None,
        "--no-intercept": options.no_intercept,
    }
    if wrong := [option for option, is_given in given.items() if is_given]:
        raise ValueError(
            f"{', '.join(wrong)}: of our own models only; {options.model} has its own parameters. "
            "Set them there"
        )
    if options.sensitive is None and not options.membership and not adds_noise(own):
        raise ValueError(
            "--sensitive: name a column, or take --membership: whole records are reconstructed "
            f"from private estimators, and {options.model} is a {type(own).__name__}"
        )
    return own


def _loaded(options: Options, own: Any) -> list[str]:
    if own is None:
        return []
    return [
        f"Model: {called(own)} from {options.model}, whose code was run to load it. It is trained "
        "anew, with its parameters, on the training records; nothing that it learned before counts."
    ]


def _check_secret(options: Options) -> None:
    if options.membership:
        if options.prior != "marginal":
            raise ValueError(
                f"--prior {options.prior} is of columns; membership has even odds here"
            )
        return
    if options.secrets == "drawn" and options.sensitive is None:
        raise ValueError(
            "--secrets drawn redraws a column from its prior, and cannot redraw whole records. "
            "Name a column in --sensitive, or take --secrets actual"
        )


def _auditor(options: Options, prepared: Prepared, own: Any) -> tuple[Auditor, list[str]]:
    notes: list[str] = []
    levels = options.noise_scale
    if levels is None and own is None:
        levels = usual_noise(prepared.target.model, prepared.y)
        notes.append(
            f"Noise scales: {', '.join(map(number, levels))}, from what one record can move a "
            "coefficient by; choose others with --noise-scale."
        )
    records = _records(options, len(prepared.X))
    if records is not None:
        notes.append(
            f"Attacked: {plural(len(records), 'record')} of {count(len(prepared.X))}, chosen at "
            "random; the rest is known to the attackers."
        )
    if options.membership and options.secrets != "drawn":
        notes.append(
            "A model is trained in each release on about half of the records attacked, drawn anew, "
            "and on all others."
        )
    if options.sensitive is None and not options.membership:
        bounds = (
            " --prior uniform bounds no attacker on them." if options.prior == "uniform" else ""
        )
        notes.append(f"Without --sensitive COLUMN attackers reconstruct whole records.{bounds}")
    attacks: str | list[str] = "default"
    quantity = prepared.sensitive is not None and not prepared.n_values
    if own is None and prepared.target.classes and quantity:
        attacks = ["prior", "imputation", "white_box", "posterior_mean"]
        notes.append(
            "No black-box attack is played: predicted classes are the same over ranges of a "
            "quantity."
        )
    pipeline = _pipeline(options, prepared, own, levels)
    shared: dict[str, Any] = {
        "noise_scales": levels,
        "n_releases": options.n_releases,
        "secrets": options.secrets,
        "records": records,
        "checkpoint": options.checkpoint,
        "n_jobs": options.n_jobs,
        "verbose": 0 if options.quiet or options.brief else 1,
        "random_state": options.seed,
    }
    if options.fail_above is not None:
        shared["max_advantage"] = options.fail_above
    if options.membership:
        if options.secrets == "auto":
            shared["secrets"] = "actual"
        return MembershipAuditor(pipeline, **shared), notes
    auditor = LeakageAuditor(
        pipeline, prepared.sensitive, attacks=attacks, prior=options.prior, **shared
    )
    return auditor, notes


def _pipeline(options: Options, prepared: Prepared, own: Any, levels: list[float] | None) -> Any:
    """Return the model that is audited, behind what prepares the columns for it."""
    if own is not None:
        if prepared.preprocessing is None:
            return on_columns(own, prepared.sensitive)
        return Pipeline([("columns", prepared.preprocessing), ("model", own)])
    model = _MODELS[prepared.target.model](
        noise_scale=0.0 if levels is None else max(levels),
        alpha=_ALPHA if options.alpha is None else options.alpha,
        fit_intercept=not options.no_intercept,
        reweighting=options.reweighting,
    )
    return Pipeline([("columns", prepared.preprocessing), ("model", model)])


def usual_noise(model: str, y: Array) -> list[float]:
    """Noise scales from one that hides little to one that hides most records.

    Shapes: ``y`` (n,); returns: a power of ten near what one of n records moves a coefficient of a
    standardised column by, ten times and a hundred times that.
    """
    step = 4.0  # residual of at most 1, curvature of at most a quarter
    if model == "linear":
        step = float(np.std(y))
    elif model == "poisson":
        step = float(np.std(y) / np.mean(y))
    exponent = round(math.log10(step / len(y)))
    return [float(f"1e{exponent + k}") for k in range(3)]


def _records(options: Options, n: int) -> "FloatArray | None":
    if options.max_records is None or options.max_records >= n:
        return None
    rng = np.random.default_rng(options.seed)
    return np.sort(rng.choice(n, options.max_records, replace=False))


def _fit(auditor: Auditor, prepared: Prepared, options: Options) -> AuditReport:
    try:
        with _warnings_in_one_line(options.brief):
            auditor.fit(prepared.X, prepared.y, prepared.X_test, prepared.y_test)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted. {_kept(options)}") from None
    report: AuditReport = auditor.report_
    return report


def _kept(options: Options) -> str:
    path = options.checkpoint
    if path is None:
        return "Nothing is kept; with --checkpoint PATH the same command would go on from here"
    if not path.exists():
        return f"Nothing was finished yet, and {str(path)!r} is not written"
    return f"What is finished is in {str(path)!r}: run the same command again to go on from it"


@contextmanager
def _warnings_in_one_line(brief: bool) -> Iterator[None]:
    """Tell every warning once, without the place in the code that gave it; in brief its type."""
    shown: set[str] = set()

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
        yield


def _next_steps(options: Options, prepared: Prepared, own: Any) -> str:
    read = f"Read the report, which is confidential: {options.out}"
    steps = []
    if prepared.n_values and options.prior == "marginal":
        steps.append("An attacker may know what the other columns tell: try --prior conditional.")
    if prepared.n_values and options.secrets == "actual" and options.prior != "marginal":
        steps.append("The bounds are exact for secrets drawn from the prior: try --secrets drawn.")
    if options.membership and options.secrets != "drawn" and options.reweighting is None:
        steps.append("Each record by itself, in the model trained on all: try --secrets drawn.")
    if own is not None:
        steps.append("A private estimator has bounds and a noise to choose: leave out --model.")
        return section("What next", "\n".join([read, wrap(steps)]))
    if options.reweighting is None and not options.membership:
        steps.append("The same noise, and a loss mostly more even: try --reweighting total.")
    steps.append(
        "Choose a noise scale, train with it, and publish what `release()` returns, never the "
        "fitted estimator:"
    )
    made = [f"NOISE, alpha={_ALPHA if options.alpha is None else options.alpha:g}"]
    if options.no_intercept:
        made.append("fit_intercept=False")
    if options.reweighting is not None:
        made.append(f"reweighting={options.reweighting!r}")
    name = _MODELS[prepared.target.model].__name__
    code = f"    released = {name}({', '.join(made)}).fit(X, y).release()"
    after = wrap(
        [
            "Every further release of the same records leaks again. The means, scales and levels "
            "that the columns were prepared with are counted as public here."
        ]
    )
    return section("What next", "\n".join([read, wrap(steps), code, after]))
