"""torch_memory_saver's interface over Mend: the scenarios of that package's examples. Kernels do
nothing on the simulated device. Copies and fills with zeros do. Run by real.py as torch_real.py
is."""

from programs import ENABLED, Programs

SAVER = """
import os, tempfile, warnings
from libmend.torch.memory_saver import configure_subprocess, torch_memory_saver as saver

def used_mib():
    free, total = torch.cuda.mem_get_info()
    return (total - free) // MIB
"""


class Saver(Programs):
    before = ENABLED + SAVER

    def test_regions_are_paused_and_resumed_by_tag(self):
        self.runs("""
            saver.hook_mode = "preload"
            outside = filled(1)
            with saver.region("weights", enable_cpu_backup=True, cpu_backup_backend="mmap"):
                weights = filled(2, 64)
            with saver.region("kv_cache"):
                cache = filled(3, 128)
                with saver.region("nested", enable_disk_backup=True):
                    nested = filled(4)
            addresses = [weights.data_ptr(), cache.data_ptr()]
            assert used_mib() == 256
            for tag, left in (("kv_cache", 128), ("weights", 64), ("nested", 32)):
                saver.pause(tag)
                assert used_mib() == left, (tag, used_mib())
            assert holds(outside, 1)
            error = error_of(lambda: saver.pause("weights"))
            assert error.name == "MEND_ERROR_ASLEEP", error
            trainer = filled(9, 512)
            del trainer
            saver.resume("weights")
            torch.cuda.empty_cache()
            assert holds(weights, 2) and used_mib() == 96
            saver.resume()
            assert holds(nested, 4) and used_mib() == 256
            cache.zero_()
            assert holds(cache, 0) and addresses == [weights.data_ptr(), cache.data_ptr()]
            saver.pause()
            assert used_mib() == 32
            saver.resume()
            assert holds(weights, 2) and holds(nested, 4)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                saver.pause("nobody"), saver.resume("nobody")
            """)

    def test_memory_of_graphs_is_paused_too(self):
        """A trainer's 512 MiB are awake, and no more. Other graphs are captured meanwhile, in the
        same pool, and one ends."""
        self.runs("""
            source, target = filled(7, 64), torch.zeros(64 * MIB, dtype=torch.uint8).cuda()
            trainer = filled(1, 512 - 2 * 64)

            def capture(mib, pool=None):
                graph = torch.cuda.CUDAGraph()
                with saver.cuda_graph(graph, pool=pool, tag="graph"):
                    temporary = empty(mib * MIB)
                    temporary.copy_(source[: mib * MIB])
                    target[: mib * MIB].copy_(temporary)
                    del temporary
                return graph

            def replays(graph, mib):
                target.zero_()
                graph.replay()
                return holds(target[: mib * MIB], 7)

            first = capture(60)
            second = capture(50, first.pool())
            torch.cuda.empty_cache()
            before = used_mib()
            saver.pause("graph")
            held = used_mib()  # and seeds of the graphs, in a chunk of 2 MiB
            assert held <= 520 and before > 560, (before, held)
            third = capture(40, second.pool())
            assert replays(third, 40)
            del first
            gc.collect()
            saver.resume("graph")
            assert replays(second, 50) and replays(third, 40)
            for _ in range(1000):
                saver.pause("graph")
                saver.resume("graph")
            assert replays(second, 50)
            saver.pause("graph")
            del second, third
            gc.collect()
            torch.cuda.empty_cache()
            assert used_mib() <= held, used_mib()
            saver.resume()
            del trainer
            trainer = filled(1, 800)
            """)

    def test_backups_are_read_while_they_are_paused(self):
        """Also of a tensor that shares its pages with others, which are awake."""
        self.runs("""
            with saver.region(enable_cpu_backup=True):
                whole = torch.arange(20 * MIB, dtype=torch.int32).cuda()
                small = torch.arange(600, dtype=torch.float32).view(2, 300).cuda()
            beside = torch.arange(600).cuda()
            with saver.region("file", enable_disk_backup=True):
                kept = filled(5, 3)
            with saver.region("dropped"):
                dropped = filled(6, 3)
            assert saver.get_cpu_backup(whole) is None
            saver.pause()
            for tensor, expected in (
                (whole, torch.arange(20 * MIB, dtype=torch.int32)),
                (small, torch.arange(600, dtype=torch.float32).view(2, 300)),
                (whole[1000:5000], torch.arange(1000, 5000, dtype=torch.int32)),
                (kept, torch.full((3 * MIB,), 5, dtype=torch.uint8)),
            ):
                backup = saver.get_cpu_backup(tensor, zero_copy=True)
                assert backup.device.type == "cpu" and torch.equal(backup, expected)
            assert saver.get_cpu_backup(dropped) is None and saver.get_cpu_backup(beside) is None
            saver.resume()
            assert saver.get_cpu_backup(whole) is None
            """)

    def test_backups_are_retained_for_the_next_pause(self):
        """At one place of the host, until a resume that does not retain, or the tensor ends."""
        self.runs("""
            def kept():
                return libmend.stats()["backup_cache_bytes"]

            with saver.region("w", enable_cpu_backup=True):
                weights = filled(2, 4)
                others = filled(4)
            saver.pause()
            saver.resume()
            assert kept() == 0 and saver.get_cpu_backup(weights) is None
            saver.retain_cpu_backup = True
            saver.pause("w")
            first = saver.get_cpu_backup(weights, zero_copy=True)
            saver.resume("w")
            assert kept() == 36 * MIB
            weights.copy_(filled(0, 4))
            again = saver.get_cpu_backup(weights, zero_copy=True)
            assert again.data_ptr() != first.data_ptr() and holds(again, 2)
            saver.pause("w")
            third = saver.get_cpu_backup(weights, zero_copy=True)
            assert third.data_ptr() == first.data_ptr() and holds(third, 0)
            saver.retain_cpu_backup = False
            assert not saver._impl._binary_wrapper.cdll.tms_get_retain_cpu_backup()
            saver.resume("w")
            assert kept() == 0 and saver.get_cpu_backup(weights) is None and holds(others, 4)
            saver.retain_cpu_backup = True
            saver.pause("w")
            saver.resume("w")
            del weights, first, again, third
            gc.collect()
            torch.cuda.empty_cache()
            assert kept() == 32 * MIB, kept()
            with saver.region("w", enable_cpu_backup=True):
                weights = filled(5)
            assert saver.get_cpu_backup(weights) is None
            assert holds(saver.get_cpu_backup(others, zero_copy=True), 4)
            """)

    def test_private_names_that_programs_use(self):
        """slime leaves the region around DeepEP's constructor so. Others pause by the C names."""
        self.succeeds_from_the_start(
            """
            assert saver._impl is None
            saver._ensure_initialized()
            library = saver._impl._binary_wrapper.cdll
            assert library.tms_get_interesting_region() and not library.tms_get_enable_cpu_backup()
            assert library.tms_get_current_tag() == b"default"
            assert library.tms_get_enable_disk_backup()
            assert library.tms_get_cpu_backup_backend() == b"mmap"
            library.tms_set_interesting_region(False)
            outside = filled(1)
            library.tms_set_interesting_region(True)
            inside = filled(2)
            library.tms_set_current_tag(b"other")
            library.tms_set_enable_disk_backup(False)
            library.tms_set_enable_cpu_backup(True)
            other = filled(3)
            assert library.tms_pause(b"other") == 0 and used_mib() == 64
            assert library.tms_pause(b"default") == 0 and used_mib() == 32 and holds(outside, 1)
            assert library.tms_resume(None) == 0 and holds(inside, 2) and holds(other, 3)
            with saver._impl._with_region_config(tag="t", enable_cpu_backup=False):
                assert library.tms_get_current_tag() == b"t"
            assert library.tms_get_current_tag() == b"other" and library.cudaHostGetFlags
            torch.cuda.synchronize()
            assert device.violations == 0, device.first_violation
            """,
            before=self.before,
            TMS_INIT_ENABLE="1",
            TMS_INIT_ENABLE_DISK_BACKUP="1",
            TMS_INIT_CPU_BACKUP_BACKEND="mmap",
        )

    def test_everything_is_in_a_region_from_the_start(self):
        """As TMS_INIT_ENABLE says, with a region inside and without any."""
        self.succeeds_from_the_start(
            """
            first = filled(42)
            with saver.region("grads"):
                grads = filled(99)
            with saver.disable():
                apart = filled(53)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                output = empty(32 * MIB)
                empty(32 * MIB).copy_(output)
            saver.pause()
            assert used_mib() == 32 and holds(apart, 53), used_mib()
            assert holds(saver.get_cpu_backup(first), 42)
            saver.resume()
            assert holds(first, 42)
            graph.replay()
            saver.pause("grads")
            assert holds(first, 42)
            saver.pause()
            saver.resume("default"), saver.resume("grads")
            assert holds(first, 42) and used_mib() >= 96 + 32
            torch.cuda.synchronize()
            assert device.violations == 0, device.first_violation
            """,
            before=self.before,
            TMS_INIT_ENABLE="1",
            TMS_INIT_ENABLE_CPU_BACKUP="true",
        )

    def test_what_it_does_not_take(self):
        self.runs("""
            for call in (
                lambda: saver.region(cpu_backup_backend="mmap").__enter__(),
                lambda: saver.region(enable_cpu_backup=True, cpu_backup_backend="x").__enter__(),
                lambda: setattr(saver, "hook_mode", "x"),
            ):
                error_of(call, ValueError)
            error_of(saver.disable().__enter__, AssertionError)
            assert saver.enabled
            saver.memory_margin_bytes = 900 * MIB
            error_of(lambda: filled(1, 200), torch.OutOfMemoryError)
            saver.memory_margin_bytes = 0
            with saver.region("a"):
                tensor = filled(1, 200)
            saver.pause()
            other = filled(2, 900)
            error_of(saver.resume, torch.OutOfMemoryError)
            del other
            saver.resume()
            assert not os.environ.get("MEND_TORCH")
            with configure_subprocess():
                assert os.environ["MEND_TORCH"] == "1"
            assert not os.environ.get("MEND_TORCH")
            """)

    def test_each_gpu_that_is_used(self):
        program = self.before + """
with saver.region("a", enable_cpu_backup=True):
    tensors = [torch.full((32 << 20,), 7, dtype=torch.uint8).to(f"cuda:{i}") for i in (0, 1)]
saver.pause("a")
print([libmend.torch.is_asleep(tensor) for tensor in tensors])
print([holds(saver.get_cpu_backup(tensor), 7) for tensor in tensors])
saver.resume()
print([holds(tensor, 7) for tensor in tensors])
"""
        self.assertEqual(
            self.simulates("--memory=1GiB", "--devices=2", "-c", program).splitlines(),
            ["[True, True]"] * 3,
        )
