"""Which shapes of noise an audit can do with."""

from dataclasses import replace
from typing import Any

from skleak.adversary.hypotheses import PublicModel, model_parameters
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.noise import noise_covariance
from skleak.influence.state import NoiseShape


def audited_shape(model: PublicModel, fitted: Any, attribute: Any) -> NoiseShape:
    """Shape of the noise of a model, where an audit can do with it.

    Returns: without a matrix where it follows the data, see `shape_of_fit`.
    """
    noise = NoiseShape.of(model.noise_covariance, len(model_parameters(fitted)))
    if noise.reads_data and attribute is None:
        raise AttackNotApplicableError(
            "Without `attribute`, whole records are reconstructed by an attack that takes the "
            "covariance of the noise as known; that of `noise_covariance="
            f"{noise.name!r}` depends on them. Name an `attribute`, read the leakage of whole "
            "records off `leakage_report()`, or give a covariance from public knowledge."
        )
    if noise.name != "isotropic" and getattr(model.template, "reweighting", None) is not None:
        raise AttackNotApplicableError(
            "`estimator` cannot be fitted: a `noise_covariance` of its own does not go with a "
            "reweighting. Drop one of the two."
        )
    if noise.reads_data and not model.has_closed_form:
        raise AttackNotApplicableError(
            f"The covariance of noise that is {noise.name!r} is known for the private estimators "
            f"of skleak.linear_model; got {type(model.template).__name__}. Pass one of these, or "
            "give the covariance as a matrix."
        )
    return noise


def shape_of_fit(noise: NoiseShape, fitted: Any) -> NoiseShape:
    """Add to a shape of noise that follows the data its matrix for these. Confidential."""
    state = replace(fitted._confidential_state(), noise=noise)
    return replace(noise, matrix=noise_covariance(state))
