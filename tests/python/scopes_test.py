"""libmend.scope, libmend.scopes, libmend.regions and libmend.History over the simulated device."""

import re
import tempfile
import threading
import unittest
import unittest.mock
from pathlib import Path

import libmend
from libmend import _devices, _prometheus, _stacks, _views
from support import MIB, SimulatedTest


class Hooked:
    """The parts of PyTorch's modules and optimizers for module_scopes. Calls `work` and its
    parts."""

    def __init__(self, work, **parts):
        self.work, self.parts, self.before, self.behind = work, parts, [], []

    def hook(self, hooks, hook):
        hooks.append(hook)
        removal = unittest.mock.Mock()
        removal.remove = lambda: hooks.remove(hook)
        return removal

    def register_forward_pre_hook(self, hook):
        return self.hook(self.before, hook)

    def register_forward_hook(self, hook, always_call):
        assert always_call
        return self.hook(self.behind, hook)

    register_step_pre_hook = register_forward_pre_hook

    def register_step_post_hook(self, hook):
        return self.hook(self.behind, hook)

    def named_modules(self, path=""):
        yield path, self
        for name, part in self.parts.items():
            yield from part.named_modules(f"{path}.{name}".strip("."))

    def __call__(self, *, is_step=False):
        results = [hook(self, ()) for hook in self.before]
        raised = True
        try:
            self.work()
            for part in self.parts.values():
                part()
            raised = False
        finally:
            if not (raised and is_step):
                results += [hook(self, (), None) for hook in self.behind]
        assert results == [None] * len(results)


