"""A small causal language model of the shape of GPT-2."""

import torch
from torch import Tensor, nn
from torch.nn import functional


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
