"""Shared parts of the tests of the Python package: paths, and programs in processes of their own,
for settings of a whole process."""

import os
import subprocess
import sys
import textwrap
import threading
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).with_name("real")))
from programs import FolderTest, SimulatedTest, add_entry_point, finished  # noqa: E402,F401

TREE = Path(os.environ["MEND_TEST_TREE"])
FAKES = Path(os.environ["MEND_TEST_FAKES"])
SOURCE = Path(os.environ["MEND_SOURCE"])

MIB = 1 << 20
GIB = 1 << 30

# The parts of programs besides imports.
HELPERS = """
def error_of(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except Exception as error:
        return error
    raise SystemExit(f"{call} went well")
"""


def environment(**others):
    """The environment of a program: the package, the stubs, and no settings of this machine's
    user."""
    settings = ("MEND_", "CUDA_", "NUMBA_", "PYTORCH_", "TORCH_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
    kept.update(PYTHONPATH=f"{TREE}{os.pathsep}{FAKES}", MEND_CACHE_DIR=str(TREE.parent / "cache"))
    kept.update(others)
    return {name: value for name, value in kept.items() if value is not None}


def run(program, **variables):
    """Runs a program in its own process, without the packages of this machine, which take longer
    than most. Returns the finished process."""
    return start("-S", "-c", HELPERS + textwrap.dedent(program), **variables)


def start(*arguments, folder=None, **variables):
    """Runs Python with arguments. One that hangs is ended by ctest, with the test."""
    return finished([sys.executable, *arguments], environment(**variables), folder)


def at_once(work, count):
    """Runs work() in so many threads, to the end of all."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def readelf(option, path):
    return subprocess.check_output(["readelf", "--wide", option, path], text=True)


class ProgramTest(unittest.TestCase):
    """Tests that run programs."""

    # The beginning of each program.
    prelude = "import libmend\ndevice = libmend.simulate(1 << 30)\n"

    def succeeds(self, program, says=None, stderr="", **variables):
        """The program ends well, and both outputs are as given: `stderr` is a part of the text
        there, and "" means no text."""
        done = run(self.prelude + textwrap.dedent(program), **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        if says is not None:
            self.assertEqual(done.stdout.split("\n")[:-1], says)
        errors = self.without_expected(done.stderr)
        if stderr:
            self.assertIn(stderr, errors)
        else:
            self.assertEqual(errors, "")
        return done.stdout

    def without_expected(self, errors):
        """Standard error without the usual lines of such programs."""
        return errors
