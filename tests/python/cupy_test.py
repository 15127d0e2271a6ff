"""libmend.cupy over a stub of CuPy, with its state, its calls and its missing checks."""

import gc
import unittest

import cupy
import libmend
import libmend.cupy
from support import GIB, MIB, ProgramTest, SimulatedTest, at_once


class WorkTest(SimulatedTest):
    """Tests with work that may come late."""

    has_bytes = True

    def write(self, stream, array, tag, finish_ns):
        self.device.launch(stream.ptr, array.data.ptr, 4 * MIB, finish_ns, kind=1, tag=tag)

    def use_after(self, stream, tag):
        """All memory, written by this stream at once, and whether it stays so."""
        with stream:
            theirs = cupy.empty(4 * MIB)
        self.write(stream, theirs, tag, finish_ns=1)
        self.device.advance(5000)
        self.device.launch(stream.ptr, theirs.data.ptr, 4 * MIB, kind=2, tag=tag)
        self.device.advance(5000)


class ObjectLevel(WorkTest):
    def setUp(self):
        super().setUp()
        libmend.cupy.enable()

    def tearDown(self):
        cupy.cuda.set_allocator(None)  # and with it the streams it keeps
        super().tearDown()

    def test_an_array_is_a_block(self):
        array, empty = cupy.empty(1000), cupy.empty(0)
        self.assertEqual(libmend.stats()["requested_bytes"], 1000)
        self.assertNotEqual(array.data.ptr, 0)
        self.assertEqual(empty.data.ptr, 0)
        del array
        self.assertEqual(libmend.stats()["live_blocks"], 0)

    def test_memory_goes_round_in_the_order_of_its_stream(self):
        """There is room for one array. It is freed while its stream is busy: another stream gets
        the memory after the work of the first, so that the later writer is the last."""
        ours, others = (cupy.cuda.Stream(self.device.stream()) for _ in range(2))
        libmend.set_limit(6 * MIB)
        with ours:
            array = cupy.empty(4 * MIB)
        self.write(ours, array, 1, finish_ns=1000)
        del array  # under another current stream than its own
        self.use_after(others, 2)

    def test_the_per_thread_stream_is_that_of_the_thread_that_allocated(self):
        """Another thread frees the array: its stream of the same handle is not behind the work."""
        arrays = []

        def work():
            with cupy.cuda.Stream(2) as stream:
                arrays.append(cupy.empty(4 * MIB))
            self.write(stream, arrays[0], 1, finish_ns=1000)

        libmend.set_limit(6 * MIB)
        at_once(work, 1)
        arrays.clear()
        self.use_after(cupy.cuda.Stream(2), 2)

    def test_in_its_own_thread_the_per_thread_stream_goes_on(self):
        """Without a wait for the device."""
        libmend.set_limit(6 * MIB)
        with cupy.cuda.Stream(2):
            for _ in range(3):
                del cupy.empty(4 * MIB).data
        self.assertEqual(libmend.stats()["host_waits"], 0)

    def test_a_stream_that_ended_is_not_the_next_of_its_handle(self):
        ended = []
        device = self.device

        class Stream(cupy.cuda.Stream):
            def __del__(self):
                ended.append(self.ptr)
                device.destroy_stream(self.ptr)

        libmend.set_limit(6 * MIB)
        stream = Stream(device.stream())
        with stream:
            array = cupy.empty(4 * MIB)
        for _ in range(100):  # more than are kept for the case that they come back
            with Stream(device.stream()):
                cupy.empty(1000)
        self.assertGreater(len(ended), 0)
        self.write(stream, array, 1, finish_ns=1000)
        handle = stream.ptr
        del array, stream
        self.assertEqual(ended[-1], handle)
        streams = [cupy.cuda.Stream(device.stream()) for _ in ended]
        self.use_after(next(stream for stream in streams if stream.ptr == handle), 2)

    def test_another_owners_stream_is_not_kept(self):
        """The program that ends it says so. The next of its handle is CuPy's, and is kept."""
        from libmend import _devices

        device = self.device

        class Stream(cupy.cuda.Stream):
            def __del__(self):
                device.destroy_stream(self.ptr)

        handle = device.stream()
        with cupy.cuda.ExternalStream(handle):
            del cupy.empty(MIB).data
        _devices.function("mend_device_unregister_stream")(0, handle)
        device.destroy_stream(handle)
        stream = Stream(device.stream())
        self.assertEqual(stream.ptr, handle)
        with stream:
            del cupy.empty(MIB).data
        del stream
        self.assertEqual(libmend.stats()["streams"], 1)
        cupy.cuda.set_allocator(None)
        self.assertEqual(libmend.stats()["streams"], 0)

    def test_a_thread_s_options_and_its_sleep_tag_are_those_of_its_arrays(self):
        with libmend.alloc_options(in_one_chunk=True, alignment=MIB), libmend.sleep_tag("arrays"):
            array = cupy.empty(100 * MIB)
        self.assertEqual(libmend.stats()["pinned_bytes"], 100 * MIB)
        self.assertEqual(array.data.ptr % MIB, 0)
        self.assertEqual(libmend.usage_by_tag()["arrays"].live_bytes, 100 * MIB)

    def test_out_of_memory_is_cupys_with_our_report(self):
        with self.assertRaises(cupy.cuda.memory.OutOfMemoryError) as caught:
            cupy.empty(2 * GIB)
        self.assertIsInstance(caught.exception.__cause__, libmend.OutOfMemoryError)
        del caught
        gc.collect()
        cupy.empty(MIB)

    def test_threads_allocate_and_free_each_others_arrays(self):
        shared, errors = [], []

        def work():
            try:
                for size in range(1, 200):
                    shared.append(cupy.empty(size * 1000))
                    if len(shared) > 20:
                        shared.pop(0)
            except Exception as error:
                errors.append(error)

        at_once(work, 4)
        shared.clear()
        self.assertEqual(errors, [])
        self.assertEqual(libmend.stats()["live_blocks"], 0)

    def test_an_array_that_outlives_its_pool_is_silent(self):
        array = cupy.empty(MIB)
        self.device.close()
        del array  # no pool knows it any more
        self.device = libmend.simulate(GIB)


