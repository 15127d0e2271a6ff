#!/usr/bin/env python3
"""The job of `./run gpu`, rehearsed as it will run: packed, unpacked on a machine that has a shell
and a few tools and nothing else, on a libcuda.so.1 over the simulated device. Its numbers mean
nothing, and its records name that device. The test is that every step's results come back.

Usage: rehearsal_test.py SOURCE BUILD FOLDER_OF_LIBCUDA. MEND_GPU_PACK: an archive that was made
before, with Mend's class for PyTorch unless MEND_GPU_CLASSES is empty
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

LIBCUDA = Path(sys.argv.pop()).resolve()
BUILD = Path(sys.argv.pop()).resolve()
SOURCE = Path(sys.argv.pop()).resolve()
MADE = Path(os.environ["MEND_GPU_PACK"]).resolve() if os.environ.get("MEND_GPU_PACK") else None
TOOLS = """bash cat cp date dirname env grep head mkdir mktemp mv nproc rm tail tar gzip tee timeout
    uname""".split()
PARTS = {
    1: ["captures", "aliases", "entries", "prices", "mappings", "contract", "memory", "storm"]
    + ["queue"],
    3: ["torch"],
    2: ["replays", "bandwidth", "repeat"],
}
STEPS = [step for part in PARTS.values() for step in part]
RECORDS = [step for step in STEPS if step not in ("prices", "torch")]


def script(path, text):
    path.write_text("#!/usr/bin/env bash\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


# In the place of timeout: only a hanging program is stopped, at its limit in hundredths of seconds.
# The rest may take as long as a busy machine makes it.
PATIENT_TIMEOUT = """
hangs=%s
while [[ $1 == -* ]]; do
    [[ $1 != -k ]] || shift
    shift
