"""libmend's numba, rmm, cuda_core, onnxruntime and handler over stubs."""

import ctypes
import gc
import warnings
from unittest import mock

import libmend
import libmend.cuda_core
import libmend.handler
import libmend.onnxruntime
import libmend.rmm
import onnxruntime
import rmm
from cuda import core
from cuquantum.bindings import custatevec
from support import GIB, MIB, ProgramTest, SimulatedTest


class Rmm(SimulatedTest):
    def setUp(self):
        super().setUp()
        libmend.rmm.enable()

    def test_a_buffer_is_a_block_in_stream_order(self):
        stream = self.device.stream()
        buffer = rmm.DeviceBuffer(1000, rmm.Stream(stream))
        address = buffer.ptr
        self.device.launch(stream, address, 1000, finish_ns=1000)
        del buffer
        again = rmm.DeviceBuffer(1000, rmm.Stream(stream))
        self.assertEqual(again.ptr, address)
        self.assertEqual(libmend.stats()["host_waits"], 0)
        del again
        libmend.trim()  # not what the stream still uses
        self.device.advance(2000)

    def test_out_of_memory_carries_our_report(self):
        with self.assertRaisesRegex(MemoryError, "2.00 GiB requested"):
            rmm.DeviceBuffer(2 * GIB)

    def test_turning_it_on_twice_keeps_the_resource(self):
        before = rmm.mr.get_per_device_resource(0)
        libmend.rmm.enable()
        libmend.rmm.enable(device=0)
        self.assertIs(rmm.mr.get_per_device_resource(0), before)

    def test_a_thread_s_options_and_its_sleep_tag_are_those_of_its_buffers(self):
        with libmend.alloc_options(in_one_chunk=True, alignment=MIB), libmend.sleep_tag("buffers"):
            buffer = rmm.DeviceBuffer(100 * MIB)
        self.assertEqual(libmend.stats()["pinned_bytes"], 100 * MIB)
        self.assertEqual(buffer.ptr % MIB, 0)
        self.assertEqual(libmend.usage_by_tag()["buffers"].live_bytes, 100 * MIB)

    def test_sizes_that_hold_no_longer_are_named(self):
        """As rmm.reinitialize(pool_allocator=True, maximum_pool_size=...) sets them, and Dask."""
        pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), maximum_pool_size=MIB)
        rmm.mr.set_per_device_resource(0, rmm.mr.StatisticsResourceAdaptor(pool))
        with self.assertWarnsRegex(RuntimeWarning, "PoolMemoryResource on device 0.*set_limit"):
            libmend.rmm.enable()
        rmm.mr.set_per_device_resource(0, rmm.mr.CudaMemoryResource())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            libmend.rmm.enable()

    def test_the_native_resource_is_refused_where_it_cannot_be_compiled(self):
        with self.assertRaisesRegex(RuntimeError, "resource for RMM 26.10.0 is not available"):
            libmend.rmm.enable(native=True)
        self.assertIs(rmm.mr.get_per_device_resource(0), libmend.rmm._kept[0, False])

    def test_a_resource_outlives_its_buffers(self):
        buffer = rmm.DeviceBuffer(MIB)
        rmm.mr._resources.clear()
        del buffer
        gc.collect()
        self.assertEqual(libmend.stats()["live_blocks"], 0)


class CudaCore(SimulatedTest):
    def test_a_buffer_is_a_block_in_stream_order(self):
        libmend.cuda_core.enable()
        stream = core.Stream(self.device.stream())
        buffer = core.Device(0).allocate(1000, stream=stream)
        address = buffer.handle
        self.device.launch(stream._handle, address, 1000, finish_ns=1000)
        del buffer
        again = core.Device(0).allocate(1000, stream=stream)
        self.assertEqual((again.handle, libmend.stats()["host_waits"]), (address, 0))
        again.close()
        self.assertEqual(libmend.stats()["live_blocks"], 0)

    def test_what_it_cannot_serve_is_refused_and_leaves_nothing(self):
        resource = libmend.cuda_core.MendResource(0)
        with self.assertRaisesRegex(libmend.OutOfMemoryError, "2.00 GiB requested"):
            resource.allocate(2 * GIB, stream=core.Stream())
        with self.assertRaisesRegex(libmend.Error, "GraphBuilder"):
            resource.allocate(MIB, stream=core.GraphBuilder())
        older = mock.patch.object(core.Buffer, "from_handle", lambda ptr, size, mr: None)
        with older, self.assertRaisesRegex(libmend.Error, "cuda-core 1.2"):
            resource.allocate(MIB, stream=core.Stream())
        no_stream = TypeError("not a Stream")
        others = mock.patch.object(core.Buffer, "from_handle", side_effect=no_stream)
        with others, self.assertRaisesRegex(TypeError, "not a Stream"):
            resource.allocate(MIB, stream=core.Stream())
        self.assertEqual(libmend.stats()["live_blocks"], 0)


