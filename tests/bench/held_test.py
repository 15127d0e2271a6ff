#!/usr/bin/env python3
"""bench/held/draw.py: the picture of the first page, from made-up samples and as it is in the tree.

Usage: held_test.py FOLDER_OF_BENCH
"""
import os
import re
import sys
import unittest
import xml.etree.ElementTree as xml

BENCH = sys.argv.pop()
sys.path.insert(0, os.path.join(BENCH, "held"))
import draw  # noqa: E402

GIB = 1 << 30
KEPT = os.path.join(BENCH, "..", "docs", "images", "held.svg")
SIZES = re.compile(r"font-size:(\d+)px")


def made_up():
    """Three runs of 4,000 operations, of which the first holds six times what it uses."""
    used = [(1 + step % 100) * GIB // 50 for step in range(4000)]
    return [[(now, min(most, 4 * GIB * (step + 1) // 1000)) for step, now in enumerate(used)]
            for most in (12 * GIB, 9 * GIB, 2 * GIB)]


class Held(unittest.TestCase):
    def test_labels_have_the_largest_figures_of_the_samples(self):
        picture = draw.draw("24GiB", "2.8", made_up())
        for label in ("PyTorch’s default 12.0 GiB", "expandable_segments 9.0 GiB", "Mend 2.0 GiB",
                      "in use: at most 2.0 GiB"):
            self.assertIn(f">{label}<", picture)

    def test_a_kept_picture_is_small_whole_and_readable(self):
        with open(KEPT, encoding="utf-8") as file:
            text = file.read()
        xml.fromstring(text)
        self.assertLess(len(text.encode()), 40_000)
        wide, narrow = text.split("@media (max-width:520px)")
        self.assertGreaterEqual(min(int(size) for size in SIZES.findall(wide)), 12)
        narrow = narrow.split("@media")[0]  # on a phone of 390 px
        self.assertGreaterEqual(min(int(size) for size in SIZES.findall(narrow)) * 390 / 800, 12)

    def test_the_kept_one_is_drawn_as_the_script_draws(self):
        with open(KEPT, encoding="utf-8") as file:
            text = file.read()
        self.assertIn(f"<style>{draw.STYLE}</style>", text)


if __name__ == "__main__":
    unittest.main()
