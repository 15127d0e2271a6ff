"""ONNX Runtime's CUDA memory from Mend.

    import libmend.onnxruntime
    session = onnxruntime.InferenceSession(model, providers=libmend.onnxruntime.providers())

ONNX Runtime calls C functions whose addresses are options of its CUDA provider, and tells them
neither device nor stream. The device is the current one. If a session computes on a stream of the
program's, `providers(user_compute_stream=stream)` tells both, and the session's memory goes round
in the order of that stream. Otherwise freed memory is reused only when all work of the device that
came before is done. ONNX Runtime has no cache above these functions.
"""

from __future__ import annotations

import ctypes

from . import _devices, _library, _structures, _unused
from ._errors import check
from ._warning import warn_user


def provider_options(user_compute_stream: object = None, **others: object) -> dict[str, str]:
    """Options of the CUDAExecutionProvider, all as text: the addresses, the stream if the session
    has one (its number, or PyTorch's or CuPy's), and `others`."""
    if "gpu_mem_limit" in others:
        warn_user(
            "libmend.onnxruntime: gpu_mem_limit has no effect on memory from Mend;"
            ' libmend.set_limit("20GiB") sets the most that Mend may hold'
        )
    _unused.is_on("onnxruntime")
    library = _library.load("mend_hooks")
    stream = _devices.NO_STREAM
    if user_compute_stream is not None:
        stream = _devices.stream_of(user_compute_stream)
        others["user_compute_stream"] = stream
    functions = _structures.made("mend_ort_functions")
    found = library.mend_ort_functions_for
    found.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    check(found(stream, ctypes.byref(functions)))
    addresses = {
        "gpu_external_alloc": functions.alloc,
        "gpu_external_free": functions.free,
        "gpu_external_empty_cache": functions.empty_cache,
    }
    return {name: str(value) for name, value in {**others, **addresses}.items()}


def providers(**others: object) -> list[object]:
    """The list for InferenceSession: CUDA with Mend's memory, then the CPU."""
    return [("CUDAExecutionProvider", provider_options(**others)), "CPUExecutionProvider"]
