"""A convolutional network trained on pictures of mixed resolution: activations whose sizes go up
and down by a factor of 16 from step to step."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

RESOLUTIONS = (128, 160, 192, 224, 256, 320, 384, 448, 512)
WIDTHS = (64, 128, 256, 512)


class Block(nn.Module):
    """Two convolutions beside a short cut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.short_cut = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        inner = functional.relu(self.norm_1(self.first(x)))
        return functional.relu(self.norm_2(self.second(inner)) + self.short_cut(x))


def _network(widths) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 7, 2, padding=3)]
    before = widths[0]
    for width in widths:
        layers += [Block(before, width, 2), Block(width, width, 1)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))


def prepare(place, size: int, chance):
    """A step is a batch of `size` pictures of one resolution."""
    widths, resolutions = ((4, 8), (16, 32)) if place.is_dry else (WIDTHS, RESOLUTIONS)
    model = _network(widths).to(place.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step(_index: int) -> None:
        side = chance.choice(resolutions)
        pictures = torch.randn(size, 3, side, side, device=place.device)
        labels = torch.randint(1000, (size,), device=place.device)
        with place.autocast():
            loss = functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step
