"""mend.torch over a stand-in for PyTorch, whose pluggable allocator copies the contract of
PyTorch's (fakes/c10/pluggable.cpp). Each test is a process: Mend is turned on once."""

import textwrap
import unittest

from support import ProgramTest, run

ENABLED = """
import mend
device = mend.simulate(1 << 30, has_bytes=True)
import gc, threading, torch
import mend.torch
mend.torch.enable()
MIB = 1 << 20

def message_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("it did not fail")
"""


class WholeProcess(ProgramTest):
    prelude = ENABLED

    def test_a_tensor_is_a_block(self):
        self.succeeds("""
            tensor = torch.empty(1000, device="cuda")
            assert mend.stats()["requested_bytes"] == 1000
            assert tensor.data_ptr() and mend.torch.is_enabled()
            del tensor
            assert mend.stats()["live_blocks"] == 0
            """)

    def test_a_second_call_does_nothing(self):
        self.succeeds("""
            tensor = torch.empty(1000)
            before = torch._C._cuda_memoryStats
            mend.torch.enable()
            assert torch._C._cuda_memoryStats is before
            assert torch.cuda.memory_allocated() == 1024
            """)

    def test_out_of_memory_is_pytorchs_with_our_report(self):
        self.succeeds(
            """
            try:
                torch.empty(2 << 30)
            except torch.OutOfMemoryError as error:
                print(str(error)[:19], "Tried to allocate 2.00 GiB. GPU 0 has" in str(error))
            torch.empty(MIB)
            """,
            says=["CUDA out of memory. True"],
        )

    def test_another_failure_is_no_lack_of_memory(self):
        self.succeeds(
            """
            device.fail("create", count=100, status=999)
            try:
                torch.empty(MIB)
            except torch.OutOfMemoryError:
                print("out of memory")
            except RuntimeError as error:
                print(str(error)[:11])
            """,
            says=["CUDA error."],
        )

    def test_no_tensor_is_null(self):
        """PyTorch would take NULL for memory."""
        self.succeeds("""
            for size in (1 << 30, 2 << 30, 1 << 50):
                for _ in range(3):
                    try:
                        assert torch.empty(size).data_ptr() != 0
                    except torch.OutOfMemoryError:
                        pass
            assert mend.stats()["live_blocks"] == 0
            """)

    def test_a_tensor_used_on_another_stream_is_safe(self):
        """What `other` still reads is not written by the next tensor's kernel."""
        self.succeeds(RACE + "print(device.ledger()['content_errors'])", says=["0"])

    def test_a_stream_that_was_not_recorded_is_seen(self):
        """The same program without record_stream goes wrong, and the device says so."""
        program = RACE.replace("tensor.record_stream(other)\n", "")
        self.assertNotEqual(program, RACE)
        out = self.succeeds(program + "print(device.ledger()['content_errors'])")
        self.assertGreater(int(out), 0)

    def test_threads_free_each_others_tensors(self):
        """As autograd's threads do, each with a stream of its own."""
        self.succeeds("""
            shared, errors = [], []

            def work():
                try:
                    with torch.cuda.stream(torch.cuda.Stream(device.stream())):
                        for i in range(200):
                            shared.append(torch.empty(i * 1000 + 1))
                            if len(shared) > 20:
                                shared.pop(0)
                except Exception as error:
                    errors.append(error)

            threads = [threading.Thread(target=work) for _ in range(6)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            shared.clear()
            assert errors == [], errors
            assert mend.stats()["live_blocks"] == 0
            assert device.violations == 0
            """)

    def test_tensors_that_live_at_the_end_are_silent(self):
        self.succeeds("tensor = torch.empty(MIB)")

    def test_empty_cache_gives_back(self):
        self.succeeds("""
            torch.empty(100 * MIB)
            assert torch.cuda.memory_reserved() >= 100 * MIB
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 0
            """)

    def test_the_memory_fraction_is_a_limit(self):
        self.succeeds("""
            torch.cuda.set_per_process_memory_fraction(0.25)
            assert torch.cuda.memory.get_per_process_memory_fraction() == 0.25
            message = message_of(lambda: torch.empty(300 * MIB))
            assert "The limit is 256.00 MiB" in message, message
            torch.cuda.set_per_process_memory_fraction(1.0)
            torch.empty(300 * MIB)
            """)

    def test_the_block_around_a_pointer_is_known(self):
        self.succeeds("""
            import ctypes
            tensor, size = torch.empty(1000), ctypes.c_size_t()
            handle = torch._C._current.handle
            inside = tensor.data_ptr() + 100
            base = torch._C._library.fake_pluggable_base(handle, inside, ctypes.byref(size))
            assert (base, size.value) == (tensor.data_ptr(), 1024)
            """)

    def test_what_cannot_work_says_so(self):
        """And what to do instead."""
        self.succeeds("""
            class Capture:
                def __call__(self):
                    with torch.cuda.graph(torch.cuda.CUDAGraph()):
                        pass

            for call in (
                torch.cuda.memory_snapshot,
                torch.cuda.memory._record_memory_history,
                torch.empty(1).untyped_storage()._share_cuda_,
                Capture(),
                torch.cuda.MemPool,
                lambda: torch._C._cuda_getCheckpointState(0, (0, 0)),
                lambda: torch._C._cuda_attach_out_of_memory_observer(print),
            ):
                message = message_of(call)
                assert message.startswith("mend.torch: "), message
                assert "docs/frameworks/pytorch.md" in message, message
            """)

    def test_a_refused_capture_leaves_the_stream_alone(self):
        """A program that tries a graph and falls back goes on where it was: with order."""
        self.succeeds("""
            class Capture:
                def __call__(self):
                    with torch.cuda.graph(torch.cuda.CUDAGraph()):
                        pass

            before = torch.cuda.current_stream().cuda_stream
            assert "CUDA graph" in message_of(Capture())
            assert torch.cuda.current_stream().cuda_stream == before
            """)

    def test_a_graph_made_before_is_refused_where_it_was(self):
        program = """
            early = torch.cuda.graph(torch.cuda.CUDAGraph())
            mend.torch.enable()
            torch.empty(1)
            try:
                early.__enter__()
            except RuntimeError as error:
                print(str(error)[:11], torch.cuda.current_stream().cuda_stream)
            """
        done = run(ENABLED.replace("mend.torch.enable()\n", "") + textwrap.dedent(program))
        self.assertEqual(done.stdout, "mend.torch: None\n", done.stderr)

    def test_captures_below_torch_cuda_are_refused(self):
        """torch._C's class, and C++ itself, by the allocator."""
        self.succeeds("""
            torch.empty(1)
            for call in (torch._C._CUDAGraph().capture_begin, lambda: torch._C._begin_pool(0)):
                message = message_of(call)
                assert message.startswith("mend.torch: capturing a CUDA graph"), message
            """)

    def test_history_may_be_turned_off(self):
        self.succeeds("""
            torch.cuda.memory._record_memory_history(enabled=None)
            message_of(torch.cuda.memory._record_memory_history)
            """)

    def test_settings_of_pytorchs_allocator_do_nothing_and_say_so(self):
        settings = "expandable_segments:True"
        self.succeeds(
            """
            import warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(2):
                    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
            print(len(caught), "have no effect" in str(caught[0].message), caught[0].filename)
            print(torch._C._allocator_settings)
            """,
            says=["1 True <string>", f"['{settings}', '{settings}']"],
        )
        self.succeeds(
            "", stderr="<string>:6: RuntimeWarning: mend.torch: PYTORCH_CUDA_ALLOC_CONF has no",
            PYTORCH_CUDA_ALLOC_CONF=settings,
        )

    def test_cudnns_benchmark_stays_off(self):
        self.succeeds(
            """
            import warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                torch.backends.cudnn.benchmark = True
                torch.backends.cudnn.set_flags(_benchmark=True)
                torch.backends.cudnn.benchmark = False
            assert not torch.backends.cudnn.benchmark and not torch._C._cudnn_benchmark
            print(len(caught), "stays off" in str(caught[0].message))
            """,
            says=["2 True"],
        )


