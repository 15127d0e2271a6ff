#!/usr/bin/env python3
"""Quotes in documents are true. A block of code under `<!-- FILE -->` is that file, word for word,
or under `<!-- FILE: NAME -->` that function of it with the comment above. Every relative link leads
to a file that exists, and to a heading in it.

Usage: quoted.py ROOT
"""
import os
import re
import sys

QUOTE = re.compile(r"^<!-- ([\w./-]+\.\w+)(?:: (\w+))? -->\n```\w*\n(.*?)^```$", re.M | re.S)
FUNCTION = r"(?:^/\*(?:(?!\*/).)*\*/\n)?^\w[^\n;{{]*\b{}\([^;{{]*\n\{{\n.*?^\}}\n"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)


def documents(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in (".git", "build")]
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.join(folder, name)


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def anchors(path):
    """The anchors that GitHub gives the headings of a document."""
    with open(path, encoding="utf-8") as file:
        headings = HEADING.findall(without_code(file.read()))
    found = set()
    for heading in headings:
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = first = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        again = 0
        while anchor in found:  # a heading that comes again
            again += 1
            anchor = f"{first}-{again}"
        found.add(anchor)
    return found


def findings_in(root, document, text):
    for name, function, quoted in QUOTE.findall(text):
        path = os.path.join(root, name)
        if not os.path.isfile(path):
            yield f"quotes {name}, which is not there"
            continue
        with open(path, encoding="utf-8") as file:
            source = file.read()
        if function:
            found = re.search(FUNCTION.format(function), source, re.M | re.S)
            source = found and found[0]
        if source != quoted:
            yield f"quotes {name}{function and ': ' + function}, but not as it is"
    for target, anchor in LINK.findall(without_code(text)):
        path = os.path.join(os.path.dirname(document), target) if target else document
        if "://" in target:
            continue
        if not os.path.exists(path):
            yield f"links to {target}, which is not there"
        elif anchor and path.endswith(".md") and anchor not in anchors(path):
            yield f"links to {target}#{anchor}, a heading that is not there"


def main():
    root = sys.argv[1]
    count = findings = quotes = 0
    for document in documents(root):
        with open(document, encoding="utf-8") as file:
            text = file.read()
        count += 1
        quotes += len(QUOTE.findall(text))
        for finding in findings_in(root, document, text):
            print(f"{os.path.relpath(document, root)} {finding}")
            findings += 1
    print(f"{count} documents, {quotes} quotes, {findings} findings")
    return 0 if quotes > 0 and findings == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
