"""vLLM's sleep mode over Mend: the scenarios of its tests of CuMemAllocator. A stub of vLLM has the
seam, and Mend's plug-in is called as its loader does. Run by real.py as torch_real.py is."""

from programs import ENABLED, Programs

VLLM = """
import os, sys, types
REDUCE = "vllm.distributed.device_communicators.custom_all_reduce"
parts = REDUCE.split(".")
packages = [".".join(parts[:count]) for count in range(1, 5)]
for name in (*packages, "vllm.device_allocator", "vllm.device_allocator.cumem", "vllm.worker"):
    sys.modules[name] = types.ModuleType(name)

class CustomAllreduce:
    def all_reduce(self, inp, *, out=None, registered=False):
        return inp, out, registered

sys.modules[REDUCE].CustomAllreduce = CustomAllreduce
cumem = sys.modules["vllm.device_allocator.cumem"]
cumem.cumem_available, cumem.CuMemAllocator = False, type("CuMemAllocator", (), {})
sys.modules["vllm.device_allocator"].cumem = cumem
sys.modules["vllm"].device_allocator = sys.modules["vllm.device_allocator"]
sys.modules["vllm.worker"].CuMemAllocator = cumem.CuMemAllocator
import libmend.vllm
libmend.vllm.register(), libmend.vllm.register()
from vllm.device_allocator.cumem import CuMemAllocator
allocator = CuMemAllocator.get_instance()

def free():
    return torch.cuda.mem_get_info()[0]

def awake():
    data = allocator.pointer_to_data.values()
    return sum(data.handle[1] for data in data if not data.is_asleep) // MIB
"""


