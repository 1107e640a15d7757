"""Private linear, logistic, and Poisson regression."""

import warnings
from dataclasses import dataclass, field, replace
from functools import singledispatch
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils import Tags

from skleak._released import (
    ClassificationMixin,
    CountRegressionMixin,
    LinearRegressionMixin,
    ReleasedLinearRegression,
    ReleasedLogisticRegression,
    ReleasedModel,
    ReleasedPoissonRegressor,
)
from skleak.influence.jacobian import FitFactor
from skleak.influence.state import FitState
from skleak.linear_model._base import PrivateLinearModel
from skleak.linear_model.moments import ReleasedMoments
from skleak.losses import LogisticLoss, PointwiseLoss, PoissonLoss, SoftmaxLoss, SquaredLoss
from skleak.mechanisms import (
    EpsilonDelta,
    GaussianDP,
    ObjectivePerturbation,
    SufficientStatistics,
)
from skleak.mechanisms.grids import sampler_name
from skleak.mechanisms.moments import MomentsNoise
from skleak.mechanisms.objective import ObjectiveNoise
from skleak.mechanisms.protocol import Mechanism, OutputPerturbation, PublicTable
from skleak.report.guarantee import noise_guarantee
from skleak.solvers import Objective
from skleak.utils._blocks import dense, is_large_source
from skleak.utils._labels import encoded, find_classes
from skleak.utils._records import Persons, row_label
from skleak.utils._sklearn_compat import Interval, StrOptions, Task, outer_stacklevel
from skleak.utils._typing import Array, FloatArray


