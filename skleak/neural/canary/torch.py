"""What of the extraction game needs torch: the model, its derivatives, and the games.

Parameters of a game, and their gradients, are vectors (p,); those of n games have a leading axis.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vjp, vmap
from torch.linalg import vecdot
from torch.nn import functional
from torch.nn.functional import cross_entropy, linear

from skleak.neural.canary._results import (
    CandidateGradients,
    Played,
    Training,
    posterior_of_one_step,
    top_posterior,
)
from skleak.neural.gradients import Clipping
from skleak.neural.torch import numbers, plain_attention, unflattened
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

# Entries of the parameters of all games that are played at once, 32 MB, and of the gradients of
# hidden states that are held at once.
_ENTRIES = 1 << 23
# Share by which a norm or an inner product may be off in single precision.
_TOLERANCE = 1e-3
# Most candidates of a module that does not end in a linear layer: their logits stand for its
# hidden state, and a square table of them is filled by as many backward passes.
_MOST_DENSE = 4096


def outputs_of(result: Any) -> Tensor:
    """Logits of a module: what it returns, or their place in an output of transformers."""
    logits: Tensor = getattr(result, "logits", result)
    return logits


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

    def length(self, hidden: FloatArray) -> float:
        """Norm of the gradient of one logit with respect to the layer itself; 0 if not trained."""
        square = 0.0 if self.weight is None else float(hidden @ hidden)
        return float(np.sqrt(square + (self.bias is not None)))


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
        named = self.module.named_parameters()
        self._trained = {name: p.detach() for name, p in named if p.requires_grad}
        self._check(int(candidates.max()))
        self.start = torch.cat([values.flatten() for values in self._trained.values()])
        self.layer = OutputLayer.of(self.module, self.ids)
        self._read: Any = None
        if self.layer is not None:
            self.layer.layer.register_forward_pre_hook(self._keep)
        elif len(candidates) > _MOST_DENSE:
            raise ValueError(
                "`module` must return the output of a `torch.nn.Linear` layer as it is where there "
                f"are more than {_MOST_DENSE} candidates; got {len(candidates)}. Without such a "
                "layer every candidate costs a backward pass of its own."
            )

    @property
    def n_parameters(self) -> int:
        """Number of trained parameters."""
        return len(self.start)

    def gradient(self, parameters: Tensor, token: Tensor) -> Tensor:
        """Gradient of the loss of the whole sequence where the secret is this token, ()."""
        targets = torch.cat([self.ids[0, 1:], token[None]])
        first = 0 if self.context_loss else len(targets) - 1

        def loss(values: Tensor) -> Tensor:
            return cross_entropy(self._logits(values)[first:], targets[first:])

        gradient: Tensor = grad(loss)(parameters)
        return gradient

    def common_gradient(self, parameters: Tensor) -> Tensor:
        """Return what the gradients of all candidates share: that of the loss without the logit."""

        def rest(values: Tensor) -> Tensor:
            logits = self._logits(values)
            total = torch.logsumexp(logits[-1], 0)
            if self.context_loss and len(logits) > 1:
                total = total + cross_entropy(logits[:-1], self.ids[0, 1:], reduction="sum")
            return total * self.weight

        gradient: Tensor = grad(rest)(parameters)
        return gradient

    def log_probabilities(self, parameters: Tensor) -> Tensor:
        """Log-probabilities of the candidates after the context, (M,)."""
        return torch.log_softmax(self._logits(parameters)[-1], 0)[self.candidates]

    def logit_products(self, parameters: Tensor, direction: Tensor) -> Tensor:
        """Inner products of a direction with the gradients of the candidates' logits, (M,).

        All of them at once, by one forward derivative; weighted as in the loss.
        """

        def logits(values: Tensor) -> Tensor:
            return self._logits(values)[-1]

        moved: Tensor = jvp(logits, (parameters,), (direction,))[1]
        return moved[self.candidates] * self.weight

    def hidden_state(self, parameters: Tensor) -> Tensor:
        """Return what the output layer reads after the context, (d,); without one, the logits."""
        logits = self._logits(parameters)
        if self.layer is None:
            return logits[-1][self.candidates]
        hidden: Tensor = self._read[0, -1]
        return hidden

    def hidden_products(
        self, parameters: Tensor, common: Tensor, chunk: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Inner products of the gradients of the hidden state, by as many passes as it has entries.

        Returns: the state (d,); the products with the common gradient, and with each other
        (d + 1, d); those of the common gradient and of them with the gradients of the candidates'
        logits by the output layer alone, (d + 1, M).
        """
        differentiated: Any = vjp(self.hidden_state, parameters)
        hidden, pull = differentiated

        def products(gradient: Tensor) -> tuple[Tensor, Tensor]:
            moved: Tensor = jvp(self.hidden_state, (parameters,), (gradient,))[1]
            return moved, self._own_products(gradient, hidden)

        unit = torch.eye(len(hidden), dtype=hidden.dtype, device=self.device)
        gram, own = vmap(lambda row: products(pull(row)[0]), chunk_size=chunk)(unit)
        first, first_own = products(common)
        return hidden, torch.cat([first[None], gram]), torch.cat([first_own[None], own])

    def output_rows(self, parameters: Tensor) -> Tensor:
        """Weights of the candidates in the output layer, (M, d)."""
        if self.layer is None:
            return torch.eye(len(self.candidates), device=self.device)
        named = unflattened(parameters, self._trained)
        return named.get(self.layer.weight or "", self.layer.layer.weight)[self.candidates]

    def _own_products(self, gradient: Tensor, hidden: Tensor) -> Tensor:
        """Inner products with the gradients of the logits by the output layer alone, (M,)."""
        products = torch.zeros(len(self.candidates), dtype=hidden.dtype, device=self.device)
        named = unflattened(gradient, self._trained)
        if self.layer is not None and self.layer.weight is not None:
            products = products + named[self.layer.weight][self.candidates] @ hidden
        if self.layer is not None and self.layer.bias is not None:
            products = products + named[self.layer.bias][self.candidates]
        return products

    def _logits(self, parameters: Tensor) -> Tensor:
        """Logits after every token of the context, (length, n_tokens)."""
        named = unflattened(parameters, self._trained)
        return outputs_of(functional_call(self.module, named, (self.ids,)))[0]

    def _keep(self, _: nn.Module, read: tuple[Tensor, ...]) -> None:
        self._read = read[0]

    def _check(self, largest: int) -> None:
        """Refuse a module that is no language model of these tokens."""
        if not self._trained:
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


