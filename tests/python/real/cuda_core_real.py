"""libmend.cuda_core under cuda.core itself, over the stub of CUDA's driver."""

import ctypes
import unittest

import libmend
import libmend.cuda_core
from cuda.core import Device


class Real(unittest.TestCase):
    def setUp(self):
        self.simulated = libmend.simulate()
        self.device = Device(0)
        self.device.set_current()

    def test_buffers_come_and_go_in_stream_order(self):
        libmend.cuda_core.enable()
        stream, other = self.device.create_stream(), self.device.create_stream()
        buffer = self.device.allocate(1000, stream=stream)
        self.assertEqual(libmend.stats()["requested_bytes"], 1000)
        address = int(buffer.handle)
        self.assertEqual((buffer.device_id, buffer.is_device_accessible), (0, True))
        del buffer
        buffer = self.device.allocate(1000, stream=stream)
        self.assertEqual(int(buffer.handle), address)
        buffer.close(other)
        self.assertEqual(libmend.stats()["live_blocks"], 0)

    def test_a_stream_ends_after_the_pool_has_forgotten_it(self):
        resource = libmend.cuda_core.MendResource()
        for _ in range(200):  # more than are kept
            stream = self.device.create_stream()
            buffer = resource.allocate(1 << 20, stream=stream)
            buffer.fill(1, stream=stream)
            stream.close()  # of the program's object
            buffer.close()
        self.assertEqual(libmend.stats()["live_blocks"], 0)
        self.assertEqual(self.simulated.violations, 0, self.simulated.first_violation)

    def test_bytes_come_back(self):
        stream = self.device.create_stream()
        resource = libmend.cuda_core.MendResource()
        first = resource.allocate(1 << 20, stream=stream)
        second = resource.allocate(1 << 20, stream=stream)
        first.fill(7, stream=stream)
        second.copy_from(first, stream=stream)
        stream.sync()
        self.assertEqual(ctypes.string_at(int(second.handle), 16), bytes([7]) * 16)
        first.close()
        second.close()
        self.assertEqual(self.simulated.violations, 0, self.simulated.first_violation)

    def test_what_it_cannot_serve_is_refused(self):
        resource = libmend.cuda_core.MendResource(0)
        stream = self.device.create_stream()
        with self.assertRaisesRegex(libmend.OutOfMemoryError, "2.00 GiB requested"):
            resource.allocate(2 << 30, stream=stream)
        with self.assertRaisesRegex(libmend.Error, "GraphBuilder"):
            resource.allocate(1 << 20, stream=self.device.create_graph_builder())
        self.assertEqual(libmend.stats()["live_blocks"], 0)
