#!/usr/bin/env python3
"""Which lines and branches of vmm/, api/ and lab/ the tests have run, for each room.
`./run coverage` builds, runs the tests, calls this.

Usage: report.py ROOT BUILD_DIR --document FILE [--gcov PROGRAM] [--files]

  --document FILE  keeps the figures between the marks in FILE, if none is worse than those there
  --files          also a line for each file

Only shipped code is counted: the build defines NDEBUG, so assertions have no branches. An outcome
of a condition, each side of `a && b` by itself, is a branch. gcov counts them for each object file,
and the functions of headers are added up over all.

The exit status is 1 when a room of vmm/ takes a smaller part of its branches than the document
says, by more than SLACK: new code with fewer tests than its folder has. The branches that no test
takes are printed.
"""
import argparse
import json
import os
import re
import subprocess
import sys

BEGIN = "<!-- made by ./run coverage -->"
END = "<!-- end -->"
MEASURED = re.compile(r"(vmm|api|lab)/.*\.[ch]$")
GUARDED = "vmm/"
SLACK = 0.3  # percent of branches: threads take some of them in one run and not in the next
ROW = re.compile(r"\| `([^`]+)` \|.*\| ([0-9.]+) % \|$", re.MULTILINE)


class Line:
    """The counts of one line of a function, over all object files."""

    def __init__(self):
        self.count = 0
        self.branches = []

    def add(self, count, branches):
        self.count += count
        missing = len(branches) - len(self.branches)
        self.branches += [0] * max(missing, 0)
        for position, taken in enumerate(branches):
            self.branches[position] += taken


def room_of(path):
    """vmm/plan/fit.c -> vmm/policy; lab/replay/rig.c -> lab/replay."""
    return "/".join(path.split("/")[:2])


def notes_under(build):
    """The notes of the folders and of the command line, without the tests: their own use of a
    header's functions tells nothing of the library."""
    for folder, folders, names in os.walk(build):
        folders[:] = [name for name in folders if folder != build or name != "tests"]
        for name in names:
            if name.endswith(".gcno") and "/CMakeFiles/" in folder:
                yield os.path.join(folder, name)


def add_report(lines, report, root):
    """`lines` is {(path, function, number): Line}."""
    for file in report["files"]:
        full = os.path.join(report["current_working_directory"], file["file"])
        path = os.path.relpath(os.path.realpath(full), root)
        if not MEASURED.fullmatch(path):
            continue
        for line in file["lines"]:
            key = (path, line.get("function_name", ""), line["line_number"])
            lines.setdefault(key, Line()).add(
                line["count"], [branch["count"] for branch in line["branches"]])


def measure(root, build, gcov):
    notes = sorted(notes_under(build))
    lines = {}
    for start in range(0, len(notes), 40):
        output = subprocess.run([gcov, "--json-format", "--stdout", "--branch-probabilities",
                                 *notes[start:start + 40]],
                                check=True, capture_output=True, text=True, cwd=build).stdout
        for report in output.splitlines():
            if report.startswith("{"):
                add_report(lines, json.loads(report), root)
    return lines


class Figures:
    def __init__(self):
        self.lines = self.lines_run = self.branches = self.branches_taken = 0

    def add(self, line):
        self.lines += 1
        self.lines_run += line.count > 0
        self.branches += len(line.branches)
        self.branches_taken += sum(count > 0 for count in line.branches)

    def part_of_branches(self):
        return 100.0 * self.branches_taken / self.branches if self.branches else 100.0

    def row(self, name):
        part = 100.0 * self.lines_run / self.lines if self.lines else 100.0
        return [name, f"{self.lines_run} / {self.lines}", f"{part:.1f} %",
                f"{self.branches_taken} / {self.branches}", f"{self.part_of_branches():.1f} %"]


def figures_by(lines, name_of):
    table = {}
    for (path, _, _), line in sorted(lines.items(), key=lambda item: item[0]):
        table.setdefault(name_of(path), Figures()).add(line)
    return table


