"""The package itself: figures, errors, the simulated device, and the headers' texts of them."""

import ctypes
import json
import re
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import libmend
from libmend import _devices, _errors, _library
from support import GIB, MIB, SOURCE, ProgramTest, SimulatedTest, finished


class Configured(ProgramTest):
    prelude = "import libmend\n"

    def test_options_are_set_before_the_first_pool(self):
        self.succeeds(
            """
            import os
            libmend.configure(limit="64MiB", idle_ms=1, observe=None)
            libmend.configure(allow_stream_waits=False, soft_limit=0)
            said = os.environ["MEND_CONF"].partition("idle_ms")
            assert said[0] == "strategy:2,limit:64MiB,", said
            assert said[2] == ":1,allow_stream_waits:off,soft_limit:0", said
            device = libmend.simulate(1 << 30)
            assert not libmend._devices.has_pool(0)
            assert libmend.stats()["limit_bytes"] == 64 << 20
            assert libmend._devices.has_pool(0)
            error = error_of(libmend.configure, limit="1GiB")
            assert isinstance(error, libmend.Error) and "a pool exists already" in str(error), error
            """,
            MEND_CONF="observe:guard,/tmp/a:b,strategy:2",
        )

    def test_a_wrong_option_is_told_with_the_first_pool(self):
        self.succeeds(
            """
            libmend.configure(limt="64MiB")
            device = libmend.simulate(1 << 30)
            error = error_of(libmend.stats)
            assert isinstance(error, libmend.Error) and 'no key "limt"' in str(error), error
            """
        )

    def test_what_a_module_holds_to_the_end_leaks(self):
        """Python frees it, and the list that holds it, after the program's own work."""
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/run.mend"
            self.succeeds(
                """
                class Block:
                    def __init__(self):
                        self.at = libmend._devices.alloc(0, 1 << 20)
                    def __del__(self, free=libmend._devices.free):
                        free(0, self.at, 1 << 20)
                device = libmend.simulate(1 << 30)
                kept = []
                for _ in range(500):
                    kept.append(Block())
                    Block()
                """,
                MEND_CONF=f"record:{file}",
            )
            command = [_library.PACKAGE / "bin" / "libmend", "report", "--json", file]
            report = json.loads(finished(command).stdout)
        self.assertEqual(report["live_bytes"], 501 * MIB)  # at the peak
        self.assertEqual([one["trend"] for one in report["owners"]], ["leaks"])

    def test_hooks_are_imported_when_they_are_named(self):
        self.succeeds(
            """
            import sys
            assert "libmend.rmm" not in sys.modules and "libmend.torch" not in sys.modules
            for name in libmend._LATER:
                assert getattr(libmend, name) is sys.modules["libmend." + name]
            assert callable(libmend.torch.enable) and not hasattr(libmend, "jax")
            """
        )


