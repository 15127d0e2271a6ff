"""What `./run frameworks` tries: this tree's package, or the one that the interpreter has
installed. No framework is needed for that."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import TREE

REAL = Path(__file__).resolve().parent / "real" / "real.py"


def run(*arguments, base):
    """Lines of standard output, with nothing but `base` to find packages of the user in."""
    variables = {**os.environ, "PYTHONUSERBASE": str(base)}
    variables.pop("PYTHONPATH", None)
    done = subprocess.run(
        [sys.executable, "-B", str(REAL), *arguments, str(TREE), "no-mend", "no-recordings"],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def user_site(base):
    """Where Python looks for packages of the user below `base`."""
    program = "import site; print(site.getusersitepackages())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONUSERBASE": str(base)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Path(done.stdout.strip())


class Frameworks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = Path(folder.name).resolve()

    def test_this_tree_is_tried(self):
        self.assertRegex(run(base=self.base)[0], rf"^mend [0-9.]+ of {TREE}/mend$")

    def test_the_installed_package_is_tried(self):
        place = user_site(self.base)
        place.mkdir(parents=True)
        (place / "mend").symlink_to(TREE / "mend")
        first = run("--installed", base=self.base)[0]
        self.assertRegex(first, rf"^mend [0-9.]+ of {place}/mend$")

    def test_frameworks_are_named_by_their_packages(self):
        lines = run(base=self.base)
        for name in ("numba-cuda", "rmm-cu13"):
            self.assertTrue(any(name in line for line in lines), lines)


if __name__ == "__main__":
    unittest.main()
