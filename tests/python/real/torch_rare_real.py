"""Rare requests of PyTorch to its allocator: addresses, trackers, observers, settings made at run
time, figures that people read. Run by real.py as torch_real.py is."""

from probes import PROBED, Probed
from programs import BEGIN

WARNED = """
import warnings

def warned(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in found]

def configure(text):
    newer = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    (newer or torch.cuda.memory._set_allocator_settings)(text)
"""


class Rare(Probed):
    before = PROBED + WARNED

    # ---- addresses and room ----------------------------------------------------------------------

    def test_an_allocation_at_an_address(self):
        self.succeeds("""
            tensor = empty(4 * MIB)
            address = tensor.data_ptr()
            del tensor
            if probe.probe_is_new():
                torch.cuda.memory._record_memory_history()
                assert allocate_at(MIB, address + MIB) == ""
                assert torch.cuda.memory_allocated() == MIB
                text = allocate_at(MIB, address + MIB)
                assert "an allocation at an address: MEND_ERROR_OUT_OF_ADDRESS_SPACE" in text, text
                assert torch.cuda.memory_allocated() == MIB
                (trace,) = torch.cuda.memory._snapshot()["device_traces"]
                (entry,) = [entry for entry in trace if entry["action"] == "alloc"]
                assert (entry["addr"], entry["size"]) == (address + MIB, MIB), entry
                probe.probe_drop(address + MIB)
                assert torch.cuda.memory_allocated() == 0
                probe.probe_drop(address + MIB)
            """)

    def test_an_allocation_at_an_address_in_the_pool_of_a_graph(self):
        self.succeeds("""
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                tensor = empty(4 * MIB)
                address = tensor.data_ptr()
                del tensor
                if probe.probe_is_new():
                    assert allocate_at(MIB, address) == ""
            # Outside of the pool its free memory has no owner.
            if probe.probe_is_new():
                assert "OUT_OF_ADDRESS_SPACE" in allocate_at(MIB, address + MIB)
                live = blocks_of(in_pools=True, key="address")
                assert live == [address], live
                probe.probe_drop(address)
            """)

    def test_the_largest_block_is_what_an_allocation_gets(self):
        """As cuDNN's search asks for it (cacheInfo)."""
        self.succeeds("""
            kept = [empty(size * MIB) for size in (100, 3, 200, 5, 300)]
            del kept[2], kept[0]
            for _ in range(2):
                largest = probe.probe_largest(0)
                assert largest > 300 * MIB, largest
                tensor = empty(largest)
                del tensor
                message_of(lambda: empty(largest + 512))
                torch.cuda.set_per_process_memory_fraction(0.8)
            assert largest < 600 * MIB, largest
            """)

    # ---- trackers --------------------------------------------------------------------------------

    def test_a_tracker_hears_of_a_pool_and_its_memory_is_pinned(self):
        """As NCCL registers buffers of a MemPool."""
        self.succeeds("""
            probe.probe_track()
            outside = empty(MIB)
            assert heard() == []
            pool = torch.cuda.MemPool()
            number = sum(pool.id) if VERSION >= (2, 8) else 0
            with torch.cuda.use_mem_pool(pool):
                first, second = empty(3 * MIB), empty(5 * MIB)
                begun = heard()
                assert begun == [
                    ("begun", 0, first.data_ptr(), 3 * MIB, number),
                    ("begun", 0, second.data_ptr(), 5 * MIB, number),
                ], begun
                assert libmend.stats()["pinned_bytes"] >= 8 * MIB
                address = first.data_ptr()
                del first
                again = empty(2 * MIB)  # in memory that the tracker knows
                assert again.data_ptr() == address and heard() == []
            del again, second
            torch.cuda.empty_cache()
            assert heard() == [] and libmend.stats()["pinned_bytes"] >= 8 * MIB
            del pool
            ended = heard()
            if VERSION < (2, 6):  # as natively: PyTorch never releases a pool
                assert ended == []
                raise SystemExit
            assert sorted(ended) == sorted(("ended", *event[1:]) for event in begun), ended
            assert libmend.stats()["pinned_bytes"] == 0
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() <= 16 * MIB
            """)

    def test_what_a_tracker_hears_does_not_overlap(self):
        """NCCL refuses an address that it has, and does not find one that it has not heard of."""
        self.succeeds("""
            import random
            probe.probe_track()
            random.seed(1)
            pool = torch.cuda.MemPool()
            segments = {}

            def hear():
                for what, _, address, size, number in heard():
                    assert number == (sum(pool.id) if VERSION >= (2, 8) else 0)
                    if what == "begun":
                        assert address not in segments
                        segments[address] = size
                    else:
                        assert segments.pop(address) == size
                ends = 0
                for address, size in sorted(segments.items()):
                    assert ends <= address, segments
                    ends = address + size

            tensors = []
            with torch.cuda.use_mem_pool(pool):
                for _ in range(300):
                    if len(tensors) > 12 or (tensors and random.random() < 0.45):
                        tensors.pop(random.randrange(len(tensors)))
                    else:
                        tensors.append(empty(random.randrange(1, 20) * MIB // 2))
                    hear()
                    for tensor in tensors:
                        begin, size = tensor.data_ptr(), tensor.numel()
                        assert any(
                            at <= begin and begin + size <= at + bytes
                            for at, bytes in segments.items()
                        ), (begin, size, segments)
            if hasattr(pool, "snapshot"):
                shown = {s["address"]: s["total_size"] for s in pool.snapshot()}
                hear()
                assert shown.items() <= segments.items(), (shown, segments)
                for segment in pool.snapshot():
                    sizes = sum(block["size"] for block in segment["blocks"])
                    assert sizes == segment["total_size"], segment
                live = sum(segment["allocated_size"] for segment in pool.snapshot())
                assert live == sum(tensor.numel() for tensor in tensors)
            tensors.clear()
            if hasattr(pool, "snapshot"):
                hear()
                identity = pool.id
                del pool
                gc.collect()
                for what, _, address, size, number in heard():
                    assert what == "ended" and segments.pop(address) == size
                assert segments == {}, segments
                assert libmend.stats()["pinned_bytes"] == 0
            """)

    # ---- memory that cannot be shared ------------------------------------------------------------

    def test_memory_that_cannot_be_shared_says_so(self):
        """As on a device without file descriptors. Everything else works."""
        self.succeeds(
            """
            tensor = empty(MIB)
            text = message_of(tensor.untyped_storage()._share_cuda_)
            assert "Mend: " in text and "shareable" in text, text
            del tensor
            assert torch.cuda.memory_allocated() == 0
            """,
            MEND_CONF="shareable:off",
        )

    # ---- out of memory ---------------------------------------------------------------------------

    def test_out_of_memory_under_a_fraction(self):
        self.succeeds("""
            torch.cuda.set_per_process_memory_fraction(0.25)
            assert fraction() in (0.25, None)
            kept = empty(100 * MIB)
            text = message_of(lambda: empty(300 * MIB))
            first = (
                "CUDA out of memory. Tried to allocate 300.00 MiB. GPU 0 has a total capacity of"
                " 1024.00 MiB of which "
            )
            assert text.startswith(first), text
            assert "256.00 MiB allowed; Of the allocated memory 100.00 MiB is allocated by" in text
            assert "\\nMend: " in text and "the limit is 256.00 MiB" in text, text
            assert torch.cuda.memory_allocated() == 100 * MIB
            del kept
            kept = empty(256 * MIB)
            del kept
            torch.cuda.set_per_process_memory_fraction(0.5)
            kept = empty(500 * MIB)
            torch.cuda.set_per_process_memory_fraction(0.25)  # less than is in use
            message_of(lambda: empty(MIB + 12 * MIB))
            del kept
            torch.cuda.empty_cache()
            empty(256 * MIB)
            for wrong in (-0.1, 1.1):
                set_fraction = torch.cuda.set_per_process_memory_fraction
                error_of(lambda: set_fraction(wrong), (ValueError, RuntimeError))
            """)

    def test_a_rejection_is_observed(self):
        """Of a request above the fraction, where the program asks for that setting."""
        self.succeeds("""
            if probe.probe_is_new():
                probe.probe_observe_rejections()
                oom = []
                torch._C._cuda_attach_out_of_memory_observer(lambda *event: oom.append(event))
                torch.cuda.set_per_process_memory_fraction(0.25)
                kept = empty(100 * MIB)
                assert "Tried to allocate 300.00 MiB" in message_of(lambda: empty(300 * MIB))
                assert heard() == [] and len(oom) == 1, oom
                assert warned(lambda: configure("throw_on_cudamalloc_oom:True")) == []
                text = message_of(lambda: empty(300 * MIB))
                assert "preemptively rejected" in text and str(300 * MIB) in text, text
                events = heard()
                assert events == [("rejected", 0, 300 * MIB, 100 * MIB, 256 * MIB)], events
                assert torch.cuda.memory_stats()["num_oom_rejections"] == 1
                assert torch.cuda.memory_allocated() == 100 * MIB
                torch.cuda.reset_accumulated_memory_stats()
                assert torch.cuda.memory_stats()["num_oom_rejections"] == 0
                torch.cuda.set_per_process_memory_fraction(1.0)
                assert "Tried to allocate 2.00 GiB" in message_of(lambda: empty(2 << 30))
                assert heard() == []
            """)

    # ---- settings --------------------------------------------------------------------------------

    def test_settings_without_effect_are_named_once(self):
        self.succeeds("""
            empty(1)
            assert warned(lambda: configure("roundup_power2_divisions:4")) == []
            assert warned(torch.cuda.memory_stats) == []
            configure("max_split_size_mb:100,garbage_collection_threshold:0.6")
            (text,) = warned(torch.cuda.memory_stats)
            names = "set max_split_size_mb, garbage_collection_threshold, which has no effect"
            assert names in text and "MEND_CONF" in text, text
            configure("max_split_size_mb:200,garbage_collection_threshold:0.5")
            assert warned(torch.cuda.empty_cache) == []
            configure("expandable_segments:False")
            (text,) = warned(torch.cuda.empty_cache)
            assert "expandable_segments" in text and "max_split" not in text, text
            configure("max_split_size_mb:300")
            (text,) = warned(lambda: message_of(lambda: empty(2 << 30)))
            assert "max_split_size_mb" in text, text
            """)

    def test_settings_of_the_environment_are_named_at_enable_alone(self):
        self.succeeds_from_the_start(
            """
            (text,) = warned(libmend.torch.enable)
            assert "max_split_size_mb in PYTORCH_CUDA_ALLOC_CONF has no effect" in text, text
            assert warned(lambda: empty(1)) == []
            assert warned(torch.cuda.empty_cache) == []
            """,
            before=BEGIN + WARNED,
            PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:100",
        )

    def test_the_backend_of_the_settings_is_pytorchs_own(self):
        """In the environment, where PyTorch reads it late, and set by the program."""
        for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            self.succeeds_from_the_start(
                """
                empty(1)
                configure("backend:native")
                empty(MIB)
                assert torch.cuda.get_allocator_backend() == "mend"
                text = message_of(lambda: configure("backend:cudaMallocAsync"))
                assert "cudaMallocAsync != native" in text or VERSION < (2, 9), text
                """,
                before=BEGIN + WARNED + "libmend.torch.enable()\n",
                **{name: "backend:native"},
            )

    def test_a_fraction_in_the_settings(self):
        """Read at the first use of a device, as PyTorch's own allocator does (from 2.10)."""
        tried = """
            def fits(mib):
                try:
                    return empty(mib * MIB) is not None
                except torch.OutOfMemoryError:
                    return False

            is_there = VERSION >= (2, 10)
            if is_there and WHEN == "before":
                configure("per_process_memory_fraction:0.25")
            empty(1)
            if is_there and WHEN == "after":
                configure("per_process_memory_fraction:0.25")
            print(fits(300), fits(200), fraction())
        """
        for when in ("before", "after"):
            program = tried.replace("WHEN", repr(when))
            natively = self.succeeds(program, before=BEGIN + WARNED)
            self.assertEqual(self.succeeds(program), natively)

    # ---- what people read ------------------------------------------------------------------------

    def test_what_memory_viz_prints_is_the_snapshot(self):
        self.succeeds("""
            import json, pickle, re, subprocess, sys, tempfile
            from torch.cuda import _memory_viz
            torch.cuda.memory._record_memory_history(max_entries=1000)
            sizes = [3, 50, 1, 7]
            kept = [empty(size * MIB) for size in sizes]
            del kept[1]
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                kept.append(empty(MIB // 4))
            snapshot = torch.cuda.memory._snapshot()
            segments = snapshot["segments"]
            live = sum(segment["allocated_size"] for segment in segments)
            assert live == torch.cuda.memory_allocated() == 11 * MIB + MIB // 4
            for segment in segments:
                assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
                at = segment["address"]
                for block in segment["blocks"]:
                    assert block["address"] == at
                    at += block["size"]

            # The text: sums, a line for each large segment, a line for each event.
            text = _memory_viz.segsum(snapshot)
            assert f"segments: {len(segments)}" in text, text
            reserved = _memory_viz.Bytes(torch.cuda.memory_reserved())
            assert f"total_reserved: {reserved}" in text, text
            assert f"total_allocated: {_memory_viz.Bytes(live)}" in text, text
            lines = [line for line in text.splitlines() if line.startswith("[")]
            large = [s for s in segments if s["total_size"] >= 20 * MIB]
            assert len(lines) == len(large) > 0, text
            trace = _memory_viz.trace(snapshot)
            sizes_told = re.findall(r"^\\w+ = \\w+\\[\\d+:(.*)\\]$", trace, re.M)
            assert sizes_told == ["3.0MiB", "50.0MiB", "1.0MiB", "7.0MiB", "256.0KiB"], trace
            assert re.findall(r"^del \\w+ # (.*)$", trace, re.M) == ["50.0MiB"], trace

            # The flame graphs: the bytes of the stacks are the live, or the reserved bytes.
            def total(flames, words=""):
                found = [line for line in flames.splitlines() if words in line]
                return sum(int(line.rsplit(" ", 1)[1]) for line in found)

            def drawn(lines):  # by a script that PyTorch fetches from the network
                return lines

            for flames in (
                _memory_viz.memory(snapshot, format_flamegraph=drawn),
                _memory_viz.segments(snapshot, format_flamegraph=drawn),
            ):
                assert total(flames) == torch.cuda.memory_reserved(), flames
                assert total(flames, "active_allocated") == live, flames

            # The page: the program embeds the snapshot, by the command that people use.
            with tempfile.TemporaryDirectory() as folder:
                torch.cuda.memory._dump_snapshot(f"{folder}/s.pickle")
                for kind in ("trace_plot", "segment_plot"):
                    subprocess.run(
                        [sys.executable, _memory_viz.__file__, kind, f"{folder}/s.pickle"]
                        + ["-o", f"{folder}/{kind}.html"],
                        check=True,
                    )
                    page = open(f"{folder}/{kind}.html").read()
                    assert len(page) > 1000 and "MemoryViz" in page
                dumped = pickle.load(open(f"{folder}/s.pickle", "rb"))
                assert [s["address"] for s in dumped["segments"]] == [
                    s["address"] for s in segments
                ]
            """)
