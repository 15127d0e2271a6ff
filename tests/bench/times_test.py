#!/usr/bin/env python3
"""bench/times.py: each workload is replayed once for all cost tables, and its marks are filled.

Usage: times_test.py FOLDER_OF_BENCH
"""
import os
import subprocess
import sys
import tempfile
import unittest

BENCH = sys.argv.pop()
# A stub of `libmend`: each policy has times of its own. One workload is out of memory at 1.02x.
PROGRAM = """#!/usr/bin/env python3
import json
import os
import sys
policy, workload = sys.argv[4], sys.argv[-1]
with open(os.environ["LOG"], "a", encoding="utf-8") as log:
    log.write(" ".join([policy, os.environ.get("MEND_CONF", ""), workload]) + "\\n")
base = {"mend": 1000, "expandable": 2000}.get(policy, 4000)
for capacity in sys.argv[6].split(","):
    print(json.dumps({
        "completed": not (capacity == "1.02x" and workload == "stress:two"),
        "driver_time_by_list_us": {"h200": base, "reference": 2000,
                                   "kvcached-a100": 3000 if policy == "mend" else 1000}}))
sys.exit(1)
"""
MARK = "<!-- times: generated; bench/times.py writes from here -->\n{}<!-- times: to here -->\n"


class Times(unittest.TestCase):
    def test_marks_are_filled_and_kept_replays_are_not_made_again(self):
        with tempfile.TemporaryDirectory() as folder:
            def path(name, text):
                at = os.path.join(folder, name)
                with open(at, "w", encoding="utf-8") as file:
                    file.write(text)
                return at

            program, log = path("program", PROGRAM), path("log", "")
            os.chmod(program, 0o755)
            workloads = path("workloads.txt", "stress:one tune\nstress:two tune\n")
            document = path("document.md", "before\n" + MARK.format("old\n") + "behind\n")
            for _ in range(2):
                done = subprocess.run(
                    [sys.executable, "-B", os.path.join(BENCH, "times.py"), "--mend", program,
                     "--workloads", workloads, "--rows", os.path.join(folder, "rows"), document],
                    capture_output=True, text=True, check=False, env={**os.environ, "LOG": log})
                self.assertEqual(0, done.returncode, done.stderr)
            with open(document, encoding="utf-8") as file:
                text = file.read()
            with open(log, encoding="utf-8") as file:
                self.assertEqual(4, len(file.readlines()))
        self.assertTrue(text.startswith("before\n<!-- times: generated;"))
        self.assertTrue(text.endswith("behind\n"))
        self.assertNotIn("old", text)
        for line in ("| tuned half: 2 generated workloads | 80 GiB | 2 of 2 | 0.50 (0; 0.50) "
                     "| 1.00 (0; 1.00) | 3.00 (2; 3.00) |",
                     "| tuned half: 2 generated workloads | 1.02x peak | 1 of 2 |"):
            self.assertIn(line, text)


if __name__ == "__main__":
    unittest.main()