class MechanismModel(PrivateLinearModel):
    """A linear model that may have its noise elsewhere than on its minimizer."""

    # By their names; and the name of the one by which a guarantee is reached unless told otherwise.
    _mechanisms: ClassVar[dict[str, Mechanism]]
    _guaranteed: ClassVar[str]

    mechanism: "str | Mechanism | None"

    def _chosen_mechanism(self, X: Any = None, persons: Any = None) -> Mechanism:
        given = self.mechanism
        if given is None:
            given = self._guaranteed if self._asks_for_guarantee(X, persons) else "output"
        if isinstance(given, Mechanism):
            return given
        return self._mechanisms.get(str(given), OutputPerturbation())

    def _asks_for_guarantee(self, X: Any, persons: Any) -> bool:
        """Return True where noise is to reach a guarantee, and nothing needs it on a minimizer."""
        by_row = persons is not None and getattr(self.noise_scale, "rows_per_person", None) is None
        needed = self.reweighting is not None or by_row or is_large_source(X)
        return self._has_guarantee_goal and self._is_isotropic and not needed

    @property
    def _has_guarantee_goal(self) -> bool:
        # A subclass may resolve itself in another way, which is not asked here.
        return type(self.noise_scale) in (EpsilonDelta, GaussianDP)

    @property
    def _is_isotropic(self) -> bool:
        return isinstance(self.noise_covariance, str) and self.noise_covariance == "isotropic"

    @property
    def _kept(self) -> str | None:
        """Name of the mechanism that follows from the goal, for copies with other noise."""
        if self.mechanism is None and self._has_guarantee_goal:
            mechanism: Mechanism = vars(self).get("_mechanism", self._chosen_mechanism())
            return mechanism.name
        return None

    @property
    def _penalty(self) -> float:
        # Before a penalty is chosen nothing hangs on it.
        given = 1.0 if isinstance(self.alpha, str) else float(self.alpha)
        return float(self.__dict__.get("alpha_", given))

    def _check_mechanism(self, X: Any, persons: Any) -> None:
        mechanism = self._mechanism
        given = self.get_params(deep=False)
        wrong = mechanism.obstacles(given)
        goal: Any = self.noise_scale
        if self._has_guarantee_goal:
            goal.check(persons=True)
        if not mechanism.adds_to_minimizer:
            wrong = self._unmet(X) | wrong
        wrong |= self._unmet_of_persons(persons)
        reasons = [reason for reason, is_wrong in wrong.items() if is_wrong]
        if reasons:
            if mechanism.adds_to_minimizer and persons is not None and self._has_guarantee_goal:
                reasons.append("other noise protects persons by `rows_per_person` of its goal")
            asked = self.mechanism
            named = f'`mechanism="{asked}"`' if isinstance(asked, str) else f"`mechanism={asked}`"
            if asked is None:
                named += f' (that is, "{mechanism.name}" under `{self.noise_scale}`)'
            remedy = "" if mechanism.adds_to_minimizer else ', or pass `mechanism="output"`'
            raise ValueError(
                f"{named} does not go with these parameters: {'; '.join(reasons)}. "
                f"Change them{remedy}."
            )

    def _unmet_of_persons(self, persons: Any) -> dict[str, bool]:
        """Return what a goal about persons needs, or about rows, and whether it is missing."""
        about_persons = self._promises().persons
        return {
            "`sample_weight` must be None: persons count each record once": (
                about_persons and self._weighted
            ),
            "`persons` must be None: the guarantee is about one row (`rows_per_person` of a goal "
            "protects persons)": (
                persons is not None and not about_persons and not self._mechanism.adds_to_minimizer
            ),
            "`fit` must be given `persons`, whom `rows_per_person` of the goal is about": (
                persons is None and about_persons
            ),
        }

    def _unmet(self, X: Any) -> dict[str, bool]:
        """Return what noise that is not on a minimizer needs, and whether it is missing."""
        promises = self._promises()
        public, known = promises.public, "n_persons" if promises.persons else "n_samples"
        return {
            "`noise_scale` must be an `EpsilonDelta` or `GaussianDP` of skleak.mechanisms: a number"
            " is a scale of noise on the coefficients alone, which attacks, auditors and other "
            f"goals know how to set; got {self.noise_scale!r}": not self._has_guarantee_goal,
            "`data_norm` must be promised, a public bound on the norm of a row": (
                self.data_norm is None
            ),
            f"`public` must hold '{known}'": known not in public,
            "`public` must hold 'sample_weight' where there are weights": (
                self._weighted and self._mechanism.takes_weights and "sample_weight" not in public
            ),
            "`sample_weight` must be None: sums count each record once": (
                self._weighted and not self._mechanism.takes_weights
            ),
            "`alpha` must be positive, or 'auto'": self.alpha == 0.0,
            "`reweighting` must be None: weights of it are functions of the records": (
                self.reweighting is not None
            ),
            "`noise_covariance` must be 'isotropic'": not self._is_isotropic,
            "X must lie in memory": is_large_source(X),
        }

    def _counted(self, objective: Objective, persons: Persons | None) -> Objective:
        """Return the objective of the first rows of persons whom a goal is about.

        Its ridge is that of as many rows as there may be: of persons only their number is public.
        """
        rows = self._promises().rows_per_person
        if rows is None or persons is None:
            return objective
        some = persons.places(np.arange(len(persons)))[:, :rows]
        weights = np.zeros(objective.n_records)
        weights[persons.rows[some[some >= 0]]] = 1.0
        alpha = objective.alpha * len(persons) * rows / weights.sum()
        return replace(objective, sample_weight=weights, alpha=alpha)

    def _release_by_mechanism(
        self, objective: Objective, task: Task, labels: Any, persons: Persons | None
    ) -> None:
        """Fit with noise from public numbers."""
        goal, promises = self.noise_scale, self._promises()
        assert promises.data_norm is not None
        assert isinstance(goal, EpsilonDelta | GaussianDP)
        n_records, total = objective.n_records, objective.total
        if persons is not None:  # as many rows as there may be
            n_records = len(persons) * goal.rows
            total = float(n_records)
        with task.part("calibration"):
            table = PublicTable(
                n_records,
                objective.X.shape[1],
                promises.data_norm * (1.0 + promises.norm_rounding),
                objective.n_parameters,
                getattr(self, "target_bound", None),
                bool(self.fit_intercept),
                None if isinstance(self.alpha, str) else float(self.alpha),
                total,
                1.0 if promises.persons else objective.weight_range[1],
                getattr(objective, "n_classes", 2),
            )
            noise = self._mechanism.calibrate(goal, table)
            delta = {"delta": goal.delta} if isinstance(goal, EpsilonDelta) else {}
            guarantee = noise_guarantee(noise, promises, **delta)
        for name in ("_state", "n_iter_"):  # of a fit before, by another mechanism
            self.__dict__.pop(name, None)
        self._terms, self._goal, self._guarantee = promises, None, guarantee
        self.coef_noise_scale_ = self.intercept_noise_scale_ = None
        describe_noise(noise, self, table)
        self._made_as = {**self._provenance(), "sample_weight": self._weighted}
        most = getattr(noise, "largest_loss", None) if persons is None else None
        self._charge(
            guarantee.composed_mu if guarantee.holds else None,
            most=most if guarantee.holds else np.inf,
            **{**self._provenance(), "noise_scale": self.noise_scale_},
        )
        with task.part("solve"):
            draw_by_mechanism(noise, self, objective)
        p, known = objective.n_parameters, getattr(self, "feature_names_in_", None)
        # What a minimizer without noise would be is not known, and asked by nobody.
        lost = FitFactor(np.full(p, np.nan), np.empty((0, 0)), self._loss, objective.fit_intercept)
        objective = replace(objective, alpha=self._penalty * total / objective.total)
        scale = getattr(self, "gradient_noise_scale_", self.noise_scale_)
        state = FitState(objective, lost, scale, bool(self.private_target), feature_names=known)
        state = replace(state, row_labels=labels, noise_elsewhere=noise)
        self._state = replace(state, persons=persons)

    def _provenance(self) -> dict[str, Any]:
        made = super()._provenance()
        if self._mechanism.adds_to_minimizer:
            return made
        del made["tol"]
        stated = {"goal": repr(self.noise_scale), "loss": self.loss_}
        if hasattr(self, "gradient_noise_scale_"):
            stated["gradient_noise_scale"] = self.gradient_noise_scale_
        return {**made, "mechanism": self._mechanism.name, **stated}


