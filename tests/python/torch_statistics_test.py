"""The figures of mend.torch, which are those of PyTorch's allocator by name and meaning."""
import unittest

import torch_test
from support import ProgramTest


class Statistics(ProgramTest):
    prelude = torch_test.ENABLED

    def test_the_keys_are_pytorchs(self):
        self.succeeds("""
            torch.empty(1)
            metrics = ["allocation", "segment", "active", "inactive_split"]
            metrics += ["allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"]
            metrics += ["inactive_split_bytes"]
            ends = ["current", "peak", "allocated", "freed"]
            pools = ["all", "small_pool", "large_pool"]
            keys = {f"{m}.{p}.{e}" for m in metrics for p in pools for e in ends}
            keys |= {f"oversize_{m}.{e}" for m in ("allocations", "segments") for e in ends}
            keys |= {"num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc"}
            keys |= {"num_device_free", "num_oom_rejections", "max_split_size"}
            assert set(torch.cuda.memory_stats()) == keys
            """)

    def test_figures_are_those_of_the_pool(self):
        self.succeeds("""
            tensors = [torch.empty(size) for size in (1000, 3 * MIB, 200 * MIB)]
            del tensors[1]
            stats, ours = torch.cuda.memory_stats(), mend.stats()
            assert stats["allocation.all.current"] == 2
            assert stats["allocation.small_pool.current"] == 1
            assert stats["allocated_bytes.all.current"] == 1024 + 200 * MIB
            assert stats["allocated_bytes.small_pool.current"] == 1024
            assert stats["requested_bytes.all.current"] == 1000 + 200 * MIB
            assert stats["allocated_bytes.all.allocated"] == 1024 + 203 * MIB
            assert stats["allocated_bytes.all.freed"] == 3 * MIB
            assert torch.cuda.memory_allocated() == ours["live_bytes"]
            assert torch.cuda.max_memory_allocated() == 1024 + 203 * MIB
            assert torch.cuda.memory_reserved() == ours["reserved_bytes"]
            assert torch.cuda.max_memory_reserved() == ours["peak_reserved_bytes"]
            """)

    def test_figures_add_up(self):
        """Of each metric: what came less what went is there; peaks are no less; the two pools
        make the whole, of what is there and of what came."""
        self.succeeds("""
            import random
            random.seed(7)
            tensors = [torch.empty(500), torch.empty(70000)]
            for step in range(300):
                tensors.append(torch.empty(random.choice([500, 70000, 3 * MIB, 12 * MIB])))
                if len(tensors) > 12:
                    del tensors[random.randrange(len(tensors))]
                if step == 100:
                    torch.cuda.reset_peak_memory_stats()
                stats = torch.cuda.memory_stats_as_nested_dict()
                for name, pools in stats.items():
                    if not isinstance(pools, dict) or "all" not in pools:
                        continue
                    for metric in pools.values():
                        assert metric["allocated"] - metric["freed"] == metric["current"], name
                        assert metric["peak"] >= metric["current"], name
                        assert min(metric.values()) >= 0, (name, metric)
                    for end in ("current", "allocated"):
                        parts = pools["small_pool"][end] + pools["large_pool"][end]
                        assert parts == pools["all"][end], (name, end)
            """)

    def test_resets(self):
        self.succeeds("""
            torch.empty(100 * MIB)
            tensor = torch.empty(MIB)
            torch.cuda.reset_peak_memory_stats()
            assert torch.cuda.max_memory_allocated() == MIB
            torch.cuda.reset_accumulated_memory_stats()
            stats = torch.cuda.memory_stats()
            assert stats["allocation.all.allocated"] == stats["allocated_bytes.all.allocated"] == 0
            assert stats["allocation.all.current"] == 1
            del tensor
            assert torch.cuda.memory_stats()["allocated_bytes.all.freed"] == MIB
            """)

    def test_nothing_is_negative_after_a_reset(self):
        """What was there at the reset goes, and what was small becomes large."""
        self.succeeds("""
            def look():
                for name, pools in torch.cuda.memory_stats_as_nested_dict().items():
                    if isinstance(pools, dict) and "all" in pools:
                        for metric in pools.values():
                            assert min(metric.values()) >= 0, (name, pools)
            tensors = [torch.empty(500), torch.empty(3 * MIB)]
            torch.cuda.reset_accumulated_memory_stats()
            look()
            tensors.clear()
            look()
            torch.cuda.empty_cache()
            look()
            tensors = [torch.empty(1000) for _ in range(10000)]
            torch.cuda.reset_accumulated_memory_stats()
            tensors.clear()
            tensors = torch.empty(900 * MIB)
            look()
            del tensors
            torch.cuda.reset_accumulated_memory_stats()
            tensors = [torch.empty(1000) for _ in range(10000)]
            look()
            """)

    def test_out_of_memory_is_counted(self):
        self.succeeds("""
            message_of(lambda: torch.empty(2 << 30))
            assert torch.cuda.memory_stats()["num_ooms"] == 1
            assert torch.cuda.memory_summary().startswith("CUDA OOMs: 1 ")
            """)

    def test_memory_info_is_the_drivers(self):
        """Under every name a program knows it by: what Mend holds is counted as reserved, and by
        nothing else. The stand-in's driver says 600 MiB, and knows nothing of the device."""
        self.succeeds("""
            torch.empty(100 * MIB)
            assert torch.cuda.mem_get_info() == (600 * MIB, 1 << 30)
            assert torch.cuda.memory.mem_get_info() == (600 * MIB, 1 << 30)
            assert torch._C._accelerator_getMemoryInfo(0) == (600 * MIB, 1 << 30)
            assert torch._C._accelerator_isAllocatorInitialized()
            """)

    def test_what_programs_compute_from_the_figures_is_right(self):
        """The formulas of ComfyUI, vLLM and accelerate, after a step with large temporaries, on a
        device of which another process holds 100 MiB."""
        self.succeeds("""
            TOTAL, OTHERS = 1 << 30, 100 * MIB
            lent = lambda: device.ledger()["chunk_bytes"]
            torch.cuda.cudart().cudaMemGetInfo = staticmethod(
                lambda index: (TOTAL - OTHERS - lent(), TOTAL)
            )
            kept = [torch.empty(200 * MIB), torch.empty(300)]
            temporaries = [torch.empty(size) for size in (250 * MIB, 3 * MIB, 7000, 90 * MIB)]
            kept.append(torch.empty(5 * MIB))
            del temporaries

            def look():
                free, total = torch.cuda.mem_get_info()
                stats = torch.cuda.memory_stats()
                reserved = stats["reserved_bytes.all.current"]
                active = stats["active_bytes.all.current"]
                assert (reserved, active) == (torch.cuda.memory_reserved(), 205 * MIB + 512)
                # ComfyUI, get_free_memory: what this process can still use.
                assert free + reserved - active == TOTAL - OTHERS - active
                # vLLM, MemorySnapshot.non_torch_memory: what others hold.
                assert total - free - reserved == OTHERS
                # accelerate, get_max_memory: what can be had beside all that is reserved.
                assert free == TOTAL - OTHERS - reserved
                return free, reserved

            free, reserved = look()
            assert reserved > 500 * MIB and free < 500 * MIB
            torch.cuda.empty_cache()
            free_after, reserved_after = look()
            assert free_after - free == reserved - reserved_after > 250 * MIB
            kept.append(torch.empty(free_after))
            """)

    def test_before_the_first_tensor_there_are_none(self):
        self.succeeds("""
            assert torch.cuda.memory_stats() == {} and torch.cuda.memory_allocated() == 0
            assert not torch.cuda.is_initialized()
            """)


if __name__ == "__main__":
    unittest.main()
