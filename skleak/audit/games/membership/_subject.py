"""What an audit of membership is about: candidates, how models are trained, what is known."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length, column_or_1d

from skleak.adversary._consistency import weight_argument
from skleak.adversary._encodings import last_step, model_parameters, noiseless
from skleak.adversary._knowledge import as_table, resolve_records
from skleak.adversary._removals import removal_obstacle
from skleak.audit.games._shaped_subject import shape_of_fit
from skleak.audit.run._plan import without_ledger
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.state import NoiseShape
from skleak.solvers import Objective
from skleak.utils._typing import Array, FloatArray, IntArray

__all__ = [
    "MembershipSubject",
    "membership_levels",
    "pair_success",
    "study_membership",
]

# Share of the candidates that each release holds out as reference, without test records.
REFERENCE_SHARE = 0.25
_FEWEST = 8


@dataclass(frozen=True)
class MembershipSubject:
    """Candidates, how models are trained on some of them, and what is known. Confidential.

    Parameters
    ----------
    trained : estimator
        What is trained anew in each game, unfitted and without a ledger: the last step of a
        pipeline, or all of it where the preprocessing is refitted.
    preprocessing : Pipeline or None
        Fitted steps that count as public.
    raw, X, y : table of shape (n, n_columns), table of shape (n, d), ndarray of shape (n,)
        Records as they are, as ``trained`` takes them, and their targets.
    targets : ndarray of int of shape (n_targets,)
        Positions of the candidates.
    prior : float
        Probability of membership.
    reference : tuple or None
        Raw records, records as ``trained`` takes them, and targets of records that no model was
        trained on; None where each release holds out candidates.
    obstacle : str
        Why there is no exact test; empty where there is one.
    noise : NoiseShape
        Shape of the noise.
    noiseless : ndarray of shape (p,) or None
        Parameters without noise on all records, of a private model.
    objective : Objective or None
        Training objective on all records, where there is an exact test.
    weights : ndarray of shape (n,) or None
        Sample weights of the records in every fit.
    """

    trained: Any
    preprocessing: Any
    raw: Any
    X: Any
    y: Array
    targets: IntArray
    prior: float
    reference: tuple[Any, Any, Array] | None
    obstacle: str
    noise: NoiseShape = field(default_factory=NoiseShape)
    noiseless: FloatArray | None = None
    objective: Objective | None = None
    weights: FloatArray | None = None

    @property
    def classifies(self) -> bool:
        """True if labels are predicted."""
        return bool(is_classifier(self.trained))

    @property
    def has_noise(self) -> bool:
        """True if the estimator adds noise of its own."""
        return "noise_scale" in last_step(self.trained).get_params(deep=False)

    def weight_argument(self, rows: Any = slice(None)) -> dict[str, FloatArray]:
        """Keyword of `fit` of what is trained, for the weights of some records."""
        weights = None if self.weights is None else self.weights[rows]
        return weight_argument(self.trained, weights)

    @property
    def others(self) -> IntArray:
        """Positions of the records that are no candidates: every model is trained on them."""
        return np.setdiff1d(np.arange(len(self.y)), self.targets)

    @property
    def baseline(self) -> float:
        """Success of the prior alone."""
        return max(self.prior, 1.0 - self.prior)

    @property
    def n_reference(self) -> int:
        """Reference records of each release."""
        if self.reference is not None:
            return len(self.reference[2])
        return int(REFERENCE_SHARE * len(self.targets))


def study_membership(
    auditor: Any,
    table: Any,
    y: Array,
    sample_weight: FloatArray | None,
    X_test: Any,
    y_test: Any,
) -> MembershipSubject:
    """Learn what games of membership are about.

    Shapes: ``table`` (n, n_columns); ``y`` (n,); ``sample_weight`` (n,); ``X_test``, ``y_test``
    (m, n_columns).
    """
    estimator = without_ledger(auditor.estimator)
    targets = resolve_records(auditor.records, table.shape[0])
    trained, preprocessing, X = estimator, None, table
    pipeline = isinstance(estimator, Pipeline) and len(estimator.steps) > 1
    if pipeline and not auditor.refit_preprocessing:
        trained, preprocessing = last_step(estimator), estimator[:-1].fit(table, y)
        X = preprocessing.transform(table)
    reference = _reference(X_test, y_test, preprocessing)
    obstacle = _obstacle(trained, y)
    if auditor.secrets == "drawn" and obstacle:
        raise AttackNotApplicableError(
            f"`secrets='drawn'` needs the exact test of membership: {obstacle}. Pass "
            "`secrets='actual'`, which trains anew for every release and takes any estimator."
        )
    if reference is None and auditor.secrets == "actual" and len(targets) < _FEWEST:
        raise ValueError(
            f"Without test records, a quarter of the candidates is held out of each release, which "
            f"takes at least {_FEWEST}; got {len(targets)}. Pass `X_test` and `y_test`, or more "
            "`records`."
        )
    subject = MembershipSubject(
        trained, preprocessing, table, X, y, targets, float(auditor.prior), reference, obstacle
    )
    subject = replace(subject, weights=sample_weight)
    return _with_noise(subject)


def _with_noise(subject: MembershipSubject) -> MembershipSubject:
    """Add what a check of the noise needs, of a model whose noise is known."""
    model, weights = subject.trained, subject.weight_argument()
    if not (subject.has_noise and hasattr(model, "_confidential_state")):
        return subject
    fitted = noiseless(model).fit(subject.X, subject.y, **weights)
    own = model_parameters(fitted)
    objective = None if subject.obstacle else fitted._confidential_state().objective
    shape = NoiseShape.of(getattr(model, "noise_covariance", "isotropic"), len(own))
    if shape.reads_data:
        shape = shape_of_fit(shape, fitted)
    return replace(subject, noise=shape, noiseless=own, objective=objective)


def _reference(X: Any, y: Any, preprocessing: Any) -> tuple[Any, Any, Array] | None:
    if X is None:
        return None
    if y is None:
        raise ValueError("`X_test` needs its targets: pass `y_test` too.")
    raw, y = as_table(X), column_or_1d(y)
    check_consistent_length(raw, y)
    return raw, raw if preprocessing is None else preprocessing.transform(raw), y


def _obstacle(trained: Any, y: Array) -> str:
    """Say why the exact test is not known; empty where it is."""
    if isinstance(trained, Pipeline):
        return "the preprocessing is trained anew with the model (`refit_preprocessing=True`)"
    return removal_obstacle(trained, y)


def membership_levels(noise_scales: Any, subject: MembershipSubject) -> tuple[float, ...]:
    """Noise levels of an audit of membership, ascending."""
    if noise_scales is None:
        noise_scales = last_step(subject.trained).noise_scale if subject.has_noise else 0.0
        if not np.isscalar(noise_scales):
            weights = subject.weight_argument()
            fitted = clone(subject.trained).fit(subject.X, subject.y, **weights)
            noise_scales = last_step(fitted).noise_scale_
    levels = np.unique(np.asarray(noise_scales, dtype=np.float64))
    if not levels.size or not np.all((levels >= 0.0) & np.isfinite(levels)):
        raise ValueError(
            "`noise_scales` must hold finite numbers, zero or more; got "
            f"{np.asarray(noise_scales).tolist()}."
        )
    if not subject.has_noise and levels[-1] > 0.0:
        fitted = clone(subject.trained).fit(subject.X, subject.y, **subject.weight_argument())
        model = last_step(fitted)
        if not hasattr(model, "coef_"):
            raise AttackNotApplicableError(
                f"`noise_scales` must be None or 0 for {type(model).__name__}: it adds no noise, "
                "and has no `coef_` after `fit` to add some to. Leave `noise_scales` out."
            )
    return tuple(levels.tolist())


def pair_success(distance: FloatArray, prior: float) -> FloatArray:
    """Success of the best test between N(0, 1) and N(distance, 1).

    Shapes: ``distance`` (...); returns (...): ``q Phi(D / 2 + l / D) + (1 - q) Phi(D / 2 - l /
    D)`` with l the log odds of q.
    """
    odds = np.log(prior) - np.log1p(-prior)
    moved = np.where(distance > 0.0, distance, 1.0)
    shift = odds / moved
    right = prior * ndtr(0.5 * moved + shift) + (1.0 - prior) * ndtr(0.5 * moved - shift)
    return np.where(distance > 0.0, right, max(prior, 1.0 - prior))
