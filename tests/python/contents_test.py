"""The contents of a wheel, as CMake installs it: the right files, whole, that find each other
wherever they are put, and Python that the oldest supported interpreter understands."""

import ast
import os
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from support import SOURCE, TREE, readelf, start

PACKAGE = SOURCE / "api/python/libmend"


def files_under(folder):
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


class Contents(unittest.TestCase):
    def test_modules_headers_and_libraries_are_there(self):
        expected = {f"libmend/{name}" for name in files_under(PACKAGE)}
        headers = SOURCE / "api/include/mend"
        expected |= {f"libmend/include/mend/{path.name}" for path in headers.iterdir()}
        sources = SOURCE / "api/torch"
        expected |= {f"libmend/torch/source/{path.name}" for path in sources.glob("*.[ch]pp")}
        expected |= {f"libmend/torch/source/crt/{path.name}" for path in sources.glob("crt/*")}
        expected.add("libmend/bin/libmend")
        for name in ("detector-varboxes", "fsdp-llama-2stream"):  # what `libmend demo` runs
            expected.add(f"libmend/share/mend/traces/{name}.csv.gz")
        for name in ("libcuda.so", "libcuda.so.1"):  # what Triton links to without a GPU
            expected.add(f"libmend/share/mend/driver/{name}")
        installed = files_under(TREE)
        libraries = {name for name in installed if name.startswith("libmend/lib/")}
        self.assertEqual(installed - libraries, expected)
        kinds = {re.sub(r"\.so.*", "", os.path.basename(name)) for name in libraries}
        plain = {"libmend_cuda_standin", "libmend_nvml_standin"}
        versioned = {"libmend", "libmend_sim", "libmend_hooks", "libmend_torch"}
        self.assertEqual(kinds, versioned | plain)

    def test_the_names_of_another_project_are_free(self):
        """PyPI's `mend` has this module and this program."""
        other = "mend"
        for words in (["-c", f"import {other}"], ["-m", other]):
            done = start("-S", *words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("No module named", done.stderr)
        self.assertEqual({path.name for path in TREE.iterdir()}, {"libmend"})
        project = (SOURCE / "pyproject.toml").read_text(encoding="utf-8")
        programs = re.search(r"\[project\.scripts\]\n((?:.+\n)*)", project)[1]
        self.assertEqual(programs, 'libmend = "libmend.__main__:main"\n')

    def test_of_each_library_the_wheel_keeps_the_name_others_ask_for(self):
        """The wheel has no links: pyproject.toml leaves out the files behind them."""
        project = (SOURCE / "pyproject.toml").read_text(encoding="utf-8")
        self.assertIn('wheel.exclude = ["libmend/lib/*.so.*.*.*"]', project)
        for path in (TREE / "libmend/lib").iterdir():
            if not re.search(r"\.so\.\d+\.\d+\.\d+$", path.name):
                # A preloaded library has no version.
                self.assertRegex(path.name, r"_standin\.so$|\.so\.\d+$")

    def test_it_works_wherever_it_lies(self):
        with tempfile.TemporaryDirectory() as folder:
            moved = Path(folder) / "with a space"
            shutil.copytree(TREE, moved)
            for path in (moved / "libmend/lib").glob("*.so.*.*.*"):
                path.unlink()  # as the wheel does
            program = (
                "import libmend\nwith libmend.simulate():\n    libmend.stats()\n"
                "from libmend import _library\n"
                "[_library.load(name) for name in ('mend_hooks', 'mend_torch')]\n"
                "maps = open('/proc/self/maps').read()\n"
                f"assert {str(TREE)!r} not in maps\nprint(libmend.library_version())"
            )
            done = start("-c", program, PYTHONPATH=str(moved))
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_python_runs_the_program(self):
        done = start("-m", "libmend", "report", "--no-such-option")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn('libmend report: no option "--no-such-option"; there are: --', done.stderr)
        project = (SOURCE / "pyproject.toml").read_text(encoding="utf-8")
        self.assertIn('[project.scripts]\nlibmend = "libmend.__main__:main"\n', project)

    def test_without_the_program_that_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(PACKAGE, Path(folder) / "libmend")
            done = start("-m", "libmend", "demo", PYTHONPATH=folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("bin/libmend: No such file or directory", done.stderr)

    def test_the_demonstration_finds_its_recordings(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "link"
            page.symlink_to(TREE / "libmend/share/mend/traces/detector-varboxes.csv.gz")
            done = start("-m", "libmend", "demo", "-o", str(page))
        self.assertEqual(done.returncode, 2)
        self.assertIn("is read and would be written over", done.stderr)

    def test_libraries_have_no_path_of_the_build(self):
        for path in (TREE / "libmend/lib").iterdir():
            self.assertNotIn("/build/", readelf("--string-dump=.dynstr", path), path)

    def test_libraries_are_linked_without_a_path_of_the_build(self):
        """The linker's own mark of a library (its build id) is made with the search path that it
        is given: with a path of the build it would be another one in each folder."""
        build = Path(os.environ["MEND_TEST_BUILD"])
        libraries = list((build / "api").rglob("libmend*.so.*.*.*"))
        self.assertGreaterEqual(len(libraries), 3)
        for path in libraries:
            self.assertNotIn(str(build), readelf("--string-dump=.dynstr", path), path)


class Style(unittest.TestCase):
    def test_python_3_9_reads_it(self):
        for path in PACKAGE.rglob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))

    def test_each_module_says_what_it_is_and_needs_nothing_else(self):
        """Nothing but the standard library and the framework it is for."""
        for path in PACKAGE.rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            self.assertTrue(ast.get_docstring(tree), path)
            top = {
                alias.name.split(".")[0]
                for node in ast.walk(tree)
                if isinstance(node, ast.Import)
                for alias in node.names
            }
            top |= {
                node.module.split(".")[0]
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and not node.level and node.module
            }
            frameworks = {"torch", "cupy", "numba", "rmm", "cuda"}
            self.assertLessEqual(top - set(sys.stdlib_module_names), frameworks, path)

    def test_functions_that_users_call_have_types_and_words(self):
        for path in PACKAGE.rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name[0] != "_":
                    self.assertTrue(ast.get_docstring(node), f"{path}: {node.name}")
