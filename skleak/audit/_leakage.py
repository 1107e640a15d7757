"""The audit of a column or of whole records, beside bounds on every attack."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, ClassVar, Literal

from skleak.adversary.hypotheses import last_step
from skleak.audit._base import BaseAuditor
from skleak.audit.games._game import Game, Task
from skleak.audit.games._outside import Outside
from skleak.audit.games._private_sgd import is_private_sgd
from skleak.audit.games.attribute._blocks import BlocksGame
from skleak.audit.games.attribute._game import attribute_game
from skleak.audit.games.records._game import RecordsGame
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._sklearn_compat import HasMethods, StrOptions
from skleak.utils._typing import Array, RandomState


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
        "black_box_margin", "informed", of a quantity "posterior_mean", or objects with
        ``fit(X, y)`` and ``predict(released)``, from parameters (n_releases, n_parameters) to
        guesses (n_releases, n_records), or from one model to guesses (n_records,). By default all
        that apply but "informed"; for whole records `InformedReconstruction`.
    noise_scales : float, array-like of float or None, default=None
        Standard deviations of the noise to audit. None takes the estimator's own, 0 if it has none.
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
    prior : {"marginal", "uniform", "conditional"} or array, default="marginal"
        Knowledge of the secret before the release: frequencies among the other records, none, a
        cross-fitted classifier on all else about the record, or stated probabilities. Of a quantity
        a density, as in `PosteriorMeanReconstruction`; of whole records normal with means and
        covariances of the columns ("conditional": given the target), or a covariance (d, d).
    max_advantage : float, default=0.05
        Advantage over guessing that is tolerated, in [0, 1]: the report begins with the smallest
        noise scale that keeps it, what that costs, and whom it leaves exposed.
    confidence_level : float, default=0.95
        Of each interval in the tables, and of all verdicts of a table together.
    bounds : "all" or list of str, default="all"
        Upper bounds to compute, by their columns in `results_`.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values; None takes those that occur. Makes a numeric attribute categorical.
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
        Above 0, the cost beforehand, and a progress bar for each phase, in records.
    random_state : None, int, RandomState or Generator, default=0
        Seed of the simulated releases and secrets: two runs agree. Their noise protects nobody, and
        a seed that is known costs nothing. None takes fresh entropy.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseAuditor._parameter_constraints,
        "secrets": [StrOptions({"auto", "actual", "drawn"})],
        "releases": [StrOptions({"auto", "fitted", "simulated"})],
        "estimator": [HasMethods("fit")],
        "prior": [
            StrOptions({"marginal", "uniform", "conditional"}),
            "array-like",
            HasMethods(["pdf", "ppf", "cdf"]),
        ],
        "values": ["array-like", None],
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
        prior: "Literal['marginal', 'uniform', 'conditional'] | Array" = "marginal",
        max_advantage: float = 0.05,
        confidence_level: float = 0.95,
        bounds: "str | Sequence[str]" = "all",
        values: Any = None,
        records: Any = None,
        refit_preprocessing: bool = False,
        checkpoint: "str | PathLike[str] | None" = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = 0,
    ) -> None:
        game = (attacks, noise_scales, n_releases, secrets, prior)
        told = (max_advantage, confidence_level, bounds, records, refit_preprocessing)
        super().__init__(estimator, *game, *told, checkpoint, n_jobs, verbose, random_state)
        self.attribute, self.values, self.releases = attribute, values, releases

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
            return BlocksGame(task, entropy)
        task = task.of_learner(entropy)
        if task.attribute is None:
            if is_private_sgd(task.estimator):
                name = type(last_step(task.estimator)).__name__
                raise AttackNotApplicableError(
                    f"Whole records are not reconstructed from {name}, which releases no noisy "
                    "minimiser. Ask its `leakage_report()`, play "
                    "`skleak.neural.inversion.GradientInversion`, or name an `attribute`."
                )
            return RecordsGame(task.settled(drawn=False))
        return attribute_game(task, entropy)
