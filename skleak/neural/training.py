"""What is decided before a run, from public numbers, and the run of private steps."""

import os
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize
from scipy.special import ndtr, ndtri

from skleak._released import TABLE
from skleak.accounting.discrete import discrete_gaussian_cover, discretized_epsilon
from skleak.accounting.subsampled import SubsampledGaussian
from skleak.mechanisms import EpsilonDelta, GaussianDP, NoiseGoal
from skleak.mechanisms.grids import dyadic_discrete_gaussian
from skleak.neural.gradients import Gradients, Part, SumGrid, make_clipping
from skleak.neural.guarantee import SGDGuarantee
from skleak.neural.information import Sampling, StepMechanism, Totals
from skleak.report.guarantee import Promises, undeclared
from skleak.utils._arguments import make_generator
from skleak.utils._confidential import CalibratedNoise
from skleak.utils._typing import Array, FloatArray, IntArray, RandomState

# What a guarantee is about, and what it takes for public.
ABOUT = f"replacement of one row of {TABLE}, whose number of rows and class labels are public"
# Noise multipliers are searched for in this range, to this precision, and rounded upward.
_SMALLEST, _LARGEST, _PRECISION = 1e-2, 1e6, 1e-3


def resolve_noise(
    goal: NoiseGoal, n_steps: int, rate: float, sampling: Sampling, delta: float
) -> float:
    """Smallest noise over the sensitivity that reaches a goal under replacement of one record.

    `EpsilonDelta` is met at its own delta. `GaussianDP` cannot be met exactly with the help of
    sampling: a record that happens to be in all batches is told by more than mu. It is met up to
    ``delta``: no test has a power above that of mu-GDP by more.
    """
    excess: Callable[[float], float]
    if isinstance(goal, EpsilonDelta):
        goal.check()
        epsilon, failure = goal.epsilon, goal.delta

        def excess(sigma: float) -> float:
            spent = SGDGuarantee(sigma, rate, n_steps, sampling, failure).epsilon
            return float(np.log(max(spent, 1e-9)) - np.log(epsilon))

    elif isinstance(goal, GaussianDP):
        goal.check()
        mu = goal.mu

        def excess(sigma: float) -> float:
            alpha, beta = SGDGuarantee(sigma, rate, n_steps, sampling).curve
            # Straight between its corners, above a convex curve if it is there.
            return float(np.max(ndtr(-ndtri(alpha) - mu) - beta)) - delta

    else:
        raise ValueError(
            f"`noise_multiplier` must be a number, EpsilonDelta or GaussianDP; got {goal!r}. Other "
            "goals need what is only known once a model is trained."
        )
    return _smallest(excess, repr(goal))


def affordable_steps(budget: float, guarantee: SGDGuarantee) -> int:
    """Count the steps that keep epsilon at or below a budget: a public rule, 0 for none.

    At most as many as the guarantee has.
    """
    # Small noise makes long distributions: never compose many more steps than are paid for.
    if _one_step_delta(guarantee, budget) > guarantee.delta:
        return 0

    def epsilon(n_steps: int) -> float:
        return replace(guarantee, n_steps=n_steps).epsilon

    low, high = 0, 1
    while epsilon(high) <= budget:
        if high == guarantee.n_steps:
            return high
        low, high = high, min(2 * high, guarantee.n_steps)
    return low + bisect_right(range(low + 1, high), budget, key=epsilon)


def _one_step_delta(guarantee: SGDGuarantee, epsilon: float) -> float:
    """Delta of one step between opposite gradients, from below: by thresholds of their sum."""
    sigma, rate = guarantee.noise_multiplier, guarantee.sampling_rate
    t = np.linspace(-10.0, 10.0 + 2.0 / sigma, 4001)
    shared = (1.0 - rate) * ndtr(-t)
    own, other = (shared + rate * ndtr(sign / sigma - t) for sign in (1.0, -1.0))
    # Below delta = exp(-700) nothing is decided here.
    return float(np.max(own - np.exp(min(epsilon, 700.0)) * other))


