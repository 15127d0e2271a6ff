#!/usr/bin/env python3
"""Fetches the headers of PyTorch releases, without their wheels, to compile Mend's class for each
release.

Usage: torch_headers.py FOLDER VERSION...

FOLDER/MINOR/include gets the headers of PyTorch VERSION, FOLDER/MINOR/cuda the headers of its CUDA
runtime, and FOLDER/MINOR/release.json the data for a compiler. pip names the files. Only the end of
a wheel and the wanted members are read. Each minor version has one release: files of the requested
one stay, and another one is replaced.
"""

import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path

READ_AHEAD_BYTES = 4 << 20
WANTED = re.compile(
    r"torch/include/(c10|ATen|torch/csrc|torch/headeronly|torch/extension\.h|torch/all\.h)"
    r"|torch/share/cmake/Torch/TorchConfig\.cmake$"
)


class RemoteFile(io.RawIOBase):
    """A file of a server that answers requests for ranges of it."""

    def __init__(self, address):
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD")) as answer:
            self.size = int(answer.headers["Content-Length"])
        self.address = address
        self.at = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=io.SEEK_SET):
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        self.at = base + offset
        return self.at

    def readinto(self, buffer):
        count = min(len(buffer), self.size - self.at)
        if count <= 0:
            return 0
        wanted = {"Range": f"bytes={self.at}-{self.at + count - 1}"}
        with urllib.request.urlopen(urllib.request.Request(self.address, headers=wanted)) as answer:
            if answer.status != 206:
                raise OSError("the server sends no ranges of a file")
            data = answer.read()
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


def report_of(requirement):
    """The package that pip would install for a requirement: its address and metadata."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
    command += ["--ignore-installed", "--only-binary=:all:", "--report", "-", requirement]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["install"][0]


def files_of(wheel):
    return [name for name in wheel.namelist() if not name.endswith("/")]


def copy_members(wheel, names, target, begins):
    """Unpacks members of a wheel, without a prefix of their names."""
    for info in sorted(map(wheel.getinfo, names), key=lambda info: info.header_offset):
        path = target / info.filename[len(begins) :]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wheel.read(info))


def runtime_of(metadata):
    """The requirement for the headers of the CUDA runtime that a PyTorch wants."""
    requirements = metadata.get("requires_dist", [])
    for requirement in requirements:
        found = re.match(r"(nvidia-cuda-runtime[\w-]*)\s*\(?(==[\d.]+)", requirement)
        if found:
            return found[1] + found[2]
    for requirement in requirements:
        found = re.match(r"cuda-toolkit.*==(\d+\.\d+)", requirement)
        if found:
            return f"nvidia-cuda-runtime=={found[1]}.*"
    raise SystemExit(f"PyTorch {metadata['version']} names no CUDA runtime")


def fetch_runtime(requirement, target):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--dest", folder, requirement]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            names = [name for name in files_of(wheel) if "/include/" in name]
            begins = names[0].partition("/include/")[0] + "/include/"
            copy_members(wheel, names, target, begins)


def fetch(folder, version):
    minor = re.match(r"\d+\.\d+", version)[0]
    target = folder / minor
    release = target / "release.json"
    if release.exists() and json.loads(release.read_text()).get("asked_for") == version:
        print(f"{minor}: there already")
        return
    shutil.rmtree(target, ignore_errors=True)
    report = report_of(f"torch=={version}")
    remote = io.BufferedReader(RemoteFile(report["download_info"]["url"]), READ_AHEAD_BYTES)
    with zipfile.ZipFile(remote) as wheel:
        names = [name for name in files_of(wheel) if WANTED.match(name)]
        headers = [name for name in names if name.startswith("torch/include/")]
        copy_members(wheel, headers, target / "include", "torch/include/")
        settings = next(name for name in names if name.endswith("TorchConfig.cmake"))
        abi = re.search(r"_GLIBCXX_USE_CXX11_ABI=(\d)", wheel.read(settings).decode())
    fetch_runtime(runtime_of(report["metadata"]), target / "cuda")
    found = report["metadata"]["version"]
    about = {"asked_for": version, "version": found, "cxx11_abi": int(abi[1]) if abi else 1}
    release.write_text(json.dumps(about) + "\n")
    print(f"{minor}: {found}, {len(headers)} headers", flush=True)


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    for version in sys.argv[2:]:
        fetch(Path(sys.argv[1]), version)


if __name__ == "__main__":
    main()
