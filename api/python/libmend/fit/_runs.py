"""Runs of the program: the interpreter that has its PyTorch, the process that forks for each run,
and the result of a run."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from ..simulate import environment_for
from ._cards import Card

UNLIMITED = 1 << 40
RANKS_OF_NODE = 8  # and GPUs
USUAL_KERNEL_NS = 20_000
ALL = "all"  # a value: see _values.py
SERVER = Path(__file__).with_name("_server.py")
ALLOCATORS = {"default": "PyTorch's default", "expandable": "expandable segments", "mend": "Mend"}
# Variables that choose the allocator of a program, or hide devices, which fit does itself.
_SET_ASIDE = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "MEND_TORCH")
_TORCHRUN_FLAGS = (
    "m", "module", "standalone", "no-python", "run-path", "virtual-local-rank", "use-env",
)  # fmt: skip
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def _tell(words: str) -> None:
    """The current step, which replaces the one before."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)


class CannotRun(Exception):
    """In words for the user: the program cannot be run at all."""


@dataclasses.dataclass
class Program:
    """The program, as the user wrote it."""

    interpreter: list[str]  # with its flags
    target: list[str]  # a file, -m and a module, or -c and its text
    arguments: list[str]
    name: str = ""  # in the answer, where it has one of its own
    world_size: int = 0  # ranks, of which it is one. 0: only one

    @classmethod
    def of(cls, words: list[str]) -> Program:
        if not words:
            raise CannotRun("name the program to run: libmend fit -- python train.py")
        if words[0].endswith(".py"):
            return cls._of_target([sys.executable], words)
        found = shutil.which(words[0])
        if found is None:
            raise CannotRun(f"there is no program {words[0]!r}")
        if re.fullmatch(r"python[\d.]*", Path(words[0]).name):
            flags = 1
            while words[flags : flags + 1] and re.match(r"-(?![mc]$)", words[flags]):
                flags += 2 if words[flags] in _WITH_VALUE else 1
            return cls._of_target([found, *words[1:flags]], words[flags:])
        with open(found, "rb") as file:
            first = re.match(rb"#!\s*(\S*python[\d.]*)\s*\n", file.readline())
        if not first:
            raise CannotRun(f"{words[0]} is no Python program: name one as python train.py")
        return cls._of_target([first[1].decode()], [found, *words[1:]])

    @classmethod
    def _of_torchrun(cls, interpreter: list[str], words: list[str]) -> Program:
        """Of torchrun's options its ranks matter: none is started but the one that is run."""
        asked = {"nnodes": "1", "nproc-per-node": "1"}
        at, is_module = 0, False
        while at < len(words) and words[at].startswith("-"):
            name, equals, value = words[at].lstrip("-").replace("_", "-").partition("=")
            is_module |= name in ("m", "module")
            if name not in _TORCHRUN_FLAGS and not equals:
                at += 1
                value = words[at] if at < len(words) else ""
            asked[name] = value
            at += 1
        ranks = [asked[name].rpartition(":")[2] for name in ("nnodes", "nproc-per-node")]
        if not all(count.isdecimal() and int(count) > 0 for count in ranks):
            raise CannotRun(f"torchrun: say how many ranks: {' and '.join(asked)} are {ranks}")
        made = cls._of_target(interpreter, ["-m", *words[at:]] if is_module else words[at:])
        return dataclasses.replace(made, world_size=int(ranks[0]) * int(ranks[1]))

    @classmethod
    def _of_target(cls, interpreter: list[str], words: list[str]) -> Program:
        if words[:1] == ["-m"] and words[1:2] in (["torch.distributed.run"], ["torchrun"]):
            return cls._of_torchrun(interpreter, words[2:])
        if words and Path(words[0]).name == "torchrun":
            return cls._of_torchrun(interpreter, words[1:])
        count = 2 if words[:1] in (["-m"], ["-c"]) else 1
        target = words[:count]
        if len(target) < count:
            raise CannotRun("name the program to run: a file, -m and a module, or -c and its text")
        if count == 1 and not Path(target[0]).is_file():
            raise CannotRun(f"there is no file {target[0]!r}")
        return cls(interpreter, target, words[count:])

    def words(self, size: int | None = None) -> str:
        if self.name:
            return self.name
        name = Path(self.target[-1]).name if len(self.target) == 1 else " ".join(self.target)
        return " ".join([name.splitlines()[0] if name else name, *self.argv(None, size)])

    def argv(self, knob: str | None, size: int | None) -> list[str]:
        """Its arguments, with the size in place of {knob}."""
        if knob is None:
            return self.arguments
        return [word.replace(f"{{{knob}}}", str(size)) for word in self.arguments]


