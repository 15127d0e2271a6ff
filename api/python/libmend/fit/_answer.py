"""Conclusions from runs: how much a card must have, whether it fits, the largest size."""

from __future__ import annotations

import dataclasses
from typing import Callable

from ._cards import GIB, MIB, Card

# The largest distance between reserved memory on an H100 or H200 and in the simulation, over the
# rows of docs/fit.md#accuracy that completed: parts of the reserved memory. Mend's rows there are
# of earlier policies: it is given as much as PyTorch's default.
ERROR = {"default": 0.008, "expandable": 0.001, "mend": 0.008}
# The same where workspaces are unknown: PyTorch's default held up to 8.9 % more on the H100.
UNKNOWN_ERROR = 0.1

FITS, FAILS, UNSURE, UNKNOWN = "fits", "does not fit", "not sure", "not known"
FAILED = "does not run"


def gib(size: int, digits: int = 2) -> str:
    """A size in words."""
    return f"{size / GIB:.{digits}f} GiB"


@dataclasses.dataclass
class Need:
    """Of a device's memory, from and to: the allocator's, and the rest beside it."""

    least_bytes: int
    most_bytes: int

    def __str__(self) -> str:
        return f"{self.least_bytes / GIB:.2f} to {self.most_bytes / GIB:.2f} GiB"


def need_of(
    held_bytes: int, allocator: str, least_beside: int, most_beside: int, unknown=()
) -> Need:
    """The need of an allocator with so much reserved memory, with its error and the rest beside
    it."""
    error = ERROR[allocator]
    above = max(error, UNKNOWN_ERROR) if unknown else error
    return Need(
        int(held_bytes * (1 - error)) + least_beside, int(held_bytes * (1 + above)) + most_beside
    )


@dataclasses.dataclass
class Verdict:
    """Whether a program fits into a memory under an allocator."""

    what: str
    left_bytes: int | None = None  # of the device, at least. None: it does not fit, or takes all
    step: int | None = None  # where it fails
    line: str | None = None
    size_bytes: int | None = None  # of the request that fails


def room_of(total_bytes: int, allocator: str, card: Card) -> tuple[int, int]:
    """The allocator's part of a device: certain, and at most."""
    error = ERROR[allocator]
    sure = int((total_bytes - card.most_beside_bytes) / (1 + error))
    most = int((total_bytes - card.least_beside_bytes) / (1 - error))
    return max(sure, 0), max(most, 0)


def judge(total_bytes: int, allocator: str, card: Card, free_row, limited: Callable) -> Verdict:
    """`free_row` ran without a limit, and limited(bytes) runs with one. Two runs at most: with the
    allocator's certain part of the device, and with its largest one."""
    sure, most = room_of(total_bytes, allocator, card)
    beside = card.least_beside_bytes, card.most_beside_bytes
    need = need_of(free_row.reserved_bytes, allocator, *beside, free_row.unknown)
    if need.most_bytes <= total_bytes:
        return Verdict(FITS, total_bytes - need.most_bytes)
    if free_row.allocated_bytes <= sure:
        row = limited(sure)
        if row.completes:
            return Verdict(FITS, 0)
    row = limited(most) if most >= 2 * MIB else None
    if row is not None and row.completes:
        return Verdict(UNSURE)
    return _failed(row)


def _failed(row) -> Verdict:
    oom = row.ooms[0] if row is not None and row.ooms else {}
    return Verdict(FAILS, None, oom.get("step"), oom.get("line"), oom.get("size_bytes"))


def judge_on_card(card: Card, row, on_card: Callable) -> Verdict:
    """For a program that plans by free memory: `row` ran on the card with the largest rest beside
    it, and on_card(bytes) runs with so much beside it."""
    if row.completes:
        return Verdict(FITS)
    other = on_card(card.least_beside_bytes)
    return Verdict(UNSURE) if other.completes else _failed(other)


def worst(verdicts: list[Verdict]) -> Verdict:
    """For one program with kernels of several times: the conclusion for all of them."""
    if all(verdict.what == FITS for verdict in verdicts):
        return min(verdicts, key=lambda verdict: verdict.left_bytes or 0)
    if all(verdict.what == FAILS for verdict in verdicts):
        return verdicts[0]
    return Verdict(UNSURE)


def with_room_for(size: int, found: Verdict) -> Verdict:
    """A verdict of programs whose need lies between two that differ by so much: it may be beyond
    them, by as much again."""
    if found.what != FITS or size == 0:
        return found
    left = (found.left_bytes or 0) - size
    return Verdict(FITS, left) if left > 0 else Verdict(UNSURE)


def largest(
    low: int, high: int, step: int, usable: int, run: Callable, fits: Callable
) -> int | None:
    """The largest of low, low + step, ... up to high that fits into `usable` bytes, or None.
    run(size) is the row without a limit, fits(size) the verdict. The need of a
    program is nearly linear in its size. So this follows the line through the two sizes next to the
    limit, first halfway from allocated to reserved, then of either, and otherwise halves the
    rest."""
    good, bad = low - step, low + (high - low) // step * step + step
    rows: dict[int, object] = {}
    size = low
    while bad - good > step:
        row = rows[size] = run(size)
        does = row.is_whole and row.allocated_bytes <= usable and fits(size)
        good, bad = (size, bad) if does else (good, size)
        guesses = [2 * size] if len(rows) == 1 else _guesses(rows, usable, step)
        inside = [g for g in (low + int(g - low) // step * step for g in guesses) if good < g < bad]
        size = inside[0] if inside else good + max((bad - good) // step // 2, 1) * step
    return good if good >= low else None


def _guesses(rows: dict, usable: int, step: int) -> list[float]:
    """Where the lines reach `usable`, and one further, so that it is enclosed."""
    guesses = []
    for part in (0.5, 0, 1):
        needs = {
            size: row.allocated_bytes + part * (row.reserved_bytes - row.allocated_bytes)
            for size, row in rows.items()
        }
        one, other = sorted(sorted(needs, key=lambda size: abs(needs[size] - usable))[:2])
        slope = (needs[other] - needs[one]) / (other - one)
        if slope > 0:
            guess = one + (usable - needs[one]) / slope
            guesses += [guess, guess + step]
    return guesses
