"""Growable tensors under PyTorch, over memory of the simulated device: copied bytes are compared
one by one. Run by real.py as torch_real.py is."""

from programs import BEGIN, ENABLED, Programs

GROWING = """
import copy, io
from libmend.torch import GrowingTensor

PAGE = 2 * MIB

def numbers(count, first=0):
    return torch.arange(first, first + count, dtype=torch.int64)

def committed():
    return libmend.stats()["range_bytes"]

def ends():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert committed() == 0, committed()
    return device.ledger()
"""

RACE = """
side, third = torch.cuda.Stream(), torch.cuda.Stream()
torch.cuda.synchronize()

def use(stream, address, finish_ns):
    device.launch(stream.cuda_stream, address, PAGE, kind=1, tag=1)
    device.launch(stream.cuda_stream, address, PAGE, finish_ns=finish_ns, kind=2, tag=1)

def errors_after(stream):
    # The next to get the memory, because there is no other, writes something else.
    libmend.set_limit(libmend.stats()["reserved_bytes"])
    with torch.cuda.stream(stream):
        tensor = empty(PAGE)
    device.launch(stream.cuda_stream, tensor.data_ptr(), PAGE, kind=1, tag=2)
    device.advance(10 ** 9)
    return device.ledger()["content_errors"] + device.violations

main = torch.cuda.current_stream()
grown = GrowingTensor(64 * MIB, dtype=torch.uint8)
address = grown.full.data_ptr()
LATE = 10 ** 8
"""


