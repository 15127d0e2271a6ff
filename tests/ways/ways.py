#!/usr/bin/env python3
"""Counts the way of each public call through the library, and tells where it has got longer, and
where docs/design.md tells it otherwise.

    tests/ways/ways.py PROGRAM [--keep | --tell CALL]

PROGRAM is mend_ways, which has every function instrumented. For each call ways.txt keeps the
functions entered, the deepest stack and the files passed, without those of base/ and sim/. It fails
where there are more frames or files, or more than 5 % more functions. --keep keeps changes that are
meant, and shorter ways. --tell CALL prints the functions of a call. A walk in the document is some
of these, in their order. One that is further in is called, on any way, by the one above.
"""
import glob
import os
import re
import subprocess
import sys

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ways.txt")
VMM = os.path.join(os.path.dirname(KEPT), "../../vmm")
DESIGN = os.path.join(os.path.dirname(KEPT), "../../docs/design.md")
WALK = re.compile(r"^<!-- walk: ([^\n]*) -->\n```\n(.*?)^```$", re.M | re.S)
COLUMNS = ("calls", "frames", "files")
SLACK = (1.05, 1, 1)


def functions_of(program, addresses):
    """{address: (name, file below vmm/)}."""
    tool = subprocess.run(["addr2line", "-f", "-e", program, *addresses], check=True, text=True,
                          capture_output=True).stdout.splitlines()
    found = {address: (name, line.rsplit(":", 1)[0].rsplit("/vmm/", 1)[-1])
             for address, name, line in zip(addresses, tool[::2], tool[1::2])}
    # The tool takes a function of a header that comes first in an object for one of its source.
    headers = {}
    for path in glob.glob(os.path.join(VMM, "*", "*.h")):
        with open(path, encoding="utf-8") as file:
            names = re.findall(r"^static inline [^;{}()]*?(\w+)\(", file.read(), re.M)
        headers.update(dict.fromkeys(names, os.path.relpath(path, VMM)))
    return {address: (name, headers.get(name, path)) for address, (name, path) in found.items()}


def trace(program):
    """The lines of the program, and its functions."""
    traced = subprocess.run([program], check=True, text=True, capture_output=True).stdout
    lines = traced.splitlines()
    return lines, functions_of(program, sorted({line for line in lines if line[0] not in "=-"}))


def calls_of(lines, functions):
    """{call: [(depth, name, file)]}."""
    calls, depth = {}, 0
    for line in lines:
        if line.startswith("= "):
            entered, depth = calls.setdefault(line[2:], []), 0
        elif line == "-":
            depth -= 1
        else:
            entered.append((depth, *functions[line]))
            depth += 1
    return calls


def strays(walk, entered):
    """The first row of a walk that the call does not enter there, as a list of one, or none."""
    above, at = [], 0  # the rows around this one: (indent, where it was entered)
    for row in walk.splitlines():
        indent = len(row) - len(row.lstrip())
        above = [outer for outer in above if outer[0] < indent]
        depth = entered[above[-1][1]][0] if above else -1
        wanted = tuple(row.split()[:2])
        while at < len(entered) and entered[at][0] > depth and entered[at][1:] != wanted:
            at += 1
        if at == len(entered) or entered[at][0] <= depth:
            return [" ".join(wanted)]
        above.append((indent, at))
        at += 1
    return []


def test_itself():
    entered = [(0, "a", "x.c"), (1, "b", "x.c"), (2, "c", "y.c"), (1, "d", "x.c"), (2, "c", "y.c")]
    assert strays("a x.c\n  c y.c\n  d x.c why\n    c y.c\n", entered) == []
    assert strays("a x.c\n  d x.c\n  b x.c\n", entered) == ["b x.c"]  # in another order
    assert strays("a x.c\n  b x.c\n    d x.c\n", entered) == ["d x.c"]  # not called by b
    assert strays("a y.c\n", entered) == ["a y.c"]
    assert strays("a x.c\ne x.c\n", entered) == ["e x.c"]


def measure(lines, functions):
    """{call: (calls, frames, files)}, in the order of the program."""
    files = {address: file for address, (_, file) in functions.items()
             if not file.startswith(("/", "base/", "sim/", "?"))}
    ways = {}
    stack = []
    for line in lines:
        if line.startswith("= "):
            calls, deepest, seen = [0, 0, set()]
            stack, name = [], line[2:]
        elif line == "-":
            stack.pop()
        else:
            stack.append(line in files)
            calls += stack[-1]
            deepest = max(deepest, sum(stack))
            seen |= {files[line]} if stack[-1] and files[line].endswith(".c") else set()
        if not stack and line == "-":
            ways[name] = (calls, deepest, len(seen))
    return ways


def read_backup():
    with open(KEPT, encoding="utf-8") as file:
        rows = [line.rstrip("\n").rsplit(None, len(COLUMNS)) for line in file][1:]
    return {row[0]: tuple(map(int, row[1:])) for row in rows}


def write(ways, out):
    out.write(f"{'call':26}" + "".join(f"{column:>8}" for column in COLUMNS) + "\n")
    for name, way in ways.items():
        out.write(f"{name:26}" + "".join(f"{figure:>8}" for figure in way) + "\n")


def main():
    test_itself()
    lines, functions = trace(sys.argv[1])
    calls = calls_of(lines, functions)
    if sys.argv[2:3] == ["--tell"]:
        for depth, name, file in calls[sys.argv[3]]:
            print("  " * depth + name, file)
        return 0
    ways = measure(lines, functions)
    if sys.argv[2:] == ["--keep"]:
        with open(KEPT, "w", encoding="utf-8") as file:
            write(ways, file)
        return 0
    kept = read_backup()
    write(ways, sys.stdout)
    longer = [f"{name}: {column} {kept[name][i]} -> {way[i]}"
              for name, way in ways.items() for i, column in enumerate(COLUMNS)
              if name in kept and way[i] > kept[name][i] * SLACK[i]]
    unknown = [f"{name}: stands on one side only" for name in ways.keys() ^ kept.keys()]
    with open(DESIGN, encoding="utf-8") as file:
        walks = WALK.findall(file.read())
    untrue = [f"docs/design.md, {call}: {row} is not entered there"
              for call, walk in walks for row in strays(walk, calls[call])]
    for line in longer + unknown + untrue:
        print(line, file=sys.stderr)
    return 1 if longer or unknown or untrue or not walks else 0


if __name__ == "__main__":
    sys.exit(main())
