"""phases.py SEED: a program of Mend's with phases, tags and lines, whose CPU waits at times, and
with more tags than a page has colours for. MEND_RECORD names the file."""
import ctypes
import os
import random
import sys

import libmend
from libmend import _devices, _library, _structures

MIB = 1 << 20
chance = random.Random(int(sys.argv[1]))


def block(mib, stream, tag=0):
    address, alloc = ctypes.c_void_p(), _library.load("mend").mend_alloc_with
    options = _structures.made("mend_alloc_options", tag=tag)
    assert alloc(_devices.pool(0), ctypes.c_uint64(mib * MIB), ctypes.c_void_p(stream),
                 ctypes.byref(options), ctypes.byref(address)) == 0
    return address.value, mib * MIB, stream


def step(device, number, streams, kept):
    """Backward frees the memory of forward. One block of each tenth step stays for good."""
    forward = []
    for layer in range(12):
        with libmend.scope("forward"), libmend.scope(f"layer {layer}"):
            forward.append(block(chance.randint(1, 4), streams[layer % 2], layer))
    if number % 10 == 0:
        kept.append(forward.pop())
    with libmend.scope("backward"):
        for address, size, stream in reversed(forward):
            gradient = block(chance.randint(1, 3), streams[0])
            device.launch(stream, address, size, finish_ns=(number + 1) * 1000000)
            _devices.free(0, address, size, stream)
            _devices.free(0, *gradient)
    if number % 20 == 10:
        _devices.free(0, *block(48, streams[1]))


def main():
    kept = []
    os.environ["MEND_CONF"] = "allow_stream_waits:off"
    with libmend.simulate(96 * MIB) as device:
        streams = 0, device.stream()
        libmend.name_stream(streams[1], "copies")
        for tag in range(1, 6):
            libmend.name_tag(tag, f"layers of kind {tag}")
        libmend.record_stacks(2 * MIB)
        for number in range(60):
            with libmend.scope("step"):
                step(device, number, streams, kept)
        for one in kept:
            _devices.free(0, *one)
        assert libmend.stats()["host_waits"] > 0 and device.violations == 0


main()
