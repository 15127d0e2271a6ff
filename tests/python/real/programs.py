"""Programs that tests run under PyTorch, each in a process of its own, over the stub."""

import gc
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import children

BEGIN = """
import gc, threading, torch
import libmend, libmend.torch
device = libmend.simulate(1 << 30)
MIB = 1 << 20
VERSION = tuple(map(int, torch.__version__.split(".")[:2]))

def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")

def filled(value, mib=32):
    return torch.full((mib * MIB,), value, dtype=torch.uint8).cuda()

def holds(tensor, value):
    return tensor.cpu().eq(value).all().item()

def error_of(call, kind=RuntimeError):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("it did not fail")

def message_of(call):
    return str(error_of(call))

def at_once(*works):  # each in a thread, to the end of all
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def blocks_of(segments=None, in_pools=False, key=None):  # those that live, or a figure of each
    return [
        block if key is None else block[key]
        for segment in (torch.cuda.memory_snapshot() if segments is None else segments)
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
        and (not in_pools or segment["segment_pool_id"] != (0, 0))
    ]

def fraction():  # None: this version does not tell it
    tell = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    return tell and tell()
"""
ENABLED = BEGIN + "libmend.torch.enable()\n"
NATIVE = BEGIN + "torch.cuda.init()\n"


def add_entry_point(site, section="mend = libmend.torch:_autoload"):
    """So that PyTorch finds Mend in the folder `site`, where MEND_TORCH asks for it."""
    info = Path(site) / "libmend-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: libmend\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[torch.backends]\n{section}\n")


def finished(command, variables=None, folder=None):
    """A process that has ended, with what it printed."""
    return subprocess.run(
        command, env=variables, cwd=folder, capture_output=True, text=True, check=False
    )


class FolderTest(unittest.TestCase):
    """Tests that write files, each into a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()


class SimulatedTest(unittest.TestCase):
    """Tests in this process, each on a simulated device of its own that must find no fault."""

    has_bytes = False
    memory_bytes = 1 << 30

    def setUp(self):
        import libmend

        self.device = libmend.simulate(self.memory_bytes, has_bytes=self.has_bytes)
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


EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"


class Programs(unittest.TestCase):
    # The beginning of a program.
    before = ENABLED

    def prints_what_is_documented(self, name):
        """An example of the documents, run as its first lines say."""
        printed = self.simulates("--memory=1GiB", str(EXAMPLES / f"{name}.py"))
        self.assertEqual(printed, (EXAMPLES / f"{name}.txt").read_text(encoding="utf-8"))

    def simulates(self, *arguments, **variables):
        """The output of a program under `python -m libmend.simulate`, alone."""
        kept = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        return self.ends_well(["-m", "libmend.simulate", *arguments], {**kept, **variables})

    def ends_well(self, arguments, variables):
        done = finished([sys.executable, *arguments], variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def succeeds(self, program, before=None, **variables):
        """In a process of its own, which has imported PyTorch already."""
        text = (self.before if before is None else before) + textwrap.dedent(program)

        def work():
            os.environ.update(variables)
            exec(text, {"__name__": "__main__"})

        done = children.run(work)
        self.assertEqual((done.status, done.is_late), (0, False), done.log)
        return done.output

    def runs(self, program, **others):
        """And breaks no rule of the device."""
        program += "\n            assert device.violations == 0, device.first_violation"
        return self.succeeds(program, **others)

    def succeeds_from_the_start(self, program, before=BEGIN, **variables):
        """In a new interpreter, which imports PyTorch."""
        self.ends_well(["-c", before + textwrap.dedent(program)], {**os.environ, **variables})
