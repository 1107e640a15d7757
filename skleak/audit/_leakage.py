"""The audit of a column or of whole records, beside bounds on every attack."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, ClassVar, Literal

from skleak.audit._base import BaseAuditor
from skleak.audit.games._game import Game, Task
from skleak.audit.games.attribute._game import AttributeGame
from skleak.audit.games.records._game import RecordsGame
from skleak.utils._sklearn_compat import StrOptions
from skleak.utils._typing import Array, RandomState


class LeakageAuditor(BaseAuditor):
    """Audit what releases of a model reveal of a column, or of whole records.

    Attacks are fitted on what their adversary knows, and play against releases of the model at
    every noise level, beside upper bounds on the success of *any* attack. Intervals count
    independent releases rather than records. Nothing is refitted for a release: only noise is drawn
    anew. All of it is confidential: it names the most exposed records.

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model is trained; it is cloned and fitted here. Private estimators of skleak are
        audited in closed form, with their ``noise_covariance`` (for an attribute also one that
        follows the data); any other linear model is refitted for every candidate value, and the
        noise added to its parameters. A stated ``noise_scale`` is checked by a few fits: where it
        is not what is added, games have the noise that was measured, and a warning is given.
    attribute : str, int or None, default=None
        Sensitive column of the raw data, by name or position. None attacks whole records.
    attacks : "default", str, attack, list of them or dict of name to attack, default="default"
        ``"prior"``, ``"imputation"``, ``"white_box"``, ``"black_box"``, ``"informed"``, or objects
        with ``fit(X, y)`` and ``predict(released)``, from parameters (n_releases, n_parameters) to
        guesses (n_releases, n_records). The default is the first four, without the black box where
        labels cannot tell a quantity; for whole records `InformedReconstruction`.
    noise_scales : float, array-like of float or None, default=None
        Standard deviations of the noise to audit, 0 or more. None takes that of the estimator.
    n_releases : int, default=100
        Simulated releases at each noise level; with ``secrets="drawn"`` the games of each record.
    secrets : {"actual", "drawn"}, default="actual"
        "actual" attacks the data as they are, all records of a release at once. "drawn" redraws
        the secret of one record from its prior and trains anew ([FANO23] figure 1). Bounds hold
        exactly there; for the actual secrets on average over such draws.
    prior : {"marginal", "uniform", "conditional"} or array, default="marginal"
        What the adversary knows of the secret before the release: "marginal" counts the other
        records, "conditional" is a cross-fitted classifier on all else about the record.
    confidence_level : float, default=0.95
        Of each interval in the tables, and of all verdicts of a table together.
    bounds : "all" or list of str, default="all"
        Upper bounds to compute, by their columns in `results_`. Without "tradeoff" and "gdp" where
        the covariance of the noise follows the data.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values; None takes those that occur. Makes a numeric attribute categorical.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.
    refit_preprocessing : bool, default=False
        Refit all of a pipeline for every candidate. False counts fitted preprocessing as public.
    checkpoint : str, Path or None, default=None
        File that keeps finished cells; `fit` goes on from it. It is confidential.
    n_jobs : int or None, default=None
        Number of parallel jobs, as in joblib. The tables do not depend on it.
    verbose : int, default=0
        Above 0, a progress bar.
    random_state : None, int, RandomState or Generator, default=None
        Seed of the simulated releases and secrets.

    Attributes
    ----------
    results_ : DataFrame
        A row for each noise level and attack: ``success`` with its interval, ``baseline`` (of the
        prior alone), ``advantage`` (``(success - baseline) / (1 - baseline)``), ``imputation``
        (without the model), ``advantage_over_imputation``, ``verdict`` (by an interval whose
        coverage is proven), ``utility``, ``n_games``, ``detectable_excess`` (of the success over
        the tightest bound, that so many releases find in 80 % of audits), and the bounds on the
        success, means over the records: ``bayes`` (exact), ``tradeoff``,
        ``gdp`` ([HMB23]), ``fano``, ``fano_pairwise``, ``fano_information_bound``,
        ``fano_order_1``, ``generalized_fano`` ([FANO23]), ``information_projection``,
        ``renyi_projection`` ([BIL23]), ``closed_form_fano``, ``reconstruction_robustness``
        ([BCH22]). For numbers and whole records see Notes.
    records_ : DataFrame
        A row for each noise level and record: ``prior`` (largest probability), ``eta`` (Fisher
        information loss of the attribute), ``bayes``, ``tightest_bound`` (the smallest of the
        others), ``success_<attack>``; a ``verdict`` where secrets are drawn.
    report_ : AuditReport
        All of it in words, with ``to_text()``, ``to_html()``, ``to_json()`` and ``plot()``.
    partial_results_ : DataFrame
        Finished rows of the last ``fit``, also where it was interrupted.
    attacks_ : dict
        Fitted attacks by name.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, and their names where they have any.

    See Also
    --------
    MembershipAuditor : Who was trained on, for any estimator.
    skleak.channels.GaussianChannel.advantage_bounds : The bounds for one record.

    Notes
    -----
    A verdict is "bound exceeded" only where the interval of the success, corrected for the number
    of verdicts, lies above the tightest bound computed; with the actual secrets, by more than the
    chance that they are easier than the average draw from the prior explains.

    For a number or whole records ``success`` is the coefficient of determination ``1 - mse /
    spread``, beside ``mse``, ``variance``, ``squared_bias``, the lower bound ``cramer_rao`` for
    unbiased attacks (``tr(F^-1) / d``, [DRA22] theorem 2; a biased one may pass below it), the
    median over the records, ``cramer_rao_mean``, the mean over them of the smaller of its bound
    and the error of the prior guess, and ``mse_over_bound``: the median of a record's error over
    its bound, where that is at most a tenth of the spread.

    Examples
    --------
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder, StandardScaler
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> encode = make_column_transformer(
    ...     (OneHotEncoder(drop="if_binary"), ["sex"]), remainder=StandardScaler()
    ... )
    >>> model = make_pipeline(encode, PrivateLinearRegression())
    >>> auditor = LeakageAuditor(
    ...     model, "sex", noise_scales=[0.02, 2.0], n_releases=20, random_state=0
    ... ).fit(X, y)
    >>> table = auditor.results_.set_index(["noise_scale", "attack"])
    >>> bool(table.loc[(0.02, "white_box"), "success"] > 0.9)
    True
    >>> (table["success"] <= table["bayes"]).loc[[(2.0, "white_box")]].item()
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseAuditor._parameter_constraints,
        "prior": [StrOptions({"marginal", "uniform", "conditional"}), "array-like"],
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
        secrets: Literal["actual", "drawn"] = "actual",
        prior: "Literal['marginal', 'uniform', 'conditional'] | Array" = "marginal",
        confidence_level: float = 0.95,
        bounds: "str | Sequence[str]" = "all",
        values: Any = None,
        records: Any = None,
        refit_preprocessing: bool = False,
        checkpoint: "str | PathLike[str] | None" = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        game = (attacks, noise_scales, n_releases, secrets, prior, confidence_level, bounds)
        play = (records, refit_preprocessing, checkpoint, n_jobs, verbose, random_state)
        super().__init__(estimator, *game, *play)
        self.attribute, self.values = attribute, values

    def _game(self, task: Task) -> Game:
        return RecordsGame(task) if task.attribute is None else AttributeGame(task)
