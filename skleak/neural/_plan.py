"""What is decided before a run, from public numbers."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.accounting.discrete import discrete_gaussian_cover, discretized_epsilon
from skleak.accounting.subsampled import subsampled_gaussian_mu
from skleak.mechanisms import NoiseGoal
from skleak.neural.gradients import Gradients, SumGrid, make_clipping
from skleak.neural.information import Accounting, StepMechanism
from skleak.neural.training import affordable_steps, resolve_noise
from skleak.report.guarantee import Promises, undeclared
from skleak.utils._confidential import CalibratedNoise
from skleak.utils._typing import IntArray


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
            n_steps = _within_budget(budget, mechanism, n_steps, delta)
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

    def epsilon(self, n_steps: int) -> float:
        """Epsilon at ``delta`` of so many steps, under replacement of one record."""
        if self.mechanism.noise_multiplier == 0.0:
            return float("inf")
        return self.mechanism.guarantee(n_steps, self.delta).epsilon

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
        if m.noise_multiplier == 0.0 or self.seeded or self.undeclared:
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
                steps = m.effective_noise_multiplier, m.sampling_rate, n_steps, mu_delta
                smaller = subsampled_gaussian_mu(
                    *steps,
                    relation="replace",
                    sampling=m.sampling,
                    n_parameters=n_parameters,
                    relative_step=step,
                )
                if smaller < mu:
                    return smaller, mu_delta
        return mu, 0.0

    @property
    def arithmetic(self) -> str:
        """What noise and sums are: "exact" integers, or floats that stand for "real numbers"."""
        return "real numbers" if self.grid is None else "exact"

    def stated_epsilon(self, n_steps: int, n_parameters: int) -> float:
        """Return that epsilon with what discrete noise adds to it, about 1e-20 a step."""
        if self.grid is None:
            return self.epsilon(n_steps)
        return discretized_epsilon(
            lambda delta: self.mechanism.guarantee(n_steps, delta).epsilon,
            self.delta,
            n_parameters=n_parameters,
            n_steps=n_steps,
            relative_step=2.0**-self.grid.log2_scale,
        )


def _within_budget(budget: float, mechanism: StepMechanism, n_steps: int, delta: float) -> int:
    steps = 0
    if mechanism.noise_multiplier > 0.0:
        steps = affordable_steps(budget, mechanism.guarantee(n_steps, delta))
    if steps == 0:
        raise ValueError(
            f"`epsilon_budget={budget:g}` does not pay for a single step at "
            f"`noise_multiplier={mechanism.noise_multiplier:g}`, `sampling_rate="
            f"{mechanism.sampling_rate:g}` and `delta={delta:g}`. Raise the noise or the budget, "
            "or lower the rate."
        )
    return steps


def accounting_of(estimator: Any, gradients: Gradients, n: int) -> Accounting | None:
    """Return what to add up; None where there is no Fisher information, or none is wanted."""
    if estimator.accounting is None or not gradients.clipping.smooth:
        return None
    wanted = estimator.account_records
    if wanted is None:
        wanted = "all" if gradients.closed_form else "batch"
    records: IntArray | None
    if isinstance(wanted, str):
        records = np.arange(n) if wanted == "all" else None
    else:
        records = _rows(wanted, n)
    return Accounting(
        records,
        int(estimator.account_every),
        ("trace", "plain", "norm") if gradients.has_cheap_norm else ("trace", "plain"),
        int(estimator.n_probes) if estimator.accounting == "probes" else None,
        bool(estimator.private_target),
    )


def _rows(wanted: Any, n: int) -> IntArray:
    """Rows named by a mask or by their numbers, ascending."""
    rows = np.asarray(wanted)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) == 0:
        raise ValueError(
            "`account_records` must be 'all', 'batch', or a one-dimensional array of row numbers "
            f"or a mask of the {n} records; got {rows.dtype} of shape {rows.shape}."
        )
    if rows.min() < -n or rows.max() >= n:
        raise ValueError(
            f"`account_records` must name rows from 0 to {n - 1}; got {rows.min()} to {rows.max()}."
        )
    return np.unique(rows % n)
