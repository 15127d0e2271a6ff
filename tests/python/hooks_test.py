"""mend.numba, mend.rmm, mend.onnxruntime and mend.handler over stand-ins."""

import ctypes
import gc
import unittest

import mend
import mend.handler
import mend.onnxruntime
import mend.rmm
import onnxruntime
import rmm
from cuquantum.bindings import custatevec
from support import GIB, MIB, ProgramTest, SimulatedTest


class Rmm(SimulatedTest):
    def setUp(self):
        super().setUp()
        mend.rmm.enable()

    def test_a_buffer_is_a_block_in_stream_order(self):
        stream = self.device.stream()
        buffer = rmm.DeviceBuffer(1000, rmm.Stream(stream))
        address = buffer.ptr
        self.device.launch(stream, address, 1000, finish_ns=1000)
        del buffer
        again = rmm.DeviceBuffer(1000, rmm.Stream(stream))
        self.assertEqual(again.ptr, address)
        self.assertEqual(mend.stats()["host_waits"], 0)
        del again
        mend.trim()  # not what the stream still uses
        self.device.advance(2000)

    def test_out_of_memory_carries_our_report(self):
        with self.assertRaisesRegex(MemoryError, "2.00 GiB requested"):
            rmm.DeviceBuffer(2 * GIB)

    def test_turning_it_on_twice_keeps_the_resource(self):
        before = rmm.mr.get_per_device_resource(0)
        mend.rmm.enable()
        mend.rmm.enable(device=0)
        self.assertIs(rmm.mr.get_per_device_resource(0), before)

    def test_a_resource_outlives_its_buffers(self):
        buffer = rmm.DeviceBuffer(MIB)
        rmm.mr._resources.clear()
        del buffer
        gc.collect()
        self.assertEqual(mend.stats()["live_blocks"], 0)


class OnnxRuntime(SimulatedTest):
    def test_a_session_lives_in_our_memory(self):
        session = onnxruntime.InferenceSession([MIB, 5 * MIB], mend.onnxruntime.providers())
        self.assertEqual(mend.stats()["live_blocks"], 2)
        session.run([MIB] * 5)
        self.assertEqual(mend.stats()["allocations"], 7)
        session.close()
        self.assertEqual(mend.stats()["live_blocks"], 0)

    def test_out_of_memory_is_its_own_error(self):
        with self.assertRaisesRegex(RuntimeError, "returned NULL"):
            onnxruntime.InferenceSession([2 * GIB], mend.onnxruntime.providers())

    def test_other_options_stay(self):
        options = mend.onnxruntime.provider_options(device_id=1)
        self.assertEqual(options["device_id"], "1")
        self.assertEqual(len(options), 4)


class Handler(SimulatedTest):
    def test_the_struct_is_that_of_the_libraries(self):
        self.assertEqual(ctypes.sizeof(mend.handler.DeviceHandler), 3 * 8 + 64)

    def test_a_library_allocates_in_stream_order(self):
        """The struct is copied and its functions called, as cuTensorNet and the others do."""
        ours = mend.handler.handler()
        copy = mend.handler.DeviceHandler.from_buffer_copy(
            ctypes.string_at(ours.pointer, ctypes.sizeof(ours))
        )
        context, alloc, free, name = copy.addresses
        self.assertEqual(name, "mend")
        alloc, free = custatevec._ALLOC(alloc), custatevec._FREE(free)
        stream, address = self.device.stream(), ctypes.c_void_p()
        self.assertEqual(alloc(context, ctypes.byref(address), MIB, stream), 0)
        self.assertEqual(mend.stats()["live_bytes"], MIB)
        self.assertEqual(free(context, address, MIB, stream), 0)
        self.assertNotEqual(alloc(context, ctypes.byref(address), 2 * GIB, stream), 0)
        self.assertEqual(mend.stats()["live_blocks"], 0)

    def test_there_is_one_a_device(self):
        self.assertIs(mend.handler.handler(0), mend.handler.handler(0))
        with self.assertRaises(mend.Error):
            mend.handler.handler(1000)


class Numba(ProgramTest):
    prelude = ProgramTest.prelude + "from numba import cuda\n"
    on = {"NUMBA_CUDA_MEMORY_MANAGER": "mend.numba"}

    def test_the_environment_turns_it_on(self):
        self.succeeds(
            """
            context = cuda.Context()
            array = context.memalloc(1000)
            assert mend.stats()["requested_bytes"] == 1000
            assert array.device_pointer and array.size == 1000
            del array
            assert mend.stats()["live_blocks"] == 0
            """,
            **self.on,
        )

    def test_so_does_a_call(self):
        self.succeeds("""
            import mend.numba
            mend.numba.enable()
            array = cuda.Context().memalloc(1000)
            assert mend.stats()["live_blocks"] == 1
            """)

    def test_memory_freed_without_a_stream_waits_for_the_device(self):
        """A kernel may still use it on a stream that Numba does not name."""
        self.succeeds(
            """
            context = cuda.Context()
            array = context.memalloc(1 << 20)
            device.launch(device.stream(), array.device_pointer, 1 << 20, finish_ns=1000)
            del array
            mend.trim()
            device.advance(2000)
            assert device.violations == 0
            """,
            **self.on,
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
            array = context.memalloc(1 << 20)
            assert manager.get_memory_info() == ((1 << 30) - (1 << 20), 1 << 30)
            mend.set_limit(1 << 19)
            assert manager.get_memory_info() == (0, 1 << 19)
            error = error_of(manager.get_ipc_handle, array)
            assert isinstance(error, NotImplementedError) and str(error).startswith("mend.numba:")
            """,
            **self.on,
        )

    def test_arrays_that_live_at_the_end_are_silent(self):
        self.succeeds("array = cuda.Context().memalloc(1000)", **self.on)


if __name__ == "__main__":
    unittest.main()