def _smallest(excess: Callable[[float], float], goal: str) -> float:
    """Smallest number whose excess over a goal, which falls, is none; rounded upward."""

    @cache
    def at(log_sigma: float) -> float:
        return excess(float(np.exp(log_sigma)))

    high = 0.0
    while at(high) > 0.0:
        high += np.log(2.0)
        if high > np.log(_LARGEST):
            raise ValueError(
                f"No `noise_multiplier` up to {_LARGEST:g} reaches {goal}. Ask for less, or take "
                "fewer steps or a smaller sampling rate."
            )
    low = high - np.log(2.0)
    while at(low) <= 0.0:
        low, high = low - np.log(2.0), low
        if low < np.log(_SMALLEST):
            return float(np.exp(high))
    found = optimize.brentq(at, low, high, xtol=_PRECISION)
    while at(found) > 0.0:
        found += _PRECISION
    return float(np.exp(found))


class Source:
    """Random numbers of a run, from a generator: whoever has its seed has the noise.

    Attributes
    ----------
    generator : numpy.random.Generator
        For what need not be secret: initial weights, probes, which steps are counted.
    """

    def __init__(self, generator: np.random.Generator) -> None:
        self._secret, self.generator = generator.spawn(2)

    def normal(self, size: int) -> FloatArray:
        """Return the standard normal numbers, (size,), in floating point."""
        return self._secret.normal(size=size)

    def integers(self, log2_scale: int, size: int) -> IntArray:
        """Return normal numbers of standard deviation ``2^log2_scale``, rounded, (size,)."""
        return np.rint(np.ldexp(self.normal(size), log2_scale)).astype(np.int64)

    def uniform(self, size: int) -> FloatArray:
        """Uniform numbers in [0, 1), (size,)."""
        return self._secret.random(size)

    def members(self, n: int, rate: float) -> IntArray:
        """Draw a batch to which each of n records belongs with probability ``rate``, sorted."""
        return np.flatnonzero(self.uniform(n) < rate)

    def subset(self, n: int, size: int) -> IntArray:
        """Draw a batch of a fixed size without replacement, sorted."""
        return np.sort(np.argpartition(self.uniform(n), size - 1)[:size])


