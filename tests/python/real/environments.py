#!/usr/bin/env python3
"""Makes a virtual environment with a version of PyTorch, and the other frameworks that Mend's hooks
are for. Prints its interpreter.

Usage: environments.py [--peers] FOLDER VERSION

VERSION is PyTorch's: 2.8, or 2.5.1. FOLDER/torch-VERSION is made, or kept as it is if it was
finished before. Libraries are fetched that `import torch` loads, and no others: they are large.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

# Loaded by work on the GPU, not by the import.
NOT_NEEDED = re.compile(r"triton$|nvidia-cusolver")
# For the major version of CUDA that PyTorch wants.
PEERS = (
    "cupy-cuda{}x", "numba-cuda[cu{}]", "rmm-cu{}", "cython", "onnxruntime", "cuda-core", "umf",
)  # fmt: skip
TESTS_NEED = ("numpy", "setuptools", "expecttest", "hypothesis", "psutil", "nvidia-ml-py")


def pip(python, *arguments):
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def resolved(python, *requirements):
    """Name and version of all that pip would install."""
    text = pip(python, "install", "--dry-run", "--report", "-", *requirements)
    found = [item["metadata"] for item in json.loads(text)["install"]]
    return {item["name"]: item["version"] for item in found}


def make(folder, version, has_peers):
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    exactly = version if version.count(".") > 1 else f"{version}.*"
    wanted = resolved(python, f"torch=={exactly}")
    exact = [f"{n}=={v}" for n, v in wanted.items() if not NOT_NEEDED.match(n)]
    pip(python, "install", "--no-deps", "--no-cache-dir", *exact)
    pip(python, "install", *TESTS_NEED)
    if has_peers:
        cuda = "13" if any(name in wanted for name in ("cuda-toolkit", "nvidia-cublas")) else "12"
        pip(python, "install", "--no-cache-dir", *(peer.format(cuda) for peer in PEERS))
    (folder / "finished").write_text(json.dumps(wanted, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("folder", type=Path)
    parser.add_argument("version")
    options = parser.parse_args()
    folder = options.folder / f"torch-{options.version}"
    if not (folder / "finished").exists():
        print(f"fetching PyTorch {options.version} into {folder}", file=sys.stderr)
        make(folder, options.version, options.peers)
    print(folder.resolve() / "bin" / "python")


if __name__ == "__main__":
    main()
