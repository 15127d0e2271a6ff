"""A KV cache that is captured small and then extended to the remaining memory, beside one that must
know its size before: requests a second on the same device.

Without a GPU: python -m libmend.simulate --memory=1GiB torch_kv_cache.py
"""

import torch

import libmend
import libmend.torch

libmend.torch.enable()
MIB = 1 << 20
PAGE = 2 * MIB  # keys and values of some tokens, of all layers
PAGES = 20  # of each request
STEPS = 1000  # tokens of each request
REQUESTS = 130
WORST_PEAK = 192 * MIB  # activations that the largest batch could need, as a profiling run says
PEAK = 128 * MIB  # what requests need in fact


def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def rows_of(request):
    """The begin of a request's pages, to be found there at its end."""
    return (torch.arange(PAGES) + request).to(torch.uint8).view(PAGES, 1).expand(PAGES, 64)


class Engine:
    def __init__(self, cache):
        """`cache` has its address, and `pages` later its usable size."""
        self.cache, self.pages, self.graphs, self.pool = cache, 0, {}, None
        self.weights = empty(300 * MIB)
        self.step = empty(MIB)

    def capture(self):
        """A decode step for each batch size, all in one pool, whose size shows afterwards."""
        for batch in (16, 8, 4, 2, 1):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                activations = empty(batch * 4 * MIB)
                activations[:64].copy_(self.cache[:64])  # a kernel that reads the cache's address
                self.step[:64].copy_(activations[:64])
                del activations
            self.pool = graph.pool()
            self.graphs[batch] = graph

    def serve(self):
        """All requests, as many at once as have pages. Returns the seconds of the device."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        free = list(range(self.pages // PAGES))
        running, waiting = {}, list(range(REQUESTS))
        begin.record()
        while waiting or running:
            while waiting and free:
                request, slot = waiting.pop(), free.pop()
                prefill = empty(PEAK)
                for page, row in zip(self.slot(slot), rows_of(request)):
                    page[:64].copy_(row)
                running[request] = [slot, STEPS]
                del prefill
            batch = min(size for size in self.graphs if size >= len(running))
            self.graphs[batch].replay()
            for request in running:  # one token for each
                running[request][1] -= 1
            for request in [one for one, (_, left) in running.items() if left == 0]:
                slot, _ = running.pop(request)
                for page, row in zip(self.slot(slot), rows_of(request)):
                    assert torch.equal(page[:64].cpu(), row)
                free.append(slot)
        assert torch.equal(self.step[:64].cpu(), self.cache[:64].cpu())  # the graphs' address
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000

    def slot(self, slot):
        """A slot's pages."""
        return self.cache[slot * PAGES * PAGE : (slot + 1) * PAGES * PAGE].view(PAGES, PAGE)


def show(what, engine):
    seconds = engine.serve()
    at_once = engine.pages // PAGES
    print(f"{what}: {engine.pages} pages, {at_once} at once, {REQUESTS / seconds:.0f} requests/s")
    return REQUESTS / seconds


def fixed():
    """Nine tenths of the device, less weights and the worst peak. Later allocations have the
    rest."""
    total = torch.cuda.mem_get_info()[1]
    pages = (total * 9 // 10 - 300 * MIB - WORST_PEAK) // PAGE
    engine = Engine(empty(pages * PAGE))
    engine.pages = pages
    engine.capture()
    return show("a cache of fixed size", engine)


def growing():
    """Captured with a page, measured, extended: to all that graphs and requests leave."""
    cache = libmend.torch.GrowingTensor(torch.cuda.mem_get_info()[1], dtype=torch.uint8)
    cache.grow(PAGE)
    engine = Engine(cache.full)
    engine.capture()
    del (peak := [empty(PEAK)])[:]  # a real request, not the worst
    torch.cuda.synchronize()
    room = libmend.available(stream=torch.cuda.current_stream())["after_waiting_bytes"]
    cache.grow((room - PEAK) // PAGE * PAGE)
    engine.pages = len(cache) // PAGE
    return show("captured small, extended", engine)


before = fixed()
torch.cuda.empty_cache()
after = growing()
print(f"{after / before:.2f} times as many on the same device")
