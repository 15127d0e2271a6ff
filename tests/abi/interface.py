#!/usr/bin/env python3
"""The binary interface of the libraries against the one that is kept in interface.txt: a line for
each function, structure and enumeration, as libabigail reads the debug information of a build by
gcc for x86-64. Any difference fails, growth too. One that is meant is kept by --keep, in the same
commit, with a line of CHANGELOG.md.

Usage: interface.py BUILD [--keep]
"""
import difflib
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parents[1] / "api/include"
KEPT = HERE / "interface.txt"
RECORDS = {"class-decl": "struct", "union-decl": "union"}
LIBRARIES = ("mend", "mend_sim", "mend_hooks")
# Internals are behind pointers, and left out.
READ = ["abidw", "--drop-private-types", "--drop-undefined-syms", "--exported-interfaces-only",
        "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--type-id-style", "hash"]
FUNCTION = "mend_result mend_get_available(mend_pool *p, mend_stream s, mend_available *r)"
# The guard sees: a member of another size, one more at the end, one of another name, a number, an
# argument, a function that goes.
PLANTED = [("uint64_t pinned_bytes; ", "uint32_t pinned_bytes; "),
           ("} mend_available;", "    uint64_t later_bytes;\n} mend_available;"),
           ("uint64_t now_bytes; ", "uint64_t any_bytes; "),
           ("X(MEND_ERROR_OUT_OF_MEMORY, ", "X(MEND_ERROR_OUT_OF_MEMORY, 90 + "),
           ("mend_get_available(mend_pool *", "mend_get_available(const mend_pool *"),
           ("mend_get_available(", "mend_had_room(")]


def spelled(types, type_id):
    """A type as C has it. A structure, enumeration or typedef by its name."""
    at = types.get(type_id)
    if at is None:
        return "..."
    if at.tag == "pointer-type-def":
        return spelled(types, at.get("type-id")) + " *"
    if at.tag == "qualified-type-def":
        return spelled(types, at.get("type-id")) + "".join(
            f" {word}" for word in ("const", "volatile") if at.get(word) == "yes")
    if at.tag == "array-type-def":
        sizes = "".join(f"[{part.get('length')}]" for part in at.iter("subrange"))
        return spelled(types, at.get("type-id")) + sizes
    if at.tag == "function-type":
        return signature(types, at)
    return at.get("name")


def signature(types, at):
    arguments = ", ".join("..." if part.get("is-variadic") else spelled(types, part.get("type-id"))
                          for part in at.findall("parameter"))
    result = at.find("return")
    return f"({arguments}) -> {'void' if result is None else spelled(types, result.get('type-id'))}"


def lines_of(types):
    """A line for each that is not only declared."""
    for at in types.values():
        name = at.get("name")
        if at.tag == "typedef-decl" and name.startswith("mend_"):
            meant = spelled(types, at.get("type-id"))
            if meant != name:
                yield f"typedef {name} = {meant}"
        elif at.tag == "enum-decl":
            numbers = (f"{one.get('name')} {one.get('value')}" for one in at.iter("enumerator"))
            yield f"enum {name}: {', '.join(numbers)}"
        elif at.tag in RECORDS and at.get("is-declaration-only") != "yes":
            members = (f"{spelled(types, one[0].get('type-id'))} {one[0].get('name')} "
                       f"@{int(one.get('layout-offset-in-bits', 0)) // 8}"
                       for one in at.iter("data-member"))
            yield (f"{RECORDS[at.tag]} {name} of {int(at.get('size-in-bits')) // 8}: "
                   f"{', '.join(members)}")


def read_interface(library, headers):
    xml_text = subprocess.run([*READ, "--headers-dir", headers, library], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
    root = xml.etree.ElementTree.fromstring(xml_text)
    types = {at.get("id"): at for at in root.iter() if at.get("id")}
    described = {at.get("mangled-name"): signature(types, at) for at in root.iter("function-decl")}
    symbols = (f"{at.get('name')}{described.get(at.get('name'), ' in no header')}"
               for at in root.iter("elf-symbol"))
    return sorted({*symbols, *lines_of(types)})


def test_itself():
    with tempfile.TemporaryDirectory() as work:
        folder, library = pathlib.Path(work, "mend"), pathlib.Path(work, "room.so")
        source = pathlib.Path(work, "room.c")
        folder.mkdir()

        def read(old, new):
            for header in (HEADERS / "mend").glob("*.h"):
                text = header.read_text(encoding="utf-8")
                (folder / header.name).write_text(text.replace(old, new), encoding="utf-8")
            body = f'#include "mend/mend.h"\n{FUNCTION}\n{{ return p == 0 && s == 0 && r == 0; }}\n'
            source.write_text(body.replace(old, new), encoding="utf-8")
            subprocess.run([os.environ.get("CC", "cc"), "-g", "-shared", "-fPIC", "-I", work,
                            source, "-o", library], check=True)
            return read_interface(library, work)

        usual = read("", "")
        for old, new in PLANTED:
            assert read(old, new) != usual, f"it does not see {new!r}"


def main():
    build, keep = pathlib.Path(sys.argv[1]), "--keep" in sys.argv[2:]
    test_itself()
    now = []
    for library in LIBRARIES:
        path = next((build / "api").rglob(f"lib{library}.so"))
        read = read_interface(path, HEADERS)
        now += [f"# lib{library}", *(line for line in read if line not in now), ""]
    text = "\n".join(now)
    if keep:
        KEPT.write_text(text, encoding="utf-8")
    kept = KEPT.read_text(encoding="utf-8")
    for line in difflib.unified_diff(kept.replace(", ", "\n  ").split("\n"),
                                     text.replace(", ", "\n  ").split("\n"),
                                     "kept", "built", lineterm="", n=2):
        print(line)
    if kept != text:
        print(f"not as kept; if that is meant: tests/abi/interface.py {build} --keep")
    return kept != text


if __name__ == "__main__":
    sys.exit(main())
