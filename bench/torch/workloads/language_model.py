"""A language model trained from scratch on texts of varying length: every step has another shape,
so that an allocator that keeps fitting blocks ends in pieces."""

from __future__ import annotations

import torch

from .transformer import TINY, Decoder, Shape, loss_of

SHAPE = Shape(width=1024, layers=12, heads=16, vocabulary=32000)
LENGTHS = (128, 2048)


def prepare(place, size: int, chance):
    """A step is one batch of `size` sequences, all as long as the longest of them."""
    shape, lengths = (TINY, (4, 16)) if place.is_dry else (SHAPE, LENGTHS)
    model = Decoder(shape).to(place.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(_index: int) -> None:
        length = max(chance.randint(*lengths) for _ in range(2))
        tokens = torch.randint(shape.vocabulary, (size, length), device=place.device)
        with place.autocast():
            loss = loss_of(model, tokens)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step
