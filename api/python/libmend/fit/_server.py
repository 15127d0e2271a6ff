"""A process that has imported PyTorch, and the program's imports, over a simulated GPU. Each line
of its standard input asks for a run, which is a process of its own that begins there: an import is
paid for once. The answer is a line of JSON.

`libmend fit` starts it with the interpreter of the program: _server.py DESCRIPTOR ARGUMENTS
PROGRAM, where results go to the descriptor and PROGRAM is a file, -m and a module, or -c and its
text. ARGUMENTS are the program's, in JSON. Without them nothing is imported before a run.
"""

from __future__ import annotations

import ast
import collections
import ctypes
import importlib.util
import itertools
import json
import os
import pickle
import runpy
import signal
import sys
import threading
import time
import traceback
import weakref
from importlib.machinery import PathFinder
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
VALUES = str(PACKAGE / "fit" / "_values.py")
MOST_EVENTS = 4_000_000  # of a recording
# Steps without a new peak after which a run ends, beside as many as it took to reach the last one,
# and if steps differ in their requests.
LATER_STEPS = 4
LATER_STEPS_THAT_DIFFER = 48
FIRST_STEPS = 2  # that differ from later ones: an optimizer makes its state
POISONED = 3
MOST_CONDITIONS = 4
WORKSPACE = [{"filename": "<cuBLAS>", "name": "workspace", "line": 0}]


