"""What can be computed of a kind of fit, and why not where it cannot."""

from dataclasses import dataclass

__all__ = ["Capability", "exact_test_obstacle"]


@dataclass(frozen=True)
class Capability:
    """Something that can be computed, true unless a reason says why it cannot.

    Parameters
    ----------
    missing : str, default=""
        Why it cannot be computed.

    Examples
    --------
    >>> bool(Capability()), bool(Capability("the weights follow the data"))
    (True, False)
    """

    missing: str = ""

    def __bool__(self) -> bool:
        return not self.missing


def exact_test_obstacle(*, reweighted: bool, isotropic: bool, several_classes: bool) -> str:
    """Say why the exact test of membership is not known of a model; empty where it is.

    Before a fit this is known from the parameters of an estimator and its targets, after it from
    `LeakageModel.has_exact_membership_test`.

    Parameters
    ----------
    reweighted : bool
        Whether its records are reweighted.
    isotropic : bool
        Whether its noise is isotropic.
    several_classes : bool
        Whether it tells more than two classes apart.

    Returns
    -------
    str

    Examples
    --------
    >>> exact_test_obstacle(reweighted=False, isotropic=True, several_classes=True)
    'the model tells more than two classes apart'
    """
    if reweighted:
        return "a reweighting makes the weights of all records change with each"
    if not isotropic:
        return "the noise has a `noise_covariance`"
    if several_classes:
        return "the model tells more than two classes apart"
    return ""