@singledispatch
def describe_noise(noise: Any, model: Any, table: PublicTable) -> None:
    """Set what a model says of its noise, from public numbers alone."""
    raise NotImplementedError


@describe_noise.register
def _(noise: ObjectiveNoise, model: Any, table: PublicTable) -> None:
    model.alpha_ = noise.strength / float(table.total or table.n_records)
    model.gradient_noise_scale_, model.noise_scale_ = noise.gradient_noise_scale, noise.noise_scale
    model.loss_ = model._loss.name if noise.n_classes == 2 else SoftmaxLoss.name
    if noise.width is not None:
        model.loss_ = f"pseudo-Huber of width {noise.width:.6g}"


@describe_noise.register
def _(noise: MomentsNoise, model: Any, table: PublicTable) -> None:
    model.alpha_ = noise.edge_alpha if table.alpha is None else table.alpha
    model.noise_scale_ = noise.b**-0.5 * noise.unit * noise.target_bound
    model.loss_ = model._loss.name


@singledispatch
def draw_by_mechanism(noise: Any, model: Any, objective: Objective) -> None:
    """Draw noise, and set the parameters of a model."""
    raise NotImplementedError


@draw_by_mechanism.register
def _(noise: ObjectiveNoise, model: Any, objective: Objective) -> None:
    records = objective.X, objective.y, objective.sample_weight
    drawn, _ = noise.release(*records, model.random_state)
    model.noise_step_, model.noise_sampler_ = drawn.step, drawn.sampler
    parameters = drawn.parameters
    if noise.constant:
        rows = parameters.reshape(-1, objective.X.shape[1] + 1)
        parameters = np.append(rows[:, :-1], noise.constant * rows[:, -1])
    size = objective.X.shape[1] * (noise.n_classes if noise.n_classes > 2 else 1)
    model.coef_, model.intercept_ = model._shaped(parameters, size)


