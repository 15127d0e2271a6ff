"""libmend.sleep, libmend.wake and libmend.sleep_tag over the simulated device: sleeping memory, its
contents, the reports, and errors by name."""

import ctypes
import os
import tempfile
import warnings

import libmend
from libmend import _devices, _library, _sleep, _structures
from support import MIB, SimulatedTest, at_once

# The size of chunks in this pool. A block of this size has its chunks for itself.
BLOCK = 32 * MIB


def memory(address, size=BLOCK):
    """The bytes of a block: the simulated device has them at its addresses."""
    return (ctypes.c_ubyte * size).from_address(address)


class Sleep(SimulatedTest):
    has_bytes = True

    def block(self, tag=None, value=0):
        with libmend.sleep_tag(tag):
            address = _devices.alloc(0, BLOCK)
        ctypes.memset(address, value, BLOCK)
        return address

    def held(self):
        return self.device.ledger()["chunk_bytes"]

    def error_of(self, call, name):
        with self.assertRaises(libmend.Error) as caught:
            call()
        self.assertEqual(caught.exception.name, name)
        return str(caught.exception)

    # ---- tags ------------------------------------------------------------------------------------

    def test_names_and_numbers_never_meet(self):
        self.assertEqual(libmend.tag_number(7), 7)
        # Of every process and version: programs in C may write it down.
        self.assertEqual(libmend.tag_number("weights"), 0xED0AA0D93890129A)
        cache = libmend.tag_number("cache")
        self.assertEqual(libmend.tag_number(cache), cache)
        for wrong in (0, -1, 1 << 62, 1 << 64):
            self.assertRaises(ValueError, libmend.tag_number, wrong)
        for wrong in (1.5, None, b"weights"):
            self.assertRaises(TypeError, libmend.tag_number, wrong)

    def test_tags_nest_and_end_with_an_exception(self):
        def tag():
            before = _sleep.set_tag(0)
            _sleep.set_tag(before)
            return before

        with libmend.sleep_tag("a") as a:
            self.assertEqual(tag(), a)
            with self.assertRaises(KeyError), libmend.sleep_tag(5):
                self.assertEqual(tag(), 5)
                raise KeyError
            self.assertEqual(tag(), a)
            with libmend.sleep_tag(None):
                self.assertEqual(tag(), 0)
            self.assertEqual(tag(), a)
            others = []
            at_once(lambda: others.append(tag()), 1)
            self.assertEqual(others, [0])
        self.assertEqual(tag(), 0)

    def test_memory_is_told_by_the_name_of_its_sleep_tag(self):
        with libmend.History(1000) as events:
            self.block("weights")
            self.block(7)
            made = [event.tag for event in events.read() if event.kind == "alloc"]
        self.assertEqual(made, [libmend.tag_number("weights"), 7])
        names = [owner.name for owner in libmend.owners(by="tag")]
        self.assertEqual(sorted(names), ["tag 7", "weights"])
        self.assertIn('name="weights"', libmend.prometheus())
        with self.assertRaisesRegex(libmend.OutOfMemoryError, r"\bweights \(32\.00 MiB in 1 block"):
            _devices.alloc(0, 1 << 40)
        libmend.name_tag(libmend.tag_number("ours"), "our words")  # which stay
        self.block("ours")
        self.assertIn("our words", [owner.name for owner in libmend.owners(by="tag")])

    # ---- sleep -----------------------------------------------------------------------------------

    def test_all_sleep_and_wake_with_their_bytes(self):
        tagged, untagged = self.block("weights", 3), self.block(value=4)
        held = self.held()
        report = libmend.sleep()
        self.assertEqual(report.host_bytes, 2 * BLOCK)
        self.assertEqual(report.released_bytes, held)
        self.assertEqual(self.held(), 0)
        self.assertTrue(_sleep.is_asleep(tagged))
        report = libmend.wake()
        self.assertEqual((report.host_bytes, report.woken_bytes), (2 * BLOCK, self.held()))
        self.assertFalse(_sleep.is_asleep(tagged))
        self.assertEqual((memory(tagged)[BLOCK - 1], memory(untagged)[0]), (3, 4))

    def test_what_is_kept_is_said_for_each_tag(self):
        values = {"a": 1, "b": 2, "c": 3, "d": 4, None: 5}
        blocks = {tag: self.block(tag, value) for tag, value in values.items()}
        with tempfile.TemporaryDirectory() as folder:
            report = libmend.sleep(
                {"a": "host", "b": "file", "c": "discard", "d": "resident"}, directory=folder
            )
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual((report.host_bytes, report.file_bytes), (BLOCK, BLOCK))
        self.assertEqual((report.dropped_bytes, report.stayed_bytes), (BLOCK, 0))
        asleep = [tag for tag, block in blocks.items() if _sleep.is_asleep(block)]
        self.assertEqual(asleep, ["a", "b", "c"])
        self.assertEqual((memory(blocks["d"])[7], memory(blocks[None])[7]), (4, 5))
        self.assertEqual(libmend.wake(["b", "d"]).file_bytes, BLOCK)
        self.assertEqual(memory(blocks["b"])[BLOCK - 1], 2)
        self.assertTrue(_sleep.is_asleep(blocks["a"]))
        self.assertEqual(libmend.wake([]).woken_bytes, 0)
        libmend.wake("a")
        self.assertEqual(memory(blocks["a"])[9], 1)
        self.assertTrue(_sleep.is_asleep(blocks["c"]))

    def test_tags_alone_are_kept_on_the_host(self):
        first, second, third = self.block("a", 1), self.block(2, 2), self.block("c", 3)
        self.assertEqual(libmend.sleep("a").host_bytes, BLOCK)
        with self.assertWarns(RuntimeWarning):
            self.assertEqual(libmend.sleep([2, "nobody's"]).host_bytes, BLOCK)
        self.assertEqual([_sleep.is_asleep(b) for b in (first, second, third)], [True, True, False])

    def test_others(self):
        first, second = self.block("a", 1), self.block("b", 2)
        report = libmend.sleep({"a": "resident"}, others="discard")
        self.assertEqual(report.dropped_bytes, BLOCK)
        self.assertEqual([_sleep.is_asleep(b) for b in (first, second)], [False, True])
        self.assertEqual(libmend.sleep({}).asleep_bytes, 0)
        self.assertFalse(_sleep.is_asleep(first))

    def test_free_memory_goes_back_unless_it_is_to_stay(self):
        address = _devices.alloc(0, BLOCK)
        _devices.free(0, address, BLOCK)
        held = self.held()
        libmend.sleep(keep_free=True)
        self.assertEqual(self.held(), held)
        block = self.block("a", 1)
        held = self.held()
        libmend.sleep(keep_free="all")
        self.assertEqual(self.held(), held)
        self.assertTrue(_sleep.is_asleep(block))
        self.assertEqual(libmend.wake().reused_bytes, held)
        self.assertEqual(libmend.sleep().released_bytes, held)
        self.assertEqual(self.held(), 0)

    def test_what_was_dropped_says_so(self):
        kept, dropped = self.block("a", 1), self.block("b", 2)
        libmend.sleep({"a": "host", "b": "discard"})
        libmend.wake()
        self.assertEqual([_sleep.contents_dropped(b) for b in (kept, dropped)], [False, True])
        libmend.sleep()
        self.assertFalse(_sleep.contents_dropped(dropped))

    def test_tags_that_nothing_has_are_named(self):
        self.block("weights", 1)
        with self.assertWarnsRegex(RuntimeWarning, "nothing has the sleep tag 'wieghts'; is it"):
            report = libmend.sleep({"wieghts": "host", "weights": "host"})
        self.assertEqual((report.matched_bytes, report.unmatched_tags), (BLOCK, 1))
        self.assertEqual(report.unmatched_tag, libmend.tag_number("wieghts"))
        with self.assertWarnsRegex(RuntimeWarning, "the sleep tag 7, nor 1 more of its tags") as it:
            report = libmend.wake([7, "x"])
        self.assertEqual(it.filename, __file__)
        self.assertEqual((report.matched_bytes, report.unmatched_tags), (0, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(libmend.wake("weights").matched_bytes, BLOCK)
            self.assertEqual(libmend.sleep("weights").matched_bytes, BLOCK)
            libmend.wake()
            # As for a level of libmend.torch.sleep.
            libmend.sleep(["weights", "x"], _needs_all=False)
        with self.assertWarnsRegex(RuntimeWarning, "nothing has the sleep tag 'x'"):
            libmend.sleep("x", _needs_all=False)

    def test_reports_have_the_figures_of_the_library(self):
        for kind, name in (
            (libmend.SleepReport, "mend_sleep_report"),
            (libmend.WakeReport, "mend_wake_report"),
        ):
            figures = _structures.figures_of(_structures.made(name))
            self.assertEqual(kind._fields, tuple(figures))

    # ---- errors ----------------------------------------------------------------------------------

    def test_errors_have_a_name_and_change_nothing(self):
        address = self.block("a", 9)
        text = self.error_of(lambda: libmend.sleep({"a": "file"}), "MEND_ERROR_INVALID_ARGUMENT")
        self.assertIn("directory", text)
        self.assertFalse(_sleep.is_asleep(address))
        libmend.sleep()
        text = self.error_of(libmend.sleep, "MEND_ERROR_ASLEEP")
        self.assertIn("are asleep", text)
        libmend.wake()
        self.assertEqual(memory(address)[0], 9)
        for wrong in ("HOST", "default", 1, None):
            self.assertRaises(ValueError, libmend.sleep, {"a": wrong})
        self.error_of(lambda: _sleep.is_asleep(1 << 40), "MEND_ERROR_FOREIGN_POINTER")

    def test_pinned_memory_stays_or_is_an_error(self):
        address = self.block("a", 1)
        pin, unpin = (getattr(_library.load("mend"), name) for name in ("mend_pin", "mend_unpin"))
        pin.argtypes = unpin.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]
        self.assertEqual(pin(_devices.pool(0), address, BLOCK), 0)
        self.error_of(libmend.sleep, "MEND_ERROR_PINNED")
        self.assertGreaterEqual(libmend.sleep(skip_pinned=True).pinned_bytes, BLOCK)
        self.assertFalse(_sleep.is_asleep(address))
        self.assertEqual(unpin(_devices.pool(0), address, BLOCK), 0)

    def test_no_room_to_wake_changes_nothing(self):
        blocks = [self.block("a", 1) for _ in range(20)]
        libmend.sleep("a")
        other = [self.block() for _ in range(16)]
        with self.assertRaises(libmend.OutOfMemoryError) as caught:
            libmend.wake()
        self.assertIn("everything sleeps as before", str(caught.exception))
        self.assertTrue(all(_sleep.is_asleep(block) for block in blocks))
        for block in other:
            _devices.free(0, block, BLOCK)
        self.device.fail("context_record", count=9, status=801)  # not supported: the host waits
        self.device.fail("context_synchronize", count=9)
        self.error_of(libmend.wake, "MEND_ERROR_DRIVER")
        self.assertTrue(all(_sleep.is_asleep(block) for block in blocks))
        self.device.clear_faults()
        libmend.wake()
        self.assertEqual({memory(block)[BLOCK - 1] for block in blocks}, {1})