# Kernels on two streams, judged by their bytes: `other` reads until 1000 ns what was written.
RACE = """
other = torch.cuda.Stream(device.stream())
tensor = torch.empty(MIB)
device.launch(0, tensor.data_ptr(), MIB, kind=1, tag=1)
device.advance(10)
device.launch(other.cuda_stream, tensor.data_ptr(), MIB, finish_ns=1000, kind=2, tag=1)
tensor.record_stream(other)
del tensor
following = torch.empty(MIB)
device.launch(0, following.data_ptr(), MIB, kind=1, tag=2)
device.advance(5000)
"""


class TooLate(ProgramTest):
    prelude = "import mend, torch\nimport mend.torch\ndevice = mend.simulate(1 << 30)\n"

    def test_after_the_first_tensor(self):
        self.succeeds(
            """
            before = torch._C._cuda_memoryStats, torch.cuda.mem_get_info
            torch.cuda._lazy_init()
            try:
                mend.torch.enable()
            except RuntimeError as error:
                print(str(error)[:38])
                assert "torch.cuda.set_device" in str(error)
            assert (torch._C._cuda_memoryStats, torch.cuda.mem_get_info) == before
            assert torch.cuda.memory.get_allocator_backend() == "native"
            assert not mend.torch.is_enabled()
            """,
            says=["mend.torch.enable() comes too late: Py"],
        )

    def test_where_another_initialised_the_allocator(self):
        self.succeeds(
            """
            torch._C._current.is_initialized = True
            try:
                mend.torch.enable()
            except RuntimeError as error:
                print(str(error)[:34])
            """,
            says=["mend.torch.enable() comes too late"],
        )


