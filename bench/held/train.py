# A training loop whose batches differ in size, and which keeps a part of each.
import random

import torch

MIB = 1 << 20
random.seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
kept = []

for step in range(30):
    batch = torch.randn(random.randint(2000, 16000), 4096, device="cuda")
    model(batch).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    kept.append(batch[:1000].clone())

print(f"in use at most {torch.cuda.max_memory_allocated() / MIB:,.0f} MiB, "
      f"held at most {torch.cuda.max_memory_reserved() / MIB:,.0f} MiB, "
      f"host waits {torch.cuda.memory_stats()['num_sync_all_streams']}")
