"""What steps of private SGD tell of one record to whoever knows the others."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.neural.inversion._model import gradients_of, noise_scale_of
from skleak.utils._arguments import check_finite, check_scalar
from skleak.utils._random import make_generator
from skleak.utils._typing import FloatArray, RandomState


@dataclass(frozen=True, eq=False)
class GradientObservation:
    """Steps of private SGD, as an adversary sees them who knows all records but one.

    Attributes
    ----------
    parameters : ndarray of shape (n_steps, n_parameters)
        Parameters at which the gradients of each step were taken.
    signals : ndarray of shape (n_steps, n_parameters)
        Noisy sum of clipped gradients that each step released, less the clipped gradients of the
        members that the adversary knows: what is left is that of the record, where it took part,
        and noise.
    target : float or None
        Its target, in the form that the gradients take: a class number 0, 1, ... or a number. None
        where the adversary does not know it.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.neural import PrivateSGDClassifier, observe_gradients
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> options = {"max_steps": 9, "sampling_rate": 0.5, "random_state": 0}
    >>> model = PrivateSGDClassifier(noise_multiplier=1.0, **options).fit(X, y)
    >>> path = np.zeros((4, 4))  # parameters at four steps: weights and intercept
    >>> observe_gradients(model, [1.0, -2.0, 0.5], 1, path, random_state=0).signals.shape
    (4, 4)
    """

    parameters: FloatArray
    signals: FloatArray
    target: float | None = None

    def __post_init__(self) -> None:
        """Check the shapes."""
        for name in ("parameters", "signals"):
            values = np.atleast_2d(check_finite(name, getattr(self, name)))
            object.__setattr__(self, name, values)
        if self.parameters.shape != self.signals.shape or self.parameters.ndim != 2:
            raise ValueError(
                "`parameters` and `signals` must have the same shape (n_steps, n_parameters); got "
                f"{self.parameters.shape} and {self.signals.shape}."
            )


def observe_gradients(
    model: Any,
    record: npt.ArrayLike,
    target: Any,
    parameters: npt.ArrayLike,
    noise_scale: float | None = None,
    *,
    sampling_rate: float = 1.0,
    known_target: bool = True,
    random_state: RandomState = None,
) -> GradientObservation:
    """Play steps of private SGD on one record, and return what its adversary observes.

    Parameters
    ----------
    model : PrivateSGDClassifier, PrivateSGDRegressor or Gradients
        A fitted estimator, or model, loss and clipping. It is not changed.
    record : array-like of shape (n_features,)
        The record.
    target : int or float
        Its target: a class number 0, 1, ..., the position in ``classes_``, or a number.
    parameters : array-like of shape (n_steps, n_parameters) or (n_parameters,)
        Parameters before each step.
    noise_scale : float or None, default=None
        Standard deviation of the noise on the sum, noise multiplier times clipping norm; at least
        0. None is that of the estimator.
    sampling_rate : float, default=1.0
        Probability of the record to take part in a step, above 0.
    known_target : bool, default=True
        Whether the adversary knows the target.
    random_state : int, RandomState, Generator or None, default=None
        Draws the steps of which the record is a member, and the noise.

    Returns
    -------
    GradientObservation

    Raises
    ------
    ValueError
        For parameters that are not those of the model, a rate or a scale out of range, or a record
        with NaN or infinite entries.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.losses import LogisticLoss
    >>> from skleak.neural.gradients import LinearGradients, SmoothClipping
    >>> gradients = LinearGradients(LogisticLoss(), SmoothClipping(1.0), n_features=2)
    >>> observation = observe_gradients(gradients, [3.0, 4.0], 0, np.zeros(3), noise_scale=0.0)
    >>> (observation.signals / observation.signals[0, -1]).round(6)
    array([[3., 4., 1.]])
    """
    own = gradients_of(model)
    scale = check_scalar("noise_scale", noise_scale_of(model, noise_scale), finite=True)
    rate = check_scalar("sampling_rate", sampling_rate, low_open=True, high=1.0)
    X, y = np.atleast_2d(check_finite("record", record)), np.asarray([target])
    path = np.atleast_2d(check_finite("parameters", parameters))
    if path.shape[1:] != (own.n_parameters,):
        raise ValueError(
            f"`parameters` must have shape (n_steps, {own.n_parameters}); got {path.shape}."
        )
    rng = make_generator(random_state)
    member = rng.random(len(path)) < rate
    signals = scale * rng.standard_normal(path.shape)
    for step in np.flatnonzero(member):
        own.parameters = path[step]
        signals[step] += own.clipped_sum(X, y)[0]
    return GradientObservation(path, signals, float(target) if known_target else None)
