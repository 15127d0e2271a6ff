"""Memory for PyTorch that is not mapped, or lies in one chunk: plain blocks, PyTorch without a
cache, and a device that has neither virtual memory nor pools."""

import textwrap

from programs import BEGIN, Programs


class Plain(Programs):
    def test_a_scope_of_plain_blocks(self):
        self.runs("""
            with libmend.plain():
                plain = empty(50 * MIB)
            other = empty(MIB)
            assert libmend.stats()["passed_bytes"] == 50 * MIB
            assert torch.cuda.memory_allocated() == 51 * MIB
            del plain
            assert device.ledger()["plain_bytes"] == 0
            assert torch.cuda.memory_allocated() == MIB
        """)

    def test_without_a_cache_a_free_goes_to_the_device(self):
        self.succeeds_from_the_start(
            """
            libmend.torch.enable()
            tensors = [empty(100 * MIB) for _ in range(2)]
            assert device.ledger()["plain_bytes"] == 200 * MIB
            tensors.pop()
            assert device.ledger()["plain_bytes"] == 100 * MIB
            """,
            PYTORCH_NO_CUDA_MEMORY_CACHING="1",
        )

    def test_a_thread_s_options_are_those_of_its_tensors(self):
        self.runs("""
            with libmend.alloc_options(in_one_chunk=True, alignment=MIB):
                tensor = empty(100 * MIB)
            assert libmend.stats()["pinned_bytes"] == 100 * MIB
            assert tensor.data_ptr() % MIB == 0
        """)

    def test_on_a_bare_device_pytorch_keeps_its_allocator(self):
        """With its cache, its pools and its graphs, decided at the first use."""
        program = """
            libmend.torch.enable()
            assert not libmend._devices.has_pool(-1)
            kept = empty(30 * MIB)
            del kept
            assert (libmend.stats()["live_blocks"], libmend.stats()["bare_device"]) == (0, 1)
            assert device.ledger()["plain_bytes"] == 30 * MIB  # in PyTorch's cache
            assert torch.cuda.memory_reserved() == 30 * MIB
            with torch.cuda.stream(torch.cuda.Stream()):
                kept = empty(30 * MIB)
                kept.record_stream(torch.cuda.default_stream())
            assert torch.cuda.memory_allocated() == 30 * MIB
            with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
                empty(MIB)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                inside = empty(MIB)
            graph.replay()
            del kept, inside, graph
            torch.cuda.empty_cache()
            assert libmend.stats()["live_blocks"] == 0
            assert message_of(lambda: empty(2 << 30)).startswith("CUDA out of memory")
        """
        text = BEGIN + textwrap.dedent(program)
        self.simulates("--memory=1GiB", "-c", text, MEND_SIMULATE_BARE="1")
