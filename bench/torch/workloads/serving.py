"""Answers for many at once: each sequence has keys and values of its own that grow as it goes on,
and go when it ends, in no order."""

from __future__ import annotations

import torch

from .transformer import TINY, Decoder, Shape

SHAPE = Shape(width=1024, layers=12, heads=16, vocabulary=32000)
LENGTHS = (64, 2048)
SERVED_A_STEP, TOKENS_A_TURN = 16, 32


def prepare(place, size: int, chance):
    """A step lets some of `size` sequences go on. Others take the place of the finished ones."""
    shape, lengths, served = (
        (TINY, (4, 16), 2) if place.is_dry else (SHAPE, LENGTHS, SERVED_A_STEP)
    )
    model = Decoder(shape).to(place.device).eval()
    sequences: list = []

    def read(count: int, past=None):
        tokens = torch.randint(shape.vocabulary, (1, count), device=place.device)
        return model(tokens, past)[1]

    def begin() -> list:
        return [read(chance.randint(*lengths)), chance.randint(1, lengths[1] // TOKENS_A_TURN + 1)]

    def step(_index: int) -> None:
        with torch.no_grad(), place.autocast():
            while len(sequences) < size:
                sequences.append(begin())
            for _ in range(served):
                index = chance.randrange(size)
                past, turns = sequences[index]
                if turns == 0:
                    sequences[index] = past = None
                    sequences[index] = begin()
                else:
                    sequences[index] = [read(TOKENS_A_TURN, past), turns - 1]

    return step
