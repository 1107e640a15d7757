"""The gradients of a record of whatever model."""

from skleak.exceptions import AttackNotApplicableError
from skleak.neural.gradients import Gradients, LinearGradients
from skleak.neural.inversion._base import StepGradients
from skleak.neural.inversion._linear_steps import LinearSteps
from skleak.neural.inversion._torch_steps import TorchSteps
from skleak.utils._typing import FloatArray


def steps_of(gradients: Gradients, parameters: FloatArray) -> StepGradients:
    """Gradients of a record at parameters (T, p)."""
    if isinstance(gradients, LinearGradients):
        return LinearSteps(gradients, parameters)
    if hasattr(gradients, "module"):  # of a torch module
        return TorchSteps(gradients, parameters)
    raise AttackNotApplicableError(
        "Gradients can be inverted of a linear model and of a torch module; got "
        f"{type(gradients).__name__}."
    )
