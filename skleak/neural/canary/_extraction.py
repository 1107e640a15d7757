"""Extract a canary."""

import copy
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from skleak.neural.canary._results import Training, game_table, result_table
from skleak.neural.gradients import make_clipping
from skleak.plotting import CanaryDisplay
from skleak.utils._arguments import check_real, import_optional, make_generator
from skleak.utils._sklearn_compat import Interval, StrOptions, fit_context
from skleak.utils._typing import IntArray, RandomState


def load_torch() -> Any:
    """Return the module torch, or say what to install."""
    return import_optional("torch", "torch", "Extracting a canary from a language model")


def causal_transformer(
    n_tokens: int, *, width: int = 32, n_layers: int = 2, n_heads: int = 2, max_length: int = 64
) -> Any:
    """Build a small causal language model of the shape of GPT-2.

    Learned positions, blocks of attention and of two layers with GELU, each after a layer norm and
    beside what it adds to, and an output layer that shares its weights with the token embeddings.

    Parameters
    ----------
    n_tokens : int
        Size of the vocabulary, at least 2.
    width : int, default=32
        Entries of a hidden state, a multiple of `n_heads`.
    n_layers : int, default=2
        Number of blocks.
    n_heads : int, default=2
        Heads of attention in a block.
    max_length : int, default=64
        Most tokens that it reads.

    Returns
    -------
    torch.nn.Module
        Maps token ids (n, length) to logits (n, length, n_tokens), not trained yet.

    Raises
    ------
    ImportError
        Where torch is not installed.
    ValueError
        For sizes that are not positive, or a width that heads cannot share.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> causal_transformer(100)(torch.tensor([[3, 1, 4]])).shape
    torch.Size([1, 3, 100])
    """
    load_torch()
    sizes = {"n_tokens": n_tokens, "width": width, "n_layers": n_layers, "n_heads": n_heads}
    for name, size in (sizes | {"max_length": max_length}).items():
        check_real(name, size, low=2.0 if name == "n_tokens" else 1.0)
    if width % n_heads:
        raise ValueError(f"`width` must be a multiple of `n_heads`; got {width} and {n_heads}.")
    from skleak.neural.canary.torch import CausalTransformer

    return CausalTransformer(n_tokens, width, n_layers, n_heads, max_length)


ATTACKS = ("log_likelihood", "posterior")


