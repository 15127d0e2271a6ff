"""The C++ part of mend.torch: compiled against the PyTorch that is there, kept, done without."""

import ctypes
import glob
import os
import shutil
import tempfile
import textwrap
import unittest

from support import FAKES, ProgramTest

ENABLE = """
import mend
device = mend.simulate(1 << 30)
import torch
import mend.torch
mend.torch.enable()
"""


class Adapter(ProgramTest):
    prelude = ""

    def setUp(self):
        self.cache = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.cache)

    def enable(self, more="", **others):
        return self.succeeds(ENABLE + textwrap.dedent(more), MEND_CACHE_DIR=self.cache, **others)

    def kept(self):
        return sorted(glob.glob(self.cache + "/*"))

    def test_it_is_compiled_once(self):
        self.enable()
        self.assertEqual(len(self.kept()), 1)
        self.enable(CXX="/bin/false")  # the same compiler's name is not asked for again
        self.assertEqual(len(self.kept()), 1)

    def test_what_others_could_have_written_is_not_run(self):
        self.enable()
        (path,) = self.kept()
        with open(path, "wb") as kept:
            kept.write(b"whatever")
        os.chmod(path, 0o666)
        self.enable()
        self.assertEqual(self.kept(), [path])
        self.assertEqual(os.stat(path).st_mode & 0o022, 0)

    def test_a_place_that_is_taken_is_no_reason_to_fail(self):
        self.enable()
        (path,) = self.kept()
        os.unlink(path)
        os.mkdir(path)
        self.enable("assert torch.empty(1000).data_ptr()", stderr="without its C++ part")
        self.assertEqual(self.kept(), [path])

    def test_another_pytorch_has_its_own(self):
        self.enable()
        other = "import torch\ntorch.__version__ = '2.98'\n"
        self.succeeds(other + ENABLE, MEND_CACHE_DIR=self.cache)
        self.assertEqual(len(self.kept()), 2)

    def test_processes_that_come_at_once_do_no_harm(self):
        import subprocess
        import sys

        from support import environment

        children = [
            subprocess.Popen(
                [sys.executable, "-c", ENABLE],
                stderr=subprocess.PIPE,
                env=environment(MEND_CACHE_DIR=self.cache),
            )
            for _ in range(3)
        ]
        said = [child.communicate()[1] for child in children]
        self.assertEqual(said, [b""] * 3)
        self.assertEqual([child.returncode for child in children], [0] * 3)
        self.assertEqual(len(self.kept()), 1)

    def test_without_a_compiler_mend_works_and_says_what_is_lost(self):
        self.enable(
            """
            try:
                torch.empty(2 << 30)
            except RuntimeError as error:
                assert type(error) is RuntimeError
                assert str(error).startswith("CUDA out of memory."), error
            assert torch.empty(1000).data_ptr()
            """,
            stderr="without its C++ part",
            CXX="/nowhere/c++",
        )
        self.assertEqual(self.kept(), [])

    def test_what_the_compiler_said_is_reported(self):
        self.enable(stderr="mend-has-no-such-flag", CXX="c++ -mend-has-no-such-flag")
        self.assertEqual(self.kept(), [])

    def test_it_can_be_switched_off(self):
        self.enable(stderr="MEND_TORCH_ADAPTER=0", MEND_TORCH_ADAPTER="0")

    def test_a_cache_that_cannot_be_written(self):
        file = os.path.join(self.cache, "file")
        with open(file, "w", encoding="utf-8"):
            pass
        self.succeeds(ENABLE, stderr="cannot be written", MEND_CACHE_DIR=file + "/folder")

    def test_a_kept_file_that_is_broken(self):
        self.enable()
        with open(self.kept()[0], "w", encoding="utf-8") as file:
            file.write("no library")
        self.enable(stderr="cannot be loaded")

    def test_a_kept_file_of_another_user_is_not_run(self):
        self.enable()
        (path,) = self.kept()
        before = os.stat(path).st_ino
        somebody = ""
        if os.geteuid() == 0:
            os.chown(path, 12345, -1)
        else:
            somebody = "import os\nos.geteuid = lambda: 12345\n"
        self.succeeds(somebody + ENABLE, MEND_CACHE_DIR=self.cache)
        self.assertEqual(self.kept(), [path])
        self.assertNotEqual(os.stat(path).st_ino, before)  # compiled again

    def test_the_profiler_hears_of_memory(self):
        self.enable(PROFILED)

    def test_a_profiler_that_is_off_hears_nothing(self):
        self.enable(PROFILED.replace("profile(1)", "profile(0)").replace(EVENTS, "[]"))


EVENTS = "[(3000, 3072, 0), (4000, 7168, 0), (-3000, 4096, 0), (2 << 30, 4096, 1)]"
PROFILED = f"""
import ctypes

class Event(ctypes.Structure):
    _fields_ = [("size", ctypes.c_int64), ("allocated", ctypes.c_uint64),
                ("reserved", ctypes.c_uint64), ("device", ctypes.c_int), ("is_oom", ctypes.c_int)]

c10 = ctypes.CDLL("{FAKES}/torch/lib/libc10.so")
c10.fake_c10_profile(1)
first, second = torch.empty(3000), torch.empty(4000)
del first
try:
    torch.empty(2 << 30)
except torch.OutOfMemoryError:
    pass
c10.fake_c10_profile(0)
events = (Event * 10)()
count = c10.fake_c10_events(events, 10)
seen = [(e.size, e.allocated, e.is_oom) for e in events[:count]]
assert seen == {EVENTS}, seen
assert all(e.reserved >= e.allocated and e.device == 0 for e in events[:count])
"""


class Struct(unittest.TestCase):
    def test_functions_override_the_order_of_the_source(self):
        """_adapter.py hands over addresses in the order of struct Mend."""
        import re

        from support import SOURCE

        folder = SOURCE / "api/python/mend/torch"
        source = (folder / "adapter.cpp").read_text(encoding="utf-8")
        python = (folder / "_adapter.py").read_text(encoding="utf-8")
        in_struct = re.findall(r"decltype\(&(\w+)\)", source)
        handed = re.findall(r'\("mend\w*", "(\w+)"\)', python)
        self.assertEqual(in_struct, handed)
        self.assertEqual(ctypes.sizeof(ctypes.c_void_p), 8)


if __name__ == "__main__":
    unittest.main()
