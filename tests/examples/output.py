#!/usr/bin/env python3
"""An example prints the text that its document shows, to the byte. EXPECTED holds the output of
PROGRAM, which must exit with 0. If it begins with `$ `, it is a session: bash runs each line after
`$ `, with the programs in FOLDERs, beside the bench, docs and tests of the tree at ROOT, and prints
the lines below it. A failure says so there. --write writes the output of a session.

Usage: output.py EXPECTED PROGRAM
       output.py [--write] EXPECTED ROOT FOLDER...
"""
import difflib
import os
import subprocess
import sys
import tempfile

SEEN = ("bench", "docs", "tests")


def without_settings():
    return {name: value for name, value in os.environ.items() if not name.startswith("MEND_")}


def session(expected, root, folders):
    """The output of the commands of a session, each below its own line."""
    environment = without_settings()
    environment["PATH"] = ":".join([*folders, os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as here:
        for name in SEEN:
            os.symlink(os.path.join(os.path.abspath(root), name), os.path.join(here, name))
        for line in expected.splitlines():
            if line.startswith("$ "):
                done = subprocess.run(["bash", "-c", line[2:]], cwd=here, env=environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      check=False)
                yield f"{line}\n{done.stdout}"
                if done.returncode != 0:
                    yield f"exit status {done.returncode}\n"


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    expected_path, program, *folders = arguments
    with open(expected_path, encoding="utf-8") as file:
        expected = file.read()
    errors = ""
    if expected.startswith("$ "):
        printed = "".join(session(expected, program, folders))
    else:
        done = subprocess.run([program], capture_output=True, text=True, check=False)
        printed, errors = done.stdout, done.stderr
        if done.returncode != 0:
            errors += f"{program} exited with {done.returncode}\n"
    if len(arguments) < len(sys.argv) - 1:
        with open(expected_path, "w", encoding="utf-8") as file:
            file.write(printed)
    sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), printed.splitlines(True),
                                               expected_path, "as it is"))
    sys.stdout.write(errors)
    return 0 if printed == expected and not errors else 1


if __name__ == "__main__":
    sys.exit(main())
