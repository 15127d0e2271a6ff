"""libmend.torch under PyTorch itself: its tensors, streams, caches and errors, over memory of the
simulated device. Run by real.py, by way of `python -m libmend.simulate`, so nothing is computed."""

import os
import sys
import tempfile
import textwrap
from pathlib import Path

import torch  # imported once: each test runs in a process forked from this one
from programs import BEGIN, NATIVE, Programs, add_entry_point

SHARING = """
import torch, libmend.torch
import torch.multiprocessing as multiprocessing
libmend.torch.enable()

def work(tensors, answers):
    tensor = tensors.get()
    answers.put((tensor.cpu().tolist(), libmend.stats()["imported_bytes"] > 0))
    del tensor
    answers.put(libmend.stats()["imported_bytes"])

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    tensors, answers = context.Queue(), context.Queue()
    process = context.Process(target=work, args=(tensors, answers))
    process.start()
    tensor = torch.arange(100, dtype=torch.uint8).to("cuda")
    tensors.put(tensor[10:])
    print(answers.get() == (list(range(10, 100)), True))
    print(answers.get())
    print(tensor.untyped_storage()._share_cuda_()[1][:1].decode())
    process.join()
"""


class Real(Programs):
    def test_tensors_are_blocks(self):
        self.succeeds("""
            tensor = empty(1000)
            assert libmend.stats()["requested_bytes"] == 1000
            assert torch.cuda.memory_allocated() == 1024
            view, other = tensor[10:], empty(5 * MIB)
            del tensor
            assert libmend.stats()["live_blocks"] == 2
            del view, other
            assert libmend.stats()["live_blocks"] == 0
            pointer = torch.cuda.caching_allocator_alloc(1000)
            assert libmend.stats()["live_blocks"] == 1
            torch.cuda.caching_allocator_delete(pointer)
            """)

    def test_out_of_memory_is_told_and_tried_again(self):
        """Observers hear of it without a lock. Programs that shrink their batch go on."""
        self.succeeds("""
            heard = []
            torch._C._cuda_attach_out_of_memory_observer(
                lambda *event: heard.append((event, torch.cuda.memory_allocated()))
            )
            for size in (4 << 30, 2 << 30):
                text = str(error_of(lambda: empty(size), torch.OutOfMemoryError))
                assert text.startswith("CUDA out of memory. Tried to allocate "), text
                assert f" {size >> 30}.00 GiB. GPU 0 has" in text, text
                assert "is allocated by PyTorch, and" in text and "\\nMend: " in text, text
                assert empty(MIB).data_ptr() != 0
            torch.cuda.empty_cache()
            tensor = empty(1 << 30)
            assert [event[1] for event, _ in heard] == [4 << 30, 2 << 30], heard
            assert torch.cuda.memory_stats()["num_ooms"] == 2
            for many in (1 << 60, 1 << 61):
                text = message_of(lambda: empty(many))
                assert "Tried to allocate more than 1EB memory" in text, text
            """)

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
        self.assertEqual(set(ours), set(theirs))

    def test_figures(self):
        self.succeeds("""
            tensor = empty(200 * MIB)
            del tensor
            tensor = empty(3 * MIB)
            assert torch.cuda.memory_allocated() == 3 * MIB
            assert torch.cuda.max_memory_allocated() == 200 * MIB
            assert torch.cuda.memory_reserved() == libmend.stats()["reserved_bytes"]
            assert torch.cuda.max_memory_reserved() == libmend.stats()["peak_reserved_bytes"]
            summary = torch.cuda.memory_summary()
            assert "| Allocated memory      |   3072 KiB |" in summary, summary
            torch.cuda.memory_summary(abbreviated=True)
            torch.cuda.reset_peak_memory_stats()
            assert torch.cuda.max_memory_allocated() == 3 * MIB
            torch.cuda.reset_accumulated_memory_stats()
            assert torch.cuda.memory_stats()["allocation.all.allocated"] == 0
            free, total = torch.cuda.mem_get_info()
            assert total == 1024 * MIB and free == total - libmend.stats()["reserved_bytes"], free
            if hasattr(torch, "accelerator") and hasattr(torch.accelerator, "memory_stats"):
                stats = torch.accelerator.memory_stats()
                assert stats["allocated_bytes.all.current"] == 3 * MIB
                torch.accelerator.reset_peak_memory_stats()
                assert torch.accelerator.memory_allocated() == 3 * MIB
                torch.accelerator.empty_cache()
                if hasattr(torch.accelerator, "get_memory_info"):
                    assert torch.accelerator.get_memory_info() == torch.cuda.mem_get_info()
            """)

    def test_what_another_stream_still_uses_is_active(self):
        """In figures and snapshots, natively too, until its work has ended."""
        program = """
            side = torch.cuda.Stream()
            MANY = 100 * MIB

            def active():
                stats = torch.cuda.memory_stats()
                return [stats[f"{name}.all.{kind}"] for name in ("active_bytes", "active")
                        for kind in ("current", "peak")]

            def states():
                return [(block["state"], block["size"]) for segment in torch.cuda.memory_snapshot()
                        for block in segment["blocks"] if block["state"] != "inactive"]

            def ended():
                torch.cuda.synchronize()
                empty(100).data_ptr()  # natively an allocation looks

            keep = empty(MIB)
            print(active())
            tensor = empty(MANY)
            device.launch(side.cuda_stream, tensor.data_ptr(), MANY, finish_ns=10**9)
            tensor.record_stream(side)
            del tensor
            print(active(), torch.cuda.memory_allocated(), sorted(states()))
            if libmend.torch.is_enabled():
                waiting = [region.size_bytes for region in libmend.regions() if region.is_pending]
                assert sum(waiting) == MANY, waiting
                assert "wait  100 MiB of the free memory, for streams" in libmend.report()
            other = empty(MANY)  # not from there
            print(active(), sorted(states()))
            del other
            ended()
            print(active(), sorted(states()), torch.cuda.memory_allocated())
            if libmend.torch.is_enabled():
                assert "for streams that" not in libmend.report()
            torch.cuda.reset_peak_memory_stats()
            print(active())
            """
        printed = self.succeeds(program)
        self.assertEqual(printed, self.succeeds(program, before=NATIVE))
        self.assertIn("active_pending_free", printed)

    def test_a_soft_limit_bounds_what_waits_for_another_stream(self):
        program = """
            side = torch.cuda.Stream()
            for step in range(40):
                activation = empty(32 * MIB)
                device.launch(side.cuda_stream, activation.data_ptr(), 32 * MIB,
                              finish_ns=(step + 1) * 10**9)
                activation.record_stream(side)
                del activation
            stats = torch.cuda.memory_stats()
            print(stats["reserved_bytes.all.peak"] // MIB, stats["num_sync_all_streams"])
            """
        self.assertEqual(self.succeeds(program).split(), ["1024", "0"])
        soft = self.succeeds(program, MEND_CONF="soft_limit:256MiB")
        self.assertEqual(soft.split(), ["256", "0"])

    def test_retries_are_requests_that_waited_for_room(self):
        """Neither trims nor sleeps are, which wait for the GPU too."""
        self.succeeds("""
            def waits():
                stats = torch.cuda.memory_stats()
                return stats["num_alloc_retries"], stats["num_sync_all_streams"]

            ends = iter(range(10**15, 10**17, 10**15))

            def used(size, stream=0):  # by work that goes on
                tensor = empty(size)
                device.launch(stream, tensor.data_ptr(), size, finish_ns=next(ends))

            for _ in range(3):
                used(100 * MIB)
                torch.cuda.empty_cache()
            with libmend.torch.sleep_tag("weights"):
                tensor = empty(100 * MIB)
            used(100 * MIB)
            libmend.torch.sleep({"weights": "host"})
            libmend.torch.wake()
            retries, all_waits = waits()
            assert retries == 0 and all_waits >= 3, (retries, all_waits)
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                used(800 * MIB, side.cuda_stream)
            other = empty(800 * MIB)
            assert waits() == (1, all_waits + 1), waits()
            torch.cuda.reset_accumulated_memory_stats()
            assert waits() == (0, 0), waits()
            """, MEND_CONF="allow_stream_waits:off")

    def test_a_compaction_lets_an_emptied_cache_release_what_lies_beside_tensors(self):
        """At the same addresses, with the same bytes. Without it the cache keeps their chunks."""
        self.runs("""
            empty(64 * MIB)  # its chunks of 4 MiB are those of the tensors
            tensors = [filled(i, 2) for i in range(32)][::4]
            addresses = [tensor.data_ptr() for tensor in tensors]
            torch.cuda.empty_cache()
            live, held = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
            assert (live, held) == (16 * MIB, 32 * MIB), (live, held)
            device.launch(0, tensors[0].data_ptr(), MIB, finish_ns=10**15)
            gained = libmend.compact()
            assert gained == 16 * MIB, gained
            torch.cuda.empty_cache()
            held = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
            assert held == (live, live), held
            assert addresses == [tensor.data_ptr() for tensor in tensors]
            assert all(holds(tensor, 4 * i) for i, tensor in enumerate(tensors))
            """)

    def test_it_may_be_enabled_after_cuda_was_used_but_not_after_memory_was(self):
        self.succeeds(
            """
            torch.cuda.set_device(0)
            torch.cuda.get_device_name(), torch.cuda.mem_get_info(), torch.cuda.synchronize()
            tensor = empty(1)
            assert "has handed out memory already" in message_of(libmend.torch.enable)
            assert torch.cuda.get_allocator_backend() == "native"
            del tensor
            torch.cuda.empty_cache()
            libmend.torch.enable()
            assert torch.cuda.get_allocator_backend() == "mend"
            empty(1)
            assert libmend.stats()["allocations"] == 1
            """,
            before=NATIVE,
        )

    def test_settings(self):
        self.succeeds("""
            torch.cuda.init()
            if VERSION >= (2, 6):
                torch.cuda.caching_allocator_enable(False)
                tensor = empty(MIB)
                assert libmend.stats()["live_blocks"] == 0
                del tensor
                torch.cuda.caching_allocator_enable(True)
            tensor = empty(MIB)
            assert libmend.stats()["live_blocks"] == 1
            torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:4")
            before = torch.cuda.memory_stats()
            other = empty(5 * MIB + 1)
            after = torch.cuda.memory_stats()
            rounded, requested = (
                after[name + "_bytes.all.current"] - before[name + "_bytes.all.current"]
                for name in ("allocated", "requested")
            )
            assert (rounded, requested) == (6 * MIB, 5 * MIB + 1), (rounded, requested)
            sizes = blocks_of(key="requested_size")
            assert 5 * MIB + 1 in sizes, sizes
            del other
            assert torch.cuda.memory_stats()["requested_bytes.all.current"] == MIB
            """)

    # ---- graphs and pools ------------------------------------------------------------------------

    def test_graphs(self):
        """Memory of a graph is not handed to others between two replays."""
        self.succeeds("""
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                inner = empty(5 * MIB)
                outer = empty(5 * MIB)
                addresses = inner.data_ptr(), outer.data_ptr()
                del inner
            assert libmend.stats()["graph_pools"] == 1
            others = [empty(5 * MIB) for _ in range(8)]
            assert not {tensor.data_ptr() for tensor in others} & set(addresses)
            graph.replay()
            torch.cuda.synchronize()
            live = blocks_of(in_pools=True, key="address")
            assert live == [addresses[1]], (live, addresses)
            del graph, outer, others
            gc.collect()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            assert libmend.stats()["graph_pools"] == 0
            assert torch.cuda.memory_reserved() == 0
            """)

    def test_graphs_that_share_a_pool(self):
        self.succeeds("""
            pool = torch.cuda.graph_pool_handle()
            graphs = [torch.cuda.CUDAGraph() for _ in range(3)]
            for graph in graphs:
                with torch.cuda.graph(graph, pool=pool):
                    empty(20 * MIB)
            assert libmend.stats()["graph_pools"] == 1
            assert libmend.available()["graph_pool_bytes"] < 40 * MIB
            for graph in reversed(graphs):
                graph.replay()
            torch.cuda.synchronize()
            """)

    def test_an_abandoned_capture(self):
        self.succeeds("""
            import contextlib
            for _ in range(3):
                graph = torch.cuda.CUDAGraph()
                with contextlib.suppress(ValueError), torch.cuda.graph(graph):
                    kept = empty(MIB)
                    raise ValueError
                del graph
                gc.collect()
            tensor = empty(500 * MIB)
            del tensor, kept
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            """)

    def test_graphed_callables(self):
        self.succeeds("""
            layer = torch.nn.Linear(64, 64, device="cuda")
            sample = torch.zeros(8, 64, device="cuda", requires_grad=True)
            graphed = torch.cuda.make_graphed_callables(layer, (sample,))
            for _ in range(3):
                graphed(sample).sum().backward()
            torch.cuda.synchronize()
            """)

    def test_checkpoints(self):
        """Of CUDA graph trees: blocks come back at their addresses."""
        self.succeeds("""
            pool = torch.cuda.graph_pool_handle()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                first, second = empty(MIB), empty(3 * MIB)
            state = torch._C._cuda_getCheckpointState(0, pool)
            addresses = {first.data_ptr(), second.data_ptr()}
            live = torch._C._cuda_checkPoolLiveAllocations
            assert live(0, pool, addresses)
            assert not live(0, pool, addresses | {1})
            again = torch.cuda.CUDAGraph()
            del first
            with torch.cuda.graph(again, pool=pool):
                third = empty(MIB)
            assert live(0, pool, {second.data_ptr(), third.data_ptr()})
            stale = [tensor.untyped_storage()._cdata for tensor in (second, third)]
            torch._C._cuda_setCheckpointPoolState(0, state, stale, [])
            assert live(0, pool, addresses)
            del second, third
            assert live(0, pool, addresses)
            """)

    def test_pools_without_a_capture_share_their_memory(self):
        self.succeeds("""
            pool = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(pool):
                tensor = empty(400 * MIB)
            if hasattr(pool, "snapshot"):
                (segment,) = pool.snapshot()
                assert segment["total_size"] == 400 * MIB
            del tensor
            if VERSION < (2, 6):  # as natively: PyTorch never releases a pool
                del pool
                message_of(lambda: empty(800 * MIB))
            else:
                other = empty(800 * MIB)
            """)

    # ---- history and snapshots -------------------------------------------------------------------

    def test_history_and_snapshots(self):
        self.succeeds("""
            torch.cuda.memory._record_memory_history(max_entries=100)
            def named_function():
                return empty(MIB)
            kept = named_function()
            del kept
            kept = named_function()
            snapshot = torch.cuda.memory._snapshot()
            actions = [entry["action"] for entry in snapshot["device_traces"][0]]
            whats = ["alloc", "free_requested", "free_completed", "alloc"]
            assert [a for a in actions if not a.startswith("segment")] == whats, actions
            again = torch.cuda.memory._snapshot()["device_traces"][0]
            assert [entry["action"] for entry in again] == [*actions, "snapshot"], again
            assert actions[0] == "segment_map", actions
            frames = str(snapshot["device_traces"][0][actions.index("alloc")]["frames"])
            assert "named_function" in frames, frames
            (block,) = blocks_of(snapshot["segments"])
            assert block["address"] == kept.data_ptr() and "named_function" in str(block["frames"])
            total = sum(segment["total_size"] for segment in snapshot["segments"])
            assert total == torch.cuda.memory_reserved(), total
            large = empty(64 * MIB)  # of many chunks: one event where they are side by side
            again = torch.cuda.memory._snapshot()["device_traces"][0][len(again):]
            mapped = [entry["size"] for entry in again if entry["action"] == "segment_map"]
            assert len(mapped) <= 2 and sum(mapped) >= 60 * MIB, mapped
            del large
            torch.cuda.memory._record_memory_history(enabled=None)
            assert not torch.cuda.memory._snapshot()["device_traces"][0]
            """)

    def test_workers_of_a_data_loader_need_no_setting(self):
        self.runs("""
            from torch.utils.data import DataLoader
            loader = DataLoader(list(range(64)), batch_size=8, num_workers=2, pin_memory=True)
            batches = [batch.cuda(non_blocking=True) for batch in loader]
            assert [int(batch.shape[0]) for batch in batches] == [8] * 8
            assert torch.cuda.memory_allocated() == 8 * 512
            """)

    # ---- who holds it ----------------------------------------------------------------------------

    def test_modules_steps_and_lines_hold_what_they_make(self):
        self.runs("""
            inner = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(512, 512))
            model = torch.nn.Sequential(torch.nn.Linear(512, 512), inner).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            batch = torch.randn(512, 512, device="cuda")
            def raises():
                raise KeyError
            def own(path):
                return {s.path: s.own_live_bytes for s in libmend.scopes()}.get(path, 0)
            libmend.record_stacks(MIB)
            with libmend.module_scopes(model, optimizer):
                out = model(batch)
                assert own("Sequential/1/1.1") == out.nbytes, libmend.scopes()
                assert own("Sequential/1/1.0") == out.nbytes, libmend.scopes()  # kept for backward
                lines = [owner.name for owner in libmend.owners(by="stack")]
                assert any("forward (linear.py:" in line for line in lines), lines
                out.sum().backward()
                optimizer.step()
                states = sum(t.nbytes for s in optimizer.state.values() for t in s.values()
                             if t.is_cuda)
                assert own("optimizer") >= states > 4 * MIB, (libmend.scopes(), states)
                # Neither a step nor a module that raises leaves its scope open.
                error_of(lambda: optimizer.step(raises), KeyError)
                error_of(lambda: model(batch[:, 1:]))
                model(batch)
            libmend.record_stacks(0)
            kept = empty(2 * MIB)
            paths = [scope.path for scope in libmend.scopes()]
            assert sum(path.startswith("optimizer") for path in paths) == 1, paths
            region = next(r for r in libmend.regions() if r.address == kept.data_ptr())
            assert region.scope is None, region
            again = model(batch)  # the hooks are gone
            assert own("Sequential/1/1.1") == out.nbytes, libmend.scopes()
            """)

    # ---- pools with an allocator of the program's ------------------------------------------------

    def test_a_pool_with_an_allocator_of_the_programs(self):
        """Pytorch's own allocator keeps it, as it always does."""
        self.succeeds("""
            from libmend import _library
            path = str(_library.path_of("mend_torch"))
            own = torch.cuda.memory.CUDAPluggableAllocator(
                path, "mend_torch_alloc_or_null", "mend_torch_free"
            )
            pool = torch.cuda.MemPool(own.allocator())
            with torch.cuda.use_mem_pool(pool):
                tensor = empty(3 * MIB)
            # Older versions do not say which allocator a pool has.
            is_native = VERSION >= (2, 8)
            assert libmend.stats()["live_bytes"] == (20 if is_native else 3) * MIB  # a segment
            assert torch.cuda.memory_allocated() == (23 if is_native else 3) * MIB
            tensor.record_stream(torch.cuda.Stream())
            outside = empty(MIB)
            assert libmend.stats()["live_bytes"] == (21 if is_native else 4) * MIB
            if is_native:
                (segment,) = pool.snapshot()
                assert segment["total_size"] == 20 * MIB, segment
            del tensor, pool
            gc.collect()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            assert libmend.stats()["live_bytes"] == MIB
            """)

    def test_two_gpus(self):
        """A copy between them, and figures of each."""
        program = """
            libmend.torch.enable()
            here = torch.arange(1000, dtype=torch.uint8).to("cuda:0")
            there = here.to("cuda:1")
            torch.cuda.synchronize(0), torch.cuda.synchronize(1)
            assert torch.equal(there.cpu(), here.cpu())
            for index in range(2):
                assert torch.cuda.memory_allocated(index) == 1024
        """
        self.simulates(
            "--devices", "2", "-c", "import torch, libmend.torch\n" + textwrap.dedent(program)
        )

    def sends_a_tensor_by(self, kind, *options, **variables):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program.py"
            program.write_text(SHARING)
            printed = self.simulates(*options, str(program), **variables)
        self.assertEqual(printed.split(), ["True", "0", kind])

    def test_tensors_go_to_other_processes(self):
        self.sends_a_tensor_by("m", "--fabric")

    def test_tensors_go_to_other_processes_by_fabric_handles(self):
        """Where the device has them. File descriptors otherwise."""
        self.sends_a_tensor_by("f", "--fabric", MEND_CONF="shareable:fabric")
        self.sends_a_tensor_by("m", MEND_CONF="shareable:fabric")

    # ---- a part of a program, and other ways in --------------------------------------------------

    def test_part_of_a_program(self):
        """PyTorch's own cache above, with its own figures and its own out of memory."""
        self.succeeds(
            """
            with libmend.torch.pool() as pool:
                tensor = empty(3 * MIB)
                with libmend.torch.pool() as same:
                    assert same is pool
                assert "Tried to allocate 2.00 GiB" in message_of(lambda: empty(2 << 30))
                again = empty(3 * MIB)
            assert libmend.stats()["live_bytes"] == 20 * MIB
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
                assert "2.7 is the first" in message_of(libmend.torch.mem_pool)
                raise SystemExit
            own = libmend.torch.mem_pool()
            with libmend.torch.pool(own):
                tensor = empty(3 * MIB)
            del tensor, own
            gc.collect()
            torch.cuda.empty_cache()
            assert libmend.stats()["live_bytes"] == 0
            """,
            before=NATIVE,
        )

    def test_the_entry_point(self):
        with tempfile.TemporaryDirectory() as site:
            add_entry_point(site)
            path = f"{site}{os.pathsep}{os.environ['PYTHONPATH']}"
            self.succeeds_from_the_start(
                "assert libmend.torch.is_enabled(); empty(1)", MEND_TORCH="1", PYTHONPATH=path
            )
            self.succeeds_from_the_start(
                "assert not libmend.torch.is_enabled()", PYTHONPATH=path
            )
            line = BEGIN[: BEGIN.index("    return torch.empty")].count("\n") + 1
            self.succeeds_from_the_start(
                "kept = empty(600 * MIB)\nwhy = message_of(lambda: empty(700 * MIB))\n"
                f"assert '<string>:{line} empty' in why, why",
                MEND_TORCH="1", MEND_STACKS="1MiB", PYTHONPATH=path,
            )

    def test_the_profiler(self):
        """Where it runs over the stub at all."""
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
