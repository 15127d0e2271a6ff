"""libmend.rmm and mend_rmm.hpp under RMM itself: its resource calls ours on a simulated device."""

import unittest

import headers
import libmend
import libmend.rmm
import rmm
from programs import SimulatedTest
from rmm.pylibrmm.stream import Stream


class ForeignStream:
    """Any object with the protocol of CUDA streams."""

    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return (0, self.handle)


class Real(SimulatedTest):
    native = False

    def test_memory_comes_and_goes_in_stream_order(self):
        resource = libmend.rmm.resource(0, self.native)
        stream = Stream(ForeignStream(self.device.stream()))
        address = resource.allocate(1000, stream)
        self.assertEqual(libmend.stats()["requested_bytes"], 1000)
        resource.deallocate(address, 1000, stream)
        self.assertEqual(resource.allocate(1000, stream), address)

    def test_out_of_memory_carries_our_report(self):
        with self.assertRaisesRegex(MemoryError, "2.00 GiB requested"):
            libmend.rmm.resource(0, self.native).allocate(2 << 30)

    def test_rmm_takes_the_resource(self):
        libmend.rmm.enable(device=0, native=self.native)
        self.assertIs(rmm.mr.get_per_device_resource(0), libmend.rmm._kept[0, self.native])
        adaptor = rmm.mr.StatisticsResourceAdaptor(rmm.mr.get_per_device_resource(0))
        adaptor.deallocate(adaptor.allocate(1000), 1000)
        self.assertEqual(adaptor.allocation_counts.total_bytes, 1000)


class Native(Real):
    native = True


class CPlusPlus(unittest.TestCase):
    def test_its_buffers_and_adaptors_in_c_plus_plus_take_our_resource(self):
        librmm = headers.SITE / "librmm"
        include = librmm / "include"
        printed = headers.passes(
            self,
            "rmm",
            [include, include / "rapids"],
            [librmm / "lib64" / "librmm.so"],
            [librmm / "lib64", headers.SITE / "rapids_logger" / "lib64"],
        )
        self.assertIn("OK ] rmm_resource.serves_rmm_s_own_buffers_and_adaptors", printed)
