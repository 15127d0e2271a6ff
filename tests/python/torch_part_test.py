"""libmend.torch.pool() over a stub of PyTorch: Mend for a part of a program."""

import torch_test
from support import ProgramTest


class Part(ProgramTest):
    prelude = torch_test.PRELUDE + "torch.cuda._lazy_init()\n"

    def test_only_this_thread_takes_part(self):
        self.succeeds("""
            import threading
            with libmend.torch.pool():
                thread = threading.Thread(target=lambda: torch.empty(1000))
                thread.start(), thread.join()
                assert libmend.stats()["live_blocks"] == 0
                torch.empty(1000)
                assert libmend.stats()["live_blocks"] == 1
            torch.empty(1000)
            assert libmend.stats()["live_blocks"] == 1
            """)

    def test_segments_are_blocks(self):
        self.succeeds("""
            with libmend.torch.pool() as pool:
                segment = pool.segment(20 << 20)
                assert libmend.stats()["live_bytes"] == 20 << 20
            pool.allocator.raw_delete(segment)
            assert libmend.stats()["live_blocks"] == 0
            """)

    def test_null_is_out_of_memory(self):
        self.succeeds("""
            with libmend.torch.pool() as pool:
                assert isinstance(error_of(pool.segment, 2 << 30), torch.OutOfMemoryError)
                assert pool.segment(2 << 20)
            """)

    def test_there_is_one_pool_and_it_may_be_entered_twice(self):
        self.succeeds("""
            with libmend.torch.pool() as first:
                with libmend.torch.pool() as second:
                    assert first is second
                assert first.is_used
            assert not first.is_used
            with libmend.torch.pool() as third:
                assert first is third and third.is_used
            """)

    def test_a_pool_of_ones_own(self):
        self.succeeds("""
            own = libmend.torch.mem_pool()
            with libmend.torch.pool() as shared, libmend.torch.pool(own) as pool:
                assert pool is own is not shared and own.is_used
            torch.__version__ = "2.6.1"
            assert "2.7 is the first" in str(error_of(libmend.torch.mem_pool))
            with libmend.torch.pool() as again:
                assert again is shared
            """)

    def test_an_error_inside_leaves_the_pool_usable(self):
        self.succeeds("""
            for _ in range(2):
                try:
                    with libmend.torch.pool() as pool:
                        raise ValueError
                except ValueError:
                    assert not pool.is_used
            """)

    def test_pytorch_without_pools(self):
        self.succeeds("""
            del torch.cuda.MemPool
            assert "2.5 is the first" in str(error_of(libmend.torch.pool().__enter__))
            """)


class PartOfTheWhole(torch_test.ClassTest):
    def test_after_enable_all_is_ours_already(self):
        self.enable("""
            with libmend.torch.pool() as pool:
                assert pool is None
            own = libmend.torch.mem_pool()
            assert type(own) is torch.cuda.MemPool and own.allocator is None
            with libmend.torch.pool(own) as pool:
                assert pool is own and own.is_used
            """)