class Scopes(SimulatedTest):
    def block(self):
        return _devices.alloc(0, MIB)

    def of(self, path):
        return next(scope for scope in libmend.scopes() if scope.path == path)

    def test_modules_and_steps_have_scopes_while_it_lasts(self):
        layers = Hooked(lambda: None, **{"0": Hooked(self.block), "1": Hooked(self.block)})
        model, optimizer = Hooked(self.block, layers=layers), Hooked(self.block)
        with libmend.module_scopes(model, optimizer):
            model()
            optimizer(is_step=True)
            with self.assertRaises(ZeroDivisionError):  # a step that fails does not stay open
                optimizer.work = lambda: 1 // 0
                optimizer(is_step=True)
            model()
        self.block()
        self.assertEqual(self.of("Hooked").live_bytes, 6 * MIB)
        self.assertEqual(self.of("Hooked/layers/layers.1").own_live_bytes, 2 * MIB)
        self.assertEqual(self.of("optimizer").live_bytes, MIB)
        self.assertEqual([model.before, model.behind, optimizer.before], [[], [], []])
        self.assertEqual(libmend.stats()["live_bytes"], 8 * MIB)

    def test_a_scope_has_what_was_allocated_in_it_and_inside_it(self):
        with libmend.scope("step"):
            self.block()
            with libmend.scope("forward"):
                self.block()
        self.block()
        self.assertEqual(self.of("step").live_bytes, 2 * MIB)
        self.assertEqual(self.of("step").own_live_bytes, MIB)
        self.assertEqual(self.of("step/forward").own_live_blocks, 1)
        self.assertEqual(self.of("step/forward").pool_peak_bytes, 2 * MIB)

    def test_other_threads_are_in_it_if_it_says_so(self):
        for all_threads in (False, True):
            with libmend.scope(f"all {all_threads}", all_threads=all_threads):
                self.block()
                thread = threading.Thread(target=self.block)
                thread.start()
                thread.join()
        self.assertEqual(self.of("all False").allocations, 1)
        self.assertEqual(self.of("all True").allocations, 2)

    def test_a_function_can_be_decorated_and_an_exception_ends_a_scope(self):
        @libmend.scope("decorated")
        def fails():
            self.block()
            raise KeyError

        with self.assertRaises(KeyError):
            fails()
        self.block()
        self.assertEqual(self.of("decorated").live_bytes, MIB)

    def test_regions_and_events_say_what_the_structures_of_c_say(self):
        with libmend.scope("seen"), libmend.History(1000) as events:
            address = self.block()
            made = [event for event in events.read() if event.kind == "alloc"]
            self.assertEqual([(one.address, one.size_bytes) for one in made], [(address, MIB)])
            self.assertEqual(made[0].cause, "created")
            self.assertEqual(events.read(), [])
            live = [region for region in libmend.regions() if region.kind == "live"]
            self.assertEqual([region.address for region in live], [address])
            self.assertEqual(live[0].requested_bytes, MIB)
            self.assertEqual([live[0].scope, made[0].scope], ["seen", "seen"])
            self.assertIs(live[0].is_small, True)
        with self.assertRaisesRegex(ValueError, "capacity_events is -1"):
            libmend.History(-1)

    def test_streams_and_tags_are_told_by_their_names(self):
        self.block()
        _devices.alloc(0, MIB, 0)
        libmend.name_stream(0, "training")
        libmend.name_tag(3, "weights")
        try:
            names = [owner.name for owner in libmend.owners(by="stream")]
            self.assertEqual(sorted(names), ["no stream", "training"])
            self.assertIn('name="training"', libmend.prometheus())
            self.assertEqual(
                [owner.name for owner in libmend.owners(by=["tag", "stream"])], names
            )
            self.assertEqual([h.name for h in libmend.owners()], ["blocks of 1.00 MiB"])
        finally:
            libmend.name_stream(0, "")
            libmend.name_tag(3, "")
        with self.assertRaisesRegex(ValueError, "by is any of scope, tag, stream, stack"):
            libmend.owners(by="size")
        with self.assertRaisesRegex(ValueError, "NUL byte"):
            libmend.name_tag(3, "a\0b")

    def test_large_blocks_have_the_line_that_allocates_them(self):
        def step(bytes_each):
            _devices.alloc(0, bytes_each)

        line = step.__code__.co_firstlineno + 1
        libmend.record_stacks(MIB)
        try:
            step(MIB)
            for _ in range(4):
                step(MIB // 4)
            thread = threading.Thread(target=lambda: step(MIB))
            thread.start()
            thread.join()
        finally:
            libmend.record_stacks(0)
        step(MIB)
        found = {owner.name: owner.live_bytes for owner in libmend.owners(by="stack")}
        sizes = {}  # by who calls it: this function at two lines, and the thread's
        for name, size in found.items():
            at = re.fullmatch(rf"scopes_test.py:{line} step from line (\d+)", name)
            sizes[int(at[1]) - line if at else 0] = size
        self.assertEqual(sizes, {5: MIB, 7: MIB // 4, 8: MIB, 0: sizes[0]})
        with self.assertRaisesRegex(ValueError, "every_bytes is -1"):
            libmend.record_stacks(-1)

    def test_modules_between_a_line_and_its_caller_are_passed(self):
        """Allocations of a model's line tell training from validation, with anything between."""
        made = {}
        call = "/x/site-packages/torch/nn/modules/module.py"
        inductor = "/c/wp/cwpfvu5z2anylosnkpfwm2x25bim3lwox7luzhwpr7s24tns3kov.py"

        def define(file, name, text):
            exec(compile(f"def {name}(go):\n {text}", file, "exec"), made)
            return made[name]

        made["alloc"] = lambda _: _devices.alloc(0, MIB)
        define(inductor, "generated", "alloc(go)")
        define("/a/model.py", "inner", "generated(go)")
        define(call, "call_inner", "inner(go)")
        define("/a/model.py", "outer", "call_inner(go)")
        define(call, "call_outer", "outer(go)")
        define("/a/train.py", "train", "\n call_outer(go)")
        define("/a/train.py", "validate", "\n\n call_outer(go)")
        libmend.record_stacks(MIB)
        try:
            with unittest.mock.patch.dict(_stacks._users, {__file__: None}):
                made["train"](None)
                made["validate"](None)
        finally:
            libmend.record_stacks(0)
        names = {owner.name for owner in libmend.owners(by="stack")}
        lines = [f"model.py:2 inner from train.py:{line}" for line in (3, 4)]
        self.assertEqual(names, set(lines))

    def test_the_report_has_the_sum_of_a_scope_and_those_inside(self):
        with libmend.scope("validation"):
            for part in ("first", "second"):
                with libmend.scope(part):
                    _devices.alloc(0, 3 * MIB)
        (line,) = [line for line in libmend.report().splitlines() if "inside it" in line]
        self.assertRegex(line, r"^  validation +6\.00 MiB with the scopes inside it$")

    def test_requests_of_one_line_are_of_one_stack(self):
        """Before Python 3.12 a comprehension has code of its own. Its callers are those of the
        function around it."""

        def step():
            return [_devices.alloc(0, MIB), *[_devices.alloc(0, MIB) for _ in range(2)]]

        line = step.__code__.co_firstlineno + 1
        libmend.record_stacks(MIB)
        try:
            step()
            step()
        finally:
            libmend.record_stacks(0)
        found = {owner.name: owner.live_blocks for owner in libmend.owners(by="stack")}
        names = [f"scopes_test.py:{line} step from line {line + at}" for at in (5, 6)]
        self.assertEqual(found, dict.fromkeys(names, 3))

    def test_packages_in_any_folder_are_no_lines_of_the_program(self):
        """An installer has listed them, as that of `pip install --target` does. Beside them may be
        the program's own."""
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder) / "heavy-1.0.dist-info" / "RECORD"
            record.parent.mkdir()
            record.write_text("heavy/__init__.py,sha256=a,0\nsingle.py,,\n")
            for name, is_library in (
                ("heavy/deep/part.py", True),
                ("single.py", True),
                ("train.py", False),
                ("own/heavy/part.py", False),
            ):
                self.assertIs(_stacks.is_library(f"{folder}/{name}"), is_library, name)

    def test_blocks_that_are_replaced_by_larger_ones_grow(self):
        kept = []

        def grow(number):
            kept.append(_devices.alloc(0, number * MIB))
            for _ in kept[1:]:
                _devices.free(0, kept.pop(0), MIB)

        def work():
            _devices.free(0, _devices.alloc(0, 4 * MIB), 4 * MIB)

        libmend.record_stacks(MIB)
        try:
            for number in range(1, 65):
                grow(number)
                work()
        finally:
            libmend.record_stacks(0)
        lines = [line for line in libmend.report().splitlines() if "scopes_test.py" in line]
        self.assertRegex(lines[0], r"grow .*\+32\.0 MiB grows$")
        self.assertEqual(len(lines), 1)

    def test_a_compaction_gains_what_lies_beside_live_blocks(self):
        blocks = [_devices.alloc(0, MIB // 2) for _ in range(128)]
        for block in blocks[1:]:
            _devices.free(0, block, MIB // 2)
        _devices.alloc(0, MIB // 2)
        self.assertGreaterEqual(libmend.compact(), 0)
        self.assertEqual(libmend.compact(), 0)

    def test_a_name_is_text_that_c_can_have(self):
        for name, why in (("", "is empty"), ("a\0b", "has a NUL byte"), ("a\udcff", "no UTF-8")):
            with self.assertRaisesRegex(ValueError, why), libmend.scope(name):
                pass


class Views(SimulatedTest):
    """libmend.owners, leaks and report: a program that keeps a block a step."""

    def setUp(self):
        super().setUp()
        self.kept = []
        for _ in range(100):
            with libmend.scope("step"):
                temporary = [_devices.alloc(0, MIB) for _ in range(3)]
                with libmend.scope("cache"):
                    self.kept.append(_devices.alloc(0, MIB))
            for address in temporary:
                _devices.free(0, address, MIB)

    def test_owners_are_summed_and_leaks_are_what_grew(self):
        (owner,) = libmend.owners()
        self.assertEqual((owner.name, owner.live_bytes), ("step/cache", 100 * MIB))
        self.assertEqual((owner.live_blocks, owner.oldest), (100, 396))
        self.assertEqual(libmend.leaks(), [owner])
        self.assertGreater(owner.growth_bytes, 60 * MIB)
        for address in self.kept[:90]:
            _devices.free(0, address, MIB)
        self.assertEqual(libmend.leaks(), [])

    def test_a_report_says_it_in_words(self):
        text = libmend.report()
        self.assertIn("live  100 MiB in 100 blocks, peak 103 MiB", text)
        self.assertRegex(text, r"step/cache +100 MiB  100 % +100 +396  \+\d+\.?\d* MiB LEAK\?")
        self.assertLess(max(map(len, text.splitlines())), 111)

    def test_a_report_counts_small_blocks_and_prints_no_control_character(self):
        with libmend.scope("a\033[2J\n\x9bname"):
            small = [_devices.alloc(0, 20 << 10) for _ in range(64)]
        for address in small[1:]:
            _devices.free(0, address, 20 << 10)
        text, free = libmend.report(), libmend.stats()
        self.assertRegex(text, r"  a\?\[2J\?\?name +20\.0 KiB    0 % +1 ")
        self.assertGreaterEqual(free["free_small_bytes"], 63 * (20 << 10))
        self.assertEqual(free["free_bytes"], sum(
            free[f"free_{part}_bytes"] for part in ("empty", "partial", "small")))
        beside = re.search(r"free of it (.+) in whole chunks, (.+) beside live blocks", text)
        self.assertEqual(beside.groups(), tuple(map(_views._size, (
            free["free_empty_bytes"], free["free_partial_bytes"] + free["free_small_bytes"]))))

    def test_prometheus_has_each_statistic_once_and_escapes_names(self):
        with libmend.scope('a "quoted"\nname/with \\'):
            _devices.alloc(0, MIB)
        for _ in range(9):
            scope = libmend.scope("deep")
            scope.__enter__()
            self.addCleanup(scope.__exit__, None, None, None)
        _devices.alloc(0, MIB)
        lines = libmend.prometheus().splitlines()
        metrics = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
        self.assertEqual(len(metrics), len(set(metrics)))
        figures = libmend.stats()
        self.assertLessEqual(_prometheus.COUNTERS, figures.keys())
        for name in figures:
            kind = "counter" if name in _prometheus.COUNTERS else "gauge"
            total = "_total" if kind == "counter" else ""
            at = lines.index(f"# TYPE mend_{name}{total} {kind}")
            self.assertRegex(lines[at - 1], f"^# HELP mend_{name}{total} .+")
            self.assertRegex(lines[at + 1], f'^mend_{name}{total}{{device="0"}} [0-9]+$')
        series = [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("#")]
        self.assertEqual(len(series), len(set(series)))
        for line in series:
            self.assertRegex(line, r'^mend_\w+{(\w+="([^"\\\n]|\\[\\"n])*",?)+}$')
        scope = r'a \"quoted\"\nname\\/with \\\\'
        self.assertIn(f'mend_scope_live_bytes{{device="0",scope="{scope}"}} {MIB}', lines)
        deep = "/".join(["deep"] * 8)
        self.assertIn(f'mend_scope_live_bytes{{device="0",scope="{deep}"}} {MIB}', lines)
        self.assertNotIn(f'scope="{deep}/deep"', "".join(lines))
