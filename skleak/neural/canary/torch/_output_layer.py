"""The last layer of a language model, through which its parameters see the candidates."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from skleak.neural.canary.torch._tensors import Parameters, outputs_of
from skleak.utils._typing import FloatArray


@dataclass(frozen=True)
class OutputLayer:
    """The linear layer whose outputs are the logits, and its trained parameters by name."""

    layer: nn.Linear
    weight: str | None  # None where it is not trained
    bias: str | None  # None where there is none, or it is not trained

    @classmethod
    def of(cls, module: nn.Module, ids: Tensor) -> "OutputLayer | None":
        """Find the layer that returns the very logits of the module; None where there is none."""
        calls: dict[nn.Linear, tuple[Tensor, Tensor]] = {}

        def keep(layer: nn.Module, read: tuple[Tensor, ...], output: Tensor) -> None:
            # Of subclasses, parametrised ones too, nobody knows what they compute.
            if type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter):
                calls[layer] = read[0], output

        hooks = [layer.register_forward_hook(keep) for layer in module.modules()]
        with torch.no_grad():
            logits = outputs_of(module(ids))
        for hook in hooks:
            hook.remove()
        names = {id(p): name for name, p in module.named_parameters() if p.requires_grad}
        for layer, (read, output) in calls.items():
            # A module may have changed the output in place.
            if output is logits and torch.equal(logits, linear(read, layer.weight, layer.bias)):
                return cls(layer, names.get(id(layer.weight)), names.get(id(layer.bias)))
        return None

    def rows(self, parameters: Parameters, candidates: Tensor) -> Tensor:
        """Weights of the candidates, (M, d)."""
        weight = self.layer.weight if self.weight is None else parameters[self.weight]
        return weight[candidates]

    def length(self, hidden: FloatArray) -> float:
        """Norm of the gradient of one logit with respect to the layer itself; 0 if not trained."""
        square = 0.0 if self.weight is None else float(hidden @ hidden)
        return float(np.sqrt(square + (self.bias is not None)))

    def own_products(self, gradient: Parameters, hidden: Tensor, candidates: Tensor) -> Tensor:
        """Inner products with the gradients of the logits with respect to the layer, (M,)."""
        products = torch.zeros(len(candidates), dtype=hidden.dtype, device=hidden.device)
        if self.weight is not None:
            products = products + gradient[self.weight][candidates] @ hidden
        if self.bias is not None:
            products = products + gradient[self.bias][candidates]
        return products
