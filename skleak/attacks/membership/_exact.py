"""With a record or without it: the exact test between two Gaussian laws of the parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import (
    PublicModel,
    ReleaseKind,
    Releases,
    encoding_error,
    fit_public_model,
    read_releases,
    warn_of_mismatch,
)
from skleak.adversary.membership import removal_obstacle
from skleak.attacks.membership._base import check_rate
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.removal import removal_steps
from skleak.influence.state import FitState, alone_in_class
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.geometry._pairs import pair_success, true_positives


@dataclass(frozen=True)
class ExactTest:
    """Noiseless parameters with and without each target. Confidential."""

    own: FloatArray  # Parameters with all records, (n_parameters,)
    steps: FloatArray  # How far they move when a target is removed, (n_targets, n_parameters)
    noise_scale: float  # Noise of a release; NaN where it is calibrated to data
    kind: ReleaseKind  # What models the test is about
    weighted: bool = False  # True if the sample weights of the fit were given

    @property
    def encodings(self) -> FloatArray:
        """Parameters without and with each target, of shape (n_targets, 2, n_parameters)."""
        return np.stack([self.own + self.steps, np.broadcast_to(self.own, self.steps.shape)], 1)

    @property
    def distances(self) -> FloatArray:
        """Euclidean distance between the two, of shape (n_targets,)."""
        return np.linalg.norm(self.steps, axis=1)

    @property
    def _floor(self) -> float:
        return encoding_error(self.own)

    def read(self, released: Any, noise_scale: Any = None) -> Releases:
        """Releases in any form; see `read_releases`."""
        noise = noise_scale, self.noise_scale
        weighted = self.weighted
        return read_releases(released, len(self.own), *noise, kind=self.kind, weighted=weighted)

    def log_ratio(self, releases: Releases) -> FloatArray:
        """Log-likelihood with the record minus that without, of shape (n_releases, n_targets)."""
        # Measured from the minimiser: the difference of two squared norms would lose all digits.
        scores = (self.own - releases.parameters) @ self.steps.T + 0.5 * self.distances**2
        return scores / np.maximum(releases.noise_scale, self._floor)[:, None] ** 2

    def warn_of_mismatch(self, releases: Releases) -> None:
        """Warn where a release is no model with all records, or all but one of the targets."""
        known = releases.parameters, self.encodings, releases.noise_scale
        warn_of_mismatch(*known, self._floor)

    def separations(self, noise_scale: float | None) -> FloatArray:
        """``D``: distance of the encodings over the noise, of shape (n_targets,)."""
        stated = self.read(self.own, noise_scale).noise_scale[0]
        if stated > 0.0:
            return np.asarray(self.distances / stated)
        return np.where(self.distances > self._floor, np.inf, 0.0)

    def success(self, noise_scale: float | None, prior: float) -> FloatArray:
        """Probability that the likelier of the two is the true one, of shape (n_targets,)."""
        return pair_success(self.separations(noise_scale), prior)

    def power(self, rate: FloatArray, noise_scale: float | None) -> FloatArray:
        """``Phi(Phi^-1(a) + D)``, of shape (n_targets,) or (n_targets, k)."""
        gap = self.separations(noise_scale)
        return true_positives(gap[:, None] if rate.ndim else gap, rate)


class ExactRates:
    """Expected success of an attack that may hold an exact test."""

    method_: str
    _test: Any
    _prior: float

    def expected_score(self, noise_scale: float | None = None) -> FloatArray:
        """Exact probability that `predict` is right, for every target.

        Parameters
        ----------
        noise_scale : float or None, default=None
            Noise of the release; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_targets,)
            In [max(prior, 1 - prior), 1]: ``Phi(D / 2)`` at even odds.

        Raises
        ------
        AttackNotApplicableError
            With shadow models; `score` measures it.
        """
        return self._exact_test("score").success(noise_scale, self._prior)

    def expected_true_positive_rate(
        self, false_positive_rate: npt.ArrayLike, noise_scale: float | None = None
    ) -> FloatArray:
        """Receiver operating characteristic of the test on every target: exact.

        Parameters
        ----------
        false_positive_rate : float or array-like of shape (k,)
            Share of the releases without the record that are called with it, in [0, 1].
        noise_scale : float or None, default=None
            Noise of the release; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_targets,) or (n_targets, k)
            Largest share of the releases with the record that any test of that false positive
            rate finds, ``Phi(Phi^-1(a) + D)``.

        Raises
        ------
        AttackNotApplicableError
            With shadow models; `true_positive_rate` measures it.
        ValueError
            For a rate outside [0, 1].
        """
        test = self._exact_test("true_positive_rate")
        return test.power(check_rate(false_positive_rate), noise_scale)

    def _exact_test(self, measured: str) -> ExactTest:
        check_is_fitted(self, "classes_")
        if isinstance(self._test, ExactTest):
            return self._test
        raise AttackNotApplicableError(
            f"Nothing is known in closed form with method={self.method_!r}: measure it on "
            f"models of known members, with `{measured}`."
        )


def fit_exact_test(
    estimator: Any,
    table: Any,
    y: Array,
    targets: IntArray,
    sample_weight: FloatArray | None = None,
) -> ExactTest:
    """Compute what would have been released, without noise, with and without each target.

    Shapes: ``table`` (n, n_columns); ``y`` (n,); ``targets`` (n_targets,); ``sample_weight`` (n,).
    """
    weighted = sample_weight is not None
    model = fit_public_model(estimator, table, y, weighted=weighted)
    state = _training_state(model, table, y, sample_weight)
    own = state.factor.coefficients
    steps = removal_steps(state.objective, own, targets)
    lost = targets[np.isnan(steps).any(axis=1)]
    if len(lost):
        some = ", ".join(map(str, lost[:5].tolist())) + (", ..." if len(lost) > 5 else "")
        raise AttackNotApplicableError(
            f"Without some record ({len(lost)} of them: {some}) no unique minimiser of the "
            "training objective could be reached: what would have been released then is not "
            "defined. Pass an estimator with a larger `alpha`, or leave these records out of "
            "`records`."
        )
    alone = np.flatnonzero(alone_in_class(state, targets))
    if len(alone):
        raise AttackNotApplicableError(
            f"{len(alone)} of the `records`, the first at position {int(targets[alone[0]])}, are "
            "the only ones of their class, and the classes are read off the labels: a release "
            "tells of them without a test. Pass `classes`, or leave them out of `records`."
        )
    kind = ReleaseKind.of(model, table, y)
    return ExactTest(own, steps, model.noise_scale, kind, weighted)


def _training_state(
    model: PublicModel, table: Any, y: Any, sample_weight: FloatArray | None
) -> FitState:
    """Fit a model from which a record can be removed, without noise, on all records."""
    obstacle = removal_obstacle(model.template, y)
    if obstacle:
        raise AttackNotApplicableError(
            f"There is no exact test on the parameters of {type(model.template).__name__}: "
            f"{obstacle}. Pass a private estimator of skleak.linear_model, or a pipeline that ends "
            "in one, with `reweighting=None` and at most two classes (one against the others); or "
            "use method='online', which trains shadow models."
        )
    fitted = clone(model.template).fit(model.transform(table), y, sample_weight=sample_weight)
    state: FitState = fitted._confidential_state()
    return state