@dataclasses.dataclass
class Row:
    """The result of one run."""

    ended: str  # end, steps, peaks repeat, time, out of memory, failed: ..., exit N
    allocated_bytes: int = 0
    reserved_bytes: int = 0
    asked_bytes: int = 0  # by all requests together
    steps: int = 0
    steps_differ: bool = False  # in their requests
    streams: int = 0  # that have memory
    asks_free: str = ""  # the line that asks how much memory is free
    grew_at_step: int = 0
    retries: int = 0
    ooms: list = dataclasses.field(default_factory=list)
    reads: list = dataclasses.field(default_factory=list)  # of values: (line, count)
    unknown: list = dataclasses.field(default_factory=list)  # whose sizes a GPU alone knows
    whole_reads: list = dataclasses.field(default_factory=list)  # of them, of whole numbers
    counts: list = dataclasses.field(default_factory=list)  # (line, the most that a mask keeps)
    conditions: list = dataclasses.field(default_factory=list)  # the last lines that read one
    given: dict = dataclasses.field(default_factory=dict)  # values by line, of the user's
    used_gpu: bool = False
    compiles: bool = False  # a later run has it from a cache
    seconds: float = 0.0

    @property
    def is_whole(self) -> bool:
        """It came to an end that its peaks may be judged by."""
        return self.ended in ("end", "steps", "peaks repeat", "time")

    @property
    def completes(self) -> bool:
        return self.is_whole and not self.ooms

    def peaks(self) -> tuple[int, int]:
        return self.allocated_bytes, self.reserved_bytes

    def asks_as(self, other: Row) -> bool:
        """It has the same peaks, and has requested as much: below a peak, too, all is the same."""
        return (*self.peaks(), self.asked_bytes) == (*other.peaks(), other.asked_bytes)


class Server:
    """The process that has imported PyTorch, and runs the program in children."""

    def __init__(self, program: Program, steps: int, seconds: int, given: dict) -> None:
        self.program, self.steps, self.seconds = program, steps, seconds
        self.given = dict(given)  # values by line
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        self.runs: list[dict] = []
        self.known = 0  # of the runs that will be made
        for arguments in (json.dumps(program.arguments), ""):
            ready = self._start(arguments)
            if "poisoned" not in ready:
                break
        if "torch" not in ready:
            why = ready.get("missing") or (
                "an import uses the GPU" if "poisoned" in ready else self.last_words()
            )
            hint = ""
            if "missing" in ready and program.interpreter[0] != sys.executable:
                hint = f" (libmend itself runs with {sys.executable})"
            raise CannotRun(f"{program.interpreter[0]}: {why}{hint}")
        if not ready["cuda"]:
            raise CannotRun(f"PyTorch {ready['torch']} of {program.interpreter[0]} has no CUDA")
        self.torch = ready["torch"]
        numbers = re.match(r"(\d+)\.(\d+)", self.torch)
        self.torch_version = (int(numbers[1]), int(numbers[2]))

    def _start(self, arguments: str) -> dict:
        devices = max(min(self.program.world_size, RANKS_OF_NODE), 1)
        environment = environment_for(UNLIMITED, devices, False)
        for name in (*_SET_ASIDE, "CUDA_VISIBLE_DEVICES"):
            environment.pop(name, None)
        environment["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # is_available() initializes nothing
        environment["MEND_SIMULATE_CONTENTS"] = "small"
        reading, writing = os.pipe()
        words = [str(SERVER), str(writing), arguments, *self.program.target]
        self.process = subprocess.Popen(
            [*self.program.interpreter, *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=self.log,
            text=True,
            pass_fds=[writing],
        )
        os.close(writing)
        self.answers = os.fdopen(reading)
        return self._answer()

    def _answer(self) -> dict:
        line = self.answers.readline()
        return json.loads(line) if line else {}

    def run(
        self,
        allocator: str,
        card: Card,
        memory_bytes: int = UNLIMITED,
        arguments: list[str] | None = None,
        record: str | None = None,
        beside_bytes: int = 0,
        value: int | str = 0,
        number: int | None = None,
        kernel_ns: int = USUAL_KERNEL_NS,
        workspaces: str = "least",
    ) -> Row:
        """Runs the program once on that much memory of that card, of which others have
        `beside_bytes`. `value` replaces values that a kernel would have computed, `number` those
        of them without bounds (the same), and `kernel_ns` is the time of a kernel. Unknown
        `workspaces` have their least or their largest size."""
        request = {
            "arguments": self.program.arguments if arguments is None else arguments,
            "allocator": allocator,
            "environment": {
                **card.environment(),
                "MEND_SIMULATE_MEMORY": str(memory_bytes),
                "MEND_SIMULATE_KERNEL_NS": str(kernel_ns),
                "MEND_SIMULATE_WORKSPACES": workspaces,
            },
            "steps": self.steps,
            "world_size": self.program.world_size,
            "seconds": self.seconds,
            "record": record,
            "beside_bytes": beside_bytes,
            "value": value,
            "number": int(bool(value)) if number is None else number,
            "given": self.given,
        }
        number_of_run = len(self.runs) + 1
        known = f" of at least {self.known}" if self.known > number_of_run else ""
        words = f"run {number_of_run}{known}: {ALLOCATORS[allocator]}, {card.name}"
        _tell(words)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        row = {"ended": "failed: it ended without a word"}
        while "status" not in (answer := self._answer()):
            if not answer:
                raise CannotRun(f"{self.program.interpreter[0]} ended: {self.last_words()}")
            if "step" in answer:
                _tell(f"{words}, step {answer['step']}{answer['of']}")
            else:
                row = answer
        _tell("")
        if answer["hangs"]:
            row["ended"] = f"hangs outside of Python: it does not end after {self.seconds} s"
        elif answer["status"] < 0:
            row["ended"] = f"failed: {signal.Signals(-answer['status']).name}"
        self.runs.append(
            {"allocator": allocator, "card": card.key, "memory_bytes": memory_bytes, **row}
        )
        return Row(**row)

    def last_words(self, lines: int = 12) -> str:
        """The end of the program's output."""
        self.log.seek(0)
        return "\n".join(self.log.read().strip().splitlines()[-lines:])

    def close(self) -> None:
        self.process.terminate()
        # A signal that comes just before it reads is heard after the read, which ends by this.
        self.process.stdin.close()
        self.process.wait()
        self.answers.close()
        self.log.close()
