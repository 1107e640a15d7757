"""The report of an audit of membership."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary._encodings import last_step
from skleak.audit.games._game import Outcome
from skleak.audit.games.membership._subject import MembershipSubject
from skleak.audit.report._assumptions import assumptions
from skleak.audit.report._build import (
    _name,
    _preprocessing,
    _reproducibility,
    _reweighting_name,
    _utility_name,
)
from skleak.audit.report._report import AuditReport
from skleak.audit.report._sentences import findings
from skleak.audit.tables._attribute import cell_key
from skleak.audit.tables._membership import MembershipDesign

__all__ = ["build_membership_report"]


def build_membership_report(
    auditor: Any,
    subject: MembershipSubject,
    design: MembershipDesign,
    cells: dict[str, Outcome],
    entropy: list[int],
    checks: pd.DataFrame,
) -> AuditReport:
    """Put the results of an auditor into words."""
    model = last_step(auditor.estimator)
    tested = subject.reference is not None
    elsewhere = "training records" if design.drawn else "held-out candidates"
    settings = {
        "n_records": len(subject.y),
        "n_columns": subject.raw.shape[1],
        "n_targets": len(subject.targets),
        "n_releases": design.n_releases,
        "secrets": auditor.secrets,
        "prior": f"{subject.prior:g}",
        "values": [],
        "confidence_level": float(design.confidence_level),
        "bounds": design.bounds,
        "attacks": tuple(design.attacks),
        "utility_name": _utility_name(model),
        "utility_data": "test records" if tested else elsewhere,
        "noiseless_utility": _noiseless_utility(design, cells),
        "preprocessing": _preprocessing(auditor),
        "reweighting": _reweighting_name(model),
        "noise_covariance": subject.noise.name,
        "target_counts": False,
        "verdict_level": float(design.verdict_level),
        "membership_prior": subject.prior,
        "reference": "test records" if tested else "none" if design.drawn else "held out",
        "n_reference": subject.n_reference if tested or not design.drawn else 0,
        "n_always": len(subject.others),
        "gap_loss": "zero_one" if subject.classifies else "clipped_squared",
        "has_noise": subject.has_noise,
        "exact_test": subject.obstacle,
        "unchecked": _unchecked(subject, design),
    }
    report = AuditReport(
        estimator=_name(auditor.estimator),
        attribute=None,
        kind="membership",
        results=auditor.results_.copy(),
        records=auditor.records_.copy(),
        checks=checks,
        settings=settings,
        reproducibility=_reproducibility(auditor, subject.y, subject.raw, entropy),
    )
    return replace(report, findings=findings(report), assumptions=assumptions(report))


def _unchecked(subject: MembershipSubject, design: MembershipDesign) -> str:
    """What nothing was compared of, although releases had noise of the estimator."""
    if not subject.has_noise or design.noise_scales[-1] == 0.0:
        return ""
    if subject.noiseless is None:
        return (
            "whether the estimator adds the noise that it states, since the audit does not know "
            "its parameters without noise"
        )
    if subject.obstacle:
        return (
            "whether attacks suppose the training that the estimator does, since there is no exact "
            "test to hold releases against"
        )
    return ""


def _noiseless_utility(design: MembershipDesign, cells: dict[str, Outcome]) -> float:
    """Mean score of models without noise; NaN where the estimator adds none."""
    if design.drawn:
        return float(cells[cell_key(0.0, "noiseless")]["utility"].mean())
    known = [cell["noiseless"] for cell in cells.values() if not np.isnan(cell["noiseless"])]
    return float(np.mean(known)) if known else np.nan
