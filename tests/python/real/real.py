#!/usr/bin/env python3
"""Runs Mend's hooks under the frameworks that this interpreter has, without a GPU: their own
allocators over the simulated device. `./run frameworks`.

Usage: real.py [--installed] [--all-recordings] TREE PROGRAM RECORDINGS

TREE holds the package as a wheel would. PROGRAM is `libmend`, whose models of PyTorch's allocators
are held against PyTorch's on three of the RECORDINGS, with --all-recordings on all. With
--installed the package that the interpreter has installed is tried instead. Names it, and each
framework with its version and whether it passed. Exit status 0: all that are there passed. 1: one
failed, none is there, or no libmend package is.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import programs

HERE = Path(__file__).resolve().parent
FRAMEWORKS = ("torch", "cupy", "numba", "rmm", "onnxruntime", "cuda_core", "umf", "tensorrt")
DISTRIBUTIONS = {
    "torch": ("torch",),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    "numba": ("numba-cuda",),
    "rmm": ("rmm-cu13", "rmm-cu12"),
    "onnxruntime": ("onnxruntime-gpu", "onnxruntime"),
    "cuda_core": ("cuda-core",),
    "umf": ("umf",),
    "tensorrt": ("headers of MEND_TENSORRT_INCLUDE",),
}

# Of one stream, of two, and with sizes that hurt PyTorch's own allocator most.
USUAL_RECORDINGS = ("gpt2-medium-pretrain", "fsdp-llama-2stream", "detector-varboxes")


def environment(tree, program, recordings, cache, installed):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MEND_") or name == "MEND_TENSORRT_INCLUDE"
    }
    path = [str(HERE)] if installed else [str(tree), str(HERE), cache]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(path),
        "MEND_TEST_TREE": str(tree),
        "MEND_TEST_PROGRAM": str(program),
        "MEND_TEST_RECORDINGS": os.pathsep.join(str(path) for path in recordings),
        "MEND_CACHE_DIR": cache,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def is_there(framework):
    """Whether this interpreter has it. TensorRT's headers are where the environment says."""
    if framework == "tensorrt":
        return "MEND_TENSORRT_INCLUDE" in os.environ
    if framework in ("cuda_core", "umf"):
        return not title_of(framework).endswith("of an unknown version")
    return importlib.util.find_spec(framework) is not None


def title_of(framework):
    """The package it came in, with its version: "numba-cuda 0.30.4"."""
    for name in DISTRIBUTIONS[framework]:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            pass
    return f"{framework} of an unknown version"


def package_of(variables):
    """The package to try: "libmend 0.1.0 of /somewhere/libmend". None: there is none."""
    program = "import libmend; print('libmend', libmend.__version__, 'of', libmend.__path__[0])"
    # Outside of the current folder, which Python would search first.
    command = [sys.executable, "-c", program]
    done = programs.finished(command, variables, variables["MEND_CACHE_DIR"])
    return done.stdout.strip() if done.returncode == 0 else None


def commands_of(framework):
    """The tests under a framework, each an interpreter's arguments."""
    simulated = ["-m", "libmend.simulate", "--memory=1GiB"]
    suites = [([], framework)]
    if framework == "cuda_core":
        suites = [(simulated, framework)]
    elif framework == "torch":
        parts = ("_rare", "_plain", "_pools", "_sleep", "_saver", "_vllm", "_growing", "_values")
        suites = [(simulated, f"torch{part}") for part in ("", *parts)]
        suites += [(simulated[:2], "replay"), ([], "held"), ([], "torch_fit")]
    for before, name in suites:
        yield [*before, "-m", "unittest", f"{name}_real", "-v"]


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("--all-recordings", action="store_true")
    for name in ("tree", "program", "recordings"):
        parser.add_argument(name, type=lambda text: Path(text).resolve())
    options = parser.parse_args()
    found = sorted(options.recordings.glob("*.csv.gz"))
    if not options.all_recordings:
        found = [path for path in found if path.name.partition(".")[0] in USUAL_RECORDINGS]
    return options, found


def main():
    options, recordings = read_arguments()
    there = [name for name in FRAMEWORKS if is_there(name)]
    failed = []
    with tempfile.TemporaryDirectory() as cache:
        if not options.installed:
            programs.add_entry_point(cache)
        variables = environment(
            options.tree, options.program, recordings, cache, options.installed
        )
        package = package_of(variables)
        if package is None:
            print(f"{sys.executable} has no libmend package that works: pip install it first")
            return 1
        print(package, flush=True)
        for name in FRAMEWORKS:
            if name not in there:
                print(f"{' or '.join(DISTRIBUTIONS[name])}: not installed, not tried", flush=True)
        for name in there:
            statuses = [
                subprocess.run([sys.executable, *command], env=variables, check=False)
                for command in commands_of(name)
            ]
            is_bad = any(done.returncode for done in statuses)
            print(f"{title_of(name)}: {'failed' if is_bad else 'passed'}", flush=True)
            failed += [name] * is_bad
    if not there:
        print(f"{sys.executable} has none of {', '.join(FRAMEWORKS)}")
    return 1 if failed or not there else 0


if __name__ == "__main__":
    sys.exit(main())
