#!/usr/bin/env python3
"""Runs Mend's hooks under the frameworks that this interpreter has, without a GPU: their own
allocators over the simulated device. `./run frameworks [PYTHON]`.

Usage: real.py [--installed] TREE STUBS

TREE holds the package as a wheel would, STUBS the stand-in for CUDA's runtime. With --installed the
package that the interpreter has installed is tried instead. Names it, and each framework with its
version and whether it passed. Exit status 0: all that are there passed; 1: one failed, none is
there, or no mend package is.
"""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FRAMEWORKS = ("torch", "cupy", "numba", "rmm", "onnxruntime")
DISTRIBUTIONS = {
    "torch": ("torch",),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    "numba": ("numba-cuda",),
    "rmm": ("rmm-cu13", "rmm-cu12"),
    "onnxruntime": ("onnxruntime-gpu", "onnxruntime"),
}


def environment(tree, stubs, cache, installed):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEND_")}
    path = [str(HERE)] if installed else [str(tree), str(HERE)]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(path),
        "MEND_TEST_TREE": str(tree),
        "MEND_TEST_STUBS": str(stubs),
        "MEND_CACHE_DIR": cache,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def title_of(framework):
    """The package it came in, with its version: "numba-cuda 0.30.4"."""
    for name in DISTRIBUTIONS[framework]:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            pass
    return f"{framework} of an unknown version"


def package_of(variables):
    """The mend package that will be tried: "mend 0.1.0 of /somewhere/mend"; None: there is none."""
    program = "import mend; print('mend', mend.__version__, 'of', mend.__path__[0])"
    # Outside of the current folder, which Python would search first.
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=variables,
        cwd=variables["MEND_CACHE_DIR"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 else None


def main():
    arguments = sys.argv[1:]
    installed = "--installed" in arguments[:1]
    tree, stubs = (Path(argument).resolve() for argument in arguments[installed:])
    there = [name for name in FRAMEWORKS if importlib.util.find_spec(name)]
    failed = []
    with tempfile.TemporaryDirectory() as cache:
        variables = environment(tree, stubs, cache, installed)
        package = package_of(variables)
        if package is None:
            print(f"{sys.executable} has no mend package that works: pip install it first")
            return 1
        print(package, flush=True)
        for name in FRAMEWORKS:
            if name not in there:
                print(f"{' or '.join(DISTRIBUTIONS[name])}: not installed, not tried", flush=True)
        for name in there:
            done = subprocess.run(
                [sys.executable, str(HERE / f"{name}_real.py"), "-v"], env=variables, check=False
            )
            outcome = "failed" if done.returncode else "passed"
            print(f"{title_of(name)}: {outcome}", flush=True)
            failed += [name] * bool(done.returncode)
    if not there:
        print(f"{sys.executable} has none of {', '.join(FRAMEWORKS)}")
    return 1 if failed or not there else 0


if __name__ == "__main__":
    sys.exit(main())