@dataclass(eq=False, repr=False)
class CanaryExtraction(BaseEstimator):
    """Extract a secret token from a language model that was trained on it with noise.

    The game of [FANO23] section 6.3. A secret token, one of M equally likely ones, follows a known
    context. A causal language model takes T noisy steps on that one sequence: each clips the
    gradient to norm C and adds N(0, (sigma C)^2) to every entry. Who finds the token?

    "log_likelihood", the paper's attack, names the token whose log-probability after the context
    has risen most. "posterior" knows all but the secret: context, w_0, sigma, C, learning rate, and
    every noisy gradient, hence every model on the way. It computes the gradients of all M
    candidates along that path, by inner products alone, and names the likeliest token: no attack
    on these releases succeeds more often.

    Parameters
    ----------
    module : callable, torch.nn.Module or None, default=None
        Maps token ids (n, length) to logits (n, length, n_tokens), or to an object with ``logits``
        (GPT-2 of transformers). A callable without arguments builds it; a module is copied, and
        parameters that require no gradient stay as they are. Dropout is off. With more than 4,096
        candidates it has to return the output of a ``torch.nn.Linear``. None is
        `causal_transformer` with as many tokens as are spoken of.
    candidates : int or array-like of shape (M,), default=5000
        Tokens that the secret may be, each once; a number M is for tokens 0 to M - 1.
    n_steps : int, default=1
        T.
    noise_multiplier : float or array-like of shape (n_levels,), default=1.0
        sigma, standard deviation of the noise in units of C; 0 for none.
    max_grad_norm : float, default=1.0
        C, positive.
    clipping : {"hard", "smooth"}, default="hard"
        Hard as in the paper; smooth clipping lets norms reach 1.11524 C, which the bounds count.
    learning_rate : float, default=0.001
        Step size. The noisy gradients hardly depend on it; but noise in the weights drowns what
        the log-likelihood attack reads where steps are long.
    context_loss : bool, default=True
        The loss is the mean over all tokens that are predicted. False is the worst case, the loss
        of the secret token alone: of a clipped gradient, more is then about the secret.
    attacks : "all", str or list of str, default="all"
        Of "log_likelihood", "posterior".
    n_releases : int, default=200
        Games at each noise level, each with its own secret and noise.
    n_draws : int, default=1000
        Simulated releases for the best attack's success at ``n_steps=1``.
    confidence_level : float, default=0.95
        Of the intervals; verdicts are corrected for their number.
    device : str, default="auto"
        Of torch; "auto" is "cuda" where there is one, else "cpu".
    random_state : None, int, RandomState or Generator, default=0
        Seed of secrets and noise, and of torch while a callable builds the module.
    verbose : int, default=0
        1 shows progress in noise levels.

    Attributes
    ----------
    results_ : DataFrame
        A row for each noise level and attack; docs/theory/secret_token.md, has the columns.
    games_ : DataFrame
        A row for each noise level and game: the secret, guesses, and largest posterior probability.
    candidates_ : ndarray of shape (M,)
        Token ids.
    n_parameters_ : int
        Number of trained parameters.

    See Also
    --------
    skleak.bounds.gdp_advantage : The trade-off bound.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("torch")
    >>> game = CanaryExtraction(candidates=50, noise_multiplier=0.5, n_releases=50)
    >>> game.fit([3, 1, 4]).results_["verdict"].tolist()
    ['consistent with the bound', 'consistent with the bound']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "module": [callable, None],
        "candidates": [Interval(Integral, 2, None, closed="left"), "array-like"],
        "n_steps": [Interval(Integral, 1, None, closed="left")],
        "noise_multiplier": [Interval(Real, 0, None, closed="left"), "array-like"],
        "max_grad_norm": [Interval(Real, 0, None, closed="neither")],
        "clipping": [StrOptions({"hard", "smooth"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "context_loss": ["boolean"],
        "attacks": [str, list, tuple],
        "n_releases": [Interval(Integral, 1, None, closed="left")],
        "n_draws": [Interval(Integral, 2, None, closed="left")],
        "confidence_level": [Interval(Real, 0, 1, closed="neither")],
        "device": [str],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    module: Any = None
    _: KW_ONLY
    candidates: "int | npt.ArrayLike" = 5000
    n_steps: int = 1
    noise_multiplier: "float | npt.ArrayLike" = 1.0
    max_grad_norm: float = 1.0
    clipping: Literal["hard", "smooth"] = "hard"
    learning_rate: float = 0.001
    context_loss: bool = True
    attacks: "str | Sequence[str]" = "all"
    n_releases: int = 200
    n_draws: int = 1000
    confidence_level: float = 0.95
    device: str = "auto"
    random_state: RandomState = 0
    verbose: int = 0

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, context: npt.ArrayLike) -> Self:
        """Play the game at every noise level.

        Parameters
        ----------
        context : array-like of int of shape (length,)
            Ids of the known tokens that stand before the secret one, at least one.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            Where torch is not installed.
        ValueError
            For tokens that are no ids, candidates that are not distinct, unknown attacks, a
            negative noise multiplier, or a module that is no language model of these tokens.
        """
        attacks = _check_attacks(self.attacks)
        levels = np.unique(check_real("noise_multiplier", self.noise_multiplier))
        clipping = make_clipping(self.clipping, self.max_grad_norm)
        training = Training(clipping, self.n_steps, self.learning_rate)
        rng = make_generator(self.random_state)
        candidates = _check_candidates(self.candidates)
        start = self._start(_check_tokens("context", context), candidates, rng)
        from skleak.neural.canary.torch import play

        numbers = (attacks, self.n_releases, self.n_draws, rng)
        played = [
            play(start, training, float(sigma), *numbers)
            for sigma in tqdm(levels, desc="noise levels", disable=not self.verbose)
        ]
        self.candidates_ = candidates
        self.n_parameters_ = start.sequence.n_parameters
        self.games_ = game_table(played, candidates)
        self.results_ = result_table(played, training, len(candidates), self.confidence_level)
        return self

    def plot(self, ax: Any = None) -> CanaryDisplay:
        """Plot advantages, with their intervals, and bounds over epsilon, the axis of [FANO23].

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        CanaryDisplay
        """
        check_is_fitted(self)
        name = f"One of {len(self.candidates_):,} tokens, T = {self.n_steps}"
        return CanaryDisplay(self.results_, name=name).plot(ax=ax)

    def _start(self, context: IntArray, candidates: IntArray, rng: np.random.Generator) -> Any:
        """Build the model, and what is known of its first step."""
        torch = load_torch()
        from skleak.neural.canary.torch import KnownStep, SecretSequence, check_structure
        from skleak.neural.torch import build_module, find_device

        if isinstance(self.module, torch.nn.Module):
            module = copy.deepcopy(self.module)
        else:
            sizes = 1 + int(max(candidates.max(), context.max())), max(len(context), 64)
            usual = partial(causal_transformer, sizes[0], max_length=sizes[1])
            module = build_module(self.module or usual, rng)
        options = {"context_loss": self.context_loss, "device": find_device(self.device)}
        sequence = SecretSequence(module, context, candidates, **options)
        start = KnownStep(sequence, sequence.start, shared=True)
        if self.n_steps == 1 or "posterior" in _check_attacks(self.attacks):
            check_structure(start, rng)
        return start


def _check_attacks(attacks: "str | Sequence[str]") -> tuple[str, ...]:
    """Names of the attacks that play, in the order of the results."""
    asked = ATTACKS if attacks == "all" else [attacks] if isinstance(attacks, str) else attacks
    unknown = [name for name in asked if name not in ATTACKS]
    if unknown or not len(asked):
        raise ValueError(
            f"`attacks` must be 'all' or name some of {', '.join(map(repr, ATTACKS))}; got "
            f"{attacks!r}."
        )
    return tuple(name for name in ATTACKS if name in asked)


def _check_candidates(candidates: "int | npt.ArrayLike") -> IntArray:
    """Token ids of the candidates, (M,)."""
    if isinstance(candidates, Integral):
        return np.arange(int(candidates))
    tokens = _check_tokens("candidates", candidates)
    if len(tokens) < 2 or len(np.unique(tokens)) < len(tokens):
        raise ValueError(
            "`candidates` must be at least two different tokens: a secret with one value has "
            f"nothing to hide; got {len(tokens)}, of which {len(np.unique(tokens))} differ."
        )
    return tokens


def _check_tokens(name: str, tokens: Any) -> IntArray:
    """Token ids as an array, (length,)."""
    ids = np.asarray(tokens)
    if ids.ndim != 1 or not ids.size or ids.dtype.kind not in "ui" or ids.min() < 0:
        raise ValueError(
            f"`{name}` must be a list of token ids, whole numbers from 0 on; got an array of "
            f"shape {ids.shape} and type {ids.dtype}."
        )
    return ids.astype(np.intp)
