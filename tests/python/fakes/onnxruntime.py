"""A stub of ONNX Runtime: takes the options of its CUDA provider as text, and calls the functions
that they name, without a device, a stream, or a size to free. It computes on user_compute_stream,
or on an unknown stream of its own."""

import ctypes


class InferenceSession:
    def __init__(self, model, providers=()):
        options = dict(p for p in providers if isinstance(p, tuple))["CUDAExecutionProvider"]
        if not all(isinstance(value, str) for value in options.values()):
            raise ValueError("options of a provider are text")
        self.stream = int(options.get("user_compute_stream", "0"))
        p = ctypes.c_void_p
        self._alloc = ctypes.CFUNCTYPE(p, ctypes.c_size_t)(int(options["gpu_external_alloc"]))
        self._free = ctypes.CFUNCTYPE(None, p)(int(options["gpu_external_free"]))
        self._empty_cache = ctypes.CFUNCTYPE(None)(int(options["gpu_external_empty_cache"]))
        # Tests give a model as the sizes of its tensors. A file's name is a model of one tensor.
        sizes = [1 << 20] if isinstance(model, str) else model
        self._blocks = [self.alloc(size) for size in sizes]

    def alloc(self, size):
        made = self._alloc(size)
        if not made:  # ORT_ENFORCE
            raise RuntimeError("gpu_external_alloc returned NULL")
        return made

    def run(self, sizes=()):
        return len([self._free(self.alloc(size)) for size in sizes])

    def close(self):
        """Only a block that was reserved for a graph is followed by empty_cache."""
        for block in self._blocks:
            self._free(block)
        self._blocks = []
        self._empty_cache()