@draw_by_mechanism.register
def _(noise: MomentsNoise, model: Any, objective: Objective) -> None:
    rows, y = dense(objective.X), objective.y
    if noise.rows_per_person is not None:  # rows that do not count are rows of zeros
        kept = np.flatnonzero(objective.sample_weight)
        X, targets = np.zeros((noise.n_records, rows.shape[1])), np.zeros(noise.n_records)
        X[: len(kept)], targets[: len(kept)] = rows[kept], y[kept]
        rows, y = X, targets
    moments = noise.release(rows, y, model.random_state)
    names = getattr(model, "feature_names_in_", None)
    released = ReleasedMoments(moments, noise, model._guarantee, names, np.ones(noise.n_features))
    if noise.rows_per_person is None:  # else the number of rows, and so the errors, are not known
        model.moments_ = released
    fit = released.regress(alpha=model.alpha_)
    model.coef_, model.intercept_ = fit.coef_, fit.intercept_
    # Coefficients are functions of sums on grids, and on none themselves.
    model.noise_step_, model.noise_sampler_ = 0.0, sampler_name(model.random_state)


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(LinearRegressionMixin, MechanismModel):
    """Linear regression with output perturbation that measures its leakage.

    Minimize

        sum_i s_i omega_i (x_i.w + b - y_i)^2 / (2 N) + alpha / 2 ||w||^2

    with sample weights s_i of sum N and factors omega_i of a reweighting; measure by Fisher
    information what every record leaks ([FIL21]); and add Gaussian noise to all parameters. The
    squared loss has no bounded derivative; a guarantee of differential privacy needs
    ``target_bound``, ``data_norm``, ``public``, ``alpha > 0`` and ``fit_intercept=False``. Sums of
    the table with noise have one at less noise (``mechanism="moments"``), and so has the
    pseudo-Huber loss with noise in the objective (``mechanism=ObjectivePerturbation(huber=0.1)``),
    both with measures of their own. That loss estimates no conditional mean: of a skewed target
    its predictions are biased, towards the median. Only ``release()`` may be published. See the
    user guide, docs/theory/leakage.md and differential_privacy.md.

    Parameters
    ----------
    noise_scale : float or NoiseGoal, default=0.01
        Standard deviation of the noise on each parameter, in its units, or a goal of
        `skleak.mechanisms`, which ``fit`` resolves to the smallest noise that reaches it (rounded
        up, or refused, where the goal reads the data). At 0 leakage is infinite.
    noise_covariance : str, array-like or NoiseKind, default="isotropic"
        Shape S of the noise ``N(0, noise_scale^2 S)``, ``tr S = p``: "isotropic"; a public (p, p)
        matrix, intercept last, or rule; or, from the data, "curvature", "minimax" or "least_mean"
        (the least mean squared loss of persons, by their whole weights, at a given rise of the
        objective; with equal weights and a private target that is "minimax"), whose leakage by the
        covariance is counted. Only "isotropic" goes with a reweighting.
    alpha : float or "auto", default=1e-2
        Penalty relative to the *mean* loss: scikit-learn's ``Ridge(alpha=N * alpha)``. With noise
        on sums "auto" is half the edge of its spectrum; a number far below fits the noise. With
        noise in the objective "auto" takes it from public numbers: ``N alpha`` of
        ``4 R^2 / epsilon``, at which an `EpsilonDelta` costs the noise of half its delta; or
        ``8 R^2 / mu^2``; times the largest weight.
    fit_intercept : bool, default=True
        Fit an intercept, which is not penalized. With noise in the objective it is half of
        ``data_norm`` times the coefficient of a constant column of that value, penalized as all
        are, so that the unit of X does not matter; R^2 is then 5/4 of the square of ``data_norm``.
    mechanism : str, ObjectivePerturbation, SufficientStatistics or None, default=None
        Where the noise is added: "output", to the minimizer; "moments", or a `SufficientStatistics`
        of skleak.mechanisms, to the sums that the fit is made of; or, by an
        `ObjectivePerturbation`, to the objective, with the pseudo-Huber loss. None is "moments"
        under an `EpsilonDelta` or `GaussianDP`, where nothing needs noise on the minimizer (a
        reweighting, covariance, persons, or records outside memory), and "output" else. The others
        need such a goal, ``data_norm``, ``target_bound``, ``public`` and ``alpha > 0``; sums no
        sample weights, and at most 2,000 columns; of the objective an
        `EpsilonDelta` is the better choice: mu takes about half as much noise again. What
        records leak through sums is a function of each alone; through noise in the objective it is
        a mean over simulated fits, of which ``fisher_information_loss_error_`` is the standard
        error. No attacks are known then, and ``max_iter`` and ``tol`` do not count.
    target_bound : float or None, default=None
        Public upper bound B on the absolute target; a larger target is an error. A guarantee for
        noise on the minimizer counts ``2 R B (R / (2 sqrt(alpha)) + 1) / (N alpha)``, R the
        ``data_norm``. Noise on sums grows with it, too. With noise in the objective it is the unit
        of ``huber``: noise does not grow with it else, the slope of the loss is bounded for any
        target, and the bound serves the precision of the solver. Center targets by a public number.
    private_target : bool, default=True
        Count the target as unknown to the attacker ([FIL21]); with False it is public ([DRA22]).
    reweighting : {"irfil", "total"}, IRFIL, EvenTotal or None, default=None
        Weight the records to even their leakage, either with these weights held fixed ([FIL21]
        algorithm 1) or in total. Neither makes it equal, and the largest loss may rise.
    data_norm : float, array-like of shape (n_features,), mapping or None, default=None
        Public upper bound on the Euclidean norm of a row of X; or on the size of each column, in
        order or by name, whose norm is then that of a row. What is beyond is an error.
    public : str or sequence of str, default=()
        Which of "n_samples" and "sample_weight" are public knowledge.
    max_iter : int, default=100
        Largest number of Newton steps of a fit.
    tol : float, default=1e-10
        Gradient norm at which a fit stops, or rounding noise where that is larger.
    random_state : None, int, RandomState or Generator, default=None
        None draws noise from the operating system's cryptographic randomness. All else can be
        replayed, and is for experiments: no guarantee holds, and a ledger enters infinity.
    ledger : str, Path, LeakageLedger or None, default=None
        A `skleak.accounting.LeakageLedger` or the path of an existing one. Each fit, also of a
        clone, charges every record its largest loss before noise is drawn, or is refused.
    ledger_dataset : str, default="default"
        Name of this data set in the ledger.
    verbose : int, default=0
        Above 0, progress bars under a reweighting.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features,), float
        Noisy parameters; an intercept of zero without one.
    coef_noise_scale_, intercept_noise_scale_ : ndarray, float or None
        Standard errors that the noise adds; None where they depend on the records.
    noise_scale_, noise_step_, noise_sampler_ : float, float, str
        Root mean square of the noise; step of its grid, a power of two; how it was drawn.
    fisher_information_loss_, diagonal_fisher_information_loss_ : ndarray of shape (n_samples,)
        Loss of each training record in 1 / (unit of the columns), and its root mean square over
        the unknowns ([DRA22] 7.1), each computed on first access. NaN if not converged; total
        under a reweighting. Confidential.
    conditional_fisher_information_loss_, sample_reweights_ : ndarray of shape (n_samples,)
        Under a reweighting: the loss if its factors omega were fixed ([FIL21] eq. 29), less than
        most records leak; and these factors, ``sum s omega = N``. Confidential.
    reweighting_history_, n_reweighting_iter_ : ndarray of shape (n_fits,), int
        Under a reweighting: relative spread of the balanced leakage at each fit; refits.
    n_iter_, n_features_in_, feature_names_in_ : int, int, ndarray of str
        Newton steps; number of columns, and their names where X has them.
    n_passes_ : int
        Passes over records that lie outside memory, of all that ``fit`` did.
    gradient_noise_scale_, alpha_, loss_ : float, float, str
        With noise in the objective: its standard deviation, in units of the gradient of the summed
        loss; the penalty; what was minimized. ``noise_scale_`` is then that of the noise on the
        minimizer alone, and ``coef_noise_scale_`` None.
    moments_ : ReleasedMoments
        With noise on sums: these, as they may be published. ``moments_.regress().summary()`` has
        standard errors, and fits at other penalties cost nothing. ``noise_scale_`` is then that on
        each entry of ``X^T y``; ``alpha_`` and ``loss_`` are there too.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = PrivateLinearRegression(noise_scale=5.0, random_state=0).fit(X, y)
    >>> round(float(model.fisher_information_loss(per="dataset", features="bmi")), 2)
    50.42
    """

    _loss: ClassVar[PointwiseLoss] = SquaredLoss()
    _mechanisms: ClassVar[dict[str, Mechanism]] = {
        one.name: one
        for one in (OutputPerturbation(), ObjectivePerturbation(), SufficientStatistics())
    }
    _guaranteed: ClassVar[str] = "moments"
    _released: ClassVar[type[ReleasedModel]] = ReleasedLinearRegression

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateLinearModel._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "mechanism": [StrOptions({"output", "objective", "moments"}), Mechanism, None],
        "target_bound": [Interval(Real, 0, None, closed="neither"), None],
    }

    mechanism: (
        Literal["output", "objective", "moments"]
        | ObjectivePerturbation
        | SufficientStatistics
        | None
    ) = field(default=None, kw_only=True)
    target_bound: float | None = field(default=None, kw_only=True)

    def _encode_targets(self, y: Array, records: Any, *, fitted: bool = False) -> FloatArray:
        y = np.array(y, dtype=np.float64).ravel()  # a copy: targets are kept
        if not fitted and self.target_bound is not None:
            beyond = np.flatnonzero(np.abs(y) > self.target_bound)
            if len(beyond):
                where = f", the first of them in {row_label(records, int(beyond[0]))}"
                self._refuse_large(f"{len(beyond)} of {len(y)} are larger{where}")
        return y


