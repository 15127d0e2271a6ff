"""Compiles the small C++ part against the installed PyTorch, and keeps the result.

It needs a C++ compiler (`$CXX`, or c++) and PyTorch's own headers: no CUDA toolkit, and none of
PyTorch's build tools. The result is in `$MEND_CACHE_DIR`, or `~/.cache/mend`, under a name computed
from everything that it is made of, so that another PyTorch or another Mend compiles its own.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import stat
import subprocess
import tempfile
from pathlib import Path

from .. import _library

SOURCE = Path(__file__).with_name("adapter.cpp")

# In the order of struct Mend in adapter.cpp.
_FUNCTIONS = (
    ("mend_torch", "mend_torch_alloc"),
    ("mend_torch", "mend_torch_free"),
    ("mend", "mend_pool_for_device"),
    ("mend", "mend_get_stats"),
)


class NotAvailable(Exception):
    """The C++ part is not available, with the reason."""


def load(torch) -> Path:
    """Compiles the C++ part if necessary, loads it, connects it with Mend and returns its file.
    Raises NotAvailable."""
    if os.environ.get("MEND_TORCH_ADAPTER") == "0":
        raise NotAvailable("MEND_TORCH_ADAPTER=0")
    path = _compiled(torch)
    try:
        _connect(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        raise NotAvailable(f"{path} cannot be loaded: {error}") from error
    return path


def _connect(adapter: ctypes.CDLL) -> None:
    addresses = [_library.address_of(_library.load(of), name) for of, name in _FUNCTIONS]
    functions = (ctypes.c_void_p * len(addresses))(*addresses)
    set_raise = _library.address_of(_library.load("mend_torch"), "mend_torch_set_raise")
    connect = adapter.mend_torch_adapter_connect
    connect.restype = None
    connect(ctypes.byref(functions), ctypes.c_void_p(set_raise))


def _compiled(torch) -> Path:
    flags = _flags(torch)
    folder = cache_folder()
    path = folder / f"torch-{torch.__version__}-{_key(flags)}.so"
    if _is_ours(path):
        return path
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(suffix=".so", dir=folder)
        os.close(handle)
    except OSError as error:
        raise NotAvailable(f"{folder} cannot be written: {error}") from error
    try:
        compiler = shlex.split(os.environ.get("CXX") or "c++")
        _run([*compiler, *flags, "-o", unfinished])
        os.chmod(unfinished, 0o755)
        os.replace(unfinished, path)  # several processes may do the same at the same time
    except OSError as error:
        raise NotAvailable(f"{path} cannot be written: {error}") from error
    finally:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
    return path


def _is_ours(path: Path) -> bool:
    """Whether the file is there and only this user could have written it, because it will be
    run."""
    try:
        status = path.lstat()
    except OSError:
        return False
    is_safe = status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022
    return stat.S_ISREG(status.st_mode) and is_safe


def cache_folder() -> Path:
    """The folder for compiled parts."""
    chosen = os.environ.get("MEND_CACHE_DIR")
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(caches) / "mend"


def _flags(torch) -> list[str]:
    root = Path(torch.__file__).resolve().parent
    return [
        "-std=c++20",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        "-isystem",
        str(root / "include"),
        f"-I{_library.HEADERS}",
        str(SOURCE),
        f"-L{root / 'lib'}",
        "-lc10",
        f"-Wl,-rpath,{root / 'lib'}",
        "-Wl,-z,defs",
    ]


def _key(flags: list[str]) -> str:
    texts = [*flags, SOURCE.read_text(encoding="utf-8")]
    texts += [_library.header(path.name) for path in sorted((_library.HEADERS / "mend").iterdir())]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotAvailable(f"{command[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        wrong = next((line for line in lines if "error" in line), lines[-1] if lines else "no word")
        raise NotAvailable(f"{command[0]} failed with status {done.returncode}: {wrong[:200]}")