class SecretSource(Source):
    """The cryptographic randomness of the operating system."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng()

    def normal(self, size: int) -> FloatArray:
        """By inversion, with a bit for the sign and 63 for the tail."""
        bits = _words(size)
        tail = ((bits >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
        signs = np.where(bits & np.uint64(1), 1.0, -1.0)
        return np.asarray(signs * ndtri(tail))

    def integers(self, log2_scale: int, size: int) -> IntArray:
        """Return discrete Gaussian numbers of that scale, drawn exactly, (size,)."""
        return dyadic_discrete_gaussian(log2_scale, size)

    def members(self, n: int, rate: float) -> IntArray:
        """Draw a batch, with a probability that is rounded down by at most 2^-64: more private."""
        limit = int(Fraction(rate) * 2**64)
        if limit == 2**64:
            return np.arange(n)
        return np.flatnonzero(_words(n) < np.uint64(limit))

    def subset(self, n: int, size: int) -> IntArray:
        """Draw a batch by the smallest of n words; again where two at its border are equal."""
        while True:
            words = _words(n)
            order = np.argpartition(words, [size - 1, min(size, n - 1)])
            chosen, next_word = order[:size], words[order[min(size, n - 1)]]
            if size == n or words[order[size - 1]] < next_word:
                return np.sort(chosen)


def _words(size: int) -> npt.NDArray[np.uint64]:
    """Random words of 64 bits of the operating system, (size,)."""
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


def make_sources(random_state: RandomState, n_runs: int) -> list[Source]:
    """One independent source for each run; from the operating system for None."""
    if random_state is None:
        return [SecretSource() for _ in range(n_runs)]
    return [Source(child) for child in make_generator(random_state).spawn(n_runs)]


# Numbers in the parameters of all steps that are kept: 256 MB.
_LONGEST_PATH = 1 << 25


@dataclass
class Training:
    """A run that can go on: parameters in ``gradients``, the last step, and the history.

    The sum of the clipped gradients is divided by the expected size of a batch, never by the
    realized one, which is a function of who takes part. ``path`` holds the parameters at each step
    where the information is cheap, for what is asked later; None where they are too many.
    ``grid`` is that of exact sums and noise; None where both are in floating point. ``observer``
    adds up what the steps reveal; None where nobody is followed.
    """

    gradients: Gradients
    mechanism: StepMechanism
    source: Source
    X: Any
    y: Array
    learning_rate: float
    momentum: float = 0.0
    grid: SumGrid | None = None
    observer: "Observer | None" = None
    velocity: FloatArray | None = None
    path: "list[FloatArray] | None" = field(default=None, init=False)
    losses: list[float] = field(default_factory=list)
    batch_sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Keep the path of models in closed form."""
        self.path = [] if self.gradients.closed_form else None

    def run(self, n_steps: int, notice: Callable[[float], Any] = float) -> None:
        """Take so many steps; ``notice`` is told the mean loss of each batch."""
        n = len(self.y)
        expected = self.mechanism.sampling_rate * n
        parameters = self.gradients.parameters
        velocity = np.zeros_like(parameters) if self.velocity is None else self.velocity
        for _ in range(n_steps):
            if self.mechanism.sampling == "poisson":
                members = self.source.members(n, self.mechanism.sampling_rate)
            else:
                members = self.source.subset(n, round(expected))
            if self.path is not None:
                self.path.append(parameters)
                if len(self.path) * len(parameters) > _LONGEST_PATH:
                    self.path = None
            total, losses = self._noisy_sum(members)
            velocity = self.momentum * velocity + total / expected
            parameters = parameters - self.learning_rate * velocity
            self.gradients.parameters = parameters
            self.losses.append(float(losses.mean()) if len(losses) else np.nan)
            self.batch_sizes.append(len(members))
            notice(self.losses[-1])
        self.velocity = velocity

    def _noisy_sum(self, members: IntArray) -> tuple[FloatArray, FloatArray]:
        """Noisy sum of the clipped gradients of a batch, (p,), and its losses.

        On a grid sum and noise are integers, and all that follows is a function of theirs.
        """
        grid, s = self.grid, self.mechanism.noise_scale
        if self.observer is not None:
            self.observer.step(members)
        total, losses = self.gradients.clipped_sum(self.X[members], self.y[members], grid)
        if grid is not None:
            noisy = total + self.source.integers(grid.log2_scale, len(total))
            return noisy.astype(np.float64) * grid.unit, losses
        if s > 0.0:
            total = total + s * self.source.normal(len(total))
        return total, losses

    def information(self, row: int, private_target: bool) -> FloatArray:
        """Fisher information about one record over all steps, (u, u), from the path."""
        if self.path is None:
            raise ValueError(
                "The parameters of all steps are needed, which are kept for the default module "
                "only, up to 256 MB. Ask for `norm='trace'`, or read `fisher_information_loss_`."
            )
        one = slice(row, row + 1)
        matrices = self.gradients.information_along(
            np.stack(self.path), self.X[one], self.y[one], self.mechanism.weigh, private_target
        )
        return np.asarray(self.mechanism.scale * matrices[0])

    @property
    def n_steps(self) -> int:
        """Steps taken so far."""
        return len(self.losses)

    def state(self) -> tuple[FloatArray, FloatArray | None, int]:
        """Return what `restore` goes back to: parameters, last change, number of steps."""
        return self.gradients.parameters, self.velocity, self.n_steps

    def restore(self, state: tuple[FloatArray, FloatArray | None, int]) -> None:
        """Undo the steps since a state."""
        self.gradients.parameters, self.velocity, n_steps = state
        for kept in (self.losses, self.batch_sizes, self.path or []):
            del kept[n_steps:]


