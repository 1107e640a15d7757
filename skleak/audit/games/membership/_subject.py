"""What an audit of membership is about: candidates, how models are trained, what is known."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import (
    adds_noise,
    last_step,
    model_parameters,
    noiseless,
    weight_argument,
)
from skleak.adversary.knowledge import resolve_records, take_rows
from skleak.adversary.membership import removal_obstacle
from skleak.audit.games._game import Task
from skleak.audit.games._levels import noise_levels, reference_records
from skleak.audit.games._private_sgd import is_private_sgd, membership_success
from skleak.audit.games._scale import CALIBRATED, PublishedScale, goal_of
from skleak.audit.noise._shape import shape_of_fit
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.state import NoiseShape
from skleak.mechanisms import NoiseGoal
from skleak.metrics import record_losses
from skleak.solvers import Objective
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils._warnings import outer_stacklevel

# Share of the candidates that each release holds out as reference, without test records.
REFERENCE_SHARE = 0.25
_FEWEST = 8
# Probability below which no release lacks a class.
_UNLIKELY = 1e-9
_SMALLEST = np.finfo(float).tiny


@dataclass(frozen=True)
class MembershipSubject:
    """Candidates, how models are trained on some of them, and what is known. Confidential."""

    # Trained anew in each game, unfitted and without a ledger: the last step of a pipeline, or all
    # of it where the preprocessing is refitted. The fitted steps before it count as public.
    trained: Any
    preprocessing: Any
    raw: Any  # records as they are, (n, n_columns)
    X: Any  # as `trained` takes them, (n, d)
    y: Array  # (n,)
    targets: IntArray  # positions of the candidates, (n_targets,)
    prior: float  # probability of membership
    # Raw records, records as `trained` takes them, and targets of records that no model was trained
    # on; None where each release holds out candidates.
    reference: tuple[Any, Any, Array] | None
    obstacle: str  # why there is no exact test; empty where there is one
    weights: FloatArray | None  # of the records in every fit, (n,)
    noise: NoiseShape = field(default_factory=NoiseShape)
    # Of a private model: parameters without noise on all records, (p,), and the training objective
    # on them where there is an exact test.
    noiseless: FloatArray | None = None
    objective: Objective | None = None
    two_classes: bool = False  # True if nothing can be trained on a single class
    # What makes the noise scale a function of the records; the scale on any of them, where it is
    # found; and why no bound counts what it tells.
    goal: Any = None
    scale: PublishedScale | None = None
    uncounted: str = ""
    # Of private SGD: success that no attack exceeds, by noise level.
    allowed: Mapping[float, float] = field(default_factory=dict)

    @property
    def classifies(self) -> bool:
        """True if labels are predicted."""
        return bool(is_classifier(self.trained))

    @property
    def has_noise(self) -> bool:
        """True if the estimator adds noise of its own."""
        return adds_noise(self.trained) or self.private_sgd

    @property
    def private_sgd(self) -> bool:
        """True if the estimator is trained by private SGD: its noise is a multiplier."""
        return is_private_sgd(self.trained)

    def weight_argument(self, rows: Any = slice(None)) -> dict[str, FloatArray]:
        """Keyword of `fit` of what is trained, for the weights of some records."""
        weights = None if self.weights is None else self.weights[rows]
        return weight_argument(self.trained, weights)

    @property
    def others(self) -> IntArray:
        """Positions of the records that are no candidates: every model is trained on them."""
        return np.setdiff1d(np.arange(len(self.y)), self.targets)

    @property
    def n_attacked(self) -> int:
        """Candidates of a release that are not held out."""
        return len(self.targets) - (0 if self.reference is not None else self.n_reference)

    @property
    def usual_size(self) -> float:
        """Expected number of members."""
        return len(self.others) + self.prior * self.n_attacked

    @property
    def n_reference(self) -> int:
        """Reference records of each release."""
        if self.reference is not None:
            return len(self.reference[2])
        return int(REFERENCE_SHARE * len(self.targets))


def study(task: Task) -> MembershipSubject:
    """Learn what games of membership are about."""
    estimator, table, y = task.estimator, task.table, task.y
    targets = resolve_records(task.records, table.shape[0])
    trained, preprocessing, X = estimator, None, table
    pipeline = isinstance(estimator, Pipeline) and len(estimator.steps) > 1
    if pipeline and not task.refit_preprocessing:
        trained, preprocessing = last_step(estimator), clone(estimator[:-1]).fit(table, y)
        X = preprocessing.transform(table)
    reference, test = None, reference_records(task.X_test, task.y_test)
    if test is not None:
        own = test[0] if preprocessing is None else preprocessing.transform(test[0])
        reference = (test[0], own, test[1])
    obstacle = _obstacle(trained, y)
    if task.drawn and obstacle:
        raise AttackNotApplicableError(
            f"`secrets='drawn'` needs the exact test of membership: {obstacle}. Pass "
            "`secrets='actual'`, which trains anew for every release and takes any estimator."
        )
    if reference is None and not task.drawn and len(targets) < _FEWEST:
        raise ValueError(
            f"Without test records, a quarter of the candidates is held out of each release, which "
            f"takes at least {_FEWEST}; got {len(targets)}. Pass `X_test` and `y_test`, or more "
            "`records`."
        )
    known = (targets, float(task.prior), reference, obstacle, task.sample_weight)
    goal = goal_of(trained, task.noise_scales)
    subject = MembershipSubject(trained, preprocessing, table, X, y, *known, goal=goal)
    return _with_scale(_with_noise(_with_classes(subject)))


def _with_classes(subject: MembershipSubject) -> MembershipSubject:
    """Keep a record without which nothing could be trained in every training set.

    That is the only one of a class, of two, where the estimator needs both.
    """
    if not subject.classifies:
        return subject
    labels, codes, counts = np.unique(subject.y, return_inverse=True, return_counts=True)
    if len(labels) != 2:
        return subject
    # Classes of which a release may lack every record.
    absent = [k for k in range(2) if np.isin(np.flatnonzero(codes == k), subject.targets).all()]
    if not any((1.0 - subject.prior) ** counts[k] > _UNLIKELY for k in absent):
        return subject
    if not _needs_two_classes(subject, np.flatnonzero(codes == counts.argmax())):
        return subject
    alone = np.isin(subject.targets, np.flatnonzero(counts[codes] == 1))
    if alone.all():
        raise ValueError(
            "Each candidate is the only record of its class, and without it nothing could be "
            f"trained: {subject.targets[alone].tolist()}. Pass more records of these classes."
        )
    if alone.any():
        warnings.warn(
            f"Records {subject.targets[alone].tolist()} (positions) are each the only one of a "
            f"class, and {type(last_step(subject.trained)).__name__} cannot be trained without: "
            "they are in every training set, so that everybody knows their membership, and are "
            "not attacked.",
            UserWarning,
            stacklevel=outer_stacklevel(),
        )
    return replace(subject, targets=subject.targets[~alone], two_classes=True)


def _needs_two_classes(subject: MembershipSubject, rows: IntArray) -> bool:
    """Try to train on a few records of a single class, at these positions."""
    few = rows[:_FEWEST]
    weights = subject.weight_argument(few)
    try:
        clone(subject.trained).fit(take_rows(subject.X, few), subject.y[few], **weights)
    except Exception:
        return True
    return False


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


def _with_scale(subject: MembershipSubject) -> MembershipSubject:
    """Add what a noise scale that follows the records tells."""
    goal = subject.goal
    if not isinstance(goal, NoiseGoal):
        return replace(subject, uncounted="" if goal is None else CALIBRATED)
    if subject.obstacle:
        return replace(subject, uncounted=subject.obstacle)
    given = subject.X, subject.y, subject.weights
    return replace(subject, scale=PublishedScale.of(subject.trained, goal, *given))


def _obstacle(trained: Any, y: Array) -> str:
    """Say why the exact test is not known; empty where it is."""
    if isinstance(trained, Pipeline):
        return "the preprocessing is trained anew with the model (`refit_preprocessing=True`)"
    return removal_obstacle(trained, y)


def bounded(subject: MembershipSubject, levels: Sequence[float], asked: bool) -> MembershipSubject:
    """Add what no attack on private SGD exceeds; without dp-accounting nothing, unless asked for.

    Training sets differ in a record, and in nothing that was learned of it elsewhere: neither in
    preprocessing nor in which classes there are.
    """
    if not subject.private_sgd or isinstance(subject.trained, Pipeline) or _lacks_classes(subject):
        return subject
    model, sizes = subject.trained, (len(subject.others), subject.n_attacked)
    try:
        allowed = {
            level: membership_success(model, level, subject.prior, subject.usual_size, *sizes)
            for level in levels
        }
    except ImportError:
        if asked:
            raise
        return subject
    return replace(subject, allowed=allowed)


def _lacks_classes(subject: MembershipSubject) -> bool:
    """Return True if a training set may lack a class."""
    if not subject.classifies or subject.two_classes:
        return False
    labels, counts = np.unique(subject.y, return_counts=True)
    certain = np.isin(labels, subject.y[subject.others])
    kept = 1.0 if subject.reference is not None else 1.0 - REFERENCE_SHARE
    return bool(np.any((1.0 - kept * subject.prior) ** counts[~certain] > _UNLIKELY))


def membership_levels(noise_scales: Any, subject: MembershipSubject) -> tuple[float, ...]:
    """Noise levels of an audit of membership, ascending."""
    trained = (subject.trained, subject.X, subject.y)
    levels = noise_levels(noise_scales, *trained, subject.weights)
    if not subject.has_noise and levels[-1] > 0.0:
        fitted = clone(subject.trained).fit(*trained[1:], **subject.weight_argument())
        model = last_step(fitted)
        if not hasattr(model, "coef_"):
            raise AttackNotApplicableError(
                f"`noise_scales` must be None or 0 for {type(model).__name__}: it adds no noise, "
                "and has no `coef_` after `fit` to add some to. Leave `noise_scales` out."
            )
    return levels


def normalized_losses(
    model: Any, X: Any, y: Array, classifies: bool, reference: tuple[Any, Array]
) -> FloatArray:
    """Loss of every record in [0, 1], of which a gap says what surely leaks.

    Shapes: ``X``, ``y`` (n, d); returns (n,): 1 for a wrong label, else 0. Of a regressor the
    squared error, cut at the median squared error of the reference records and divided by it: a
    function of the record, the model and what the attacker knows anyway, as [BIL23] theorem 2
    needs it.
    """
    if classifies:
        return record_losses(model, X, y, "zero_one")
    losses = record_losses(model, X, y, "squared")
    usual = float(np.median(record_losses(model, *reference, "squared")))
    return np.minimum(losses / max(usual, _SMALLEST), 1.0)