class OtherPyTorch(ProgramTest):
    prelude = TooLate.prelude

    def test_without_cuda(self):
        self.succeeds(
            """
            del torch._C._cuda_customAllocator
            try:
                mend.torch.enable()
            except RuntimeError as error:
                print("built without CUDA" in str(error))
            """,
            says=["True"],
        )

    def test_setters_that_are_missing(self):
        """The allocator works without them; the functions that would call them do nothing."""
        self.succeeds("""
            del torch._C._CUDAPluggableAllocator.set_base_alloc_fn
            del torch._C._CUDAPluggableAllocator.set_init_fn
            mend.torch.enable()
            assert torch.empty(1000).data_ptr()
            """)

    def test_captures_are_refused_where_the_allocator_is_not_asked(self):
        self.succeeds("""
            del torch._C._CUDAPluggableAllocator.set_begin_allocate_to_pool
            mend.torch.enable()
            torch.empty(1)
            for graph in (torch._C._CUDAGraph(), torch.cuda.CUDAGraph()):
                try:
                    graph.capture_begin()
                except RuntimeError as error:
                    assert "capturing a CUDA graph" in str(error), error
                else:
                    raise AssertionError("it was captured")
            """)

    def test_record_stream_may_not_be_missing(self):
        self.succeeds(
            """
            del torch._C._CUDAPluggableAllocator.set_record_stream_fn
            try:
                mend.torch.enable()
            except RuntimeError as error:
                print("record_stream" in str(error))
            assert torch.cuda.memory.get_allocator_backend() == "native"
            """,
            says=["True"],
        )

    def test_functions_that_are_missing(self):
        self.succeeds("""
            for name in ("_cuda_getMemoryFraction", "_cuda_record_memory_history"):
                delattr(torch._C, name)
            del torch.cuda.MemPool
            mend.torch.enable()
            assert not hasattr(torch._C, "_cuda_getMemoryFraction")
            """)


if __name__ == "__main__":
    unittest.main()
