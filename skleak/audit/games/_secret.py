"""Games about a secret of every record, against noise on the parameters of a linear model."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from skleak.adversary.hypotheses import (
    PublicModel,
    adds_noise,
    fit_public_model,
    fit_shell,
    last_step,
    weight_argument,
)
from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    InformedReconstruction,
    PosteriorMeanReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit.games._bounds import check_bounds
from skleak.audit.games._fitted import ChangedRecords, FittedReleases, games_each
from skleak.audit.games._game import Cell, Facts, Task, fit_copy, named_attacks
from skleak.audit.games._levels import (
    FITS,
    GAMES,
    Releases,
    level_cells,
    noise_levels,
    noiseless_utility,
    reference_records,
    seed_of,
)
from skleak.audit.games._scale import asked_goal, scale_sentence
from skleak.audit.games._tabled import TabledGame
from skleak.audit.noise._mechanism import Trained, fitted_releases, noise_of_levels
from skleak.audit.tables._design import Outcome
from skleak.audit.tables._rows import over_noise
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.state import FitState, NoiseShape
from skleak.utils._typing import Array, FloatArray, IntArray

_NAMES = {
    PriorAttack: "prior",
    ImputationAttack: "imputation",
    WhiteBoxAttributeInference: "white_box",
    PosteriorMeanReconstruction: "posterior_mean",
    BlackBoxAttributeInference: "black_box",
    InformedAttributeInference: "informed",
    InformedReconstruction: "informed",
}
_BASELINES = (PriorAttack, ImputationAttack)


@dataclass(frozen=True, kw_only=True)
class SecretSubject(Trained):
    """A model as it is trained, what is secret of its records, and what is known of it."""

    public: PublicModel
    targets: IntArray  # positions of the records under attack, (n_targets,)
    secrets: Array  # true values, (n_targets,) or (n_targets, d)
    # Fisher information loss at unit noise, (n_targets,): NaN where it is not known, and where the
    # covariance of the noise follows the data: there it is no multiple of the noise, see `eta`.
    unit_eta: FloatArray
    baseline: float  # success of the prior
    imputation: float  # success of imputation without the model
    # Largest prior probability, or squared error of the mean of the others, (n_targets,).
    prior_score: FloatArray
    imputed: float = np.nan  # success of imputation with the secrets of the data
    # Columns that determine the secret, and those that it determines, with how well.
    related: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    spread: float = 1.0  # variance of the numbers that are guessed; 1 for categories
    goal: Any = None  # what makes the noise scale a function of the records
    uncounted: str = ""  # why no bound counts what it tells

    @property
    def prior_variance(self) -> FloatArray | None:
        """Variance of the prior of every number, (n_targets,); None without one."""
        return None

    def eta(self, noise_scale: float) -> FloatArray:
        """Fisher information loss at a noise scale, of shape (n_targets,); NaN if not known."""
        return over_noise(self.unit_eta, noise_scale)


class SecretGame(TabledGame):
    """A game that guesses values, or estimates numbers, from releases with noise of every level."""

    def __init__(
        self, task: Task, subject: SecretSubject, known: Sequence[str], default: Sequence[str]
    ) -> None:
        super().__init__(task)
        self._subject = subject
        self._chosen = named_attacks(
            task.attacks,
            lambda: default,
            known=sorted(known),
            names=_NAMES,
            kind=self.kind,
        )
        bounds = check_bounds(task.bounds, equal_noise=not subject.noise.reads_data)
        trained = (subject.model, subject.X, subject.y, subject.weights)
        scales = noise_levels(task.noise_scales, *trained)
        incomparable = frozenset(
            name for name, attack in self._chosen.items() if uses_more(attack, task)
        )
        self.design = self._designed(
            self._chosen,
            incomparable,
            scales,
            targets=subject.targets,
            bounds=() if self.estimates or subject.uncounted else bounds,
            n_releases=int(task.n_releases),
            n_fitted=self._n_fitted(),
            etas={scale: subject.eta(scale) for scale in scales},
            prior_score=subject.prior_score,
            baseline=subject.baseline,
            imputation=subject.imputation,
            spread=subject.spread,
            prior_variance=subject.prior_variance,
        )

    @abstractmethod
    def made(self, name: str) -> Any:
        """Return an attack of ours, fitted or not."""

    @abstractmethod
    def games(
        self, scale: float, noise: FloatArray | FittedReleases, seed: np.random.SeedSequence
    ) -> Mapping[str, Cell]:
        """Return the cells of one noise level: all attacks, and bounds where there are any.

        ``noise`` (p,) or (p, p), or the releases that the games are played with.
        """

    def drawn(self, targets: IntArray, generator: np.random.Generator) -> tuple[int, Array, Array]:
        """Draw secrets of targets: their column, what the games know of each, and its value."""
        raise NotImplementedError

    def prepare(self, entropy: list[int]) -> None:
        subject, task = self._subject, self.task
        self._entropy = entropy
        self.attacks = {name: self._fitted(name) for name in self._chosen}
        scales = self.design.noise_scales
        self._noise, self._checks = noise_of_levels(subject, scales, entropy, task.n_jobs)
        self._fits: dict[float, FittedReleases] = {}
        if task.fitted:
            positive = [(k, scale) for k, scale in enumerate(scales) if scale > 0.0]
            self._fits = {scale: self._fit_games(k, scale) for k, scale in positive}
        test = reference_records(task.X_test, task.y_test)
        self._where = (subject.X, subject.y)
        if test is not None:
            self._where = subject.public.transform(test[0]), test[1]

    def _n_fitted(self) -> int:
        """Return the games of each target with drawn secrets, where each takes a fit."""
        if not (self.task.fitted and self.task.drawn):
            return 0
        return games_each(len(self._subject.targets), int(self.task.n_releases))

    def _fit_games(self, k: int, scale: float) -> FittedReleases:
        """Fit and release once for each game of a noise level, on the records of that game."""
        subject, task, each = self._subject, self.task, self.design.n_fitted
        noise, secret = seed_of(self._entropy, k, FITS).spawn(2)
        whole = task.refit_preprocessing
        n_games, data = task.n_releases, None
        targets, secrets = np.empty(0, dtype=np.intp), np.empty(0)
        if task.drawn:
            targets = np.tile(np.arange(len(subject.targets)), each)
            index, secrets, values = self.drawn(targets, np.random.default_rng(secret))
            public = None if whole else subject.public
            rows = subject.targets[targets]
            data = ChangedRecords(task.table, task.y, index, rows, values, public)
            n_games = len(targets)
        same = (task.table, task.y) if whole else (subject.X, subject.y)
        parameters = fitted_releases(
            f"fits at noise scale {scale:g}",
            task.estimator if whole else subject.model,
            (lambda _: same) if data is None else data,
            scale,
            noise.generate_state(n_games).astype(np.int64),
            len(subject.noiseless),
            subject.weights,
            n_jobs=task.n_jobs,
        )
        return FittedReleases(parameters, targets, secrets)

    def _fitted(self, name: str) -> Any:
        attack, subject, task = self._chosen[name], self._subject, self.task
        if not isinstance(attack, str):
            _check_covariance(name, attack, subject)
        else:
            attack = self.made(attack)
            # The encodings of the white box are those of the bounds, and were computed with them.
            if hasattr(attack, "records_"):
                return attack
        return fit_copy(attack, task.table, task.y, sample_weight=subject.weights)

    def cells(self) -> dict[str, Cell]:
        """All attacks, the bounds and the utility at every noise level."""
        subject = self._subject
        X, y = self._where
        labels = subject.y
        if is_classifier(subject.model):
            # Classes by number: strings take long to compare.
            _, codes = np.unique(np.concatenate([labels, y]), return_inverse=True)
            labels, y = codes[: len(labels)], codes[len(labels) :]
        shell = fit_shell(subject.public, subject.X, labels, subject.weights)
        releases = Releases(shell, subject.noiseless, self._noise, (X, y))

        def games(k: int, scale: float, noise: FloatArray) -> Mapping[str, Cell]:
            played = self._fits.get(scale, noise)
            return self.games(scale, played, seed_of(self._entropy, k, GAMES))

        return level_cells(self.design, releases, self._entropy, games)

    def facts(self, outcomes: Mapping[str, Outcome]) -> Facts:
        return Facts(
            **(self.shared_facts() | dict(self._subject.related)),
            values=getattr(self._subject, "values", np.empty(0)).tolist(),
            bounds=self._error_bounds() if self.estimates else self.design.bounds,
            utility_data="training records" if self.task.X_test is None else "test records",
            noiseless_utility=noiseless_utility(outcomes),
            noise_covariance=self._subject.noise.name,
            imputed=self._subject.imputed,
            target_counts=self._guesses_target(),
            has_noise=adds_noise(self._subject.model),
            outputs=self._outputs(),
            scale=scale_sentence(
                self._subject.goal, self._subject.uncounted, asked=asked_goal(self.task)
            ),
            uncounted=self._subject.uncounted,
            releases="fitted" if self._fits else "simulated",
            n_fitted=self.design.n_fitted,
        )

    def _error_bounds(self) -> tuple[str, ...]:
        """Columns of lower bounds on errors."""
        with_prior = () if self.design.prior_variance is None else ("bayes_mse", "van_trees")
        return (*with_prior, "cramer_rao")

    def _outputs(self) -> Mapping[str, str]:
        """Say what of a release each attack is shown; nothing where all are shown all."""
        return {}

    def _guesses_target(self) -> bool:
        """Return True if an attack on whole records reconstructs the targets of the model too."""
        return False


def uses_more(attack: Any, task: Task) -> bool:
    """Return True if an attack uses what the prior of the bounds leaves out.

    A baseline does not look at the model: where its knowledge is not that of the bounds, it is
    nothing that they are about. A black box compares answers about all records with their targets
    (and its guesses of a number with those of others): of secrets as they are, that tells what the
    other columns do, even where noise hides all of the model.
    """
    if isinstance(task.prior, str) and task.prior == "conditional":
        return False
    named, own = isinstance(attack, str), getattr(attack, "prior", None)
    if attack in ("prior", "imputation") if named else isinstance(attack, _BASELINES):
        return True
    black_box = BlackBoxAttributeInference
    asks = attack.startswith("black_box") if named else isinstance(attack, black_box)
    return not task.drawn and (asks or (isinstance(own, str) and own == "conditional"))


def _check_covariance(name: str, attack: Any, subject: SecretSubject) -> None:
    """Refuse an attack that supposes noise of another covariance than the games have."""
    estimator = getattr(attack, "estimator", None)
    if estimator is None or isinstance(attack, BlackBoxAttributeInference):  # predictions only
        return
    p, own = len(subject.noiseless), subject.noise
    supposed = NoiseShape.of(getattr(last_step(estimator), "noise_covariance", "isotropic"), p)
    if supposed.reads_data or own.reads_data:
        # A function of the data: the matrices differ wherever the attack makes a hypothesis.
        same = supposed.name == own.name
    else:
        supposed_matrix, matrix = (
            np.eye(p) if shape.matrix is None else shape.matrix for shape in (supposed, own)
        )
        same = np.allclose(supposed_matrix, matrix)
    if not same:
        raise AttackNotApplicableError(
            f"The attack {name!r} supposes noise of another covariance than that of the estimator "
            "under audit. Give its estimator the same `noise_covariance`."
        )


def fit_quietly(task: Task) -> tuple[PublicModel, Any, Any]:
    """Training as the adversary knows it, the preprocessed records, and the model without noise."""
    public = fit_public_model(task.estimator, task.table, task.y, any_covariance=True)
    X = public.transform(task.table)
    weights = weight_argument(public.template, task.sample_weight)
    return public, X, clone(public.template).fit(X, task.y, **weights)


def unit_state(fitted: Any, noise: NoiseShape | None = None) -> FitState:
    """State of a fit without noise, as if it had noise of scale 1 and of that shape."""
    state: FitState = fitted._confidential_state()
    state = state.at_noise(1.0)
    return state if noise is None else replace(state, noise=noise)


def determination(squared_errors: FloatArray, spread: float) -> float:
    """Coefficient of determination of guesses; NaN where there is nothing to tell apart."""
    return 1.0 - float(np.mean(squared_errors)) / spread if spread > 0.0 else float("nan")
