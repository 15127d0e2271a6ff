"""RMM's current device resource from Mend, and with it the memory of RAPIDS.

    import libmend.rmm
    libmend.rmm.enable(native=True)

Memory is used in stream order, as RMM requires. `native` is the resource of mend_rmm.hpp, which
needs no interpreter's lock. It is compiled at its first use and cached. This takes half a minute,
Cython, a C++ compiler, and an RMM with headers and with resources by reference in Python, as 26.10.
Without it each allocation calls a Python function: RMM's documentation recommends this only for
debugging.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import sysconfig
from pathlib import Path

from . import _devices, _library, _unused
from ._warning import warn_user

# RMM's resources that a program tells how much they may take, as rmm.reinitialize and Dask do.
_BOUNDED = ("ArenaMemoryResource", "LimitingResourceAdaptor", "PoolMemoryResource")

_kept: dict[tuple[int, bool], object] = {}

# Its arguments: the target, the interpreter, the source, and the compiler's command.
_MAKE = """
made=$1 python=$2 source=$3
shift 3
trap 'rm -f "$made.cpp"' EXIT
"$python" -m cython -3 --cplus "$source" -o "$made.cpp"
"$@" "$made.cpp" -o "$made"
"""


@functools.cache
def _native():
    """The module of _rmm.pyx. Raises RuntimeError."""
    import rmm

    from .torch import _build

    site, prefix = Path(rmm.__file__).resolve().parents[1], Path(sys.prefix)
    source = Path(__file__).with_name("_rmm.pyx")
    try:
        headers = (
            site / "librmm" / "include",
            site / "rapids_logger" / "include",
            prefix / "include",
            _build.cuda_headers_of(Path(rmm.__file__).resolve().parent),
            sysconfig.get_path("include"),
        )
        make = [
            *("sh", "-ec", _MAKE, "sh", "", sys.executable, str(source), *_build.compiler()),
            *("-std=c++17", "-O2", "-fPIC", "-shared", "-w", f"-I{_library.HEADERS}"),
            *(f"-I{path}" for folder in headers for path in (folder, Path(folder) / "rapids")),
            *("-Wl,--no-as-needed", str(_library.path_of("mend"))),
            *(f"-L{folder}" for folder in (site / "librmm" / "lib64", prefix / "lib")),
            "-lrmm",
        ]
        name = f"rmm-{rmm.__version__}-{sys.implementation.cache_tag}"
        path = _build.compiled(_build.path_in_cache(name, make), make, make.index(""))
    except _build.NotAvailable as reason:
        raise RuntimeError(
            f"libmend.rmm: its resource for RMM {rmm.__version__} is not available: {reason}"
        ) from reason
    spec = importlib.util.spec_from_file_location("libmend._rmm", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def resource(device: int, native: bool = False):
    """An rmm.mr.DeviceMemoryResource with Mend's memory of a device. RMM requires it to live as
    long as any of its buffers. Raises RuntimeError where the native one cannot be compiled."""
    import rmm

    _unused.is_on("rmm")
    if native:
        return _native().Resource(_devices.pool(device).value)

    def allocate(size: int, stream) -> int:
        return _devices.alloc(device, size, _handle_of(stream))

    def deallocate(address: int, size: int, stream) -> None:
        _devices.free(device, address, size, _handle_of(stream))

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def enable(device: int | None = None, native: bool = False) -> None:
    """Makes Mend the resource of a device (default: the current one). Live buffers keep the
    resource they came from. Warns of a pool's size or a limit of the resource before, which hold no
    longer. Raises as `resource`."""
    import rmm

    ordinal = _devices.current_device() if device is None else device
    before = rmm.mr.get_per_device_resource(ordinal)
    while before is not None:
        kind = type(before).__name__
        if kind in _BOUNDED:
            warn_user(
                f"libmend.rmm: the sizes of RMM's {kind} on device {ordinal} hold no longer;"
                ' libmend.set_limit("20GiB") sets the most that Mend may hold'
            )
        before = before.get_upstream() if hasattr(before, "get_upstream") else None
    if (ordinal, native) not in _kept:
        _kept[ordinal, native] = resource(ordinal, native)
    rmm.mr.set_per_device_resource(ordinal, _kept[ordinal, native])


def _handle_of(stream) -> int:
    """The handle of an rmm.pylibrmm.stream.Stream, by the protocol of such objects."""
    return stream.__cuda_stream__()[1]
