"""Programs that call PyTorch's allocator as its C++ parts do, by the library of probe.cpp."""

import os
import subprocess
import tempfile
from pathlib import Path

import torch
from programs import ENABLED, Programs

PROBE = """
import ctypes, os
probe = ctypes.CDLL(os.environ["MEND_TEST_PROBE"])
probe.probe_largest.restype = ctypes.c_size_t
probe.probe_drop.argtypes = [ctypes.c_void_p]

def heard():
    text = ctypes.create_string_buffer(1 << 16)
    probe.probe_events(text, ctypes.c_size_t(len(text)))
    return [
        (words[0], *map(int, words[1:]))
        for words in map(str.split, text.value.decode().splitlines())
    ]

def allocate_at(size, address):
    text = ctypes.create_string_buffer(1 << 12)
    probe.probe_allocate_at(
        ctypes.c_size_t(size), ctypes.c_void_p(address), text, ctypes.c_size_t(len(text))
    )
    return text.value.decode()
"""
PROBED = ENABLED + PROBE


def _compiled(folder):
    """The library of probe.cpp for this PyTorch."""
    from libmend import _library
    from libmend.torch import _build

    root = Path(torch.__file__).resolve().parent
    path = Path(folder) / "probe.so"
    make = _build.command(
        _build.compiler(),
        _build.version_of(torch.__version__),
        path,
        [root / "include"],
        _build.cuda_headers_of(root),
        [_library.path_of("mend"), _library.path_of("mend_torch")],
        root / "lib",
        bool(torch._C._GLIBCXX_USE_CXX11_ABI),
        source=Path(__file__).with_name("probe.cpp"),
    )
    subprocess.run(make, check=True)
    return path


class Probed(Programs):
    before = PROBED

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.environ["MEND_TEST_PROBE"] = str(_compiled(cls.folder.name))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
