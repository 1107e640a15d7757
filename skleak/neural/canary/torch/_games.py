"""Games of extraction: train on the sequence with a random secret, release, and guess."""

from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from skleak.neural.canary._candidates import (
    CandidateGradients,
    posterior_of_one_step,
    top_posterior,
)
from skleak.neural.canary._results import Played, Training
from skleak.neural.canary.torch._sequence import SecretSequence
from skleak.neural.canary.torch._tensors import (
    Parameters,
    inner_products,
    plain_attention,
    scaled,
    shifted,
    standard_noise,
)
from skleak.neural.gradients import Clipping
from skleak.neural.torch import numbers
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

# Entries of the parameters of all games that are played at once, 32 MB, and of the gradients of
# hidden states that are held at once.
_ENTRIES = 1 << 23
# Share by which a norm or an inner product may be off in single precision.
_TOLERANCE = 1e-3


class KnownStep:
    """A step, as whoever knows the parameters before it can compute it.

    The parameters have a leading axis of games, or are the same for all of them (``shared``).
    """

    def __init__(self, sequence: SecretSequence, parameters: Parameters, *, shared: bool) -> None:
        self.sequence = sequence
        self.parameters = parameters
        self.axis = None if shared else 0

    def gradients(self, tokens: Tensor) -> Parameters:
        """Gradients of the games whose secrets are these tokens (n,)."""
        with plain_attention():
            mapped = vmap(self.sequence.gradient, in_dims=(self.axis, 0))
            gradients: Parameters = mapped(self.parameters, tokens)
        return gradients

    @cached_property
    def common(self) -> Parameters:
        """Return what the gradients of all candidates share."""
        gradient = self.sequence.common_gradient
        with plain_attention():
            mapped = gradient if self.axis is None else vmap(gradient)
            common: Parameters = mapped(self.parameters)
        return common

    @cached_property
    def candidates(self) -> list[CandidateGradients]:
        """Gradients of all candidates, of every game or of all games."""
        games, common = self.parameters, self.common
        if self.axis is None:
            games, common = ({k: v[None] for k, v in each.items()} for each in (games, common))
        n = len(next(iter(games.values())))
        chunk = max(1, _ENTRIES // (n * self.sequence.n_parameters))

        def products(game: Parameters, common: Parameters) -> tuple[Tensor, ...]:
            found = self.sequence.hidden_products(game, common, chunk)
            return (*found, self.sequence.output_rows(game))

        with plain_attention():
            mapped = vmap(products)(games, common)
        squares = numbers(inner_products(common, common))
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

    def products(self, released: Parameters) -> FloatArray:
        """Inner products of released gradients with those of all candidates, (n, M)."""
        with plain_attention():
            mapped = vmap(self.sequence.logit_products, in_dims=(self.axis, 0))
            moved = numbers(mapped(self.parameters, released))
        return numbers(inner_products(released, self.common))[:, np.newaxis] - moved

    def log_likelihood(self, released: Parameters, clipping: Clipping) -> FloatArray:
        """Of released gradients under every candidate, for unit noise, up to a constant: (n, M)."""
        norms = np.stack([each.norms for each in self.candidates])
        factor = 1.0 / clipping.divisor(norms)
        return np.asarray(factor * self.products(released) - 0.5 * (factor * norms) ** 2)

    @cached_property
    def log_probabilities(self) -> FloatArray:
        """Of the candidates under the models, (M,) or (n, M)."""
        read = self.sequence.log_probabilities
        with torch.no_grad(), plain_attention():
            return numbers((read if self.axis is None else vmap(read))(self.parameters))


def check_structure(start: KnownStep, rng: np.random.Generator) -> None:
    """Hold all inner products against the gradients of a few candidates themselves.

    A module that draws numbers, keeps a state or differentiates in its own way is found out here.
    """
    sequence, structure = start.sequence, start.candidates[0]
    m = structure.n_candidates
    some = rng.choice(m, size=min(m, 3), replace=False)
    places = torch.as_tensor(some, device=sequence.device)
    gradients = start.gradients(sequence.candidates[places])
    each = [{name: v[i] for name, v in gradients.items()} for i in range(len(some))]
    direct = np.stack([numbers(inner_products(gradients, one)) for one in each])
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
        norms = numbers(inner_products(gradients, gradients)) ** 0.5
        clipped = scaled(gradients, torch.as_tensor(1.0 / clipping.divisor(norms)))
        released = shifted(clipped, standard_noise(gradients, generator), noise)
        if "posterior" in attacks:
            scores["posterior"] = scores["posterior"] + known.log_likelihood(released, clipping)
        after = shifted(known.parameters, released, -training.learning_rate)
        known = KnownStep(sequence, after, shared=False)
    if "log_likelihood" in attacks:
        scores["log_likelihood"] = known.log_probabilities - start.log_probabilities
    return scores
