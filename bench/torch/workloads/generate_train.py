"""The loop of learning from one's own output: a model writes texts token by token, with keys and
values that grow by concatenation, and is then trained on them. Two phases that want memory of other
shapes, in turn."""

from __future__ import annotations

import torch

from .transformer import TINY, Decoder, Shape, loss_of

SHAPE = Shape(width=1024, layers=8, heads=16, vocabulary=16000)
PROMPT, LENGTHS = 64, (64, 256)


def prepare(place, size: int, chance):
    """A step writes `size` texts of a length that is drawn, and learns from them."""
    shape, prompt, lengths = (TINY, 4, (3, 6)) if place.is_dry else (SHAPE, PROMPT, LENGTHS)
    model = Decoder(shape).to(place.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step(_index: int) -> None:
        tokens = torch.randint(shape.vocabulary, (size, prompt), device=place.device)
        written = _write(model, place, tokens, chance.randint(*lengths))
        with place.autocast():
            loss = loss_of(model, written)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


@torch.no_grad()
def _write(model, place, tokens, length: int):
    with place.autocast():
        logits, past = model(tokens)
        written = [tokens]
        for _ in range(length):
            written.append(logits[:, -1:].argmax(dim=-1))
            logits, past = model(written[-1], past)
    return torch.cat(written, dim=1)
