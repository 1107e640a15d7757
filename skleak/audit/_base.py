"""What the auditors share: the parameters that both have, their input, and the plot."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import check_private, check_weights, check_weights_known
from skleak.adversary.knowledge import as_table, column_names
from skleak.audit.games._game import Game
from skleak.audit.games._game import Task as GameTask
from skleak.audit.games._outside import Outside
from skleak.audit.report._build import build_report, fingerprint, identity
from skleak.audit.report._labels import with_labels
from skleak.audit.run._checkpoint import Checkpoint, stored_entropy
from skleak.audit.run._parts import kept_parts
from skleak.audit.run._run import Run
from skleak.utils._confidential import ConfidentialMixin, without_ledger
from skleak.utils._random import make_generator
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import (
    CallbackSupportMixin,
    HasMethods,
    Interval,
    RawTableMixin,
    StrOptions,
    Task,
    fit_context,
    fit_task,
    kept_for_teardown,
)
from skleak.utils._typing import Array, RandomState
from skleak.utils.sources import is_large_source

_FITTED = ("results_", "records_", "report_", "partial_results_", "feature_names_in_")


class BaseAuditor(ConfidentialMixin, RawTableMixin, CallbackSupportMixin, BaseEstimator):
    """Check input, play the games of a subclass, and plot its report.

    A subclass has the parameters below and its own, and says in `_game` what is played. Nothing
    else writes fitted attributes.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "get_params"])],
        "attacks": [str, dict, list, tuple, HasMethods(["fit", "predict"])],
        "noise_scales": ["array-like", Interval(Real, 0, None, closed="left"), None],
        "n_releases": [Interval(Integral, 1, None, closed="left")],
        "secrets": [StrOptions({"actual", "drawn"})],
        "max_advantage": [Interval(Real, 0, 1, closed="both")],
        "confidence_level": [Interval(Real, 0, 1, closed="neither")],
        "bounds": [str, "array-like"],
        "records": ["array-like", slice, None],
        "refit_preprocessing": ["boolean"],
        "checkpoint": [str, PathLike, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        estimator: Any,
        attacks: Any,
        noise_scales: Any,
        n_releases: int,
        secrets: str,
        prior: Any,
        max_advantage: float,
        confidence_level: float,
        bounds: Any,
        records: Any,
        refit_preprocessing: bool,
        checkpoint: "str | PathLike[str] | None",
        n_jobs: int | None,
        verbose: int,
        random_state: RandomState,
    ) -> None:
        self.estimator = estimator
        self.attacks = attacks
        self.noise_scales = noise_scales
        self.n_releases = n_releases
        self.secrets = secrets
        self.prior = prior
        self.max_advantage = max_advantage
        self.confidence_level = confidence_level
        self.bounds = bounds
        self.records = records
        self.refit_preprocessing = refit_preprocessing
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    # Nested parameters are validated by the estimators themselves.
    @fit_context(prefer_skip_nested_validation=False)
    @withholding
    def fit(
        self,
        X: Any,
        y: Any,
        X_test: Any = None,
        y_test: Any = None,
        *,
        sample_weight: Any = None,
    ) -> Self:
        """Play all attacks at all noise levels, and compute their bounds.

        Parameters
        ----------
        X : array-like, DataFrame, path, Polars lazy frame, Dask array or frame
            Raw training records, (n, n_columns). Outside memory (a path is that of a Parquet file
            or a folder of them) a column is audited by `LeakageAuditor`, block by block.
        y : array-like of shape (n,) or str
            Targets of the model; the name of a column of a table outside memory.
        X_test, y_test : array-like, default=None
            Raw records that no model is trained on, and their targets. Utility is measured on
            them, and a membership audit takes them as reference records. By default utility is that
            of the training records, where it is optimistic; a membership audit holds some out.
        sample_weight : array-like of shape (n,) or str, default=None
            Weights of the training records in every fit, which attackers know; in a pipeline they
            go to its last step. A name likewise. What is secret of a row, or its membership, counts
            with all of its weight. Rows are persons: shares of right guesses, priors and utility
            count rows.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            For test records outside memory, and for `y` or weights there where `X` is not.
        ValueError
            For an unknown or single-valued attribute, missing values in it, too many values, too
            few candidates, unknown attacks or bounds, wrong noise scales, or a checkpoint of
            another audit; for invalid weights, and for an estimator that was fitted with weights
            where none are given.
        AttackNotApplicableError
            For records outside memory where the game needs all of them in memory; for a model that
            the attacks or the bounds cannot be computed for; with weights also
            for an estimator or an attack whose ``fit`` takes none.

        Warns
        -----
        IncompleteAuditWarning
            Where the audit was interrupted or an attack failed: what is finished is in
            ``partial_results_``. The error is raised after that, and leaves the other results of
            an earlier ``fit`` as they were.
        CheckpointWarning
            Where the checkpoint cannot be written; the audit goes on without it.
        PrivacyLeakWarning
            Where the estimator does not add the noise that it states.
        """
        before = self.__dict__.copy()
        try:
            _check_in_memory(X_test=X_test, y_test=y_test)
            given = self._given(X, y, sample_weight) | {"X_test": X_test, "y_test": y_test}
            with fit_task(self, 2) as task:
                self._audit(given, task)
        except BaseException:
            # The audit before, if there was one, stays whole beside what is finished of this one.
            finished = {n: v for n, v in self.__dict__.items() if n == "partial_results_"}
            finished |= kept_for_teardown(self)
            self.__dict__.clear()
            self.__dict__.update(before | finished)
            raise
        return self

    def _given(self, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
        """Return the checked records as fields of a task, wherever they lie."""
        if is_large_source(X):
            self._forget()
            self._check_targets(y)
            outside = self._outside(X, y, sample_weight)
            self._remember(outside.n_columns, outside.columns)
            return {"table": None, "y": np.empty(0), "outside": outside}
        _check_in_memory(y=y, sample_weight=sample_weight)
        self._forget()
        table = as_table(X)
        self._check_targets(y)
        y = column_or_1d(y)
        check_consistent_length(table, y)
        self._remember(table.shape[1], column_names(table))
        weights = check_weights(sample_weight, table)
        check_weights_known(self.estimator, weighted=weights is not None)
        return {"table": table, "y": y, "sample_weight": weights}

    def _audit(self, data: Mapping[str, Any], progress: Task) -> None:
        """Play the game of the parameters, and set the fitted attributes."""
        check_private(self.estimator, "auditor")
        asked = {field.name for field in fields(GameTask)} & set(self.get_params(deep=False))
        parameters = {name: getattr(self, name) for name in asked}
        parameters |= {**data, "estimator": without_ledger(self.estimator)}
        entropy = None if self.checkpoint is None else stored_entropy(self.checkpoint)
        if entropy is None:
            entropy = make_generator(self.random_state).integers(0, 2**32, size=4).tolist()
        task = GameTask(**parameters)
        store = None
        if self.checkpoint is not None:
            store = Checkpoint(self.checkpoint, {}, identity(self, task))
        with progress.part("game"), kept_parts(store, entropy, verbose=self.verbose):
            game = self._game(task, entropy)
            if store is not None:
                store.fingerprint = fingerprint(self, game)
            run = Run(game, store, entropy)
        try:
            run.play(n_jobs=self.n_jobs, verbose=self.verbose, task=progress)
        finally:
            self.partial_results_ = game.results(run.outcomes)
        self.attacks_ = game.attacks
        self.results_ = self.partial_results_
        self.records_ = with_labels(game.records(run.outcomes), data["table"])
        self.report_ = build_report(self, game, run.outcomes, run.entropy)

    @abstractmethod
    def _game(self, task: GameTask, entropy: list[int]) -> Game:
        """Return the game that is played; the seeds of the audit come from the entropy."""

    @abstractmethod
    def _outside(self, X: Any, y: Any, sample_weight: Any) -> Outside:
        """Look at records outside memory, or say why they cannot be audited there."""

    def plot(self, ax: Any = None) -> Any:
        """Plot advantage against noise, with all bounds, and utility beside it.

        Parameters
        ----------
        ax : matplotlib Axes or pair of them, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        AuditDisplay

        Raises
        ------
        ImportError
            Without matplotlib, the extra ``plot``.
        """
        check_is_fitted(self, "report_")
        return self.report_.plot(ax=ax)

    def _forget(self) -> None:
        """Forget an earlier fit, and check what is audited."""
        for name in _FITTED:
            self.__dict__.pop(name, None)
        if isinstance(self.estimator, type):
            name = self.estimator.__name__
            raise TypeError(
                f"`estimator` must be an estimator; got the class {name}. Pass {name}()."
            )

    def _check_targets(self, y: Any) -> None:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} needs `y`, the targets that the model is trained on. Pass "
                "`fit(X, y)`."
            )

    def _remember(self, n_columns: int, names: Array | None) -> None:
        """Set what is known of the columns."""
        self.n_features_in_ = n_columns
        if names is not None:
            self.feature_names_in_ = names


def _check_in_memory(**given: Any) -> None:
    """Raise for what an audit would have to load as a whole, without a word."""
    for name, values in given.items():
        if is_large_source(values):
            raise TypeError(
                f"`{name}` of this audit must be in memory; got {type(values).__name__}. Pass "
                "arrays or a DataFrame: of test records a random sample, some thousands of rows."
            )
