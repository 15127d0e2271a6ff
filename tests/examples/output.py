#!/usr/bin/env python3
"""An example prints what its document shows: runs PROGRAM, which must exit with 0 and print what
the file EXPECTED holds, to the byte.

Usage: output.py PROGRAM EXPECTED
"""
import difflib
import subprocess
import sys


def main():
    program, expected_path = sys.argv[1:]
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    with open(expected_path, encoding="utf-8") as file:
        expected = file.read()
    sys.stdout.writelines(
        difflib.unified_diff(
            expected.splitlines(True), done.stdout.splitlines(True), expected_path, program
        )
    )
    sys.stdout.write(done.stderr)
    if done.returncode != 0:
        print(f"{program} exited with {done.returncode}")
    return 0 if done.returncode == 0 and done.stdout == expected and not done.stderr else 1


if __name__ == "__main__":
    sys.exit(main())
