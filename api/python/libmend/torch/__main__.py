"""`python -m libmend.torch build`: compiles Mend's class for the installed PyTorch, before a
program needs it, and prints where it is. Needs no GPU."""

import sys

from . import _build, _class


def main() -> int:
    """Runs the command line, and returns the exit status."""
    if sys.argv[1:] != ["build"]:
        print("usage: python -m libmend.torch build", file=sys.stderr)
        return 2
    try:
        import torch
    except ImportError as reason:
        print(f"libmend.torch build: PyTorch cannot be imported: {reason}", file=sys.stderr)
        return 1
    try:
        print(_class.path_for(torch, is_for_gpu=False))
    except _build.NotAvailable as reason:
        print(f"libmend.torch build: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
