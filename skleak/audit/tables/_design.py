"""What the tables need to know of an audit besides the outcomes of its cells."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skleak.utils._typing import Array, FloatArray

# What is kept of a cell: a few small arrays by name.
Outcome = dict[str, Array]


def cell_key(noise_scale: float, name: str) -> str:
    """Key of a cell: a noise level, and an attack or what else is computed there."""
    return f"{noise_scale!r}|{name}"


def release_key(release: int) -> str:
    """Key of a cell in which a model is trained and released."""
    return f"release {release}"


@dataclass(frozen=True, kw_only=True)
class Design:
    """Plan of any game: who is attacked, by what, at which levels."""

    targets: Any  # positions of the records under attack, (n_targets,)
    attacks: Any  # names of the attacks, in the order of the tables
    noise_scales: tuple[float, ...]  # ascending
    bounds: tuple[str, ...]  # columns of bounds
    n_releases: int  # or games of each target
    drawn: bool  # whether secrets are drawn rather than actual
    # Of the intervals shown, and of those behind the verdicts.
    confidence_level: float
    verdict_level: float
    # Names of attacks that use what the prior of the bounds leaves out.
    incomparable: frozenset[str] = frozenset()
    n_fitted: int = 0  # games of each target in which a model is fitted; 0 where none is

    @property
    def games_each(self) -> int:
        """Games of each target, where each plays its own."""
        return self.n_fitted or self.n_releases


@dataclass(frozen=True, kw_only=True)
class SecretDesign(Design):
    """A game about a secret of every record: a column of it, or all."""

    etas: Mapping[float, FloatArray]  # Fisher information losses by noise level, (n_targets,)
    # Largest prior probability, or squared error of the mean of the others, (n_targets,).
    prior_score: FloatArray
    baseline: float  # success of the prior
    imputation: float  # success of imputation without the model
    spread: float  # variance of the numbers that are guessed; 1 for categories
    # Variance of the prior of every number, (n_targets,); None where there is no prior of one.
    prior_variance: FloatArray | None = None


@dataclass(frozen=True, kw_only=True)
class MembershipDesign(Design):
    """A game about who was trained on; `attacks` tells by name how each guesses."""

    attacks: Mapping[str, str]
    prior: float  # probability of membership
    max_advantage: float  # that is tolerated of a record
    # Of kinds of groups, the label of the group of each target, (n_targets,); None for none.
    parts: Mapping[str, Array] = field(default_factory=dict)
    classifies: bool = True  # whether labels are predicted
    # Known of drawn records alone: Gaussian differential privacy at each level, and how far the
    # parameters with and without each target are apart, (n_targets,).
    dp: tuple[float, ...] = ()
    distances: FloatArray | None = None

    @property
    def baseline(self) -> float:
        """Success of the prior alone."""
        return max(self.prior, 1.0 - self.prior)
