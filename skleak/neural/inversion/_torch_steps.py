"""Clipped gradients of one record under a torch module, at the parameters of many steps."""

import copy
from typing import Any

import numpy as np

from skleak.neural.inversion._steps import Pullback, StepGradients
from skleak.utils._optional import import_optional
from skleak.utils._typing import FloatArray


class TorchSteps(StepGradients):
    """Of a module, in double precision: autograd differentiates its gradient, not the clipping.

    The derivative of ``u.g / h(N)`` is that of g, weighted by ``u / h - (u.g) h' / (h^2 N) g``.
    """

    def __init__(self, gradients: Any, parameters: FloatArray) -> None:
        self.torch = import_optional("torch", "torch", "Inverting the gradients of a module")
        self.clipping, self.device = gradients.clipping, gradients.device
        self.encode = gradients.encode
        own = gradients.per_record
        module = copy.deepcopy(own.module).double()
        sizes = [tensor.numel() for tensor in own.trained.values()]
        self.steps = []
        for point in parameters:
            parts = self._tensor(point).split(sizes)
            shaped = zip(own.trained.items(), parts, strict=True)
            trained = {name: part.reshape(tensor.shape) for (name, tensor), part in shaped}
            self.steps.append(type(own)(module, own.objective, trained))

    def at(self, record: FloatArray, target: float) -> tuple[FloatArray, Pullback]:
        """Clipped gradients, (T, p), and the transpose of their derivative, step by step."""
        X = self._tensor(record[None])
        encoded = self.encode(np.array([target])).double()
        rows, pulls, shapes = [], [], {}
        for step in self.steps:
            gradients, _, pull = step.pulled((X, encoded))
            rows.append(self.torch.cat([g.detach().flatten() for g in gradients.values()]))
            pulls.append(pull)
            shapes = {name: g.shape for name, g in gradients.items()}
        raw = self.torch.stack(rows).cpu().numpy()
        norms = np.linalg.norm(raw, axis=1)
        h = self.clipping.divisor(norms)
        # N h' / N^2: where the gradient vanishes, so does what it weighs.
        bend = self.clipping.slope(norms) / (h**2 * np.where(norms > 0.0, norms, 1.0))

        def pullback(u: FloatArray) -> FloatArray:
            weights = u / h[:, None] - (np.sum(u * raw, axis=1) * bend)[:, None] * raw
            total = np.zeros(record.shape)
            for pull, row in zip(pulls, weights, strict=True):
                parts = self._tensor(row).split([shape.numel() for shape in shapes.values()])
                shaped = zip(shapes.items(), parts, strict=True)
                seeds = {name: part.reshape(1, *shape) for (name, shape), part in shaped}
                total += pull(seeds)[0].detach().cpu().numpy().reshape(record.shape)
            return total

        return raw / h[:, None], pullback

    def _tensor(self, values: FloatArray) -> Any:
        return self.torch.as_tensor(values, dtype=self.torch.float64, device=self.device)
