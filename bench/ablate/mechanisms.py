#!/usr/bin/env python3
"""Makes copies of the policy's sources in which each mechanism can be switched off.

Usage: mechanisms.py ROOT OUT

As tests/mutants/generate.py, with the tables *.ablations of this folder.
"""
import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "mutants"))

import generate  # noqa: E402
import table  # noqa: E402

FIELDS = ("mechanism", "file", "original", "mutated", "as", "does")


def read_all():
    """Every place of every mechanism; places of one mechanism have one number."""
    entries = []
    for path in sorted(glob.glob(os.path.join(HERE, "*.ablations"))):
        entries.extend(table.read_table(path, FIELDS))
    names = list(dict.fromkeys(entry.name for entry in entries))
    for entry in entries:
        entry.number = 1 + names.index(entry.name)
    return entries


if __name__ == "__main__":
    try:
        generate.generate(*sys.argv[1:], read_all())
    except (table.TableError, OSError) as error:
        sys.exit(f"ablations: {error}")
