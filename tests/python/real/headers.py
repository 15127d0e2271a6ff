"""Builds a C++ test of tests/cplusplus against a vendor's own headers and libraries, and runs it
over the simulated device."""

import os
import sys
import tempfile
from pathlib import Path

from programs import finished

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
SITE = Path(next(path for path in sys.path if path.endswith("site-packages")))
# CUDA's own headers, of whichever package brought them.
CUDA = [*SITE.glob("nvidia/cuda_runtime/include"), *SITE.glob("nvidia/cu1*/include")]


def passes(case, name, includes, libraries=(), folders=()):
    """`includes`: folders of headers, CUDA's beside them. `libraries`: files to link. `folders`:
    where these find theirs."""
    tree = Path(os.environ["MEND_TEST_TREE"]) / "libmend"
    library = tree / "lib"
    with tempfile.TemporaryDirectory() as work:
        program = f"{work}/test"
        build = [
            os.environ.get("CXX", "c++"), "-std=c++17", "-Wno-deprecated-declarations",
            *(f"-I{path}" for path in (SOURCE, tree / "include", *includes, *CUDA)),
            str(SOURCE / "tests" / "cplusplus" / f"{name}_test.cpp"), "-o", program,
            *map(str, libraries), *map(str, library.glob("libmend.so.?")),
            *map(str, library.glob("libmend_sim.so.?")), str(library / "libmend_cuda_standin.so"),
            "-lgtest_main", "-lgtest", "-lpthread",
            "-Wl,--allow-shlib-undefined",
        ]  # fmt: skip
        told(case, build, os.environ)
        variables = {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, (library, *folders))),
        }
        over_stand_in = [sys.executable, "-m", "libmend.simulate", "-c", RUN, program]
        return told(case, over_stand_in, variables)


# The stub is preloaded into child processes too.
RUN = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


def told(case, command, variables):
    done = finished(command, variables)
    case.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    return done.stdout
