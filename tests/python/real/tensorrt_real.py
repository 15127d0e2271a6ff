"""mend_tensorrt.hpp against TensorRT's own headers, which MEND_TENSORRT_INCLUDE names: no package
of Python has them. No engine runs."""

import os
import unittest

import headers


class Real(unittest.TestCase):
    def test_it_is_an_allocator_of_tensorrt_s(self):
        headers.passes(self, "tensorrt", [os.environ["MEND_TENSORRT_INCLUDE"]])
