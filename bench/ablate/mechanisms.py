#!/usr/bin/env python3
"""Makes copies of the policy's sources in which each mechanism can be switched off.

Usage: mechanisms.py ROOT OUT

As tests/mutants/generate.py, with the tables *.ablations of this folder. Each line must apply.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "mutants"))

import generate  # noqa: E402
import table  # noqa: E402


def read_all():
    """Every place of every mechanism. Several may be of one."""
    entries = table.read_tables(os.path.join(HERE, "*.ablations"))
    misfits = table.applying(entries)[1]
    if misfits:
        raise table.TableError("does not apply: " + "; ".join(misfits))
    return entries


if __name__ == "__main__":
    generate.main(read_all)
