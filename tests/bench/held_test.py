#!/usr/bin/env python3
"""bench/held/draw.py: the picture of the first page agrees with the raw rows of the H200.

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

KEPT = os.path.join(BENCH, "..", "docs", "images", "h200.svg")


class Held(unittest.TestCase):
    def test_labels_have_the_values_and_the_longest_bar_is_the_largest(self):
        picture = draw.draw([(1.5, 7), (3.0, 2), (0.75, 0)])
        for label in ("1.50 s", "3.00 s", "0.75 s", "7", "2", "0"):
            self.assertIn(f">{label}<", picture)
        widths = re.findall(r'<rect class="[dem]".*? width="(\d+)"', picture)
        self.assertEqual([int(width) for width in widths], [95, 190, 48, 250, 71, 2])

    def test_the_kept_picture_is_drawn_from_the_rows(self):
        with open(KEPT, encoding="utf-8") as file:
            text = file.read()
        xml.fromstring(text)
        self.assertEqual(text, draw.draw(draw.measured()))


if __name__ == "__main__":
    unittest.main()
