"""The auditors: of a column or of whole records, and of membership."""

import platform
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skleak._version import __version__
from skleak.adversary.hypotheses import (
    adds_noise,
    check_private,
    check_weights,
    check_weights_known,
    last_step,
    needs_goal,
)
from skleak.adversary.knowledge import (
    as_table,
    column_names,
    raw_column,
    store_parameters,
    without_attribute,
)
from skleak.audit._run import Checkpoint, data_digest, fingerprint, play
from skleak.audit.games._game import Game, Outside, Task
from skleak.audit.games._levels import is_private_sgd, leveled
from skleak.audit.games._secret import RecordsGame
from skleak.audit.games.attribute._game import OutsideGame, attribute_game
from skleak.audit.games.membership._game import membership_game
from skleak.audit.tables._rates import Outcome
from skleak.exceptions import AttackNotApplicableError
from skleak.mechanisms import NoiseGoal
from skleak.mechanisms.grids import as_reweighting
from skleak.report import AuditReport
from skleak.utils._arguments import make_generator
from skleak.utils._blocks import is_large_source
from skleak.utils._confidential import ConfidentialMixin, without_ledger
from skleak.utils._predictions import classifies
from skleak.utils._records import (
    Persons,
    flat_labels,
    is_target,
    named,
    repeated_rows,
    resolve_features,
    row_labels,
    withholding,
)
from skleak.utils._sklearn_compat import (
    BaseSearchCV,
    CallbackSupportMixin,
    HasMethods,
    Interval,
    RawTableMixin,
    StrOptions,
    fit_context,
    fit_task,
    leaves_whole,
)
from skleak.utils._typing import Array, RandomState

_FITTED = ("results_", "records_", "report_", "partial_results_", "feature_names_in_")


