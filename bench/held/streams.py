# A server of several models, each on its own stream, whose load moves from one to the next.
import random

import torch

MIB = 1 << 20
random.seed(0)
streams = [torch.cuda.Stream() for _ in range(4)]


def tensor():
    return torch.empty(random.randint(20, 200) * MIB, dtype=torch.uint8, device="cuda")


for turn in range(40):
    with torch.cuda.stream(streams[turn % 4]):
        held = [tensor() for _ in range(24)]
        for _ in range(100):
            i = random.randrange(24)
            held[i] = None
            held[i] = tensor()
    del held

print(f"in use at most {torch.cuda.max_memory_allocated() / MIB:,.0f} MiB, "
      f"held at most {torch.cuda.max_memory_reserved() / MIB:,.0f} MiB, "
      f"host waits {torch.cuda.memory_stats()['num_sync_all_streams']}")
