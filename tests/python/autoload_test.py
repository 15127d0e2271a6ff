"""MEND_TORCH=1: `import torch` turns Mend on by the entry point that pyproject.toml declares, and
never fails because of it."""

import shutil
import tempfile
from pathlib import Path

import torch_test
from support import FAKES, SOURCE, TREE, ProgramTest, add_entry_point, run


def entry_points():
    """The entry points that pyproject.toml declares, as an installed package has them."""
    text = (SOURCE / "pyproject.toml").read_text(encoding="utf-8")
    section = text.split('[project.entry-points."torch.backends"]\n')[1].split("\n\n")[0]
    return section.replace('"', "")


class Autoload(ProgramTest):
    without_expected = torch_test.ClassTest.without_expected

    # The simulated device must be there before the first tensor, not before the import.
    prelude = "import torch\nimport libmend\ndevice = libmend.simulate(1 << 30)\n"
    off = """
        import libmend.torch
        assert not libmend.torch.is_enabled()
    """

    @classmethod
    def setUpClass(cls):
        cls.site = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.site)
        add_entry_point(cls.site, entry_points())

    def succeeds(self, program, says=None, stderr="", tree=TREE, **variables):
        path = f"{self.site}:{tree}:{FAKES}"
        compiler = {"CXX": torch_test.COMPILER, "FAKE_CLASS": str(FAKES / "libclass.so")}
        return super().succeeds(
            program, says, stderr, PYTHONPATH=path, **compiler, **variables
        )

    def test_it_turns_mend_on(self):
        self.succeeds(
            """
            import libmend.torch
            assert libmend.torch.is_enabled()
            libmend.torch.enable()
            """,
            says=["installed for 0 devices"],
            MEND_TORCH="1",
        )
        for value in ("on", "True", "yes"):
            self.succeeds("assert libmend.torch.is_enabled()", MEND_TORCH=value)

    def test_without_the_variable_nothing_happens(self):
        for value in (None, "", "0", "off", "False", "no"):
            self.succeeds(self.off, MEND_TORCH=value)

    def test_settings_without_it_are_told_at_the_end(self):
        used = "torch.cuda._lazy_init()\n"
        said = "MEND_CONF, MEND_STACKS: no memory of this process came from Mend"
        others = {"MEND_CONF": "strategy:2", "MEND_STACKS": "1MiB"}
        self.succeeds(used, stderr=said, **others)
        self.succeeds("", **others)
        self.succeeds(used + "libmend._devices.alloc(0, 4096)", **others)
        self.succeeds(used, MEND_TORCH="1", **others)
        asked = "libmend._devices.pool(0, is_asked=False)\n"  # a pool that serves nobody
        self.succeeds(used + asked, stderr=said, **others)

    def test_calls_without_it_are_told_once_where_they_are(self):
        """When PyTorch begins to use a GPU: until then Mend can be enabled."""
        calls = (
            'libmend.configure(limit="1GiB")', 'libmend.set_limit("1GiB")', "libmend.trim()",
            "libmend.compact()", "libmend.stats()", "libmend.available()", "libmend.scopes()",
            "libmend.reset_peak_stats()", "libmend.regions()", "libmend.prometheus()",
            "with libmend.scope('a'): pass", "with libmend.plain(): pass",
            "with libmend.sleep_tag('a'): pass", "with libmend.alloc_options(alignment=512): pass",
        )
        used = "torch.cuda._lazy_init()\n"
        programs = [(11, f"{call}\n{call}\n{used}") for call in calls]
        for line, program in (*programs, (12, f"{used}{calls[1]}\n{calls[1]}\n")):
            with self.subTest(program):
                done = run(self.prelude + program, PYTHONPATH=f"{self.site}:{TREE}:{FAKES}")
                self.assertTrue(done.stderr.startswith(f"<string>:{line}: RuntimeW"), done.stderr)
                self.assertEqual(done.stderr.count("Set MEND_TORCH=1"), 1, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.succeeds(calls[1])
        self.succeeds(f"{used}libmend._devices.alloc(0, 512)\n{calls[1]}")
        self.succeeds(f"{calls[1]}\n{used}", MEND_TORCH="1")

    def test_a_report_without_a_pool_says_what_to_set(self):
        self.succeeds(
            """
            import warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                assert libmend.leaks() == [] and libmend.owners() == []
            assert ["Set MEND_TORCH=1" in str(one.message) for one in caught] == [True]
            assert not libmend._devices.has_pool(0)
            for asked in range(2):  # the second time with an empty pool
                assert libmend.report() == (
                    "libmend: no memory of this process comes from Mend: PyTorch uses its own"
                    " allocator. Set MEND_TORCH=1, or call libmend.torch.enable() before the first"
                    " tensor on a GPU\\n"
                ), libmend.report()
                libmend.stats()
            torch.cuda._lazy_init()
            """
        )

    def test_another_value_is_reported(self):
        said = "MEND_TORCH is 'maybe'; it takes 1 or 0"
        self.succeeds(self.off, stderr=said, MEND_TORCH="maybe")

    def test_it_records_the_lines_that_allocate_if_asked(self):
        self.succeeds(
            """
            def step():
                return libmend._devices.alloc(0, 2 << 20)
            block = step()
            (owner,) = libmend.owners(by="stack")
            assert owner.name.startswith("<string>:") and " step from line " in owner.name, owner
            libmend._devices.free(0, block, 2 << 20)
            """,
            MEND_TORCH="1",
            MEND_STACKS="1MiB",
        )
        on = "assert libmend.torch.is_enabled()"
        for value in ("all", "1GB"):
            wrong = f"MEND_STACKS is '{value}'; it takes a size as 1MiB, or 0"
            self.succeeds(on, stderr=wrong, MEND_TORCH="1", MEND_STACKS=value)
        for none in ("0MiB", "00", " 0.0"):
            self.succeeds("assert libmend.torch.is_enabled()", MEND_TORCH="1", MEND_STACKS=none)

    def test_plug_ins_of_engines_import_nothing_of_theirs(self):
        """They change it where it is imported, once: custom all-reduce registers nothing."""
        inside = "distributed.device_communicators.custom_all_reduce"
        text = "class CustomAllreduce:\n"
        text += "    def all_reduce(self, inp, *, registered=False):\n        return registered\n"
        with tempfile.TemporaryDirectory() as folder:
            for name in (f"sglang.srt.{inside}", f"vllm.{inside}"):
                path = Path(folder, *name.split(".")).with_suffix(".py")
                path.parent.mkdir(parents=True)
                path.write_text(text, encoding="utf-8")
            program = f"""
                import sys
                sys.path.insert(0, {folder!r})
                import libmend.sglang, libmend.vllm
                for plug_in in 2 * (libmend.sglang, libmend.vllm):
                    plug_in.register()
                assert not {{"sglang", "vllm"}} & set(sys.modules)
                from sglang.srt.{inside} import CustomAllreduce
                libmend.sglang.register()
                from vllm.{inside} import CustomAllreduce as Other
                for kind in (CustomAllreduce, Other):
                    assert kind().all_reduce(1, registered=True) is IS_REGISTERED
            """
            self.succeeds(program.replace("IS_REGISTERED", "False"), MEND_TORCH="1")
            off = {"MEND_VLLM": "0", "MEND_SGLANG": "0"}
            self.succeeds(program.replace("IS_REGISTERED", "True"), MEND_TORCH="1", **off)
            self.succeeds(program.replace("IS_REGISTERED", "True"))

    def test_no_version_of_sglangs_second_all_reduce_shares_what_graphs_reduce(self):
        """The first ones have no mode for it, those after them by two names."""
        self.succeeds(
            """
            import contextlib, sys, types
            import libmend.sglang
            parts = (libmend.sglang._PARTS + "custom_all_reduce_v2").split(".")
            for count in range(1, len(parts) + 1):
                sys.modules[".".join(parts[:count])] = module = types.ModuleType("part")

            class First:
                shares = False

                def __init__(self, group):
                    self.group = group

                def may_share(self):
                    return True

                @contextlib.contextmanager
                def capture(self):
                    self.shares = self.may_share()
                    yield
                    self.shares = False

                def custom_all_reduce(self, input):
                    self.shares = self.may_share()
                    return self._all_reduce(input)

                def _all_reduce(self, input):
                    return self.shares

            class Second(First):
                def __init__(self, group):
                    self.group, self.tms_cudagraph = group, False

                def may_share(self):
                    return not self.tms_cudagraph

            class Third(First):
                def __init__(self, group):
                    self.group, self._is_graph_mode_supported = group, True

                def may_share(self):
                    return self._is_graph_mode_supported

            def shares(kind):
                communicator = kind("group")
                with communicator.capture():
                    return communicator.group == "group" and communicator.custom_all_reduce(1)

            for kind in (First, Second, Third):
                assert shares(kind) is True
                module.CustomAllReduceV2 = kind
                libmend.sglang.register(), libmend.sglang.register()
                assert shares(kind) is False, kind
            """,
            MEND_TORCH="1",
        )

    def test_pytorchs_own_switch_goes_first(self):
        self.succeeds(self.off, MEND_TORCH="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0")

    def test_a_package_without_its_libraries_leaves_pytorch_as_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(
                TREE / "libmend",
                Path(folder) / "libmend",
                ignore=lambda where, names: ["lib"] if "lib" in names else [],
            )
            program = "assert torch.cuda.device_count() == 2"
            self.prelude = "import torch\n"
            self.succeeds(
                program, stderr="PyTorch keeps its own allocator: ", tree=folder, MEND_TORCH="1"
            )

    def test_any_error_leaves_pytorch_as_it_was(self):
        """Here: PyTorch was built without CUDA."""
        self.prelude = ""
        self.succeeds(
            """
            import importlib.util, sys
            spec = importlib.util.find_spec("torch")
            torch = importlib.util.module_from_spec(spec)
            sys.modules["torch"] = torch
            import torch._C
            del torch._C._cuda_customAllocator
            spec.loader.exec_module(torch)
            assert torch.cuda.device_count() == 2
            """,
            stderr="built without CUDA",
            MEND_TORCH="1",
        )

    def test_torch_memory_saver_is_mends(self):
        """Whether its import leads to an import of torch, or comes later. The package that is
        installed would hook an allocator without callers, and lends its parts alone."""
        package = Path(self.site) / "torch_memory_saver"
        package.mkdir()
        self.addCleanup(shutil.rmtree, package)
        (package / "__init__.py").write_text("import torch\nanswers = True\n")
        (package / "part.py").write_text("")
        found = """
            import torch_memory_saver as found
            from torch_memory_saver import part
            print(hasattr(found, "answers"), found.__name__, hasattr(found, "torch_memory_saver"))
        """
        for self.prelude in ("import torch\n", ""):
            said = self.succeeds(found, MEND_TORCH="1")
            self.assertEqual(said.splitlines()[-1], "False libmend.torch.memory_saver True")
            for variables in ({"MEND_TORCH_MEMORY_SAVER": "0", "MEND_TORCH": "1"}, {}):
                said = self.succeeds(found, **variables)
                self.assertEqual(said.splitlines()[-1], "True torch_memory_saver False")

    def test_children_turn_it_on_for_themselves(self):
        """Spawned ones import torch again. Forked ones keep the settings, and allocate in pools of
        their own."""
        for method in ("spawn", "fork"):
            said = self.succeeds(CHILDREN.replace("METHOD", method), MEND_TORCH="1")
            self.assertEqual(said.split("\n")[-2], "0 True")


CHILDREN = """
import multiprocessing, subprocess, sys
if "METHOD" == "fork":
    import os, libmend.torch
    child = os.fork()
    if child == 0:
        os._exit(0 if libmend.torch.is_enabled() else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
else:
    code = subprocess.call([sys.executable, "-c",
        "import torch, libmend.torch; assert libmend.torch.is_enabled()"])
import libmend.torch
print(code, libmend.torch.is_enabled())
"""