@dataclass
class Observer:
    """Sees each step of a run, at the parameters that its gradients are taken at.

    Parameters
    ----------
    run : Training
        Whose generator draws probes, and which steps are counted.
    records : ndarray of int of shape (k,) or None
        Rows to follow at every counted step; None for the members of its batch.
    every : int, at least 1
        Which steps are counted: every so many, as many times.
    n_probes : int or None
        Probes for each record and step; None for exact traces.
    private_target : bool
        Whether the target is among the unknowns.
    """

    run: Training
    records: IntArray | None
    every: int = 1
    n_probes: int | None = None
    private_target: bool = True
    _n_steps: int = field(default=0, init=False)
    _n_counted: int = field(default=0, init=False)
    _n_drawn: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Draw the first step that counts, and take the records that are followed."""
        run, rows = self.run, self.records
        self._first = int(run.source.generator.integers(self.every))
        self._followed = (run.X, run.y) if self.follows_all else (run.X[rows], run.y[rows])
        cheap = run.gradients.has_cheap_norm
        self._parts: tuple[Part, ...] = ("trace", "plain", "norm") if cheap else ("trace", "plain")
        # The sum, that of the squares which its variance follows from, and the last term.
        zero = np.zeros(len(self._followed[1]))
        self._sums = {str(part): (zero.copy(), zero.copy()) for part in self._parts}
        self._last: dict[str, FloatArray] = {}

    @property
    def follows_all(self) -> bool:
        """Return True if something is known of every record."""
        return self.records is None or len(self.records) == len(self.run.y)

    def step(self, members: IntArray) -> None:
        """Note what a step at the current parameters reveals, whose batch these rows are."""
        counts = (self._n_steps - self._first) % self.every == 0
        self._n_steps += 1
        if not counts:
            return
        self._n_counted += 1
        run = self.run
        rows: IntArray | slice = slice(None)
        records = self._followed
        if self.records is None:
            rows, records = members, (run.X[members], run.y[members])
            self._n_drawn += len(members)
        found = run.gradients.information(
            *records,
            run.mechanism.weigh,
            parts=self._parts,
            n_probes=self.n_probes,
            rng=run.source.generator,
            private_target=self.private_target,
        )
        for part, values in found.items():
            total, squares = self._sums[part]
            total[rows] += values
            change = values if self.records is None else values - self._last.get(part, values)
            squares[rows] += change**2
            self._last[part] = values

    def totals(self) -> Totals:
        """Return what was added up so far."""
        rows, run = self.records, self.run
        # Followed records carry the factor q, members of batches do not.
        scale = run.mechanism.scale * self.every
        if rows is None:
            scale /= run.mechanism.sampling_rate
        return Totals(
            np.arange(len(run.y)) if rows is None else rows,
            run.gradients.n_unknowns(run.X, self.private_target),
            self._n_steps,
            1,
            self._is_plain_sum and rows is not None,
            {part: scale * total for part, (total, _) in self._sums.items()},
            {part: scale * np.sqrt(self._variance(s)) for part, (_, s) in self._sums.items()},
        )

    @property
    def _is_plain_sum(self) -> bool:
        """Return True if every step counts and nothing of it is estimated."""
        estimated = self.n_probes is not None and not self.run.gradients.closed_form
        return self.every == 1 and not estimated

    def _variance(self, squares: FloatArray) -> FloatArray:
        """Estimate the variance of a sum over counted steps, before it is scaled, (n,).

        Of memberships, ``sum x^2`` (Horvitz and Thompson, an upper estimate), with one more draw of
        the average kind, as who was never drawn has no zero leakage; of steps left out, and of
        probes, by successive differences.
        """
        m = self._n_counted
        if self.records is None:
            return squares + squares.sum() / max(1, self._n_drawn)
        if self._is_plain_sum:
            return np.zeros_like(squares)
        return m / (2.0 * (m - 1)) * squares if m > 1 else np.full_like(squares, np.inf if m else 0)


def observer_of(estimator: Any, run: Training) -> Observer | None:
    """Return what adds up a run; None where there is no Fisher information, or none is wanted."""
    wanted, n = estimator.account_records, len(run.y)
    if estimator.accounting is None or not run.gradients.clipping.smooth:
        return None
    if wanted is None:
        wanted = "all" if run.gradients.closed_form else "batch"
    named = {"all": np.arange(n), "batch": None}
    records = named[wanted] if isinstance(wanted, str) else _rows(wanted, n)
    if run.mechanism.noise_multiplier == 0.0:
        return None
    n_probes = int(estimator.n_probes) if estimator.accounting == "probes" else None
    every, private = int(estimator.account_every), bool(estimator.private_target)
    return Observer(run, records, every, n_probes, private)


def _rows(wanted: Any, n: int) -> IntArray:
    """Rows named by a mask or by their numbers, ascending."""
    rows, reason = np.asarray(wanted), ""
    try:
        found = np.arange(n)[rows]
        if rows.ndim == 1 and len(found):
            return np.unique(found)
    except IndexError as error:
        reason = f" ({error})"
    raise ValueError(
        "`account_records` must be 'all', 'batch', or a one-dimensional array of row numbers from "
        f"0 to {n - 1} or a mask of the {n} records; got {rows.dtype} of shape {rows.shape}"
        f"{reason}."
    )


@dataclass(frozen=True)
class Plan:
    """Plan of a training: everything in it is public.

    Attributes
    ----------
    mechanism : StepMechanism
        Clipping, sampling and noise of a step.
    learning_rate, momentum : float
        Step along the noisy mean gradient, and share of the step before.
    n_steps : int
        Steps that ``fit`` takes.
    is_limit : bool
        Whether more of them would break a goal or a budget.
    delta : float
        Failure probability of the guarantee.
    seeded : bool
        Whether the noise can be replayed, and protects nobody.
    goal : str or None
        The goal that the noise was found for.
    public : frozenset of str
        What was declared public.
    undeclared : tuple of str
        What a guarantee takes for public and was not declared, in words.
    grid : SumGrid or None
        What sums and noise of the default module are integers of; None for floating point.
    """

    mechanism: StepMechanism
    learning_rate: float
    momentum: float
    n_steps: int
    is_limit: bool
    delta: float
    seeded: bool
    goal: str | None
    public: frozenset[str]
    undeclared: tuple[str, ...]
    grid: SumGrid | None

    @classmethod
    def of(cls, estimator: Any, n_records: int) -> "Plan":
        """Decide for an estimator and a number of records."""
        clipping = make_clipping(estimator.clipping, float(estimator.max_grad_norm))
        rate, sampling = float(estimator.sampling_rate), estimator.sampling
        if sampling == "fixed":
            rate = max(1, round(rate * n_records)) / n_records
        n_steps, noise = int(estimator.max_steps), estimator.noise_multiplier
        delta = float(estimator.delta)
        if isinstance(noise, CalibratedNoise):
            raise ValueError(
                "`noise_multiplier` was read off records, and every number that this model states "
                "supposes that it is public. Pass a goal (GaussianDP, EpsilonDelta), a number "
                "chosen without looking at the records, or `float(noise_multiplier)` if those were "
                "public."
            )
        goal = repr(noise) if isinstance(noise, NoiseGoal) else None
        if isinstance(noise, NoiseGoal):
            sigma = resolve_noise(noise, n_steps, rate, sampling, delta)
            noise = sigma * clipping.sensitivity / clipping.max_grad_norm
        mechanism = StepMechanism(float(noise), clipping, sampling, rate)
        if estimator.epsilon_budget is not None:
            budget = float(estimator.epsilon_budget)
            sigma = mechanism.noise_multiplier
            paid = sigma > 0.0 and affordable_steps(budget, mechanism.guarantee(n_steps, delta))
            if not paid:
                raise ValueError(
                    f"`epsilon_budget={budget:g}` does not pay for a single step at "
                    f"`noise_multiplier={sigma:g}`, `sampling_rate={rate:g}` and "
                    f"`delta={delta:g}`. Raise the noise or the budget, or lower the rate."
                )
            n_steps = int(paid)
        public = frozenset(
            [estimator.public] if isinstance(estimator.public, str) else estimator.public
        )
        promises = Promises(public=public, declares_classes=estimator._declares_classes)
        return cls(
            mechanism,
            float(estimator.learning_rate),
            float(estimator.momentum),
            n_steps,
            goal is not None or estimator.epsilon_budget is not None,
            delta,
            estimator.random_state is not None,
            goal,
            public,
            tuple(undeclared(promises)),
            mechanism.grid(n_records) if estimator.module is None else None,
        )

    @property
    def obstacles(self) -> list[str]:
        """Why no guarantee of differential privacy holds; empty where one does."""
        reasons = list(self.undeclared)
        if self.mechanism.noise_multiplier == 0.0:
            reasons.append("no noise was added (`noise_multiplier=0`)")
        elif self.seeded:
            reasons.append(
                "the noise came from a seed or a generator (`random_state`), and can be drawn again"
            )
        return reasons

    def gaussian_mu(
        self, n_steps: int, n_parameters: int, mu_delta: float = 0.0
    ) -> tuple[float | None, float]:
        """Return mu of so many steps for a ledger, None without a guarantee, and its `mu_delta`.

        Up to a positive ``mu_delta`` it is that of the privacy loss distribution. Where that is
        larger, or not known, the guarantee holds everywhere, with a ``mu_delta`` of zero.

        Under replacement the two laws of a sum are mixtures over batches. Under Poisson sampling at
        a rate q up to 1/2 they can be paired so that the record is in one batch of each pair at
        most: (1 - 2q) N(m) against itself, q N(m + g) against N(m), q N(m) against N(m + g'), all
        the length of a gradient apart at most; else they are paired batch by batch, two lengths
        apart. That the pair is told can only help a test, and steps compose. No smaller rate helps
        everywhere: far out the record is in the batch of all steps, for all that is known.
        """
        m = self.mechanism
        if self.obstacles:
            return None, 0.0
        lengths = 1.0 if m.sampling == "poisson" and m.sampling_rate <= 0.5 else 2.0
        mu = lengths / m.effective_noise_multiplier
        step = None
        if self.grid is not None:
            step = 2.0**-self.grid.log2_scale
            mu = discrete_gaussian_cover(mu, n_parameters=n_parameters, relative_step=step)
        mu = float(np.sqrt(n_steps) * mu)
        if mu_delta > 0.0:
            with suppress(ImportError):
                described = m.effective_noise_multiplier, m.sampling_rate, n_steps
                steps = SubsampledGaussian(*described, "replace", m.sampling)
                smaller = steps.mu(mu_delta, n_parameters=n_parameters, relative_step=step)
                if smaller < mu:
                    return smaller, mu_delta
        return mu, 0.0

    @property
    def arithmetic(self) -> str:
        """Kind of noise and sums: "exact" integers, or floats that stand for "real numbers"."""
        return "real numbers" if self.grid is None else "exact"

    def guarantee(self, n_steps: int) -> SGDGuarantee | None:
        """Return the guarantee of so many steps in real numbers, whoever has the seed apart."""
        if self.mechanism.noise_multiplier == 0.0 or self.undeclared:
            return None
        return self.mechanism.guarantee(n_steps, self.delta)

    def privacy(self, n_steps: int, n_parameters: int) -> dict[str, Any]:
        """State the guarantee of so many steps under replacement of one record, or why none holds.

        Epsilon is at ``delta``, with what discrete noise adds to it, about 1e-20 a step; without
        dp-accounting a divergence alone is known.
        """
        reasons, guarantee = self.obstacles, self.guarantee(n_steps)
        known = dict.fromkeys(("epsilon", "renyi", "noise_multiplier"), np.nan)
        if guarantee is not None:
            known |= {"renyi": guarantee.renyi, "noise_multiplier": guarantee.noise_multiplier}
            try:
                known["epsilon"] = self._epsilon(guarantee, n_parameters)
            except ImportError as error:
                reasons.append(str(error))
        return {
            "holds": not reasons,
            "reasons": tuple(reasons),
            "about": ABOUT,
            "relation": "replace",
            "delta": self.delta,
            "sampling": self.mechanism.sampling,
            "sampling_rate": self.mechanism.sampling_rate,
            **known,
        }

    def _epsilon(self, guarantee: SGDGuarantee, n_parameters: int) -> float:
        if self.grid is None:
            return guarantee.epsilon
        return discretized_epsilon(
            lambda delta: replace(guarantee, delta=delta).epsilon,
            self.delta,
            n_parameters=n_parameters,
            n_steps=guarantee.n_steps,
            relative_step=2.0**-self.grid.log2_scale,
        )
