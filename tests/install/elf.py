#!/usr/bin/env python3
"""What the linker wrote into an installed library is fit to be loaded anywhere: its names and
version, what it needs, no code that is written to, no stack that is executed.

Usage: elf.py READELF PATH_WITHOUT_SUFFIX VERSION
"""
import os
import re
import subprocess
import sys

# The loader is a part of libc: thread-local variables ask it for their address.
NEEDED = re.compile(r"libc\.so\.6|ld-linux.*\.so\.\d|libc\.musl-.*\.so\.1")


def entries(dynamic, kind):
    return re.findall(rf"\({kind}\).*\[(.*)\]", dynamic)


def findings_in(dynamic, segments, soname):
    if entries(dynamic, "SONAME") != [soname]:
        yield f"its SONAME is {entries(dynamic, 'SONAME')}, not {soname}"
    for library in entries(dynamic, "NEEDED"):
        if not NEEDED.fullmatch(library):
            yield f"needs {library}"
    for path in entries(dynamic, "R(?:UN)?PATH"):
        yield f"looks for libraries in {path}"
    if re.search(r"\(TEXTREL\)|\(FLAGS\).*TEXTREL", dynamic):
        yield "has relocations in its code"
    stack = re.search(r"^ *GNU_STACK .* ([RWE ]{3}) +0x", segments, re.M)
    if not stack or "E" in stack.group(1):
        yield "has an executable stack"
    if re.search(r"^ *LOAD .* (RWE|.WE) +0x", segments, re.M):
        yield "has memory that is written and executed"


def links_in(path, version):
    """The file carries the full version; the loader's name and the linker's lead to it."""
    full = f"{path}.so.{version}"
    if os.path.islink(full) or not os.path.isfile(full):
        yield f"{full} is no file"
    for link in (f"{path}.so.{version.split('.')[0]}", f"{path}.so"):
        if not os.path.islink(link) or os.path.realpath(link) != os.path.realpath(full):
            yield f"{link} does not lead to {full}"
    if not os.path.isfile(f"{path}.a"):
        yield f"{path}.a is not there"


def test_itself():
    dynamic = " 0x1 (NEEDED) Shared library: [libc.so.6]\n" \
        " 0xe (SONAME) Library soname: [liba.so.0]\n"
    segments = "  LOAD  0x0 0x0 0x0 0x1 0x1 R E 0x1000\n  GNU_STACK 0x0 0x0 0x0 0x0 0x0 RW  0x10\n"
    assert list(findings_in(dynamic, segments, "liba.so.0")) == []
    assert len(list(findings_in(dynamic, segments, "liba.so.1"))) == 1
    bad = dynamic.replace("libc.so.6", "libm.so.6") + \
        " 0x1d (RUNPATH) Library runpath: [/a]\n 0x16 (TEXTREL) 0x0\n"
    assert len(list(findings_in(bad, segments, "liba.so.0"))) == 3
    assert len(list(findings_in(dynamic, segments.replace("RW ", "RWE"), "liba.so.0"))) == 1
    assert len(list(findings_in(dynamic, segments.replace("R E", "RWE"), "liba.so.0"))) == 1
    assert len(list(findings_in(dynamic, "", "liba.so.0"))) == 1


def main():
    test_itself()
    readelf, path, version = sys.argv[1:]

    def read(option):
        return subprocess.run([readelf, "--wide", option, f"{path}.so"], check=True,
                              capture_output=True, text=True).stdout

    found = list(links_in(path, version))
    if not found:
        soname = f"{os.path.basename(path)}.so.{version.split('.')[0]}"
        found = list(findings_in(read("--dynamic"), read("--program-headers"), soname))
    for finding in found:
        print(f"{path}.so: {finding}")
    print(f"{len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
