"""The program of the package: `libmend` and `python -m libmend`."""

from __future__ import annotations

import os
import sys

from ._library import PACKAGE


def main() -> str | int:
    """Becomes the program. Returns only the reason of a failure, or the exit status of `fit`, which
    is Python."""
    if sys.argv[1:2] == ["fit"]:
        from . import fit

        return fit.main(sys.argv[2:])
    program = PACKAGE / "bin" / "libmend"
    sys.stdout.flush()
    try:
        os.execv(program, ["libmend", *sys.argv[1:]])
    except OSError as error:
        return f"libmend: the program is not part of this package: {program}: {error.strerror}"


if __name__ == "__main__":
    sys.exit(main())
