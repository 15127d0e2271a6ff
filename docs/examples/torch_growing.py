"""A cache that grows and shrinks at one address, and lends its memory to activations.

Without a GPU: python -m libmend.simulate --memory=1GiB torch_growing.py
"""

import torch

import libmend.torch

libmend.torch.enable()
MIB = 1 << 20

# Keys of up to a million tokens would be 8 GiB. They take addresses, and no memory yet.
cache = libmend.torch.GrowingTensor((1 << 20, 32, 128), dtype=torch.float16)
rows = torch.randn(64, 32, 128).half()


def show(what):
    print(f"{what}: {len(cache)} tokens, {cache.info()['committed_bytes'] // MIB} MiB")


keys = cache.grow(64)
keys.copy_(rows)
show("one request")

cache.grow(100_000)  # a long prompt: nothing moves, nothing is copied
assert cache.tensor.data_ptr() == keys.data_ptr()
show("a long prompt")

try:
    activations = torch.empty(600 * MIB, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    cache.shrink(90_000)  # its memory serves the activations, in the order of the stream
    activations = torch.empty(600 * MIB, dtype=torch.uint8, device="cuda")
show("beside activations")

try:
    cache.grow(90_000)
except torch.OutOfMemoryError:
    del activations
    cache.grow(90_000)
show("after them")
assert torch.equal(keys.cpu(), rows)  # as ever

table = libmend.torch.GrowingTensor((1 << 30,), dtype=torch.int64)  # with holes
table.commit(1 << 20, (1 << 20) + 1000)
table.full[1 << 20 : (1 << 20) + 1000].zero_()
print("a table with holes:", table.info()["committed_bytes"] // MIB, "MiB of 8 GiB")
