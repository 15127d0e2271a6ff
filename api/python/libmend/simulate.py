"""Runs a program without a GPU: its CUDA runtime works on a simulated device.

    python -m libmend.simulate [OPTIONS] program.py [arguments]
    python -m libmend.simulate [OPTIONS] -m module [arguments]
    python -m libmend.simulate [OPTIONS] -c text [arguments]

OPTIONS: [--memory 24GiB] [--gpu T4] [--devices N] [--fabric]

Memory, streams, events, copies and captures work, by the rules of CUDA's driver. Kernels do
nothing, so no result is computed. The exit status is the program's.

`libmend.simulate(...)` is a function of the package, of which this is the command. A program that
imports this module can still call it by that name.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import types

from . import _devices, _library, _simulation, _standin

MOST_DEVICES = 16


def _count_of(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MOST_DEVICES:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MOST_DEVICES}")
    return int(text)


def _card_of(name: str) -> object:
    from .fit import _cards  # which needs this module

    return _cards.asked_for(name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m libmend.simulate",
        usage="%(prog)s [--memory SIZE] [--gpu NAME] [--devices N] [--fabric] "
        "program.py|-m MODULE|-c TEXT [arguments]",
        description="Runs a Python program over a simulated GPU. Memory, streams, events, copies"
        " and captures work; kernels do nothing, so no result is computed.",
    )
    parser.add_argument(
        "--memory",
        type=_devices.device_size,
        metavar="SIZE",
        help="of each device (the GPU's, or 24GiB)",
    )
    parser.add_argument(
        "--gpu", type=_card_of, metavar="NAME", help="its memory, name and compute capability"
    )
    parser.add_argument(
        "--devices", type=_count_of, default=1, metavar="N", help=f"1 to {MOST_DEVICES} (1)"
    )
    parser.add_argument("--fabric", action="store_true", help="memory has fabric handles (none)")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")
    return parser


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our options, and the program from where it begins: it may have the same options."""
    at = 0
    while at < len(arguments) and re.match(r"--\w|-h$", arguments[at]):
        at += 1 if "=" in arguments[at] or arguments[at] in ("--help", "-h", "--fabric") else 2
    return arguments[:at], arguments[at:]


def environment_for(memory_bytes: int, devices: int, has_fabric: bool) -> dict[str, str]:
    """The environment of a program that runs over the simulated runtime. Raises ImportError if the
    package does not have it, or if the system cannot preload it from there."""
    paths = [_library.path_of(name) for name in _standin.LIBRARIES]
    folder = str(paths[0].parent)
    if ":" in folder or ";" in folder:
        raise ImportError(
            f"libmend: the system preloads nothing from {folder}, because of its name"
        )
    # Timings of compilers here hold for no GPU, so they have their own cache.
    cache = _library.cache_folder() / "simulated"
    # By name in a folder: LD_PRELOAD takes no path with a space.
    names = [path.name for path in paths]
    return {
        **os.environ,
        "LD_PRELOAD": " ".join([*names, *filter(None, [os.environ.get("LD_PRELOAD")])]),
        "LD_LIBRARY_PATH": ":".join(
            [folder, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        ),
        "TRITON_LIBCUDA_PATH": str(_library.DRIVER),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "MEND_SIMULATE_MEMORY": str(memory_bytes),
        "MEND_SIMULATE_DEVICES": str(devices),
        "MEND_SIMULATE_FABRIC": "1" if has_fabric else "",
    }


def main(arguments: list[str] | None = None) -> None:
    """Becomes the program: does not return, but for the wrong arguments."""
    ours, program = _split(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    options = parser.parse_args(ours)
    by_name = program[:1] in (["-m"], ["-c"])
    if not program or (program[0].startswith("-") and not by_name):
        parser.error("name the program to run: a file, -m and a module, or -c and its text")
    if by_name and len(program) == 1:
        parser.error(f"{program[0]}: the program is missing")
    memory = options.memory or (options.gpu.total_bytes if options.gpu else 24 << 30)
    environment = environment_for(memory, options.devices, options.fabric)
    environment.update(options.gpu.environment() if options.gpu else {})
    flags = subprocess._args_from_interpreter_flags()  # as multiprocessing starts interpreters
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *flags, *program], environment)


class _Callable(types.ModuleType):
    """`import libmend.simulate` puts this module where the package has its function."""

    def __call__(self, *arguments: object, **keywords: object) -> _simulation.SimulatedDevice:
        return _simulation.simulate(*arguments, **keywords)


if __name__ == "__main__":
    main()
else:
    sys.modules[__name__].__class__ = _Callable
