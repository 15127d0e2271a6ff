"""Mend's class for PyTorch compiles without a CUDA toolkit: pip installs the headers of CUDA's
runtime, which include some of its compiler's (crt/). Mend has the needed ones."""

import os
import shlex
import subprocess

from support import TREE, FolderTest, finished

# As cuda_runtime_api.h and vector_types.h use the headers that are not there.
RUNTIME = """
#include "crt/host_config.h"
#include "crt/host_defines.h"
#ifndef MEND_CRT_HOST_DEFINES_H
#error the headers of another CUDA were found before Mend's
#endif
extern "C" __host__ __cudart_builtin__ int CUDARTAPI cudaGetDevice(int *device);
extern "C" __host__ __device__ __device_builtin__ int CUDARTAPI_CDECL cudaFree(void *block);
struct __device_builtin__ __builtin_align__(16) float4 { float x, y, z, w; };
static __forceinline__ __host__ __device__ int one() { return 1; }
static_assert(alignof(float4) == 16, "the ABI of vectors");
"""
CLASS = "#include <cuda_runtime_api.h>\nint two();\nint two() { return one() + one(); }\n"


class Headers(FolderTest):
    def setUp(self):
        super().setUp()
        (self.folder / "cuda").mkdir()
        (self.folder / "cuda" / "cuda_runtime_api.h").write_text(RUNTIME)
        sources = TREE / "libmend/torch/source"
        (self.folder / "source").mkdir()
        (self.folder / "source" / "allocator.cpp").write_text(CLASS)
        (self.folder / "source" / "crt").symlink_to(sources / "crt")

    def compile(self):
        from libmend.torch import _build

        stubs = self.folder / "stubs"
        stubs.mkdir()
        compiler = shlex.split(os.environ["CXX"])
        for name in ("libc10.so", "libc10_cuda.so"):
            stub = [*compiler, "-shared", "-xc++", os.devnull, "-o", stubs / name]
            subprocess.run(stub, check=True)
        source = self.folder / "source" / "allocator.cpp"
        cuda = self.folder / "cuda"
        make = _build.command(
            compiler, (2, 8), self.folder / "class.so", [], cuda, [], stubs, source=source
        )
        return finished(make)

    def test_the_class_needs_no_toolkit(self):
        done = self.compile()
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_headers_of_a_toolkit_beside_those_of_the_runtime_are_taken(self):
        (self.folder / "cuda" / "crt").mkdir()
        (self.folder / "cuda" / "crt" / "host_defines.h").write_text("#error a toolkit's\n")
        self.assertIn("a toolkit's", self.compile().stderr)
