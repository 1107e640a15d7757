"""Membership by the likelihood ratio: exact where it is known, else from shadow models."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy import sparse
from scipy.special import expit, logit
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import check_weights_known, last_step, weights_of_both
from skleak.adversary.knowledge import as_table, resolve_records
from skleak.adversary.membership import removal_obstacle
from skleak.attacks.membership._exact import ExactRates, ExactTest, fit_exact_test
from skleak.attacks.membership._rates import MembershipRates
from skleak.attacks.membership._raw_records import RawRecords
from skleak.attacks.membership.shadow import ShadowPlan, ShadowTest, fit_shadow_test, known_records
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._confidential import ConfidentialMixin, leaves_whole
from skleak.utils._sklearn_compat import (
    HasMethods,
    Interval,
    NoMetadataRequests,
    StrOptions,
    fit_context,
)
from skleak.utils._typing import FloatArray, IntArray, RandomState


class LikelihoodRatioMembership(
    ExactRates, MembershipRates, ConfidentialMixin, NoMetadataRequests, RawRecords
):
    """Tell whether a record was trained on: how likely the model is with it, and without it.

    No test does better than the likelihood ratio (Neyman and Pearson). For output-perturbed models
    it is known in closed form, for an adversary who knows every other record. For any other
    estimator it is estimated: shadow models are trained with and without each record, and the
    ratio is that of how well they fit it (the LiRA attack of Carlini et al. 2022).

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model under attack is trained; fitted or not. It is never changed. The exact test
        uses preprocessing that is already fitted as it is; shadow models are clones, in which
        everything is fitted anew.
    method : {"auto", "exact", "online", "offline"}, default="auto"
        - ``"exact"``: the test between releases with the record and without it, for the private
          estimators of `skleak.linear_model` with isotropic noise, without reweighting and of at
          most two classes;
        - ``"online"``: shadow models trained on halves of candidates and reference records, so
          that each candidate has scores as a member and as a non-member;
        - ``"offline"``: shadow models trained on halves of the reference records alone, and a
          one-sided test against the scores of non-members;
        - ``"auto"``: "exact" where there is such a test and no reference records are passed,
          else "online".
    n_shadow_models : int, default=64
        Number of shadow models, at least 4.
    statistic : callable or None, default=None
        What shadow models are asked: a function of ``model, X, y`` that returns finite scores of
        shape (n_records,), larger for members. None takes the log odds of the true label, and of
        regressors the residual; see Notes.
    variance : {"auto", "per_record", "global"}, default="auto"
        Whether the scores of each record have variances of their own or one pooled over all
        records; "auto" is their own, and the median one with the weight of four scores.
    prior : float, default=0.5
        Probability that a record was trained on, in (0, 1), ends excluded.
    records : array-like of int, boolean mask, slice or None, default=None
        Records of X under attack; all by default.
    n_jobs : int or None, default=None
        Number of shadow models trained in parallel, as in joblib. Results do not depend on it.
    verbose : int, default=0
        Above 0, a progress bar.
    random_state : None, int, RandomState or Generator, default=None
        Seed of the shadow models and of their training sets.

    Attributes
    ----------
    method_ : {"exact", "online", "offline"}
        The method used.
    records_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.
    classes_ : ndarray of shape (2,)
        0 for non-members and 1 for members.
    encodings_ : ndarray of shape (n_targets, 2, n_parameters)
        Exact only. Noiseless coefficients, then the intercept where there is one: without the
        record, then with it (the same for all). Confidential.
    distances_ : ndarray of shape (n_targets,)
        Exact only. Euclidean distance between the two, in units of the parameters. Confidential.
    noise_scale_ : float
        Exact only. Noise taken for arrays of parameters; NaN where it is calibrated to data.
    shadow_scores_ : ndarray of shape (n_shadow_models, n_targets)
        Shadow models only. Score of every target under each of them; log odds may be infinite.
    trained_on_ : ndarray of bool of shape (n_shadow_models, n_targets)
        Shadow models only. Which were trained on which target.
    means_, scales_ : ndarray of shape (n_targets, 2)
        Shadow models only. Gaussian laws of the scores, of non-members and of members (NaN
        offline), in the units of the scores; online those of residuals other than zero.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, where records are rows of a table, and their names where there are
        any.

    See Also
    --------
    MembershipInference : One threshold for all records, without shadow models.
    GaussianLinearMembership : The Bayes-optimal attack on linear regression without noise.
    skleak.bounds.membership_advantage_dp : What differential privacy leaves to any attack.

    Notes
    -----
    *Exact.* Without the record the data have N - 1 records: the mean loss is over those, so that
    the penalty weighs a little less beside the sum of the losses. Encodings err by less than a
    millionth of the distance between the two. With D that distance over the noise scale, the power
    of the test at false positive rate ``a`` is ``Phi(Phi^-1(a) + D)``, and its success at even odds
    is ``Phi(D / 2)``: `expected_score` and `expected_true_positive_rate` tell every record's,
    without drawing a release.

    Where the estimator has a differential-privacy guarantee (`data_norm`), it is stated for the
    replacement of a record: mu = ``2 L R / (n alpha noise_scale)``, n counting the target. Removal
    moves the minimiser by no more: ``D <= mu``, and no membership test beats the guarantee. Fitted
    preprocessing counts as public: like the noise it is the same with and without the record.

    *Shadow models.* Records are paired at random within their class, one of each pair is trained on
    and the other by the next model: every candidate is in half of the training sets. These have
    half of the records; pass about twice as many as the model under attack was trained on
    (offline, reference records). Each model has seeds and noise of its own, so that the spread of
    scores is that of releases, and charges no ledger. Only scores are kept. Copies of a candidate,
    among the candidates or the reference records, leave traces in models that count as trained
    without it: they hide it.

    Scores are to be nearest to Gaussian given the record. Log odds ``log(p_y / (1 - p_y))`` are, of
    a classifier, where probabilities pile up at 0 and 1; those of 0 and 1 themselves, and of a
    label that a model has not seen, count as twice the most extreme odds that any shadow model
    gave. Of a regressor it is the residual with its sign, as predictions are asymptotically normal
    over training sets: its square would be chi-squared, with a long tail of logarithms. The
    online ratio compares both laws; offline a residual near zero speaks for membership.

    A variance from few scores is no good, and one for all records hides which are exposed. Carlini
    et al. 2022 take one for all up to 64 models; here it is weighed against their own ("auto"). No
    standard deviation counts as less than a tenth of the median one. A residual of zero, the
    perfect fit of a tree to its members, has a probability of its own beside the Gaussian law.

    Ratios from a few scores are overconfident, and blind to what all records have in common. So the
    shadow models are attacked in turn, and a logistic regression learns what the ratio counts
    beside the rank of a score among those of all records, which is all that one threshold uses:
    the online attack is hardly worse than the best threshold, and no longer overconfident.

    References
    ----------
    N. Carlini, S. Chien, M. Nasr, S. Song, A. Terzis and F. Tramer. Membership inference attacks
    from first principles. IEEE S&P 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> y = X @ [1.0, 2.0] + rng.normal(size=60)
    >>> model = PrivateLinearRegression(noise_scale=1e-6, random_state=0).fit(X, y)
    >>> attack = LikelihoodRatioMembership(model).fit(X, y)
    >>> bool(attack.predict(model).all())
    True
    >>> bool(attack.expected_score(noise_scale=10.0).max() < 0.51)
    True

    Any estimator, by shadow models:

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X[:30], y[:30])
    >>> attack = LikelihoodRatioMembership(tree, n_shadow_models=16, random_state=0).fit(X, y)
    >>> attack.method_, bool(attack.score(tree, np.arange(60) < 30) > 0.6)
    ('online', True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "get_params"])],
        "method": [StrOptions({"auto", "exact", "online", "offline"})],
        "n_shadow_models": [Interval(Integral, 4, None, closed="left")],
        "statistic": [callable, None],
        "variance": [StrOptions({"auto", "per_record", "global"})],
        "prior": [Interval(Real, 0, 1, closed="neither")],
        "records": ["array-like", slice, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        method: Literal["auto", "exact", "online", "offline"] = "auto",
        n_shadow_models: int = 64,
        statistic: Callable[[Any, Any, Any], Any] | None = None,
        variance: Literal["auto", "per_record", "global"] = "auto",
        prior: float = 0.5,
        records: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.n_shadow_models = n_shadow_models
        self.statistic = statistic
        self.variance = variance
        self.prior = prior
        self.records = records
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    # Nested parameters are validated by the estimator itself.
    @fit_context(prefer_skip_nested_validation=False)
    @leaves_whole
    def fit(
        self,
        X: Any,
        y: Any,
        X_reference: Any = None,
        y_reference: Any = None,
        *,
        sample_weight: Any = None,
        reference_sample_weight: Any = None,
    ) -> Self:
        """Learn the laws of releases with and without each target.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n, n_columns)
            Exact: the raw training records, the targets among them. Shadow models: candidates,
            each of which may or may not be a member.
        y : array-like of shape (n,)
            Their true targets or labels.
        X_reference, y_reference : array-like of shape (m, n_columns) and (m,), default=None
            Raw records of the population other than the candidates, and their targets, for shadow
            models. They may or may not be members. Offline needs them.
        sample_weight, reference_sample_weight : array-like of shape (n,) and (m,), default=None
            Weights of the records in the fit under attack, which the adversary knows; in a
            pipeline they go to its last step. A record takes part with all of its weight, or not
            at all: one of weight 2 counts twice in a fit, and is one person. Reference records
            have weights of one where only the candidates' are passed.

        Returns
        -------
        self

        Raises
        ------
        AttackNotApplicableError
            For weights and an estimator that takes none. Exact: where the training objective is not
            known, with a reweighting, of more than two classes, or without a unique minimiser once
            a target is removed. Shadow models: for a classifier without probabilities.
        ValueError
            For an invalid parameter, missing targets, reference records that are missing, of other
            columns or labels, or the candidates, where a shadow model cannot be trained, for
            invalid weights, and for an estimator that was fitted with weights where none are given.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        known = X_reference is not None or y_reference is not None
        self.method_ = self.method
        if self.method == "auto":
            closed_form = not known and not removal_obstacle(last_step(self.estimator), y)
            self.method_ = "exact" if closed_form else "online"
        if self.method_ == "exact" and known:
            raise ValueError(
                "The exact test takes no reference records: its adversary knows all records that "
                "the model is trained on. Pass them as `X`, or use method='online'."
            )
        weights = sample_weight, reference_sample_weight
        if self.method_ == "exact":
            records = self._fit_exact(X, y, weights)
        else:
            check_weights_known(self.estimator, weighted=sample_weight is not None)
            records = self._fit_shadows(X, y, X_reference, y_reference, weights)
        self._remember_columns(records)
        self.classes_ = np.arange(2)
        self._prior, self._log_odds = float(self.prior), float(logit(self.prior))
        return self

    def _fit_exact(self, X: Any, y: Any, weights: tuple[Any, Any]) -> Any:
        table = X.tocsr() if sparse.issparse(X) else as_table(X)
        y = column_or_1d(y)
        check_consistent_length(table, y)
        self.records_ = resolve_records(self.records, table.shape[0])
        own, _ = weights_of_both(table, None, weights, "reference_sample_weight")
        self._test: ExactTest | ShadowTest
        self._test = test = fit_exact_test(self.estimator, table, y, self.records_, own)
        self.encodings_, self.distances_ = test.encodings, test.distances
        self.noise_scale_ = test.noise_scale
        return table

    def _fit_shadows(self, X: Any, y: Any, *known: Any) -> Any:
        candidates, reference = known_records(X, y, *known)
        offline = self.method_ == "offline"
        if offline and reference is None:
            raise ValueError(
                "Offline shadow models are trained on reference records alone. Pass "
                "`fit(X, y, X_reference, y_reference)`, or use method='online'."
            )
        self.records_ = resolve_records(self.records, len(candidates.y))
        plan = ShadowPlan(offline, self.n_shadow_models, self.statistic, self.variance)
        records = candidates, reference, self.records_
        run = self.random_state, self.n_jobs, self.verbose
        self._test = test = fit_shadow_test(self.estimator, *records, plan, *run)
        self.shadow_scores_, self.trained_on_ = test.scores, test.trained_on
        self.means_, self.scales_ = test.laws.means, test.laws.scales
        return candidates.X

    def decision_function(self, released: Any, noise_scale: Any = None) -> FloatArray:
        """Evidence that each target was a training record.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            What was released: fitted or released models. For the exact test also parameters of
            shape (n_parameters,) or (n_releases, n_parameters), coefficients then intercept.
        noise_scale : float or array-like of shape (n_releases,), default=None
            Exact only: standard deviation of the noise on every parameter. None takes what each
            released model states, and for arrays that of `estimator`.

        Returns
        -------
        ndarray of shape (n_targets,) or (n_releases, n_targets)
            Log posterior odds in nats, positive for members; offline minus the log of the
            p-value, the probability that a model without the record speaks as much for it.

        Raises
        ------
        TypeError
            Shadow models: for anything but fitted models.
        ValueError
            For a wrong width, values that are not finite, or a noise scale that is negative, of
            the wrong shape, not known, or passed with shadow models; for models of other columns
            or labels, or fitted with weights that the attack was not told.
        """
        check_is_fitted(self, "classes_")
        if isinstance(self._test, ExactTest):
            releases = self._test.read(released, noise_scale)
            self._test.warn_of_mismatch(releases)
            odds = self._test.log_ratio(releases) + self._log_odds
            return np.asarray(odds[0] if releases.single else odds)
        if noise_scale is not None:
            raise ValueError(
                "`noise_scale` is for the exact test; shadow models have the noise of `estimator`."
            )
        evidence = self._test.evidence(released)
        return evidence if self.method_ == "offline" else evidence + self._log_odds

    def predict(self, released: Any, noise_scale: Any = None) -> IntArray:
        """Guess which targets were trained on.

        Parameters
        ----------
        released, noise_scale : object
            As of `decision_function`.

        Returns
        -------
        ndarray of int of shape (n_targets,) or (n_releases, n_targets)
            1 for members, 0 for non-members: those likelier members than not, offline those of
            a p-value below `prior`, which then is the false positive rate.
        """
        scores = self.decision_function(released, noise_scale)
        threshold = -np.log(self._prior) if self.method_ == "offline" else 0.0
        return (scores > threshold).astype(np.intp)

    def predict_proba(self, released: Any, noise_scale: Any = None) -> FloatArray:
        """Posterior probability of being no member, and of being one.

        Parameters
        ----------
        released, noise_scale : object
            As of `decision_function`.

        Returns
        -------
        ndarray of shape (n_targets, 2) or (n_releases, n_targets, 2)
            In the order of ``classes_``; sums to 1.

        Raises
        ------
        AttackNotApplicableError
            Offline, where the scores of members are not known.
        """
        odds = self.decision_function(released, noise_scale)
        if self.method_ == "offline":
            raise AttackNotApplicableError(
                "Offline, no shadow model was trained on a candidate: there is a p-value "
                "(`decision_function`) but no probability. Use method='online'."
            )
        return np.stack([expit(-odds), expit(odds)], axis=-1)
