#!/usr/bin/env python3
"""Runs Mend's hooks beneath the frameworks that this interpreter has, without a GPU: their own
allocators over the simulated device. `./run frameworks [PYTHON]`.

Usage: real.py TREE STUBS

TREE holds the package as a wheel would, STUBS the stand-in for CUDA's runtime. Names each framework
with its version and what was tried of it. Exit status 0: all that are there passed; 1: one failed,
or none is there.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FRAMEWORKS = ("torch", "cupy", "numba", "rmm", "onnxruntime")
VERSIONS = {"numba": "numba_cuda"}


def environment(tree, stubs, cache):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEND_")}
    return {
        **kept,
        "PYTHONPATH": f"{tree}{os.pathsep}{HERE}",
        "MEND_TEST_TREE": str(tree),
        "MEND_TEST_STUBS": str(stubs),
        "MEND_CACHE_DIR": cache,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def version_of(framework):
    module = VERSIONS.get(framework, framework)
    program = f"import {module}; print({module}.__version__)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    return done.stdout.strip().split("\n")[-1]


def main():
    tree, stubs = (Path(argument).resolve() for argument in sys.argv[1:3])
    there = [name for name in FRAMEWORKS if importlib.util.find_spec(name)]
    for name in FRAMEWORKS:
        if name not in there:
            print(f"{name}: not installed, not tried")
    failed = []
    with tempfile.TemporaryDirectory() as cache:
        for name in there:
            done = subprocess.run(
                [sys.executable, str(HERE / f"{name}_real.py"), "-v"],
                env=environment(tree, stubs, cache),
                check=False,
            )
            print(
                f"{name} {version_of(name)}: {'failed' if done.returncode else 'passed'}",
                flush=True,
            )
            failed += [name] * bool(done.returncode)
    if not there:
        print(f"{sys.executable} has none of {', '.join(FRAMEWORKS)}")
    return 1 if failed or not there else 0


if __name__ == "__main__":
    sys.exit(main())
