#!/usr/bin/env python3
"""In the place of a C++ compiler: "compiles" by copying the library that FAKE_CLASS names to the
file after -o, and writes its arguments to FAKE_ARGUMENTS."""

import os
import shutil
import sys

if "FAKE_ARGUMENTS" in os.environ:
    with open(os.environ["FAKE_ARGUMENTS"], "w", encoding="utf-8") as file:
        file.write("\n".join(sys.argv[1:]))
if "-fails" in sys.argv:
    sys.exit("allocator.cpp:1:1: error: nothing works\nmore words")
shutil.copyfile(os.environ["FAKE_CLASS"], sys.argv[sys.argv.index("-o") + 1])
