"""The package under `./run frameworks`: this tree's, or the one that the interpreter has installed.
No framework is needed for that."""

from pathlib import Path

from support import TREE, FolderTest, start

REAL = Path(__file__).resolve().parent / "real" / "real.py"


def run(*arguments, base):
    """Lines of standard output, with nothing but `base` to find packages of the user in."""
    command = ["-B", str(REAL), *arguments, str(TREE), "no-libmend", "no-recordings"]
    return start(*command, PYTHONPATH=None, PYTHONUSERBASE=str(base)).stdout.splitlines()


def user_site(base):
    """Where Python looks for packages of the user below `base`."""
    program = "import site; print(site.getusersitepackages())"
    return Path(start("-c", program, PYTHONUSERBASE=str(base)).stdout.strip())


class Frameworks(FolderTest):
    def test_this_tree_is_tried(self):
        self.assertRegex(run(base=self.folder)[0], rf"^libmend [0-9.]+ of {TREE}/libmend$")

    def test_the_installed_package_is_tried(self):
        place = user_site(self.folder)
        place.mkdir(parents=True)
        (place / "libmend").symlink_to(TREE / "libmend")
        first = run("--installed", base=self.folder)[0]
        self.assertRegex(first, rf"^libmend [0-9.]+ of {place}/libmend$")

    def test_frameworks_are_named_by_their_packages(self):
        lines = run(base=self.folder)
        for name in ("numba-cuda", "rmm-cu13"):
            self.assertTrue(any(name in line for line in lines), lines)