class BaseAuditor(ConfidentialMixin, RawTableMixin, CallbackSupportMixin, BaseEstimator):
    """Check input, play the games of a subclass, and plot its report.

    A subclass has the parameters below and its own, and says in `_game` what is played. Nothing
    else writes fitted attributes.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "get_params"])],
        "attacks": [str, dict, list, tuple, HasMethods(["fit", "predict"])],
        "noise_scales": ["array-like", Interval(Real, 0, None, closed="left"), NoiseGoal, None],
        "n_releases": [Interval(Integral, 1, None, closed="left")],
        "max_advantage": [Interval(Real, 0, 1, closed="both")],
        "confidence_level": [Interval(Real, 0, 1, closed="neither")],
        "bounds": [str, "array-like"],
        "records": ["array-like", slice, None],
        "refit_preprocessing": ["boolean"],
        "checkpoint": [str, PathLike, None],
        "persons": [str, Integral, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    # Nested parameters are validated by the estimators themselves.
    @fit_context(prefer_skip_nested_validation=False)
    @withholding
    @leaves_whole
    def fit(
        self,
        X: Any,
        y: Any,
        X_test: Any = None,
        y_test: Any = None,
        *,
        sample_weight: Any = None,
        persons: Any = None,
    ) -> Self:
        """Play all attacks at all noise levels, and compute their bounds.

        Parameters
        ----------
        X : array-like, DataFrame, path, Polars lazy frame, Dask array or frame
            Raw training records, (n, n_columns). Outside memory (a path is that of a Parquet file
            or a folder of them) a column is audited by `LeakageAuditor`.
        y : array-like of shape (n,) or str
            Targets of the model; the name of a column of a table outside memory.
        X_test, y_test : array-like, default=None
            Raw records that no model is trained on, and their targets. Utility is measured on
            them, and a membership audit takes them as reference records. By default utility is that
            of the training records, where it is optimistic; a membership audit holds some out.
        sample_weight : array-like of shape (n,) or str, default=None
            Weights of the training records in every fit, which attackers know; in a pipeline they
            go to its last step. A name likewise. What is secret of a row, or its membership, counts
            with all of its weight. Shares of right guesses and priors count persons, and utility
            rows, whatever they weigh.
        persons : array-like of shape (n,), default=None
            Whose row each is; a Series is read by the index of X. A person changes, or leaves, with
            all rows together, exactly, and results are about persons: the attribute is one value
            that all rows of a person carry, and priors and imputation are read off first rows. By
            default, and without a column of that name in `persons`, each row is a person.

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
            where none are given; for persons that are missing, of another length, or given twice.
        AttackNotApplicableError
            For records outside memory where the game needs all of them in memory; for a model that
            the attacks or the bounds cannot be computed for; with weights also
            for an estimator or an attack whose ``fit`` takes none; with persons of several rows for
            an attribute that is a number or differs within one, whole records, private SGD, records
            outside memory and attacks that are passed.

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
        _check_in_memory(X_test=X_test, y_test=y_test)
        given = self._given(X, y, sample_weight) | {"X_test": X_test, "y_test": y_test}
        given |= self._persons(given, persons)
        with fit_task(self, 2) as progress:
            check_private(self.estimator, "auditor")
            own, names = self.get_params(deep=False), {field.name for field in fields(Task)}
            known = {name: value for name, value in own.items() if name in names} | given
            task = Task(**known | {"estimator": without_ledger(self.estimator)})
            entropy = make_generator(self.random_state).integers(0, 2**32, size=4).tolist()
            mark = {} if self.checkpoint is None else fingerprint(self, task)
            store = Checkpoint(self.checkpoint, entropy, mark)
            with progress.part("game"), store.watching(verbose=self.verbose):
                game = self._game(task, store.entropy)
                game.prepare(store.entropy)
            try:
                play(game, store, n_jobs=self.n_jobs, verbose=self.verbose, task=progress)
            finally:
                self.partial_results_ = game.results(store.cells)
            self.attacks_ = game.attacks
            self.results_ = self.partial_results_
            self.records_ = with_labels(game.records(store.cells), task.table, task.persons)
            self.report_ = build_report(self, game, store.cells, store.entropy)
        return self

    def _given(self, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
        """Forget an earlier fit, and return the checked records as fields of a task."""
        in_memory = not is_large_source(X)
        if in_memory:
            _check_in_memory(y=y, sample_weight=sample_weight)
        for name in _FITTED:
            self.__dict__.pop(name, None)
        if isinstance(self.estimator, type):
            name = self.estimator.__name__
            raise TypeError(
                f"`estimator` must be an estimator; got the class {name}. Pass {name}()."
            )
        model = last_step(self.estimator)
        if needs_goal(model) and not hasattr(model, "predict"):
            raise AttackNotApplicableError(
                f"{type(model).__name__} releases sums, and answers nothing: what they tell of a "
                "record is known exactly, as its `leakage_` and `distance`. Audit "
                "PrivateLinearRegression with `mechanism='moments'`."
            )
        if y is None:
            raise ValueError(
                f"{type(self).__name__} needs `y`, the targets that the model is trained on. Pass "
                "`fit(X, y)`."
            )
        if in_memory:
            table, y = as_table(X), column_or_1d(y)
            check_consistent_length(table, y)
            self.n_features_in_, names = table.shape[1], column_names(table)
            weights = check_weights(sample_weight, table)
            check_weights_known(self.estimator, weighted=weights is not None)
            given = {"table": table, "y": y, "sample_weight": weights}
        else:
            outside = self._outside(X, y, sample_weight)
            self.n_features_in_, names = outside.n_columns, outside.columns
            given = {"table": None, "y": np.empty(0), "outside": outside}
        if names is not None:
            self.feature_names_in_ = names
        return given

    def _persons(self, given: Mapping[str, Any], persons: Any) -> dict[str, Any]:
        """Return whose rows are whose, and what of a task is without a column that tells it."""
        table, column = given["table"], self.persons
        if persons is None and column is None:
            return {}
        if table is None:
            raise AttackNotApplicableError(
                "Rows outside memory are audited one by one. Pass a random sample of persons, with "
                "all of their rows, as a DataFrame, or leave `persons` out to count rows."
            )
        if column is None:
            return {"persons": Persons.of(persons, len(given["y"]), named(row_labels(table)))}
        if persons is not None:
            raise ValueError(
                f"`persons` were passed to `fit`, and {column!r} to the auditor. Leave one out."
            )
        names, n_columns = column_names(table), table.shape[1]
        place = int(resolve_features(column, names, n_columns, "persons")[0])
        own: dict[str, Any] = {"persons": Persons.of(raw_column(table, place), len(given["y"]))}
        own["table"] = without_attribute(table, place)
        test = given["X_test"]
        if test is not None and as_table(test).shape[1] == n_columns:
            own["X_test"] = without_attribute(as_table(test), place)
        for name in {"attribute", "groups"} & set(self.get_params(deep=False)):
            asked = getattr(self, name)
            if asked is not None and not is_target(asked, names):
                at = int(resolve_features(asked, names, n_columns, name)[0])
                if at == place:
                    raise ValueError(
                        f"`{name}` and `persons` name the same column, {asked!r}. It tells who is "
                        "who, and is no feature of the model."
                    )
                own[name] = asked if isinstance(asked, str) else at - (at > place)
        return own

    @abstractmethod
    def _game(self, task: Task, entropy: list[int]) -> Game:
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


class LeakageAuditor(BaseAuditor):
    """Audit what releases of a model reveal of a column, or of whole records.

    Play attacks, each fitted on what its adversary knows, against releases at every noise level,
    beside upper bounds on the success of *any* attack. A release only draws noise; intervals count
    releases, not records. All results are confidential. See the user guide, docs/theory/audits.md.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Model to audit; clones of it are fitted. Private estimators of skleak have closed forms;
        other linear models are refitted for every candidate, and get noise added; all others are
        asked for predictions, without bounds (docs/theory/audits.md) but for private SGD, whose
        trade-off curve bounds guesses of values ("dp" in `bounds`). Where a stated
        ``noise_scale`` is not what fits add, there is a warning, and no bound holds.
    attribute : str, int or None, default=None
        Sensitive column of the raw data, by name or position; "(target)" is the target of the
        model. None attacks whole records.
    attacks : "default", str, attack, list of them or dict of name to attack, default="default"
        Names "prior", "imputation", "white_box", "black_box", "black_box_proba",
        "black_box_margin", "combined", "informed", of a quantity "posterior_mean", or objects with
        ``fit(X, y)`` and ``predict(released)``, from parameters (n_releases, n_parameters) to
        guesses (n_releases, n_records), or from one model to guesses (n_records,). By default all
        that apply but "informed"; for whole records `InformedReconstruction`.
    noise_scales : float, goal, array-like of them or None, default=None
        Standard deviations of the noise to audit. None takes the estimator's own, 0 if it has none.
        Where the noise is not on the minimizer, goals (EpsilonDelta, GaussianDP) that models are
        trained with, and results have ``1 / mu`` of each guarantee; "dp" bounds guesses.
    n_releases : int, default=100
        Simulated releases at each noise level, or trainings where these are left to chance; with
        ``secrets="drawn"`` the games of each record.
    secrets : {"auto", "actual", "drawn"}, default="auto"
        "drawn" redraws the secret of one record at a time from its prior ([FANO23] figure 1), where
        bounds and attacks speak of the same. "actual" attacks all records as they are, for which
        bounds hold on average over such draws. "auto" draws one of few values, where it can be.
    releases : {"auto", "fitted", "simulated"}, default="auto"
        "fitted" plays what the ``release()`` of a real fit in every game hands out, or its
        coefficients: a fit for each of `n_releases` at each noise level; of drawn secrets the games
        of a record are fewer than that, as long as there are a thousand of all records.
        "simulated" fits once, and draws the noise that is stated, or measured where that is wrong.
        "auto" fits where an estimator of another maker adds noise of its own.
    prior : {"auto", "marginal", "uniform", "conditional"} or array, default="auto"
        Knowledge of the secret before the release: frequencies among the other records, none, a
        cross-fitted model on all else about the record, or stated probabilities. Of a quantity
        a density, as in `PosteriorMeanReconstruction`; of whole records normal with means and
        covariances of the columns ("conditional": given the target), or a covariance (d, d).
        "auto" is "conditional" for a quantity, "marginal" for values and whole records. Attacks
        that use more than it holds have no verdict.
    max_advantage : float, default=0.05
        Advantage over guessing that is tolerated, in [0, 1]: the report begins with the smallest
        noise scale that keeps it, what that costs, and whom it leaves exposed.
    confidence_level : float, default=0.95
        Of each interval in the tables, and of all verdicts of a table together.
    bounds : "all" or list of str, default="all"
        Upper bounds to compute, by their columns in `results_`.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values; None takes those that occur. Makes a numeric attribute categorical.
    rare_value : value or None, default=None
        Value whose carriers are counted that attacks find with one false alarm in a hundred
        (``tpr_at_1pct_fpr``); None takes that of fewest records, of those with three at least.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default. Of more than 10,000 outside memory a random sample of
        as many, which the report says first: an auditor asks about all, and a sample answers for
        means with intervals over records. Name records to have each of them attacked.
    refit_preprocessing : bool, default=False
        Refit all of a pipeline for every candidate. False counts fitted preprocessing as public.
    checkpoint : str, Path or None, default=None
        File that keeps encodings and finished cells, from which `fit` continues. Confidential.
    n_jobs : int or None, default=None
        Number of parallel jobs, as in joblib. The tables do not depend on it.
    verbose : int, default=0
        Above 0, a progress bar for each phase, in records.
    random_state : None, int, RandomState or Generator, default=0
        Seed of the simulated releases and secrets: two runs agree. Their noise protects nobody, and
        a seed that is known costs nothing. None takes fresh entropy.
    persons : str, int or None, default=None
        Column of X that tells whose row each is; it is no feature of the model. An array goes to
        `fit`. None takes each row for a person.

    Attributes
    ----------
    results_, records_ : DataFrame
        A row for each noise level and attack, and for each noise level and record. `AuditReport`
        lists the columns.
    report_ : AuditReport
        Both tables in words, with ``to_text()``, ``to_html()``, ``to_json()`` and ``plot()``.
    partial_results_ : DataFrame
        Finished rows of the last ``fit``, also where it was interrupted.
    attacks_ : dict
        Fitted attacks by name.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, and their names where they have any.

    See Also
    --------
    MembershipAuditor : Audit of membership, for any estimator.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> auditor = LeakageAuditor(
    ...     PrivateLinearRegression(), "sex", noise_scales=[0.02, 200.0], random_state=0
    ... )
    >>> table = auditor.fit(X, y).results_.set_index(["attack", "noise_scale"])
    >>> bool(table.loc[("white_box", 0.02), "success"] > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseAuditor._parameter_constraints,
        "secrets": [StrOptions({"auto", "actual", "drawn"})],
        "releases": [StrOptions({"auto", "fitted", "simulated"})],
        "estimator": [HasMethods("fit")],
        "prior": [
            StrOptions({"auto", "marginal", "uniform", "conditional"}),
            "array-like",
            HasMethods(["pdf", "ppf", "cdf"]),
        ],
        "values": ["array-like", None],
        "rare_value": "no_validation",
    }

    def __init__(
        self,
        estimator: Any,
        attribute: Any = None,
        *,
        attacks: Any = "default",
        noise_scales: Any = None,
        n_releases: int = 100,
        secrets: Literal["auto", "actual", "drawn"] = "auto",
        releases: Literal["auto", "fitted", "simulated"] = "auto",
        prior: "Literal['auto', 'marginal', 'uniform', 'conditional'] | Array" = "auto",
        max_advantage: float = 0.05,
        confidence_level: float = 0.95,
        bounds: "str | Sequence[str]" = "all",
        values: Any = None,
        rare_value: Any = None,
        records: Any = None,
        refit_preprocessing: bool = False,
        checkpoint: "str | PathLike[str] | None" = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = 0,
        persons: str | int | None = None,
    ) -> None:
        store_parameters(self, locals())

    def _outside(self, X: Any, y: Any, sample_weight: Any) -> Outside:
        if self.attribute is None:
            raise AttackNotApplicableError(
                "Whole records are reconstructed in memory only; got records outside of it. Name "
                "an `attribute`, or pass a random sample of some thousands of records as a "
                "DataFrame."
            )
        return Outside.open(X, y, sample_weight, self.attribute, self.values)

    def _game(self, task: Task, entropy: list[int]) -> Game:
        if task.outside is not None:
            return OutsideGame(task, entropy)
        task = leveled(task.of_learner(entropy))
        if task.attribute is not None:
            return attribute_game(task, entropy)
        if task.persons is not None and not task.persons.is_single:
            raise AttackNotApplicableError(
                "Whole records are reconstructed row by row, and what several rows of a person "
                "tell together is not known. Name an `attribute`, or leave `persons` out to count "
                "each row by itself."
            )
        if is_private_sgd(task.estimator) or task.goals:
            name = type(last_step(task.estimator)).__name__
            raise AttackNotApplicableError(
                f"Whole records are not reconstructed from {name}, which releases no noisy "
                "minimizer. Ask its `leakage_report()`, name an `attribute`, or play "
                "`skleak.neural.inversion.GradientInversion` on gradients of private SGD."
            )
        return RecordsGame(task.settled(drawn=False), entropy)


class MembershipAuditor(BaseAuditor):
    """Audit whether releases of a model reveal who it was trained on.

    Train on every candidate with probability `prior`, independently, `n_releases` times, and let
    attacks guess the members. Any classifier, regressor or pipeline is trained anew in each
    release, on the same members at all noise levels; without noise of its own it gets noise added
    to its coefficients. Test records, or else a quarter of the candidates, are never trained on:
    they calibrate attacks and measure utility. All results are confidential. See the user guide,
    docs/theory/membership.md.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Model to audit; clones of it are fitted. Where a stated ``noise_scale`` is not what its fits
        add, the measured noise is used, with a warning.
    attacks : "default", str, attack, list of them or dict of name to attack, default="default"
        Names of scores of `skleak.attacks.MembershipInference` ("loss", "likelihood",
        "modified_entropy", "gradient_norm"), thresholded at the optimum of the other releases;
        "likelihood_ratio" and "robust", from 3 releases on, whose shadow models are the other
        releases; "exact", which knows all other memberships; or objects with
        ``fit(X, y, X_reference, y_reference)`` and ``predict(model)``. By default all that apply
        and differ, "robust" only below 8 releases.
    noise_scales : float, goal, array-like of them or None, default=None
        Standard deviations of the noise to audit, 0 or more; noise multipliers of private SGD.
        None takes that of the estimator, and 0 where it adds none. Where the noise is not on the
        minimizer, goals as in `LeakageAuditor`.
    n_releases : int, default=100
        Simulated releases at each noise level; with ``secrets="drawn"`` the games of each record.
    secrets : {"actual", "drawn"}, default="actual"
        "actual" draws all memberships for every release, and attacks all candidates at once.
        "drawn" takes one record at a time in or out, and all others in: it needs a closed form,
        and attacks other than "exact" need test records.
    prior : float, default=0.5
        Probability of membership, in (0, 1).
    groups : str, int or None, default=None
        Column of X by whose values guesses are tested as well, beside those by class and about
        copies of a record: attacks may be right about a few people and know nothing of the rest.
    max_advantage : float, default=0.05
        Advantage over guessing that is tolerated, in [0, 1]: the report begins with the smallest
        noise scale that keeps it, what that costs, and how many records it leaves exposed, at
        least.
    confidence_level : float, default=0.95
        Of each interval in the tables, and of all verdicts of a table together.
    bounds : "all" or list of str, default="all"
        Upper bounds to compute: "dp", "bayes" and, with drawn secrets, those of `LeakageAuditor`.
    records : array-like of int, boolean mask, slice or None, default=None
        Candidates; all by default. Other records are always trained on.
    refit_preprocessing : bool, default=False
        Train all of a pipeline anew. False counts fitted preprocessing as public.
    checkpoint : str, Path or None, default=None
        File that keeps finished cells, from which `fit` continues. Confidential.
    n_jobs : int or None, default=None
        Number of parallel jobs, as in joblib. The tables do not depend on it.
    verbose : int, default=0
        Above 0, a progress bar.
    random_state : None, int, RandomState or Generator, default=0
        Seed of the simulated releases and memberships: two runs agree. Their noise protects
        nobody, and a seed that is known costs nothing. None takes fresh entropy.
    persons : str, int or None, default=None
        Column of X that tells whose row each is; it is no feature of the model. An array goes to
        `fit`. None takes each row for a person.

    Attributes
    ----------
    results_, records_ : DataFrame
        A row for each noise level and attack, and for each noise level and candidate, with its
        label in the index of a DataFrame. `AuditReport` lists the columns.
    report_ : AuditReport
        Both tables in words, with ``to_text()``, ``to_html()``, ``to_json()`` and ``plot()``.
    partial_results_ : DataFrame
        Finished rows of the last ``fit``, also where it was interrupted.
    attacks_ : dict
        Attacks by name: unfitted where each release fits them anew, strings where they only learn
        from other releases.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, and their names where they have any.

    See Also
    --------
    LeakageAuditor : Audit of a column or of whole records.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> auditor = MembershipAuditor(DecisionTreeRegressor(), n_releases=20, random_state=0)
    >>> row = auditor.fit(X[:200], y[:200]).results_.set_index("attack").loc["loss"]
    >>> bool(row["lower_bound"] > 0.7 and row["success"] > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseAuditor._parameter_constraints,
        "secrets": [StrOptions({"actual", "drawn"})],
        "prior": [Interval(Real, 0, 1, closed="neither")],
        "groups": [str, Integral, None],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        attacks: Any = "default",
        noise_scales: Any = None,
        n_releases: int = 100,
        secrets: Literal["actual", "drawn"] = "actual",
        prior: float = 0.5,
        groups: str | int | None = None,
        max_advantage: float = 0.05,
        confidence_level: float = 0.95,
        bounds: "str | Sequence[str]" = "all",
        records: Any = None,
        refit_preprocessing: bool = False,
        checkpoint: "str | PathLike[str] | None" = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = 0,
        persons: str | int | None = None,
    ) -> None:
        store_parameters(self, locals())

    def _outside(self, X: Any, y: Any, sample_weight: Any) -> Outside:
        raise AttackNotApplicableError(
            "A membership audit trains on other members in each release, or compares with "
            "predictions of all records, in memory; got records outside of it. Pass a random "
            "sample of some thousands of records as a DataFrame. `leakage_report()` of a private "
            "model fitted on all of them says how exposed members are."
        )

    def _game(self, task: Task, entropy: list[int]) -> Game:
        return membership_game(leveled(task))


def _check_in_memory(**given: Any) -> None:
    """Raise for what an audit would have to load as a whole, without a word."""
    for name, values in given.items():
        if is_large_source(values):
            raise TypeError(
                f"`{name}` of this audit must be in memory; got {type(values).__name__}. Pass "
                "arrays or a DataFrame: of test records a random sample, some thousands of rows."
            )


# Stated only where there is something to say.
_SOMETIMES = ("scale", "goals", "uncounted", "curve", "n_rows", "unseen", "replayable", "repeated")
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "pandas", "joblib")


