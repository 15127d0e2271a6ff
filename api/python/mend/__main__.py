"""The program `mend`, of the package: `mend` and `python -m mend`."""

from __future__ import annotations

import os
import sys

from ._library import PACKAGE


def main() -> str:
    """Becomes the program. Returns only why that fails."""
    program = PACKAGE / "bin" / "mend"
    sys.stdout.flush()
    try:
        os.execv(program, ["mend", *sys.argv[1:]])
    except OSError as error:
        return f"mend: the program is not part of this package: {program}: {error.strerror}"


if __name__ == "__main__":
    sys.exit(main())
