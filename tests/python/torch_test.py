"""libmend.torch over stubs of PyTorch, for a C++ compiler and for Mend's class: how the class is
made and installed. The class itself is tried under PyTorch (real/)."""

import os
import platform
import shutil
import stat
import sys
import tempfile
import textwrap
from pathlib import Path

from support import FAKES, TREE, ProgramTest, at_once, start

PRELUDE = "import libmend, torch\nimport libmend.torch\ndevice = libmend.simulate(1 << 30)\n"
ENABLE = PRELUDE + "libmend.torch.enable()\n"
COMPILER = f"{sys.executable} -S {FAKES}/compiler.py"
INSTALLED = ["installed for 0 devices"]

COMPILING = "libmend: compiling torch-"

WHY = "print(error_of(libmend.torch.enable))\nassert not libmend.torch.is_enabled()\n"


class ClassTest(ProgramTest):
    prelude = ""

    def setUp(self):
        self.cache = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.cache)
        self.arguments = os.path.join(self.cache, "arguments")

    def variables(self, **others):
        return {
            "MEND_CACHE_DIR": self.cache + "/kept",
            "CXX": COMPILER,
            "FAKE_CLASS": str(FAKES / "libclass.so"),
            "FAKE_ARGUMENTS": self.arguments,
            **others,
        }

    def enable(self, more="", says=None, stderr="", **others):
        says = INSTALLED if says is None else says
        self.succeeds(ENABLE + textwrap.dedent(more), says, stderr, **self.variables(**others))

    def why(self, part, before="", **others):
        """It cannot be enabled, and the reason has this part."""
        said = self.succeeds(PRELUDE + before + WHY, **self.variables(**others))
        self.assertIn(part, said)

    def without_expected(self, errors):
        """Without the line that says that the class is compiled."""
        return "".join(line for line in errors.splitlines(True) if COMPILING not in line)

    def kept(self):
        return sorted(Path(self.cache, "kept").glob("*"))


# Warned of where its plug-in, by which it copies, is not on, with two devices, as here.
ENGINES = """
import sys, types, warnings
for name in ENGINES:
    sys.modules[name] = types.ModuleType(name)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    libmend.torch.enable()
said = [str(warning.message) for warning in caught]
"""


class Enabling(ClassTest):
    def warned(self, engines, **variables):
        program = PRELUDE + ENGINES.replace("ENGINES", repr(engines)) + "print(said)\n"
        return self.succeeds(program, **self.variables(**variables))

    def test_engines_that_share_memory_by_legacy_handles_are_named(self):
        self.assertNotIn("cudaIpc", self.warned([]))
        self.assertNotIn("cudaIpc", self.warned(["vllm", "sglang"]))
        said = self.warned(["vllm", "sglang"], MEND_SGLANG="0")
        self.assertIn("sglang is loaded", said)
        self.assertIn("--disable-custom-all-reduce to it, or set MEND_TORCH_GRAPHS=native", said)
        self.assertNotIn("vllm is loaded", said)
        self.assertIn("vllm is loaded", self.warned(["vllm"], VLLM_PLUGINS="lora"))
        self.assertIn("aphrodite is loaded", self.warned(["aphrodite"]))
        self.assertNotIn("cudaIpc", self.warned(["aphrodite"], MEND_TORCH_GRAPHS="native"))
        self.assertIn("it takes native or mend", self.warned([], MEND_TORCH_GRAPHS="cuda"))

    def test_a_second_call_does_nothing(self):
        self.enable("libmend.torch.enable()\nassert libmend.torch.is_enabled()")

    def test_after_pytorch_was_initialized(self):
        program = PRELUDE + "torch.cuda._lazy_init()\nlibmend.torch.enable()\n"
        self.succeeds(program, ["installed for 2 devices"], **self.variables())

    def test_what_the_class_says_is_the_reason(self):
        self.why(
            "the place of PyTorch's allocator: there is memory. Call",
            FAKE_CLASS_REFUSES="there is memory",
        )
        self.why(
            "Take backend:cudaMallocAsync out of PYTORCH_CUDA_ALLOC_CONF (ComfyUI: ",
            FAKE_CLASS_REFUSES="it is another one",
            PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync",
        )

    def test_without_cuda(self):
        self.why("built without CUDA", "del torch._C._cuda_customAllocator\n")

    def test_versions_that_the_class_does_not_serve(self):
        for version in ("2.4.1", "2.99.0"):
            self.why(f"2.15, not {version}", f"torch.__version__ = '{version}'\n")

    def test_settings_without_effect_are_named(self):
        settings = "roundup_power2_divisions:[256:1,512:2],max_split_size_mb:128"
        self.enable(
            stderr="max_split_size_mb, expandable_segments in PYTORCH_CUDA_ALLOC_CONF has no",
            PYTORCH_CUDA_ALLOC_CONF=settings + ",expandable_segments:True",
        )
        self.enable(PYTORCH_CUDA_ALLOC_CONF="pinned_use_background_threads:True")

    def test_memory_can_be_shared_unless_the_program_says_something(self):
        for conf, then in (
            ("", "shareable:auto"),
            ("shareable:off", "shareable:off"),
            ("strategy:3,shareable:fabric", "strategy:3,shareable:fabric"),
            ("shared_limit_file:/shareable", "shared_limit_file:/shareable,shareable:auto"),
        ):
            self.enable(f"import os; assert os.environ['MEND_CONF'] == {then!r}", MEND_CONF=conf)


