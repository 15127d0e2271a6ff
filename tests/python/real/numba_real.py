"""libmend.numba under numba-cuda itself: its own base classes and pointers, over the simulated
device. Contexts are made by the driver, so the manager gets a stub of one."""

import os

import libmend

os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "libmend.numba"

from numba import cuda  # noqa: E402
from numba.cuda.cudadrv import driver  # noqa: E402
from programs import SimulatedTest  # noqa: E402


class Context:
    class device:
        id = 0


class Real(SimulatedTest):
    def setUp(self):
        super().setUp()
        self.context = Context()
        driver._memory_manager = None
        driver._ensure_memory_manager()
        self.manager = driver._memory_manager(context=self.context)
        self.manager.initialize()

    def test_the_environment_turns_it_on(self):
        self.assertEqual(type(self.manager).__module__, "libmend.numba")
        self.assertIsInstance(self.manager, cuda.HostOnlyCUDAMemoryManager)

    def test_a_pointer_owns_its_block(self):
        pointer = self.manager.memalloc(1000)
        self.assertEqual(libmend.stats()["requested_bytes"], 1000)
        self.assertNotEqual(int(pointer.device_pointer), 0)
        view = pointer.view(100)
        del pointer
        self.assertEqual(libmend.stats()["live_blocks"], 1)
        del view
        self.assertEqual(libmend.stats()["live_blocks"], 0)

    def test_out_of_memory_is_numbas(self):
        with self.assertRaises(driver.CudaAPIError) as caught:
            self.manager.memalloc(2 << 30)
        self.assertEqual(caught.exception.code, 2)

    def test_figures_and_reset(self):
        pointer = self.manager.memalloc(1 << 20)
        self.assertEqual(self.manager.get_memory_info().free, (1 << 30) - (1 << 20))
        with self.assertRaisesRegex(NotImplementedError, "libmend.numba"):
            self.manager.get_ipc_handle(pointer)
        self.manager.reset()
        with self.manager.defer_cleanup():
            del pointer
        self.assertEqual(libmend.stats()["live_blocks"], 0)
