"""The noise at which no attacker gains more than stated on an attribute of few values."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from skleak.channels import GaussianChannel
from skleak.mechanisms._goals import MOST_VALUES, FittedProblem, MeasuredFit, NoiseGoal, Secret
from skleak.utils._blocks import Blocks
from skleak.utils._typing import FloatArray, IntArray

# Goals are met from the private side, by this relative margin in the noise.
_MARGIN = 1e-9


@dataclass
class MaxAdvantage(NoiseGoal):
    """No attacker gains more than ``advantage`` on an attribute of any record.

    For every record the Bayes-optimal attacker, who knows everything but the attribute and has
    the given prior, guesses it from the release with an advantage (success beyond the best blind
    guess, over what is left to gain, [FANO23] eq. 1) of at most this. The noise that this needs
    depends on the data. It is rounded up to a power of the square root of two, and ``fit`` raises
    where another value of the attribute in one record would have moved the rung. Other columns may
    move it, and the report counts records that could.

    Parameters
    ----------
    advantage : float in (0, 1)
        Largest advantage.
    attribute : str, int, or list
        Categorical column of the data the estimator sees, or the block of its one-hot columns, or
        "(target)", for labels. `calibrate` takes raw columns of a pipeline.
    prior : "worst", "marginal", "uniform" or array-like of shape (n_values,), default="worst"
        What the attacker knows beforehand. "worst" covers every attacker: for any prior the
        advantage is at most the total variation between the two values furthest apart,
        ``2 Phi(D / 2) - 1`` at distance D over the noise, and even odds on these two reach it.
        The others protect from one attacker only: who knows the frequencies in the training data,
        nothing, or a probability of each distinct value in ascending order. With "marginal" and a
        value that 1 % have, 0.05 leaves an advantage of 0.68 to who holds both for equally likely.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> X[:, 0] = X[:, 0] > 0
    >>> y = X @ [1.0, 2.0, 0.0] + rng.normal(size=200)
    >>> model = PrivateLinearRegression(MaxAdvantage(0.1, attribute=0)).fit(X, y)
    >>> bool(model.noise_scale_ > 0)
    True
    """

    advantage: float
    attribute: Any
    prior: "Literal['worst', 'marginal', 'uniform'] | Any" = "worst"

    @property
    def named_columns(self) -> Any:
        """Block of columns of the attribute."""
        return self.attribute

    def resolve(self, problem: MeasuredFit) -> float:
        """Smallest noise scale that reaches the goal.

        Parameters
        ----------
        problem : MeasuredFit
            The fit.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            For an advantage outside (0, 1), an attribute with fewer than two or too many
            values, or a prior that does not fit them.
        """
        if not 0.0 < self.advantage < 1.0:
            raise ValueError(
                f"`MaxAdvantage.advantage` must lie strictly between 0 and 1; got {self.advantage}."
            )
        values, counts = problem.attribute_values(self.attribute)
        if not 2 <= len(values) <= MOST_VALUES:
            raise ValueError(
                f"`MaxAdvantage.attribute` must be categorical, with 2 to {MOST_VALUES} distinct "
                f"values; {self.attribute!r} has {len(values)}. For a numeric attribute use "
                "`MaxLeakage(eta, features=...)`."
            )
        worst = isinstance(self.prior, str) and self.prior == "worst"
        prior = None if worst else self._prior(counts)
        encodings = problem.encodings(self.attribute, values)
        if prior is None:
            return _largest_distance(encodings) * (1.0 + _MARGIN) / self._worst_distance
        return _noise_for_advantage(encodings, prior, self.advantage)

    @property
    def _worst_distance(self) -> float:
        """Distance over noise at which the best attack on two values has the advantage."""
        return 2.0 * float(norm.ppf(0.5 * (1.0 + self.advantage)))

    def secrets(self, problem: FittedProblem) -> list[Secret]:
        """Return the attribute.

        Parameters
        ----------
        problem : FittedProblem
            The fit.

        Returns
        -------
        list of Secret
        """
        return [problem.block(self.attribute)]

    def brackets(
        self, problem: FittedProblem, secret: Secret
    ) -> tuple[FloatArray, FloatArray] | None:
        """Bracket the noise needed, had each record each value of a secret.

        With the marginal prior the counts change with the value.

        Parameters
        ----------
        problem : FittedProblem
            The fit.
        secret : Secret
            The attribute, or another entry.

        Returns
        -------
        low, high : ndarray of shape (n, n_values), or None
            Bounds; None where none are known.
        """
        attribute = problem.block(self.attribute)
        worst = isinstance(self.prior, str) and self.prior == "worst"
        if not worst and len(attribute.values) > 2:
            return None
        found = problem.distance_brackets(secret, attribute)
        if found is None:
            return None
        factor: Any = 1.0 / self._worst_distance
        if not worst:
            needed = self._noise_per_distance(problem.attribute_values(self.attribute)[1])
            if not secret.is_in(attribute):  # nobody's attribute changes
                needed = np.diag(needed)[:, None]
            own = problem.attribute_codes(attribute)
            factor = Blocks.of(own, width=2).map(_taken, needed)
        return found[0] * factor, found[1] * factor

    def _noise_per_distance(self, counts: FloatArray) -> FloatArray:
        """Noise needed for two values at distance one, had a record one instead of one, (2, 2)."""
        moved = counts + np.eye(2)[None, :, :] - np.eye(2)[:, None, :]  # from, to
        unit = np.array([[[0.0], [1.0]]])
        return np.array(
            [
                [_noise_for_advantage(unit, self._prior(after), self.advantage) for after in row]
                for row in moved
            ]
        )

    def _prior(self, counts: FloatArray) -> FloatArray:
        if isinstance(self.prior, str):
            if self.prior == "marginal":
                return counts / counts.sum()
            if self.prior == "uniform":
                return np.full(len(counts), 1.0 / len(counts))
            raise ValueError(
                "`MaxAdvantage.prior` must be 'worst', 'marginal', 'uniform' or one probability "
                f"per value; got {self.prior!r}."
            )
        prior = np.asarray(self.prior, dtype=float)
        if prior.shape != counts.shape or np.any(prior < 0.0) or abs(prior.sum() - 1.0) > 1e-9:
            raise ValueError(
                f"`MaxAdvantage.prior` must hold {len(counts)} probabilities that sum to 1, one "
                f"per distinct value; got {self.prior!r}."
            )
        return prior


def _taken(own: IntArray, needed: FloatArray) -> FloatArray:
    return needed[own]


def _largest_distance(encodings: FloatArray) -> float:
    """Largest distance between two values of one record, of encodings (n, n_values, p)."""
    gaps = (
        np.linalg.norm(encodings[:, m + 1 :] - encodings[:, m, None], axis=2)
        for m in range(encodings.shape[1] - 1)
    )
    return max(float(gap.max()) for gap in gaps)


def _advantages(encodings: FloatArray, prior: FloatArray, noise_scale: float) -> FloatArray:
    """Largest advantage of each record's channel that its numerical error allows."""
    channel = GaussianChannel(encodings, noise_scale)
    success, error = channel.bayes_success(prior, return_standard_error=True)
    best = prior.max()
    return (np.asarray(success) + 4.0 * np.asarray(error) - best) / (1.0 - best)


