"""The auditor: attacks played against releases at every noise level, beside their bounds."""

from collections.abc import Sequence
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skleak.attacks._knowledge import as_table, column_names
from skleak.audit._attribute import audit_attribute
from skleak.audit._membership import audit_membership
from skleak.utils._sklearn_compat import HasMethods, Interval, StrOptions, fit_context
from skleak.utils._typing import Array, RandomState

__all__ = ["LeakageAuditor"]


class LeakageAuditor(BaseEstimator):
    """Audit what releases of a model reveal of its training records.

    Attacks are fitted on what their adversary knows, and play against releases of the model at
    every noise level. Their success is reported with intervals that count independent releases
    rather than records, beside upper bounds on the success of *any* attack: the Bayes success of
    the channel from secret to release, and what Fano's inequality, trade-off functions and Rényi
    divergences promise. Nothing is refitted for a release: only noise is drawn anew.

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model is trained. Its ``noise_covariance`` is that of the games and bounds; one that
        follows the data ("curvature", "minimax") is audited for an attribute. It is cloned and
        fitted here. Private estimators of skleak are audited in closed form; any other linear model
        is refitted for every candidate value, and the noise is added to its parameters (output
        perturbation).
    attribute : str, int or None, default=None
        Sensitive column of the raw data, by name or position. None attacks whole records.
    target : {"attribute", "membership"}, default="attribute"
        What is secret: a column of the records (or all of them, see `attribute`), or whether a
        record was trained on, in the games of *Membership* in the notes.
    attacks : "default", str, attack, list of them or dict of name to attack, default="default"
        Attacks to play: ``"prior"``, ``"imputation"``, ``"white_box"``, ``"black_box"``,
        ``"informed"``, or objects with ``fit(X, y)`` and ``predict(released)``, which takes
        parameters of shape (n_releases, n_parameters) and returns guesses of shape (n_releases,
        n_targets). The default is the first four, without the black box where labels cannot tell a
        quantity; for whole records `InformedReconstruction`. For membership see the notes.
    noise_scales : float, array-like of float or None, default=None
        Standard deviations of the noise to audit, 0 or more. None takes that of the estimator
        and, for membership, 0 where it adds none.
    n_releases : int, default=100
        Simulated releases at each noise level; with ``secret="drawn"`` the games of each target.
    secret : {"actual", "drawn"}, default="actual"
        "actual" attacks the data as they are, all records of a release at once. "drawn" plays
        the game of [FANO23] figure 1: the secret of one record is redrawn from its prior, and the
        model trained anew. Bounds hold exactly there; for the actual secrets they hold on average
        over such draws. For membership see the notes.
    prior : {"marginal", "uniform", "conditional"}, array or float, default="marginal"
        What the adversary knows of the secret before the release, as in
        `skleak.attacks.WhiteBoxAttributeInference`. "marginal" counts the other records;
        "conditional" is a cross-fitted classifier on all else about the record. For membership a
        number in (0, 1), its probability; "marginal" and "uniform" are 0.5.
    confidence_level : float, default=0.95
        Of each interval in the tables, and of all verdicts of a table together.
    bounds : "all" or list of str, default="all"
        Upper bounds to compute; see Notes. Where the covariance of the noise follows the data,
        there are no "tradeoff" and "gdp".
    values : array-like of shape (n_values,) or None, default=None
        Candidate values; None takes those that occur. Makes a numeric attribute categorical.
    targets : array-like of int, boolean mask, slice or None, default=None
        Records under attack, for membership the candidates; all by default.
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
        A row for each noise level and attack: ``noise_scale``, ``attack``, ``success`` with its
        interval (``success_low``, ``success_high``), ``baseline`` (success of the prior alone),
        ``advantage`` (``(success - baseline) / (1 - baseline)``) with its interval,
        ``imputation`` (success of imputing the secret without the model) and
        ``advantage_over_imputation`` with its interval, ``verdict``, ``utility`` (score of the
        released model), ``n_games``, and one column for each bound, on the success. For
        numbers see Notes.
    records_ : DataFrame
        A row for each noise level and target: ``noise_scale``, ``record``, ``prior`` (largest
        prior probability), ``eta`` (Fisher information loss of the attribute), ``bayes``,
        ``tightest_bound`` (the smallest of the others), ``success_<attack>``; with
        ``secret="drawn"`` a ``verdict``, corrected for the number of records.
    report_ : AuditReport
        All of it in words, with ``to_text()``, ``to_html()``, ``to_json()`` and ``plot()``.
    partial_results_ : DataFrame
        Finished rows of `results_`, also where `fit` was interrupted.
    attacks_ : dict
        Fitted attacks by name. Of membership, those that are fitted anew in each release are
        unfitted, and those that only learn from other releases are strings.
    n_features_in_ : int
        Number of raw columns.
    feature_names_in_ : ndarray of str
        Their names, where there are any.

    See Also
    --------
    skleak.channels.GaussianChannel.advantage_bounds : The bounds for one record.

    Notes
    -----
    Bounds, as columns of `results_`: ``bayes`` (exact, nothing beats it), ``tradeoff``, ``gdp``
    ([HMB23]), ``fano``, ``fano_pairwise``, ``fano_information_bound``, ``fano_order_1``,
    ``generalised_fano`` ([FANO23]), ``information_projection``, ``renyi_projection`` ([BIL23]),
    ``closed_form_fano`` and ``reconstruction_robustness`` ([BCH22]); means over the targets. A
    verdict is "bound exceeded" only where the interval of the success, corrected for the number
    of verdicts, lies above the tightest bound computed; with the actual secrets, by more than the
    chance that they are easier than the average draw from the prior explains.

    Where the secret is a number or a whole record, ``success`` is the coefficient of
    determination ``1 - mse / spread``, and there are ``mse`` with its interval, ``variance``,
    ``squared_bias``, ``mse_over_bound`` (mean of the error of a target over its own bound, over the
    targets whose bound is at most a tenth of the spread; the verdict is about these) and the lower
    bound ``cramer_rao`` for unbiased attacks ([DRA22] theorem 2). A biased attack may pass below
    it, and its verdict says so.

    *Membership.* With ``secret="actual"`` every candidate is trained on with probability `prior`,
    independently, `n_releases` times, and all are attacked at once; records that are no
    candidates are always trained on. Any classifier, regressor or pipeline is trained anew each
    time, on the same members at all noise levels; a model without noise of its own gets it added
    to its coefficients. Test records are reference records too: never trained on, they calibrate
    attacks and measure utility. Without them each release holds out a quarter of the candidates.
    Attacks are ``"loss"``, ``"likelihood"``, ``"modified_entropy"`` and ``"gradient_norm"`` (the
    scores of `skleak.attacks.MembershipInference`, with the threshold that is best in the other
    releases, from 8 of them on), ``"likelihood_ratio"`` (the other releases are the shadow models
    of each), ``"exact"`` (an attacker who is told all other memberships; private models with a
    closed form), or objects with ``fit(X_candidates, y_candidates, X_reference, y_reference)``
    and ``predict(model)``. With ``secret="drawn"`` one record at a time is in or out and all
    others are in; that needs a closed form, and attacks other than ``"exact"`` test records.

    Columns of ``results_`` are then, besides success, advantage, verdict and utility:
    ``tpr_at_1pct_fpr`` with its interval (members found at one false alarm in a hundred) and
    ``auc``; ``gap``, the loss of non-members less that of members (zero-one; of regressors the
    squared error cut at the median one of the reference records, and divided by it) with
    Student's interval; ``lower_bound``, the success that some attack reaches by the near end of
    that interval ([BIL23] theorem 2); ``dp``, the bound from the estimator's own guarantee of
    differential privacy, and ``bayes``, that of the exact test; both are NaN where there is none.
    Given all other memberships, the record's own is still a draw with probability `prior`, so that
    no attacker, who knows less, exceeds the success of the best one who is told them: an average
    over the members of each release estimates it. ``records_`` has ``distance``, that of the
    parameters with and without a record over the noise, for ``eta``.

    An estimator with a parameter ``noise_scale`` is fitted a few times at every noise level to
    check that it adds the noise it states. Where it does not, games are played with the noise that
    was measured, and a warning is given.

    Everything here is confidential: it names the most exposed records.

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

    Whose records a tree has learnt by heart:

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> auditor = LeakageAuditor(
    ...     DecisionTreeRegressor(), target="membership", n_releases=20, random_state=0
    ... ).fit(X.drop(columns="sex")[:200], y[:200])
    >>> row = auditor.results_.set_index("attack").loc["loss"]
    >>> bool(row["lower_bound"] > 0.7 and row["success"] > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "get_params"])],
        "target": [StrOptions({"attribute", "membership"})],
        "attacks": [str, dict, list, tuple, HasMethods(["fit", "predict"])],
        "noise_scales": ["array-like", Interval(Real, 0, None, closed="left"), None],
        "n_releases": [Interval(Integral, 1, None, closed="left")],
        "secret": [StrOptions({"actual", "drawn"})],
        "prior": [StrOptions({"marginal", "uniform", "conditional"}), "array-like", Real],
        "confidence_level": [Interval(Real, 0, 1, closed="neither")],
        "bounds": [str, "array-like"],
        "values": ["array-like", None],
        "targets": ["array-like", slice, None],
        "refit_preprocessing": ["boolean"],
        "checkpoint": [str, PathLike, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        estimator: Any,
        attribute: Any = None,
        attacks: Any = "default",
        *,
        target: Literal["attribute", "membership"] = "attribute",
        noise_scales: Any = None,
        n_releases: int = 100,
        secret: Literal["actual", "drawn"] = "actual",
        prior: "Literal['marginal', 'uniform', 'conditional'] | float | Array" = "marginal",
        confidence_level: float = 0.95,
        bounds: "str | Sequence[str]" = "all",
        values: Any = None,
        targets: Any = None,
        refit_preprocessing: bool = False,
        checkpoint: "str | PathLike[str] | None" = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.attribute = attribute
        self.target = target
        self.attacks = attacks
        self.noise_scales = noise_scales
        self.n_releases = n_releases
        self.secret = secret
        self.prior = prior
        self.confidence_level = confidence_level
        self.bounds = bounds
        self.values = values
        self.targets = targets
        self.refit_preprocessing = refit_preprocessing
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    # Nested parameters are validated by the estimators themselves.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, X_test: Any = None, y_test: Any = None) -> Self:
        """Play all attacks at all noise levels, and compute their bounds.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_columns)
            Raw training records.
        y : array-like of shape (n,)
            Targets of the model.
        X_test, y_test : array-like, default=None
            Raw records and targets on which utility is measured; by default those of training,
            where it is optimistic. For membership they are reference records, see the notes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown or single-valued attribute, missing values in it, too many values,
            unknown attacks or bounds, wrong noise scales, or a checkpoint of another audit.
        AttackNotApplicableError
            For a model that the attacks or the bounds cannot be computed for.

        Warns
        -----
        IncompleteAuditWarning
            Where the audit was interrupted or an attack failed: what is finished is in
            ``partial_results_``. The error is raised after that.
        PrivacyLeakWarning
            Where the estimator does not add the noise that it states.
        """
        table, y = self._validate(X, y)
        audit = audit_membership if self.target == "membership" else audit_attribute
        audit(self, table, y, X_test, y_test)
        return self

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

    def _validate(self, X: Any, y: Any) -> tuple[Any, Array]:
        for name in ("results_", "records_", "report_", "partial_results_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        table = as_table(X)
        if y is None:
            raise ValueError(
                "LeakageAuditor needs `y`, the targets that the model is trained on. Pass "
                "`fit(X, y)`."
            )
        y = column_or_1d(y)
        check_consistent_length(table, y)
        self.n_features_in_ = table.shape[1]
        names = column_names(table)
        if names is not None:
            self.feature_names_in_ = names
        return table, y

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that raw records are taken, and that targets are needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags
