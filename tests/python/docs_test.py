"""The lines of docs/frameworks that turn a hook on: each block under `<!-- this runs -->` is run as
it is in its section, over the stubs, and must have made Mend allocate (PyTorch's: must have enabled
it, because Mend's class needs PyTorch itself). Messages and settings on the pages are as in the
code."""

import re
import sys
import tempfile
import unittest
from pathlib import Path

from support import FAKES, SOURCE, add_entry_point, environment, finished, run, start

PAGES = SOURCE / "docs/frameworks"
BLOCK = re.compile(r"<!-- this runs -->\n```(\w+)\n(.*?)```", re.S)

# The frame of a page's Python, with a device and a check that the hook was used.
BEFORE = "import libmend\ndevice = libmend.simulate(1 << 30)\n"
AFTER = "\nassert libmend.stats()['allocations'] > 0\nassert device.violations == 0\n"
ENABLED = "\nassert libmend.torch.is_enabled()\n"
AFTER_OF = {"PyTorch 2": ENABLED}
CLASS = {
    "CXX": f"{sys.executable} -S {FAKES}/compiler.py",
    "FAKE_CLASS": str(FAKES / "libclass.so"),
}
MORE = {"Numba": "\nfrom numba import cuda\narray = cuda.Context().memalloc(1000)\n"}
# The programs that shell lines run.
PROGRAMS = {
    "PyTorch": "import torch\nimport libmend.torch" + ENABLED,
    "Numba": BEFORE + "from numba import cuda\narray = cuda.Context().memalloc(1000)\n" + AFTER,
}


def sections():
    """The frameworks, one a section, and their common part. PyTorch has a page."""
    yield "PyTorch", (PAGES / "pytorch.md").read_text("utf-8")
    for part in re.split(r"^## ", (PAGES / "README.md").read_text("utf-8"), flags=re.M):
        yield part.split("\n", 1)[0], part


def blocks():
    for section, part in sections():
        for number, (language, text) in enumerate(BLOCK.findall(part), 1):
            yield f"{section} {number}", section, language, text


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """The first use of the class would say that it is compiled."""
        start("-S", "-m", "libmend.torch", "build", **CLASS)

    def test_every_framework_has_a_block_that_runs(self):
        index = (PAGES / "README.md").read_text("utf-8")
        rows = re.findall(r"^\| (.*?) \| .*\]\((?:pytorch\.md|#[\w-]+)\) \|$", index, re.M)
        self.assertEqual(6, len(rows))
        with_blocks = {section for _, section, _, _ in blocks()}
        self.assertEqual([], [row for row in rows if row not in with_blocks])

    def test_python(self):
        for name, section, language, text in blocks():
            if language != "python":
                continue
            with self.subTest(name):
                # One that makes a device of its own runs alone.
                alone = "libmend.simulate" in text
                after = MORE.get(section, "") + AFTER_OF.get(name, AFTER)
                program = text if alone else BEFORE + text + after
                done = run(program, **CLASS)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_each_row_of_what_works_in_pytorch_names_a_test(self):
        page = (SOURCE / "bench/results/pytorch.md").read_text("utf-8")
        rows = page.split("| PyTorch | Mend | test |\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
        real = SOURCE / "tests/python/real"
        tests = {name for file in real.glob("torch_*real.py")
                 for name in re.findall(r"def test_(\w+)\(", file.read_text("utf-8"))}
        self.assertGreater(len(rows), 15)
        for row in rows:
            named = re.findall(r"`(\w+)`", row.rstrip("|").rsplit("|", 1)[1])
            with self.subTest(row[:60]):
                self.assertTrue(named)
                self.assertEqual([], [name for name in named if name not in tests])

    def test_shell(self):
        for name, section, language, text in blocks():
            if language != "sh":
                continue
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "program.py").write_text(PROGRAMS[section], encoding="utf-8")
                add_entry_point(f"{folder}/site")
                variables = environment(**CLASS)
                variables["PYTHONPATH"] = f"{folder}/site:{variables['PYTHONPATH']}"
                done = finished(["sh", "-ec", text], variables, folder)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


class Words(unittest.TestCase):
    def test_messages_are_quoted_as_they_are(self):
        code = "".join(path.read_text("utf-8") for path in (SOURCE / "api/python").rglob("*.py"))
        code = re.sub(r'"\n\s+f?"', "", code)
        page = "".join(page.read_text("utf-8") for page in PAGES.glob("*.md"))
        quoted = re.findall(r"`(?:RuntimeError|NotImplementedError): (.*?)`", page)
        self.assertGreaterEqual(len(quoted), 4)
        for message in quoted:
            for part in re.split(r"\.\.\.|cannot work.*", message):
                self.assertIn(part.replace("libmend.torch: ", "").strip(), code, message)

    def test_variables_are_those_of_the_code(self):
        code = "".join(path.read_text("utf-8") for path in (SOURCE / "api/python").rglob("*.py"))
        in_code = set(re.findall(r'environ\.get\("(MEND_\w+)"', code))
        text = "".join(page.read_text("utf-8") for page in PAGES.glob("*.md"))
        in_text = set(re.findall(r"\bMEND_(?!NO_)\w+(?==|\b)", text))
        # The settings that the library reads.
        self.assertEqual(in_code | {"MEND_CONF"}, in_text)
