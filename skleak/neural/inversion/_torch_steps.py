"""Clipped gradients of one record under a torch module, at the parameters of many steps."""

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
        self.encode = gradients.encode
        wide = gradients.per_record.wider()
        sizes = [tensor.numel() for tensor in wide.trained.values()]
        self.steps = []
        for point in parameters:
            shaped = zip(wide.trained.items(), self._tensor(point).split(sizes), strict=True)
            trained = {name: part.reshape(tensor.shape) for (name, tensor), part in shaped}
            self.steps.append(type(wide)(wide.module, wide.objective, trained))

    def at(self, record: FloatArray, target: float) -> tuple[FloatArray, Pullback]:
        """Clipped gradients, (T, p), and the transpose of their derivative, step by step."""
        batch = self._tensor(record[None]), self.encode(np.array([target])).double()
        found = [step(batch)[0] for step in self.steps]
        flat = [self.torch.cat([g.flatten() for g in each.values()]) for each in found]
        raw = self.torch.stack(flat).detach().cpu().numpy()
        norms = np.linalg.norm(raw, axis=1)
        h = self.clipping.divisor(norms)
        # Where the gradient vanishes, so does what this weighs.
        bend = self.clipping.slope(norms) / (h**2 * np.where(norms > 0.0, norms, 1.0))

        def pullback(u: FloatArray) -> FloatArray:
            weights = u / h[:, None] - (np.sum(u * raw, axis=1) * bend)[:, None] * raw
            total = np.zeros(record.shape)
            for step, row in zip(self.steps, weights, strict=True):
                parts = self._tensor(row).split([t.numel() for t in step.trained.values()])
                shaped = zip(step.trained.items(), parts, strict=True)
                vectors = {name: part.reshape(1, 1, *t.shape) for (name, t), part in shaped}
                total += step.pulled(batch, vectors)[0].cpu().numpy().reshape(record.shape)
            return total

        return raw / h[:, None], pullback

    def _tensor(self, values: FloatArray) -> Any:
        return self.torch.as_tensor(values, dtype=self.torch.float64, device=self.device)
