"""The values that kernels of the stub do not compute, computed by the CPU.

The bytes of a simulated device lie at its addresses, so an operator of the CPU over the same memory
has the effect of the operator's kernels. In a capture it becomes a function of the host, which
every launch of the graph calls. It is wrong only where the CPU differs: random numbers of the
device, and the order in which streams run.
"""

import ctypes

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map

CAPTURED = 1  # cudaStreamCaptureStatusActive

# Operators that compute nothing on the device, or whose results have a shape of their own.
LEFT_ALONE = (
    "_cudnn",
    "_local_scalar_dense",
    "_pin_memory",
    "_record_function",
    "alias",
    "detach",
    "empty",
    "is_pinned",
    "masked_select",
    "new_empty",
    "nonzero",
    "record_stream",
    "resize_",
    "set_",
    "unique",
)

# Products of matrices, which the CPU computes very slowly in 16 bits.
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv")
SHORT_TYPES = (torch.float16, torch.bfloat16)
# The CPU adds up so many numbers less exactly than a GPU does.
SUMS = ("sum", "mean")

_runtime = ctypes.CDLL(None)  # the preloaded stand-in


def is_on_device(value):
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def on_host(tensor):
    """A tensor of the CPU over the same bytes."""
    shape, strides = tensor.shape, tensor.stride()
    if tensor.numel() == 0:
        return torch.empty_strided(shape, strides, dtype=tensor.dtype)
    elements = 1 + sum((count - 1) * stride for count, stride in zip(shape, strides))
    span = ctypes.c_char * (elements * tensor.element_size())
    memory = torch.frombuffer(span.from_address(tensor.data_ptr()), dtype=torch.uint8)
    return memory.view(tensor.dtype).as_strided(shape, strides)


def widened(value):
    """A copy in 32 bits of a tensor in 16. Anything else as it is."""
    is_short = isinstance(value, torch.Tensor) and value.dtype in SHORT_TYPES
    return value.float() if is_short else value


def doubled(value):
    """The same in 64 bits of any fraction."""
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if is_float else value


class _ToHost:
    """Replaces tensors of the device in an operator's arguments, the same tensor by the same
    one."""

    def __init__(self):
        self.known = {}

    def __call__(self, value):
        if is_on_device(value):
            return self.known.setdefault(id(value), on_host(value))
        if isinstance(value, torch.device) and value.type == "cuda":
            return torch.device("cpu")
        return None if isinstance(value, torch.Generator) else value


class HostValues(TorchDispatchMode):
    """Runs each operator, and its sister of the CPU after it."""

    recorded = []  # what captured graphs call, by its number
    errors = []  # what the host could not compute

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        results = func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        if not name.startswith(LEFT_ALONE) and not getattr(func, "is_view", False):
            try:
                self.compute(func, args, kwargs, results)
            except Exception as error:
                self.errors.append(f"{func}: {error}"[:200])
        return results

    def compute(self, func, args, kwargs, results):
        if not any(is_on_device(value) for value in tree_flatten((args, kwargs, results))[0]):
            return
        to_host = _ToHost()
        host_args, host_kwargs = tree_map(to_host, args), tree_map(to_host, kwargs)
        if host_kwargs.get("pin_memory"):
            host_kwargs["pin_memory"] = False
        targets = [
            on_host(value) if is_on_device(value) else value for value in tree_flatten(results)[0]
        ]

        name = func._schema.name.partition("::")[2]
        wider = widened if name in PRODUCTS else doubled if name in SUMS else None

        def work():
            given = (host_args, host_kwargs)
            args, kwargs = tree_map(wider, given) if wider else given
            computed = tree_flatten(func(*args, **kwargs))[0]
            for target, value in zip(targets, computed):
                if not isinstance(target, torch.Tensor) or not isinstance(value, torch.Tensor):
                    continue
                if target.data_ptr() != value.data_ptr() and target.shape == value.shape:
                    target.copy_(value)

        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if self.is_captured(stream):
            self.recorded.append(work)
            number = ctypes.c_void_p(len(self.recorded))
            _runtime.cudaLaunchHostFunc(stream, _call_recorded, number)
        else:
            work()

    @staticmethod
    def is_captured(stream):
        status = ctypes.c_int()
        if _runtime.cudaStreamIsCapturing(stream, ctypes.byref(status)) != 0:
            _runtime.cudaGetLastError()  # the question was ours
        return status.value == CAPTURED


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _call_recorded(number):
    try:
        with torch.no_grad(), _disable_current_modes():
            HostValues.recorded[number - 1]()
    except Exception as error:
        HostValues.errors.append(f"in a replay: {error}"[:200])
