"""Random orders of a program's steps: if steps differ in their requests, the recorded order is one
of many, and fragmentation depends on it. Recorded steps are drawn again and again, the largest
twice in a row, and `libmend replay` runs the result."""

from __future__ import annotations

import collections
import random
from typing import Iterator, NamedTuple

ORDERS, STEPS = 20, 2000
FEW_ORDERS = 4  # where the program holds less than half of the memory
MOST_EVENTS = 1 << 20  # of an order: fewer steps are drawn where they have many events
HEADER = "Thread,Time,Action,Pointer,Size,Stream"


class Event(NamedTuple):
    """A block is given out, or with None for its size taken back."""

    block: int
    size: int | None
    stream: int


class Record(NamedTuple):
    """The first steps, whose order stays, and the steps that are drawn."""

    first: list[Event]
    steps: list[list[Event]]


def split(events: list[tuple], ends: list[int], first: int) -> Record:
    """Of events (is_given, address, size, stream, time), and the times at which steps ended. The
    first so many of those are not drawn."""
    live: dict[int, int] = {}
    parts: list[list[Event]] = [[] for _ in range(len(ends) + 1)]
    step = 0
    for number, (is_given, address, size, stream, time) in enumerate(events):
        while step < len(ends) and time > ends[step]:
            step += 1
        if is_given:
            live[address] = number
            parts[step].append(Event(number, size, stream))
        elif address in live:
            parts[step].append(Event(live.pop(address), None, stream))
    steps = [part for part in parts[first:-1] if part]
    return Record([event for part in parts[:first] for event in part], steps)


def seeds(held_bytes: int, room_bytes: int) -> range:
    """Of the orders that are to be replayed."""
    return range(ORDERS if 2 * held_bytes > room_bytes else FEW_ORDERS)


def count_of_steps(record: Record) -> int:
    """How many are drawn for an order."""
    events = sum(map(len, record.steps)) / len(record.steps)
    return max(min(STEPS, int(MOST_EVENTS / max(events, 1))), 2 * len(record.steps))


def order(record: Record, seed: int) -> list[int]:
    """Which steps follow each other."""
    chance = random.Random(seed)
    drawn = [chance.randrange(len(record.steps)) for _ in range(count_of_steps(record))]
    sizes = [sum(event.size or 0 for event in step) for step in record.steps]
    at = chance.randrange(len(drawn))
    drawn[at:at] = [sizes.index(max(sizes))] * 2
    return drawn


def trace(record: Record, drawn: list[int]) -> Iterator[str]:
    """Lines of a log of RMM. Blocks that a step leaves to the next one, which frees them in the
    recording, are freed by the step that follows it here, at the same places."""
    taken = {}  # by block: when the recording takes it back
    for step in record.steps:
        for event in step:
            if event.size is None:
                taken[event.block] = len(taken)
    names = iter(range(1 << 60))

    def line(event: Event, name: int) -> str:
        action = "free" if event.size is None else "allocate"
        return f"0,0,{action},{name},{event.size or 0},{event.stream:#x}"

    def left(own: dict) -> collections.deque:
        return collections.deque(own[block] for block in sorted(own, key=lambda b: taken[b]))

    yield HEADER
    own: dict[int, tuple[int, Event]] = {}
    for event in record.first:
        if event.size is not None:
            own[event.block] = (next(names), event)
        name, _ = own[event.block] if event.size is not None else own.pop(event.block)
        yield line(event, name)
    kept = left({block: own[block] for block in own if block in taken})
    for number in drawn:
        own = {}
        for event in record.steps[number]:
            if event.size is not None:
                own[event.block] = (next(names), event)
                yield line(event, own[event.block][0])
            elif event.block in own:
                yield line(event, own.pop(event.block)[0])
            elif kept:
                name, given = kept.popleft()
                yield line(given._replace(size=None), name)
        for name, given in kept:
            yield line(given._replace(size=None), name)
        last = len(taken)
        for block in own:  # unknown for the last step of the recording
            taken.setdefault(block, last)
        kept = left(own)