class KnownStep:
    """A step, as whoever knows the parameters before it can compute it.

    The parameters have a leading axis of games, or are the same for all of them (``shared``).
    """

    def __init__(self, sequence: SecretSequence, parameters: Tensor, *, shared: bool) -> None:
        self.sequence = sequence
        self.parameters = parameters
        self.axis = None if shared else 0

    def gradients(self, tokens: Tensor) -> Tensor:
        """Gradients of the games whose secrets are these tokens (n,)."""
        return self._mapped(self.sequence.gradient, tokens)

    @cached_property
    def common(self) -> Tensor:
        """Return what the gradients of all candidates share."""
        return self._mapped(self.sequence.common_gradient)

    @cached_property
    def candidates(self) -> list[CandidateGradients]:
        """Gradients of all candidates, of every game or of all games."""
        games, common = map(torch.atleast_2d, (self.parameters, self.common))
        chunk = max(1, _ENTRIES // games.numel())

        def products(game: Tensor, common: Tensor) -> tuple[Tensor, ...]:
            found = self.sequence.hidden_products(game, common, chunk)
            return (*found, self.sequence.output_rows(game))

        with plain_attention():
            mapped = vmap(products)(games, common)
        squares = numbers(vecdot(common, common))
        tables = zip(squares, *map(numbers, mapped), strict=True)
        return [self._assembled(*table) for table in tables]

    def _assembled(
        self,
        square: float,
        hidden: FloatArray,
        products: FloatArray,
        own: FloatArray,
        rows: FloatArray,
    ) -> CandidateGradients:
        """Gradients of one game; those of the hidden state count with the token's weight."""
        weight, layer = self.sequence.weight, self.sequence.layer
        length = 0.0 if layer is None else layer.length(hidden)
        gram = np.empty((len(products), len(products)))
        gram[0, 0] = square
        gram[1:, 0] = gram[0, 1:] = weight * products[0]
        gram[1:, 1:] = weight**2 * 0.5 * (products[1:] + products[1:].T)
        along = own / length if length > 0.0 else np.zeros_like(own)
        along[1:] *= weight
        coefficients = np.column_stack([np.ones(len(rows)), -rows])
        return CandidateGradients(coefficients, length * weight, gram, along)

    def products(self, released: Tensor) -> FloatArray:
        """Inner products of released gradients with those of all candidates, (n, M)."""
        moved = numbers(self._mapped(self.sequence.logit_products, released))
        return numbers(vecdot(released, self.common))[:, np.newaxis] - moved

    def log_likelihood(self, released: Tensor, clipping: Clipping) -> FloatArray:
        """Of released gradients under every candidate, for unit noise, up to a constant: (n, M)."""
        norms = np.stack([each.norms for each in self.candidates])
        factor = 1.0 / clipping.divisor(norms)
        return np.asarray(factor * self.products(released) - 0.5 * (factor * norms) ** 2)

    @cached_property
    def log_probabilities(self) -> FloatArray:
        """Of the candidates under the models, (M,) or (n, M)."""
        with torch.no_grad():
            return numbers(self._mapped(self.sequence.log_probabilities))

    def _mapped(self, function: Callable[..., Tensor], *own: Tensor) -> Tensor:
        """Map a function of the parameters of a game, and of what each has of its own."""
        if own or self.axis is not None:
            function = vmap(function, in_dims=(self.axis, *[0] * len(own)))
        with plain_attention():
            return function(self.parameters, *own)


def check_structure(start: KnownStep, rng: np.random.Generator) -> None:
    """Hold all inner products against the gradients of a few candidates themselves.

    A module that draws numbers, keeps a state or differentiates in its own way is found out here.
    """
    sequence, structure = start.sequence, start.candidates[0]
    m = structure.n_candidates
    some = rng.choice(m, size=min(m, 3), replace=False)
    places = torch.as_tensor(some, device=sequence.device)
    gradients = start.gradients(sequence.candidates[places])
    direct = numbers(gradients @ gradients.T)
    allowed = _TOLERANCE * max(direct.max(), structure.gram[0, 0])
    for found in (structure.inner_products(some), start.products(gradients)):
        if not np.all(np.abs(found[:, some] - direct) <= allowed):
            raise ValueError(
                "`module` must give the same logits whenever it is called, and be differentiable "
                "backward and forward: gradients of single tokens differ from those found for all "
                "at once. Look for random numbers, buffers that change, and in-place operations."
            )


def play(
    start: KnownStep,
    training: Training,
    noise_multiplier: float,
    attacks: tuple[str, ...],
    n_games: int,
    n_draws: int,
    rng: np.random.Generator,
) -> Played:
    """Play games of independent secrets at one noise level, and value the best attack."""
    generator = torch.Generator(device=start.sequence.device)
    generator.manual_seed(int(rng.integers(2**63)))
    noise = noise_multiplier * training.clipping.max_grad_norm
    secrets = rng.integers(len(start.sequence.candidates), size=n_games)
    guesses = {name: np.empty(n_games, dtype=np.intp) for name in attacks}
    top = np.ones(n_games)
    for games in row_blocks(n_games, start.sequence.n_parameters, _ENTRIES):
        scores = _scores(start, training, noise, attacks, secrets[games], generator)
        for name, score in scores.items():
            if not np.isfinite(score).all():
                raise FloatingPointError(
                    f"Training diverged at `noise_multiplier` {noise_multiplier:g}: the model "
                    "returns NaN or infinity. Take a smaller `learning_rate`."
                )
            guesses[name][games] = score.argmax(axis=1)
        if "posterior" in scores and noise > 0.0:
            top[games] = top_posterior(scores["posterior"] / noise**2)
    known = "posterior" in attacks
    if noise == 0.0:
        bayes = 1.0, 0.0
    elif training.n_steps == 1:
        first = start.candidates[0]
        bayes = posterior_of_one_step(first, training.clipping, noise, n_draws, rng)
    else:
        spread = top.std(ddof=1) if n_games > 1 else 0.5
        bayes = (top.mean(), spread / np.sqrt(n_games)) if known else (np.nan, np.nan)
    return Played(noise_multiplier, secrets, guesses, top if known else top[:0], bayes)


def _scores(
    start: KnownStep,
    training: Training,
    noise: float,
    attacks: tuple[str, ...],
    secrets: IntArray,
    generator: torch.Generator,
) -> dict[str, FloatArray]:
    """Train on each secret, and score all candidates by each attack, (n, M) each."""
    sequence, clipping = start.sequence, training.clipping
    tokens = sequence.candidates[torch.as_tensor(secrets, device=sequence.device)]
    none = np.zeros((len(secrets), len(sequence.candidates)))
    known, scores = start, dict.fromkeys(attacks, none)
    for _ in range(training.n_steps):
        gradients = known.gradients(tokens)
        norms = numbers(torch.linalg.vector_norm(gradients, dim=1))
        factors = torch.as_tensor(1.0 / clipping.divisor(norms)).to(gradients)
        released = torch.empty_like(gradients).normal_(0.0, noise, generator=generator)
        released += factors[:, None] * gradients
        if "posterior" in attacks:
            scores["posterior"] = scores["posterior"] + known.log_likelihood(released, clipping)
        after = known.parameters - training.learning_rate * released
        known = KnownStep(sequence, after, shared=False)
    if "log_likelihood" in attacks:
        scores["log_likelihood"] = known.log_probabilities - start.log_probabilities
    return scores


class CausalTransformer(nn.Module):
    """Token and position embeddings, blocks of attention, and an output layer tied to the tokens.

    Shapes: token ids (n, length) give logits (n, length, n_tokens), each of the token after.
    """

    def __init__(
        self, n_tokens: int, width: int, n_layers: int, n_heads: int, max_length: int
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, width)
        self.positions = nn.Embedding(max_length, width)
        self.blocks = nn.Sequential(*(Block(width, n_heads) for _ in range(n_layers)))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, n_tokens, bias=False)
        self.output.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the token after each of those read."""
        places = torch.arange(ids.shape[1], device=ids.device)
        state = self.blocks(self.tokens(ids) + self.positions(places))
        return self.output(self.norm(state))


class Block(nn.Module):
    """Attention to what was read before, and two layers, each beside what it adds to."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.before_attention = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.before_layers = nn.LayerNorm(width)
        self.layers = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, state: Tensor) -> Tensor:
        """Shapes: (n, length, width), returns the same."""
        n, length, width = state.shape
        heads = (n, length, 3, self.n_heads, width // self.n_heads)
        query, key, value = self.attention(self.before_attention(state)).view(heads).unbind(2)
        read = functional.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True
        )
        state = state + self.projection(read.transpose(1, 2).reshape(n, length, width))
        return state + self.layers(self.before_layers(state))
