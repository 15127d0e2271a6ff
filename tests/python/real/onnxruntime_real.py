"""libmend.onnxruntime under ONNX Runtime itself, as far as a build without a GPU goes: how it reads
options of providers. It calls the functions only where its CUDA provider is."""

import unittest

import libmend.onnxruntime
from onnxruntime.capi import onnxruntime_inference_collection as collection


class Real(unittest.TestCase):
    def test_the_options_are_read_as_they_are_given(self):
        given = {"device_id": 0, "user_compute_stream": 4096}
        names, options = collection.check_and_normalize_provider_args(
            libmend.onnxruntime.providers(**given),
            None,
            ["CUDAExecutionProvider", "CPUExecutionProvider"],
        )
        self.assertEqual(list(names), ["CUDAExecutionProvider", "CPUExecutionProvider"])
        self.assertEqual(options[0], libmend.onnxruntime.provider_options(**given))
        self.assertEqual(options[0]["user_compute_stream"], "4096")
        self.assertTrue(
            all(
                int(options[0][f"gpu_external_{what}"]) for what in ("alloc", "free", "empty_cache")
            )
        )
