"""Private Poisson regression."""

from typing import Any, ClassVar

import numpy as np

from skleak._released import CountRegressionMixin, ReleasedModel, ReleasedPoissonRegressor
from skleak.linear_model._base import PrivateLinearModel
from skleak.losses import PointwiseLoss, PoissonLoss
from skleak.utils._records import row_label
from skleak.utils._typing import Array, FloatArray


class PrivatePoissonRegressor(CountRegressionMixin, PrivateLinearModel):
    """Poisson regression with log link and output perturbation that measures its leakage.

    Minimise, with ``a_i = x_i.w + b``,

        sum_i s_i omega_i (exp(a_i) - y_i a_i) / N + alpha / 2 ||w||^2

    with sample weights s_i of sum N and factors omega_i of a reweighting; measure by Fisher
    information what every record leaks ([FIL21]); and add Gaussian noise to all parameters. The
    Poisson loss has no bounded derivative, and so no differential-privacy guarantee.
    Only ``release()`` may be published. See the user guide, docs/theory/leakage.md.

    Parameters
    ----------
    noise_scale : float or NoiseGoal, default=0.01
        Standard deviation of the noise on each parameter, in its units, or a goal of
        `skleak.mechanisms`, which ``fit`` resolves to the smallest noise that reaches it (rounded
        up, or refused, where the goal reads the data). At 0 leakage is infinite.
    noise_covariance : str, array-like or NoiseKind, default="isotropic"
        Shape S of the noise ``N(0, noise_scale^2 S)``, ``tr S = p``: "isotropic"; a public (p, p)
        matrix, intercept last, or rule; or, from the data, "curvature" or "minimax", whose leakage
        by the covariance is counted. Only "isotropic" goes with a reweighting.
    alpha : float, default=1e-2
        Penalty relative to the *mean* loss: scikit-learn's ``PoissonRegressor(alpha=alpha)``.
    fit_intercept : bool, default=True
        Fit an intercept, which is not penalised.
    private_target : bool, default=True
        Count the target as unknown to the attacker ([FIL21]); with False it is public ([DRA22]).
    reweighting : {"irfil", "total"}, IRFIL, EvenTotal or None, default=None
        Weight the records to even their leakage, either with these weights held fixed ([FIL21]
        algorithm 1) or in total. Neither makes it equal, and the largest loss may rise.
    data_norm : float or None, default=None
        Public upper bound on the Euclidean norm of a row of X; a longer row is an error.
    public : str or sequence of str, default=()
        Which of "n_samples" and "sample_weight" are public knowledge.
    max_iter : int, default=100
        Largest number of Newton steps of a fit.
    tol : float, default=1e-10
        Gradient norm at which a fit stops, or rounding noise where that is larger.
    random_state : None, int, RandomState or Generator, default=None
        None draws noise from the operating system's cryptographic randomness. All else can be
        replayed, and is for experiments: no guarantee holds, and a ledger enters infinity.
    ledger : str, Path, LeakageLedger or None, default=None
        A `skleak.accounting.LeakageLedger` or the path of an existing one. Each fit, also of a
        clone, charges every record its largest loss before noise is drawn, or is refused.
    ledger_dataset : str, default="default"
        Name of this data set in the ledger.
    verbose : int, default=0
        Above 0, progress bars under a reweighting.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features,), float
        Noisy parameters; an intercept of zero without one.
    coef_noise_scale_, intercept_noise_scale_ : ndarray, float or None
        Standard errors that the noise adds; None where they depend on the records.
    noise_scale_, noise_step_, noise_sampler_ : float, float, str
        Root mean square of the noise; step of its grid, a power of two; how it was drawn.
    fisher_information_loss_, diagonal_fisher_information_loss_ : ndarray of shape (n_samples,)
        Loss of each training record in 1 / (unit of the columns), and its root mean square over
        the unknowns ([DRA22] 7.1). NaN if not converged; total under a reweighting. Confidential.
    conditional_fisher_information_loss_, sample_reweights_ : ndarray of shape (n_samples,)
        Under a reweighting: the loss if its factors omega were fixed ([FIL21] eq. 29), less than
        most records leak; and these factors, ``sum s omega = N``. Confidential.
    reweighting_history_, n_reweighting_iter_ : ndarray of shape (n_fits,), int
        Under a reweighting: relative spread of the balanced leakage at each fit; refits.
    n_iter_, n_features_in_, feature_names_in_ : int, int, ndarray of str
        Newton steps; number of columns, and their names where X has them.
    n_passes_ : int
        Passes over records that lie outside memory, of all that ``fit`` did.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = rng.poisson(np.exp(0.5 * X[:, 0] + 1.0))
    >>> model = PrivatePoissonRegressor(noise_scale=0.02, random_state=0).fit(X, y)
    >>> bool(abs(model.coef_[0] - 0.5) < 0.15)
    True
    """

    _loss: ClassVar[PointwiseLoss] = PoissonLoss()
    _released: ClassVar[type[ReleasedModel]] = ReleasedPoissonRegressor

    def _encode_targets(self, y: Array, records: Any, *, fitted: bool = False) -> FloatArray:
        y = np.array(y, dtype=np.float64).ravel()  # a copy: targets are kept
        negative = np.flatnonzero(y < 0.0)
        if len(negative):
            self._refuse_negative(len(negative), row_label(records, int(negative[0])))
        return y

    @staticmethod
    def _refuse_negative(count: int, label: str) -> None:
        raise ValueError(
            f"Counts must not be negative; got {count} negative targets, the first of "
            f"them in {label}. PrivatePoissonRegressor models "
            "counts: for other targets use PrivateLinearRegression."
        )

    def _check_targets(self, masses: FloatArray) -> None:
        if self.fit_intercept and masses[0] == 0.0:
            raise ValueError(
                "All counts with a positive weight are zero: the intercept has no finite "
                "minimiser. Pass at least one positive count, or set `fit_intercept=False`."
            )
