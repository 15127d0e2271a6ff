#!/usr/bin/env python3
"""Which lines and branches of vmm/, api/ and lab/ the tests have run: figures for each room, and
what was never reached, each with its reason. `./run coverage` builds, runs the tests, calls this.

Usage: report.py ROOT BUILD_DIR [--gcov PROGRAM] [--files] [--document FILE]

  --files          also a line for each file
  --document FILE  write the figures and the list between the marks in FILE

What is counted is what is shipped: the build defines NDEBUG, so assertions have no branches.
An outcome of a condition, each side of `a && b` by itself, is a branch; gcov counts them for each
object file, and the functions of headers are added up over all.

The exit status is 1 when a branch of vmm/ that no test reaches has no reason in unreached.txt, or
when a reason there is about a branch that is reached.
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
GOAL = ("vmm/", 95.0)


class Line:
    """What became of one line of a function, over all object files."""

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
    """vmm/policy/fit.c -> vmm/policy; lab/replay/rig.c -> lab/replay."""
    return "/".join(path.split("/")[:2])


def notes_under(build):
    """The notes of the rooms and of the command line, not those of the tests: what they run of a
    header's functions by themselves tells nothing of the library."""
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


class Unreached:
    """A line some of whose branches no test takes."""

    def __init__(self, key, line, text):
        self.path, self.function, self.number = key
        self.never = sum(count == 0 for count in line.branches)
        self.all = len(line.branches)
        self.text = text
        self.reason = None

    def where(self):
        return f"{self.path}:{self.number}"


def unreached_in(lines, root):
    texts = {}
    for key, line in sorted(lines.items(), key=lambda item: (item[0][0], item[0][2])):
        path, _, number = key
        if any(count == 0 for count in line.branches):
            if path not in texts:
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    texts[path] = file.read().split("\n")
            yield Unreached(key, line, texts[path][number - 1].strip())


def parse_reasons(text):
    """Reasons hold for what follows them: `file PATH`, `why TEXT`, or `why NAME` of a `reason NAME
    TEXT` before (a text goes on in indented lines), then `code FUNCTION: LINE` for each line of the
    source, as it is there."""
    reasons, named, path, why = {}, {}, None, None
    for number, line in enumerate(text.split("\n"), 1):
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if not line.strip() or line.startswith("#"):
            continue
        if word == "" and why is not None:
            why.append(rest)
        elif word == "file":
            path, why = rest, None
        elif word == "reason":
            name, _, rest = rest.partition(" ")
            why = named[name] = [rest]
        elif word == "why":
            why = named.get(rest, [rest])
        elif word == "code" and path and why:
            function, _, code = rest.partition(": ")
            reasons[(path, function, code)] = " ".join(why)
        else:
            raise SystemExit(f"unreached.txt:{number}: cannot be read: {line}")
    return reasons


def give_reasons(unreached, reasons):
    """Fills in the reasons; gives those that are about nothing that is unreached."""
    used = set()
    for one in unreached:
        key = (one.path, one.function, one.text)
        one.reason = reasons.get(key)
        if one.reason:
            used.add(key)
    return sorted(set(reasons) - used)


def markdown(rooms, total, unreached):
    rows = [["room", "lines", "", "branches", ""], ["---"] * 5]
    rows += [figures.row(f"`{name}`") for name, figures in rooms.items()]
    rows += [figures.row(f"**{name}**") for name, figures in total.items()]
    text = ["| " + " | ".join(row) + " |" for row in rows]
    text += ["", "Branches of `vmm/` that no test takes, and why:", ""]
    by_reason = {}
    for one in unreached:
        if one.reason:
            by_reason.setdefault((one.path, one.reason), []).append(one)
    text += ["| where | branches | why |", "|---|---|---|"]
    for (path, reason), ones in by_reason.items():
        functions = ", ".join(dict.fromkeys(f"`{one.function}`" for one in ones))
        text.append(f"| `{path}`: {functions} | {sum(one.never for one in ones)} | "
                    f"{reason.replace('|', chr(92) + '|')} |")
    return "\n".join(text)


def write(path, text):
    """Puts the text between its marks in a document."""
    with open(path, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    behind = rest.split(END)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{text}\n{END}{behind}")


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
    one = Unreached(("vmm/a/b.c", "f", 3), lines[("vmm/a/b.c", "f", 3)], "if (x) {")
    reasons = parse_reasons("# c\nreason r it\n    cannot\nfile vmm/a/b.c\nwhy r\n"
                            "code f: if (x) {\ncode g: y\n")
    assert give_reasons([one], reasons) == [("vmm/a/b.c", "g", "y")]
    assert (one.never, one.all, one.reason) == (1, 2, "it cannot")
    assert room_of("vmm/a/b.c") == "vmm/a"


def main():
    test_itself()
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("build")
    parser.add_argument("--gcov", default="gcov")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--document")
    options = parser.parse_args()
    root, build = os.path.realpath(options.root), os.path.realpath(options.build)

    lines = measure(root, build, options.gcov)
    rooms = figures_by(lines, room_of)
    total = figures_by(lines, lambda path: path.split("/")[0] + "/")
    unreached = list(unreached_in(lines, root))
    with open(os.path.join(os.path.dirname(__file__), "unreached.txt"), encoding="utf-8") as file:
        stale = give_reasons(unreached, parse_reasons(file.read()))

    for one in unreached:
        print(f"{one.where()}: {one.never} of {one.all} in {one.function}: {one.text}"
              f"{'' if one.reason else '  <- no reason'}")
    for path, function, text in stale:
        print(f"{path}: has a reason, but is reached or gone: {function}: {text}")
    if options.files:
        print_table(figures_by(lines, lambda path: path))
    print_table({**rooms, **total})
    if options.document:
        ours = [one for one in unreached if one.path.startswith(GOAL[0])]
        write(options.document, markdown(rooms, total, ours))
    missing = sum(not one.reason for one in unreached if one.path.startswith(GOAL[0]))
    print(f"{missing} lines of {GOAL[0]} have branches that are never taken, for no reason; "
          f"{len(stale)} reasons are about nothing")
    print(f"{total[GOAL[0]].part_of_branches():.1f} % of the branches of {GOAL[0]} are taken; the "
          f"goal is {GOAL[1]:.0f} %")
    good = total[GOAL[0]].part_of_branches() >= GOAL[1] and not missing and not stale
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
