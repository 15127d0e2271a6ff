#!/usr/bin/env python3
"""bench/counts.py: callgrind's output is read right, growth is seen, kept rows come back.

Usage: counts_test.py FOLDER_OF_BENCH
"""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop())
import counts  # noqa: E402

# Main calls libmend (7 of its own), which calls libc (5) and the simulated device (100 in all, of
# which 30 in libc). The device calls itself once more inside.
CALLGRIND = """\
# callgrind format
version: 1
cmd: ./mend_counts pair
positions: line
events: Ir
summary: 112

ob=(1) /bin/mend_counts
fl=(1) ???
fn=(1) pair
0 0
cob=(2) /lib/libmend.so.0
cfn=(2) mend_alloc
calls=1 0
0 112

ob=(2)
fn=(2)
12 4
+3 3
cob=(3) /lib/libc.so.6
cfn=(3) malloc
calls=2 0
* 5
cob=(4) /lib/libmend_sim.so.0
cfn=(4) sim_map
calls=1 0
-2 100

ob=(4)
fn=(4)
0 70
cfn=(5) sim_inner
calls=1 0
0 60
cob=(3)
cfn=(3)
calls=1 0
0 30

ob=(3)
fn=(3)
0 35
totals: 112
"""


class Parse(unittest.TestCase):
    def test_takes_the_simulated_device_out_with_all_it_calls(self):
        self.assertEqual(counts.parse(CALLGRIND), (112, 100))

    def test_a_call_within_an_object_is_none_of_the_device(self):
        text = CALLGRIND.replace("cob=(4) /lib/libmend_sim.so.0\n", "")
        text = text.replace("ob=(4)\n", "ob=(4) /lib/libmend_sim.so.0\n")
        self.assertEqual(counts.parse(text), (112, 0))

    def test_nothing_is_nothing(self):
        self.assertEqual(counts.parse("# callgrind format\ntotals: 0\n"), (0, 0))


class Compare(unittest.TestCase):
    def verdicts(self, now, kept, limit=5):
        kept = {case: (count, "2026-01-01") for case, count in kept.items()}
        return {row[0]: row[3] for row in counts.compare(now, kept, limit)}

    def test_growth_is_reported_beyond_the_limit_and_less_is_fine(self):
        for now, limit, verdict in (
                (105.0, 5, ""), (107.0, 5, ""), (107.1, 5, "GROWN"), (107.1, 10, ""), (1.0, 5, "")):
            kept = {"pair": 100.0}
            self.assertEqual(self.verdicts({"pair": now}, kept, limit), {"pair": verdict})

    def test_a_new_case_is_fine_and_a_lost_one_is_not(self):
        self.assertEqual(self.verdicts({"new": 5.0}, {"old": 5.0}), {"new": "", "old": "GONE"})

    def test_what_changed_is_put_in_percent(self):
        self.assertEqual(counts.change(110.0, 100.0), "+10.0 %")
        self.assertEqual(counts.change(50.0, 100.0), "-50.0 %")
        self.assertEqual(counts.change(50.0, None), "new")
        self.assertEqual(counts.change(None, 50.0), "-")


class Keep(unittest.TestCase):
    def test_what_is_kept_comes_back_for_each_build(self):
        kept = {"gcc 1": {"pair": (12.5, "2026-01-01"), "fill": (3.0, "2026-01-01")},
                "clang 2": {"pair": (11.0, "2026-01-02")}}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results", "counts.csv")
            self.assertEqual(counts.read_kept(path), {})
            counts.write_kept(path, kept)
            self.assertEqual(counts.read_kept(path), kept)


if __name__ == "__main__":
    unittest.main()