def build_report(
    auditor: Any, game: Game, outcomes: Mapping[str, Outcome], entropy: list[int]
) -> AuditReport:
    """Put the results of an auditor into a report."""
    model, table, y = last_step(game.task.estimator), game.task.table, game.task.y
    known = game.facts(outcomes)
    attribute, names = game.task.attribute, column_names(as_table(table))
    if attribute is not None and not isinstance(attribute, str):
        attribute = f"column {attribute}" if names is None else str(names[attribute])
    reweighting = as_reweighting(getattr(model, "reweighting", None))  # may be an object
    utility = "D²" if "Poisson" in type(model).__name__ else "R²"
    preprocessing, own = "none", last_step(auditor.estimator)
    if isinstance(game.task.estimator, Pipeline) and len(game.task.estimator.steps) > 1:
        preprocessing = "refitted" if auditor.refit_preprocessing else "public"
    # Blocks outside memory may each count their rows anew.
    rows = table if game.task.outside is None else pd.DataFrame(table).reset_index(drop=True)
    settings = {
        "utility_name": "accuracy" if classifies(model, y) else utility,
        "preprocessing": preprocessing,
        **known,
        "reweighting": None if reweighting is None else reweighting.name,
        "labels": _label_meaning(auditor, game.task),
        "max_advantage": float(auditor.max_advantage),
        "unseen": bool(game.unseen),
        "replayable": adds_noise(own) and getattr(own, "random_state", None) is not None,
        "repeated": repeated_rows(rows, y) if game.task.persons is None else {},
    }
    return AuditReport(
        estimator=_name(auditor.estimator),
        attribute=attribute,
        kind=game.kind,
        results=auditor.results_.copy(),
        records=auditor.records_.copy(),
        checks=game.checks(outcomes),
        groups=game.groups(outcomes),
        settings={name: each for name, each in settings.items() if each or name not in _SOMETIMES},
        reproducibility={
            "skleak": __version__,
            "Python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
            # scikit-learn breaks a ``repr`` into lines.
            "estimator": " ".join(repr(auditor.estimator).split()),
            "auditor": " ".join(repr(auditor).split()),
            "entropy of the seeds": "-".join(f"{word:08x}" for word in entropy),
            "data": f"{game.task.n_records} records, {table.shape[1]} columns, SHA-256 "
            f"{data_digest(game.task)[:16]}",
        },
    )


