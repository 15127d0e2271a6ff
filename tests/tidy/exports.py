#!/usr/bin/env python3
"""A shared library exports the calls that its public headers declare, no more and no less. Its
static twin, where it has one, takes no name from a program without mend_ at its start.

Usage: exports.py NM LIBRARY ARCHIVE|- HEADER...
"""
import re
import subprocess
import sys


def declared_in(header):
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    return set(re.findall(r"^MEND_API\s[^;(]*?\b(\w+)\s*\(", code, re.M))


def exported_by(listing):
    return {line.split()[2] for line in listing.splitlines() if len(line.split()) == 3}


def differences(exported, declared):
    for name in sorted(exported - declared):
        yield f"{name} is exported, but not declared"
    for name in sorted(declared - exported):
        yield f"{name} is declared, but not exported"
    yield from foreign(exported | declared)


def foreign(names):
    for name in sorted(n for n in names if not n.startswith("mend_")):
        yield f"{name} does not start with mend_"


def test_itself():
    header = "#define MEND_API x\nMEND_API int mend_a(void);\n/* MEND_API int no(void); */\n" \
        "MEND_API const char *mend_b(int a,\n    int (*f)(int));\nint mend_c(void);\n"
    assert declared_in(header) == {"mend_a", "mend_b"}
    assert exported_by("0001 T mend_a\n0002 B stray\n") == {"mend_a", "stray"}
    assert list(differences({"mend_a"}, {"mend_a"})) == []
    assert len(list(differences({"mend_a", "stray"}, {"mend_a", "mend_b"}))) == 3


def main():
    test_itself()
    nm, library, archive, *headers = sys.argv[1:]

    def names(*arguments):
        return exported_by(subprocess.run([nm, "--defined-only", *arguments], check=True,
                                          capture_output=True, text=True).stdout)

    declared = set()
    for header in headers:
        with open(header, encoding="utf-8") as file:
            declared |= declared_in(file.read())
    exported = names("--dynamic", library)
    linked = declared if archive == "-" else names("--extern-only", archive)
    found = [f"{library}: {finding}" for finding in differences(exported, declared)]
    found += [f"{archive}: {finding}" for finding in foreign(linked)]
    for finding in found:
        print(finding)
    print(f"{len(exported)} exported, {len(declared)} declared, {len(linked)} in the archive")
    return 0 if declared and declared <= linked and not found else 1


if __name__ == "__main__":
    sys.exit(main())
