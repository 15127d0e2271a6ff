"""Cards: their memory in CUDA, the part of the context and libraries beside PyTorch's allocator,
and the properties of a simulated GPU that looks like one. Each figure was measured, or published in
a message of PyTorch's in which a card ran out of memory ("GPU 0 has a total capacity of ...
Including non-PyTorch memory, this process has ..."): the process's memory, less PyTorch's.
"""

from __future__ import annotations

import argparse
import re
from typing import NamedTuple

GIB = 1 << 30
MIB = 1 << 20

# The most that was measured beside PyTorch's allocator on any card: device_used_bytes less
# peak_reserved_bytes of programs alone on an H200, bench/results/2026-11-27-H200/limits.jsonl.
# Messages of other cards are of programs that may have loaded fewer kernels.
MOST_BESIDE = 787 * MIB

_MEASURED = "measured: bench/results"
_ISSUES = "https://github.com/"

# Threads and blocks of a multiprocessor, its shared memory and a block's largest part in KiB: CUDA
# C++ Programming Guide, table of technical specifications by compute capability.
_OF_CAPABILITY = {
    (7, 5): (1024, 16, 64, 64),
    (8, 0): (2048, 32, 164, 163),
    (8, 6): (1536, 16, 100, 99),
    (8, 9): (1536, 24, 100, 99),
    (9, 0): (2048, 32, 228, 227),
    (12, 0): (1536, 24, 100, 99),
}


class Card(NamedTuple):
    """A GPU: its driver's properties, and the memory beside a program's."""

    key: str
    name: str
    capability: tuple[int, int]
    processors: int
    total_bytes: int
    least_beside_bytes: int
    most_beside_bytes: int
    source: str

    def environment(self) -> dict[str, str]:
        """The simulated GPU reports this card. Its memory is set elsewhere."""
        major, minor = self.capability
        threads, blocks, shared, of_block = _OF_CAPABILITY[self.capability]
        attributes = {
            75: major,
            76: minor,
            16: self.processors,
            39: threads,
            106: blocks,
            81: shared << 10,
            97: of_block << 10,
        }
        values = ",".join(f"{number}={value}" for number, value in attributes.items())
        return {"MEND_SIMULATE_NAME": self.name, "MEND_SIMULATE_ATTRIBUTES": values}


def _card(key, name, capability, processors, total, beside, source) -> Card:
    """Sizes in GiB, published with two digits."""
    least, most = beside if isinstance(beside, tuple) else (beside, MOST_BESIDE / GIB)
    sizes = (int(size * GIB) for size in (total, least, most))
    return Card(key, name, capability, processors, *sizes, source)


# By memory.
CARDS = (
    _card("T4", "Tesla T4", (7, 5), 40, 14.56, 0.13,
          _ISSUES + "Zheng-Chong/CatVTON/issues/133"),
    _card("L4", "NVIDIA L4", (8, 9), 58, 22.03, 0.23,
          _ISSUES + "ArcInstitute/evo2/issues/190"),
    _card("RTX4090", "NVIDIA GeForce RTX 4090", (8, 9), 128, 23.52, 0.41,
          _ISSUES + "Soul-AILab/SoulX-FlashTalk/issues/5; least beside: "
          + _ISSUES + "eosphoros-ai/DB-GPT-Hub/issues/248"),
    _card("RTX3090", "NVIDIA GeForce RTX 3090", (8, 6), 82, 23.54, 0.25,
          _ISSUES + "Tencent-Hunyuan/HY-Motion-1.0/issues/3"),
    _card("RTX5090", "NVIDIA GeForce RTX 5090", (12, 0), 170, 31.36, 0.58,
          _ISSUES + "TrajectoryCrafter/TrajectoryCrafter/issues/20; least beside: "
          + _ISSUES + "Wan-Video/Wan2.1/issues/465"),
    _card("A100-40GB", "NVIDIA A100-SXM4-40GB", (8, 0), 108, 39.50, 0.48,
          _ISSUES + "TianheWu/CoSeR/issues/10"),
    _card("L40", "NVIDIA L40", (8, 9), 142, 44.40, 0.49,
          _ISSUES + "QwenLM/Qwen3-VL/issues/2097"),
    _card("L40S", "NVIDIA L40S", (8, 9), 142, 44.42, 0.40,
          _ISSUES + "stepfun-ai/Step-Video-T2V/issues/8"),
    _card("RTX6000Ada", "NVIDIA RTX 6000 Ada Generation", (8, 9), 142, 44.43, 0.41,
          _ISSUES + "DINGYANB/MTVCrafter/issues/21"),
    _card("H100", "NVIDIA H100 80GB HBM3", (9, 0), 132, 79.18, (734 / 1024, 787 / 1024),
          _MEASURED + "/2026-11-26-H100"),
    _card("A100-80GB", "NVIDIA A100-SXM4-80GB", (8, 0), 108, 79.25, 0.39,
          _ISSUES + "HiDream-ai/VAREdit/issues/6"),
    _card("H200", "NVIDIA H200", (9, 0), 132, 139.80, (734 / 1024, 787 / 1024),
          _MEASURED + "/2026-11-26-H200, 2026-11-27-H200"),
)  # fmt: skip

LEAST_BESIDE = min(card.least_beside_bytes for card in CARDS)
USUAL = next(card for card in CARDS if card.key == "H100")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find(name: str) -> Card | None:
    """By its key or its name, whatever the case, spaces and hyphens. None: it is not there."""
    wanted = _plain(name)
    return next((card for card in CARDS if wanted in (_plain(card.key), _plain(card.name))), None)


def asked_for(name: str) -> Card:
    """For an option: by its key or its name, or by a part that only one of them has."""
    found, wanted = find(name), _plain(name)
    partly = [card for card in CARDS if wanted in f"{_plain(card.key)} {_plain(card.name)}"]
    if found is not None or len(partly) == 1:
        return found or partly[0]
    several = "several GPUs have" if partly else "no figures of a GPU"
    keys = ", ".join(card.key for card in (partly or CARDS))
    raise argparse.ArgumentTypeError(f"{several} {name!r}; there are {keys}, or --memory SIZE")