def _name(estimator: Any) -> str:
    name = type(estimator).__name__
    if isinstance(estimator, Pipeline):
        return f"{name} of {', '.join(_name(step) for _, step in estimator.steps)}"
    if isinstance(estimator, BaseSearchCV):
        return f"{name} of {_name(estimator.estimator)}"
    if isinstance(estimator, TransformedTargetRegressor) and estimator.regressor is not None:
        return f"{name} of {_name(estimator.regressor)}"
    return name


def with_labels(records: pd.DataFrame, table: Any, persons: Persons | None = None) -> pd.DataFrame:
    """Add to a table of records how each is called in the raw records, (n, n_columns).

    A person is called by its label, and has a number of rows.
    """
    positions = records["record"].to_numpy(dtype=np.intp)
    # Records outside memory are called by their positions.
    labels = positions
    if isinstance(table, pd.DataFrame):
        labels = flat_labels(table.index.to_numpy())[positions]
    changed, place = records.copy(), records.columns.get_loc("record") + 1
    if persons is not None:
        which = np.searchsorted(persons.first, positions)
        labels = flat_labels(np.asarray(persons.labels))[which]
        changed.insert(place, "n_rows", persons.sizes[which])
    changed.insert(place, "label", labels)
    return changed


def _label_meaning(auditor: Any, task: Task) -> str:
    """Say what records are called by, or persons."""
    if task.persons is not None:
        return "`persons`" if auditor.persons is None else f"column {auditor.persons}"
    if task.outside is None and isinstance(task.table, pd.DataFrame):
        index = task.table.index
        if any(name is not None for name in index.names):
            return ", ".join(str(name) for name in index.names)
        if not index.equals(pd.RangeIndex(len(index))):
            return "index of the data"
    return "position in the data, from 0"
