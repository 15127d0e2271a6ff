#!/usr/bin/env python3
"""docs/generator/cures.txt, of which docs/messages.md is made, quotes the library: each text in
code font that begins a row is part of a text in the sources.

Usage: messages.py ROOT
"""
import pathlib
import re
import sys

ROW = re.compile(r"^\| (?:[^|`]* )?`([^`]+)`", re.M)
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
    cures = (root / "docs/generator/cures.txt").read_text(encoding="utf-8")
    quoted = ROW.findall(cures)
    missing = [message for message in quoted if message not in text]
    for message in missing:
        print(f"cures.txt quotes `{message}`, which no source says")
    print(f"{len(quoted)} messages, {len(missing)} not found")
    return 0 if len(quoted) > 20 and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
