"""ONNX Runtime's CUDA memory from Mend.

    import mend.onnxruntime
    session = onnxruntime.InferenceSession(model, providers=mend.onnxruntime.providers())

ONNX Runtime calls C functions whose addresses are options of its CUDA provider. It names neither
device nor stream: the device is the current one, and freed memory is reused only when all work of
the device is done. It has no cache above these functions.
"""

from __future__ import annotations

from . import _library

_FUNCTIONS = {
    "gpu_external_alloc": "mend_ort_alloc",
    "gpu_external_free": "mend_ort_free",
    "gpu_external_empty_cache": "mend_ort_empty_cache",
}


def provider_options(**others: object) -> dict[str, str]:
    """Options of the CUDAExecutionProvider, all as text: the addresses, and `others`."""
    library = _library.load("mend_hooks")
    addresses = {
        option: str(_library.address_of(library, function))
        for option, function in _FUNCTIONS.items()
    }
    return {**{name: str(value) for name, value in others.items()}, **addresses}


def providers(**others: object) -> list[object]:
    """The list for InferenceSession: CUDA with Mend's memory, then the CPU."""
    return [("CUDAExecutionProvider", provider_options(**others)), "CPUExecutionProvider"]
