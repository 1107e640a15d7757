"""A language model on a sequence whose last token is secret: loss, gradients and derivatives."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vjp, vmap
from torch.nn.functional import cross_entropy

from skleak.neural.canary.torch._output_layer import OutputLayer
from skleak.neural.canary.torch._tensors import Parameters, outputs_of
from skleak.utils._typing import IntArray

# Most candidates of a module that does not end in a linear layer: their logits stand for its
# hidden state, and a square table of them is filled by as many backward passes.
MOST_DENSE = 4096


class SecretSequence:
    """A module, the tokens that it reads, and the candidates of the token after them.

    The loss is the mean cross entropy of the tokens that are predicted, or that of the secret token
    alone. All methods are functions of the parameters of one game, to be mapped over several; the
    module itself is never changed.
    """

    def __init__(
        self,
        module: nn.Module,
        context: IntArray,
        candidates: IntArray,
        *,
        context_loss: bool,
        device: str,
    ) -> None:
        self.device = torch.device(device)
        self.module = module.to(self.device).eval()
        self.ids = torch.as_tensor(context, device=self.device)[None]
        self.candidates = torch.as_tensor(candidates, device=self.device)
        self.context_loss = context_loss
        # Weight of the secret token in the loss.
        self.weight = 1.0 / len(context) if context_loss else 1.0
        trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        self.start: Parameters = {name: p.detach() for name, p in trained}
        self._check(int(candidates.max()))
        self.layer = OutputLayer.of(self.module, self.ids)
        self._read: Any = None
        if self.layer is not None:
            self.layer.layer.register_forward_pre_hook(self._keep)
        elif len(candidates) > MOST_DENSE:
            raise ValueError(
                "`module` must return the output of a `torch.nn.Linear` layer as it is where there "
                f"are more than {MOST_DENSE} candidates; got {len(candidates)}. Without such a "
                "layer every candidate costs a backward pass of its own."
            )

    @property
    def n_parameters(self) -> int:
        """Number of trained parameters."""
        return sum(p.numel() for p in self.start.values())

    def gradient(self, parameters: Parameters, token: Tensor) -> Parameters:
        """Gradient of the loss of the whole sequence where the secret is this token, ()."""
        targets = torch.cat([self.ids[0, 1:], token[None]])
        first = 0 if self.context_loss else len(targets) - 1

        def loss(values: Parameters) -> Tensor:
            return cross_entropy(self._logits(values)[first:], targets[first:])

        gradient: Parameters = grad(loss)(parameters)
        return gradient

    def common_gradient(self, parameters: Parameters) -> Parameters:
        """Return what the gradients of all candidates share: that of the loss without the logit."""

        def rest(values: Parameters) -> Tensor:
            logits = self._logits(values)
            total = torch.logsumexp(logits[-1], 0)
            if self.context_loss and len(logits) > 1:
                total = total + cross_entropy(logits[:-1], self.ids[0, 1:], reduction="sum")
            return total * self.weight

        gradient: Parameters = grad(rest)(parameters)
        return gradient

    def log_probabilities(self, parameters: Parameters) -> Tensor:
        """Log-probabilities of the candidates after the context, (M,)."""
        return torch.log_softmax(self._logits(parameters)[-1], 0)[self.candidates]

    def logit_products(self, parameters: Parameters, direction: Parameters) -> Tensor:
        """Inner products of a direction with the gradients of the candidates' logits, (M,).

        All of them at once, by one forward derivative; weighted as in the loss.
        """

        def logits(values: Parameters) -> Tensor:
            return self._logits(values)[-1]

        moved: Tensor = jvp(logits, (parameters,), (direction,))[1]
        return moved[self.candidates] * self.weight

    def hidden_state(self, parameters: Parameters) -> Tensor:
        """Return what the output layer reads after the context, (d,); without one, the logits."""
        logits = self._logits(parameters)
        if self.layer is None:
            return logits[-1][self.candidates]
        hidden: Tensor = self._read[0, -1]
        return hidden

    def hidden_products(
        self, parameters: Parameters, common: Parameters, chunk: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Inner products of the gradients of the hidden state, by as many passes as it has entries.

        Returns: the state (d,); the products with the common gradient, and with each other
        (d + 1, d); those of the common gradient and of them with the gradients of the candidates'
        logits by the output layer alone, (d + 1, M).
        """
        differentiated: Any = vjp(self.hidden_state, parameters)
        hidden, pull = differentiated

        def products(gradient: Parameters) -> tuple[Tensor, Tensor]:
            moved: Tensor = jvp(self.hidden_state, (parameters,), (gradient,))[1]
            return moved, self._own_products(gradient, hidden)

        def of_entry(unit: Tensor) -> tuple[Tensor, Tensor]:
            return products(pull(unit)[0])

        unit = torch.eye(len(hidden), dtype=hidden.dtype, device=self.device)
        gram, own = vmap(of_entry, chunk_size=chunk)(unit)
        first, first_own = products(common)
        return hidden, torch.cat([first[None], gram]), torch.cat([first_own[None], own])

    def output_rows(self, parameters: Parameters) -> Tensor:
        """Weights of the candidates in the output layer, (M, d)."""
        if self.layer is None:
            return torch.eye(len(self.candidates), device=self.device)
        return self.layer.rows(parameters, self.candidates)

    def _own_products(self, gradient: Parameters, hidden: Tensor) -> Tensor:
        if self.layer is None:
            return torch.zeros(len(self.candidates), dtype=hidden.dtype, device=self.device)
        return self.layer.own_products(gradient, hidden, self.candidates)

    def _logits(self, parameters: Parameters) -> Tensor:
        """Logits after every token of the context, (length, n_tokens)."""
        return outputs_of(functional_call(self.module, parameters, (self.ids,)))[0]

    def _keep(self, _: nn.Module, read: tuple[Tensor, ...]) -> None:
        self._read = read[0]

    def _check(self, largest: int) -> None:
        """Refuse a module that is no language model of these tokens."""
        if not self.start:
            raise ValueError("`module` must have parameters that require a gradient; got none.")
        try:
            with torch.no_grad():
                logits = outputs_of(self.module(self.ids))
        except IndexError as error:
            raise ValueError(
                "`context` must be token ids that `module` reads, and no more of them than it "
                f"takes; got {self.ids.shape[1]}, the largest {int(self.ids.max())}."
            ) from error
        shape = tuple(getattr(logits, "shape", ()))
        if len(shape) != 3 or shape[:2] != tuple(self.ids.shape):
            raise ValueError(
                "`module` must map token ids of shape (n, length) to logits of shape "
                f"(n, length, n_tokens); ids of shape {tuple(self.ids.shape)} gave {shape}."
            )
        if shape[2] <= largest:
            raise ValueError(
                f"`candidates` must be tokens of `module`, which has {shape[2]}; got {largest}."
            )
        if not bool(torch.isfinite(logits).all()):
            raise ValueError("`module` must return finite logits; got NaN or infinity.")
