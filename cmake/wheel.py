#!/usr/bin/env python3
"""Finishes the wheel that pip built: adds what CMake cannot, names the systems it runs on, and
packs it so that two builds are the same bytes.

Usage: wheel.py [--headers FOLDER] [--compiler COMMAND] WHEEL TARGET_FOLDER

FOLDER is what torch_headers.py has filled: the wheel gets a class compiled for each PyTorch in it,
in mend/torch/prebuilt. COMMAND compiles for the machine that the wheel is for. The libraries are
looked into by `readelf`. SOURCE_DATE_EPOCH is the date of all files. Prints the wheel's path.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

# Programs link with -lmend; a wheel has no links, but a linker reads such a text.
LINKED = ("mend", "mend_sim")
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}
# What a system or PyTorch has; anything else would be missing.
OF_THE_SYSTEM = re.compile(
    r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|c10|c10_cuda|mend\w*)\.so|ld-linux"
)
# C++'s library of the oldest system with this GNU C library has these symbols.
NEWEST_CXX = (3, 4, 30)


def readelf(option, path):
    command = ["readelf", "--wide", option, str(path)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def versions_in(text, name):
    """All versions of a library's symbols that are named: [(2, 34), ...]."""
    found = re.findall(rf"Name: {name}_([\d.]+)", text)
    return [tuple(int(part) for part in version.split(".")) for version in found]


def platform_of(libraries):
    """The tag of the oldest systems that have what the libraries ask for."""
    machines, newest = set(), (2, 17)
    for path in libraries:
        machines.add(re.search(r"Machine:\s+(.+)", readelf("--file-header", path))[1].strip())
        for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", path)):
            if not OF_THE_SYSTEM.match(needed):
                sys.exit(f"{path.name} needs {needed}, which not every system has")
        symbols = readelf("--version-info", path)
        newest = max(newest, *versions_in(symbols, "GLIBC"), newest)
        if max(versions_in(symbols, "GLIBCXX"), default=(0,)) > NEWEST_CXX:
            sys.exit(f"{path.name} needs a newer C++ library than most systems have")
    if len(machines) != 1:
        sys.exit(f"the libraries are for {', '.join(sorted(machines))}")
    return f"manylinux_{newest[0]}_{newest[1]}_{MACHINES[machines.pop()]}"


def make_stubs(folder, compiler):
    """Libraries with the names of PyTorch's, for the linker."""
    for name in ("libc10.so", "libc10_cuda.so"):
        command = [*compiler, "-shared", "-xc", os.devnull, f"-Wl,-soname,{name}"]
        subprocess.run([*command, "-o", str(folder / name)], check=True)


def add_classes(tree, headers, compiler):
    """Compiles Mend's class for each version of PyTorch whose wheels have the usual ABI of C++."""
    sys.path.insert(0, str(tree))
    from mend.torch import _build

    libraries = [tree / "mend" / "lib" / f"lib{name}.so.0" for name in ("mend", "mend_torch")]
    target = tree / "mend" / "torch" / "prebuilt"
    target.mkdir()
    with tempfile.TemporaryDirectory() as stubs:
        make_stubs(Path(stubs), compiler)
        for release in sorted(headers.glob("*/release.json")):
            about = json.loads(release.read_text())
            version = _build.version_of(about["version"])
            if not about["cxx11_abi"] or not _build.OLDEST <= version <= _build.NEWEST:
                continue
            folder = release.parent
            include = [folder / "include"]
            output = target / _build.prebuilt_name(version)
            command = _build.command(
                compiler, version, output, include, folder / "cuda", libraries, stubs
            )
            subprocess.run([*command, f"-ffile-prefix-map={tree}=.", "-Wl,-s"], check=True)
            print(f"compiled for PyTorch {about['version']}", file=sys.stderr)


def files_of(tree):
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    return [path for path in files if path.parent.name != "__pycache__"]


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
            is_library = path.suffix == ".so" or ".so." in path.name
            info.external_attr = (0o100755 if is_library else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(info, path.read_bytes(), compresslevel=9)


def finish(wheel, target_folder, headers, compiler):
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        with zipfile.ZipFile(wheel) as made:
            made.extractall(tree)
        if headers:
            add_classes(tree, headers, compiler)
        libraries = [path for path in files_of(tree) if ".so" in path.name]
        platform = platform_of(libraries)
        for name in LINKED:
            (tree / "mend" / "lib" / f"lib{name}.so").write_text(f"INPUT(lib{name}.so.0)\n")
        info = next(tree.glob("*.dist-info"))
        tags = info / "WHEEL"
        tags.write_text(re.sub(r"(?m)^Tag: .*$", f"Tag: py3-none-{platform}", tags.read_text()))
        (info / "RECORD").write_text(record_of(tree, info / "RECORD"))
        target_folder.mkdir(parents=True, exist_ok=True)
        name = "-".join(wheel.name.split("-")[:2])
        target = target_folder / f"{name}-py3-none-{platform}.whl"
        pack(tree, target)
    print(target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headers", type=Path)
    parser.add_argument("--compiler", type=shlex.split, default=["c++"])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("target_folder", type=Path)
    options = parser.parse_args()
    headers = options.headers and options.headers.resolve()
    finish(options.wheel, options.target_folder, headers, options.compiler)


if __name__ == "__main__":
    main()
