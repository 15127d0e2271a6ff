"""mend.torch under PyTorch itself: its tensors, streams, caches and errors, over memory of the
simulated device. Run by real.py, by way of `python -m mend.simulate`, so nothing is computed."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import children
import torch  # imported once: each test runs in a process forked from this one

BEGIN = """
import gc, torch
import mend, mend.torch
device = mend.simulate(1 << 30)
MIB = 1 << 20

def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")

def message_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("it did not fail")
"""
ENABLED = BEGIN + "mend.torch.enable()\n"
NATIVE = BEGIN + "torch.cuda.init()\n"


class Real(unittest.TestCase):
    def succeeds(self, program, before=ENABLED, **variables):
        """In a process of its own, which has imported PyTorch already."""

        def work():
            os.environ.update(variables)
            exec(before + textwrap.dedent(program), {"__name__": "__main__"})

        done = children.run(work)
        self.assertEqual((done.status, done.is_late), (0, False), done.log)
        return done.output

    def succeeds_from_the_start(self, program, before=BEGIN, **variables):
        """In a new interpreter, which imports PyTorch."""
        done = subprocess.run(
            [sys.executable, "-c", before + textwrap.dedent(program)],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_tensors_are_blocks(self):
        self.succeeds("""
            tensor = empty(1000)
            assert mend.stats()["requested_bytes"] == 1000
            assert torch.cuda.memory_allocated() == 1024
            view, other = tensor[10:], empty(5 * MIB)
            del tensor
            assert mend.stats()["live_blocks"] == 2
            del view, other
            assert mend.stats()["live_blocks"] == 0
            """)

    def test_out_of_memory(self):
        self.succeeds("""
            for _ in range(2):
                try:
                    empty(2 << 30)
                except torch.OutOfMemoryError as error:
                    assert str(error).startswith("CUDA out of memory. "), error
                    assert "Tried to allocate 2.00 GiB. GPU 0 has" in str(error), error
                assert empty(MIB).data_ptr() != 0
            """)

    def test_without_the_cpp_part(self):
        self.succeeds(
            """
            assert message_of(lambda: empty(2 << 30)).startswith("CUDA out of memory. ")
            assert empty(MIB).data_ptr() != 0
            """,
            MEND_TORCH_ADAPTER="0",
        )

    def test_a_tensor_used_on_another_stream_is_safe(self):
        race = """
            other = torch.cuda.Stream()
            tensor = empty(MIB)
            device.launch(0, tensor.data_ptr(), MIB, kind=1, tag=1)
            device.advance(10)
            device.launch(other.cuda_stream, tensor.data_ptr(), MIB, finish_ns=1000, kind=2, tag=1)
            tensor.record_stream(other)
            del tensor
            following = empty(MIB)
            device.launch(0, following.data_ptr(), MIB, kind=1, tag=2)
            device.advance(5000)
            print(device.ledger()["content_errors"])
        """
        self.assertEqual(int(self.succeeds(race)), 0)
        without = race.replace("tensor.record_stream(other)\n", "\n")
        self.assertGreater(int(self.succeeds(without)), 0)

    def test_the_keys_are_those_of_pytorchs_own_allocator(self):
        keys = "empty(1); print(sorted(torch.cuda.memory_stats()))"
        native = "print(sorted(torch.cuda.memory_stats()))"
        ours, theirs = eval(self.succeeds(keys)), eval(self.succeeds(native, before=NATIVE))
        self.assertEqual(set(theirs) - set(ours), set())
        # What newer ones have.
        self.assertLessEqual(set(ours) - set(theirs), {"num_oom_rejections"})

    def test_figures(self):
        self.succeeds("""
            tensor = empty(200 * MIB)
            del tensor
            tensor = empty(3 * MIB)
            assert torch.cuda.memory_allocated() == 3 * MIB
            assert torch.cuda.max_memory_allocated() == 200 * MIB
            assert torch.cuda.memory_reserved() == mend.stats()["reserved_bytes"]
            assert torch.cuda.max_memory_reserved() == mend.stats()["peak_reserved_bytes"]
            summary = torch.cuda.memory_summary()
            assert "| Allocated memory      |   3072 KiB |" in summary, summary
            torch.cuda.memory_summary(abbreviated=True)
            torch.cuda.reset_peak_memory_stats()
            assert torch.cuda.max_memory_allocated() == 3 * MIB
            torch.cuda.reset_accumulated_memory_stats()
            assert torch.cuda.memory_stats()["allocation.all.allocated"] == 0
            free, total = torch.cuda.mem_get_info()
            assert total == 1024 * MIB and free == total - mend.stats()["reserved_bytes"], free
            if hasattr(torch, "accelerator") and hasattr(torch.accelerator, "memory_stats"):
                stats = torch.accelerator.memory_stats()
                assert stats["allocated_bytes.all.current"] == 3 * MIB
                torch.accelerator.reset_peak_memory_stats()
                assert torch.accelerator.memory_allocated() == 3 * MIB
                torch.accelerator.empty_cache()
                if hasattr(torch.accelerator, "get_memory_info"):
                    assert torch.accelerator.get_memory_info() == torch.cuda.mem_get_info()
            """)

    def test_the_fraction_and_the_cache(self):
        self.succeeds("""
            torch.cuda.set_per_process_memory_fraction(0.25)
            assert "The limit is 256.00 MiB" in message_of(lambda: empty(300 * MIB))
            torch.cuda.set_per_process_memory_fraction(1.0)
            empty(300 * MIB)
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 0
            pointer = torch.cuda.caching_allocator_alloc(1000)
            assert mend.stats()["live_blocks"] == 1
            torch.cuda.caching_allocator_delete(pointer)
            """)

    def test_what_cannot_work_says_so(self):
        self.succeeds("""
            import torch.multiprocessing.reductions as reductions

            class Capture:
                def __call__(self):
                    with torch.cuda.graph(torch.cuda.CUDAGraph()):
                        pass

            for call in (
                torch.cuda.memory_snapshot,
                torch.cuda.memory._snapshot,
                torch.cuda.memory._record_memory_history,
                empty(1).untyped_storage()._share_cuda_,
                lambda: reductions.reduce_tensor(empty(1)),
                Capture(),
                torch.cuda.MemPool,
            ):
                message = message_of(call)
                assert message.startswith("mend.torch: "), (call, message)
            torch.backends.cudnn.benchmark = True
            with torch.backends.cudnn.flags(benchmark=True):
                assert not torch.backends.cudnn.benchmark
            """)

    def test_a_refused_capture_changes_nothing(self):
        """Of torch.cuda.graph, of the class below it, and of a pool from C++."""
        self.succeeds("""
            before = torch.cuda.current_stream()
            graph = torch._C._CUDAGraph
            for call in (
                lambda: torch.cuda.graph(torch.cuda.CUDAGraph()).__enter__(),
                lambda: graph().capture_begin(),
            ):
                assert "capturing a CUDA graph" in message_of(call)
                assert torch.cuda.current_stream() == before
            torch.cuda.memory._record_memory_history(enabled=None)
            """)

    def test_too_late(self):
        self.succeeds('assert "comes too late" in message_of(mend.torch.enable)', before=NATIVE)

    def test_part_of_a_program(self):
        """PyTorch's own cache above, with its own figures and its own out of memory."""
        self.succeeds(
            """
            with mend.torch.pool() as pool:
                tensor = empty(3 * MIB)
                with mend.torch.pool() as same:
                    assert same is pool
                try:
                    empty(2 << 30)
                except torch.OutOfMemoryError as error:
                    assert "Tried to allocate 2.00 GiB" in str(error)
                again = empty(3 * MIB)
            assert mend.stats()["live_bytes"] == 20 * MIB
            assert torch.cuda.memory_allocated() == 6 * MIB
            assert torch.cuda.memory_reserved() == 20 * MIB
            assert len(torch.cuda.memory_snapshot()) == 1
            """,
            before=NATIVE,
        )

    def test_the_memory_of_a_pool_of_ones_own_goes_back(self):
        self.succeeds(
            """
            if torch.__version__ < "2.7":
                assert "2.7 is the first" in message_of(mend.torch.mem_pool)
                raise SystemExit
            own = mend.torch.mem_pool()
            with mend.torch.pool(own):
                tensor = empty(3 * MIB)
            del tensor, own
            gc.collect()
            torch.cuda.empty_cache()
            assert mend.stats()["live_bytes"] == 0
            """,
            before=NATIVE,
        )

    def test_the_entry_point(self):
        with tempfile.TemporaryDirectory() as site:
            info = Path(site) / "mend-0.1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mend\nVersion: 0.1.0\n")
            entry = "[torch.backends]\nmend = mend.torch:_autoload\n"
            (info / "entry_points.txt").write_text(entry)
            path = f"{site}{os.pathsep}{os.environ['PYTHONPATH']}"
            self.succeeds_from_the_start(
                "assert mend.torch.is_enabled(); empty(1)", MEND_TORCH="1", PYTHONPATH=path
            )
            self.succeeds_from_the_start(
                "assert not mend.torch.is_enabled()", PYTHONPATH=path
            )

    def test_the_profiler(self):
        """Where it runs over the stand-in at all."""
        profiled = """
            from torch.profiler import ProfilerActivity, profile
            torch.cuda.init()
            with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
                tensor = empty(MIB)
                del tensor
            events = [getattr(e, "device_memory_usage", 0) for e in profiler.events()]
            assert MIB in events and -MIB in events, events
        """
        try:
            self.succeeds(
                "import torch.profiler as p\ntorch.cuda.init()\n"
                "with p.profile(activities=[p.ProfilerActivity.CPU]): torch.empty(1)\n",
                before=NATIVE,
            )
        except AssertionError:
            print("the profiler does not run without a GPU: not tried", file=sys.stderr)
            return
        self.succeeds(profiled)


if __name__ == "__main__":
    unittest.main()
