"""The parts of the docstrings that all private linear models share, written once."""

from inspect import cleandoc
from textwrap import indent
from typing import TypeVar

Class = TypeVar("Class", bound=type)

_PARTS = {
    "parameters": """
Parameters
----------
noise_scale : float or NoiseGoal, default=0.01
    Standard deviation of the Gaussian noise added to each coefficient and the intercept, in
    their units; with a ``noise_covariance`` its root mean square over them. At 0 the fit is exact
    and leakage infinite. A goal from `skleak.mechanisms` (``MaxLeakage``, ``MaxAdvantage``,
    ``GaussianDP``, ``EpsilonDelta``) is resolved in ``fit`` to the smallest noise that reaches it.
    The first two read the noise off the data: they are rounded up to a power of the square root
    of two, and ``fit`` raises where that gives an entry of few values away.
noise_covariance : {"isotropic", "curvature", "minimax"}, array-like or NoiseKind
    Shape S of the noise ``N(0, noise_scale^2 S)``, scaled to ``tr S = p``, the number of
    coefficients and the intercept, which comes last. "isotropic" is the identity. "curvature" is
    ``S = p A / tr A`` with A the inverse Hessian of this very fit: more noise where it costs the
    training objective less. "minimax" is the geometric mean of A and ``sum_i s_i J_i J_i^T``, J_i
    the derivative of the parameters by record i: more noise, too, where records move the
    parameters more. It minimises the mean squared loss through the mean of the release at an
    equal expected rise of the objective, and is the minimax shape with the least favourable
    weights of the records replaced by equal ones, so that no record determines it. It is not the
    exact minimax shape, which lowers the largest loss further but is determined by a few
    records, and gives them away. As "curvature" and "minimax" depend on the data, so does the
    covariance, and the leakage counts both what the mean and what the covariance of a release
    tell: ``I_ab = dw_a^T C^-1 dw_b + tr(C^-1 dC_a C^-1 dC_b) / 2``, ``C = noise_scale^2 S``. The
    second term does not fall with the noise scale. A matrix of shape (p, p) must come from public
    knowledge, for instance ``skleak.influence.minimax_shape(model).shape``, the exact minimax
    shape, of a model fitted on public records; a `skleak.mechanisms.NoiseKind` is the public rule
    for one. The default is "isotropic". Only "isotropic" goes with a reweighting or with
    more than two classes, and there is no differential-privacy guarantee under "curvature" or
    "minimax".
alpha : float, default=1e-2
    Strength of the penalty, relative to the *mean* loss; the intercept is not penalised.
    scikit-learn's ``Ridge(alpha=N * alpha)``, ``LogisticRegression(C=1 / (N * alpha))`` and
    ``PoissonRegressor(alpha=alpha)`` have the same minimiser, with N the sum of the weights.
fit_intercept : bool, default=True
    Whether to fit an intercept.
private_target : bool, default=True
    Count the target as unknown to the attacker ([FIL21]); with False it is public ([DRA22]).
reweighting : {"irfil", "total"}, `IRFIL`, `EvenTotal` or None, default=None
    Reweight the records; of two classes at most. "irfil": until all of them would leak the same if
    their weights were fixed ([FIL21] algorithm 1). "total": to even the leakage that is reported,
    which counts what the weights reveal. Neither makes it equal, and the largest value may be
    larger than without a reweighting: compare them on your data. The names stand for the objects
    with their default parameters.
data_norm : float or None, default=None
    A promise that no row of X is longer (Euclidean norm). It is enforced by an error, and must
    not be read off the data. Needed for a differential-privacy guarantee.
public : str or sequence of str, default=()
    Of "n_samples" and "sample_weight", those that count as public knowledge. The noise that a
    guarantee of differential privacy needs is a function of the number of records, and of the
    weights where there are any: without this statement no guarantee is claimed.
max_iter : int, default=100
    Largest number of Newton steps of a fit.
tol : float, default=1e-10
    Norm of the gradient of the objective at which a fit stops (or rounding noise, where that is
    larger).
random_state : None, int, RandomState or Generator, default=None
    Source of the noise. None draws exact discrete Gaussian noise from the operating system's
    cryptographic randomness. Anything else is for experiments only: a seed can be guessed, and a
    generator is copied by ``clone``, so that all copies draw the same noise. No guarantee holds
    then, ``release()`` warns, and a ledger counts the loss as infinite.
ledger : str, Path, LeakageLedger or None, default=None
    A `skleak.accounting.LeakageLedger` file in which every fit enters its leakage before noise is
    drawn, and which refuses the fit that would pass its ceiling. A path is only opened: make the
    file first, ``LeakageLedger(path, max_leakage=...)``; it holds the ceilings. Every clone writes
    to the same file: a grid search spends one release per fit. Every record is charged the
    largest loss of the fit, as a fold does not know which record is which.
ledger_dataset : str, default="default"
    Name under which the ledger counts releases of this data set.
verbose : int, default=0
    Show progress bars of the reweighting, and of what it makes costly.
""",
    "attributes": """
Attributes
----------
coef_ : ndarray of shape (n_features,), or (1, n_features) for a classifier of two classes
    Noisy coefficients.
intercept_ : float, or ndarray of shape (1,) for a classifier of two classes
    Noisy intercept; zero without one.
noise_scale_ : float
    Standard deviation of the noise that was added; its root mean square over the parameters.
noise_step_ : float
    All released parameters are multiples of this power of two: 2^-30 of the noise scale, rounded
    down, or more where doubles hold no finer multiples; 0 without noise.
noise_sampler_ : str
    How the noise was drawn.
coef_noise_scale_, intercept_noise_scale_ : ndarray or float of the shapes above, or None
    Standard error that the noise adds to each coefficient and to the intercept; None where it
    depends on the records.
fisher_information_loss_ : ndarray of shape (n_samples,)
    Fisher information loss of each training record: spectral norm of its influence Jacobian
    over ``noise_scale_``, in 1 / (unit of the columns); NaN where the fit did not converge; with a
    ``noise_covariance``, square root of the largest eigenvalue of its Fisher information. With
    reweighting, of the influence of the
    record on the whole algorithm, weights included; this costs O(n p^3) and is computed when first
    asked for, so that a pickle holds it only if it was. Confidential.
diagonal_fisher_information_loss_ : ndarray of shape (n_samples,)
    Root mean square over the unknowns of the record ([DRA22] 7.1); the same holds. Confidential.
conditional_fisher_information_loss_ : ndarray of shape (n_samples,)
    With reweighting: the loss if the weights were fixed ([FIL21] eq. 29), which is what "irfil"
    makes equal. It understates the leakage of most records. Confidential.
sample_reweights_ : ndarray of shape (n_samples,)
    With reweighting: the factor of each record; ``sum s omega = sum s``. Confidential.
reweighting_history_ : ndarray of shape (n_fits,)
    With reweighting: relative spread of the balanced leakage at each fit.
n_reweighting_iter_ : int
    With reweighting: number of refits after the first.
n_iter_ : int
    Newton steps of the fit.
n_features_in_ : int
    Number of columns.
feature_names_in_ : ndarray of str
    Column names, where X had them.
""",
    "notes": """
Notes
-----
The noise lies on a public grid (Canonne, Kamath, Steinke 2020): floating-point noise would give
the noiseless parameters away by its last bits. Where it has a shape the grid is kept, but its
arithmetic is floating point, and no exactness is claimed.

The leakage bounds *unbiased* attackers who know every other record, every other column, the
algorithm and its parameters; it is a local measure at the training data, and it counts this
release alone. The unreleased estimator is confidential: publish ``release()``.
""",
    "references": """
References
----------
[FIL21] Hannun, Guo, van der Maaten. Measuring Data Leakage in Machine-Learning Models with
Fisher Information. UAI 2021.

[DRA22] Guo, Karrer, Chaudhuri, van der Maaten. Bounding Training Data Reconstruction in Private
(Deep) Learning. ICML 2022.

[CMS11] Chaudhuri, Monteleoni, Sarwate. Differentially Private Empirical Risk Minimization.
JMLR 2011.
""",
}


def with_shared_doc(cls: Class) -> Class:
    """Fill ``{parameters}``, ``{attributes}``, ``{notes}`` and ``{references}`` of a docstring.

    Returns: the same class.
    """
    doc = cleandoc(cls.__doc__ or "")
    for name, text in _PARTS.items():
        doc = doc.replace("{" + name + "}", text.strip())
    cls.__doc__ = indent(doc, "    ").strip() + "\n"
    return cls
