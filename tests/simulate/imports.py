#!/usr/bin/env python3
"""Writes imports.txt: the imports of programs from CUDA's runtime, driver, cuBLAS, cuDNN and NVML.

Usage: imports.py TITLE=FOLDER... >imports.txt

FOLDER holds a package as unpacked from its wheel. Linked names are read by `nm`, names looked up at
run time from the texts in the libraries, and Triton's from its source.
"""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

# cuFile and cuFFT are other libraries. Names that begin with two capitals are not CUDA's.
NAME = re.compile(r"(?!cuF(ile|FT))(?:cu[A-Z][a-z]|cuda[A-Z]|cublas|cudnn|nvml|__cuda)\w+")
# Of these libraries the texts are names that they ask the driver for.
ASK_BY_NAME = re.compile(r"libc10_cuda|libtorch_(cuda|cpu)\.|cuda/bindings/_internal/driver\.")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(path):
    names = re.findall(r" U (\w+)", output("nm", "-D", "--undefined-only", str(path)))
    return {name for name in names if NAME.fullmatch(name)}


def asked_for(path):
    lines = output("strings", "-n", "5", str(path)).splitlines()
    return {line for line in lines if re.fullmatch(r"(?!cuF)(cu|nvml)[A-Z][a-z]\w+", line)}


def main():
    link, ask, titles = set(), set(), []
    for argument in sys.argv[1:]:
        title, _, folder = argument.partition("=")
        titles.append(title)
        for path in Path(folder).rglob("*.so*"):
            link |= linked(path)
            if ASK_BY_NAME.search(str(path)):
                ask |= asked_for(path)
        for path in Path(folder).rglob("backends/nvidia/driver.c"):
            source = path.read_text(encoding="utf-8")
            link |= set(re.findall(r"\b(cu[A-Z](?!\w*Handle)\w+)\(", source))
    print(f"# Made by imports.py from {', '.join(titles)}.")
    for what, names in (("linked", link), ("by name", ask - link)):
        print(f"[{what}]")
        print(textwrap.fill(" ".join(sorted(names)), 100))


if __name__ == "__main__":
    main()