class Making(ClassTest):
    def test_the_command_names_what_the_class_needs(self):
        self.enable()
        said = Path(self.arguments).read_text("utf-8").split("\n")
        for part in (
            "-DMEND_TORCH=208",
            "-D_GLIBCXX_USE_CXX11_ABI=1",
            str(FAKES / "torch/include"),
            str(FAKES / "nvidia/cuda_runtime/include"),
            str(TREE / "libmend/torch/source/allocator.cpp"),
            f"-L{FAKES}/torch/lib",
        ):
            self.assertIn(part, said)

    def test_it_is_made_once(self):
        self.enable()
        (path,) = self.kept()
        before = path.stat().st_mtime_ns
        self.enable()
        self.assertEqual(path.stat().st_mtime_ns, before)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o755)

    def test_another_version_has_its_own(self):
        self.enable()
        program = PRELUDE + "torch.__version__ = '2.9.1'\nlibmend.torch.enable()\n"
        self.succeeds(program, INSTALLED, **self.variables())
        self.assertEqual(len(self.kept()), 2)

    def test_one_that_came_with_the_package_is_taken(self):
        tree = Path(self.cache) / "tree"  # other tests look at the common one meanwhile
        shutil.copytree(TREE, tree, symlinks=True)
        folder = tree / "libmend/torch/prebuilt"
        folder.mkdir()
        shutil.copyfile(FAKES / "libclass.so", folder / "mend_torch_2_8.so")
        variables = {"CXX": "/nowhere/c++", "PYTHONPATH": f"{tree}{os.pathsep}{FAKES}"}
        self.enable(**variables)
        self.assertEqual(self.kept(), [])
        self.why("/nowhere/c++ cannot be run", MEND_TORCH_PREBUILT="0", **variables)

    def test_what_others_could_have_written_is_not_run(self):
        self.enable()
        (path,) = self.kept()
        path.write_bytes(b"whatever")
        path.chmod(0o666)
        self.enable()
        self.assertEqual(self.kept(), [path])
        self.assertEqual(path.stat().st_mode & 0o022, 0)

    def test_one_of_another_user_is_not_run(self):
        self.enable()
        (path,) = self.kept()
        before = path.stat().st_ino
        other_user = ""
        if os.geteuid() == 0:
            os.chown(path, 12345, -1)
        else:
            other_user = "import os\nos.geteuid = lambda: 12345\n"
        self.succeeds(other_user + ENABLE, INSTALLED, **self.variables())
        self.assertNotEqual(path.stat().st_ino, before)

    def test_of_processes_that_come_at_once_one_makes_it(self):
        done = []
        at_once(lambda: done.append(start("-c", ENABLE, **self.variables())), 3)
        self.assertEqual([child.returncode for child in done], [0] * 3)
        self.assertEqual("".join(child.stderr for child in done).count(COMPILING), 1)
        self.assertEqual(len(self.kept()), 1)

    def test_what_a_killed_process_left_is_gone_after_the_next(self):
        folder = Path(self.cache, "kept")
        folder.mkdir(0o700)
        (folder / f"unfinished-{platform.node()}-x.so").touch()
        of_another = folder / "unfinished-of-another-machine-x.so"
        of_another.touch()
        self.enable()
        self.assertEqual(len(self.kept()), 2)
        self.assertTrue(of_another.exists())

    def test_a_folder_that_cannot_be_locked(self):
        refuse = """
def refuse(*_):
    raise OSError(9, "Bad file descriptor")
import fcntl
fcntl.flock = refuse
"""
        self.succeeds(refuse + ENABLE, INSTALLED, **self.variables())
        self.assertEqual(len(self.kept()), 1)

    def test_where_there_is_no_gpu_it_is_taken_but_not_made(self):
        none = "torch.cuda.device_count = lambda: 0\n"
        self.why("PyTorch finds no GPU, so it is not compiled; python -m libmend.torch", none)
        self.assertEqual(self.kept(), [])
        self.enable()
        self.succeeds(PRELUDE + none + "libmend.torch.enable()", INSTALLED, **self.variables())

    def test_it_is_made_beforehand(self):
        done = start("-m", "libmend.torch", "build", **self.variables())
        (path,) = self.kept()
        self.assertEqual((done.stdout, done.returncode), (f"{path}\n", 0), done.stderr)
        self.assertIn(COMPILING, done.stderr)
        done = start("-c", ENABLE, **self.variables())
        self.assertEqual((done.stderr, done.returncode), ("", 0))
        for words in ("", "make", "build now"):
            self.assertEqual(start("-m", "libmend.torch", *words.split()).returncode, 2, words)

    def test_without_pytorch_there_is_nothing_to_make_it_for(self):
        variables = self.variables(PYTHONPATH=str(TREE))
        done = start("-S", "-m", "libmend.torch", "build", **variables)
        self.assertEqual((done.stdout, done.returncode), ("", 1))
        self.assertIn("PyTorch cannot be imported: No module named 'torch'", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_reasons_why_it_cannot_be_made(self):
        self.why("/nowhere/c++ cannot be run", CXX="/nowhere/c++")
        self.why("allocator.cpp:1:1: error: nothing works", CXX=COMPILER + " -fails")
        self.why("cannot be written", MEND_CACHE_DIR="/dev/null/folder")
        no_headers = (
            "from pathlib import Path\nfrom libmend.torch import _build\n"
            "_build.cuda_headers_of(Path('/nowhere/torch'))\n"
        )
        done = start("-c", no_headers, CUDA_HOME=None, CUDA_PATH=None)
        if not Path("/usr/local/cuda/include/cuda_runtime_api.h").exists():
            self.assertIn("the headers of CUDA's runtime are not there", done.stderr)
        self.assertEqual(self.kept(), [])

    def test_one_that_cannot_be_loaded(self):
        self.enable()
        (path,) = self.kept()
        path.write_text("no library")
        self.why("cannot be loaded")