def unreached_in(lines, root):
    """A text for each line some of whose branches no test takes."""
    texts = {}
    for (path, function, number), line in sorted(
            lines.items(), key=lambda item: (item[0][0], item[0][2])):
        never = sum(count == 0 for count in line.branches)
        if never:
            if path not in texts:
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    texts[path] = file.read().split("\n")
            yield (f"{path}:{number}: {never} of {len(line.branches)} in {function}: "
                   f"{texts[path][number - 1].strip()}")


def parts_in(text):
    """The part of the branches that each room takes, as a table of `markdown` has them."""
    return {room: float(part) for room, part in ROW.findall(text)}


def worse_rooms(rooms, kept):
    return [f"{name}: {figures.part_of_branches():.1f} % of the branches, {kept[name]} % before"
            for name, figures in rooms.items()
            if name.startswith(GUARDED) and name in kept and
            figures.part_of_branches() < kept[name] - SLACK]


def markdown(rooms, total):
    rows = [["room", "lines", "", "branches", ""], ["---"] * 5]
    rows += [figures.row(f"`{name}`") for name, figures in rooms.items()]
    rows += [figures.row(f"**{name}**") for name, figures in total.items()]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def between_marks(text):
    before, rest = text.split(BEGIN)
    table, behind = rest.split(END)
    return before, table, behind


def print_table(table):
    width = max(len(name) for name in table)
    print(f"{'':{width}}  {'lines run':>13}           {'branches taken':>15}")
    for name, figures in table.items():
        _, lines, part, branches, part_of_branches = figures.row(name)
        print(f"{name:{width}}  {lines:>13}  {part:>7}  {branches:>15}  {part_of_branches:>7}")


def test_itself():
    line = Line()
    line.add(1, [1, 0])
    line.add(2, [0, 0, 3])
    assert (line.count, line.branches) == (3, [1, 0, 3])
    figures = Figures()
    figures.add(line)
    assert figures.row("a") == ["a", "1 / 1", "100.0 %", "2 / 3", "66.7 %"]
    lines = {}
    add_report(lines, {"current_working_directory": "/r", "files": [
        {"file": "vmm/a/b.c", "lines": [{"line_number": 3, "function_name": "f", "count": 1,
                                         "branches": [{"count": 0}, {"count": 1}]}]},
        {"file": "tests/a.c", "lines": [{"line_number": 1, "count": 1, "branches": []}]},
        {"file": "/usr/include/stdio.h", "lines": []}]}, "/r")
    assert list(lines) == [("vmm/a/b.c", "f", 3)]
    rooms = figures_by(lines, room_of)
    kept = parts_in(markdown({"vmm/a": figures}, {}))
    assert kept == {"vmm/a": 66.7}
    assert worse_rooms(rooms, kept) == ["vmm/a: 50.0 % of the branches, 66.7 % before"]
    assert worse_rooms({"vmm/a": figures}, kept) == [] and worse_rooms(rooms, {}) == []
    assert room_of("vmm/a/b.c") == "vmm/a"


def main():
    test_itself()
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("build")
    parser.add_argument("--gcov", default="gcov")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--document", required=True)
    options = parser.parse_args()
    root, build = os.path.realpath(options.root), os.path.realpath(options.build)

    lines = measure(root, build, options.gcov)
    rooms = figures_by(lines, room_of)
    total = figures_by(lines, lambda path: path.split("/")[0] + "/")
    for line in unreached_in(lines, root):
        print(line)
    if options.files:
        print_table(figures_by(lines, lambda path: path))
    print_table({**rooms, **total})
    with open(options.document, encoding="utf-8") as file:
        before, table, behind = between_marks(file.read())
    worse = worse_rooms(rooms, parts_in(table))
    for line in worse:
        print(line)
    if worse:
        return 1
    with open(options.document, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{markdown(rooms, total)}\n{END}{behind}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
