#!/usr/bin/env python3
"""Records a program's allocations as a trace that `libmend replay` reads.

    python bench/recorder/record.py --list
    python bench/recorder/record.py gaussian-splats --seed 1 -o gaussian-splats.csv.gz
"""
import argparse

import programs
from recorder import record


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", choices=sorted(programs.ALL))
    parser.add_argument("--list", action="store_true", help="tell the programs and end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", metavar="FILE.csv.gz")
    arguments = parser.parse_args()
    if arguments.list or arguments.program is None:
        for name, program in sorted(programs.ALL.items()):
            print(f"{name:24} {' '.join(program.__doc__.split())}")
        return
    path = arguments.output or f"{arguments.program}.csv.gz"
    print(f"{path}: {record(programs.ALL[arguments.program], arguments.seed, path)}")


if __name__ == "__main__":
    main()
