"""MemPools with an allocator of the program's beside Mend: the memory fraction, and pools that
serve others where memory runs out. PyTorch has both from 2.8 on. Run by real.py as torch_real.py
is. Where a program prints, it prints the same under PyTorch's own allocator."""

from probes import PROBE, PROBED, Probed
from programs import NATIVE

POOLS = """
if VERSION < (2, 8):  # it does not say which allocator a pool has
    raise SystemExit(0)
own = torch.cuda.memory.CUDAPluggableAllocator(
    os.environ["MEND_TEST_PROBE"], "probe_take", "probe_give"
)

def pool_of_own(**marks):
    return torch.cuda.MemPool(own.allocator(), **marks)

def empty_in(pool, mib):
    with torch.cuda.use_mem_pool(pool):
        return empty(mib * MIB)

def fits(mib, pool=None):
    try:
        return (empty(mib * MIB) if pool is None else empty_in(pool, mib)) is not None
    except torch.OutOfMemoryError:
        return False

def allowed(mib):
    torch.cuda.set_per_process_memory_fraction(mib / 1024)
"""


class Pools(Probed):
    before = PROBED + POOLS

    def is_as_native(self, program):
        natively = self.succeeds(program, before=NATIVE + PROBE + POOLS)
        self.assertEqual(self.succeeds(program), natively)

    # ---- figures ---------------------------------------------------------------------------------

    def test_peaks_are_those_of_sums(self):
        """Of one moment, in the pool and outside, not sums of peaks."""
        self.is_as_native("""
            KEYS = "allocated_bytes", "active_bytes", "requested_bytes", "allocation", "active"
            PARTS = "all", "large_pool"

            def peaks():
                gc.collect()
                torch.cuda.empty_cache()
                stats = torch.cuda.memory_stats()
                return [stats[f"{key}.{part}.peak"] for key in KEYS for part in PARTS]

            pool = pool_of_own()
            inside = empty_in(pool, 200)
            del inside
            outside = empty(220 * MIB)
            print(peaks(), torch.cuda.max_memory_reserved() == 220 * MIB)
            inside = empty_in(pool, 100)
            outside = None
            outside = empty(60 * MIB)
            print(peaks())
            torch.cuda.reset_peak_memory_stats()
            print(peaks(), torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated())
            del inside, pool
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                captured = empty(50 * MIB)
            print(peaks())
            del captured, graph
            outside = None
            outside = empty(150 * MIB)
            print(peaks())
            """)

    # ---- the memory fraction ---------------------------------------------------------------------

    def test_a_capture_reuses_what_a_side_stream_used(self):
        """pytorch 155398: a step that fits outside of captures, but for this."""
        self.runs("""
            side = torch.cuda.Stream()

            def step():
                main = torch.cuda.current_stream()
                for _ in range(20):
                    x = empty(128 * MIB)
                    side.wait_stream(main)
                    with torch.cuda.stream(side):
                        x.fill_(1)
                    x.record_stream(side)
                    main.wait_stream(side)
                    del x

            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            graph.replay()
            torch.cuda.synchronize()
            assert torch.cuda.memory_reserved() < 300 * MIB, torch.cuda.memory_reserved()
            """)

    def test_a_fraction_limits_mend_and_pools_with_an_allocator_together(self):
        self.is_as_native("""
            allowed(256)
            pool = pool_of_own()
            inside = empty_in(pool, 100)
            print(fits(200), fits(150), fraction())
            torch.cuda.empty_cache()  # natively a pool that is in use gets none of the cache
            outside = empty(140 * MIB)
            print(fits(40, pool), fits(10, pool), fits(40))
            print(torch.cuda.memory_allocated() // MIB, torch.cuda.memory_reserved() <= 256 * MIB)
            del inside  # it stays with the pool
            print(fits(100), fits(100, pool))
            del pool
            gc.collect()
            print(fits(100), fits(150))
            del outside
            print(fits(250), fits(260))
            """)

    def test_a_fraction_that_is_changed_while_a_pool_has_memory(self):
        self.is_as_native("""
            pool = pool_of_own()
            inside = empty_in(pool, 300)
            allowed(400)
            print(fits(150), fits(90), fits(150, pool))
            torch.cuda.empty_cache()
            print(fits(90, pool), fits(30))
            allowed(256)  # less than is in use
            print(fits(1), fits(1, pool), fraction())
            allowed(800)
            torch.cuda.empty_cache()
            print(fits(420), fits(390))
            allowed(1024)
            print(fits(600), fits(1100))
            """)

    def test_free_memory_of_mends_makes_room_for_a_pool(self):
        """Natively a pool that is in use gets none of the cache's memory."""
        self.succeeds("""
            pool = pool_of_own()
            empty(900 * MIB)
            assert fits(200, pool)  # the device has 1 GiB
            del pool
            gc.collect()
            torch.cuda.empty_cache()
            allowed(256)
            pool = pool_of_own()
            empty(200 * MIB)
            assert fits(100, pool)
            assert libmend.stats()["reserved_bytes"] <= 156 * MIB
            assert torch.cuda.memory_reserved() <= 256 * MIB
            """)

    def test_out_of_memory_tells_of_the_whole_fraction(self):
        self.succeeds("""
            allowed(256)
            inside = empty_in(pool_of_own(), 100)
            told = []
            torch._C._cuda_attach_out_of_memory_observer(lambda *event: told.append(event))
            text = message_of(lambda: empty(200 * MIB))
            assert "256.00 MiB allowed, of which 100.00 MiB are in memory pools with" in text, text
            assert [event[2] for event in told] == [256 * MIB], told
            libmend.set_limit(200 * MIB)  # the program's own limit, which such pools do not lower
            empty_in(pool_of_own(), 20)
            assert libmend.stats()["limit_bytes"] == 200 * MIB
            """)

    def test_an_allocator_of_the_programs_that_asks_mend_is_counted_once(self):
        self.succeeds("""
            from libmend import _library
            path = str(_library.path_of("mend_torch"))
            own = torch.cuda.memory.CUDAPluggableAllocator(
                path, "mend_torch_alloc_or_null", "mend_torch_free"
            )
            allowed(256)
            pool = torch.cuda.MemPool(own.allocator())
            inside = empty_in(pool, 150)
            assert fits(100)
            del inside, pool
            gc.collect()
            assert fits(250)
            """)

    def test_an_allocator_that_throws_leaves_nothing_counted(self):
        self.is_as_native("""
            throwing = torch.cuda.memory.CUDAPluggableAllocator(
                os.environ["MEND_TEST_PROBE"], "probe_take_or_throw", "probe_give"
            )
            allowed(256)
            pool = torch.cuda.MemPool(throwing.allocator())
            inside = empty_in(pool, 50)
            print([fits(150, pool) for _ in range(3)])
            print(fits(200))
            torch.cuda.empty_cache()  # natively a pool that is in use gets none of the cache
            print(fits(40, pool))
            del inside, pool
            gc.collect()
            torch.cuda.empty_cache()
            print(fits(250), fits(260))
            """)

    def test_threads_stay_within_a_fraction(self):
        self.succeeds("""
            allowed(256)
            wrong = []

            def work(seed, pool):
                kept = []
                for step in range(60):
                    mib = 1 + (step * 7 + seed * 13) % 40
                    try:
                        kept.append(empty_in(pool, mib) if step % 2 else empty(mib * MIB))
                    except torch.OutOfMemoryError:
                        kept.clear()
                    if torch.cuda.mem_get_info()[0] < (1024 - 256) * MIB:
                        wrong.append(torch.cuda.mem_get_info())

            # They do not end while one is in use: an assertion of PyTorch's, before 2.15.
            pools = [pool_of_own() for _ in range(4)]
            at_once(*(lambda each=each: work(*each) for each in enumerate(pools)))
            assert not wrong, wrong
            del pools
            gc.collect()
            assert fits(250) and not fits(260)
            """)

    # ---- use_on_oom ------------------------------------------------------------------------------

    def test_a_pool_that_is_marked_serves_what_is_out_of_memory(self):
        self.is_as_native("""
            allowed(256)
            pool, other = pool_of_own(use_on_oom=True), pool_of_own()
            first, second = empty_in(pool, 100), empty_in(other, 100)
            address = first.data_ptr()
            print(fits(90))
            del first, second
            told = []
            torch._C._cuda_attach_out_of_memory_observer(lambda *event: told.append(event))
            torch.cuda.memory._record_memory_history()
            third = empty(90 * MIB)
            snapshot = torch.cuda.memory._snapshot()
            torch.cuda.memory._record_memory_history(enabled=None)
            (trace,) = snapshot["device_traces"]
            (entry,) = [entry for entry in trace if entry["action"] == "alloc"]
            print(entry["size"] // MIB, entry["addr"] == address, len(entry["frames"]) > 0)
            print([entry["action"] for entry in trace].count("oom"), told)
            print(third.data_ptr() == address, torch.cuda.memory_allocated() // MIB)
            (segment,) = pool.snapshot()
            print([(block["size"] // MIB, block["state"]) for block in segment["blocks"]])
            print(fits(90), len(told))
            third.record_stream(torch.cuda.Stream())
            del third
            torch.cuda.synchronize()
            torch.cuda.empty_cache()  # natively events are asked for outside of pools
            fourth = empty_in(pool, 90)
            print(fourth.data_ptr() == address, torch.cuda.memory_allocated() // MIB)
            del fourth
            with torch.cuda.stream(torch.cuda.Stream()):
                print(fits(90))  # the memory is the first stream's
            print(fits(90), fits(90, other), fits(99))
            del pool
            gc.collect()
            print(fits(150), fits(250))
            """)

    def test_a_marked_pool_serves_where_the_device_is_full(self):
        self.is_as_native("""
            pool = pool_of_own(use_on_oom=True)
            first = empty_in(pool, 400)
            outside = empty(500 * MIB)
            print(fits(300))
            del first
            print(fits(300), fits(401))
            kept = empty(300 * MIB)
            print(fits(300), fits(90), torch.cuda.memory_allocated() // MIB)
            """)

    def test_small_requests_are_served_by_small_blocks_alone(self):
        self.is_as_native("""
            pool = pool_of_own(use_on_oom=True)
            large = empty_in(pool, 20)
            with torch.cuda.use_mem_pool(pool):
                kept = [empty(1000) for _ in range(3)]
            allowed(22)
            del large
            print(torch.cuda.memory_reserved() // MIB)
            first = empty(1000)
            print(torch.cuda.memory_allocated() == 4 * 1024)
            del kept
            second = empty(700 * 1024)
            print(torch.cuda.memory_allocated() == 1024 + 700 * 1024)
            print(fits(1), fits(2), torch.cuda.memory_reserved() // MIB)
            """)

    def test_a_marked_pool_that_another_thread_uses_is_left_alone(self):
        """Natively the request fails with "already recording to mempool_id"."""
        self.succeeds("""
            allowed(256)
            pool = pool_of_own(use_on_oom=True)
            empty_in(pool, 200)
            inside, done = threading.Event(), threading.Event()

            def work():
                with torch.cuda.use_mem_pool(pool):
                    inside.set()
                    done.wait()

            thread = threading.Thread(target=work)
            thread.start()
            inside.wait()
            assert "CUDA out of memory. Tried" in message_of(lambda: empty(100 * MIB))
            done.set()
            thread.join()
            assert fits(100)
            del pool
            gc.collect()
            assert fits(250)
            """)

    def test_marked_pools_come_and_go_while_threads_use_them(self):
        self.succeeds("""
            allowed(256)
            torch.cuda.memory._record_memory_history()  # stacks, for which threads run Python
            held = pool_of_own()
            filling = empty_in(held, 200)
            end = threading.Event()
            served = []

            def ask():
                while not end.is_set():
                    served.append(fits(20))

            threads = [threading.Thread(target=ask) for _ in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(60):
                pool = pool_of_own(use_on_oom=True)
                fits(40, pool)
                del pool
                gc.collect()
            end.set()
            for thread in threads:
                thread.join()
            del filling, held
            gc.collect()
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 0 and fits(250)
            """)

    def test_the_memory_of_a_graph_serves_others_if_its_pool_is_marked(self):
        self.is_as_native("""
            stream = torch.cuda.Stream()
            for marks in ({}, {"use_on_oom": True}):
                pool = torch.cuda.MemPool(**marks)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool.id, stream=stream):
                    kept = empty(600 * MIB)
                    del kept
                print(fits(500))
                with torch.cuda.stream(stream):
                    print(fits(500))
                del graph, pool
                gc.collect()
                torch.cuda.empty_cache()
                print(fits(900))
            """)

    def test_free_memory_of_a_marked_pool_of_mends_serves_others(self):
        self.is_as_native("""
            pool = torch.cuda.MemPool(use_on_oom=True)
            tensor = empty_in(pool, 600)
            print(fits(600))
            del tensor
            print(fits(600))
            """)
