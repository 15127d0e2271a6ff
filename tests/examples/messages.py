#!/usr/bin/env python3
"""docs/messages.md quotes the library: each text in code font in the first cell of a row is part of
a text in the sources.

Usage: messages.py ROOT
"""
import pathlib
import re
import sys

CELL = re.compile(r"^\| (`[^|]*`) \|", re.M)
FOLDERS = ("vmm", "api/hooks", "api/python", "api/include")


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".cpp", ".py") and "sim" not in path.parts:
                yield path.read_text(encoding="utf-8")


def main():
    root = pathlib.Path(sys.argv[1])
    text = "\n".join(sources(root))
    text = re.sub(r'" *\\?\n\s*f?"', "", text)  # a text over several lines is one
    page = (root / "docs/messages.md").read_text(encoding="utf-8")
    quoted = [text for cell in CELL.findall(page) for text in re.findall("`([^`]+)`", cell)]
    missing = [message for message in quoted if message not in text]
    for message in missing:
        print(f"docs/messages.md quotes `{message}`, which no source says")
    print(f"{len(quoted)} messages, {len(missing)} not found")
    return 0 if len(quoted) > 20 and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
