"""Programs that tests run under PyTorch, each in a process of its own, over the stand-in."""

import os
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

import children

BEGIN = """
import gc, torch
import mend, mend.torch
device = mend.simulate(1 << 30)
MIB = 1 << 20
VERSION = tuple(map(int, torch.__version__.split(".")[:2]))

def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")

def message_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("it did not fail")

def fraction():  # None: this version does not tell it
    tell = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    return tell and tell()
"""
ENABLED = BEGIN + "mend.torch.enable()\n"
NATIVE = BEGIN + "torch.cuda.init()\n"


EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"


class Programs(unittest.TestCase):
    def prints_what_is_documented(self, name):
        """An example of the documents, run as its first lines say."""
        kept = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        done = subprocess.run(
            [sys.executable, "-m", "mend.simulate", "--memory=1GiB", EXAMPLES / f"{name}.py"],
            env=kept,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, (EXAMPLES / f"{name}.txt").read_text(encoding="utf-8"))

    def succeeds(self, program, before=ENABLED, **variables):
        """In a process of its own, which has imported PyTorch already."""

        def work():
            os.environ.update(variables)
            exec(before + textwrap.dedent(program), {"__name__": "__main__"})

        done = children.run(work)
        self.assertEqual((done.status, done.is_late), (0, False), done.log)
        return done.output

    def succeeds_from_the_start(self, program, before=BEGIN, **variables):
        """In a new interpreter, which imports PyTorch."""
        done = subprocess.run(
            [sys.executable, "-c", before + textwrap.dedent(program)],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