def _noise_for_advantage(encodings: FloatArray, prior: FloatArray, target: float) -> float:
    """Smallest noise at which no record's Bayes advantage exceeds the target.

    Advantage falls with noise. Solve for the record that is worst at the current noise; the noise
    only ever grows, and the loop ends when nobody exceeds the target.
    """
    centered = encodings - encodings.mean(axis=1, keepdims=True)
    reach = np.sqrt(np.einsum("nmp,nmp->nm", centered, centered).max(axis=1))
    if prior.max() == 1.0 or reach.max() == 0.0:
        return 0.0
    worst = int(reach.argmax())
    noise = 0.0
    for _ in range(len(encodings) + 1):
        one, scale = encodings[worst : worst + 1], np.log(reach[worst])

        def excess(log_noise: float, one: FloatArray = one) -> float:
            return float(_advantages(one, prior, np.exp(log_noise))[0]) - target

        low, high = scale - 5.0, scale + 5.0
        while excess(high) > 0.0:
            high += 5.0
        while excess(low) < 0.0:
            low -= 5.0
        noise = max(noise, np.exp(brentq(excess, low, high, xtol=1e-12)) * (1.0 + _MARGIN))
        advantages = _advantages(encodings, prior, noise)
        worst = int(advantages.argmax())
        if advantages[worst] <= target:
            return float(noise)
    return float(noise)
