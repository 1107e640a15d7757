"""Membership by pairwise likelihood ratios with the population: few reference models do."""

from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.membership import calibrated_threshold, reference_rank
from skleak.attacks.membership._base import ReferenceAttack
from skleak.attacks.membership.shadow import (
    dominated_shares,
    interpolation_of,
    likelihoods,
    residual_scale,
    train_shadow_models,
    usual_likelihoods,
)
from skleak.utils._sklearn_compat import HasMethods, Interval, StrOptions
from skleak.utils._typing import FloatArray, RandomState


class RobustMembershipInference(ReferenceAttack):
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "get_params"])],
        "method": [StrOptions({"online", "offline"})],
        "n_shadow_models": [Interval(Integral, 2, None, closed="left")],
        "gamma": [Interval(Real, 1, None, closed="left")],
        "interpolation": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="both")],
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
        method: Literal["online", "offline"] = "online",
        n_shadow_models: int = 4,
        gamma: float = 1.0,
        interpolation: "Literal['auto'] | float" = "auto",
        prior: float = 0.5,
        records: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.n_shadow_models = n_shadow_models
        self.gamma = gamma
        self.interpolation = interpolation
        self.prior = prior
        self.records = records
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _learn(self, known: tuple[Any, Any, Any, Any], weights: tuple[Any, Any]) -> Any:
        offline = self.method == "offline"
        candidates, reference = self._candidates(known, weights, offline=offline)
        n = len(candidates.y)
        others = np.arange(n) if reference is None else n + np.arange(len(reference.y))
        self.n_population_ = len(others)
        reference_rank(self.prior, len(others))  # raises where there are too few
        self._models = models = train_shadow_models(
            self.estimator,
            candidates,
            reference,
            np.concatenate([self.records_, others]),
            offline=offline,
            n_models=self.n_shadow_models,
            run=self._run,
        )
        self._scale = 1.0
        if not models.probabilistic:
            self._scale = residual_scale(models.scores, models.trained_on)
        likelihood = likelihoods(models.scores, models.probabilistic, self._scale)
        self.interpolation_ = interpolation_of(likelihood, models.trained_on)
        if self.interpolation != "auto":
            self.interpolation_ = float(self.interpolation)
        self._usual = usual_likelihoods(likelihood, models.trained_on, self.interpolation_)
        self.usual_likelihoods_ = self._usual[: len(self.records_)]
        self._gamma, self._prior = float(self.gamma), float(self.prior)
        return candidates.X

    def _ratios(self, released: Any) -> tuple[FloatArray, FloatArray, bool]:
        """Ratios of targets and of the population (n_models, ...), and whether one was asked."""
        check_is_fitted(self, "records_")
        scores, single = self._models.scores_of(released)
        found = likelihoods(scores, self._models.probabilistic, self._scale)
        n = len(self.records_)
        ratios = found / self._usual
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
