"""An audit of membership, from its parameters to its tables."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary._consistency import ENCODING_ERROR
from skleak.adversary._encodings import noiseless
from skleak.audit.games._bounds import check_bounds
from skleak.audit.games._game import Outcome
from skleak.audit.games._hypotheses import Hypotheses, check_distances, warn_of_hypotheses
from skleak.audit.games._mechanism import check_rows, noise_of_levels
from skleak.audit.games.membership._attacks import MembershipAttack, choose_membership_attacks
from skleak.audit.games.membership._drawn import drawn_cells, fit_drawn_attacks
from skleak.audit.games.membership._release import dp_parameter, fitted_once, play_release
from skleak.audit.games.membership._subject import (
    MembershipSubject,
    membership_levels,
    study_membership,
)
from skleak.audit.report._membership_report import build_membership_report
from skleak.audit.run._cells import Cell
from skleak.audit.run._plan import without_ledger
from skleak.audit.run._running import resume, run
from skleak.audit.tables._membership import (
    MembershipDesign,
    membership_records,
    membership_results,
    release_key,
)
from skleak.metrics import simultaneous_confidence_level
from skleak.utils._typing import Array, FloatArray

__all__ = ["audit_membership"]


def audit_membership(
    auditor: Any,
    table: Any,
    y: Array,
    sample_weight: FloatArray | None,
    X_test: Any,
    y_test: Any,
) -> None:
    """Play all games of membership, and set the fitted attributes of an auditor.

    Shapes: ``table`` (n, n_columns); ``y`` (n,); ``sample_weight`` (n,); ``X_test``, ``y_test``
    (m, n_columns).
    """
    drawn = auditor.secrets == "drawn"
    subject = study_membership(auditor, table, y, sample_weight, X_test, y_test)
    n_releases = int(auditor.n_releases)
    attacks = choose_membership_attacks(auditor.attacks, subject, n_releases, drawn)
    design = _design(auditor, subject, attacks)
    store, done, entropy = resume(auditor, table, y, design, X_test, y_test, sample_weight)
    noise: dict[float, FloatArray] = {}
    checks, hypotheses = pd.DataFrame(), None
    if drawn:
        exact, fitted = fit_drawn_attacks(subject, without_ledger(auditor.estimator), attacks)
        hypotheses = Hypotheses.near(exact.encodings_[:, 1])
    if subject.noiseless is not None:
        noise, checks = noise_of_levels(
            subject.trained, subject, design.noise_scales, entropy, hypotheses
        )
    if drawn:
        passed = [name for name, each in attacks.items() if each.rule == "own"]
        cells = drawn_cells(subject, design, exact, fitted, passed, noise, entropy)
        design = _with_distances(design, subject, exact.distances_)
        auditor.attacks_ = fitted
    else:
        if subject.reference is not None:
            raw, _, known = subject.reference
            attacks = {
                name: fitted_once(each, subject, raw, known) if each.rule == "own" else each
                for name, each in attacks.items()
            }
        cells = _release_cells(subject, design, attacks, entropy)
        auditor.attacks_ = {name: each.attack or each.rule for name, each in attacks.items()}
    tabulate = partial(membership_results, design)
    run(auditor, cells, done, store, entropy, tabulate)
    auditor.results_ = auditor.partial_results_
    auditor.records_ = membership_records(design, done)
    if not drawn and subject.objective is not None:
        checks = _with_distances_of_releases(checks, subject, design, done)
    auditor.report_ = build_membership_report(
        auditor, subject, design, done, entropy, checks=checks
    )


def _with_distances_of_releases(
    checks: pd.DataFrame,
    subject: MembershipSubject,
    design: MembershipDesign,
    cells: Mapping[str, Outcome],
) -> pd.DataFrame:
    """Add how far the models of the games are from what the exact test takes them for.

    Each is trained on members of its own. Where the noise is not as stated, that is what is said.
    """
    off = np.stack([cells[release_key(r)]["off"] for r in range(design.n_releases)])
    own: Any = subject.noiseless
    error = ENCODING_ERROR * max(1.0, float(np.linalg.norm(own)))
    wrong = set(checks["noise_scale"][~checks["passed"].astype(bool)])
    found = {
        level: check_distances(off[:, k] / level, len(own), error / level)
        for k, level in enumerate(design.noise_scales)
        if level > 0.0 and level not in wrong
    }
    warn_of_hypotheses(subject.trained, found)
    rows = [check_rows(level, design.n_releases, [check]) for level, check in found.items()]
    order = pd.concat([checks, *rows]).sort_values("noise_scale", kind="stable")
    return order.reset_index(drop=True)


def _design(
    auditor: Any, subject: MembershipSubject, attacks: Mapping[str, MembershipAttack]
) -> MembershipDesign:
    levels = membership_levels(auditor.noise_scales, subject)
    drawn = auditor.secrets == "drawn"
    asked = _asked_bounds(auditor.bounds)
    known = asked if drawn else tuple(name for name in asked if name in ("dp", "bayes"))
    n_verdicts = len(attacks) * len(levels)
    return MembershipDesign(
        targets=subject.targets,
        prior=subject.prior,
        attacks={name: each.rule for name, each in attacks.items()},
        noise_scales=levels,
        bounds=known,
        n_releases=int(auditor.n_releases),
        drawn=drawn,
        confidence_level=auditor.confidence_level,
        classifies=subject.classifies,
        verdict_level=simultaneous_confidence_level(auditor.confidence_level, n_verdicts),
    )


def _asked_bounds(bounds: Any) -> tuple[str, ...]:
    """Names of bounds: those of other audits, and ``dp``."""
    if isinstance(bounds, str):
        if bounds == "dp":
            return ("dp",)
        return ("dp", *check_bounds(bounds)) if bounds == "all" else check_bounds(bounds)
    names = list(bounds)
    rest = check_bounds([name for name in names if name != "dp"])
    return ("dp", *rest) if "dp" in names else rest


def _with_distances(
    design: MembershipDesign, subject: MembershipSubject, distances: FloatArray
) -> MembershipDesign:
    """Add what games about one record know without playing them."""
    weights = subject.weight_argument()
    model = noiseless(subject.trained).fit(subject.X, subject.y, **weights)
    state = model._confidential_state()
    levels = design.noise_scales
    dp = tuple(dp_parameter(subject.trained, state.at_noise(level)) for level in levels)
    return replace(design, dp=dp, distances=distances)


def _release_cells(
    subject: MembershipSubject,
    design: MembershipDesign,
    attacks: Mapping[str, MembershipAttack],
    entropy: list[int],
) -> dict[str, Cell]:
    shared = (subject, dict(attacks), design.noise_scales, entropy)
    return {
        release_key(release): (play_release, (*shared, release))
        for release in range(design.n_releases)
    }
