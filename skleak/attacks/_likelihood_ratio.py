"""Membership by likelihood ratios: exact where they are known, else from shadow models."""

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import PublicModel, encoding_error, last_step, warn_of_mismatch
from skleak.adversary.knowledge import as_column, as_table, resolve_records
from skleak.adversary.membership import (
    PairTest,
    RecordScores,
    calibrated_threshold,
    check_rate,
    reference_rank,
    removal_obstacle,
    score_limit,
)
from skleak.adversary.models import ReleaseKind, Releases, read_releases
from skleak.adversary.records import Records
from skleak.adversary.shadow import LikelihoodRatios, Pooling, ShadowScores, dominated_shares
from skleak.attacks._membership import ShadowAttack
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.removal import removal_steps
from skleak.influence.state import alone_in_class
from skleak.utils._geometry import pair_success, true_positives
from skleak.utils._records import Persons
from skleak.utils._sklearn_compat import Interval, StrOptions
from skleak.utils._typing import FloatArray, IntArray


@dataclass(eq=False, repr=False)
class LikelihoodRatioMembership(ShadowAttack):
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

    _parameter_constraints = ShadowAttack._parameter_constraints | {
        "method": [StrOptions({"auto", "exact", "online", "offline"})],
        "n_shadow_models": [Interval(Integral, 4, None, closed="left")],
        "statistic": [callable, None],
        "variance": [StrOptions({"auto", "per_record", "global"})],
        "shrinkage": ["boolean"],
    }

    _: KW_ONLY
    method: Literal["auto", "exact", "online", "offline"] = "auto"
    n_shadow_models: int = 64
    statistic: RecordScores | None = None
    variance: Literal["auto", "per_record", "global"] = "auto"
    shrinkage: bool = True

    def _learn(self, candidates: Records, reference: Records | None) -> None:
        self.method_ = self.method
        if self.method == "auto":
            obstacle = removal_obstacle(last_step(self.estimator), candidates.y)
            self.method_ = "online" if obstacle or reference is not None else "exact"
        if self.method_ == "exact" and reference is not None:
            raise ValueError(
                "The exact test takes no reference records: its adversary knows all records that "
                "the model is trained on. Pass them as `X`, or use method='online'."
            )
        rows = resolve_records(self.records, len(candidates.y))
        if self.method_ == "exact":
            self._fit_exact(candidates, Persons.single(rows))
        else:
            self._fit_shadows(candidates, reference, rows)

    def _fit_exact(self, candidates: Records, persons: Persons) -> None:
        """Fit the exact test of rows, or of persons, who are members with all of their rows."""
        table = candidates.X if sparse.issparse(candidates.X) else as_table(candidates.X)
        y, weights = as_column(candidates.y, table), candidates.weights
        self.method_, self.records_ = "exact", persons.first
        model = PublicModel.of(self.estimator, table, y, weights=weights)
        obstacle = removal_obstacle(model.template, y)
        if obstacle:
            raise AttackNotApplicableError(
                f"There is no exact test on the parameters of {type(model.template).__name__}: "
                f"{obstacle}. Pass a private estimator of skleak.linear_model, or a pipeline that "
                "ends in one, with `reweighting=None` and at most two classes (one against the "
                "others); or use method='online', which trains shadow models."
            )
        fitted = clone(model.template).fit(model.transform(table), y, sample_weight=weights)
        state = fitted._confidential_state()
        own, targets = state.factor.coefficients, persons.first
        steps = removal_steps(state.objective, own, persons)
        lost = targets[np.isnan(steps).any(axis=1)]
        if len(lost):
            some = ", ".join(map(str, lost[:5].tolist())) + (", ..." if len(lost) > 5 else "")
            raise AttackNotApplicableError(
                f"Without some record ({len(lost)} of them: {some}) no unique minimizer of the "
                "training objective could be reached: what would have been released then is not "
                "defined. Pass an estimator with a larger `alpha`, or leave these records out of "
                "`records`."
            )
        alone = np.flatnonzero(alone_in_class(state, persons))
        if len(alone):
            raise AttackNotApplicableError(
                f"{len(alone)} of the `records`, the first at position {int(targets[alone[0]])}, "
                "are the only ones of their class, and the classes are read off the labels: a "
                "release tells of them without a test. Pass `classes`, or leave them out of "
                "`records`."
            )
        # Parameters without noise, and how far they move without each target.
        self._test = test = PairTest(own, steps, np.ones(len(steps), dtype=bool))
        self._kind = ReleaseKind.of(model, table, y)
        pair = own + steps, np.broadcast_to(own, steps.shape)
        self.encodings_, self.distances_ = np.stack(pair, axis=1), test.distances
        self.noise_scale_ = model.noise_scale
        self._finish()

    def _finish(self) -> None:
        self.classes_ = np.arange(2)
        self._prior, self._log_odds = float(self.prior), float(logit(self.prior))

    def _fit_shadows(self, candidates: Records, reference: Records | None, rows: IntArray) -> None:
        offline, shrinks = self.method_ == "offline", self.shrinkage and self.variance == "auto"
        self.records_ = rows
        self.shadow_scores_, self.trained_on_ = self._train(
            candidates, reference, rows, offline=offline
        )
        self._residuals = self._statistic is None and not self._probabilistic
        odds = self._statistic is None and self._probabilistic
        limit = score_limit(self.shadow_scores_) if odds else np.inf
        known = ShadowScores(
            self.shadow_scores_, self.trained_on_, self.variance, limit, self._residuals
        )
        if offline:
            pooling = Pooling() if shrinks else None
            laws = replace(known, trained_on=None, residuals=False, pooling=pooling).laws()
        else:
            # Of two models in turn, one was trained on what the other was not.
            pairs = np.arange(self.n_shadow_models // 2 * 2).reshape(-1, 2)
            if shrinks:
                known = replace(known, pooling=known.choose_pooling(pairs))
            self._evidence = known.evidence(pairs)
            laws = self._evidence.laws
        self._laws, self.softness_ = laws, laws.softness
        self.means_, self.scales_ = laws.means, laws.scales
        self._finish()

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
        if self.method_ == "exact":
            releases = self._read(released, noise_scale)
            given = releases.parameters, releases.noise_scale
            warn_of_mismatch(given[0], self.encodings_, given[1], encoding_error(self._test.own))
            odds = self._test.log_odds(*given, self._prior)
            return np.asarray(odds[0] if releases.single else odds)
        if noise_scale is not None:
            raise ValueError(
                "`noise_scale` is for the exact test; shadow models have the noise of `estimator`."
            )
        scores, single = self._scores_of(released)
        if self.method_ == "offline":
            evidence = self._laws.surprise(scores, two_ends=self._residuals)
        else:
            evidence = self._evidence.log_ratio(scores) + self._log_odds
        return evidence[0] if single else evidence

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

    def _read(self, released: Any, noise_scale: Any) -> Releases:
        noise = noise_scale, self.noise_scale_
        return read_releases(released, len(self._test.own), *noise, self._kind)

    def _separations(self, noise_scale: float | None, measured: str) -> FloatArray:
        """``D``: distance of the encodings over the noise, of shape (n_targets,)."""
        check_is_fitted(self, "classes_")
        if self.method_ != "exact":
            raise AttackNotApplicableError(
                f"Nothing is known in closed form with method={self.method_!r}: measure it on "
                f"models of known members, with `{measured}`."
            )
        return self._test.separations(self._read(self._test.own, noise_scale).noise_scale[0])

    def expected_score(self, noise_scale: float | None = None) -> FloatArray:
        """Exact probability that `predict` is right, for every target.

        Parameters
        ----------
        noise_scale : float or None, default=None
            Noise of the release; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_targets,)
            In [max(prior, 1 - prior), 1]: ``Phi(D / 2)`` at even odds.

        Raises
        ------
        AttackNotApplicableError
            With shadow models; `score` measures it.
        """
        return pair_success(self._separations(noise_scale, "score"), self._prior)

    def expected_true_positive_rate(
        self, false_positive_rate: npt.ArrayLike, noise_scale: float | None = None
    ) -> FloatArray:
        """Receiver operating characteristic of the test on every target: exact.

        Parameters
        ----------
        false_positive_rate : float or array-like of shape (k,)
            Share of the releases without the record that are called with it, in [0, 1].
        noise_scale : float or None, default=None
            Noise of the release; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_targets,) or (n_targets, k)
            Largest share of the releases with the record that any test of that false positive
            rate finds, ``Phi(Phi^-1(a) + D)``.

        Raises
        ------
        AttackNotApplicableError
            With shadow models; `true_positive_rate` measures it.
        ValueError
            For a rate outside [0, 1].
        """
        gap = self._separations(noise_scale, "true_positive_rate")
        rate = check_rate(false_positive_rate)
        return true_positives(gap[:, None] if rate.ndim else gap, rate)


@dataclass(eq=False, repr=False)
class RobustMembershipInference(ShadowAttack):
    """Guess members by how far their likelihood ratio exceeds those of the population (RMIA).

    The likelihood of a record under the model is compared with its mean under reference models, and
    this ratio with the ratios of other records of the population under the same model. Two
    reference models tell much, where laws of scores need eight (`LikelihoodRatioMembership`).

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model under attack is trained; fitted or not, and never changed.
    method : {"online", "offline"}, default="online"
        "online" trains reference models on halves of candidates and reference records; "offline"
        on halves of the reference records alone, once for all candidates.
    n_shadow_models : int, default=4
        Number of reference models, at least 2.
    gamma : float, default=1.0
        Factor, at least 1, by which a ratio must exceed another to dominate it. It changes how
        models compare with one another, not the order of records under one model.
    interpolation : {"auto"} or float in [0, 1], default="auto"
        a of ``((1 + a) p_out + 1 - a) / 2``, the mean likelihood of a record that no reference
        model was trained on. "auto" is the slope of ``p_in - 1`` against ``p_out - 1`` among the
        records that have both; the model under attack plays no part.
    prior : float, default=0.5
        Share of members that the adversary expects among the candidates, in (0, 1).
    records : array-like of int, boolean mask, slice or None, default=None
        Records of X under attack; all by default.
    n_jobs : int or None, default=None
        Number of models trained in parallel, as in joblib. Results do not depend on it.
    verbose : int, default=0
        Above 0, a progress bar.
    random_state : None, int, RandomState or Generator, default=None
        Seed of the reference models and of their training sets.

    Attributes
    ----------
    records_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.
    usual_likelihoods_ : ndarray of shape (n_targets,)
        Mean likelihood of each under the reference models, in (0, 1].
    interpolation_ : float
        The a that was used.
    n_population_ : int
        Number of records of the population that ratios are compared with.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, where records are rows of a table, and their names if any.

    See Also
    --------
    LikelihoodRatioMembership : More is found from eight shadow models on.

    Notes
    -----
    With p(x | t) the likelihood of record x under model t and p(x) its mean over models that were
    trained with and without x in equal parts, the score of x is the share of records z of the
    population for which ``(p(x | t) / p(x)) / (p(z | t) / p(z)) >= gamma`` (Zarifzadeh et al.
    2024). The population are the reference records, or the candidates without. The likelihood is
    the probability of the true label; of a regressor ``exp(-r^2 / (2 s^2))``, the Gaussian density
    of the residual r relative to a perfect fit, with s the root mean square of the residuals of
    records under reference models without them. Equal scores are ordered by the ratio, which adds
    less than 1e-9.

    Each model is trained on half of the records: pass about twice as many as the model was trained
    on (offline, reference records). See the user guide, docs/theory/membership.md.

    References
    ----------
    S. Zarifzadeh, P. Liu, R. Shokri. Low-Cost High-Power Membership Inference Attacks. ICML 2024,
    arXiv:2312.03262.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    >>> forest = RandomForestClassifier(20, random_state=0)
    >>> attack = RobustMembershipInference(forest, n_shadow_models=2, random_state=0).fit(X, y)
    >>> model = forest.fit(X[:100], y[:100])
    >>> bool(attack.score(model, np.arange(200) < 100) > 0.65)
    True
    """

    _parameter_constraints = ShadowAttack._parameter_constraints | {
        "method": [StrOptions({"online", "offline"})],
        "n_shadow_models": [Interval(Integral, 2, None, closed="left")],
        "gamma": [Interval(Real, 1, None, closed="left")],
        "interpolation": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="both")],
    }

    _: KW_ONLY
    method: Literal["online", "offline"] = "online"
    n_shadow_models: int = 4
    gamma: float = 1.0
    interpolation: "Literal['auto'] | float" = "auto"

    def _learn(self, candidates: Records, reference: Records | None) -> None:
        offline = self.method == "offline"
        self.records_ = resolve_records(self.records, len(candidates.y))
        n = len(candidates.y)
        others = np.arange(n) if reference is None else n + np.arange(len(reference.y))
        self.n_population_ = len(others)
        reference_rank(self.prior, len(others))  # raises where there are too few
        asked = np.concatenate([self.records_, others])
        self._shadows = self._train(candidates, reference, asked, offline=offline)
        own = None if self.interpolation == "auto" else float(self.interpolation)
        self._likelihoods = LikelihoodRatios(*self._shadows, self._probabilistic, own)
        self.interpolation_ = self._likelihoods.interpolation
        self.usual_likelihoods_ = self._likelihoods.usual[: len(self.records_)]
        self._gamma, self._prior = float(self.gamma), float(self.prior)

    def _ratios(self, released: Any) -> tuple[FloatArray, FloatArray, bool]:
        """Ratios of targets and of the population (n_models, ...), and whether one was asked."""
        check_is_fitted(self, "records_")
        scores, single = self._scores_of(released)
        n = len(self.records_)
        ratios = self._likelihoods.under(scores)
        return ratios[:, :n], ratios[:, n:], single

    def decision_function(self, released: Any) -> FloatArray:
        """Share of the population that each target dominates.

        Parameters
        ----------
        released : estimator, pipeline, or list of them
            Fitted or released models under attack.

        Returns
        -------
        ndarray of shape (n_targets,) or (n_models, n_targets)
            In [0, 1], larger for members.

        Raises
        ------
        TypeError
            For anything but fitted models.
        ValueError
            For models of other columns or labels, of another kind than `estimator`, or fitted with
            weights that were not passed to `fit`.
        """
        ratios, others, single = self._ratios(released)
        pairs = zip(ratios, others, strict=True)
        shares = np.stack([dominated_shares(own, rest, self._gamma) for own, rest in pairs])
        return shares[0] if single else shares

    def _compared(self, released: Any) -> tuple[FloatArray, FloatArray, bool]:
        ratios, others, single = self._ratios(released)
        thresholds = np.array([calibrated_threshold(rest, self._prior) for rest in others])
        return ratios, thresholds, single
