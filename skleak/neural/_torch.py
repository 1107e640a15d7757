"""The door to modules of torch, which is imported only once it is passed."""

from typing import Any

from skleak.neural.gradients import Clipping, Gradients
from skleak.neural.training import Source
from skleak.utils._optional import import_optional


def torch_gradients_of(
    estimator: Any, X: Any, clipping: Clipping, n_classes: int | None, source: Source
) -> Gradients:
    """Gradients of the module of an estimator, for records (n, ...)."""
    import_optional("torch", "torch", "A `module`")
    neural = import_optional("skleak.neural.torch", "torch", "A `module`")
    accounted = estimator.accounting is not None and clipping.smooth
    made: Gradients = neural.torch_gradients(
        estimator.module,
        clipping,
        record_shape=tuple(X.shape[1:]),
        n_classes=n_classes,
        rng=source.generator,
        loss=estimator.loss,
        max_batch=estimator.max_batch,
        device=estimator.device,
        differentiable=accounted,
    )
    return made
