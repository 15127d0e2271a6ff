# An engine and a trainer take turns in one process. Natively the engine is built again for each of
# its turns. With Mend it sleeps, its cache without contents. Prints the driver calls of that.
import ctypes
import random
import sys

import torch

import libmend
from libmend import _structures

MIB = 1 << 20
CALLS = ("create", "release", "map", "unmap", "set_access")
random.seed(11)
device = libmend.simulate()
sleeps = torch.cuda.get_allocator_backend() == "mend"
keep_free = (*sys.argv[1:], False)[0]  # "all": what sleeps leaves its memory in the pool


def tensors(*mib):
    return [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in mib]


def engine():
    return tensors(*[96] * 16), tensors(*[64] * 64)  # weights, cache


def train():
    state = tensors(*(random.randint(20, 60) for _ in range(40)))
    for _ in range(4):
        activations = tensors(*(random.randint(1, 120) for _ in range(70)))
        random.shuffle(activations)
        while activations:
            tensors(random.randint(1, 80))
            activations.pop()
    del state


def calls(*names):
    """How often they were called: the sum of prices, where each costs 1."""
    price = _structures.made("mend_sim_price", call_ns=1)
    prices = _structures.made("mend_sim_prices", **dict.fromkeys(names, price))
    count = device._library.mend_sim_time_by
    count.restype = ctypes.c_uint64
    return count(device._sim, ctypes.byref(prices))


base = tensors(1024)
if sleeps:
    import libmend.torch

    with libmend.torch.sleep_tag("weights"):
        weights = tensors(*[96] * 16)
    with libmend.torch.sleep_tag("kv_cache"):
        cache = tensors(*[64] * 64)
else:
    weights, cache = engine()
before, created = calls(*CALLS), calls("create")
for turn in range(3):
    if sleeps:
        libmend.torch.sleep(level=1, keep_free=keep_free)
        train()
        libmend.torch.wake()
    else:
        weights = cache = None
        torch.cuda.empty_cache()
        train()
        weights, cache = engine()
free, total = torch.cuda.mem_get_info()
print(f"{calls(*CALLS) - before:,} calls, {calls('create') - created:,} creations, "
      f"{(total - free) // MIB:,} MiB held after a wake")
