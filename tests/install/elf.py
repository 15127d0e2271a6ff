#!/usr/bin/env python3
"""An installed library can be loaded anywhere: its names and version, its needs, no code that is
written to, no stack that is executed. Hardened ones, and the program, have their functions bound
before they start, in pages that are read-only then. Optimized ones are fortified, and watch their
stack.

Usage: elf.py READELF PATH_WITHOUT_SUFFIX VERSION [--hardened [--optimised]]
       elf.py READELF --program PATH [--hardened [--optimised]]
"""
import os
import re
import subprocess
import sys

# The loader is a part of libc: thread-local variables ask it for their address.
NEEDED = re.compile(r"libc\.so\.6|ld-linux.*\.so\.\d|libc\.musl-.*\.so\.1")
# The other needs of plug-ins. They find libmend beside themselves.
PLUG_INS = {
    "libmend_hooks": re.compile(r"libmend\.so\.\d+"),
    "libmend_torch": re.compile(r"libmend\.so\.\d+|libstdc\+\+\.so\.6|libgcc_s\.so\.1|libm\.so\.6"),
}


def entries(dynamic, kind):
    return re.findall(rf"\({kind}\).*\[(.*)\]", dynamic)


def findings_in(dynamic, segments, soname):
    if entries(dynamic, "SONAME") != [soname]:
        yield f"its SONAME is {entries(dynamic, 'SONAME')}, not {soname}"
    own = PLUG_INS.get(soname.split(".")[0])
    for library in entries(dynamic, "NEEDED"):
        if not NEEDED.fullmatch(library) and not (own and own.fullmatch(library)):
            yield f"needs {library}"
    for path in entries(dynamic, "R(?:UN)?PATH"):
        if not (own and path == "$ORIGIN"):
            yield f"looks for libraries in {path}"
    yield from memory_findings(dynamic, segments)


def memory_findings(dynamic, segments):
    if re.search(r"\(TEXTREL\)|\(FLAGS\).*TEXTREL", dynamic):
        yield "has relocations in its code"
    stack = re.search(r"^ *GNU_STACK .* ([RWE ]{3}) +0x", segments, re.M)
    if not stack or "E" in stack.group(1):
        yield "has an executable stack"
    if re.search(r"^ *LOAD .* (RWE|.WE) +0x", segments, re.M):
        yield "has memory that is written and executed"


def hardening_findings(dynamic, segments):
    if not re.search(r"^ *GNU_RELRO ", segments, re.M):
        yield "has relocations that stay writable"
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b|\(BIND_NOW\)", dynamic):
        yield "binds functions when they are first called"


def fortification_findings(symbols):
    if not re.search(r"\b__stack_chk_fail\b", symbols):
        yield "does not watch its stack"
    if not re.search(r"\b__(?!stack)\w+_chk\b", symbols):
        yield "calls no fortified function"


def program_findings(header, dynamic):
    if not re.search(r"Type: +DYN\b", header) or not re.search(r"\(FLAGS_1\).*\bPIE\b", dynamic):
        yield "is no position-independent program"


def links_in(path, version):
    """The file carries the full version. The loader's name and the linker's lead to it."""
    full = f"{path}.so.{version}"
    if os.path.islink(full) or not os.path.isfile(full):
        yield f"{full} is no file"
    for link in (f"{path}.so.{version.split('.')[0]}", f"{path}.so"):
        if not os.path.islink(link) or os.path.realpath(link) != os.path.realpath(full):
            yield f"{link} does not lead to {full}"
    if os.path.basename(path) not in PLUG_INS and not os.path.isfile(f"{path}.a"):
        yield f"{path}.a is not there"


def test_itself():
    dynamic = " 0x1 (NEEDED) Shared library: [libc.so.6]\n" \
        " 0xe (SONAME) Library soname: [liba.so.0]\n"
    segments = "  LOAD  0x0 0x0 0x0 0x1 0x1 R E 0x1000\n  GNU_STACK 0x0 0x0 0x0 0x0 0x0 RW  0x10\n"
    assert list(findings_in(dynamic, segments, "liba.so.0")) == []
    assert len(list(findings_in(dynamic, segments, "liba.so.1"))) == 1
    hooks = dynamic.replace("liba", "libmend_hooks") + \
        " 0x1 (NEEDED) Shared library: [libmend.so.0]\n 0x1d (RUNPATH) Library runpath: [$ORIGIN]\n"
    assert list(findings_in(hooks, segments, "libmend_hooks.so.0")) == []
    assert len(list(findings_in(hooks.replace("libc.so.6", "libstdc++.so.6"), segments,
                                "libmend_hooks.so.0"))) == 1
    bad = dynamic.replace("libc.so.6", "libm.so.6") + \
        " 0x1d (RUNPATH) Library runpath: [/a]\n 0x16 (TEXTREL) 0x0\n"
    assert len(list(findings_in(bad, segments, "liba.so.0"))) == 3
    assert len(list(findings_in(dynamic, segments.replace("RW ", "RWE"), "liba.so.0"))) == 1
    assert len(list(findings_in(dynamic, segments.replace("R E", "RWE"), "liba.so.0"))) == 1
    assert len(list(findings_in(dynamic, "", "liba.so.0"))) == 1
    assert len(list(hardening_findings(dynamic, segments))) == 2
    hard = "  GNU_RELRO      0x0 0x0 0x0 0x1 0x1 R 0x1\n"
    now = " 0x1e (FLAGS)    BIND_NOW\n 0x6ffffffb (FLAGS_1)   Flags: NOW PIE\n"
    assert list(hardening_findings(now, hard)) == []
    assert list(program_findings("  Type:   DYN (Shared object file)\n", now)) == []
    assert len(list(program_findings("  Type:   EXEC (Executable file)\n", now))) == 1
    assert len(list(fortification_findings("UND malloc@GLIBC_2.2.5"))) == 2
    assert list(fortification_findings("UND __stack_chk_fail@G\n UND __snprintf_chk@G")) == []


def main():
    test_itself()
    options = {argument for argument in sys.argv[1:] if argument.startswith("--")}
    readelf, path, *version = [a for a in sys.argv[1:] if a not in options]
    is_program = "--program" in options
    binary = path if is_program else f"{path}.so"

    def read(option):
        return subprocess.run([readelf, "--wide", option, binary], check=True,
                              capture_output=True, text=True).stdout

    found = [] if is_program else list(links_in(path, *version))
    if not found:
        dynamic, segments = read("--dynamic"), read("--program-headers")
        if is_program:
            found += program_findings(read("--file-header"), dynamic)
            found += memory_findings(dynamic, segments)
        else:
            soname = f"{os.path.basename(path)}.so.{version[0].split('.')[0]}"
            found += findings_in(dynamic, segments, soname)
        if "--hardened" in options:
            found += hardening_findings(dynamic, segments)
        if "--optimised" in options:
            found += fortification_findings(read("--dyn-syms"))
    for finding in found:
        print(f"{binary}: {finding}")
    print(f"{len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
