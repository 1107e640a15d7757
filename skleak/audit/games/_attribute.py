"""An audit of an attribute or of whole records, from its parameters to its tables."""

from functools import partial
from typing import Any

from sklearn.base import is_classifier

from skleak.adversary._encodings import last_step
from skleak.audit.games._attacks import choose_attacks, fit_attacks
from skleak.audit.games._bounds import check_bounds
from skleak.audit.games._mechanism import noise_of_levels
from skleak.audit.games._subject import Subject, study
from skleak.audit.report._build import build_report
from skleak.audit.run._plan import evaluation_set, noise_levels, plan_cells, without_ledger
from skleak.audit.run._running import resume, run
from skleak.audit.tables._attribute import Design, records_table, results_table
from skleak.metrics import simultaneous_confidence_level
from skleak.utils._typing import Array, FloatArray

__all__ = ["audit_attribute"]


def audit_attribute(
    auditor: Any,
    table: Any,
    y: Array,
    sample_weight: FloatArray | None,
    X_test: Any,
    y_test: Any,
) -> None:
    """Play all games about a column or whole records, and set the fitted attributes of an auditor.

    Shapes: ``table`` (n, n_columns); ``y`` (n,); ``sample_weight`` (n,); ``X_test``, ``y_test``
    (m, n_columns).
    """
    subject = _study(auditor, table, y, sample_weight)
    design = _design(auditor, subject)
    store, done, entropy = resume(auditor, table, y, design, X_test, y_test, sample_weight)
    estimator = without_ledger(auditor.estimator)
    named = auditor.attribute, auditor.values
    auditor.attacks_ = fit_attacks(_chosen(auditor, subject), subject, estimator, table, y, *named)
    model = last_step(estimator)
    held = subject.hypotheses
    noise, checks = noise_of_levels(model, subject, design.noise_scales, entropy, held)
    test = None if X_test is None else evaluation_set(subject, X_test, y_test)
    cells = plan_cells(subject, design, auditor.attacks_, noise, entropy, test)
    run(auditor, cells, done, store, entropy, partial(results_table, design))
    auditor.results_ = auditor.partial_results_
    auditor.records_ = records_table(design, done)
    auditor.report_ = build_report(
        auditor, subject, design, done, table, entropy, tested=test is not None, checks=checks
    )


def _study(auditor: Any, table: Any, y: Array, sample_weight: FloatArray | None) -> Subject:
    subject = study(
        without_ledger(auditor.estimator),
        table,
        y,
        attribute=auditor.attribute,
        values=auditor.values,
        targets=auditor.records,
        prior=auditor.prior,
        drawn=auditor.secrets == "drawn",
        refit_preprocessing=auditor.refit_preprocessing,
        n_jobs=auditor.n_jobs,
        sample_weight=sample_weight,
    )
    if auditor.secrets == "drawn" and subject.kind != "categorical":
        raise ValueError(
            "`secrets='drawn'` redraws one of a few values from its prior; "
            + (
                "a numeric attribute has infinitely many. Pass the values to choose from in "
                "`values`, or `secrets='actual'`."
                if subject.kind == "numeric"
                else "whole records have no prior. Name an `attribute`, or pass `secrets='actual'`."
            )
        )
    return subject


def _design(auditor: Any, subject: Subject) -> Design:
    attacks = tuple(_chosen(auditor, subject))
    bounds = check_bounds(auditor.bounds, equal_noise=not subject.noise.reads_data)
    noise_scales = noise_levels(auditor.noise_scales, auditor.estimator, subject)
    n_verdicts = len(attacks) * len(noise_scales)
    return Design(
        kind=subject.kind,
        targets=subject.targets,
        unit_eta=subject.unit_eta,
        etas={scale: subject.eta(scale) for scale in noise_scales},
        prior_score=subject.prior_score,
        baseline=subject.baseline,
        imputation=subject.imputation,
        spread=subject.spread,
        attacks=attacks,
        noise_scales=noise_scales,
        bounds=bounds if subject.kind == "categorical" else (),
        n_releases=int(auditor.n_releases),
        drawn=auditor.secrets == "drawn",
        confidence_level=auditor.confidence_level,
        verdict_level=simultaneous_confidence_level(auditor.confidence_level, n_verdicts),
    )


def _chosen(auditor: Any, subject: Subject) -> dict[str, Any]:
    return choose_attacks(auditor.attacks, subject.kind, is_classifier(subject.model.template))