@dataclass(eq=False, repr=False)
class PrivateLogisticRegression(ClassificationMixin, MechanismModel):
    """Logistic regression with output perturbation that measures its leakage.

    Minimize ``-sum_i s_i omega_i log p_i / N + alpha / 2 ||w||^2`` with p_i the probability of the
    label: logistic in ``x_i.w + b`` for two classes, softmax of ``W x_i + b`` for more; s_i are
    sample weights of sum N, omega_i the factors of a reweighting. Measure by Fisher information
    what every record leaks ([FIL21]), and add Gaussian noise to all parameters. A guarantee of
    differential privacy ([CMS11]) needs ``data_norm``, ``classes``, ``public``, ``alpha > 0`` and
    ``fit_intercept=False``, and no reweighting, seed, or noise that reads the data; the report
    says what is missing. The noise may be in the objective instead (``mechanism``), with the same
    guarantee, an intercept, and mostly better predictions, and measures of its own. Only
    ``release()`` may be published. See docs/theory/leakage.md and differential_privacy.md.

    Parameters
    ----------
    noise_scale : float or NoiseGoal, default=0.01
        Standard deviation of the noise on each parameter, in its units, or a goal of
        `skleak.mechanisms`, which ``fit`` resolves to the smallest noise that reaches it (rounded
        up, or refused, where the goal reads the data). At 0 leakage is infinite.
    noise_covariance : str, array-like or NoiseKind, default="isotropic"
        Shape S of the noise ``N(0, noise_scale^2 S)``, ``tr S = p``: "isotropic"; a public (p, p)
        matrix, intercept last, or rule; or, from the data, "curvature" or "minimax", whose leakage
        by the covariance is counted. Only "isotropic" goes with a reweighting or many classes.
    alpha : float or "auto", default=1e-2
        Penalty relative to the *mean* loss: scikit-learn's ``C=1 / (N * alpha)``. Under
        ``mechanism="objective"`` "auto" is the least, by public numbers, at which the goal costs
        what Gaussian noise does: ``N alpha`` of ``2 R^2 / epsilon``, or ``8 R^2 / mu^2``, times the
        largest weight. Of K > 2 classes it is ``10 (1 - 1/K) R^2 / epsilon``, or
        ``25 (1 - 1/K) R^2 / mu``, at a tenth more noise.
    fit_intercept : bool, default=True
        Fit an intercept, which is not penalized. With noise in the objective it is half of
        ``data_norm`` times the coefficient of a constant column of that value, penalized as all
        are, so that the unit of X does not matter; R^2 is then 5/4 of the square of ``data_norm``.
    classes : array-like of shape (n_classes,) or None, default=None
        Class labels as public knowledge; None reads them off the labels. A class without records
        needs ``alpha > 0`` and ``fit_intercept=False``.
    mechanism : {"output", "objective"}, ObjectivePerturbation or None, default=None
        Where the noise is added: to the minimizer; or to the objective, with all that a guarantee
        needs but ``fit_intercept=False``, and an `EpsilonDelta` or `GaussianDP` as ``noise_scale``
        (a number would be another unit). None is "objective" under such a goal, where nothing needs
        noise on the minimizer (a reweighting, covariance, persons, or records outside memory), and
        "output" else. Of more than two classes an `EpsilonDelta` is the better choice: mu takes 1.8
        times as much noise of 3, 3 times of 10. Of two what records leak is then
        a mean over simulated fits, of which ``fisher_information_loss_error_`` is the standard
        error, and labels are exact. No attacks are known, and ``max_iter`` and ``tol`` do not
        count: it is solved to a public gradient
        norm, which noise on the parameters covers.
    private_target : bool, default=True
        Count the target as unknown to the attacker ([FIL21]); with False it is public ([DRA22]).
    reweighting : {"irfil", "total"}, IRFIL, EvenTotal or None, default=None
        Weight the records to even their leakage, either with these weights held fixed ([FIL21]
        algorithm 1) or in total. Neither makes it equal, and the largest loss may rise.
    data_norm : float, array-like of shape (n_features,), mapping or None, default=None
        Public upper bound on the Euclidean norm of a row of X; or on the size of each column, in
        order or by name, whose norm is then that of a row. What is beyond is an error.
    public : str or sequence of str, default=()
        Which of "n_samples" and "sample_weight" are public knowledge.
    max_iter : int, default=100
        Largest number of Newton steps of a fit.
    tol : float, default=1e-10
        Gradient norm at which a fit stops, or rounding noise where that is larger.
    random_state : None, int, RandomState or Generator, default=None
        None draws noise from the operating system's cryptographic randomness. All else can be
        replayed, and is for experiments: no guarantee holds, and a ledger enters infinity.
    ledger : str, Path, LeakageLedger or None, default=None
        A `skleak.accounting.LeakageLedger` or the path of an existing one. Each fit, also of a
        clone, charges every record its largest loss before noise is drawn, or is refused.
    ledger_dataset : str, default="default"
        Name of this data set in the ledger.
    verbose : int, default=0
        Above 0, progress bars under a reweighting.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (1 or K, n_features), ndarray of shape (1 or K,)
        Noisy parameters; an intercept of zero without one.
    coef_noise_scale_, intercept_noise_scale_ : ndarrays or None
        Standard errors that the noise adds; None where they depend on the records.
    noise_scale_, noise_step_, noise_sampler_ : float, float, str
        Root mean square of the noise; step of its grid, a power of two; how it was drawn.
    fisher_information_loss_, diagonal_fisher_information_loss_ : ndarray of shape (n_samples,)
        Loss of each training record in 1 / (unit of the columns), and its root mean square over
        the unknowns ([DRA22] 7.1), each computed on first access. NaN if not converged; total
        under a reweighting. Confidential.
    conditional_fisher_information_loss_, sample_reweights_ : ndarray of shape (n_samples,)
        Under a reweighting: the loss if its factors omega were fixed ([FIL21] eq. 29), less than
        most records leak; and these factors, ``sum s omega = N``. Confidential.
    reweighting_history_, n_reweighting_iter_ : ndarray of shape (n_fits,), int
        Under a reweighting: relative spread of the balanced leakage at each fit; refits.
    n_iter_, n_features_in_, feature_names_in_ : int, int, ndarray of str
        Newton steps; number of columns, and their names where X has them.
    n_passes_ : int
        Passes over records that lie outside memory, of all that ``fit`` did.
    classes_ : ndarray of shape (n_classes,)
        Class labels, ascending.
    gradient_noise_scale_, alpha_, loss_ : float, float, str
        Under ``mechanism="objective"``: standard deviation of the noise in the objective, in units
        of the gradient of the summed loss; the penalty; what was minimized. ``noise_scale_`` is
        then that of the noise on the minimizer alone, and ``coef_noise_scale_`` None.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> PrivateLogisticRegression(noise_scale=0.05, random_state=0).fit(X, y).coef_.shape
    (3, 4)
    """

    _loss: ClassVar[PointwiseLoss] = LogisticLoss()
    _mechanisms: ClassVar[dict[str, Mechanism]] = {
        one.name: one for one in (OutputPerturbation(), ObjectivePerturbation())
    }
    _guaranteed: ClassVar[str] = "objective"
    _released: ClassVar[type[ReleasedModel]] = ReleasedLogisticRegression
    _numeric_targets: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateLinearModel._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "classes": ["array-like", None],
        "mechanism": [StrOptions({"output", "objective"}), Mechanism, None],
    }

    classes: npt.ArrayLike | None = field(default=None, kw_only=True)
    mechanism: Literal["output", "objective"] | ObjectivePerturbation | None = field(
        default=None, kw_only=True
    )

    def _encode_targets(self, y: Array, records: Any, *, fitted: bool = False) -> FloatArray:
        if not fitted:
            self.classes_ = find_classes(y, self.classes, records, type(self).__name__)
        return encoded(y, self.classes_, records)

    def _check_mechanism(self, X: Any, persons: Any) -> None:
        super()._check_mechanism(X, persons)
        if self.mechanism is None and not self._mechanism.adds_to_minimizer:
            warnings.warn(
                f"Under {self.noise_scale!r} noise is now added to the objective, mostly with "
                "better predictions, and attacks on it are not known; before it was added "
                'to the minimizer. Pass `mechanism="objective"`, or `mechanism="output"` for the '
                "model as it was.",
                FutureWarning,
                stacklevel=outer_stacklevel(),
            )

    @property
    def _declares_classes(self) -> bool:
        return self.classes is not None

    @property
    def _n_predictors(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _provenance(self) -> dict[str, Any]:
        made = super()._provenance()
        return made if len(self.classes_) == 2 else made | {"loss": SoftmaxLoss.name}

    def _target_masses(self, y: FloatArray, sample_weight: FloatArray) -> FloatArray:
        masses = np.bincount(y.astype(np.intp), sample_weight, len(self.classes_))
        return masses.astype(np.float64)

    def _check_targets(self, masses: FloatArray) -> None:
        present = np.flatnonzero(masses > 0.0)
        if self.classes is not None:
            self._check_absent(present)
            return
        if len(present) < 2:
            raise ValueError(
                "Only one class has records of positive sample weight. PrivateLogisticRegression "
                "needs two classes."
            )
        if len(present) < len(self.classes_):
            absent = len(self.classes_) - len(present)
            raise ValueError(
                f"No record of positive sample weight has the labels of {absent} classes: "
                "their probability cannot be estimated. Drop the records of these classes, or "
                "give them weight."
            )

    def _check_absent(self, present: Array) -> None:
        """Raise where a declared class has no record and the minimizer would not be finite."""
        absent = len(self.classes_) - len(present)
        unpenalized = self.fit_intercept and self._mechanism.adds_to_minimizer
        if absent and (self.alpha == 0.0 or unpenalized):
            raise ValueError(
                f"{absent} of the {len(self.classes_)} declared classes have no record of positive "
                "weight: nothing but a penalty keeps their parameters finite, and the intercept "
                "has none. Use `alpha > 0` and `fit_intercept=False`."
            )

    def _shaped(self, parameters: FloatArray, size: int) -> "tuple[FloatArray, float | FloatArray]":
        rows = 1 if len(self.classes_) == 2 else len(self.classes_)
        intercept = parameters[size:] if len(parameters) > size else np.zeros(rows)
        return parameters[:size].reshape(rows, -1), intercept

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what takes two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.reweighting is None and self._is_isotropic
        return tags


class PrivatePoissonRegressor(CountRegressionMixin, PrivateLinearModel):
    """Poisson regression with log link and output perturbation that measures its leakage.

    Minimize, with ``a_i = x_i.w + b``,

        sum_i s_i omega_i (exp(a_i) - y_i a_i) / N + alpha / 2 ||w||^2

    with sample weights s_i of sum N and factors omega_i of a reweighting; measure by Fisher
    information what every record leaks ([FIL21]); and add Gaussian noise to all parameters. The
    Poisson loss has no bounded derivative, and so no differential-privacy guarantee: private SGD
    has one (`skleak.neural.PrivateSGDRegressor`). Only ``release()`` may be published. See the user
    guide, docs/theory/leakage.md.

    Parameters
    ----------
    noise_scale : float or NoiseGoal, default=0.01
        Standard deviation of the noise on each parameter, in its units, or a goal of
        `skleak.mechanisms`, which ``fit`` resolves to the smallest noise that reaches it (rounded
        up, or refused, where the goal reads the data). At 0 leakage is infinite.
    noise_covariance : str, array-like or NoiseKind, default="isotropic"
        Shape S of the noise ``N(0, noise_scale^2 S)``, ``tr S = p``: "isotropic"; a public (p, p)
        matrix, intercept last, or rule; or, from the data, "curvature", "minimax" or "least_mean"
        (the least mean squared loss of persons, by their whole weights, at a given rise of the
        objective; with equal weights and a private target that is "minimax"), whose leakage by the
        covariance is counted. Only "isotropic" goes with a reweighting.
    alpha : float, default=1e-2
        Penalty relative to the *mean* loss: scikit-learn's ``PoissonRegressor(alpha=alpha)``.
    fit_intercept : bool, default=True
        Fit an intercept, which is not penalized.
    private_target : bool, default=True
        Count the target as unknown to the attacker ([FIL21]); with False it is public ([DRA22]).
    reweighting : {"irfil", "total"}, IRFIL, EvenTotal or None, default=None
        Weight the records to even their leakage, either with these weights held fixed ([FIL21]
        algorithm 1) or in total. Neither makes it equal, and the largest loss may rise.
    data_norm : float, array-like of shape (n_features,), mapping or None, default=None
        Public upper bound on the Euclidean norm of a row of X; or on the size of each column, in
        order or by name, whose norm is then that of a row. What is beyond is an error.
    public : str or sequence of str, default=()
        Which of "n_samples" and "sample_weight" are public knowledge.
    max_iter : int, default=100
        Largest number of Newton steps of a fit.
    tol : float, default=1e-10
        Gradient norm at which a fit stops, or rounding noise where that is larger.
    random_state : None, int, RandomState or Generator, default=None
        None draws noise from the operating system's cryptographic randomness. All else can be
        replayed, and is for experiments: no guarantee holds, and a ledger enters infinity.
    ledger : str, Path, LeakageLedger or None, default=None
        A `skleak.accounting.LeakageLedger` or the path of an existing one. Each fit, also of a
        clone, charges every record its largest loss before noise is drawn, or is refused.
    ledger_dataset : str, default="default"
        Name of this data set in the ledger.
    verbose : int, default=0
        Above 0, progress bars under a reweighting.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features,), float
        Noisy parameters; an intercept of zero without one.
    coef_noise_scale_, intercept_noise_scale_ : ndarray, float or None
        Standard errors that the noise adds; None where they depend on the records.
    noise_scale_, noise_step_, noise_sampler_ : float, float, str
        Root mean square of the noise; step of its grid, a power of two; how it was drawn.
    fisher_information_loss_, diagonal_fisher_information_loss_ : ndarray of shape (n_samples,)
        Loss of each training record in 1 / (unit of the columns), and its root mean square over
        the unknowns ([DRA22] 7.1), each computed on first access. NaN if not converged; total
        under a reweighting. Confidential.
    conditional_fisher_information_loss_, sample_reweights_ : ndarray of shape (n_samples,)
        Under a reweighting: the loss if its factors omega were fixed ([FIL21] eq. 29), less than
        most records leak; and these factors, ``sum s omega = N``. Confidential.
    reweighting_history_, n_reweighting_iter_ : ndarray of shape (n_fits,), int
        Under a reweighting: relative spread of the balanced leakage at each fit; refits.
    n_iter_, n_features_in_, feature_names_in_ : int, int, ndarray of str
        Newton steps; number of columns, and their names where X has them.
    n_passes_ : int
        Passes over records that lie outside memory, of all that ``fit`` did.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = rng.poisson(np.exp(0.5 * X[:, 0] + 1.0))
    >>> model = PrivatePoissonRegressor(noise_scale=0.02, random_state=0).fit(X, y)
    >>> bool(abs(model.coef_[0] - 0.5) < 0.15)
    True
    """

    _loss: ClassVar[PointwiseLoss] = PoissonLoss()
    _released: ClassVar[type[ReleasedModel]] = ReleasedPoissonRegressor

    def _encode_targets(self, y: Array, records: Any, *, fitted: bool = False) -> FloatArray:
        y = np.array(y, dtype=np.float64).ravel()  # a copy: targets are kept
        negative = np.flatnonzero(y < 0.0)
        if len(negative):
            self._refuse_negative(len(negative), row_label(records, int(negative[0])))
        return y

    @staticmethod
    def _refuse_negative(count: int, label: str) -> None:
        raise ValueError(
            f"Counts must not be negative; got {count} negative targets, the first of "
            f"them in {label}. PrivatePoissonRegressor models "
            "counts: for other targets use PrivateLinearRegression."
        )

    def _check_targets(self, masses: FloatArray) -> None:
        if self.fit_intercept and masses[0] == 0.0:
            raise ValueError(
                "All counts with a positive weight are zero: the intercept has no finite "
                "minimizer. Pass at least one positive count, or set `fit_intercept=False`."
            )
