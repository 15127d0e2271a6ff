"""Sleep and wake from PyTorch: the scenarios of vLLM's sleep mode and of torch_memory_saver, over
memory of the simulated device. Kernels do nothing there. Copies and fills with zeros do, so tensors
are compared byte for byte. Run by real.py as torch_real.py is."""

from programs import BEGIN, ENABLED, Programs

SLEEP = """
from libmend.torch import is_asleep, move_to_tag, sleep, sleep_tag, wake

def free_mib():
    return torch.cuda.mem_get_info()[0] // MIB

def leaks():
    names = "chunk_bytes chunks handles mappings reservations address_bytes host_bytes"
    ledger = device.ledger()
    return {name: ledger[name] for name in names.split()}
"""


class Sleep(Programs):
    before = ENABLED + SLEEP

    # ---- as vLLM's -------------------------------------------------------------------------------

    def test_figures_are_of_what_is_awake(self):
        """So that free + reserved - active fits, and no peak is above the device."""
        self.succeeds("""
            def room():
                stats = torch.cuda.memory_stats()
                free, total = torch.cuda.mem_get_info()
                for key in ("allocated", "active", "requested", "reserved"):
                    for part in ("all", "small_pool", "large_pool"):
                        assert 0 <= stats[f"{key}_bytes.{part}.peak"] <= total, (key, part, stats)
                allocated = stats["allocated_bytes.all.current"]
                assert torch.cuda.memory_reserved() >= allocated >= 0
                came, went = (stats[f"allocated_bytes.all.{way}"] for way in ("allocated", "freed"))
                assert came - went == allocated, (came, went, allocated)
                return free + torch.cuda.memory_reserved() - stats["active_bytes.all.current"]

            with libmend.torch.sleep_tag("weights"):
                weights = [empty(100 * MIB) for _ in range(6)]
                small = empty(1000)
            other = empty(50 * MIB)
            before = torch.cuda.memory_allocated()
            libmend.torch.sleep({"weights": "host"})
            assert torch.cuda.memory_allocated() == 50 * MIB, torch.cuda.memory_allocated()
            assert room() == (1024 - 50) * MIB, room()
            tensor = empty(room())
            assert room() == 0, room()
            assert torch.cuda.max_memory_allocated() == 1024 * MIB
            del tensor
            del weights[0]  # asleep
            assert torch.cuda.memory_allocated() == 50 * MIB
            torch.cuda.empty_cache()
            libmend.torch.wake()
            assert torch.cuda.memory_allocated() == before - 100 * MIB
            assert torch.cuda.max_memory_allocated() == 1024 * MIB
            torch.cuda.reset_peak_memory_stats()
            assert torch.cuda.max_memory_allocated() == before - 100 * MIB
            room()
            """)

    def test_tensors_with_a_tag_sleep_and_wake(self):
        """Beside tensors without one, and together with them afterwards."""
        self.runs("""
            outside = filled(1)
            with sleep_tag(7):
                numbered = filled(7)
            sleep(7)
            with sleep_tag("weights"):
                first, second = filled(2), filled(3)
            addresses = [tensor.data_ptr() for tensor in (outside, first, second)]
            before = free_mib()
            report = sleep("weights")
            assert free_mib() - before == 64 == report.released_bytes // MIB, report
            assert report.host_bytes == 64 * MIB and report.stayed_bytes == 0, report
            assert [is_asleep(t) for t in (outside, first, second)] == [False, True, True]
            assert holds(outside, 1)
            assert torch.cuda.memory_allocated() == 32 * MIB  # what is awake
            assert torch.cuda.memory_reserved() == 32 * MIB
            report = wake("weights")
            assert report.host_bytes == report.woken_bytes == 64 * MIB, report
            assert free_mib() == before and not is_asleep(first)
            assert holds(first, 2) and holds(second, 3) and is_asleep(numbered)
            wake(7), sleep(7), wake(7)
            assert holds(numbered, 7)
            first.copy_(outside)
            assert holds(first, 1)
            assert addresses == [tensor.data_ptr() for tensor in (outside, first, second)]
            """)

    def test_a_captured_graph_is_replayed_after_a_wake(self):
        """It reads the weights that were kept, and writes a cache that was dropped."""
        self.runs("""
            with sleep_tag("weights"):
                weight = filled(7)
            with sleep_tag("kv_cache"):
                cache = filled(8)
            x, y = filled(0), filled(0)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                inner = torch.empty_like(x)
                inner.copy_(x)
                cache.copy_(inner)
                y.copy_(weight)
                del inner
            assert torch.cuda.memory_reserved() >= 160 * MIB  # of the graph, too
            for call in (lambda: sleep(level=1), sleep):
                before = free_mib()
                call()
                assert free_mib() - before >= 64
                if call is sleep:  # everything, with what the graph keeps for itself
                    assert torch.cuda.memory_reserved() == 0 and free_mib() == 1024
                wake()
                value = 20 if call is sleep else 30
                x.copy_(torch.full_like(x, value, device="cpu"))
                y.zero_()
                graph.replay()
                torch.cuda.synchronize()
                assert holds(cache, value) and holds(y, 7) and holds(weight, 7)
            """)

    def test_no_room_to_wake_is_an_error_of_out_of_memory_and_can_be_tried_again(self):
        self.runs("""
            with sleep_tag("weights"):
                weights = [filled(i, 100) for i in range(6)]
            sleep()
            other = filled(9, 600)
            held = leaks()
            for _ in range(3):
                error = error_of(wake, torch.OutOfMemoryError)
                assert isinstance(error, libmend.OutOfMemoryError), type(error)
                assert error.name == "MEND_ERROR_OUT_OF_MEMORY"
                assert "is short of" in str(error) and "sleeps as before" in str(error), error
                assert leaks() == held, (leaks(), held)
                assert all(map(is_asleep, weights)) and holds(other, 9)
            torch.cuda._sleep(1000000)  # work that may still use the memory
            del other
            wake()
            assert all(holds(weight, i) for i, weight in enumerate(weights))
            """)

    def test_an_engine_of_two_levels(self):
        """A server keeps its weights or reads them again, and drops its cache in both cases."""
        self.runs("""
            def build():
                with sleep_tag("weights"):
                    weights = [filled(i + 1) for i in range(4)]
                with sleep_tag("kv_cache"):
                    cache = filled(0, 256)
                return weights, cache

            weights, cache = build()
            scratch = filled(77)
            addresses = [tensor.data_ptr() for tensor in (*weights, cache)]
            awake = free_mib()
            for level in (1, 2, 1):
                report = sleep(level=level)
                kept = 128 * MIB if level == 1 else 0
                assert report.host_bytes == kept, report
                assert report.dropped_bytes == 384 * MIB - kept, report
                assert free_mib() - awake == 384
                trainer = filled(5, 512)  # what the memory is for
                assert holds(trainer, 5) and holds(scratch, 77)
                del trainer
                wake("weights")
                assert not is_asleep(weights[0]) and is_asleep(cache)
                if level == 2:  # weights come from the trainer, into the same tensors
                    for i, weight in enumerate(weights):
                        weight.copy_(torch.full_like(weight, i + 1, device="cpu"))
                wake(["kv_cache"])
                cache.copy_(torch.zeros_like(cache, device="cpu"))
                assert all(holds(weight, i + 1) for i, weight in enumerate(weights))
                assert holds(cache, 0)
                assert addresses == [tensor.data_ptr() for tensor in (*weights, cache)]
            for wrong in ({"level": 3}, {"tags": "weights", "level": 1}):
                assert "level is" in str(error_of(lambda: sleep(**wrong), ValueError))
            """)

    def test_tensors_may_be_freed_asleep(self):
        self.runs("""
            with sleep_tag("a"):
                kept, gone = filled(1), filled(2)
            side = torch.cuda.Stream()
            with torch.cuda.stream(side), sleep_tag("a"):
                other = filled(3)
            sleep("a")
            host = leaks()["host_bytes"]
            del gone, other
            gc.collect()
            again = filled(4)  # the freed addresses are nobody's to hand out meanwhile
            assert not is_asleep(again) and holds(again, 4)
            wake()
            assert holds(kept, 1) and holds(again, 4)
            assert torch.cuda.memory_allocated() == 64 * MIB
            del kept, again
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 0 and leaks()["host_bytes"] == 0
            assert host > 0
            """)

    # ---- as torch_memory_saver's -----------------------------------------------------------------

    def test_regions_nest(self):
        """Weights that are kept, with a buffer of gradients inside that is not."""
        self.runs("""
            with sleep_tag("weights"):
                weight = filled(42)
                try:
                    with sleep_tag("grads"):
                        grads = filled(99)
                        raise KeyError
                except KeyError:
                    pass
                more = filled(7)
                with sleep_tag(None):
                    untagged = filled(1)
            outside = filled(2)
            report = sleep({"weights": "host", "grads": "discard"})
            assert (report.host_bytes, report.dropped_bytes) == (64 * MIB, 32 * MIB), report
            assert not is_asleep(untagged) and not is_asleep(outside)
            wake()
            grads.zero_()
            assert holds(weight, 42) and holds(more, 7) and holds(grads, 0)
            """)

    def test_the_pool_of_a_graph_has_no_tag_of_the_programs(self):
        self.runs("""
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = empty(32 * MIB)
            y.copy_(torch.full((32 * MIB,), 6, dtype=torch.uint8))
            assert sleep(dict.fromkeys(range(1, 50), "discard")).dropped_bytes == 0
            assert not is_asleep(y) and holds(y, 6)
            """)

    # ---- modules ---------------------------------------------------------------------------------

    def test_a_module_that_is_made_with_a_tag(self):
        """Its parameters and buffers. Gradients that backward makes in its threads are not."""
        self.runs("""
            with sleep_tag("weights"):
                layer = torch.nn.Linear(2048, 2048)
                layer.register_buffer("scale", torch.full((4 * MIB,), 2.0))
                values = [t.clone() for t in (*layer.parameters(), *layer.buffers())]
                layer.cuda()
                loss = layer(torch.zeros(64, 2048, device="cuda")).sum()
                loss.backward()
            del loss
            grads = [parameter.grad for parameter in layer.parameters()]
            tensors = [*layer.parameters(), *layer.buffers()]
            report = sleep({"weights": "host"})
            assert report.asleep_bytes > 0, report
            assert all(map(is_asleep, tensors[:1] + tensors[2:])), report
            assert not any(map(is_asleep, grads))
            wake()
            for tensor, value in zip(tensors, values):
                assert torch.equal(tensor.cpu(), value)
            """)

    def test_a_module_that_is_there_is_moved_to_a_tag(self):
        self.runs("""
            layer = torch.nn.Linear(4096, 4096).cuda()
            layer.tied = layer.weight
            flat = torch.arange(4 * MIB, dtype=torch.float32).cuda()
            layer.first, layer.second = map(torch.nn.Parameter, flat.view(2, -1).unbind())
            layer.turned = torch.nn.Parameter(flat.view(2, -1).t())
            layer.register_buffer("on_host", torch.ones(5))
            before = {name: p for name, p in layer.named_parameters(remove_duplicate=False)}
            values = {name: p.detach().cpu().clone() for name, p in before.items()}
            optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
            del flat
            allocated = torch.cuda.memory_allocated()
            assert sleep("weights").asleep_bytes == 0
            moved = move_to_tag(layer, "weights")
            assert moved == (4096 * 4096 + 4096 + 4 * MIB) * 4, moved
            assert torch.cuda.memory_allocated() == allocated
            torch.cuda.reset_peak_memory_stats()
            for name, parameter in layer.named_parameters(remove_duplicate=False):
                assert parameter is before[name]
                assert torch.equal(parameter.detach().cpu(), values[name]), name
            assert layer.turned.stride() == (1, 2 * MIB)
            flat = layer.first, layer.second, layer.turned
            assert len({parameter.untyped_storage()._cdata for parameter in flat}) == 1
            del flat
            assert optimizer.param_groups[0]["params"][0] is layer.weight
            sleep("weights")
            assert all(is_asleep(p) for p in (layer.weight, layer.first, layer.turned))
            wake()
            for name, parameter in layer.named_parameters(remove_duplicate=False):
                assert torch.equal(parameter.detach().cpu(), values[name]), name
            assert move_to_tag([layer.first, layer.first], None) == 16 * MIB
            """)

    # ---- what holds ------------------------------------------------------------------------------

    def test_what_cannot_be_done_has_a_name_and_changes_nothing(self):
        self.runs("""
            with sleep_tag("a"):
                tensor = filled(1)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                error = error_of(sleep)
            assert error.name == "MEND_ERROR_CAPTURING" and not is_asleep(tensor), error
            sleep("a")
            error = error_of(lambda: sleep("a"))
            assert error.name == "MEND_ERROR_ASLEEP" and "are asleep" in str(error), error
            text = message_of(lambda: tensor.record_stream(torch.cuda.Stream()))
            assert "MEND_ERROR_ASLEEP" in text, text
            wake(), wake(), wake("nobody's")
            assert holds(tensor, 1)
            """)

    def test_a_tensor_that_was_sent_to_another_process_stays(self):
        self.runs("""
            with sleep_tag("a"):
                sent, other = filled(1), filled(2)
            sent.untyped_storage()._share_cuda_()
            assert error_of(lambda: sleep("a")).name == "MEND_ERROR_PINNED"
            report = sleep("a", skip_pinned=True)
            assert report.pinned_bytes == 32 * MIB == report.asleep_bytes, report
            assert not is_asleep(sent) and is_asleep(other)
            wake()
            assert holds(sent, 1) and holds(other, 2)
            """)

    def test_tags_are_those_of_a_thread(self):
        self.runs("""
            made = {}

            def work(name):
                with sleep_tag(name):
                    barrier.wait()
                    made[name] = filled(ord(name))
                made[name + "0"] = filled(0)

            barrier = threading.Barrier(3)
            at_once(*(lambda name=name: work(name) for name in "abc"))
            sleep({"a": "host", "c": "discard"})
            assert sorted(name for name, t in made.items() if is_asleep(t)) == ["a", "c"]
            wake()
            assert holds(made["a"], ord("a")) and holds(made["b"], ord("b"))

            @sleep_tag("b")
            def load():
                return filled(1)

            tensor = load()
            sleep("b")
            assert is_asleep(tensor) and is_asleep(load()) is False
            wake()
            """)

    def test_the_example_prints_what_is_documented(self):
        self.prints_what_is_documented("torch_sleep")

    def test_each_gpu_sleeps_by_itself(self):
        program = """
import torch, libmend.torch
libmend.torch.enable()
with libmend.torch.sleep_tag("a"):
    tensors = [torch.full((32 << 20,), 7, dtype=torch.uint8).to(f"cuda:{i}") for i in (0, 1)]

def asleep():
    return [libmend.torch.is_asleep(tensor) for tensor in tensors]

libmend.torch.sleep("a", device="cuda:1")
print(asleep(), libmend.stats(0)["reserved_bytes"] >> 20, libmend.stats(1)["reserved_bytes"] >> 20)
libmend.torch.sleep("a")
print(asleep())
with torch.cuda.device(1):
    libmend.torch.wake()
print(asleep())
libmend.torch.wake(device=torch.device("cuda", 0))
print(asleep(), [tensor.cpu().eq(7).all().item() for tensor in tensors])
"""
        self.assertEqual(
            self.simulates("--memory=1GiB", "--devices=2", "-c", program).splitlines(),
            ["[False, True] 32 0", "[True, True]", "[True, False]", "[False, False] [True, True]"],
        )

    def test_it_needs_enable(self):
        self.runs(
            """
            for call in (sleep, wake, lambda: sleep_tag("a").__enter__()):
                text = message_of(call)
                assert text.endswith("() needs libmend.torch.enable()"), text
            """,
            before=BEGIN + SLEEP,
        )
