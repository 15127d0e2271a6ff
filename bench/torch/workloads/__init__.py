"""The programs. Each is a module with prepare(place, size, chance), which builds it and gives the
function that makes one step. The meaning of the size, and the bounds of a search for the largest,
are here, so that a driver need not import PyTorch."""

from __future__ import annotations

import importlib
from typing import NamedTuple


class Sizes(NamedTuple):
    """Sizes are multiples of `smallest`, up to `largest`. `fixed` runs without a search."""

    knob: str
    smallest: int
    largest: int
    fixed: int


SIZES = {
    "generate-train": Sizes("sequences", smallest=4, largest=512, fixed=32),
    "language-model": Sizes("sequences", smallest=2, largest=256, fixed=16),
    "lora": Sizes("tokens of the longest sequence", smallest=512, largest=65536, fixed=4096),
    "serving": Sizes("sequences", smallest=4, largest=2048, fixed=32),
    "two-streams": Sizes("rows", smallest=256, largest=1 << 20, fixed=16384),
    "vision": Sizes("pictures", smallest=4, largest=512, fixed=64),
}


def load(name: str):
    """The module of a workload."""
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
