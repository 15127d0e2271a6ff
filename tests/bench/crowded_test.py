#!/usr/bin/env python3
"""bench/crowded.py: the table, and how much the figures grow.

Usage: crowded_test.py FOLDER_OF_BENCH
"""
import sys
import unittest

sys.path.insert(0, sys.argv.pop())
import crowded  # noqa: E402


class Table(unittest.TestCase):
    def test_growth_is_from_the_first_size_to_the_last(self):
        self.assertEqual(crowded.ratio([100.0, 700.0, 250.0]), 2.5)

    def test_a_row_for_each_operation(self):
        table = crowded.markdown([1000, 1000000], {"free": [339.6, 679.2]})
        self.assertEqual(table.splitlines(), [
            "| operation | 1,000 | 1,000,000 | last / first |", "|---|---|---|---|",
            "| free | 340 | 679 | 2.00 |"])


if __name__ == "__main__":
    unittest.main()