class OnnxRuntime(SimulatedTest):
    has_bytes = True

    def session_in_flight(self, **options):
        """There is room for one model. It ends while a kernel that writes to it is queued."""
        libmend.set_limit(6 * MIB)
        session = onnxruntime.InferenceSession([4 * MIB], libmend.onnxruntime.providers(**options))
        stream = session.stream or self.device.stream()
        self.device.launch(stream, session._blocks[0], 4 * MIB, 1000, kind=1, tag=1)
        block = session._blocks.pop()
        session._free(block)
        return session, block

    def test_a_stream_that_is_named_has_its_memory_again_at_once(self):
        stream = self.device.stream()
        for named in (stream, type("Stream", (), {"cuda_stream": stream})()):
            session, block = self.session_in_flight(user_compute_stream=named)
            self.assertEqual(session.stream, stream)
            again = session.alloc(4 * MIB)
            self.assertEqual((again, libmend.stats()["host_waits"]), (block, 0))
            session._free(again)

    def test_a_limit_that_does_not_hold_is_named(self):
        with self.assertWarnsRegex(RuntimeWarning, "gpu_mem_limit has no effect.*set_limit"):
            libmend.onnxruntime.providers(gpu_mem_limit=MIB)

    def test_another_session_gets_it_behind_its_work(self):
        for options in ({}, {"user_compute_stream": self.device.stream()}):
            self.session_in_flight(**options)
            other = self.device.stream()
            session = onnxruntime.InferenceSession(
                [4 * MIB], libmend.onnxruntime.providers(user_compute_stream=other)
            )
            self.device.launch(other, session._blocks[0], 4 * MIB, 1, kind=1, tag=2)
            self.device.advance(5000)
            self.device.launch(other, session._blocks[0], 4 * MIB, kind=2, tag=2)
            self.device.advance(5000)
            session.close()

    def test_a_session_lives_in_our_memory(self):
        session = onnxruntime.InferenceSession([MIB, 5 * MIB], libmend.onnxruntime.providers())
        self.assertEqual(libmend.stats()["live_blocks"], 2)
        session.run([MIB] * 5)
        self.assertEqual(libmend.stats()["allocations"], 7)
        session.close()
        self.assertEqual(libmend.stats()["live_blocks"], 0)

    def test_out_of_memory_is_its_own_error(self):
        with self.assertRaisesRegex(RuntimeError, "returned NULL"):
            onnxruntime.InferenceSession([2 * GIB], libmend.onnxruntime.providers())

    def test_other_options_stay(self):
        options = libmend.onnxruntime.provider_options(device_id=1)
        self.assertEqual(options["device_id"], "1")
        self.assertEqual(len(options), 4)


