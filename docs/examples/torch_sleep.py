"""A server with a model and a cache gives its memory to a trainer and takes it back.

Without a GPU: python -m libmend.simulate --memory=1GiB torch_sleep.py
"""

import torch

import libmend.torch

libmend.torch.enable()
MIB = 1 << 20


def free_bytes():
    return torch.cuda.mem_get_info()[0]


with libmend.torch.sleep_tag("weights"):
    model = torch.nn.Linear(8192, 4096, bias=False, device="cpu").cuda()
with libmend.torch.sleep_tag("kv_cache"):
    cache = torch.zeros(256 * MIB, dtype=torch.uint8, device="cuda")
expected = model.weight.detach().cpu()

# A graph with both, captured once.
out = torch.empty_like(model.weight)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    cache.zero_()
    out.copy_(model.weight.detach())
before = free_bytes()

report = libmend.torch.sleep(level=1)  # weights to the host, the cache is dropped
print(f"given back: {(free_bytes() - before) // MIB} MiB, kept: {report.host_bytes // MIB} MiB")

gradients = torch.empty(700 * MIB, dtype=torch.uint8, device="cuda")  # the trainer
del gradients

libmend.torch.wake("weights")
assert torch.equal(model.weight.detach().cpu(), expected)
print("the weights are awake:", libmend.torch.is_asleep(cache) and "the cache is not yet")

libmend.torch.wake()
graph.replay()
torch.cuda.synchronize()
assert torch.equal(out.detach().cpu(), expected)
torch.cuda.empty_cache()
print("serving again:", before - free_bytes(), "bytes more than before")
