"""A decoder as language models are made, for all workloads."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Shape:
    """The sizes of a decoder. `tiny` is for a dry run."""

    def __init__(self, width: int, layers: int, heads: int, vocabulary: int) -> None:
        self.width, self.layers, self.heads = width, layers, heads
        self.vocabulary = vocabulary


TINY = Shape(width=32, layers=2, heads=2, vocabulary=64)


class Layer(nn.Module):
    """Attention and a perceptron, each behind a norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm_1, self.norm_2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x, past=None):
        """Gives the output, and the keys and values after the ones of `past`."""
        batch, length, width = x.shape
        split = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        if past is not None:
            key = torch.cat((past[0], key), dim=2)
            value = torch.cat((past[1], value), dim=2)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=past is None)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)))), (key, value)


class Decoder(nn.Module):
    """Tokens in, logits out."""

    def __init__(self, shape: Shape, is_checkpointed: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.is_checkpointed = is_checkpointed

    def forward(self, tokens, past=None):
        """Gives logits, and the keys and values of each layer."""
        x, kept = self.embedding(tokens), []
        for index, layer in enumerate(self.layers):
            if self.is_checkpointed and self.training:
                x, pair = checkpoint(layer, x, use_reentrant=False)
            else:
                x, pair = layer(x, None if past is None else past[index])
            kept.append(pair)
        return self.head(self.norm(x)), kept


def loss_of(model: Decoder, tokens):
    """How badly each token is foretold from those before it."""
    logits, _ = model(tokens[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