class Handler(SimulatedTest):
    def test_the_struct_is_that_of_the_libraries(self):
        self.assertEqual(ctypes.sizeof(libmend.handler.DeviceHandler), 3 * 8 + 64)

    def test_a_library_allocates_in_stream_order(self):
        """The struct is copied and its functions called, as cuTensorNet and the others do."""
        ours = libmend.handler.handler()
        copy = libmend.handler.DeviceHandler.from_buffer_copy(
            ctypes.string_at(ours.pointer, ctypes.sizeof(ours))
        )
        context, alloc, free, name = copy.addresses
        self.assertEqual(name, "mend")
        alloc, free = custatevec._ALLOC(alloc), custatevec._FREE(free)
        stream, address = self.device.stream(), ctypes.c_void_p()
        self.assertEqual(alloc(context, ctypes.byref(address), MIB, stream), 0)
        self.assertEqual(libmend.stats()["live_bytes"], MIB)
        self.assertEqual(free(context, address, MIB, stream), 0)
        self.assertNotEqual(alloc(context, ctypes.byref(address), 2 * GIB, stream), 0)
        self.assertEqual(libmend.stats()["live_blocks"], 0)

    def test_there_is_one_a_device(self):
        self.assertIs(libmend.handler.handler(0), libmend.handler.handler(0))
        with self.assertRaises(libmend.Error):
            libmend.handler.handler(1000)


class Numba(ProgramTest):
    prelude = ProgramTest.prelude + "from numba import cuda\n"
    on = {"NUMBA_CUDA_MEMORY_MANAGER": "libmend.numba"}

    def test_the_environment_turns_it_on(self):
        self.succeeds(
            """
            context = cuda.Context()
            array = context.memalloc(1000)
            assert libmend.stats()["requested_bytes"] == 1000
            assert array.device_pointer and array.size == 1000
            del array
            assert libmend.stats()["live_blocks"] == 0
            """,
            **self.on,
        )

    def test_so_does_a_call(self):
        self.succeeds("""
            import libmend.numba
            libmend.numba.enable()
            array = cuda.Context().memalloc(1000)
            assert libmend.stats()["live_blocks"] == 1
            """)

    def test_memory_freed_without_a_stream_waits_for_the_device(self):
        """A kernel may still use it on a stream that Numba does not name."""
        self.succeeds(
            """
            context = cuda.Context()
            array = context.memalloc(1 << 20)
            device.launch(device.stream(), array.device_pointer, 1 << 20, finish_ns=1000)
            del array
            libmend.trim()
            device.advance(2000)
            assert device.violations == 0
            """,
            **self.on,
        )

    def test_the_only_stream_of_a_program_has_its_memory_again_at_once(self):
        self.succeeds("""
            import libmend.numba
            libmend.set_limit(6 << 20)
            own = device.stream()
            for stream, number in ((cuda.default_stream(), 0), (cuda.Stream(own), own), (own, own)):
                libmend.numba.enable(stream=stream)
                context = cuda.Context()
                for _ in range(2):
                    array = context.memalloc(4 << 20)
                    device.launch(number, array.device_pointer, 4 << 20, finish_ns=1000)
                    del array
                assert libmend.stats()["host_waits"] == 0
            """)

    def test_a_stream_of_each_thread_is_not_the_only_one(self):
        program = """
            import libmend.numba
            error = error_of(libmend.numba.enable, stream={})
            assert isinstance(error, ValueError) and str(error).startswith("libmend.numba:")
            """
        self.succeeds(program.format("2"))
        self.succeeds(
            program.format("cuda.default_stream()"), NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM="1"
        )

    def test_out_of_memory_is_numbas_after_one_more_try(self):
        self.succeeds(
            """
            from numba.cuda.cudadrv.driver import CudaAPIError
            context = cuda.Context()
            error = error_of(context.memalloc, 2 << 30)
            assert isinstance(error, CudaAPIError) and error.code == 2
            assert "2.00 GiB requested" in error.msg
            assert context.memory_manager.deallocations.cleared == 1
            """,
            **self.on,
        )

    def test_figures_and_what_cannot_be_done(self):
        self.succeeds(
            """
            context = cuda.Context()
            manager = context.memory_manager
            array = context.memalloc(4 << 20)
            assert manager.get_memory_info() == ((1 << 30) - (4 << 20), 1 << 30)
            libmend.set_limit(2 << 20)
            assert manager.get_memory_info() == (0, 2 << 20)
            error = error_of(manager.get_ipc_handle, array)
            assert isinstance(error, NotImplementedError)
            assert str(error).startswith("libmend.numba:")
            """,
            **self.on,
        )

    def test_arrays_that_live_at_the_end_are_silent(self):
        self.succeeds("array = cuda.Context().memalloc(1000)", **self.on)