class Vllm(Programs):
    before = ENABLED + VLLM

    def test_it_takes_the_place_of_the_allocator(self):
        self.runs("""
            assert cumem.cumem_available and CuMemAllocator is libmend.vllm.CuMemAllocator
            assert sys.modules["vllm.worker"].CuMemAllocator is CuMemAllocator
            assert CuMemAllocator.get_instance() is allocator
            outside = filled(0, 4)
            with allocator.use_memory_pool():
                first, second = filled(1, 4), filled(2, 4)
            before = free()
            assert awake() == 8 and allocator.get_current_usage() == 8 * MIB
            allocator.sleep()
            assert free() - before >= 8 * MIB and awake() == 0
            assert allocator.get_current_usage() == 8 * MIB
            allocator.wake_up()
            assert awake() == 8 and holds(outside, 0) and holds(first, 1) and holds(second, 2)
            """)

    def test_levels_and_selective_wakes(self):
        """Sleeping memory keeps its backup when all is put to sleep again."""
        self.runs("""
            with allocator.use_memory_pool("runtime"):
                runtime = filled(7, 8)
                with allocator.use_memory_pool("kv_cache"):
                    cache = filled(6, 16)
            for first in (("weights",), ()):
                for second in (("weights",), ()):
                    with allocator.use_memory_pool("weights"):
                        weights = filled(5, 32)
                    allocator.sleep(first)
                    allocator.wake_up(["kv_cache"])
                    assert awake() == 24, awake()
                    allocator.sleep(second)
                    allocator.sleep(second)
                    assert awake() == 0
                    allocator.wake_up(["weights"])
                    assert awake() == 40 and holds(runtime, 7)
                    allocator.wake_up()
                    assert not first or holds(weights, 5)
                    del weights
            allocator.discard("kv_cache")
            assert awake() == 8 and holds(runtime, 7)
            allocator.wake_up()
            assert awake() == 24
            """)

    def test_host_memory_stays_unless_vllm_releases_it(self):
        """VLLM_SLEEP_MODE_RELEASE_HOST_MEMORY. By default it is there for the next sleep."""
        self.runs("""
            def kept():
                return libmend.stats()["backup_cache_bytes"] // MIB

            with allocator.use_memory_pool("weights"):
                weights = filled(5, 64)
            for value, left in (("0", 64), ("1", 0)):
                os.environ["VLLM_SLEEP_MODE_RELEASE_HOST_MEMORY"] = value
                allocator.sleep(("weights",))
                allocator.wake_up()
                assert kept() == left and holds(weights, 5), kept()
            """)

    def test_a_trainer_takes_what_sleeps_leave_in_the_pool(self):
        """MEND_VLLM=keep_free: neither the trainer nor the wake creates memory."""
        self.runs("""
            def creations():
                return libmend.stats()["chunks_created"]

            with allocator.use_memory_pool("weights"):
                weights = filled(5, 256)
            for value, is_kept in (("1", False), ("keep_free", True)):
                os.environ["MEND_VLLM"] = value
                before, created = free(), creations()
                allocator.sleep(("weights",))
                assert (free() == before) is is_kept, (free() - before) // MIB
                trainer = [filled(6, 64) for _ in range(4)]
                assert (creations() == created) is is_kept
                del trainer
                allocator.wake_up()
                assert (creations() == created) is is_kept and holds(weights, 5)
            """)

    def test_graphs_sleep_where_their_pool_is_asked_for(self):
        self.runs("""
            with allocator.use_memory_pool("weights"):
                weights = filled(7, 16)
            target = empty(16 * MIB)
            graph = torch.cuda.CUDAGraph()
            with allocator.use_cudagraph_pool() as shared:
                pass
            with allocator.use_cudagraph_pool() as pool, torch.cuda.graph(graph, pool=pool):
                assert pool == shared and allocator.current_tag == CuMemAllocator.cudagraph_tag
                temporary = empty(64 * MIB)
                temporary[: 16 * MIB].copy_(weights)
                target.copy_(temporary[: 16 * MIB])
                del temporary
            torch.cuda.empty_cache()
            before = free()
            allocator.sleep(("weights",))
            assert free() - before >= 76 * MIB, (free() - before) // MIB
            allocator.wake_up()
            graph.replay()
            torch.cuda.synchronize()
            assert holds(target, 7)
            allocator.release_cudagraph_pool()
            for asked, given in ((None, False), (shared, True)):
                with allocator.use_cudagraph_pool(asked) as pool:
                    assert (pool == shared) is given
            """)

    def test_the_cache_takes_what_profiling_leaves(self):
        """As determine_available_memory: by the peak of allocated bytes, and other users'
        memory."""
        self.runs("""
            total = torch.cuda.mem_get_info()[1]
            with allocator.use_memory_pool("weights"):
                weights = filled(1, 128)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            temporary = [empty(size * MIB) for size in (90, 30, 180)]
            del temporary
            peak = torch.cuda.memory_stats()["allocated_bytes.all.peak"]
            torch.cuda.empty_cache()
            others = total - free() - torch.cuda.memory_reserved()
            with allocator.use_memory_pool("kv_cache"):
                cache = empty(int(total * 0.98) - peak - others)
            for sizes in ((300,), (150, 150), (20,) * 15):  # and it fits beside the activations
                temporary = [empty(size * MIB) for size in sizes]
                del temporary
            assert cache.numel() > 500 * MIB, cache.numel() // MIB
            """)

    def test_what_graphs_reduce_is_not_registered(self):
        """cudaIpcGetMemHandle takes no virtual memory. vLLM's buffer for eager mode serves."""
        self.runs("""
            communicator = CustomAllreduce()
            assert communicator.all_reduce(1, registered=True) == (1, None, False)
            assert communicator.all_reduce(inp=1, out=2) == (1, 2, False)
            """)

    def test_graphs_may_have_memory_that_legacy_handles_take(self):
        """MEND_TORCH_GRAPHS=native. The driver's word for both kinds."""
        self.runs(
            """
            import ctypes
            driver = ctypes.CDLL("libcuda.so.1")

            def is_legacy(tensor):  # CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
                answer, address = ctypes.c_ubyte(2), ctypes.c_uint64(tensor.data_ptr())
                assert driver.cuPointerGetAttribute(ctypes.byref(answer), 10, address) == 0
                handle = (ctypes.c_ubyte * 64)()
                got = driver.cudaIpcGetMemHandle(handle, ctypes.c_void_p(tensor.data_ptr()))
                assert got == (0 if answer.value else 1), got  # cudaErrorInvalidValue
                driver.cudaGetLastError()
                return answer.value

            weights = empty(MIB)
            graph = torch.cuda.CUDAGraph()
            for _ in range(2):
                with torch.cuda.graph(graph):
                    within = torch.zeros(MIB, dtype=torch.uint8, device="cuda")
                    copied = weights.clone()
                    del within
                weights.copy_(torch.full((MIB,), 3, dtype=torch.uint8))
                graph.replay()
                torch.cuda.synchronize()
                kinds = [is_legacy(tensor) for tensor in (copied, weights, empty(MIB))]
                assert kinds == [1, 0, 0], kinds  # outside of graphs all is Mend's
                assert copied.cpu().eq(3).all(), copied
                assert torch.cuda.memory_reserved() > libmend.stats()["reserved_bytes"]
                graph.reset()
                del copied
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == libmend.stats()["reserved_bytes"]
            """,
            before=ENABLED,
            MEND_TORCH_GRAPHS="native",
        )

    def test_without_mend_vllm_keeps_its_own(self):
        self.succeeds(
            """
            assert CuMemAllocator is not libmend.vllm.CuMemAllocator
            assert CustomAllreduce().all_reduce(1, registered=True) == (1, None, True)
            """,
            before=ENABLED + VLLM.rsplit("allocator =", 1)[0],
            MEND_VLLM="0",
        )
