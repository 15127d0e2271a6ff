"""libmend.cupy under CuPy itself. CuPy links CUDA's runtime into itself and asks it for the current
stream and device, so it cannot make arrays without a GPU. The test uses its allocator objects,
which allocate and free memory of the simulated device."""

import cupy
import libmend
import libmend.cupy
from cupy.cuda import memory
from programs import SimulatedTest


class Real(SimulatedTest):
    def test_both_modes_are_taken(self):
        for mode in ("object", "pooled"):
            libmend.cupy.enable(mode)
        cupy.cuda.set_allocator(None)

    def test_an_array_owns_its_block(self):
        """As the object level makes them, with a stream and a device that are given."""

        class Stream:
            ptr = 0

        block = libmend.cupy._Block(0, 1000, Stream())
        unowned = memory.UnownedMemory(block.address, 1000, block, 0)
        pointer = memory.MemoryPointer(unowned, 0)
        self.assertEqual(pointer.ptr, block.address)
        del block, unowned
        self.assertEqual(libmend.stats()["live_blocks"], 1)
        del pointer
        self.assertEqual(libmend.stats()["live_blocks"], 0)
        self.assertEqual(memory.UnownedMemory(0, 0, None, 0).ptr, 0)

    def test_errors_are_the_ones_cupy_knows(self):
        self.assertEqual(cupy.cuda.runtime.CUDARuntimeError(2).status, 2)
        self.assertIn("1,000", str(memory.OutOfMemoryError(1000, 500)))
