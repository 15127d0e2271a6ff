"""Records when a PyTorch program allocates and frees memory, without a GPU.

The program runs on the `meta` device: every operation gives tensors of the right shape and no
content. A dispatch mode sees each tensor that an operation returns. A storage it has not seen
before is an allocation, and the end of that storage (seen by a weak reference) is the free. The
order is the program's own, autograd and optimizers included. Memory that a kernel allocates and
frees inside itself (workspaces of libraries) stays unseen.
"""
import contextlib
import gc
import weakref

import torch
import torch._dynamo  # loaded here: else the first optimizer loads it inside the recording
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import packing

GRANULE_BYTES = 512
GIB = 1 << 30


class Recorder(TorchDispatchMode):
    """Active as a context. `events` holds (is_allocation, number, bytes, stream)."""

    def __init__(self):
        super().__init__()
        self.events = []
        self.live = {}  # key of the storage: [number, bytes, stream of the free, weak reference]
        self.count = 0
        self.stream = 0
        self.pool = None
        self.live_bytes = 0
        self.peak_bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.device.type == "meta":
                self._see(leaf.untyped_storage())
        return result

    def _see(self, storage):
        key = storage._cdata  # the address of the storage, the same for all its views
        if key in self.live or storage.nbytes() == 0:
            return
        size = -(-storage.nbytes() // GRANULE_BYTES) * GRANULE_BYTES
        if self.pool is not None:
            self._see_in_pool(storage, key, size)
            return
        self.count += 1
        watcher = weakref.ref(storage, lambda _: self._end(key))
        self.live[key] = [self.count, size, self.stream, watcher]
        self.events.append((True, self.count, size, self.stream))
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _end(self, key):
        number, size, stream, _ = self.live.pop(key)
        self.events.append((False, number, size, stream))
        self.live_bytes -= size

    def _see_in_pool(self, storage, key, size):
        pool, place = self.pool, self.pool.take(size)

        def end(_):
            del self.live[key]
            pool.give(place)

        self.live[key] = [0, size, self.stream, weakref.ref(storage, end)]

    @contextlib.contextmanager
    def from_pool(self, pool):
        """Allocations inside are cut from segments of the pool by `pool.take(bytes)`, and returned
        by `pool.give(place)`: the recording has the segments alone (`segment`)."""
        outer, self.pool = self.pool, pool
        try:
            yield
        finally:
            self.pool = outer

    def segment(self, size):
        """Memory that a pool asks for and keeps."""
        self.count += 1
        self.events.append((True, self.count, size, self.stream))
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    @contextlib.contextmanager
    def on_stream(self, stream):
        """Allocations inside belong to that stream, and are freed in its order."""
        outer, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = outer

    def record_stream(self, tensor, stream):
        """The tensor's last use is on another stream: its free follows that one."""
        self.live[tensor.untyped_storage()._cdata][2] = stream

    def write(self, path):
        packing.write(path, self.events)

    def summary(self):
        streams = len({event[3] for event in self.events})
        return (f"{len(self.events):,} events, peak live {self.peak_bytes / GIB:.2f} GiB, "
                f"{streams} stream{'s' if streams > 1 else ''}")


def record(program, seed, path):
    """Runs `program(recorder, seed)` and writes its events. Tensors that are live at its end stay
    so."""
    gc.collect()
    gc.disable()  # collections would come at points that depend on what ran before
    recorder = Recorder()
    try:
        with recorder:
            kept = program(recorder, seed)
            events = len(recorder.events)
    finally:
        gc.enable()
    del recorder.events[events:]
    recorder.write(path)
    summary = recorder.summary()
    del kept  # its end is no part of the recording
    return summary