done
limit=$1
shift
[[ $* != $hangs ]] || exec %s -k 5 "$((limit / 100)).$((limit / 10 %% 10))$((limit %% 10))" "$@"
exec "$@"
"""
# Longer than any test.
SECONDS = 99900


class Machine:
    """A machine without a network, a compiler or a package manager: its wants are reported."""

    def __init__(self, folder, hangs):
        self.folder = folder
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.asked = folder / "asked"
        for tool in TOOLS:
            (self.tools / tool).symlink_to(shutil.which(tool))
        (self.tools / "timeout").unlink()
        script(self.tools / "timeout", PATIENT_TIMEOUT % (hangs, shutil.which("timeout")))
        for tool in ("apt-get", "dpkg-query", "sudo", "curl", "git"):
            script(self.tools / tool, f"echo {tool} >>{self.asked}; exit 1\n")

    def run(self, where, *arguments, gpu=True, **environment):
        environment.update(PATH=str(self.tools), HOME=str(self.folder))
        if gpu:
            environment["LD_LIBRARY_PATH"] = str(LIBCUDA)
        return subprocess.run(
            ["./run", "gpu", *arguments],
            cwd=where,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


class Rehearsal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="mend-rehearsal-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        if MADE:
            cls.archive = MADE
            return
        cls.archive = cls.folder / "packed" / "mend-gpu.tar.gz"
        pack = [SOURCE / "bench/gpu/pack.sh", BUILD, cls.archive.parent]
        subprocess.run(pack, check=True, stdout=subprocess.PIPE)

    def machine(self, hangs=""):
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        machine = Machine(folder, hangs)
        with tarfile.open(self.archive) as archive:
            archive.extractall(folder)
        return machine, folder / "mend-gpu"

    def steps(self, results):
        lines = (results / "steps.jsonl").read_text().splitlines()
        return {step["step"]: step for step in map(json.loads, lines)}

    def unpacked(self, results):
        """The results: few plain files, each small, one of them with everything."""
        files = list(results.iterdir())
        self.assertLessEqual(len(files), 8)
        self.assertTrue(all(file.is_file() and not file.is_symlink() for file in files), files)
        self.assertTrue(all(file.stat().st_size < 16 << 20 for file in files), files)
        (archive,) = results.glob("gpu-part*.tar.gz")
        target = results.parent / f"unpacked-{results.name}"
        with tarfile.open(archive) as packed:
            packed.extractall(target)
        return target

    def records(self, folder, name):
        return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]

    def test_the_archive_travels(self):
        self.assertLess(self.archive.stat().st_size, 60 << 20)
        with tarfile.open(self.archive) as archive:
            names = archive.getnames()
        self.assertIn("mend-gpu/lib/libmend.so.0", names)
        self.assertIn("mend-gpu/lib/libmend_hooks.so", names)
        self.assertIn("mend-gpu/python/libmend/__init__.py", names)
        classes = [name for name in names if "/prebuilt/mend_torch_" in name]
        self.assertEqual(bool(classes), bool(MADE and os.environ.get("MEND_GPU_CLASSES", "2.11.0")))
        traces = {path.name for path in (SOURCE / "bench/traces").glob("*.gz")}
        self.assertEqual(traces, {Path(name).name for name in names if name.endswith(".csv.gz")})

    def test_every_step_comes_back_from_a_bare_machine(self):
        machine, where = self.machine()
        results = machine.folder / "out"
        done = machine.run(where, "--quick", "--seconds", str(SECONDS), OUT=str(results))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertFalse(machine.asked.exists(), "something was to be installed")
        steps = self.steps(results)
        self.assertEqual(list(steps), STEPS)
        for step in steps.values():
            self.assertEqual(step["outcome"], "done", done.stdout)
        kept = self.unpacked(results)
        for name in STEPS:
            self.assertTrue((kept / f"{name}.txt").read_text().strip(), name)
        for name in RECORDS:
            records = self.records(kept, name)
            self.assertGreater(len(records), 1 if name != "replays" else 0, name)
            if records[0].get("record") == "device":
                self.assertEqual(records[0]["device"], "fake device 0")
        self.assertIn("fake device 0", (results / "summary.txt").read_text())
        self.assertIn("left out", (kept / "torch.txt").read_text())
        self.captures_are_whole(kept)
        self.prices_are_a_list(where, kept, results)
        self.contract_is_whole(where, kept)
        self.replays_are_checked(kept)
        aliases = [r for r in self.records(kept, "aliases") if r["record"] == "alias"]
        self.assertGreaterEqual(len(aliases), 4)
        self.assertEqual({r["words_that_differ"] - r["expected"] for r in aliases}, {0})

    def captures_are_whole(self, kept):
        """Each call beside each mode of capture and thread, from both threads, once each."""
        cells = [r for r in self.records(kept, "captures") if r["record"] == "capture"]
        keys = [
            (r["call"], r["capture_mode"], r["thread_mode"], r["thread"], r["stream"])
            for r in cells
        ]
        self.assertEqual(len(keys), len(set(keys)))
        with_stream = {r["call"] for r in cells if r["stream"] == "captured"}
        without = {r["call"] for r in cells} - with_stream
        self.assertEqual((len(with_stream), len(without)), (6, 12))
        self.assertEqual(len(cells), 18 * (6 * 4 + 12 * 2))
        self.assertTrue(all(r["began"] for r in cells))
        self.assertEqual({True, False}, {r["survived"] for r in cells})

    def prices_are_a_list(self, where, kept, results):
        beside = (results / "prices.costs").read_text()
        self.assertEqual(beside, (kept / "prices.costs").read_text())
        for name in ("prices.costs", "mappings.costs"):
            command = [where / "bin/libmend", "replay", "--costs", kept / name]
            command.append("stress:checkerboard")
            done = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stderr)

    def listed(self, where):
        command = [where / "bin/contract_tests", "--gtest_list_tests"]
        lines = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        return sum(line.startswith("  ") for line in lines)

    def contract_is_whole(self, where, kept):
        tests = self.records(kept, "contract")
        self.assertEqual(len(tests), self.listed(where))
        self.assertEqual({test["result"] for test in tests}, {"passed"})
        for test in tests:
            self.assertEqual(test["observed"], test["test"].split(".")[0].endswith("_observed"))
        self.assertIn(True, {test["observed"] for test in tests})

    def replays_are_checked(self, kept):
        replays = self.records(kept, "replays")
        policies = {"mend", "caching", "cuda-malloc-async"}
        self.assertEqual({row["policy"] for row in replays}, policies)
        self.assertEqual({row["content_errors"] for row in replays}, {0})
        for row in replays:
            self.assertEqual(row["ballast_bytes"] is None, row["capacity_bytes"] is None)
        self.assertEqual({row["device"] for row in replays}, {"cuda"})

    def test_what_hangs_or_dies_takes_nothing_else_along(self):
        machine, where = self.machine(hangs="*mend-probe?storm*")
        binaries = where / "bin"
        (binaries / "contract_tests").rename(binaries / "contract")
        script(
            binaries / "mend-probe",
            'if [[ $1 == storm ]]; then echo begun; while :; do :; done; fi\n',
        )
        script(
            binaries / "contract_tests",
            'case "$*" in "" | *contract_chunk.sizes_are_whole_pages) kill -SEGV $$ ;;\n'
            "*contract_address_observed.alignment_is_kept) echo another answer; exit 1 ;;\n"
            "*list_tests) set -- --gtest_filter='contract_address*:contract_chunk.*' \"$@\" ;;\n"
            "esac\n"
            f'exec "{binaries}/contract" "$@"\n',
        )
        results = machine.folder / "out"
        # For the step that hangs, 30 of its hundredths of a second.
        done = machine.run(where, "--quick", "--part", "1", MEND_RESULTS=str(results))
        self.assertEqual(done.returncode, 1, done.stdout)
        steps = self.steps(results)
        self.assertEqual(list(steps), PARTS[1])
        self.assertEqual(steps["storm"]["outcome"], "stopped at its limit")
        self.assertEqual(steps["storm"]["limit_s"], 30)
        self.assertEqual(steps["contract"]["outcome"], "exit status 1")
        steps.pop("storm"), steps.pop("contract")
        self.assertEqual({step["outcome"] for step in steps.values()}, {"done"}, done.stdout)
        kept = self.unpacked(results)
        self.assertIn("begun", (kept / "storm.txt").read_text())
        tests = {test["test"]: test for test in self.records(kept, "contract")}
        self.assertEqual(len(tests), self.listed(where))
        bad = {name: test["result"] for name, test in tests.items() if test["result"] != "passed"}
        self.assertEqual(
            bad,
            {
                "contract_chunk.sizes_are_whole_pages": "crashed",
                "contract_address_observed.alignment_is_kept": "failed",
            },
        )
        summary = (results / "summary.txt").read_text()
        self.assertIn("FAILED (crashed): contract_chunk.sizes_are_whole_pages", summary)
        self.assertNotIn("FAILED (failed)", summary)  # observed, not failed

    def test_time_that_is_over_ends_the_job(self):
        machine, where = self.machine()
        (machine.tools / "timeout").unlink()
        (machine.tools / "timeout").symlink_to(shutil.which("timeout"))
        script(where / "bin/mend-probe", "while :; do :; done\n")
        results = machine.folder / "out"
        done = machine.run(where, "--part", "2", "--seconds", "4", OUT=str(results))
        self.assertEqual(done.returncode, 1, done.stdout)
        steps = self.steps(results)
        self.assertEqual(list(steps), PARTS[2])
        outcomes = {step["outcome"] for step in list(steps.values())[1:]}
        self.assertLessEqual(outcomes, {"stopped at its limit", "not begun: no time"})
        began = [step for step in steps.values() if not step["outcome"].startswith("not begun")]
        self.assertLessEqual(sum(step["limit_s"] for step in began), 4)

    def test_parts_are_asked_for_and_torch_is_found(self):
        machine, where = self.machine()
        script(
            machine.tools / "my-python",
            'if [[ $1 == -c ]]; then exit 0; fi\necho "$PYTHONPATH $*"; echo "{}" >>"$3"\n'
            "[[ $1 != *fixed.py ]]\n",
        )
        results = machine.folder / "out"
        done = machine.run(
            where, "--part", "3", "--quick", OUT=str(results), MEND_PYTHON="my-python"
        )
        self.assertEqual(done.returncode, 1, done.stdout)  # the first program failed
        self.assertEqual(list(self.steps(results)), PARTS[3])
        kept = self.unpacked(results)
        called = (kept / "torch.txt").read_text()
        for program in ("fixed.py", "fit.py"):
            self.assertIn(f"{where}/python bench/torch/{program} --json", called)
            self.assertTrue((where / "bench/torch" / program).is_file())
        self.assertEqual((results / "torch.jsonl").read_text(), "{}\n{}\n")
        self.assertTrue((where / "python/libmend/torch.py").is_file()
                        or (where / "python/libmend/torch").is_dir())

    def test_without_a_gpu_it_says_so_and_keeps_what_the_machine_is(self):
        machine, where = self.machine()
        results = machine.folder / "out"
        done = machine.run(where, gpu=False, OUT=str(results))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("There is no GPU here that Mend can use.", done.stdout)
        summary = (results / "summary.txt").read_text()
        for text in ("commit ", "processors ", "LD_LIBRARY_PATH=", "libcuda.so.1"):
            self.assertIn(text, summary)
        self.assertTrue((self.unpacked(results) / "machine.txt").is_file())

    def test_a_tree_without_programs_or_tools_says_what_is_missing(self):
        machine, where = self.machine()
        shutil.rmtree(where / "bin")
        done = machine.run(where)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("There is no cmake here. Make build/mend-gpu.tar.gz", done.stdout)
        self.assertFalse(machine.asked.exists(), "something was to be installed")

    def test_an_archive_that_was_carried_is_taken(self):
        machine, where = self.machine()
        shutil.rmtree(where / "bin")
        (where / "build").mkdir()
        shutil.copy(self.archive, where / "build")
        results = machine.folder / "out"
        done = machine.run(where, "--part", "3", "--quick", OUT=str(results))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(list(self.steps(results)), PARTS[3])

    def test_bad_options_are_refused(self):
        machine, where = self.machine()
        for options in (["--part", "4"], ["--seconds", "0"], ["--seconds"], ["--else"]):
            done = machine.run(where, *options)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn("usage: ./run gpu", done.stdout)


if __name__ == "__main__":
    os.environ.pop("OUT", None)
    os.environ.pop("MEND_RESULTS", None)
    unittest.main()
