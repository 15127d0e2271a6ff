"""The tables of mutants: deliberate bugs, each with the test that must see it.

A table is a *.mutants file, one for each room. Lines that begin with # are comments. An entry is a
group of fields, `name  text`, and ends at an empty line; a line that begins with white space
continues the field before it:

    mutant    its name, unique in the room
    file      the source it changes
    original  the text it changes, which must stand in the file exactly once; any white space
              counts as the same white space
    mutated   what is there when the mutant is chosen; may be empty for a statement
    as        expression, or statement (then both texts are whole statements without declarations)
    breaks    what goes wrong, in words
    caught    PROGRAM SUITE.CASE: the test that must fail
"""
import os
import re

FIELDS = ("mutant", "file", "original", "mutated", "as", "breaks", "caught")
CAUGHT_BY = r"\w+ [\w/]+\.[\w/]+"
LEAST_OF_ROOM = 4
LEAST_OF_ALL = 60


class TableError(Exception):
    pass


class Mutant:
    """One entry, with its room, the number by which the program knows it, and its place."""

    def __init__(self, room, fields):
        self.room = room
        self.name = room + "." + (fields.get("mutant") or fields["mechanism"])
        self.file = fields["file"]
        self.original = fields["original"]
        self.mutated = fields["mutated"]
        self.is_statement = fields["as"] == "statement"
        self.breaks = fields.get("breaks") or fields["does"]
        self.program, self.test = fields.get("caught", " ").split(" ")
        self.number = 0

    def pattern(self):
        """The original as an expression that takes any white space for any other."""
        words = [re.escape(word) for word in self.original.split(" ")]
        before = r"(?<!\w)" if re.match(r"\w", self.original) else ""
        behind = r"(?!\w)" if re.search(r"\w$", self.original) else ""
        return before + r"\s+".join(words) + behind

    def misfit(self, text):
        """What is wrong with its original in the text of its file; None where it fits."""
        count = len(re.findall(self.pattern(), text))
        if count == 1:
            return None
        return f"{self.name}: its original occurs {count} times in {self.file}"

    def place_in(self, text):
        """Where the original is, as (begin, end)."""
        return re.search(self.pattern(), text).span()


def check_fields(where, fields, wanted):
    missing = [name for name in wanted if name not in fields]
    if missing:
        raise TableError(f"{where}: without {', '.join(missing)}")
    if fields["as"] not in ("expression", "statement"):
        raise TableError(f"{where}: neither expression nor statement")
    if not re.fullmatch(CAUGHT_BY, fields.get("caught", "a b.c")):
        raise TableError(f"{where}: caught by what? PROGRAM SUITE.CASE")
    for name in wanted:
        if not fields[name] and not (name == "mutated" and fields["as"] == "statement"):
            raise TableError(f"{where}: {name} is empty")


def read_fields(path, lines, wanted):
    """One entry's fields, from its (number, line)s."""
    fields = {}
    last = None
    for number, line in lines:
        words = line.split()
        if line[0].isspace() and last is not None:
            fields[last] = " ".join([fields[last]] + words).strip()
            continue
        last = words[0]
        if last not in wanted or last in fields:
            raise TableError(f"{path}:{number}: {last}: no field, or twice")
        fields[last] = " ".join(words[1:])
    check_fields(f"{path}:{lines[0][0]}", fields, wanted)
    return fields


def read_table(path, wanted=FIELDS):
    room = os.path.splitext(os.path.basename(path))[0]
    entry = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file.read().split("\n") + [""], 1):
            if line.startswith("#"):
                continue
            if line.strip():
                entry.append((number, line))
            elif entry:
                yield Mutant(room, read_fields(path, entry, wanted))
                entry = []


def read_all():
    """Every mutant of every table, numbered from 1."""
    folder = os.path.dirname(os.path.abspath(__file__))
    mutants = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".mutants"):
            mutants.extend(read_table(os.path.join(folder, name)))
    names = [mutant.name for mutant in mutants]
    for name in names:
        if names.count(name) > 1:
            raise TableError(f"{name}: two mutants of one name")
    for number, mutant in enumerate(mutants, 1):
        mutant.number = number
    rooms = sorted({mutant.room for mutant in mutants})
    for room in rooms:
        if sum(mutant.room == room for mutant in mutants) < LEAST_OF_ROOM:
            raise TableError(f"{room}: fewer than {LEAST_OF_ROOM} mutants")
    if len(mutants) < LEAST_OF_ALL:
        raise TableError(f"{len(mutants)} mutants, {LEAST_OF_ALL} are the least")
    return mutants
