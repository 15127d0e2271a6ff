"""Fine-tuning by adapters (LoRA) with checkpointed activations: large frozen weights, small live
ones, and activations that come and go twice a step, on texts of varying length."""

from __future__ import annotations

import torch
from torch import nn

from .transformer import TINY, Decoder, Shape, loss_of

SHAPE = Shape(width=2048, layers=16, heads=16, vocabulary=32000)
BATCH, RANK = 4, 16


class Adapted(nn.Module):
    """A frozen linear layer, and the learnt one beside it."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x))


def prepare(place, size: int, chance):
    """A step is one batch whose length is drawn from a quarter of `size` up to it."""
    shape, longest = (TINY, 16) if place.is_dry else (SHAPE, size)
    model = Decoder(shape, is_checkpointed=True).requires_grad_(False)
    for layer in model.layers:
        layer.qkv, layer.out = Adapted(layer.qkv, RANK), Adapted(layer.out, RANK)
    model = model.to(place.device, torch.float32 if place.is_dry else torch.bfloat16)
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=1e-4)

    def step(_index: int) -> None:
        length = chance.randint(longest // 4, longest)
        tokens = torch.randint(shape.vocabulary, (BATCH, length), device=place.device)
        loss = loss_of(model, tokens)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step
