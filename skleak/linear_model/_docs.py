"""The parts of the docstrings that all private linear models share, written once."""

from inspect import cleandoc
from textwrap import indent
from typing import TypeVar

__all__ = ["with_shared_doc"]

Class = TypeVar("Class", bound=type)

_PARTS = {
    "parameters": """
Parameters
----------
noise_scale : float or NoiseTarget, default=0.01
    Standard deviation of the Gaussian noise added to each coefficient and the intercept, in
    their units; with a ``noise_covariance`` its root mean square over them. At 0 the fit is exact
    and leakage infinite. A target from `skleak.mechanisms` (``MaxLeakage``, ``MaxAdvantage``,
    ``GaussianDP``, ``EpsilonDelta``) is resolved in ``fit`` to the smallest noise that reaches it;
    the first two read the noise off the data.
noise_covariance : {"isotropic", "curvature", "minimax"} or array-like, default="isotropic"
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
    shape, of a model fitted on public records. Only "isotropic" goes with a reweighting or with
    more than two classes, and there is no differential-privacy guarantee under "curvature" or
    "minimax".
alpha : float, default=1e-2
    Strength of the penalty, relative to the *mean* loss; the intercept is not penalised.
    scikit-learn's ``Ridge(alpha=N * alpha)``, ``LogisticRegression(C=1 / (N * alpha))`` and
    ``PoissonRegressor(alpha=alpha)`` have the same minimiser, with N the sum of the weights.
fit_intercept : bool, default=True
    Whether to fit an intercept.
target : {"private", "public"}, default="private"
    Whether an attacker is after the target too ([FIL21]) or knows it ([DRA22]).
reweighting : {"irfil", "total"} or None, default=None
    Reweight the records; of two classes at most. "irfil": until all of them would leak the same if
    their weights were fixed ([FIL21] algorithm 1). The weights are functions of the data, which
    the formula of [FIL21] leaves out. The leakage reported counts them: it is mostly more even
    than without a reweighting, but not equal, and its largest value may even be larger. "total"
    evens the leakage that is reported: weights have a bound, and residuals count for less. It is
    not equal either, and a warning tells its spread. It is mostly more even than under "irfil"
    where that is uneven (a spread above 0.1), and about as even elsewhere; the largest value may
    be larger than under "irfil" or without a reweighting. Compare them on your data.
reweighting_features : str, int, slice or list, default=None
    Balance the leakage of this block of columns (names or indices) instead of the whole
    record.
reweighting_target : {"record", "features", "trace"} or None, default=None
    What is balanced: the spectral leakage of the whole record, or of
    ``reweighting_features``; or the trace (diagonal) leakage of either. None chooses "features"
    where ``reweighting_features`` is given, else "record".
reweighting_method : {"accelerated", "newton", "plain"}, default="accelerated"
    Anderson-accelerated fixed-point iteration that goes over to Newton's method where it is slow;
    Newton's method from the first fit on, of fewer fits but with more work in between; or the
    plain iteration of [FIL21].
max_reweighting_iter : int, default=30
    Largest number of refits after the first. Most problems need less than 20. Allow 150 for hard
    ones: where 30 refits have not halved the spread, and it is still above 1e-3, the weights are
    bounded, and the bound is raised step by step (but for the plain iteration).
reweighting_tol : float, default=1e-6
    Relative spread (standard deviation over mean) of leakage at which reweighting stops.
data_norm : float or None, default=None
    A promise that no row of X is longer (Euclidean norm). It is enforced by an error, and must
    not be read off the data. Needed for a differential-privacy guarantee.
max_iter : int, default=100
    Largest number of Newton steps of a fit.
tol : float, default=1e-10
    Norm of the gradient of the objective at which a fit stops (or rounding noise, where that is
    larger).
random_state : None, int, RandomState or Generator, default=None
    Source of the noise. None takes fresh entropy from the operating system: noise that can be
    replayed protects nobody, and an integer is for experiments only.
ledger : str, Path, LeakageLedger or None, default=None
    A `skleak.accounting.LeakageLedger` file in which every fit enters its leakage before noise is
    drawn, and which refuses the fit that would pass its ceiling. Every clone writes to the same
    file: a grid search spends one release per fit. Every record is charged the largest loss of
    the fit, as a fold does not know which record is which.
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
fisher_information_loss_ : ndarray of shape (n_samples,)
    Fisher information loss of each training record: spectral norm of its influence Jacobian
    over ``noise_scale_``, in 1 / (unit of the columns); with a ``noise_covariance``, square root
    of the largest eigenvalue of its Fisher information. With reweighting, of the influence of the
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

    Parameters
    ----------
    cls : type
        Class whose docstring holds the placeholders at its base indentation.

    Returns
    -------
    type
        The same class.

    Examples
    --------
    >>> @with_shared_doc
    ... class Example:
    ...     '''One line.
    ...
    ...     {notes}
    ...     '''
    >>> Example.__doc__.splitlines()[2].strip()
    'Notes'
    """
    doc = cleandoc(cls.__doc__ or "")
    for name, text in _PARTS.items():
        doc = doc.replace("{" + name + "}", text.strip())
    cls.__doc__ = indent(doc, "    ").strip() + "\n"
    return cls
