"""`libmend fit`: says before you run whether a PyTorch program fits into a GPU's memory.

It runs the program over a simulated GPU, with PyTorch's own allocators and Mend's (docs/fit.md).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .. import _devices, _library
from .._errors import Error
from . import _answer, _cards, _function, _orders, _page, _text
from ._runs import ALL, ALLOCATORS, CannotRun, Program, Row, Server

RECORD = "fit.pickle"
FIRST_STEPS = 2  # an optimizer makes its state there
PAGE = 2 << 20
GOOD, DOES_NOT_FIT, BAD_USAGE, NOT_KNOWN = 0, 1, 2, 3
STATUS = (
    "Exit status: 0 it fits, or nothing was asked; 1 it does not fit, or needs more than"
    " --fail-above; 2 bad usage, or the program fails; 3 not sure, or not known."
)
PROGRAM = _library.PACKAGE / "bin" / "libmend"


def _gpus(text: str) -> list[_cards.Card]:
    return [_cards.asked_for(name) for name in text.split(",")]


def _allocators(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in ALLOCATORS or names.count(name) > 1:
            raise argparse.ArgumentTypeError(
                f"{name!r}: choose from {', '.join(ALLOCATORS)}, each once"
            )
    return names


def _steps(text: str) -> int:
    if text == "all":
        return -1
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of steps, nor all")
    return int(text)


def _ranks(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 20:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of ranks")
    return int(text)


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return int(text)


def _value(text: str) -> tuple[str, float | str]:
    """train.py:14=512, train.py:14=0.25, train.py:14=balanced."""
    line, _, value = text.rpartition("=")
    try:
        if re.fullmatch(r"[^\s(]+:\d+", line):
            return line, value if value == "balanced" else float(value)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(
        f"{text!r} gives no value: train.py:14=512 does, or =0.25 of a mask, or =balanced"
    )


def _span(text: str) -> tuple[str, int, int, int]:
    """batch=8..512, or batch=8..512:8 in steps of eight."""
    name, _, span = text.partition("=")
    span, _, step = span.partition(":")
    low, _, high = span.partition("..")
    numbers = (low, high, step or "1")
    if not name or not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is no span: batch=8..512 is one")
    low, high, step = map(int, numbers)
    if not 0 < low <= high or step == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: it must go from 1 or more upwards")
    return name, low, high, step


def parser() -> argparse.ArgumentParser:
    """The command line of `libmend fit`."""
    made = argparse.ArgumentParser(
        prog="libmend fit",
        usage="%(prog)s [options] -- python train.py [arguments]",
        description="Says whether a PyTorch program fits into a GPU's memory, without a GPU: the"
        " memory that it uses and holds under each allocator, the lines that hold it, the smallest"
        " card that is enough. The program runs over a simulated GPU, several times, and really"
        " writes its files.",
        epilog=STATUS,
    )
    add = made.add_argument
    add("--gpu", type=_gpus, metavar="NAME,...", help="does it fit on these")
    add(
        "--memory",
        type=_devices.device_size,
        metavar="SIZE",
        help="does it fit on a GPU with so much: 24GiB",
    )
    add(
        "--largest",
        type=_span,
        metavar="NAME=LOW..HIGH[:STEP]",
        help="the largest number in place of {NAME} in the arguments that fits",
    )
    add(
        "--fail-above",
        type=_devices.device_size,
        metavar="SIZE",
        help="exit status 1 if it may need more",
    )
    add(
        "--allocator",
        type=_allocators,
        default=list(ALLOCATORS),
        metavar="NAME,...",
        help=f"of {', '.join(ALLOCATORS)}; the exit status is of the first (all)",
    )
    add("--value", type=_value, action="append", default=[], metavar="FILE:LINE=VALUE",
        help="the value that a line reads, which only a GPU computes: a number, a fraction of a"
        " mask, or balanced")  # fmt: skip
    add("--world-size", type=_ranks, metavar="N", help="rank 0 of N runs (as torchrun)")
    add("--steps", type=_steps, default=0, metavar="N|all",
        help="end a run after N steps of the optimizer, or with the program (when peaks"
        " repeat)")  # fmt: skip
    add("--seconds", type=_seconds, default=60, metavar="N", help="the most for a run (60)")
    add("-o", dest="page", metavar="PAGE", help="a page of it, one file of HTML")
    add("--json", action="store_true", help="one JSON object")
    add("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return made


class Fit:
    """The questions, and the runs that answer them: none is made twice. `folder` is for files."""

    def __init__(self, options, program: Program, server: Server, folder: str) -> None:
        self.options, self.program, self.server = options, program, server
        self.folder = folder
        self.rows: dict[tuple, Row] = {}
        self.allocators: list[str] = list(options.allocator)
        self.failed: dict[str, str] = {}  # allocators that cannot be had, and why
        self.elsewhere: dict[str, str] = {}  # by card: the program's runs there
        self.knob = options.largest[0] if options.largest else None
        self.ways: list[dict] = [{}]  # to run the program: more where memory depends on it
        self.policies = {"default": "caching", "expandable": "expandable", "mend": "mend:torch"}
        if server.torch_version >= (2, 13):
            self.policies["default"] = "caching:2.13"
        self.ends = 0  # so many of them have one end of values, as many the other
        self.plans = False  # by how much memory there is: no run is without a limit then
        self.turned: dict[str, bool] = {}  # conditions that end the program otherwise
        self.cold: Row | None = None  # a run that compiled, and its measurements for that

    def run(self, allocator, card, size=None, memory=None, **more) -> Row:
        """Without `memory` there is no limit, and cards of one capability are alike."""
        alike = card.capability if memory is None else card.key
        key = (allocator, alike, size, memory, *more.items())
        if key not in self.rows:
            if memory is not None:
                more["memory_bytes"] = memory // (2 << 20) * (2 << 20)
            more["arguments"] = self.program.argv(self.knob, size)
            row = self.server.run(allocator, card, **more)
            if row.compiles:  # others have that from its cache
                self.cold = self.cold or row
                row = self.server.run(allocator, card, **more)
            self.rows[key] = row
        return self.rows[key]

    def unlimited(self, allocator, card, size=None, **more) -> Row:
        """A run without a limit. A program that plans by free memory runs on the whole card, and so
        does Mend where that is enough, because it chooses places by how much memory there is."""
        if self.plans:
            return self.on_card(allocator, card, card.most_beside_bytes, size, **more)
        if allocator == "mend":
            row = self.run(allocator, card, size, card.total_bytes, **more)
            if row.completes:
                return row
        return self.run(allocator, card, size, **more)

    def free(self, allocator, card, size=None) -> list[Row]:
        """The runs without a limit, one for each way. Raises CannotRun where one fails."""
        rows = []
        for way in self.ways:
            row = self.unlimited(allocator, card, size, **way)
            if not row.is_whole and not (self.plans and row.ooms):
                raise CannotRun(
                    f"the program {_text.failure(row)}\n{_text.wrong_values(row)}"
                    f"{self.server.last_words()}"
                )
            if not row.used_gpu:
                raise CannotRun("the program has not used the GPU")
            rows.append(row)
        return rows

    def look_at(self, row: Row, cards: list[_cards.Card], size=None) -> None:
        """The findings of a first run, for the settings of others. Where streams share memory it
        depends on the time of kernels, and where the row has sizes that are not known on them: all
        ways are run. One that asks how much memory there is plans by it, unless it takes the same
        on these cards, or on the smallest that it fits."""
        if row.streams > 1:
            self.ways += [{"kernel_ns": 1_000}, {"kernel_ns": 1_000_000}]
        if row.unknown:
            self.ways += [{**way, "workspaces": "most"} for way in self.ways]
        self.plans = bool(row.asks_free)
        if self.plans:
            first = self.allocators[0]
            there = cards or [self.smallest(first, _cards.USUAL) or _cards.CARDS[-1]]
            used = set()  # there, and without a limit
            for card in there:
                one = self.on_card(first, card, card.most_beside_bytes, size)
                if one.completes:
                    used.add((one.allocated_bytes, self.run(first, card, size).allocated_bytes))
            self.plans = not used or any(one != other for one, other in used)

    def on_card(self, allocator, card, beside, size=None, **more) -> Row:
        return self.run(allocator, card, size, card.total_bytes, beside_bytes=beside, **more)

    def completes(self, allocator, card, memory, size=None, ways=None) -> bool:
        if self.plans:
            return all(row.completes for row in self.free(allocator, card, size))
        return all(
            self.run(allocator, card, size, memory, **way).completes for way in ways or self.ways
        )

    def verdict(self, allocator, card, size=None) -> _answer.Verdict:
        def judged(way, row):
            def limited(memory):
                return self.run(allocator, card, size, memory, **way)

            def on_card(beside):
                return self.on_card(allocator, card, beside, size, **way)

            if self.plans:
                return _answer.judge_on_card(card, row, on_card)
            return _answer.judge(card.total_bytes, allocator, card, row, limited)

        try:
            rows = self.free(allocator, card, size)
        except CannotRun as error:
            first_line, *_ = str(error).splitlines()
            self.elsewhere[card.key] = first_line.removeprefix("the program ")
            return _answer.Verdict(_answer.FAILED)
        found = _answer.worst([judged(*pair) for pair in zip(self.ways, rows)])
        return _answer.with_room_for(self.between(rows), found)

    # ---- values that only a GPU computes ---------------------------------------------------------

    def settled(self, card, size=None, **way) -> Row:
        """A run of the first allocator. A condition that only a GPU computes may end it with an
        error. Such a one reads the opposite from then on, as if the user had said so."""
        row = self.unlimited(self.allocators[0], card, size, **way)
        opposite, given = not way, self.server.given
        while row.ended.startswith("failed"):
            places = [re.findall(r"[^\s(]+:\d+", line)[-1:] for line in reversed(row.conditions)]
            for place in [one for found in places for one in found if one not in given]:
                given[place] = opposite
                self.rows.clear()
                other = self.unlimited(self.allocators[0], card, size, **way)
                if (other.ended, other.conditions) != (row.ended, row.conditions):
                    self.turned[place], row = opposite, other
                    break
                del given[place]
            else:
                self.rows.clear()
                break
        return row

    def values(self, card, size=None) -> dict:
        """Which values the program reads that a kernel would have computed, and whether memory
        depends on them: it runs with zeros, with ones or spread values in their place, and with
        masks that are all true where they decide a size. Masks and choices have ends: if numbers
        make no difference, memory lies between. With masks that numbers decide, as levels of boxes,
        they may change a peak, but no request where all masks are true."""
        zeros = self.free(self.allocators[0], card, size)[0]
        if not zeros.reads:
            return {"reads": [], "depends": False, "is_known": True}
        ones = self.settled(card, size, value=1)
        others = [(ones, {"value": 1})]
        if zeros.counts or ones.counts:
            full = self.settled(card, size, value=ALL)
            if not full.ended.startswith("failed"):
                others = [one for one in others if not ones.ended.startswith("failed")]
                others.append((full, {"value": ALL}))
        zeros = self.free(self.allocators[0], card, size)[0]
        found, way = next((one for one in others if not one[0].is_whole), others[-1])
        is_same = all(row.is_whole and zeros.peaks() == row.peaks() for row, _ in others)
        is_known = is_same
        if found.is_whole and not is_same:
            pairs = [(row, self.settled(card, size, **way, number=0)) for row, way in others]
            is_known = pairs[-1][0].asks_as(pairs[-1][1]) or all(
                row.peaks() == other.peaks() for row, other in pairs
            )
        if found.is_whole:  # with zeros, between them lies all that was seen
            others = sorted([(zeros, {}), *others], key=lambda one: one[0].peaks())
            found, way = others[-1] if others[-1][0].peaks() > zeros.peaks() else others[0]
        is_held = not is_same and zeros.allocated_bytes == found.allocated_bytes
        sizes = [row.reserved_bytes if is_held else row.allocated_bytes for row in (zeros, found)]
        return {
            "reads": zeros.reads,
            "counts": found.counts,
            "depends": not is_same,
            "is_known": is_known,
            "verb": "holds" if is_held else "uses",
            "with_zeros_bytes": sizes[0],
            "with_ones_bytes": sizes[1] if found.is_whole else None,
            "with_ones_ended": found.ended,
            "with_ones_line": found.ooms[0]["line"] if found.ooms else None,
            "other_end": way,
        }

    def bound(self, values: dict) -> None:
        """Where memory depends on masks and choices alone, the program runs with both ends."""
        if values["depends"] and values["is_known"] and not self.ends:
            self.ends = len(self.ways)
            self.ways += [{**way, **values["other_end"]} for way in self.ways]

    def between(self, rows: list[Row]) -> int:
        """The difference that the two ends make."""
        pairs = list(zip(rows, rows[self.ends :])) if self.ends else []
        sizes = [(one.allocated_bytes, other.allocated_bytes) for one, other in pairs]
        sizes += [(one.reserved_bytes, other.reserved_bytes) for one, other in pairs]
        return max((abs(one - other) for one, other in sizes), default=0)

    # ---- one record answers for all sizes --------------------------------------------------------

    def record(self, card, values: dict, size=None) -> dict:
        """Runs once with the history of its memory, at the end of values that takes more. Asks
        `libmend report` for the owners at the peak, and `libmend replay` for the minimum memory of
        each allocator."""
        file = str(Path(self.folder) / RECORD)
        more = {"memory_bytes": card.total_bytes} if self.plans else {}
        more["arguments"] = self.program.argv(self.knob, size)
        if self.ends and (values.get("with_ones_bytes") or 0) > values["with_zeros_bytes"]:
            more |= values["other_end"]
        row = self.server.run("default", card, record=file, **more)
        report = _ask("report", "--json", "--no-what-if", file) if row.is_whole else []
        replays = [] if self.plans else self.replay(file, "fit")
        owners = [
            {"line": owner["name"], "bytes": owner["at_peak_bytes"]}
            for one in report
            for owner in one["owners"]
            if owner["at_peak_bytes"] > 0
        ]
        least = {line["policy"]: line.get("fit_capacity_bytes") for line in replays}
        return {
            "owners": sorted(owners, key=lambda owner: -owner["bytes"]),
            "peak_bytes": report[0]["peak_live_bytes"] if report else 0,
            "least": {name: least.get(self.policies[name]) for name in self.allocators},
            "steps": Path(file + ".steps") if row.steps_differ and not self.plans else None,
        }

    def write_page(self, answer: dict) -> None:
        """The page of the recorded run."""
        record, page, timeline = (
            str(Path(self.folder) / name) for name in (RECORD, "page.html", "timeline")
        )
        _ask("report", "--json", "--no-what-if", "-o", page, record)
        asked = ",".join(self.policies[name] for name in self.allocators)
        _ask("replay", "--json", "--timeline", timeline, "--allocator", asked, record)
        report = Path(page).read_text(encoding="utf-8")
        _page.write(Path(self.options.page), report, answer, _text.write(answer), Path(timeline))

    def replay(self, file: str, capacity: str) -> list[dict]:
        asked = ",".join(self.policies[name] for name in self.allocators)
        return _ask("replay", "--json", "--capacity", capacity, "--allocator", asked, file)

    def orders(self, steps: Path, rooms: dict[str, int], held_bytes: int) -> dict | None:
        """Of random orders of the steps, how many run out in each of these rooms."""
        record = _orders.split(*json.loads(steps.read_text()), first=FIRST_STEPS)
        if len(record.steps) < 2:
            return None
        capacity = ",".join(map(str, rooms.values()))

        def replayed(seed: int) -> list[dict]:
            file = Path(self.folder) / f"order{seed}.csv"
            drawn = _orders.order(record, seed)
            file.write_text("\n".join(_orders.trace(record, drawn)) + "\n")
            found = self.replay(str(file), capacity)
            file.unlink()
            return found

        with ThreadPoolExecutor(2) as two:
            seeds = _orders.seeds(held_bytes, min(rooms.values()))
            rows = [row for found in two.map(replayed, seeds) for row in found]
        ran_out = {}
        for label, room in rooms.items():
            for name in self.allocators:
                key = (self.policies[name], -(-room // PAGE) * PAGE)
                alike = [row for row in rows if (row["policy"], row["capacity_bytes"]) == key]
                out = sum(not row["completed"] for row in alike)
                ran_out.setdefault(label, {})[name] = [out, len(alike)]
        return {"steps": _orders.count_of_steps(record) + 2, "ran_out": ran_out}

    def rooms(self, targets, columns) -> dict[str, int]:
        """The certain memory of an allocator on each target, or on the smallest sufficient card."""
        if not targets:
            card = _cards.find(columns[self.allocators[0]].get("smallest_card") or "none")
            targets = [(card.key, card.total_bytes, card)] if card else []
        return {label: _answer.room_of(total, "default", card)[0] for label, total, card in targets}

    def least(self, allocator, card, said: int | None, held: int, ways=None) -> int:
        """The minimum memory of the replay, if a run with it completes. Otherwise the reserved
        memory without a limit."""
        for factor in (1, 1.01):
            memory = int((said or held) * factor)
            if memory < held and self.completes(allocator, card, memory, ways=ways):
                return memory
        return held

    # ---- answers ---------------------------------------------------------------------------------

    def smallest(self, allocator, base: _cards.Card) -> _cards.Card | None:
        """The card with the least memory that it surely fits into."""
        first = self.allocators[0]
        for card in _cards.CARDS:
            if self.plans:
                if self.verdict(allocator, card).what == _answer.FITS:
                    return card
                continue
            if card.total_bytes < self.run(first, base).allocated_bytes // 2:
                continue
            row, of_base = self.run(first, card), self.run(first, base)
            if row.peaks() == of_base.peaks():
                card = card._replace(capability=base.capability)
            if self.verdict(allocator, card).what == _answer.FITS:
                return card
            if row.reserved_bytes > of_base.reserved_bytes:
                self.elsewhere[card.key] = f"holds {_answer.gib(row.reserved_bytes)}"
        return None

    def targets(self) -> list[tuple[str, int, _cards.Card]]:
        """A target: a label, the memory, the card to simulate."""
        found = [
            (f"{card.key} ({_answer.gib(card.total_bytes)})", card.total_bytes, card)
            for card in self.options.gpu or []
        ]
        if self.options.memory:
            card = _cards.USUAL._replace(
                key="--memory",
                total_bytes=self.options.memory,
                least_beside_bytes=_cards.LEAST_BESIDE,
            )
            label = f"a GPU of {_answer.gib(self.options.memory)}"
            found.append((label, self.options.memory, card))
        return found

    def answer(self) -> dict:
        if self.knob:
            return self.answer_largest()
        targets = self.targets()
        base = targets[0][2] if targets else _cards.USUAL
        self.settled(base)
        self.look_at(self.free(self.allocators[0], base)[0], [card for _, _, card in targets])
        if self.plans and not targets:
            base = self.smallest(self.allocators[0], base) or _cards.CARDS[-1]
        values = self.values(base)
        self.bound(values)
        is_known = values["is_known"]
        later = len(self.ways) * (len(self.allocators) - 1) + 1  # of the others, and the recorded
        self.server.known = len(self.server.runs) + later
        for allocator in list(self.allocators):
            try:
                self.free(allocator, base)
            except CannotRun as error:
                if allocator == self.allocators[0]:
                    raise
                self.failed[allocator] = str(error)
                self.allocators.remove(allocator)
        record = self.record(base, values)
        columns = {
            allocator: self.column(allocator, base, record["least"][allocator], is_known, targets)
            for allocator in self.allocators
        }
        rooms = self.rooms(targets, columns) if is_known and record["steps"] else {}
        held = max(column["reserved_bytes"] for column in columns.values())
        orders = self.orders(record["steps"], rooms, held) if rooms else None
        judged = [self.answer_target(*target, is_known) for target in targets]
        for target in judged if orders else []:
            for name, (out, _) in orders["ran_out"][target["label"]].items():
                if out and target["verdicts"][name]["what"] == _answer.FITS:
                    target["verdicts"][name] = vars(_answer.Verdict(_answer.UNSURE))
        return {
            "program": self.program.words(),
            "torch": self.server.torch,
            "capability": list(base.capability),
            "row": vars(self.free(self.allocators[0], base)[0]),
            "ways": self.ways,
            "plans": self.plans,
            "cold_bytes": self.cold.reserved_bytes if self.cold else None,
            "world_size": self.program.world_size,
            "orders": orders,
            "columns": columns,
            "allocators": self.allocators,
            "failed": self.failed,
            "elsewhere": self.elsewhere,
            "values": values,
            "turned": self.turned,
            "owners": record["owners"],
            "peak_bytes": record["peak_bytes"],
            "targets": judged,
        }

    def column(self, allocator, base, said, is_known, targets) -> dict:
        rows = self.free(allocator, base)
        held, held_least = _most_and_least(row.reserved_bytes for row in rows)
        used, used_least = _most_and_least(row.allocated_bytes for row in rows)
        column = {
            "allocated_bytes": used,
            "allocated_least_bytes": used_least,
            "reserved_bytes": held,
            "reserved_least_bytes": held_least,
            "lost_bytes": max(row.reserved_bytes - row.allocated_bytes for row in rows),
            "retries": max(row.retries for row in rows),
        }
        if self.plans and not targets:
            column["smallest_card"] = (
                base.key if self.verdict(allocator, base).what == _answer.FITS else None
            )
        elif is_known and not self.plans:
            beside = [_cards.LEAST_BESIDE, _cards.MOST_BESIDE]
            if targets:
                beside = [base.least_beside_bytes, base.most_beside_bytes]
            least = self.least(allocator, base, said, held)
            column["least_bytes"] = least
            need = _answer.need_of(least, allocator, *beside, rows[0].unknown)
            if rows[0].unknown:  # which may be nothing
                few = self.least(allocator, base, said, rows[0].reserved_bytes, self.ways[:1])
                need.least_bytes = _answer.need_of(few, allocator, *beside).least_bytes
            need.least_bytes = max(need.least_bytes - self.between(rows), beside[0])
            need.most_bytes += self.between(rows)
            column["need"] = vars(need)
            if not targets:
                card = self.smallest(allocator, base)
                column["smallest_card"] = card.key if card else None
        return column

    def answer_target(self, label, total, card, is_known) -> dict:
        return {
            "label": label,
            "total_bytes": total,
            "room_bytes": _answer.room_of(total, "default", card)[0],
            "beside_bytes": [card.least_beside_bytes, card.most_beside_bytes],
            "source": card.source if card.key != "--memory" else None,
            "verdicts": {
                allocator: vars(
                    self.verdict(allocator, card)
                    if is_known
                    else _answer.Verdict(_answer.UNKNOWN)
                )
                for allocator in self.allocators
            },
        }

    def answer_largest(self) -> dict:
        """The largest size whose verdict is that it fits."""
        knob, low, high, step = self.options.largest
        targets = self.targets()
        first, card = self.allocators[0], targets[0][2]
        self.settled(card, low)
        self.look_at(self.free(first, card, low)[0], [card for *_, card in targets], low)
        self.bound(self.values(card, low))
        while True:
            found = [self.largest(*target) for target in targets]
            size = found[0]["largest"][first] or low
            values, ends = self.values(card, size), self.ends
            self.bound(values)
            if self.ends == ends:  # the same ways as at the least size
                break
        if self.options.page:
            self.record(card, values, size)
        return {
            "program": self.program.words(),
            "torch": self.server.torch,
            "capability": list(card.capability),
            "row": vars(self.free(first, card, size)[0]),
            "ways": self.ways,
            "plans": self.plans,
            "cold_bytes": self.cold.reserved_bytes if self.cold else None,
            "allocators": self.allocators,
            "world_size": self.program.world_size,
            "knob": knob,
            "span": [low, high, step],
            "values": values,
            "turned": self.turned,
            "targets": found,
        }

    def largest(self, label, total, card) -> dict:
        _, low, high, step = self.options.largest

        def of(allocator) -> int | None:
            return _answer.largest(
                low,
                high,
                step,
                _answer.room_of(total, allocator, card)[0],
                lambda size: max(
                    self.free(allocator, card, size), key=lambda row: row.reserved_bytes
                ),
                lambda size: self.verdict(allocator, card, size).what == _answer.FITS,
            )

        room = _answer.room_of(total, "default", card)[0]
        sizes = {allocator: of(allocator) for allocator in self.allocators}
        return {"label": label, "total_bytes": total, "room_bytes": room, "largest": sizes}


def _most_and_least(sizes) -> tuple[int, int]:
    found = list(sizes)
    return max(found), min(found)


def _ask(*words: str) -> list[dict]:
    """The output of the program, a JSON object a line."""
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def status_of(answer: dict, options: argparse.Namespace) -> int:
    """The exit status of an answer: GOOD, DOES_NOT_FIT, or NOT_KNOWN."""
    row = answer["row"]
    if not answer["values"]["is_known"] or row["ended"] == "time":
        return NOT_KNOWN
    first = options.allocator[0]
    found = [NOT_KNOWN if _text.has_run_out(answer) else GOOD]
    for target in answer["targets"]:
        if "largest" in target:
            found.append(GOOD if target["largest"][first] else DOES_NOT_FIT)
        else:
            what = target["verdicts"][first]["what"]
            found.append({_answer.FITS: GOOD, _answer.FAILS: DOES_NOT_FIT}.get(what, NOT_KNOWN))
    if options.fail_above:
        need = answer["columns"][first].get("need")
        if need is None:  # it plans by free memory
            found.append(NOT_KNOWN)
        elif options.fail_above < need["most_bytes"]:
            found.append(DOES_NOT_FIT)
    return DOES_NOT_FIT if DOES_NOT_FIT in found else max(found)


def _answered(options: argparse.Namespace, program: Program, begin: float) -> dict:
    """Makes the runs. Raises CannotRun."""
    given = dict(options.value)
    if options.page:
        open(options.page, "a", encoding="utf-8").close()  # is it a place to write to
    with contextlib.closing(
        Server(program, options.steps, options.seconds, given)
    ) as server, tempfile.TemporaryDirectory() as folder:
        fits = Fit(options, program, server, folder)
        answer = fits.answer()
        read = set().union(*(run.get("given", ()) for run in server.runs))
        answer["row"]["given"] = {line: server.given[line] for line in server.given if line in read}
        for line in set(given) - read:
            raise CannotRun(f"--value {line}: no value that only a GPU computes is read there")
        answer["runs"] = server.runs
        answer["status"] = status_of(answer, options)
        answer["fail_above_bytes"] = options.fail_above
        answer["seconds"] = round(time.monotonic() - begin, 1)
        if options.page:
            fits.write_page(answer)
    return answer


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line, and returns the exit status."""
    begin = time.monotonic()
    made = parser()
    words = sys.argv[1:] if arguments is None else arguments
    at = words.index("--") if "--" in words else len(words)
    options = made.parse_args(words[:at])
    named = options.program + words[at + 1 :]
    if options.largest and not (options.gpu or options.memory):
        made.error("--largest: say for which memory: --gpu NAME or --memory SIZE")
    if options.largest and options.fail_above:
        made.error("--largest and --fail-above are two questions")
    try:
        program = Program.of(named)
        program.world_size = options.world_size or program.world_size
        if options.largest and f"{{{options.largest[0]}}}" not in " ".join(program.arguments):
            raise CannotRun(f"no argument of the program has {{{options.largest[0]}}} in it")
        answer = _answered(options, program, begin)
    except (CannotRun, OSError) as error:
        print(f"libmend fit: {error}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt:
        return 130
    print(json.dumps(answer) if options.json else _text.write(answer), flush=True)
    return answer["status"]


class Answer:
    """The result of libmend.fit(). Shown, it is the text of the command."""

    def __init__(self, answer: dict) -> None:
        self.answer = answer  # the output of --json
        self.fits = {GOOD: True, DOES_NOT_FIT: False}.get(answer["status"])  # None: not sure

    def __repr__(self) -> str:
        return _text.write(self.answer)


def fit(function, *arguments: object, options: str = "", **named: object) -> Answer:
    """Whether function(*arguments, **named) fits into a GPU's memory, without a GPU: it runs in its
    own processes, over a simulated GPU. `options` are the command's: "--gpu T4 --allocator
    default". Raises libmend.Error where the function cannot be run there, and ValueError for wrong
    options."""
    begin = time.monotonic()
    made = parser()
    made.error = _refuse
    asked = made.parse_args(options.split())
    if asked.program or asked.largest:
        raise ValueError("libmend.fit: options name no program and no --largest")
    try:
        return Answer(_answered(asked, _function.program_of(function, arguments, named), begin))
    except (CannotRun, OSError) as error:
        raise Error(f"libmend.fit: {error}") from None


def _refuse(message: str) -> None:
    raise ValueError(f"libmend.fit: {message}")


class _Callable(types.ModuleType):
    """`libmend.fit` is this module, and its function."""

    def __call__(self, *arguments: object, **named: object) -> Answer:
        return fit(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
