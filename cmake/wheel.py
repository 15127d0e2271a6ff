#!/usr/bin/env python3
"""Finishes the wheel that pip built: adds files that CMake cannot, names its systems, and packs it
so that two builds are the same bytes.

Usage: wheel.py [--machine MACHINE] [--compiler COMMAND] [--headers FOLDER]... WHEEL TARGET_FOLDER
       wheel.py [--compiler COMMAND] [--headers FOLDER]... --tree PACKAGE_FOLDER

MACHINE is the machine of all libraries, as `uname -m` names it. For each FOLDER that
torch_headers.py has filled (FOLDER/release.json), the wheel gets the class compiled for that
PyTorch, in libmend/torch/prebuilt; COMMAND compiles for MACHINE. The libraries are looked into by
`readelf`. SOURCE_DATE_EPOCH is the date of all files. Prints the wheel's path.

The tag manylinux_2_N names the oldest GNU C library that has every symbol the libraries ask for.
The classes ask for PyTorch's libraries too, which the process has loaded before them and no wheel
of an extension holds: they do not count for the tag.
"""

import argparse
import base64
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

# Programs link with -lmend. A wheel has no links, but a linker reads such a text.
LINKED = ("mend", "mend_sim")
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}
# Libraries of every system with a GNU C library, whose symbols decide where the wheel runs.
OF_THE_SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so\.\d+$|ld-linux")
# Libraries that PyTorch loads before a class.
OF_PYTORCH = ("libc10.so", "libc10_cuda.so")
OLDEST_LIBC = (2, 17)
# The newest symbols of the compiler's libraries in the systems of a tag, as PyPA's auditwheel has
# them: a system with that C library or a newer one has these.
OF_THE_COMPILER = (
    ((2, 17), {"GLIBCXX": (3, 4, 19), "CXXABI": (1, 3, 7), "GCC": (4, 7, 0)}),
    ((2, 28), {"GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}),
    ((2, 31), {"GLIBCXX": (3, 4, 28), "CXXABI": (1, 3, 12), "GCC": (7, 0, 0)}),
    ((2, 34), {"GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0, 0)}),
    ((2, 35), {"GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (11, 0)}),
    ((2, 39), {"GLIBCXX": (3, 4, 33), "CXXABI": (1, 3, 15), "GCC": (14, 0, 0)}),
)


def readelf(option, path):
    command = ["readelf", "--wide", option, str(path)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def versions_in(text, name, path):
    """All versions of a library's symbols that are named: [(2, 34), ...]."""
    found = re.findall(rf"Name: {name}_(\S+)", text)
    if name == "GLIBC" and not all(re.fullmatch(r"[\d.]+", version) for version in found):
        sys.exit(f"{path.name} needs {name}_{max(found)}, which no tag names")
    numbers = (version for version in found if re.fullmatch(r"[\d.]+", version))
    return [tuple(int(part) for part in version.split(".")) for version in numbers]


def oldest_libc(path):
    """The oldest GNU C library of the systems that have every symbol a library asks for."""
    symbols = readelf("--version-info", path)
    libc = max(versions_in(symbols, "GLIBC", path), default=OLDEST_LIBC)
    wanted = {}
    for name in ("GLIBCXX", "CXXABI", "GCC"):
        wanted[name] = max(versions_in(symbols, name, path), default=(0,))
    for of_tag, newest in OF_THE_COMPILER:
        if all(wanted[name] <= newest[name] for name in wanted):
            return max(libc, of_tag)
    sys.exit(f"{path.name} needs a newer C++ library than systems have")


def check_needed(path, in_the_wheel):
    """A library needs only libraries of the wheel and of every system, and a class also
    PyTorch's."""
    for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", path)):
        is_class_of_pytorch = path.parent.name == "prebuilt" and needed in OF_PYTORCH
        is_there = needed in in_the_wheel or OF_THE_SYSTEM.match(needed) or is_class_of_pytorch
        if not is_there:
            sys.exit(f"{path.name} needs {needed}, which not every system has")


def platform_of(libraries, machine):
    """The tag of the oldest systems that have the symbols of the libraries."""
    in_the_wheel = {path.name for path in libraries}
    for path in libraries:
        header = readelf("--file-header", path)
        name = re.search(r"Machine:\s+(.+)", header)[1].strip()
        if MACHINES.get(name) != machine:
            sys.exit(f"{path.name} is for {MACHINES.get(name, name)}, not for {machine}")
        check_needed(path, in_the_wheel)
    newest = max(map(oldest_libc, libraries))
    return f"manylinux_{newest[0]}_{newest[1]}_{machine}"


def make_stubs(folder, compiler):
    """Libraries with the names of PyTorch's, for the linker."""
    for name in ("libc10.so", "libc10_cuda.so"):
        command = [*compiler, "-shared", "-xc", os.devnull, f"-Wl,-soname,{name}"]
        subprocess.run([*command, "-o", str(folder / name)], check=True)


def add_classes(tree, headers, compiler):
    """Compiles Mend's class for each version of PyTorch whose wheels have the usual ABI of C++. It
    finds libmend and libmend_torch where the wheel has them, if the process has not loaded them."""
    sys.path.insert(0, str(tree))
    from libmend.torch import _build

    libraries = [tree / "libmend" / "lib" / f"lib{name}.so.0" for name in ("mend", "mend_torch")]
    target = tree / "libmend" / "torch" / "prebuilt"
    target.mkdir()
    with tempfile.TemporaryDirectory() as stubs:
        make_stubs(Path(stubs), compiler)
        for folder in sorted(headers):
            about = json.loads((folder / "release.json").read_text())
            version = _build.version_of(about["version"])
            if not about["cxx11_abi"] or not _build.OLDEST <= version <= _build.NEWEST:
                print(f"not compiled for PyTorch {about['version']}", file=sys.stderr)
                continue
            include = [folder / "include"]
            output = target / _build.prebuilt_name(version)
            command = _build.command(
                compiler, version, output, include, folder / "cuda", libraries, stubs
            )
            command += [f"-ffile-prefix-map={tree}=.", "-Wl,-s", "-Wl,-rpath,$ORIGIN/../../lib"]
            subprocess.run(command, check=True)
            print(f"compiled for PyTorch {about['version']}", file=sys.stderr)


def files_of(tree):
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    return [path for path in files if path.parent.name != "__pycache__"]


def is_binary(path):
    """Whether it is a library or the program, and no text for the linker."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def record_of(tree, record):
    """The list of files with their hashes that belongs into a wheel."""
    lines = []
    for path in files_of(tree):
        if path != record:
            data = path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{path.relative_to(tree)},sha256={digest},{len(data)}\n")
    return "".join(lines) + f"{record.relative_to(tree)},,\n"


def pack(tree, target):
    date = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")))[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in files_of(tree):
            info = zipfile.ZipInfo(str(path.relative_to(tree)), date)
            info.external_attr = (0o100755 if is_binary(path) else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(info, path.read_bytes(), compresslevel=9)


def finish(wheel, target_folder, headers, compiler, machine):
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        with zipfile.ZipFile(wheel) as made:
            made.extractall(tree)
        if headers:
            add_classes(tree, headers, compiler)
        libraries = list(filter(is_binary, files_of(tree)))
        tag = platform_of(libraries, machine)
        for name in LINKED:
            (tree / "libmend" / "lib" / f"lib{name}.so").write_text(f"INPUT(lib{name}.so.0)\n")
        info = next(tree.glob("*.dist-info"))
        tags = info / "WHEEL"
        tags.write_text(re.sub(r"(?m)^Tag: .*$", f"Tag: py3-none-{tag}", tags.read_text()))
        (info / "RECORD").write_text(record_of(tree, info / "RECORD"))
        target_folder.mkdir(parents=True, exist_ok=True)
        name = "-".join(wheel.name.split("-")[:2])
        target = target_folder / f"{name}-py3-none-{tag}.whl"
        pack(tree, target)
    print(target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", choices=MACHINES.values(), default=platform.machine())
    parser.add_argument("--compiler", type=shlex.split, default=["c++"])
    parser.add_argument("--headers", type=Path, action="append", default=[])
    parser.add_argument("--tree", type=Path, help="add the classes to an unpacked package instead")
    parser.add_argument("wheel", type=Path, nargs="?")
    parser.add_argument("target_folder", type=Path, nargs="?")
    options = parser.parse_args()
    headers = [folder.resolve() for folder in options.headers]
    if options.tree:
        add_classes(options.tree.resolve(), headers, options.compiler)
        return
    if options.target_folder is None:
        parser.error("a wheel and a folder for the finished one")
    finish(options.wheel, options.target_folder, headers, options.compiler, options.machine)


if __name__ == "__main__":
    main()
