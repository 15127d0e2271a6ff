#!/usr/bin/env python3
"""The tests of the Python package's tests. Deliberate bugs in copies of the installed package
(package.mutants), each of which its test must see.

Usage: mutants.py BUILD [PYTHON], after `ctest --test-dir BUILD -R python.tree`. Takes some minutes.

PYTHON is an interpreter that has PyTorch: with it, tests under PyTorch itself (real/) must see bugs
too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def bugs():
    """(file of the package, text there, text in its place, (script, test of it...))"""
    for line in (HERE / "package.mutants").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, rest = line.split(" | ", 1)
            change, seer = rest.rsplit(" | ", 1)
            yield name, *change.replace("\\n", "\n").split(" => "), seer.split()


def with_bug(name, original, mutated, tests, work):
    """A copy of the package with the bug. Raises where the bug has no place."""
    tree = work / "tree"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(tests / "tree", tree)
    path = tree / "libmend" / name
    text = path.read_text(encoding="utf-8")
    if original not in text:
        raise SystemExit(f"{name} has no longer: {original}")
    path.write_text(text.replace(original, mutated), encoding="utf-8")
    return tree


def passes(seer, tree, tests, python):
    """Whether a test passes over a package: one of a script in real/, by `python`, or a script."""
    command, path = [sys.executable], (tree, tests / "fakes", HERE)
    if len(seer) > 1:
        command = [python, "-m", "libmend.simulate", "--memory=1GiB"]
        path = (tree, HERE / "real")
    command += ["-m", "unittest", "-f", ".".join(seer)]
    environment = {
        **os.environ,
        "MEND_TEST_TREE": str(tree),
        "MEND_TEST_FAKES": str(tests / "fakes"),
        "MEND_SOURCE": str(HERE.parent.parent),
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    return done.returncode == 0


def main():
    tests = Path(sys.argv[1]).resolve() / "tests" / "python"
    python = sys.argv[2] if len(sys.argv) > 2 else None
    tried = unseen = 0
    with tempfile.TemporaryDirectory() as work:
        os.environ["MEND_CACHE_DIR"] = os.path.join(work, "cache")
        for name, original, mutated, seer in bugs():
            if len(seer) > 1 and not python:
                continue
            tried += 1
            tree = with_bug(name, original, mutated, tests, Path(work) / "copy")
            if len(seer) > 1 and not passes(seer, tests / "tree", tests, python):
                raise SystemExit(f"{' '.join(seer)} fails without a bug")
            if passes(seer, tree, tests, python):
                unseen += 1
                print(f"not seen by {' '.join(seer)}: in {name}, {original!r} as {mutated!r}")
    print(f"{tried} mutants, {unseen} not seen")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