class Growing(Programs):
    before = ENABLED + GROWING

    # ---- its length ------------------------------------------------------------------------------

    def test_it_grows_at_one_address_and_keeps_what_it_holds(self):
        self.runs("""
            grown = GrowingTensor((1 << 30, 4), dtype=torch.int64)
            assert len(grown) == 0 and grown.tensor.shape == (0, 4) and committed() == 0
            assert grown.capacity == grown.full.shape[0] == 1 << 30
            first = grown.grow(100_000)
            first.copy_(numbers(400_000).view(-1, 4))
            assert committed() == 4 * MIB == torch.cuda.memory_allocated()
            second = grown.grow(1_000_000)
            assert first.data_ptr() == second.data_ptr() == grown.full.data_ptr()
            assert second.shape == (1_100_000, 4) and len(grown) == 1_100_000
            second[100_000:].copy_(numbers(4_000_000, 400_000).view(-1, 4))
            first[0, 0] += 0  # a view of before: the same memory
            assert torch.equal(second.cpu().flatten(), numbers(4_400_000))
            assert torch.equal(first.cpu().flatten(), numbers(400_000))
            third = grown.shrink(1_050_000)
            assert torch.equal(third.cpu().flatten(), numbers(200_000)), "what is left"
            assert committed() == PAGE and third is grown.tensor
            assert torch.equal(grown.resize(65_536).cpu()[:50_000].flatten(), numbers(200_000))
            assert committed() == PAGE  # exactly full
            grown.grow(1)
            assert committed() == 2 * PAGE
            grown.resize(0)
            assert committed() == 0 and grown.info()["size_bytes"] == 32 << 30
            assert "GrowingTensor([0, 4] of 1073741824" in repr(grown), repr(grown)
            """)

    def test_several_grow_in_one_step(self):
        self.runs("""
            keys, values = (GrowingTensor(4 << 30, dtype=torch.uint8) for _ in range(2))
            libmend.set_limit(libmend.stats()["reserved_bytes"] + 600 * MIB)
            ours = numbers(8).view(torch.uint8)
            keys.grow(100 * MIB)[:64].copy_(ours)
            for counts in (400 * MIB, [501 * MIB, 0]):
                error = error_of(lambda: libmend.torch.grow_all([keys, values], counts),
                                 torch.OutOfMemoryError)
                assert len(keys) == committed() == 100 * MIB and len(values) == 0, error
            longer = libmend.torch.grow_all([keys, values], [200 * MIB, 250 * MIB])
            assert [len(tensor) for tensor in longer] == [300 * MIB, 250 * MIB]
            assert longer[0] is keys.tensor and torch.equal(longer[0][:64].cpu(), ours)
            with torch.cuda.stream(torch.cuda.Stream()):
                libmend.torch.grow_all((keys, values), MIB)
            assert libmend.torch.grow_all([], 1) == []
            for wrong in ([keys, keys], 1), ([keys], [1, 2]), ([keys], -1), ([keys], 4 << 30):
                error_of(lambda: libmend.torch.grow_all(*wrong), ValueError)
            assert len(keys) == 301 * MIB
            """)

    def test_a_tensor_of_it_is_copied_and_saved_with_its_own_size(self):
        self.runs("""
            grown = GrowingTensor(1 << 40, dtype=torch.int64)
            tensor = grown.grow(1000)
            tensor.copy_(numbers(1000))
            file = io.BytesIO()
            torch.save(tensor, file)
            assert len(file.getvalue()) < 20_000
            file.seek(0)
            assert torch.equal(torch.load(file).cpu(), numbers(1000))
            other = copy.deepcopy(tensor)
            assert other.untyped_storage().nbytes() == 8000
            assert other.data_ptr() != tensor.data_ptr() and torch.equal(other.cpu(), numbers(1000))
            """)

    def test_memory_passes_between_it_and_other_tensors(self):
        self.runs("""
            grown = GrowingTensor(4 << 30, dtype=torch.uint8, page_bytes=16 * MIB)
            for _ in range(3):
                grown.grow(800 * MIB)
                message_of(lambda: empty(700 * MIB))
                grown.shrink(790 * MIB)
                assert committed() == 16 * MIB
                activations = empty(700 * MIB)
                error = error_of(lambda: grown.grow(800 * MIB), torch.OutOfMemoryError)
                assert isinstance(error, libmend.OutOfMemoryError)
                assert error.name == "MEND_ERROR_OUT_OF_MEMORY", error
                assert len(grown) == 10 * MIB and committed() == 16 * MIB
                del activations
                grown.grow(800 * MIB)  # the same call, later
                grown.resize(0)
            """)

    # ---- pages -----------------------------------------------------------------------------------

    def test_pages_come_and_go_one_by_one(self):
        """Elements that are no part of a page, and of which several are in one."""
        self.runs("""
            rows = GrowingTensor((1000, 3, 100_000), dtype=torch.uint8)  # 300,000 bytes
            assert rows.info()["size_bytes"] == 144 * PAGE
            rows.commit(100, 107)  # bytes 30,000,000 to 32,100,000: pages 14 and 15
            assert committed() == 2 * PAGE
            values = torch.arange(7, dtype=torch.uint8).view(7, 1, 1).expand(7, 3, 100_000)
            rows.full[100:107].copy_(values)
            rows.commit(100, 107), rows.commit(104, 104)
            assert torch.equal(rows.full[100:107].cpu(), values)
            rows.decommit(101, 107)  # each page holds others too
            assert committed() == 2 * PAGE
            rows.decommit(90, 104)  # to byte 31,200,000: page 13, which has none, no more
            assert committed() == 2 * PAGE
            rows.decommit(90, 105)  # and 14
            assert committed() == PAGE
            assert torch.equal(rows.full[105:107].cpu(), values[5:])
            rows.commit(999, 1000)  # pages 142 and 143
            assert committed() == 3 * PAGE
            rows.decommit(995, 1000)  # the last page ends with the capacity
            assert committed() == 2 * PAGE
            rows.decommit(0, 1000)
            assert committed() == 0 and len(rows) == 0

            large = GrowingTensor((10, 3 * MIB), dtype=torch.uint8)  # 1.5 pages
            large.commit(5, 6)  # bytes 15 to 18 MiB: pages 7 and 8
            large.grow(3)  # pages 0 to 4
            large.shrink(2)  # 0 and 1 stay
            assert committed() == 4 * PAGE, committed()
            large.resize(10), large.resize(1)
            assert committed() == 2 * PAGE
            """)

    # ---- its life --------------------------------------------------------------------------------

    def test_the_memory_lasts_as_long_as_any_view(self):
        self.runs("""
            empty(1)
            before = ends()
            for keep in ("tensor", "full"):
                grown = GrowingTensor((1 << 20, 2), dtype=torch.int64)
                grown.grow(1000).copy_(numbers(2000).view(-1, 2))
                view = getattr(grown, keep)[10:20].flatten()
                del grown
                gc.collect()
                assert committed() == PAGE
                assert torch.equal(view.cpu(), numbers(20, 20))
                del view
                assert ends()["reservations"] == before["reservations"]
            made = []
            for i in range(200):
                made.append(GrowingTensor(1 << 34, dtype=torch.uint8).grow(i * 100_000))
                if len(made) > 5:
                    at_once(lambda: made.pop(i % 5))
            made.clear()
            after = ends()
            for name in ("reservations", "address_bytes", "chunks", "mappings"):
                assert after[name] == before[name], (name, after[name], before[name])
            """)

    def test_a_process_may_end_with_one(self):
        self.succeeds_from_the_start(
            """
            grown = GrowingTensor(1 << 30, dtype=torch.uint8)
            torch.kept = grown.grow(5 * MIB)
            kept = grown.tensor[5:]
            kept.cycle = [kept, grown]
            """,
            before=self.before,
        )

    # ---- streams ---------------------------------------------------------------------------------

    def test_memory_waits_for_each_stream_that_used_it(self):
        """Where pages are decommitted by another stream than the one that committed them, and where
        the tensor ends. A use that was not declared is seen."""
        shrinks = "with torch.cuda.stream({0}): grown.resize(0)\nprint(errors_after({0}) > 0)\n"
        ends = "del grown\ngc.collect()\nprint(errors_after(main) > 0)\n"
        by_side = "with torch.cuda.stream(side): grown.grow(PAGE)\nuse(side, address, LATE)\n"
        by_main = "grown.grow(PAGE)\nuse(main, address, LATE)\n"
        by_third = "grown.grow(PAGE)\nuse(third, address, LATE)\n"
        for program, expected in (
            (by_side + shrinks.format("main"), False),
            (by_main + shrinks.format("side"), False),
            (by_third + "grown.record_stream(third)\n" + shrinks.format("main"), False),
            (by_third + shrinks.format("main"), True),
            (by_side + ends, False),
            (by_main + ends, False),
            (by_third + ends, True),
        ):
            with self.subTest(program):
                said = self.succeeds(program, before=self.before + RACE)
                self.assertEqual(said.split(), [str(expected)])

    def test_graphs_use_it_while_it_grows(self):
        self.runs("""
            grown = GrowingTensor(1 << 30, dtype=torch.uint8)
            tensor = grown.grow(MIB)
            x = torch.zeros_like(tensor)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                tensor.copy_(x)
                assert error_of(lambda: grown.grow(10 * MIB)).name == "MEND_ERROR_CAPTURING"
            assert len(grown) == MIB
            more = grown.grow(10 * MIB)
            x.copy_(torch.full((MIB,), 7, dtype=torch.uint8))
            graph.replay()
            torch.cuda.synchronize()
            assert more[:MIB].cpu().eq(7).all()
            """)

    def test_it_may_go_in_a_capture(self):
        self.runs("""
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                grown = GrowingTensor(1 << 30, dtype=torch.uint8)
                grown.grow(MIB)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):
                empty(MIB)
                del grown
                gc.collect()
            ends()
            """)

    # ---- beside the rest of Mend -----------------------------------------------------------------

    def test_pages_sleep(self):
        self.runs("""
            with libmend.torch.sleep_tag("cache"):
                grown = GrowingTensor(1 << 30, dtype=torch.int64)
            tensor = grown.grow(MIB)  # 8 MiB, of its tag
            tensor.copy_(numbers(MIB))
            other = torch.zeros(MIB, device="cuda")
            assert libmend.torch.sleep({"cache": "host"}).host_bytes == 8 * MIB
            assert libmend.torch.is_asleep(tensor) and not libmend.torch.is_asleep(other)
            assert grown.info()["asleep_bytes"] == grown.info()["committed_bytes"] == 8 * MIB
            libmend.torch.wake("cache")
            assert torch.equal(tensor.cpu(), numbers(MIB))

            libmend.torch.sleep()
            grown.grow(MIB)[MIB:].copy_(numbers(MIB))  # new pages are awake
            assert grown.info()["asleep_bytes"] == 8 * MIB
            grown.resize(MIB // 2)
            assert grown.info()["asleep_bytes"] == 4 * MIB
            libmend.torch.wake()
            assert torch.equal(grown.tensor.cpu(), numbers(MIB // 2))
            del grown, tensor
            ends()
            """)

    def test_pages_sleep_beside_other_streams(self):
        self.runs("""
            side = torch.cuda.Stream()
            grown = GrowingTensor(1 << 30, dtype=torch.int64)
            grown.grow(1000)
            libmend.torch.sleep()
            with torch.cuda.stream(side):
                # On a page that sleeps, which this stream does not know.
                assert error_of(lambda: grown.grow(1000)).name == "MEND_ERROR_ASLEEP"
                assert len(grown) == 1000
                grown.resize(0)  # nothing uses it
                grown.grow(1000).copy_(numbers(1000))
                assert torch.equal(grown.tensor.cpu(), numbers(1000))
            assert grown.info()["asleep_bytes"] == 0
            libmend.torch.wake()
            del grown
            ends()
            """)

    def test_beside_pytorchs_own_cache(self):
        self.runs(
            """
            grown = GrowingTensor(1 << 30, dtype=torch.int64)
            tensor = grown.grow(1000)
            tensor.copy_(numbers(1000))
            tensor.record_stream(torch.cuda.Stream())
            assert torch.equal((tensor.cpu()), numbers(1000))
            assert torch.cuda.get_allocator_backend() == "native"
            del tensor, grown
            ends()
            """,
            before=BEGIN + GROWING,
        )

    def test_what_cannot_be_says_so(self):
        self.runs("""
            for wrong in (0, (), (0, 5), (5, 0), -1, 1 << 62):
                error_of(lambda: GrowingTensor(wrong), ValueError)
            for wrong in ("5", 1.5, (2.0,)):
                error_of(lambda: GrowingTensor(wrong), TypeError)
            assert "2^46" in message_of(lambda: GrowingTensor(1 << 50))
            assert "page" in message_of(lambda: GrowingTensor(5, page_bytes=1000))
            grown = GrowingTensor(10 * MIB, dtype=torch.uint8)
            block = empty(MIB)
            grown.grow(5 * MIB)
            shown = sum(part["allocated_size"] for part in torch.cuda.memory_snapshot())
            assert shown == torch.cuda.memory_allocated() > 5 * MIB, shown
            del grown  # what it had is free memory without an address, and shown as such
            gc.collect()
            shown = sum(part["total_size"] for part in torch.cuda.memory_snapshot())
            assert shown == torch.cuda.memory_reserved() > 5 * MIB, shown
            grown = GrowingTensor(10 * MIB, dtype=torch.uint8)
            text = str(error_of(lambda: grown.grow(11 * MIB), ValueError))
            assert "the length would be 11534336; it is 0 to 10485760" in text, text
            grown.grow(10 * MIB)
            error_of(lambda: grown.shrink(11 * MIB), ValueError)
            error_of(lambda: grown.grow(-1), ValueError)
            for pages in ((-1, 5), (6, 5), (0, 10 * MIB + 1)):
                error_of(lambda: grown.commit(*pages), ValueError)
                error_of(lambda: grown.decommit(*pages), ValueError)
            error_of(lambda: grown.tensor.resize_(11 * MIB), RuntimeError)
            assert len(grown) == 10 * MIB and committed() == 10 * MIB
            """)

    def test_the_example_prints_what_is_documented(self):
        self.prints_what_is_documented("torch_growing")
        self.prints_what_is_documented("torch_kv_cache")