def load_package() -> object:
    """The package that this file is of, whatever else the interpreter has on its path."""
    spec = importlib.util.spec_from_file_location(
        PACKAGE.name, PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)]
    )
    package = sys.modules[PACKAGE.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


def imports_of(text: str, package: str) -> list[tuple[str, list[str]]]:
    """The imports of a module of that package at its top, and the names that it takes from
    there."""
    found = []
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return []
    for node in body:
        if isinstance(node, ast.Import):
            found += [(one.name, []) for one in node.names]
        elif isinstance(node, ast.ImportFrom) and (package or not node.level):
            name = "." * node.level + (node.module or "")
            name = importlib.util.resolve_name(name, package)
            found.append((name, [one.name for one in node.names]))
    return found


def spec_of(name: str):
    """Where a module is, whose packages are not imported for that. None: nowhere."""
    spec = None
    for at, _ in enumerate(parts := name.split(".")):
        if spec and not spec.submodule_search_locations:
            return None
        path = spec.submodule_search_locations if spec else None
        spec = PathFinder.find_spec(".".join(parts[: at + 1]), path)
        if spec is None:
            return None
    return spec


def is_installed(package: str) -> bool:
    """Whether an installer has put it where it is."""
    spec = spec_of(package)
    if spec is None or not spec.has_location:
        return False
    stacks = importlib.import_module(f"{PACKAGE.name}._stacks")
    return stacks.is_library(spec.origin)


def module_text(name: str) -> tuple[str, str]:
    """The text of a module, and of which package it is. Both are "" where it has none."""
    spec = spec_of(name)
    if spec is None or not (spec.origin or "").endswith(".py"):
        return "", ""
    return Path(spec.origin).read_text(encoding="utf-8", errors="replace"), spec.parent


def preload(text: str, package: str, seen: set) -> None:
    """Makes the imports of a module of that package at its top, where it is installed. Modules
    beside the program may look at its arguments when they are imported. Each run imports them
    again, and this notes their imports."""
    for name, names in imports_of(text, package):
        first, *parts = name.split(".")
        if first in sys.stdlib_module_names:
            continue
        try:
            if is_installed(first):
                module = importlib.import_module(name)
                for one in names:  # lazy modules load their classes here
                    getattr(module, one, None)
                continue
            packages = itertools.accumulate([first, *parts], "{}.{}".format)
            for one in [*packages, *(f"{name}.{one}" for one in names)]:
                if one not in seen:
                    seen.add(one)
                    preload(*module_text(one), seen)
        except BaseException:  # the run has the same trouble, and says so
            pass


def is_usable_in_child() -> bool:
    """No import has initialized CUDA, which no child could use then, nor made the GPU, whose memory
    each child says."""
    import torch

    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            os.environ["MEND_SIMULATE_MEMORY"] = str(1 << 30)
            _, total_bytes = torch.cuda.mem_get_info()
            os._exit(0 if total_bytes == 1 << 30 else POISONED)
        except BaseException:
            os._exit(POISONED)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def live_blocks(segments: list[dict]) -> set[int]:
    """The addresses of a snapshot's blocks in use."""
    blocks = [block for segment in segments for block in segment["blocks"]]
    return {block["address"] for block in blocks if block["state"] == "active_allocated"}


class Run:
    """One run of the program, in this process."""

    def __init__(self, request: dict, program: list[str], answers) -> None:
        self.request, self.program, self.answers = request, program, answers
        self.begin = self.told = time.monotonic()
        self.process, self.main = os.getpid(), threading.get_ident()
        self.steps = self.grew_at = 0
        self.leader, self.followers = lambda: None, weakref.WeakSet()  # of the optimizers
        self.ends: list[int] = []  # of steps, in microseconds
        self.peaks = {"allocated_bytes": 0, "reserved_bytes": 0}
        self.ooms: list[dict] = []
        self.reads: collections.Counter = collections.Counter()
        # Of them, of whole numbers, which decide the steps of a program.
        self.whole_reads: collections.Counter = collections.Counter()
        self.asked_before = 0
        self.asked: set[int] = set()  # bytes in a step
        self.asks_free = ""  # the line that asks how much memory is free
        self.has_ended = False
        spec = spec_of(program[1].partition(".")[0]) if program[0] == "-m" else None
        folders = spec.submodule_search_locations if spec else None
        self.home = folders[0] if folders else ""  # of the package whose module is run

    def prepare(self) -> None:
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.torch = torch
        request = self.request
        os.environ.update(request["environment"])
        if request["allocator"] == "expandable":
            for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
                os.environ[name] = "expandable_segments:True"
            torch.cuda.memory._set_allocator_settings("expandable_segments:True")
        elif request["allocator"] == "mend":
            importlib.import_module(f"{PACKAGE.name}.torch").enable()
        if request["world_size"]:
            importlib.import_module(f"{PACKAGE.name}.fit._world").enter(request["world_size"])
        register_optimizer_step_post_hook(self.after_step)
        for module in (torch.cuda, torch.cuda.memory):  # the program's resets hide no peak
            module.reset_peak_memory_stats = self.keeping_peaks(module.reset_peak_memory_stats)
        torch.cuda.mem_get_info = torch.cuda.memory.mem_get_info = self.telling(
            torch.cuda.mem_get_info
        )
        properties = torch._C._CudaDeviceProperties
        properties.total_memory = property(self.telling(properties.total_memory.__get__))
        torch.cuda._lazy_call(self.when_ready)
        self.listener = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_uint64)(self.on_read)
        ctypes.CDLL(None).mend_simulate_on_read(self.listener)
        values = importlib.import_module(f"{PACKAGE.name}.fit._values")
        self.values = values.Values(
            request["value"],
            request["given"],
            self.where,
            self.is_overflow_check,
            self.on_value,
            request["number"],
        )
        self.values.__enter__()
        importlib.import_module(f"{PACKAGE.name}.fit._compiled").leave(self.values)
        signal.signal(signal.SIGALRM, lambda *_: self.finish("time"))
        signal.alarm(request["seconds"])

    def when_ready(self) -> None:
        beside = ctypes.c_void_p()  # as a context and libraries take it
        if self.request["beside_bytes"]:
            size = ctypes.c_size_t(self.request["beside_bytes"])
            ctypes.CDLL(None).cudaMalloc(ctypes.byref(beside), size)
        self.torch._C._cuda_attach_out_of_memory_observer(self.on_out_of_memory)
        if self.request["record"]:
            self.torch.cuda.memory._record_memory_history(
                max_entries=MOST_EVENTS, stacks="python"
            )

    def keeping_peaks(self, reset):
        def reset_and_keep(*arguments, **named):
            self.look()
            return reset(*arguments, **named)

        return reset_and_keep

    def telling(self, memory):
        """A program that asks how much memory there is, or is free, may plan by it, and a run
        without a limit says 1 TiB."""

        def ask_and_tell(*arguments, **named):
            frame = sys._getframe(1)
            if not frame.f_code.co_filename.startswith(os.path.dirname(self.torch.__file__)):
                self.asks_free = self.asks_free or self.line(frame)
            return memory(*arguments, **named)

        return ask_and_tell

    def look(self) -> dict:
        """The allocator's statistics. `peaks` shows whether a peak grew."""
        torch = self.torch
        figures = torch.cuda.memory_stats() if torch.cuda.is_initialized() else {}
        for name in self.peaks:
            peak = figures.get(f"{name}.all.peak", 0)
            self.peaks[name] = max(self.peaks[name], peak)
        return figures

    def streams(self) -> int:
        """How many streams have memory."""
        torch = self.torch
        segments = torch.cuda.memory_snapshot() if torch.cuda.is_initialized() else []
        return len({(segment["device"], segment["stream"]) for segment in segments})

    @staticmethod
    def unknown() -> list[str]:
        """Memory whose sizes only a GPU's libraries know."""
        ask = ctypes.CDLL(None).mend_simulate_unknown
        ask.restype = ctypes.c_char_p
        count, found = ctypes.c_uint64(), []
        for part in itertools.count():
            words = ask(part, ctypes.byref(count))
            if words is None:
                return found
            if count.value:
                found.append(words.decode())

    @staticmethod
    def compiles() -> bool:
        """Whether torch.compile had to compile code that its cache did not have."""
        counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
        found = counters["inductor"] if "inductor" in counters else {}
        return any(found.get(f"fxgraph_cache_{what}", 0) for what in ("miss", "bypass"))

    # ---- what it hears ---------------------------------------------------------------------------

    def after_step(self, optimizer, *_: object) -> None:
        """Of several optimizers (two of a GAN, one for each parameter) one leads: a step lasts
        until it steps again. Where another steps twice meanwhile, that one leads from then on."""
        leader = self.leader()
        if leader not in (None, optimizer) and optimizer not in self.followers:
            self.followers.add(optimizer)
            return
        self.leader, self.followers = weakref.ref(optimizer), weakref.WeakSet()
        self.steps += 1
        self.ends.append(time.time_ns() // 1000)
        before = dict(self.peaks)
        asked = self.look().get("requested_bytes.all.allocated", 0)
        if self.peaks != before:
            self.grew_at = self.steps
        if self.steps > FIRST_STEPS:
            self.asked.add(asked - self.asked_before)
        self.asked_before = asked
        wanted = self.request["steps"]
        later = LATER_STEPS if len(self.asked) < 2 else LATER_STEPS_THAT_DIFFER
        last = wanted or 2 * self.grew_at + later
        if self.steps == wanted:
            self.finish("steps")
        elif wanted == 0 and self.steps >= last:
            self.finish("peaks repeat")
        now = time.monotonic()
        if now >= self.told + 1 and os.getpid() == self.process:
            self.told = now
            of = "" if wanted < 0 else f" of {last}" if wanted else f" of about {last}"
            os.write(self.answers, json.dumps({"step": self.steps, "of": of}).encode() + b"\n")

    def on_out_of_memory(self, _device: int, size: int, _total: int, _free: int) -> None:
        if len(self.ooms) < 8:
            line = self.line(sys._current_frames().get(self.main), has_caller=True)
            self.ooms.append({"size_bytes": size, "step": self.steps + 1, "line": line})

    def on_value(self, is_whole: bool, is_given: bool) -> None:
        """The program reads a value that a kernel would have computed."""
        if not is_given:
            line = self.where()
            self.reads[line] += 1
            if is_whole:
                self.whole_reads[line] += 1

    def on_read(self, _bytes: int) -> int:
        """The same, where no operator of PyTorch reads it, or one for its own use."""
        answer = self.values.answer()
        if answer is not None:
            return answer
        if self.is_overflow_check():
            return 0
        self.on_value(True, False)
        return self.request["number"]

    def frame(self):
        try:
            return sys._getframe(2)
        except ValueError:  # a thread of C++
            return sys._current_frames().get(self.main)

    def where(self) -> str:
        return self.line(self.frame())

    def is_overflow_check(self) -> bool:
        """PyTorch's GradScaler asks whether gradients overflowed. They do not, in a step that is
        worth to be planned for."""
        frame = self.frame()
        while frame is not None:
            code = frame.f_code
            if code.co_name == "_maybe_opt_step" and "grad_scaler" in code.co_filename:
                return True
            frame = frame.f_back
        return False

    def line(self, frame, has_caller: bool = False) -> str:
        """As `libmend report` names stacks: the innermost line of the program, its caller, and the
        library's line that it calls."""
        stacks = importlib.import_module(f"{PACKAGE.name}._stacks")
        own = (str(PACKAGE) + os.sep, os.path.dirname(self.torch.__file__) + os.sep)
        inner = None
        while frame is not None:
            file = frame.f_code.co_filename
            is_user = stacks.is_of_program(frame)
            if is_user is not None and not file.startswith(own):
                inner = inner or frame
                if is_user or (self.home and file.startswith(self.home)):
                    break
            frame = frame.f_back
        line = frame or inner
        if line is None:
            return "no line of Python"
        caller = stacks.caller_of(line) if has_caller else None
        return stacks._label(*((one.f_code, one.f_lineno) for one in (line, caller or line, inner)))

    # ---- its end ---------------------------------------------------------------------------------

    def finish(self, why: str) -> None:
        """Answers, and ends the process: a program catches exceptions."""
        if os.getpid() != self.process or self.has_ended:
            return
        self.has_ended = True
        figures = self.look()
        if self.request["record"]:
            self.dump(self.request["record"])
        row = {
            "ended": why,
            "steps": self.steps,
            "steps_differ": len(self.asked) > 1,
            "streams": self.streams(),
            "asks_free": self.asks_free,
            "grew_at_step": self.grew_at,
            **self.peaks,
            "asked_bytes": figures.get("requested_bytes.all.allocated", 0),
            "retries": figures.get("num_alloc_retries", 0),
            "ooms": self.ooms,
            "reads": self.reads.most_common(),
            "unknown": self.unknown(),
            "whole_reads": self.whole_reads.most_common(),
            "counts": sorted(self.values.counts.items(), key=lambda one: -one[1]),
            "conditions": list(self.values.conditions)[-MOST_CONDITIONS:],
            "given": self.values.used,
            "used_gpu": self.torch.cuda.is_initialized(),
            "compiles": self.compiles(),
            "seconds": round(time.monotonic() - self.begin, 2),
        }
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(self.answers, json.dumps(row).encode() + b"\n")
        os._exit(0)

    def frames_of_program(self, frames: list[dict]) -> list[dict]:
        """Without the frames of this package, and of what its mode calls for an operator. Lines of
        a module that is run are the program's, at any place."""
        at = next((i for i, one in enumerate(frames) if one["filename"] == VALUES), -1)
        own = str(PACKAGE) + os.sep
        found = [one for one in frames[at + 1 :] if not one["filename"].startswith(own)]
        stacks = importlib.import_module(f"{PACKAGE.name}._stacks")
        for one in found:
            file = one["filename"]
            if self.home and file.startswith(self.home):
                one["filename"] = file.removeprefix(os.path.dirname(self.home))
            elif file.startswith("/") and "/site-packages/" not in file and stacks.is_library(file):
                one["filename"] = f"/site-packages{file}"  # of a frame that several stacks share
        return found

    def name_workspaces(self, segments: list, events: list) -> None:
        """Of the blocks that are live at the end, cuBLAS's workspaces go when they are cleared."""
        live = live_blocks(segments)
        self.torch._C._cuda_clearCublasWorkspaces()
        gone = live - live_blocks(self.torch.cuda.memory_snapshot())
        for event in reversed(events):
            if event["action"] == "alloc" and event["addr"] in gone:
                event["frames"] = WORKSPACE
                gone.remove(event["addr"])

    def dump(self, file: str) -> None:
        """A memory snapshot, with the requests of each step."""
        snapshot = self.torch.cuda.memory._snapshot()
        blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
        events = list(itertools.chain(*snapshot["device_traces"]))
        own: dict[int, list] = {}
        for event in [*blocks, *events]:
            frames = event.get("frames") or []
            if id(frames) not in own:
                own[id(frames)] = self.frames_of_program(frames)
            event["frames"] = own[id(frames)]
        self.name_workspaces(snapshot["segments"], events)
        with open(file, "wb") as out:
            pickle.dump(snapshot, out)
        given = {"alloc": True, "free_completed": False}
        events = [
            (given[one["action"]], one["addr"], one["size"], one["stream"], one["time_us"])
            for one in max(snapshot["device_traces"], key=len, default=[])
            if one["action"] in given
        ]
        with open(file + ".steps", "w", encoding="ascii") as out:
            json.dump([events, self.ends], out)

    def run(self) -> None:
        self.prepare()
        program, arguments = self.program, self.request["arguments"]
        try:
            if program[0] == "-m":
                sys.argv = [program[1], *arguments]
                runpy.run_module(program[1], run_name="__main__", alter_sys=True)
            elif program[0] == "-c":
                sys.argv = ["-c", *arguments]
                is_ours = program[1].startswith("# of libmend.fit()\n")
                file = "<frozen libmend>" if is_ours else "<string>"
                exec(compile(program[1], file, "exec"), {"__name__": "__main__"})
            else:
                sys.argv = [program[0], *arguments]
                runpy.run_path(program[0], run_name="__main__")
            why = "end"
        except SystemExit as error:
            why = f"exit {error.code}" if error.code else "end"
        except self.torch.cuda.OutOfMemoryError:
            traceback.print_exc()
            why = "out of memory"
        except BaseException as error:
            traceback.print_exc()
            words = str(error).strip().splitlines()
            why = f"failed: {type(error).__name__}{': ' + words[0] if words else ''}"[:300]
            if self.ooms:  # a library that was refused memory says so in its own words
                why = "out of memory"
        self.finish(why)


def serve(program: list[str], answers: int) -> None:
    """Runs the program once for each request of standard input, in a child of its own."""
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            try:
                Run(request, program, answers).run()
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        signal.signal(signal.SIGTERM, lambda *_: (end_group(child), os._exit(1)))
        late = []
        signal.signal(signal.SIGALRM, lambda *_: (late.append(True), end_group(child)))
        # It may wait where no signal is heard. One that hears it may have much to return.
        signal.alarm(2 * request["seconds"] + 5)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        signal.alarm(0)
        end_group(child)  # workers that it left
        answer = {"status": status, "hangs": bool(late)}
        os.write(answers, json.dumps(answer).encode() + b"\n")


def end_group(child: int) -> None:
    """Ends a child and its children."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main() -> None:
    """Loads the package and PyTorch once, then serves."""
    descriptor, arguments, *program = sys.argv[1:]
    answers = int(descriptor)  # standard output is the program's
    os.set_inheritable(answers, False)
    is_file = program[0] not in ("-m", "-c")
    sys.path[0] = str(Path(program[0]).resolve().parent) if is_file else os.getcwd()
    load_package()
    try:
        import torch
    except ImportError as error:
        os.write(answers, json.dumps({"missing": f"PyTorch: {error}"}).encode() + b"\n")
        return
    # How imports ask whether there is a GPU: its other ways to count them initialize CUDA.
    torch.cuda._raw_device_count_nvml = lambda: int(os.environ["MEND_SIMULATE_DEVICES"])
    if arguments:
        name = "-c" if program[0] == "-c" else program[-1]
        sys.argv = [name, *json.loads(arguments)]  # an import may look at them
        package, text = "", program[-1]  # of -c
        if is_file:
            text = Path(program[0]).read_text(encoding="utf-8", errors="replace")
        elif program[0] == "-m":
            text, package = module_text(program[1])
            if package == program[1]:
                text, _ = module_text(f"{package}.__main__")
        preload(text, package, set())
    if not is_usable_in_child():
        os.write(answers, b'{"poisoned": true}\n')
        return
    ready = {"torch": torch.__version__, "cuda": torch.version.cuda}
    os.write(answers, json.dumps(ready).encode() + b"\n")
    serve(program, answers)


if __name__ == "__main__":
    main()
