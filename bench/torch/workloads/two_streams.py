"""Two models that work side by side on two streams, and exchange their results: memory that one
stream has freed is wanted by the other, while both are busy."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

WIDTH, DEPTH = 2048, 6


def _perceptron(width: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)]
    return nn.Sequential(*layers)


def prepare(place, size: int, chance):
    """A step lets each model learn to foretell the other's result for the same rows."""
    width, depth = (16, 2) if place.is_dry else (WIDTH, DEPTH)
    models = [_perceptron(width, depth).to(place.device) for _ in range(2)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-4) for model in models]
    streams = [place.stream() for _ in models]

    def step(_index: int) -> None:
        counts = [chance.randint(size // 2, size) for _ in models]
        rows = [torch.randn(count, width, device=place.device) for count in counts]
        made = []
        for model, stream, mine in zip(models, streams, rows):
            _wait(place, stream, None)
            with place.on(stream), torch.no_grad(), place.autocast():
                _used_on(stream, mine)
                made.append(model(mine).float())
        for index, (model, optimizer) in enumerate(zip(models, optimizers)):
            other = 1 - index
            _wait(place, streams[index], streams[other])
            with place.on(streams[index]):
                _used_on(streams[index], made[other], rows[other])
                with place.autocast():
                    loss = functional.mse_loss(model(rows[other]).float(), made[other])
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()

    return step


def _wait(place, stream, other) -> None:
    """Later work on `stream` comes after `other`, or after the current one."""
    if stream is not None:
        stream.wait_stream(other or place.torch.cuda.current_stream())


def _used_on(stream, *tensors) -> None:
    if stream is not None:
        for tensor in tensors:
            tensor.record_stream(stream)
