"""Membership by the likelihood ratio: exact where it is known, else from shadow models."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import sparse
from scipy.special import expit, logit
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import last_step, weights_of_both
from skleak.adversary.knowledge import as_column, as_table, resolve_records
from skleak.adversary.membership import removal_obstacle
from skleak.attacks.membership._base import ReferenceAttack
from skleak.attacks.membership._exact import ExactRates, ExactTest, fit_exact_test
from skleak.attacks.membership.shadow import ShadowPlan, ShadowTest, fit_shadow_test
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._sklearn_compat import HasMethods, Interval, StrOptions
from skleak.utils._typing import FloatArray, IntArray, RandomState


class LikelihoodRatioMembership(ExactRates, ReferenceAttack):
    """Test membership by the likelihood of the model with the record and without it.

    The likelihood ratio is the most powerful test (Neyman and Pearson). It is known in closed form
    for output perturbation and an adversary who knows every other record. For any other estimator
    it is estimated from the scores of shadow models that are trained with and without each record
    (LiRA: Carlini et al., IEEE S&P 2022).

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model under attack is trained; fitted or not, and never changed. The exact test uses
        fitted preprocessing as it is; shadow models fit everything anew.
    method : {"auto", "exact", "online", "offline"}, default="auto"
        "exact" is the test in closed form, for private estimators with isotropic noise, without
        reweighting and of at most two classes. "online" trains shadow models on halves of
        candidates and reference records; "offline" on halves of the reference records alone, and
        tests against the scores of non-members. "auto" is "exact" where that exists and no
        reference records are passed, else "online".
    n_shadow_models : int, default=64
        Number of shadow models, at least 4.
    statistic : callable or None, default=None
        Function of ``model, X, y`` that returns finite scores of shape (n_records,), larger for
        members. None takes the log odds of the true label, and the residual of a regressor.
    variance : {"auto", "per_record", "global"}, default="auto"
        Variance of the scores: of each record, pooled over all records, or ("auto") that of each
        record weighed against those of all, without `shrinkage` as if these were four scores.
    shrinkage : bool, default=True
        Whether means and variances are shrunk over records by empirical Bayes where `variance` is
        "auto": much is gained with few shadow models, and nothing lost with many.
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
    method_, records_, classes_ : str, ndarray of int of shape (n_targets,) and (2,)
        Method used; positions of the records under attack; 0 for non-members, 1 for members.
    encodings_, distances_ : ndarray of shape (n_targets, 2, n_parameters) and (n_targets,)
        Exact only: noiseless parameters, the intercept last, without the record and with it, and
        the Euclidean distance between the two. Confidential.
    noise_scale_ : float
        Exact only: noise taken for arrays of parameters; NaN where it is calibrated to data.
    shadow_scores_, trained_on_ : ndarray of shape (n_shadow_models, n_targets)
        Shadow models only: score of every target under each, and True where trained on it.
    means_, scales_ : ndarray of shape (n_targets, 2)
        Shadow models only: laws of the scores of non-members, and online of members; with
        `shrinkage` predictive ones, of scores softened by ``softness_``.
    softness_ : float
        Shadow models only: e of the softened log odds ``log((p + e) / (1 - p + e))`` that laws are
        of, chosen on the shadow models; 0 for any other score, offline and without `shrinkage`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, where records are rows of a table, and their names if any.

    Notes
    -----
    *Exact.* With D the distance of the encodings with and without the record over the noise scale,
    success at even odds is ``Phi(D / 2)``, and the power at false positive rate a ``Phi(Phi^-1(a) +
    D)``. No test beats the guarantee of differential privacy of an estimator that has one.

    *Shadow models.* Each is trained on half of the records: pass about twice as many as the model
    was trained on (offline, reference records). Copies of a candidate hide it. Without shadow
    models see `MembershipInference`, with fewer than eight `RobustMembershipInference`. See the
    user guide, docs/theory/membership.md.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> y = X @ [1.0, 2.0] + rng.normal(size=60)
    >>> attack = LikelihoodRatioMembership(PrivateLinearRegression()).fit(X, y)
    >>> bool(attack.expected_score(noise_scale=10.0).max() < 0.51)
    True
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
        "shrinkage": ["boolean"],
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
        shrinkage: bool = True,
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
        self.shrinkage = shrinkage
        self.prior = prior
        self.records = records
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _learn(self, known: tuple[Any, Any, Any, Any], weights: tuple[Any, Any]) -> Any:
        X, y, *reference = known
        others = any(part is not None for part in reference)
        self.method_ = self.method
        if self.method == "auto":
            closed_form = not others and not removal_obstacle(last_step(self.estimator), y)
            self.method_ = "exact" if closed_form else "online"
        if self.method_ == "exact" and others:
            raise ValueError(
                "The exact test takes no reference records: its adversary knows all records that "
                "the model is trained on. Pass them as `X`, or use method='online'."
            )
        exact = self.method_ == "exact"
        records = self._fit_exact(X, y, weights) if exact else self._fit_shadows(known, weights)
        self.classes_ = np.arange(2)
        self._prior, self._log_odds = float(self.prior), float(logit(self.prior))
        return records

    def _fit_exact(self, X: Any, y: Any, weights: tuple[Any, Any]) -> Any:
        table = X.tocsr() if sparse.issparse(X) else as_table(X)
        y = as_column(y, table)
        self.records_ = resolve_records(self.records, table.shape[0])
        own, _ = weights_of_both(table, None, weights, "reference_sample_weight")
        self._test: ExactTest | ShadowTest
        self._test = test = fit_exact_test(self.estimator, table, y, self.records_, own)
        self.encodings_, self.distances_ = test.encodings, test.distances
        self.noise_scale_ = test.noise_scale
        return table

    def _fit_shadows(self, known: tuple[Any, Any, Any, Any], weights: tuple[Any, Any]) -> Any:
        offline = self.method_ == "offline"
        candidates, reference = self._candidates(known, weights, offline=offline)
        plan = ShadowPlan(
            offline,
            self.n_shadow_models,
            self.statistic,
            self.variance,
            bool(self.shrinkage) and self.variance == "auto",
        )
        records = candidates, reference, self.records_
        self._test = test = fit_shadow_test(self.estimator, *records, plan, self._run)
        self.shadow_scores_, self.trained_on_ = test.models.scores, test.models.trained_on
        self.means_, self.scales_ = test.laws.means, test.laws.scales
        self.softness_ = test.laws.softness
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
            or labels, or fitted with weights that were not passed to `fit`.
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
        return self._guesses(*self._compared(released, noise_scale))

    def _compared(
        self, released: Any, noise_scale: Any = None
    ) -> tuple[FloatArray, FloatArray, bool]:
        scores = self.decision_function(released, noise_scale)
        # Evidence of the threshold itself tells neither.
        least = -np.log(self._prior) if self.method_ == "offline" else 0.0
        thresholds = np.array([np.nextafter(least, np.inf)])
        return np.atleast_2d(scores), thresholds, scores.ndim == 1

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
