#!/usr/bin/env python3
"""Makes copies of sources in which every mutant of the tables sleeps until it is chosen.

Usage: generate.py ROOT OUT

Writes OUT/<file> for each file that has mutants, and OUT/mutant_names.h. Lines keep their numbers.
"""
import os
import sys

import table


def flat(text):
    return " ".join(text.split())


def changed(mutant, original):
    """What the copy has instead of the original."""
    test = f"mend_mutant_is({mutant.number})"
    if mutant.is_statement:
        return f"if ({test}) {{ {flat(mutant.mutated)} }} else {{ {original} }}"
    return f"({test} ? ({flat(mutant.mutated)}) : ({original}))"


def copy_of(path, text, mutants):
    """The text with each of its mutants in place."""
    places = sorted(((mutant.place_in(text), mutant) for mutant in mutants),
                    key=lambda place: place[0])
    for ((_, end), first), ((begin, _), second) in zip(places, places[1:]):
        if begin < end:
            raise table.TableError(f"{first.name} and {second.name} overlap")
    for (begin, end), mutant in reversed(places):
        text = text[:begin] + changed(mutant, text[begin:end]) + text[end:]
    return f'#line 1 "{path}"\n' + text


def write_if_new(path, text):
    """Leaves a file that is as it should be alone, so that nothing is built again for it."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def remove_others(out, names):
    """A header that was a copy and is one no longer would be found before its original."""
    for folder, _, files in os.walk(out):
        for file in files:
            path = os.path.join(folder, file)
            if os.path.relpath(path, out) not in names:
                os.remove(path)


def generate(root, out, mutants):
    """All the copies of the mutants' files, and the header with the names."""
    texts = {}
    for name in sorted({mutant.file for mutant in mutants}):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            texts[name] = file.read()
    misfits = [m.misfit(texts[m.file]) for m in mutants if m.misfit(texts[m.file])]
    if misfits:
        raise table.TableError("\n".join(misfits))
    for name, text in texts.items():
        own = [mutant for mutant in mutants if mutant.file == name]
        write_if_new(os.path.join(out, name), copy_of(os.path.join(root, name), text, own))
    remove_others(out, {*texts, "mutant_names.h"})
    by_number = {mutant.number: mutant.name for mutant in mutants}
    names = "".join(f'    "{by_number[number]}",\n' for number in sorted(by_number))
    write_if_new(os.path.join(out, "mutant_names.h"),
                 "static const char *const mutant_names[] = {\n    \"none\",\n" + names + "};\n")


def main():
    root, out = sys.argv[1:]
    generate(root, out, table.read_all())
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (table.TableError, OSError) as error:
        sys.exit(f"mutants: {error}")
