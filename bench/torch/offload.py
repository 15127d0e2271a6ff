"""Host time of an activation offload: blocks that a side stream copies away, and record_stream.

    python -m libmend.simulate --memory=24GiB bench/torch/offload.py

Prints the CPU time of an allocation and its free, the most memory held, and how often the CPU
waited for the GPU. The GPU is slower than the host, so freed blocks wait for the side stream.
"""

import time

import torch

MIB = 1 << 20
LAYERS, STEPS, SIZE = 24, 30, 32 * MIB
side, main = torch.cuda.Stream(), torch.cuda.current_stream()
pinned = torch.empty(1, dtype=torch.uint8, pin_memory=True)


def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def step():
    for _ in range(LAYERS):
        activation, temporary = empty(SIZE), empty(SIZE // 4)
        torch.cuda._sleep(2_000_000)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            torch.cuda._sleep(8_000_000)
            pinned.copy_(activation[:1], non_blocking=True)
        activation.record_stream(side)
        del activation, temporary
    for _ in range(LAYERS):
        with torch.cuda.stream(side):
            activation = empty(SIZE)
            activation[:1].copy_(pinned, non_blocking=True)
            torch.cuda._sleep(8_000_000)
        main.wait_stream(side)
        activation.record_stream(main)
        temporary = empty(SIZE // 4)
        torch.cuda._sleep(4_000_000)
        del activation, temporary


step()
began = time.process_time()
for _ in range(STEPS):
    step()
each = (time.process_time() - began) / (4 * LAYERS * STEPS)
stats = torch.cuda.memory_stats()
print(
    f"{torch.cuda.get_allocator_backend()}: {each * 1e6:.1f} us of CPU for an allocation,"
    f" {stats['reserved_bytes.all.peak'] // MIB:,} MiB held,"
    f" {stats['num_sync_all_streams']} host waits"
)
