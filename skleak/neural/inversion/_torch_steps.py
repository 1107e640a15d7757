"""Clipped gradients of one record under a torch module, at the parameters of many steps."""

import copy
from typing import Any

import numpy as np

from skleak.neural.inversion._base import Pullback, StepGradients
from skleak.utils._optional import import_optional
from skleak.utils._typing import FloatArray


class TorchSteps(StepGradients):
    """Of a module, in double precision: autograd differentiates its gradient, not the clipping.

    The derivative of ``u.g / h(N)`` is that of g, weighted by ``u / h - (u.g) h' / (h^2 N) g``.
    """

    def __init__(self, gradients: Any, parameters: FloatArray) -> None:
        self.torch = import_optional("torch", "torch", "Inverting the gradients of a module")
        self.clipping, self.device = gradients.clipping, gradients.device
        self.encode, self.objective = gradients.encode, gradients.objective
        self.module = copy.deepcopy(gradients.module).double().train()
        named = self.module.named_parameters()
        shapes = {name: tensor.shape for name, tensor in named if tensor.requires_grad}
        sizes = [shape.numel() for shape in shapes.values()]
        self.points = []  # parameters of each step, by name
        for point in parameters:
            parts = zip(shapes.items(), self._tensor(point).split(sizes), strict=True)
            self.points.append({name: part.reshape(shape) for (name, shape), part in parts})

    def at(self, record: FloatArray, target: float) -> tuple[FloatArray, Pullback]:
        """Clipped gradients, (T, p), and the transpose of their derivative, step by step."""
        x, encoded = self._tensor(record), self.encode(np.array([target]))[0].double()
        found = [
            self.torch.func.vjp(lambda x, point=point: self._gradient(point, x, encoded), x)
            for point in self.points
        ]
        raw = np.stack([gradient.detach().cpu().numpy() for gradient, _ in found])
        norms = np.linalg.norm(raw, axis=1)
        h = self.clipping.divisor(norms)
        # Where the gradient vanishes, so does what this weighs.
        bend = self.clipping.slope(norms) / (h**2 * np.where(norms > 0.0, norms, 1.0))

        def pullback(u: FloatArray) -> FloatArray:
            weights = u / h[:, None] - (np.sum(u * raw, axis=1) * bend)[:, None] * raw
            total = np.zeros(record.shape)
            for (_, pull), row in zip(found, weights, strict=True):
                total += pull(self._tensor(row))[0].detach().cpu().numpy()
            return total

        return raw / h[:, None], pullback

    def _gradient(self, point: dict[str, Any], x: Any, target: Any) -> Any:
        """Gradient of the loss of a record, flat, before it is clipped, (p,)."""

        def loss(point: dict[str, Any]) -> Any:
            outputs = self.torch.func.functional_call(self.module, point, (x[None],))
            return self.objective.of_record(outputs.reshape(-1), target)

        parts = self.torch.func.grad(loss)(point)
        return self.torch.cat([part.flatten() for part in parts.values()])

    def _tensor(self, values: FloatArray) -> Any:
        return self.torch.as_tensor(values, dtype=self.torch.float64, device=self.device)
