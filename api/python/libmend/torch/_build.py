"""The command that compiles Mend's class for PyTorch (source/allocator.cpp), and where it is kept.

It needs a C++ compiler, PyTorch's headers, and the headers of CUDA's runtime, which pip installs
with PyTorch. It needs no CUDA toolkit, and none of PyTorch's build tools. The result serves one
minor version of PyTorch. This module needs no PyTorch, so that the maker of a wheel can use it.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import platform
import shlex
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from .. import _library

SOURCE = Path(__file__).with_name("source") / "allocator.cpp"
PREBUILT = Path(__file__).with_name("prebuilt")

OLDEST = (2, 5)
# The newest version that this was tried with. A newer one may have changed the class.
NEWEST = (2, 15)


class NotAvailable(Exception):
    """The class is not available, with the reason."""


def prebuilt_name(version: tuple[int, int]) -> str:
    """The name of the library for a version of PyTorch in the folder `prebuilt`."""
    return f"mend_torch_{version[0]}_{version[1]}.so"


def command(
    compiler: list[str],
    version: tuple[int, int],
    output: Path | str,
    torch_headers: list[Path | str],
    cuda_headers: Path | str,
    libraries: list[Path | str],
    torch_libraries: Path | str,
    cxx11_abi: bool = True,
    source: Path | str = SOURCE,
    mend_headers: Path | str = _library.HEADERS,
) -> list[str]:
    """The command. `libraries` are libmend and libmend_torch. `torch_libraries` is the folder of
    libc10.so and libc10_cuda.so, of which only the names matter: PyTorch has loaded them. The last
    folder of headers has crt/, which pip does not install with the others."""
    folders = (*torch_headers, cuda_headers, Path(source).parent)
    headers = [part for folder in folders for part in ("-isystem", str(folder))]
    return [
        *compiler,
        "-std=c++20",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        f"-DMEND_TORCH={version[0]}{version[1]:02}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(cxx11_abi)}",
        *headers,
        f"-I{mend_headers}",
        str(source),
        "-o",
        str(output),
        "-Wl,--no-as-needed",
        *(str(library) for library in libraries),
        f"-L{torch_libraries}",
        "-lc10",
        "-lc10_cuda",
    ]


def version_of(text: str) -> tuple[int, int]:
    """(2, 8) of "2.8.0+cu128"."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def check_version(text: str) -> tuple[int, int]:
    """The version, if it is one that the class can serve. Raises NotAvailable."""
    version = version_of(text)
    if not OLDEST <= version <= NEWEST:
        raise NotAvailable(
            f"this Mend serves PyTorch {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]},"
            f" not {text}"
        )
    return version


def cuda_headers_of(package: Path) -> Path:
    """The folder with the headers of CUDA's runtime: of a pip package as of PyTorch's dependencies,
    or of a toolkit. Raises NotAvailable."""
    site = package.parent
    folders = [*site.glob("nvidia/cu[0-9]*/include"), site / "nvidia" / "cuda_runtime" / "include"]
    toolkits = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    folders += [Path(toolkit) / "include" for toolkit in toolkits if toolkit]
    folders.append(Path("/usr/local/cuda/include"))
    for folder in folders:
        if (folder / "cuda_runtime_api.h").is_file():
            return folder
    raise NotAvailable(
        "the headers of CUDA's runtime are not there: install nvidia-cuda-runtime (the version of"
        " PyTorch's CUDA), or set CUDA_HOME"
    )


def path_in_cache(name: str, make: list[str]) -> Path:
    """Where the library that a command makes is kept."""
    return _library.cache_folder() / f"{name}-{_key(make)}.so"


def compiled(path: Path, make: list[str], unfinished_at: int, hint: str = "") -> Path:
    """The library in the cache, made by the command if it is missing. `make[unfinished_at]` is
    replaced by the name of a file that is moved when it is complete. One line on standard error
    says that it is made, and the hint. Of processes that come at the same time one makes it, and
    the others wait, where the folder can be locked. Raises NotAvailable."""
    if is_ours(path):
        return path
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise NotAvailable(f"{folder} cannot be written: {error}") from error
    try:
        is_locked = _lock(lock)
        if not is_ours(path):
            _make(path, make, unfinished_at, hint, is_locked)
    except OSError as error:
        raise NotAvailable(f"{path} cannot be written: {error}") from error
    finally:
        os.close(lock)
    return path


def _lock(folder: int) -> bool:
    """Whether the folder is locked, until its file is closed or the process ends. Some file systems
    cannot, NFS among them: there each process makes its own, and the last one stays."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def _make(path: Path, make: list[str], unfinished_at: int, hint: str, is_locked: bool) -> None:
    """Makes it beside its place. Under the lock, removes remains of killed processes of this
    machine first."""
    prefix = f"unfinished-{platform.node()}-"
    if is_locked:
        for left in path.parent.glob(glob.escape(prefix) + "*"):
            left.unlink(missing_ok=True)
    print(
        f"libmend: compiling {path.name} into {path.parent}, once for this version{hint}",
        file=sys.stderr,
        flush=True,
    )
    file, name = tempfile.mkstemp(".so", prefix, path.parent)
    os.close(file)
    unfinished = Path(name)
    try:
        _run([*make[:unfinished_at], str(unfinished), *make[unfinished_at + 1 :]])
        os.chmod(unfinished, 0o755)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def compiler() -> list[str]:
    """The C++ compiler: $CXX, or c++."""
    return shlex.split(os.environ.get("CXX") or "c++")


def is_ours(path: Path) -> bool:
    """Whether the file is there and only this user could have written it, because it will be
    run."""
    try:
        status = path.lstat()
    except OSError:
        return False
    is_safe = status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022
    return stat.S_ISREG(status.st_mode) and is_safe


def _key(make: list[str]) -> str:
    texts = list(make)
    folder = SOURCE.parent
    sources = (*folder.glob("*.[ch]pp"), *folder.glob("crt/*.h"), *folder.parents[1].glob("*.pyx"))
    for path in sorted(sources):
        texts.append(path.read_text(encoding="utf-8"))
    texts += [_library.header(path.name) for path in sorted((_library.HEADERS / "mend").iterdir())]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _run(make: list[str]) -> None:
    try:
        done = subprocess.run(make, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotAvailable(f"{make[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        wrong = next((line for line in lines if "error" in line), lines[-1] if lines else "no word")
        raise NotAvailable(f"{make[0]} failed with status {done.returncode}: {wrong[:200]}")
