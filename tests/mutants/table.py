"""The tables of mutants: deliberate bugs, each with the test that must see it.

A table is a *.mutants file, one for each room. A line that begins with # is a comment. Every other
one is a mutant, in four columns:

    NAME | FUNCTION | FROM => TO | TEST

NAME      the whole name is ROOM.NAME; lines of one name are one mutant
FUNCTION  its name; where several have it, behind the end of its file's path: sleep/wake.c find
FROM      tokens that stand in the function once, or the second time: FROM #2. `f(...)` has any
          arguments
TO        what is there when the mutant is awake; (nothing)
TEST      what must fail: SUITE.CASE of the program unit, any case of a suite: SUITE.*, or
          PROGRAM SUITE.CASE; fake_contract is the program contract over the fake driver
"""
import glob
import os
import re

import places

# The libraries of their own: mend_internal, libmend_torch.
FOLDERS = (("vmm", "lab/driver", "lab/heap"), ("api/torch",))
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LINE = re.compile(r"(\S+) \| (?:(\S+) )?(\w+) \| (.+?)(?: #(\d))? => (.+) \| (.+)")
CAUGHT = re.compile(r"(?:(\w+) )?(\w+\.[\w/]*\*?)")


class TableError(Exception):
    pass


class Entry:
    """A line: a change of a function, the flag that wakes it, and why it does not apply, if so."""

    def __init__(self, room, columns):
        name, self.file, self.function, wanted, which, given, self.last = columns
        self.name = f"{room}.{name}"
        self.flag = "mend_mutant_" + re.sub(r"\W", "_", self.name)
        self.wanted = places.words(wanted)
        self.which = int(which or 0)
        self.given = [] if given == "(nothing)" else places.words(given)
        self.misfit = None

    def caught(self):
        """(program, test)"""
        found = CAUGHT.fullmatch(self.last)
        if not found:
            raise TableError(f"{self.name}: seen by what? [PROGRAM] SUITE.CASE")
        return found[1] or "unit", found[2]


def read_table(path):
    room = os.path.splitext(os.path.basename(path))[0]
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#") or not line.strip():
                continue
            found = LINE.fullmatch(line.strip())
            if not found:
                raise TableError(f"{path}:{number}: not NAME | FUNCTION | FROM => TO | TEST")
            yield Entry(room, found.groups())


def read_tables(pattern):
    return [entry for path in sorted(glob.glob(pattern)) for entry in read_table(path)]


def read_all():
    """Every line of every table of mutants."""
    return read_tables(os.path.join(HERE, "*.mutants"))


def sources(folders, root=ROOT):
    texts = {}
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(root, folder, "**", "*.[ch]"), recursive=True)):
            with open(path, encoding="utf-8") as file:
                texts[os.path.relpath(path, root)] = file.read()
    return places.Sources(texts)


def place(entries, folders, root=ROOT):
    """(sources, {(path, begin, end): (function, its entries)}) of the entries for some folders.
    Notes the misfits. torch.* is for api/torch, all others are for vmm and the laboratory."""
    code = sources(folders, root)
    placed = {}
    for entry in entries:
        if ("vmm" in folders) == entry.name.startswith("torch."):
            continue
        try:
            where, function = code.function(entry.function, entry.file or "")
            function.edit(entry)
            placed.setdefault(where, (function, []))[1].append(entry)
        except places.Misfit as why:
            entry.misfit = f"{entry.name}: {entry.function}: {why}"
    return code, placed


def applying(entries):
    """(mutants of which each line applies, one for each name, and why others do not)"""
    for folders in FOLDERS:
        place(entries, folders)
    misfits = {entry.name: entry.misfit for entry in entries if entry.misfit}
    names = {entry.name: entry for entry in entries if entry.name not in misfits}
    return list(names.values()), list(misfits.values())
