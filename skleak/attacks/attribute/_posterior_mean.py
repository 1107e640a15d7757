"""The least squared error about a number, by an adversary with a prior density of it."""

from typing import Any, ClassVar, Literal, Self

import numpy as np

from skleak.adversary.knowledge import (
    NumberPrior,
    Secret,
    number_prior,
    read_secret,
    without_attribute,
)
from skleak.adversary.reconstruction import NumberEncodings, posterior_mean
from skleak.attacks.attribute._white_box import WhiteBoxAttributeInference
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._random import make_generator
from skleak.utils._typing import Array, FloatArray, RandomState


class PosteriorMeanReconstruction(WhiteBoxAttributeInference):
    """Estimate a number from released parameters by the mean of its posterior.

    The adversary knows what that of `WhiteBoxAttributeInference` knows, and a prior density f of
    the number z. With the noiseless parameters e(z) had it been z, the guess is

        E[z | release],   p(z | release) ~ f(z) exp(-||release - e(z)||^2 / (2 noise_scale^2)) ,

    which errs least in the mean square: its error is the Bayes risk. Unlike the likeliest value it
    is never worse than the mean of the prior, on average over the prior.

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model is trained, as in `WhiteBoxAttributeInference`.
    attribute : str or int
        Sensitive column of the raw data, of numbers, by name or position.
    prior : {"marginal", "uniform", "conditional"}, distribution or pair, default="marginal"
        Density of the number: of the *other* records, by normal kernels; equal; normal about the
        value that a cross-fitted ridge regression on all else about the record imputes, as wide as
        its residuals; a frozen distribution of `scipy.stats`; or a pair of ascending values and
        their probabilities, between which the density is linear. All of them fall to zero at the
        ends of the range of the other records, widened by half on both sides.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.
    refit_preprocessing : bool, default=False
        As in `WhiteBoxAttributeInference`.
    n_jobs : int or None, default=None
        Parallel jobs where candidates are refitted.

    Attributes
    ----------
    prior_mean_, prior_variance_ : ndarray of shape (n_targets,)
        Best guess before the release, and its expected squared error. A target's own value does
        not enter.
    encodings_, values_ : ndarray of shape (n_targets, 33, n_parameters) and (n_targets, 33)
        Noiseless parameters at the nodes between which they are interpolated. Confidential.
    records_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.
    noise_scale_ : float
        Noise taken for arrays of parameters.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, and their names where they have any.

    See Also
    --------
    skleak.bounds.bayes_mse : The error of this attack, by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> y = X @ [1.0, 2.0] + rng.normal(size=80)
    >>> model = PrivateLinearRegression(noise_scale=1e-4, random_state=0).fit(X, y)
    >>> attack = PosteriorMeanReconstruction(model, 0).fit(X, y)
    >>> attack.score(model, X[:, 0]) > 0.99
    True
    >>> mse, error = attack.expected_mse(1000.0)
    >>> bool(np.allclose(mse, attack.prior_variance_, rtol=1e-3))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: wanted
        for name, wanted in WhiteBoxAttributeInference._parameter_constraints.items()
        if name != "values"
    }

    # A number has no candidate values.
    values = None

    def __init__(
        self,
        estimator: Any,
        attribute: Any,
        *,
        prior: "Literal['marginal', 'uniform', 'conditional'] | Any" = "marginal",
        records: Any = None,
        refit_preprocessing: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.attribute = attribute
        self.prior = prior
        self.records = records
        self.refit_preprocessing = refit_preprocessing
        self.n_jobs = n_jobs

    def _know(self, X: Any, y: Any) -> tuple[Any, Array, Secret]:
        table, y, secret = self._read_table(X, y)
        self._remember(table, secret)
        self._learn_prior(table, y, secret)
        return table, y, secret

    def _secret(self, table: Any, y: Array) -> Secret:
        secret = read_secret(table, y, self.attribute)[0]
        if secret.numeric:
            return secret
        column = np.asarray(secret.column)
        if column.dtype.kind not in "iuf":
            raise AttackNotApplicableError(
                f"The attribute {self.attribute!r} is no number: its values have no mean. Use "
                "WhiteBoxAttributeInference."
            )
        # A number of few values is one nevertheless, whose error is squared.
        return Secret(secret.index, column.astype(np.float64), None, secret.codes[:0])

    def _learn_prior(self, table: Any, y: Array, secret: Secret) -> None:
        known = table if secret.is_target else without_attribute(table, secret.index)
        targets = None if secret.is_target else y
        self._density: NumberPrior = number_prior(
            self.prior, known, targets, secret.column, self.records_
        )
        self.prior_mean_, self.prior_variance_ = self._density.mean, self._density.variance

    @classmethod
    def _sharing(cls, white_box: WhiteBoxAttributeInference, prior: Any, X: Any, y: Any) -> Self:
        """Fitted attack with the encodings of a fitted white box, on the same records."""
        parameters = white_box.get_params(deep=False)
        own = {name: value for name, value in parameters.items() if name != "values"}
        attack = cls(**own | {"prior": prior})
        fitted = vars(white_box).items()
        attack.__dict__.update({name: v for name, v in fitted if name not in parameters})
        table, y, secret = attack._read_table(X, y)
        attack._learn_prior(table, y, secret)
        return attack

    def _likeliest(self, scores: FloatArray) -> FloatArray:
        """Means of the posteriors, where the base class has likeliest values."""
        return posterior_mean(scores, self.values_[:, 0], self.values_[:, -1], self._density)

    def expected_mse(
        self, noise_scale: float | None = None, *, random_state: RandomState = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Squared error of this attack about each record, for numbers drawn from its prior.

        It is the Bayes risk: no attack that knows the prior errs less on average.

        Parameters
        ----------
        noise_scale : float or None, default=None
            Noise of the release; None takes that of `estimator`.
        random_state : None, int, RandomState or Generator, default=0
            Seed, where a risk is simulated.

        Returns
        -------
        mse, error : ndarray of shape (n_records,)
            As of `skleak.bounds.bayes_mse`; NaN where the encodings are not smooth in the number.

        Raises
        ------
        AttackNotApplicableError
            For noise whose covariance depends on the number.
        """
        self._fitted_numeric()
        if self._shaped is not None:
            raise AttackNotApplicableError(
                "The Bayes risk is not known where the covariance of the noise depends on the "
                "number. Take the bound of van Trees, `skleak.bounds.van_trees_mse`."
            )
        scale = self.noise_scale_ if noise_scale is None else noise_scale
        return self._encodings_of_numbers().bayes(scale, make_generator(random_state))

    def _encodings_of_numbers(self) -> NumberEncodings:
        return NumberEncodings(self._points, self.values_[:, 0], self.values_[:, -1], self._density)
