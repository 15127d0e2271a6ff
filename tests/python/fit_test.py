"""`libmend fit` without PyTorch: its arguments, cards, arithmetic, words. real/torch_fit_real.py
runs programs."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import types
import unittest
import unittest.mock

import libmend
from libmend import _stacks, fit
from libmend.fit import _answer, _cards, _function, _orders, _page, _runs, _server, _text
from support import GIB, MIB, SOURCE, TREE, FolderTest, finished, start

OPTION = re.compile(r"--[a-z][a-z-]+")


def row(allocated=0, reserved=None, ended="end", **more):
    reserved = allocated if reserved is None else reserved
    return _runs.Row(ended, allocated, reserved, **more)


class Command(FolderTest):
    def test_the_program_tells_the_options_that_are_read(self):
        told = subprocess.check_output([fit.PROGRAM, "fit", "--help"], text=True)
        read = {option for action in fit.parser()._actions for option in action.option_strings}
        self.assertEqual(set(OPTION.findall(told)), read - {"-h", "-o"})
        self.assertIn(fit.STATUS, " ".join(told.split()))

    def test_it_is_reached_by_the_packages_program(self):
        done = start("-m", "libmend", "fit", "--help")
        self.assertIn("--largest NAME=LOW..HIGH[:STEP]", done.stdout, done.stderr)

    def test_the_program_of_cmakes_install_finds_the_package_beside_it(self):
        beside = self.folder / "share" / "mend" / "python"
        shutil.copytree(TREE / "libmend", beside / "libmend")
        program = self.folder / "bin" / "libmend"
        program.parent.mkdir()
        shutil.copy(fit.PROGRAM, program)
        command = [program, "fit", "--gpu", "Voodoo2", "x.py"]
        for path in ("", "/nowhere"):
            environment = {**os.environ, "PYTHONPATH": path}
            done = finished(command, environment, "/")
            self.assertIn("no figures of a GPU 'Voodoo2'", done.stderr)
        shutil.rmtree(beside)
        environment = {**os.environ, "PYTHONPATH": ""}
        done = finished(command, environment, "/")
        self.assertEqual((done.returncode, done.stdout), (fit.BAD_USAGE, ""), done.stderr)
        self.assertRegex(done.stderr, "^libmend fit: needs Mend for Python, .*: run pip install")

    def test_bad_usage_is_named(self):
        program = self.folder / "x.py"
        program.write_text("")
        for words, said in (
            (["--gpu", "Voodoo2", program], "no figures of a GPU 'Voodoo2'; there are T4, L4"),
            (["--memory", "much", program], "'much' is no size"),
            (["--memory", "24", program], "'24' is less than a page of 2 MiB; did you forget"),
            (["--fail-above", "24", program], "did you forget the unit?"),
            (["--gpu", "A100", program], "several GPUs have 'A100'; there are A100-40GB, A100-80"),
            (["--allocator", "default,default", program], "'default': choose from"),
            (["--allocator", "jemalloc", program], "'jemalloc': choose from"),
            (["--steps", "0", program], "'0' is no number of steps"),
            (["--seconds", "-1", program], "'-1' is no number of seconds"),
            (["--world-size", "0", program], "'0' is no number of ranks"),
            (["--value", "x.py=3", program], "'x.py=3' gives no value"),
            (["--value", "x.py:3=much", program], "'x.py:3=much' gives no value"),
            (["--largest", "batch", program], "'batch' is no span"),
            (["--largest", "batch=9..8", program], "it must go from 1 or more upwards"),
            (["--largest", "batch=1..8", program], "say for which memory"),
            (
                ["--largest", "batch=1..8", "--memory", "1GiB", "--", program, "{size}"],
                "no argument of the program has {batch} in it",
            ),
            (["--largest", "b=1..8", "--memory=1GiB", "--fail-above=1GiB", program], "two questi"),
            ([], "name the program to run"),
            (["--", "python3"], "name the program to run: a file"),
            (["--", "python3", "none.py"], "there is no file 'none.py'"),
            (["--", "no-such-program"], "there is no program 'no-such-program'"),
            (["--", "sh", program], "sh is no Python program"),
            (["--", sys.executable, "-S", program], "PyTorch: No module named 'torch'"),
        ):
            done = start("-m", "libmend", "fit", *map(str, words), PYTHONPATH=str(TREE))
            self.assertEqual(done.returncode, fit.BAD_USAGE, words)
            self.assertIn(said, done.stderr, words)
            self.assertEqual(done.stdout, "", words)

    def test_programs_as_they_are_written(self):
        file = self.folder / "train.py"
        file.write_text("")
        script = self.folder / "script"
        script.write_text(f"#!{sys.executable}\n")
        script.chmod(0o755)
        name, python = str(file), sys.executable
        for words, interpreter, target, arguments in (
            ([name, "-x"], [python], [name], ["-x"]),
            ([python, name, "1", "2"], [python], [name], ["1", "2"]),
            ([python, "-u", "-X", "dev", name], [python, "-u", "-X", "dev"], [name], []),
            ([python, "-m", "part", "-m"], [python], ["-m", "part"], ["-m"]),
            ([python, "-c", "1", "2"], [python], ["-c", "1"], ["2"]),
            ([str(script), "1"], [python], [str(script)], ["1"]),
        ):
            program = _runs.Program.of(words)
            self.assertEqual(program, _runs.Program(interpreter, target, arguments))

    def test_torchrun_is_not_started(self):
        file = self.folder / "train.py"
        file.write_text("")
        torchrun = self.folder / "torchrun"
        torchrun.write_text(f"#!{sys.executable}\n")
        torchrun.chmod(0o755)
        run = [sys.executable, "-m", "torch.distributed.run"]
        for words, target, ranks in (
            ([str(torchrun), "--nproc_per_node=8", file, "-x"], [str(file)], 8),
            ([*run, "--standalone", "--nnodes", "1:2", "--nproc-per-node=4", file, "-x"],
             [str(file)], 8),
            ([*run, "--nproc-per-node=2", "-m", "part", "-x"], ["-m", "part"], 2),
            ([*run, file, "-x"], [str(file)], 1),
        ):  # fmt: skip
            program = _runs.Program.of([str(word) for word in words])
            made = _runs.Program([sys.executable], target, ["-x"], world_size=ranks)
            self.assertEqual(program, made)
        with self.assertRaisesRegex(_runs.CannotRun, "say how many ranks"):
            _runs.Program.of([*run, "--nproc-per-node=gpu", str(file)])

    def test_a_size_takes_the_place_of_its_name(self):
        program = _runs.Program([], ["x.py"], ["--batch={batch}", "{other}", "{batch}"])
        self.assertEqual(program.argv("batch", 8), ["--batch=8", "{other}", "8"])
        self.assertEqual(program.argv(None, None), program.arguments)

    def test_what_is_installed_is_imported_once_and_what_is_beside_the_program_is_not(self):
        """In any folder of an installer, and where a module beside the program imports it."""
        for name, text in (
            ("put/heavy/__init__.py", "from heavy.deep import part"),
            ("put/heavy/deep.py", "part = 1"),
            ("put/heavy-1.0.dist-info/RECORD", "heavy/__init__.py,,\n"),
            ("work/other-1.0.dist-info/RECORD", "other/__init__.py,,\n"),
            ("work/train.py", "import json, absent, own.inner"),
            ("work/own/__init__.py", ""),
            ("work/own/__main__.py", "from . import inner"),
            ("work/own/inner.py", "from .other import thing"),
            ("work/own/other.py", "import heavy.deep\nfrom own import inner"),
        ):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        server = TREE / "libmend" / "fit" / "_server.py"
        for text, package in (
            ("import own.inner", ""), ("import absent\nfrom own import other", ""),
            ("from .inner import thing", "own"), ("*_server.module_text('own.__main__')", None),
        ):  # fmt: skip
            said = text if package is None else f"{text!r}, {package!r}"
            done = start(
                "-c",
                f"import sys; sys.path[:0] = {[str(self.folder / 'work'), str(server.parent)]!r}\n"
                f"import _server; _server.preload({said}, set())\n"
                "print('heavy.deep' in sys.modules, 'own' in sys.modules)",
                PYTHONPATH=f"{self.folder / 'put'}{os.pathsep}{TREE}",
            )
            self.assertEqual(done.stdout.split(), ["True", "False"], done.stderr)


WIDTH = 7
WORDS = json


class Servers(unittest.TestCase):
    def test_frames_of_the_package_are_not_the_programs(self):
        run = object.__new__(_server.Run)
        run.home = ""
        own = str(_server.PACKAGE / "fit" / "_compiled.py")
        files = ["_ops.py", _server.VALUES, "functional.py", _server.VALUES, own, "train.py", own]
        found = run.frames_of_program([{"filename": file} for file in files])
        self.assertEqual([one["filename"] for one in found], ["functional.py", "train.py"])
        with unittest.mock.patch.object(_stacks, "is_library", lambda file: "put" in file):
            found = [{"filename": file} for file in ("/put/a.py", "/b.py")]
            for _ in range(2):  # stacks share frames
                found = run.frames_of_program(found)
        self.assertEqual([one["filename"] for one in found], ["/site-packages/put/a.py", "/b.py"])

    def test_one_that_hears_no_signal_ends_with_its_input(self):
        """As where the signal comes just before it reads."""
        text = "import signal, sys; signal.signal(15, signal.SIG_IGN); print(flush=True); input()"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        server = object.__new__(_runs.Server)
        server.process = subprocess.Popen(
            [sys.executable, "-c", text], stderr=subprocess.DEVNULL, **pipes
        )
        server.process.stdout.readline()
        server.answers = server.process.stdout
        server.log = io.StringIO()
        server.close()
        self.assertEqual(server.process.returncode, 1)  # EOFError


class Base:
    size = 5


class Made(Base):
    def twice(self):
        return WIDTH * 2 + self.size


def helper(name):
    return WORDS.dumps([name, Made().twice(), _cards.GIB])


class Functions(unittest.TestCase):
    """A function as a program of its own, run by an interpreter that knows nothing else."""

    def run_alone(self, function, *arguments, **named):
        program = _function.program_of(function, arguments, named)
        words = [*program.interpreter, *program.target]
        return program, finished(words)

    def test_it_takes_what_it_names_along(self):
        outer = 11

        def says(name, *, count):
            def inner():
                return helper(name)

            print(inner(), count, outer)
            raise ValueError("here")

        program, done = self.run_alone(says, "x", count=3)
        self.assertEqual(done.stdout, f'["x", 19, {GIB}] 3 11\n', done.stderr)
        self.assertEqual(program.words(), "says()")
        line = says.__code__.co_firstlineno + 5
        self.assertIn(f'fit_test.py", line {line}, in says', done.stderr)

    def test_what_cannot_go_along_is_named(self):
        def takes(value):
            return value

        for function, given, said in (
            (print, (), "is no function that def has made"),
            (takes, (open(__file__, encoding="utf-8"),), "its arguments cannot be sent"),
        ):
            with self.assertRaisesRegex(libmend.Error, said):
                libmend.fit(function, *given)
            for one in given:
                one.close()

    def test_options_are_those_of_the_command(self):
        for options in ("--memory much", "--nothing", "program.py", "--largest b=1..2"):
            with self.assertRaisesRegex(ValueError, "libmend.fit: "):
                libmend.fit(helper, "x", options=options)


class Pages(FolderTest):
    def test_the_answer_stands_above_the_report(self):
        timeline = self.folder / "timeline"
        timeline.write_text(
            "policy\tcapacity_bytes\tevent\tlive_bytes\treserved_bytes\ttrace\n"
            f"caching\t\t1\t5\t{12 * GIB}\tx\n"
            f"caching\t\t9\t7\t{13 * GIB}\tx\n"
        )
        page = self.folder / "page.html"
        report = "<header><h1>No request failed</h1></header><section>report: no stack</section>"
        fits = dict(target(_answer.FITS), room_bytes=int(13.7 * GIB), label="T4 (14.56 GiB)")
        found = answer(targets=[fits], allocators=["default"])
        _page.write(page, report, found, "It <fits>.\nmore\n\n  1 GiB\n  2 GiB", timeline)
        text = page.read_text()
        self.assertIn("<h1>It &lt;fits&gt;.</h1></header>", text)
        self.assertLess(text.index("<p>more</p>"), text.index("<section>report"))
        self.assertRegex(text, r'<pre style="[^"]*white-space:pre;[^"]*">  1 GiB\n  2 GiB</pre>')
        axes = ["0 GiB", "5 GiB", "10 GiB", "event 0", "event 9"]
        shown = re.findall(r'fill="currentColor"[^>]*>([^<]*)<', text)
        self.assertEqual(shown, [*axes, "T4 (14.56 GiB)"])
        self.assertIn("Above the chart: L4, with ", text)
        self.assertIn(_text.NO_LINE, text)
        self.assertNotIn(_text.NO_STACK, text)
        self.assertIn("held by PyTorch&#x27;s default", text)
        largest = dict(fits, largest={"default": 8, "mend": None})
        _page.write(page, report, dict(found, knob="batch", targets=[largest]), "x", timeline)
        self.assertRegex(page.read_text(), r"The largest batch by card.*<td>8</td>.*<td>none</td>")

    def test_a_page_that_cannot_be_written_is_no_work(self):
        program = self.folder / "x.py"
        program.write_text("")
        done = start("-m", "libmend", "fit", "-o", str(self.folder), str(program))
        self.assertEqual(done.returncode, fit.BAD_USAGE)
        self.assertIn("Is a directory", done.stderr)


class Cards(unittest.TestCase):
    def test_a_card_is_found_by_key_and_name(self):
        for name in ("A100-80GB", "a100 80gb", "NVIDIA A100-SXM4-80GB"):
            self.assertEqual(_cards.find(name).key, "A100-80GB")
        self.assertIsNone(_cards.find("A100"))
        for part, key in (("4090", "RTX4090"), ("a100-80", "A100-80GB"), ("l40", "L40")):
            self.assertEqual(_cards.asked_for(part).key, key)

    def test_each_figure_has_its_source(self):
        for card in _cards.CARDS:
            self.assertRegex(card.source, r"^(https://|measured: bench/results/)", card.key)
            self.assertLess(card.least_beside_bytes, card.most_beside_bytes, card.key)
            self.assertIn("MEND_SIMULATE_ATTRIBUTES", card.environment())
        sizes = [card.total_bytes for card in _cards.CARDS]
        self.assertEqual(sizes, sorted(sizes))

    def test_what_was_measured_is_what_the_files_of_the_gpus_say(self):
        """Memory, and memory beside PyTorch's allocator in programs that were alone on the GPU and
        released none."""
        results = SOURCE / "bench" / "results"
        for key in ("H100", "H200"):
            card = _cards.find(key)
            device = (results / f"2026-11-26-{key}" / "device.txt").read_text()
            total = float(re.search(r"memory +([\d.]+) GiB", device)[1])
            self.assertAlmostEqual(card.total_bytes / GIB, total, 6)
        beside = []
        for path in [*results.glob("*/torch-*.jsonl"), *results.glob("*/limits.jsonl")]:
            for line in path.read_text().splitlines():
                one = json.loads(line)
                if one.get("completed") and one.get("num_alloc_retries") == 0:
                    beside.append(one["device_used_bytes"] - one["peak_reserved_bytes"])
        alone = [size for size in beside if 0 < size < GIB]  # neighbors have more
        self.assertGreater(len(alone), 10)
        card = _cards.find("H200")
        self.assertLessEqual(card.least_beside_bytes, min(alone))
        self.assertLess(min(alone) - card.least_beside_bytes, 2 * MIB)
        self.assertLessEqual(max(alone), card.most_beside_bytes)
        self.assertLess(card.most_beside_bytes - max(alone), 2 * MIB)


CARD = _cards.CARDS[0]._replace(
    total_bytes=10 * GIB, least_beside_bytes=GIB // 2, most_beside_bytes=GIB
)


def needs(least):
    """A program that completes with so much, and where it fails with less."""

    def limited(memory):
        if memory >= least:
            return row(memory)
        oom = {"step": 3, "line": "x.py:7", "size_bytes": MIB}
        return row(memory, ended="out of memory", ooms=[oom])

    return limited


class Verdicts(unittest.TestCase):
    def judge(self, allocated, reserved, least):
        free = row(allocated, reserved)
        return _answer.judge(10 * GIB, "default", CARD, free, needs(least))

    def test_what_is_held_without_a_limit_fits_and_leaves_the_rest(self):
        verdict = self.judge(GIB, 2 * GIB, GIB)
        self.assertEqual(verdict.what, _answer.FITS)
        # Of 10 GiB: the most beside it, and 2 GiB with the most that they were wrong by.
        self.assertEqual(verdict.left_bytes, 10 * GIB - GIB - int(2 * GIB * 1.008))

    def test_between_what_is_used_and_held_a_run_decides(self):
        sure, most = _answer.room_of(10 * GIB, "default", CARD)
        self.assertEqual((sure, most), (int(9 * GIB / 1.008), int(9.5 * GIB / 0.992)))
        self.assertEqual(self.judge(GIB, 20 * GIB, sure), _answer.Verdict(_answer.FITS, 0))
        self.assertEqual(self.judge(GIB, 20 * GIB, sure + 1), _answer.Verdict(_answer.UNSURE))
        self.assertEqual(self.judge(GIB, 20 * GIB, most).what, _answer.UNSURE)
        fails = _answer.Verdict(_answer.FAILS, None, 3, "x.py:7", MIB)
        self.assertEqual(self.judge(GIB, 20 * GIB, most + 1), fails)

    def test_unknown_workspaces_may_take_a_tenth_more(self):
        for held, left in ((2 * GIB, 9 * GIB - int(2.2 * GIB)), (int(8.5 * GIB), 0)):
            free = row(GIB, held, unknown=["cuDNN"])
            verdict = _answer.judge(10 * GIB, "default", CARD, free, needs(GIB))
            self.assertEqual(verdict, _answer.Verdict(_answer.FITS, left))
        need = _answer.need_of(GIB, "expandable", 0, 0, ["cuDNN"])
        self.assertEqual((need.least_bytes, need.most_bytes), (int(GIB * 0.999), int(GIB * 1.1)))

    def test_what_is_used_does_not_fit(self):
        self.assertEqual(self.judge(11 * GIB, 11 * GIB, 11 * GIB).what, _answer.FAILS)

    def test_a_card_smaller_than_its_context_holds_nothing(self):
        verdict = _answer.judge(GIB // 4, "default", CARD, row(MIB), needs(MIB))
        self.assertEqual(verdict, _answer.Verdict(_answer.FAILS))

    def test_of_several_times_the_worst_counts(self):
        fits, fails = _answer.Verdict(_answer.FITS, 5), _answer.Verdict(_answer.FAILS)
        less = _answer.Verdict(_answer.FITS, 2)
        self.assertEqual(_answer.worst([fits, less, fits]), less)
        self.assertEqual(_answer.worst([fits, fails]), _answer.Verdict(_answer.UNSURE))
        self.assertEqual(_answer.worst([fails, fails]), fails)

    def test_a_need_between_two_leaves_room_for_their_difference(self):
        fits, full = _answer.Verdict(_answer.FITS, 5), _answer.Verdict(_answer.FITS)
        unsure = _answer.Verdict(_answer.UNSURE)
        for found, size, said in (
            (fits, 0, fits),
            (full, 0, full),
            (fits, 4, _answer.Verdict(_answer.FITS, 1)),
            (fits, 5, unsure),
            (full, 1, unsure),
            (unsure, 1, unsure),
        ):
            self.assertEqual(_answer.with_room_for(size, found), said)

    def test_what_plans_by_free_memory_is_judged_on_the_card(self):
        """With the most that may lie beside it, then with the least."""
        failed = needs(GIB)(0)
        for sure, most, what in (
            (row(1), None, _answer.FITS),
            (failed, row(1), _answer.UNSURE),
            (failed, failed, _answer.FAILS),
        ):
            asked = []
            verdict = _answer.judge_on_card(CARD, sure, lambda beside: asked.append(beside) or most)
            self.assertEqual(verdict.what, what)
            self.assertEqual(asked, [] if most is None else [CARD.least_beside_bytes])
        self.assertEqual(verdict.line, "x.py:7")

    def test_a_need_is_from_and_to(self):
        need = _answer.need_of(GIB, "expandable", MIB, 2 * MIB)
        self.assertEqual(need.least_bytes, int(GIB * 0.999) + MIB)
        self.assertEqual(need.most_bytes, int(GIB * 1.001) + 2 * MIB)


class Largest(unittest.TestCase):
    def search(self, low, high, step, usable, need, held=1.0):
        """A program that uses need(size), and holds `held` times as much where it may."""
        self.asked = []

        def run(size):
            self.asked.append(size)
            return row(need(size), int(need(size) * held))

        return _answer.largest(low, high, step, usable, run, lambda size: need(size) <= usable)

    def test_every_end_of_the_span_and_all_between(self):
        for step in (1, 3, 8):
            for usable in range(0, 70):
                found = self.search(5, 61, step, usable, lambda size: size)
                fitting = [size for size in range(5, 62, step) if size <= usable]
                self.assertEqual(found, fitting[-1] if fitting else None, (step, usable))
                self.assertEqual(len(self.asked), len(set(self.asked)), "asked twice")

    def test_straight_needs_are_found_in_few_runs(self):
        found = self.search(1, 4096, 1, 24 * GIB, lambda size: 3 * GIB + size * 17 * MIB, 1.1)
        self.assertEqual(found, (21 * GIB) // (17 * MIB))
        self.assertLess(len(self.asked), 10)

    def test_needs_that_jump_are_found_too(self):
        found = self.search(1, 1000, 1, 700, lambda size: 2 ** size.bit_length())
        self.assertEqual(found, 511)
        self.assertEqual(self.search(1, 100, 1, 10, lambda size: 5), 100)


def answer(**more):
    column = {
        "allocated_bytes": 2 * GIB,
        "allocated_least_bytes": 2 * GIB,
        "reserved_bytes": 3 * GIB,
        "reserved_least_bytes": 3 * GIB,
        "lost_bytes": GIB,
        "retries": 0,
        "least_bytes": 2 * GIB,
        "need": {"least_bytes": 2 * GIB, "most_bytes": 3 * GIB},
        "smallest_card": "T4",
    }
    return {
        "program": "train.py",
        "torch": "2.8.0",
        "capability": [9, 0],
        "row": vars(row(2 * GIB, 3 * GIB, "peaks repeat", steps=8, grew_at_step=2)),
        "ways": [{}],
        "plans": False,
        "cold_bytes": None,
        "world_size": 0,
        "columns": {"default": column, "mend": dict(column, reserved_bytes=4 * GIB)},
        "failed": {},
        "turned": {},
        "values": {"reads": [], "depends": False, "is_known": True},
        "owners": [{"line": "train.py:3", "bytes": GIB}, {"line": "no stack", "bytes": GIB}],
        "peak_bytes": 2 * GIB,
        "targets": [],
        "runs": [{}] * 5,
        "seconds": 6.5,
        "fail_above_bytes": None,
        **more,
    }


def target(what, **more):
    verdict = vars(_answer.Verdict(what, **more))
    return {"label": "T4 (14.56 GiB)", "total_bytes": 14 * GIB, "verdicts": {"default": verdict}}


def status(**more):
    options = types.SimpleNamespace(allocator=["default"], fail_above=None)
    options.fail_above = more.get("fail_above_bytes")
    return fit.status_of(answer(**more), options)


DEPENDS = {
    "reads": [("train.py:9 route", 32)],
    "depends": True,
    "is_known": False,
    "verb": "uses",
    "with_zeros_bytes": GIB,
    "with_ones_bytes": 2 * GIB,
    "with_ones_ended": "end",
    "with_ones_line": None,
    "counts": [],
    "other_end": {"value": 1},
}


def given(address, size, time, stream=0):
    return (True, address, size, stream, time)


def taken(address, time):
    return (False, address, 0, 0, time)


class Orders(unittest.TestCase):
    """Three steps after a first one: each frees the memory of the one before."""

    events = [
        given(1, 100, 1), given(2, 5, 2), taken(2, 3), given(3, 7, 4),  # first: 1 stays, 3 is left
        given(2, 10, 11), taken(3, 12), taken(2, 13), given(4, 11, 14),
        given(2, 20, 21, 9), taken(2, 22), taken(4, 23), given(5, 21, 24),
        taken(5, 31), given(6, 30, 32), given(7, 31, 33), taken(6, 34),
    ]  # fmt: skip
    ends = [10, 20, 30, 40]

    def setUp(self):
        self.record = _orders.split(self.events, self.ends, 1)

    def rows(self, drawn):
        head, *lines = _orders.trace(self.record, drawn)
        self.assertEqual(head, "Thread,Time,Action,Pointer,Size,Stream")
        return [line.split(",")[2:] for line in lines]

    def test_the_recorded_order_is_the_recording(self):
        rows = self.rows([0, 1, 2])
        self.assertEqual([row[0] == "allocate" for row in rows], [one[0] for one in self.events])
        sizes = [int(row[2]) for row in rows if row[0] == "allocate"]
        self.assertEqual(sizes, [size for is_given, _, size, *_ in self.events if is_given])
        self.assertIn("0x9", [row[3] for row in rows])

    def test_any_order_takes_back_what_it_gave_and_keeps_what_stays(self):
        for seed in range(30):
            live = {}
            for action, name, size, _ in self.rows(_orders.order(self.record, seed)):
                if action == "allocate":
                    self.assertNotIn(name, live)
                    live[name] = int(size)
                else:
                    del live[name]
                self.assertLessEqual(sum(live.values()), 100 + 31 + 30 + 31)
            self.assertEqual(len(live), 2)  # what stays, and what the last step left
            self.assertIn(100, live.values())

    def test_orders_differ_and_the_largest_step_comes_twice(self):
        orders = [_orders.order(self.record, seed) for seed in range(_orders.ORDERS)]
        self.assertEqual(len({tuple(one) for one in orders}), _orders.ORDERS)
        for one in orders:
            self.assertEqual(len(one), _orders.STEPS + 2)
            self.assertIn((2, 2), list(zip(one, one[1:])))
        self.assertEqual(orders[0], _orders.order(self.record, 0))

    def test_steps_of_many_events_are_drawn_less_often(self):
        step = self.record.steps[0] * 1000
        for held, count in ((5, _orders.FEW_ORDERS), (6, _orders.ORDERS)):
            self.assertEqual(len(_orders.seeds(held, 10)), count)
        few = _orders.count_of_steps(_orders.Record([], [step] * 3))
        self.assertEqual(few, _orders.MOST_EVENTS // len(step))


class Words(unittest.TestCase):
    def test_the_answer_comes_first(self):
        lines = _text.write(answer()).splitlines()
        self.assertEqual(
            lines[0],
            "It needs 2.00 to 3.00 GiB of a GPU, with PyTorch's default; the smallest card of the"
            " list that is surely enough is T4 (14.56 GiB).",
        )
        said = "of 8 steps. An evaluation or a checkpoint after them may need more"
        self.assertIn(said, lines[1])
        self.assertIn("8 steps of the optimizer, peaks repeat since step 2.", lines[2])
        self.assertTrue(any(line.endswith("1.00 GiB  50%  train.py:3") for line in lines))
        self.assertIn("3.00 to 4.00 GiB", _text.write(answer()))
        few = [{"line": "train.py:3", "bytes": MIB}] + [{"line": "x.py:4", "bytes": MIB - 1}] * 2
        text = _text.write(answer(owners=few))
        self.assertIn(" 1 MiB   0%  train.py:3", text)
        self.assertIn(" 2 MiB   0%  others", text)
        text = _text.write(answer(elsewhere={"T4": "holds 9.00 GiB"}))
        self.assertIn("On a T4 the program holds 9.00 GiB.", text)
        self.assertEqual(lines[-1], "5 runs, 6.5 s.")

    def test_a_version_that_was_not_compared_says_so(self):
        said = "PyTorch 2.8 was compared with GPUs, yours was not"
        self.assertNotIn(said, _text.write(answer(torch="2.8.1+cu128")))
        for version in ("2.80.0", "2.15.0+cu132", "2.7.1"):
            self.assertIn(said, _text.write(answer(torch=version)))

    def test_where_it_fails(self):
        failing = target(_answer.FAILS, step=2, line="train.py:7", size_bytes=128 * MIB)
        columns = {"default": answer()["columns"]["default"]}
        lines = _text.write(answer(targets=[failing], columns=columns)).splitlines()
        self.assertEqual(lines[0], "T4 (14.56 GiB): does not fit, with PyTorch's default.")
        said = "  It fails in step 2 at train.py:7, which asks for 128 MiB."
        self.assertEqual(lines[1], said)

    def test_what_rests_on_values_says_so_first_and_shows_no_verdict(self):
        text = _text.write(answer(values=DEPENDS))
        self.assertTrue(text.startswith("NOT KNOWN: the memory depends on values"))
        self.assertIn("train.py:9 route (32x)", text)
        for words in ("smallest card", "It needs", "least that is enough", "context"):
            self.assertNotIn(words, text)
        for more, zeros, ones in (
            (MIB, "1,024.00 MiB", "1,025.00 MiB"),
            (512, "1,073,741,824 bytes", "1,073,742,336 bytes"),
        ):
            text = _text.write(answer(values=dict(DEPENDS, with_ones_bytes=GIB + more)))
            said = f"uses {zeros} where they are 0, and where they are 1 or spread evenly: {ones}."
            self.assertIn(said, text)
        failed = dict(DEPENDS, with_ones_bytes=None, with_ones_ended="failed: IndexError")
        self.assertIn("or spread evenly: it failed: IndexError", _text.write(answer(values=failed)))

    def test_what_lies_between_two_ends_says_so_first_and_is_judged(self):
        text = _text.write(answer(values=dict(DEPENDS, is_known=True)))
        self.assertTrue(text.startswith("ASSUMED: the memory depends on masks and choices, which"))
        self.assertIn("It uses 1.00 GiB where they are 0,", text)
        self.assertIn("least that is enough", text)

    def test_values_that_a_program_may_fail_by_are_told(self):
        failed = row(ended="failed: IndexError", whole_reads=[("train.py:9", 2)])
        self.assertIn("at train.py:9 (2x).\nGive one: --value", _text.wrong_values(failed))
        library = row(ended="failed: cuSOLVER error", whole_reads=[("train.py:9", 2)])
        whole = row(whole_reads=[("train.py:9", 2)])
        for other in (row(ended="failed: IndexError"), whole, library):
            self.assertEqual(_text.wrong_values(other), "")

    def test_values_without_effect_are_told_below(self):
        values = {"reads": [("train.py:9", 1)], "depends": False, "is_known": True}
        text = _text.write(answer(values=values))
        self.assertIn("It reads 1 value that only a GPU computes, at train.py:9 (1x)", text)

    def test_a_run_that_was_stopped_says_so_first(self):
        stopped = vars(row(GIB, GIB, "time", steps=3, seconds=60.0))
        text = _text.write(answer(row=stopped))
        self.assertTrue(text.startswith("NOT THE END: a run was stopped after 60 s"), text)
        self.assertNotIn("It needs", text)

    def test_a_program_that_asks_what_is_free_says_so_first(self):
        asks = dict(answer()["row"], asks_free="train.py:5")
        column = answer()["columns"]["default"]
        columns = {"default": {key: column[key] for key in column if key not in ("need", "least")}}
        text = _text.write(answer(row=asks, plans=True, columns=columns))
        self.assertTrue(text.startswith("It asks how much memory there is, at train.py:5,"), text)
        self.assertIn("With PyTorch's default the smallest card of the list", text)
        self.assertNotIn("It needs", text)
        self.assertEqual(status(row=asks, columns=columns), fit.GOOD)
        self.assertEqual(status(row=asks, columns=columns, fail_above_bytes=GIB), fit.NOT_KNOWN)
        fits = [target(_answer.FITS)]
        text = _text.write(answer(targets=fits, row=asks, plans=True, columns=columns))
        self.assertIn("(14.56 GiB): fits, with", text)
        text = _text.write(answer(row=asks))
        self.assertIn("train.py:5. It takes the same with less.", text)
        self.assertTrue(text.startswith("It needs"), text)

    def test_what_the_first_run_held_to_compile_is_said(self):
        held = answer()["row"]["reserved_bytes"]
        for cold, says in ((None, False), (held, False), (held + GIB, True)):
            text = _text.write(answer(cold_bytes=cold))
            self.assertEqual("first run measures kernels, and held 4.00 GiB." in text, says)

    def test_orders_that_run_out_are_said_first(self):
        differ = dict(answer()["row"], steps_differ=True)
        for out in (0, 3):
            ran_out = {"T4 (14.56 GiB)": {"default": [out, 20], "mend": [0, 20]}}
            orders = {"steps": 2002, "ran_out": ran_out}
            text = _text.write(answer(row=differ, orders=orders))
            self.assertIn(f"{out} of 20 with PyTorch's default, 0 of 20 with Mend.", text)
            self.assertEqual(text.startswith("NOT SURE IN ANY ORDER: "), out > 0, text)
            self.assertEqual(status(orders=orders), fit.NOT_KNOWN if out else fit.GOOD)

    def test_what_it_rests_on_is_said_first(self):
        given = dict(answer()["row"], given={"train.py:9": 0.25, "train.py:8": "balanced"})
        lines = _text.write(answer(row=given)).splitlines()
        self.assertEqual(lines[0], "ASSUMED: train.py:9 reads 0.25 (--value).")
        self.assertEqual(lines[1], "ASSUMED: train.py:8 reads balanced (--value).")
        reads = [("train.py:9", 700), ("train.py:4", 2)]
        values = {"reads": reads, "depends": False, "is_known": True}
        whole = dict(answer()["row"], whole_reads=[("train.py:4", 2)])
        [first, *_] = _text.write(answer(values=values, row=whole)).splitlines()
        self.assertTrue(first.startswith("ASSUMED: memory does not depend on whole numbers"), first)
        self.assertTrue(first.endswith(" spread values at train.py:4 (2x)."), first)

    def test_ranks_are_said_first_and_what_nccl_takes_is_not_known(self):
        text = _text.write(answer(world_size=8))
        self.assertTrue(text.startswith("NOT KNOWN: the memory of NCCL on each GPU."), text)
        self.assertIn("rank 0 of 8", text)
        self.assertIn("It needs 2.00 to 3.00 GiB of a GPU and the memory of NCCL, with", text)
        fits = target(_answer.FITS, left_bytes=GIB)
        columns = {"default": answer()["columns"]["default"]}
        text = _text.write(answer(world_size=8, targets=[fits], columns=columns))
        self.assertIn("T4 (14.56 GiB): fits if NCCL takes at most 1.00 GiB, with", text)
        self.assertRegex(text, r"T4 \(14.56 GiB\) +1.00 GiB for NCCL\n")

    def test_what_makes_it_less_sure_is_told(self):
        differ = dict(answer()["row"], steps_differ=True)
        self.assertIn("Steps differ in their requests", _text.write(answer(row=differ)))
        times = _text.write(answer(row=dict(answer()["row"], streams=2)))
        self.assertIn("2 streams have memory, so it depends on time", times)
        unknown = dict(answer()["row"], unknown=["cuDNN's convolutions", "cuDNN's attention"])
        said = "the workspaces of cuDNN's convolutions and of cuDNN's attention."
        self.assertIn(said, _text.write(answer(row=unknown)))
        failed = _text.write(answer(failed={"mend": "no compiler\nmore"}))
        self.assertIn("Mend: not known: no compiler\n", failed)

    def test_a_library_that_does_not_run_is_named(self):
        said = _text.failure("failed: RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR")
        self.assertIn("docs/fit.md#limits", said)
        self.assertEqual(_text.failure("exit 3"), "ended with status 3")

    def test_the_largest(self):
        found = {"label": "T4 (14.56 GiB)", "largest": {"default": 8, "mend": None}}
        text = _text.write(answer(knob="batch", span=[1, 64, 1], targets=[found]))
        self.assertTrue(text.startswith("The largest batch of 1 to 64 that fits:"))
        self.assertRegex(text, r"T4 \(14.56 GiB\) +8 +none\n")


class Status(unittest.TestCase):
    def test_each_answer_has_its_status(self):
        self.assertEqual(status(), fit.GOOD)
        self.assertEqual(status(targets=[target(_answer.FITS)]), fit.GOOD)
        self.assertEqual(status(targets=[target(_answer.FAILS)]), fit.DOES_NOT_FIT)
        self.assertEqual(status(targets=[target(_answer.UNSURE)]), fit.NOT_KNOWN)
        both = [target(_answer.UNSURE), target(_answer.FAILS), target(_answer.FITS)]
        self.assertEqual(status(targets=both), fit.DOES_NOT_FIT)
        self.assertEqual(status(values=DEPENDS), fit.NOT_KNOWN)
        self.assertEqual(status(row=vars(row(ended="time"))), fit.NOT_KNOWN)
        self.assertEqual(status(fail_above_bytes=3 * GIB), fit.GOOD)
        self.assertEqual(status(fail_above_bytes=3 * GIB - 1), fit.DOES_NOT_FIT)
        for size, expected in ((8, fit.GOOD), (None, fit.DOES_NOT_FIT)):
            found = {"label": "T4", "largest": {"default": size}}
            self.assertEqual(status(targets=[found]), expected)