class Pooled(WorkTest):
    def setUp(self):
        super().setUp()
        libmend.cupy.enable(mode="pooled")
        self.pool = cupy.cuda._allocator.__self__

    def tearDown(self):
        self.pool.free_all_blocks()
        super().tearDown()

    def test_cupys_pool_keeps_what_was_freed(self):
        del cupy.empty(MIB).data
        self.assertEqual(libmend.stats()["live_blocks"], 1)
        self.pool.free_all_blocks()
        self.assertEqual(libmend.stats()["live_blocks"], 0)

    def test_null_makes_cupy_empty_its_pool_and_try_again(self):
        del cupy.empty(600 * MIB).data
        self.assertNotEqual(cupy.empty(700 * MIB).data.ptr, 0)
        self.assertEqual(self.pool.retries, 1)
        with self.assertRaises(cupy.cuda.memory.OutOfMemoryError):
            cupy.empty(2 * GIB)

    def segment_in_flight(self, stream):
        """CuPy's pool has no more room than for it, and gives it back while the stream writes."""
        libmend.set_limit(6 * MIB)
        with stream:
            array = cupy.empty(4 * MIB)
        self.write(stream, array, 1, finish_ns=1000)
        del array
        self.pool.free_all_blocks()

    def test_a_segment_goes_round_in_the_order_of_its_stream(self):
        """Which is the one of its arena, whatever is current when it goes."""
        stream = cupy.cuda.Stream(self.device.stream())
        self.segment_in_flight(stream)
        with stream:
            again = cupy.empty(4 * MIB)
        self.write(stream, again, 2, finish_ns=2000)
        self.assertEqual((libmend.stats()["host_waits"], libmend.stats()["streams"]), (0, 1))

    def test_another_stream_gets_it_behind_its_work(self):
        ours, others = (cupy.cuda.Stream(self.device.stream()) for _ in range(2))
        self.segment_in_flight(ours)
        self.use_after(others, 2)


class Limits(ProgramTest):
    def test_those_of_cupy_s_own_pool_hold_in_both_modes(self):
        """Of the environment, and of a call that comes later. Ended ones do not count."""
        for mode in ("object", "pooled"):
            self.succeeds(
                f"""
                import cupy, libmend.cupy
                libmend.cupy.enable("{mode}")
                theirs = libmend._devices.alloc(0, 100 << 20, 0)  # another library's counts nothing
                arrays = [cupy.empty(4 << 20) for _ in range(2)]
                error = error_of(cupy.empty, 1 << 20)
                print(type(error).__name__, libmend.stats()["live_bytes"] >> 20)
                arrays.pop()
                del error, arrays[:]
                print(cupy.empty(8 << 20).data.ptr != 0)
                cupy.get_default_memory_pool().set_limit(9 << 20)
                print(cupy.empty(9 << 20).data.ptr != 0)
                cupy.get_default_memory_pool().set_limit(0)
                print(cupy.empty(100 << 20).data.ptr != 0)
                """,
                ["OutOfMemoryError 108", "True", "True", "True"],
                CUPY_GPU_MEMORY_LIMIT=str(8 << 20),
            )


class Modes(unittest.TestCase):
    def test_there_are_two(self):
        with self.assertRaisesRegex(ValueError, "not 'both'"):
            libmend.cupy.enable("both")