class Core(SimulatedTest):
    def test_memory_comes_and_goes(self):
        self.assertEqual(_devices.alloc(0, 0, 0), 0)  # no block
        self.assertEqual(libmend.stats()["live_blocks"], 0)
        address = _devices.alloc(0, 1000, 0)
        self.assertEqual(libmend.stats()["live_bytes"], 1024)
        self.assertEqual(libmend.stats()["requested_bytes"], 1000)
        _devices.free(0, address, 1000, 0)
        self.assertEqual(libmend.stats()["live_blocks"], 0)
        self.assertEqual(libmend.stats()["allocated_bytes"], 1024)

    def test_out_of_memory_carries_the_report(self):
        with self.assertRaises(libmend.OutOfMemoryError) as caught:
            _devices.alloc(0, 2 * GIB, 0)
        self.assertIsInstance(caught.exception, MemoryError)
        self.assertEqual(caught.exception.name, "MEND_ERROR_OUT_OF_MEMORY")
        self.assertIn("2.00 GiB requested", str(caught.exception))

    def test_another_error_is_no_lack_of_memory(self):
        with self.assertRaises(libmend.Error) as caught:
            _devices.free(0, 4096, 512, 0)
        self.assertNotIsInstance(caught.exception, MemoryError)
        self.assertEqual(caught.exception.name, "MEND_ERROR_FOREIGN_POINTER")

    def test_a_driver_call_that_failed_is_named(self):
        self.device.fail("create", count=100, status=999)
        with self.assertRaises(libmend.Error) as caught:
            _devices.alloc(0, MIB, 0)
        self.assertEqual(caught.exception.driver_status, 999)
        self.assertEqual(caught.exception.driver_call, "cuMemCreate")
        self.assertIn("cuMemCreate", str(caught.exception))
        self.assertIn("CUDA_ERROR_UNKNOWN", str(caught.exception))
        self.device.clear_faults()
        _devices.free(0, _devices.alloc(0, MIB, 0), MIB, 0)

    def test_limits_peaks_and_trim(self):
        _devices.free(0, _devices.alloc(0, 100 * MIB, 0), 100 * MIB, 0)
        self.assertGreaterEqual(libmend.stats()["peak_live_bytes"], 100 * MIB)
        libmend.reset_peak_stats()
        self.assertEqual(libmend.stats()["peak_live_bytes"], 0)
        self.assertGreaterEqual(libmend.trim(), 100 * MIB)
        self.assertEqual(libmend.stats()["reserved_bytes"], 0)
        self.assertGreaterEqual(libmend.stats()["created_bytes"], 100 * MIB)
        libmend.set_limit("10MiB")
        with self.assertRaises(libmend.OutOfMemoryError):
            _devices.alloc(0, 11 * MIB, 0)

    def test_blocks_lie_in_one_allocation_while_a_thread_asks_for_it(self):
        with libmend.alloc_options(in_one_chunk=True, alignment=1 << 20):
            address = _devices.alloc(0, 300 * MIB, 0)
            with libmend.alloc_options(in_one_chunk=False):
                self.assertEqual(_devices.set_option("in_one_chunk", 0), -1)
                _devices.alloc(0, 1000, 0)
            self.assertEqual(libmend.stats()["pinned_bytes"], 300 * MIB)
            aligned = _devices.alloc(0, 1000, 0)
        _devices.alloc(0, 1000, 0)
        self.assertEqual((address % MIB, aligned % MIB), (0, 0))
        pinned = libmend.stats()["pinned_bytes"]
        self.assertGreater(pinned, 300 * MIB)
        _devices.alloc(0, 64 * MIB, 0)
        self.assertEqual(libmend.stats()["pinned_bytes"], pinned)
        for alignment in (3, -1, 1 << 41):
            with self.assertRaises(ValueError), libmend.alloc_options(alignment=alignment):
                pass

    def test_room_is_what_can_be_had(self):
        _devices.alloc(0, 100 * MIB, 0)
        room = libmend.available()
        self.assertEqual(room["graph_pool_bytes"], 0)
        self.assertEqual(room["device_free_bytes"], GIB - libmend.stats()["reserved_bytes"])
        with self.assertRaises(libmend.OutOfMemoryError):
            _devices.alloc(0, room["now_bytes"] + 512, 0)
        _devices.alloc(0, room["now_bytes"], 0)

    def test_a_trim_may_wait_for_work(self):
        stream, address = self.device.stream(), _devices.alloc(0, 3 * MIB, 0)
        self.device.launch(stream, address, 3 * MIB, finish_ns=1000)
        _devices.free(0, address, 3 * MIB, stream)
        self.assertEqual(libmend.trim(), 0)
        self.assertGreaterEqual(libmend.trim(wait=True), 3 * MIB)
        self.assertEqual(libmend.stats()["reserved_bytes"], 0)

    def test_what_was_created_is_reserved_or_released(self):
        for size in (3 * MIB, 90 * MIB, 700 * MIB, 5):
            _devices.free(0, _devices.alloc(0, size, 0), size, 0)
            libmend.trim(keep_bytes=size // 2)
        ledger, stats = self.device.ledger(), libmend.stats()
        self.assertEqual(ledger["chunk_bytes"], stats["reserved_bytes"])

    def test_a_stream_that_was_declared_is_waited_for(self):
        stream, address = self.device.stream(), _devices.alloc(0, MIB, 0)
        self.device.launch(stream, address, MIB, finish_ns=1000)
        _devices.record_stream(0, address, stream)
        _devices.free(0, address, MIB, 0)
        libmend.trim()
        self.device.synchronize(stream)  # judged now: the range must still be mapped
        self.assertEqual(self.device.violations, 0)

    def test_a_second_device_under_the_same_pools_is_refused(self):
        _devices.alloc(0, MIB, 0)
        with self.assertRaises(libmend.Error):
            libmend.simulate(GIB)

    def test_calls_let_go_of_the_interpreter(self):
        """While one thread is in a call of Mend, others run. A call under the lock would stop this
        test for ever: in C it waits for another thread, which nothing else lets run."""
        c, semaphore = ctypes.CDLL(None), ctypes.create_string_buffer(64)
        c.sem_init(semaphore, 0, 0)
        thread = threading.Thread(target=lambda: [c.sem_post(semaphore) for _ in range(1000)])
        library = _library.load("mend_sim")
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(10000)
        thread.start()
        observe = library.mend_sim_set_call_observer
        observe(self.device._sim, ctypes.cast(c.sem_wait, ctypes.c_void_p), semaphore)
        _devices.free(0, _devices.alloc(0, MIB, 0), MIB, 0)
        observe(self.device._sim, None, None)
        thread.join()


class Mistakes(SimulatedTest):
    def test_devices_and_streams_are_those_that_programs_name(self):
        class Device:  # as torch.device
            type, index = "cuda", 0

        class OfTorch:
            cuda_stream = 0

        class OfCuPy:
            ptr = 0

        for device in ("cuda:0", "cuda", Device(), 0):
            self.assertEqual(libmend.stats(device)["live_blocks"], 0)
            libmend.trim(device)
        for stream in (0, OfTorch(), OfCuPy()):
            self.assertGreater(libmend.available(0, stream)["now_bytes"], 0)

    def test_mistakes_are_named(self):
        for kind, words, call in (
            (ValueError, "a device is a number", lambda: libmend.stats("cpu")),
            (TypeError, "a device is a number", lambda: libmend.stats(None)),
            (TypeError, "a device is a number", lambda: libmend.stats(1.5)),
            (libmend.Error, "MEND_ERROR_NO_DEVICE", lambda: libmend.stats("cuda:7")),
            # A number too large names no other device.
            (ValueError, f"there is no device {2**32}", lambda: libmend.stats(2**32)),
            (ValueError, f"there is no device -{2**40}", lambda: libmend.stats(-(2**40))),
            (ValueError, "limit_bytes is -5; it takes 0 or more", lambda: libmend.set_limit(-5)),
            (ValueError, "keep_bytes is -1", lambda: libmend.trim(0, -1)),
            (TypeError, "limit_bytes is a whole number, not 1.5", lambda: libmend.set_limit(1.5)),
            (ValueError, "limit_bytes is '1G'; it takes bytes", lambda: libmend.set_limit("1G")),
            (ValueError, "did you forget the unit?", lambda: libmend.set_limit(1000)),
            (ValueError, "memory_bytes is -1; it takes 1 or more", lambda: libmend.simulate(-1)),
            (ValueError, "device_count is 0", lambda: libmend.simulate(GIB, device_count=0)),
            (TypeError, "its number or a framework's, not 's'", lambda: libmend.available(0, "s")),
            (ValueError, "there is no stream -1", lambda: self.device.launch(-1, 0, 1)),
            (ValueError, "address is -1", lambda: self.device.launch(0, -1, 1)),
            (libmend.Error, "^SimulatedDevice.fail: .*no call", lambda: self.device.fail("no")),
            (TypeError, "given by its name, not 3", lambda: self.device.fail(3)),
            (ValueError, "count is -1", lambda: self.device.fail("create", count=-1)),
        ):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                call()
        self.assertEqual(libmend.stats()["limit_bytes"], GIB)

    def test_messages_name_what_python_has(self):
        """Options of a pool have the names of MEND_CONF: the table of docs/tuning.md has both."""
        words = _errors.in_words_of_python
        page = (SOURCE / "docs/tuning.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| `(\w+)` \|.*\| `(\w+)` \|[^|]*\|$", page, re.M)
        self.assertGreaterEqual(len(rows), 20)
        for key, field in rows:
            self.assertEqual(words(f"see mend_pool_config.{field}."), f"see {key} of MEND_CONF.")
        for said, expected in (
            ("with mend_pool_config.shareable = MEND_SHAREABLE_FABRIC,",
             "with shareable:fabric of MEND_CONF,"),
            ("mend_range_options.page_bytes is 7", "page_bytes is 7"),
            ("mend_sleep_options.directory is NULL", "directory is None"),
            ("mend_trim; or mend_get_available", "^libmend.trim; or libmend.available$"),
        ):
            self.assertRegex(words(said), expected)
        no_folder = ': directory is None: "file" needs one'
        with self.assertRaisesRegex(libmend.Error, no_folder):
            libmend.sleep(others="file")

    def test_errors_have_the_name_programs_know(self):
        self.assertEqual(repr(libmend.Error), "<class 'libmend.Error'>")
        self.assertEqual(repr(libmend.OutOfMemoryError), "<class 'libmend.OutOfMemoryError'>")


class Judge(unittest.TestCase):
    def test_a_device_that_is_closed_says_so(self):
        device = libmend.simulate(GIB)
        device.close()
        device.close()  # which is no mistake
        for call in (
            device.ledger,
            device.stream,
            device.clear_faults,
            lambda: device.violations,
            lambda: device.first_violation,
            lambda: device.advance(1),
            lambda: device.fail("create"),
        ):
            with self.assertRaisesRegex(libmend.Error, "^libmend: the simulated device is closed$"):
                call()

    def test_a_program_that_breaks_a_rule_is_reported(self):
        with libmend.simulate(GIB) as device:
            address = _devices.alloc(0, MIB, 0)
            device.launch(device.stream(), address, MIB, finish_ns=1000)
            _devices.free(0, address, MIB, 0)  # the stream was not declared
            libmend.trim()
            device.advance(2000)
            self.assertEqual(device.violations, 1)
            self.assertIn("not mapped", device.first_violation)

    def test_devices_follow_each_other(self):
        for memory_bytes in (GIB, 2 * GIB):
            with libmend.simulate(memory_bytes):
                self.assertEqual(libmend.stats()["device_bytes"], memory_bytes)


class Versions(unittest.TestCase):
    def test_package_library_and_project_agree(self):
        self.assertEqual(libmend.__version__, libmend.library_version())
        project = (SOURCE / "pyproject.toml").read_text(encoding="utf-8")
        self.assertIn(f'\nversion = "{libmend.__version__}"\n', project)


class Import(ProgramTest):
    prelude = ""

    def test_importing_loads_no_library(self):
        self.succeeds("""
            import libmend.cupy, libmend.rmm, libmend.onnxruntime, libmend.handler, libmend.torch
            assert "libmend" not in open("/proc/self/maps").read()
            """)

    def test_a_process_that_has_a_libmend_keeps_one(self):
        self.succeeds("""
            import ctypes, libmend, shutil, tempfile
            from libmend import _library
            with tempfile.TemporaryDirectory() as folder:
                theirs = shutil.copy(_library.path_of("mend"), folder)
                ctypes.CDLL(theirs)
                libmend.library_version(), _library.load("mend_torch")
                maps = open("/proc/self/maps").read().split("\\n")
                files = {line.split()[-1] for line in maps if "libmend.so" in line}
                assert files == {theirs}, files
            """)

    def test_a_machine_without_a_driver_is_reported(self):
        """Also one that had a simulated device before: it is gone for good."""
        with tempfile.TemporaryDirectory() as folder:
            # Found before any other, and not a library.
            (Path(folder) / "libcuda.so.1").write_text("no driver")
            self.succeeds(
                """
                import libmend
                with libmend.simulate():
                    libmend.stats()
                print(error_of(libmend.stats).name)
                """,
                says=["MEND_ERROR_NO_DRIVER"],
                LD_LIBRARY_PATH=folder,
            )
