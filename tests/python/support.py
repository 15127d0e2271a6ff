"""What the tests of the Python package share: where things lie, and programs in processes of
their own, for what can be turned on only once in a process."""

import gc
import os
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

TREE = Path(os.environ["MEND_TEST_TREE"])
FAKES = Path(os.environ["MEND_TEST_FAKES"])
SOURCE = Path(os.environ["MEND_SOURCE"])

MIB = 1 << 20
GIB = 1 << 30


def environment(**others):
    """That of a program: the package, the stand-ins, and no settings of this machine's user."""
    settings = ("MEND_", "CUDA_", "NUMBA_", "PYTORCH_", "TORCH_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
    kept.update(PYTHONPATH=f"{TREE}{os.pathsep}{FAKES}", MEND_CACHE_DIR=str(TREE.parent / "cache"))
    kept.update(others)
    return {name: value for name, value in kept.items() if value is not None}


def run(program, **variables):
    """Runs a program in its own process. Returns the finished process."""
    return start("-c", textwrap.dedent(program), **variables)


def start(*arguments, folder=None, **variables):
    """Runs Python with arguments. One that hangs is ended by ctest, with the test."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )


class ProgramTest(unittest.TestCase):
    """Tests that run programs."""

    # What each program begins with.
    prelude = "import mend\ndevice = mend.simulate(1 << 30)\n"

    def succeeds(self, program, says=None, stderr="", **variables):
        """The program ends well, and what it printed on both outputs is as said: `stderr` is a
        part of what it must say there, "" that it must say nothing."""
        done = run(self.prelude + textwrap.dedent(program), **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        if says is not None:
            self.assertEqual(done.stdout.split("\n")[:-1], says)
        if stderr:
            self.assertIn(stderr, done.stderr)
        else:
            self.assertEqual(done.stderr, "")
        return done.stdout


class SimulatedTest(unittest.TestCase):
    """Tests in this process, each on a simulated device of its own that must find no fault."""

    has_bytes = False
    memory_bytes = GIB

    def setUp(self):
        import mend

        self.device = mend.simulate(self.memory_bytes, has_bytes=self.has_bytes)
        self.unraisable = []
        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = self.unraisable.append

    def tearDown(self):
        gc.collect()
        self.assertEqual(self.unraisable, [], "a destructor failed")
        violation = self.device.first_violation
        errors = self.device.ledger()["content_errors"]
        self.device.close()
        self.assertEqual((violation, errors), ("", 0))
