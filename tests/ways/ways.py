#!/usr/bin/env python3
"""Counts the way of each public call through the library, and tells where it has got longer.

    tests/ways/ways.py PROGRAM [--keep]

PROGRAM is mend_ways, which has every function instrumented. For each call ways.txt keeps the
functions entered, the deepest stack and the files passed, without those of base/ and sim/. It
fails where there are more frames or files, or more than 5 % more functions: --keep keeps what is
meant, and what has got shorter.
"""
import os
import subprocess
import sys

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ways.txt")
COLUMNS = ("calls", "frames", "files")
SLACK = (1.05, 1, 1)


def rooms_and_files(program, addresses):
    """{address: file below vmm/}, of functions that count."""
    tool = subprocess.run(["addr2line", "-e", program, *addresses], check=True, text=True,
                          capture_output=True)
    files = {}
    for address, line in zip(addresses, tool.stdout.splitlines()):
        path = line.rsplit(":", 1)[0]
        below = path.rsplit("/vmm/", 1)[-1]
        if "/vmm/" in path and below.split("/")[0] not in ("base", "sim"):
            files[address] = below
    return files


def measure(program):
    """{call: (calls, frames, files)}, in the order of the program."""
    traced = subprocess.run([program], check=True, text=True, capture_output=True).stdout
    lines = traced.splitlines()
    addresses = sorted({line for line in lines if line[0] not in "=-"})
    files = rooms_and_files(program, addresses)
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


def read_kept():
    with open(KEPT, encoding="utf-8") as file:
        rows = [line.rstrip("\n").rsplit(None, len(COLUMNS)) for line in file][1:]
    return {row[0]: tuple(map(int, row[1:])) for row in rows}


def write(ways, out):
    out.write(f"{'call':26}" + "".join(f"{column:>8}" for column in COLUMNS) + "\n")
    for name, way in ways.items():
        out.write(f"{name:26}" + "".join(f"{figure:>8}" for figure in way) + "\n")


def main():
    ways = measure(sys.argv[1])
    if sys.argv[2:] == ["--keep"]:
        with open(KEPT, "w", encoding="utf-8") as file:
            write(ways, file)
        return 0
    kept = read_kept()
    write(ways, sys.stdout)
    longer = [f"{name}: {column} {kept[name][i]} -> {way[i]}"
              for name, way in ways.items() for i, column in enumerate(COLUMNS)
              if name in kept and way[i] > kept[name][i] * SLACK[i]]
    unknown = [f"{name}: stands on one side only" for name in ways.keys() ^ kept.keys()]
    for line in longer + unknown:
        print(line, file=sys.stderr)
    return 1 if longer or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
