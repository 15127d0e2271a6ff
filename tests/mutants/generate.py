#!/usr/bin/env python3
"""Makes copies of sources in which every mutant of the tables sleeps until it is chosen.

Usage: generate.py ROOT OUT

Writes OUT/<file> for each file of vmm, api/torch, lab/driver and lab/heap, and OUT/mutant_names.h.
Lines keep their numbers. A mutant that does not apply is left out, and named.
"""
import os
import sys

import places
import table


def write_if_new(path, text):
    """Leaves a file that is as it should be alone, so that nothing is built again for it."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def copy_of(root, path, text, placed):
    """The text of a file, with the changed functions of its placed ones."""
    flags = set()
    for (_, begin, end), (function, entries) in sorted(placed, key=lambda each: -each[0][1]):
        text = text[:begin] + places.copy_of(function, entries) + text[end:]
        flags.update(entry.flag for entry in entries)
    declared = "".join(f"extern unsigned char {flag}; " for flag in sorted(flags))
    return f'{declared}\n#line 1 "{os.path.join(root, path)}"\n{text}'


def generate(root, out, entries):
    """The copies, and the include of choose.c: every flag, and its name."""
    for folders in table.FOLDERS:
        code, placed = table.place(entries, folders, root)
        for path, text in code.texts.items():
            own = [each for each in placed.items() if each[0][0] == path]
            write_if_new(os.path.join(out, path), copy_of(root, path, text, own))
    flags = dict.fromkeys((entry.name, entry.flag) for entry in entries if not entry.misfit)
    write_if_new(os.path.join(out, "mutant_names.h"), "".join(
        f'MEND_MUTANT({flag}, "{name}")\n' for name, flag in flags))
    for entry in entries:
        if entry.misfit:
            print(f"left out: {entry.misfit}", file=sys.stderr)


def main(entries):
    """Of a program for some entries."""
    try:
        generate(*sys.argv[1:], entries())
    except (table.TableError, OSError) as error:
        sys.exit(f"{sys.argv[0]}: {error}")


if __name__ == "__main__":
    main(table.read_all)
