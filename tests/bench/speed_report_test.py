#!/usr/bin/env python3
"""bench/speed_report.py: from the programs' output to the tables of the document.

Usage: speed_report_test.py FOLDER_OF_BENCH
"""
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, sys.argv.pop())
import speed_report as report  # noqa: E402


def run_of(name, **figures):
    return {"name": name, "run_name": name, "run_type": "iteration", **figures}


def replayed(policy, completed=True):
    return {"trace": "stress:rmm-random?allocations=1000&max=4096MiB", "policy": policy,
            "completed": completed, "events": 2000,
            "peak_reserved_bytes": 3 << 30, "alloc_ns": {"mean": 2000}, "free_ns": {"mean": 1000}}


def threads_rows():
    figures = {"cpu_ns": 50.0, "p50_ns": 40.0, "p99_ns": 90.0, "p999_ns": 1500.0,
               "max_ns": 2500000.0}
    return [{"0": "threads", "1": name, "2": "pair", "threads": threads,
             "calls_per_second": speed * 1e6, **figures}
            for name, threads, speed in (("mend", 1, 8.0), ("mend", 16, 6.0),
                                         ("mimalloc", 1, 100.0), ("mimalloc", 16, 150.0))]


class Names(unittest.TestCase):
    def test_parts_of_a_name(self):
        self.assertEqual(report.fields_of("cached_pair/mend/others:1000/size:512"),
                         {"0": "cached_pair", "1": "mend", "others": 1000, "size": 512})

    def test_sizes(self):
        self.assertEqual([report.size_text(size) for size in (512, 4096, 2 << 20, 4 << 30)],
                         ["512 B", "4 KiB", "2 MiB", "4 GiB"])

    def test_benchmarks_of_rmm(self):
        self.assertEqual(report.rmm_name(replayed("mend")["trace"]), "random, 1,000 of up to 4 GiB")
        self.assertEqual(report.rmm_name("stress:rmm-streams?streams=4"),
                         "multi-stream, 4 streams")
        workloads = report.rmm_workloads()
        self.assertEqual(len(workloads), 3 * 6 + 3)
        self.assertEqual(len({report.rmm_name(one) for one in workloads}), len(workloads))


class Medians(unittest.TestCase):
    def test_are_those_of_the_runs_and_not_of_aggregates(self):
        rows = [run_of("pair/mend/size:1", cpu_time=time) for time in (30.0, 10.0, 20.0)]
        rows.append({**run_of("pair/mend/size:1", cpu_time=99.0), "run_type": "aggregate"})
        self.assertEqual(report.medians(rows),
                         [{"0": "pair", "1": "mend", "size": 1, "cpu_time": 20.0}])

    def test_a_failure_ends_the_report(self):
        row = {**run_of("pair/mend/size:1"), "error_occurred": True, "error_message": "no"}
        with self.assertRaises(SystemExit):
            report.medians([row])


class Kept(unittest.TestCase):
    def test_a_section_that_is_measured_again_has_its_own_date(self):
        with tempfile.TemporaryDirectory() as folder:
            first = {"date": "2026-11-21", "machine": {"load": 0.1}, "rmm": [], "pair": [1]}
            (Path(folder) / "2026-11-21-speed.json").write_text(json.dumps(first), "utf-8")
            kept_in, report.RESULTS = report.RESULTS, folder
            again = {"date": "2026-11-28", "machine": {"load": 2.5}, "rmm": [2]}
            both = report.with_kept(again)
            report.RESULTS = kept_in
        self.assertEqual((both["date"], both["rmm"], both["pair"]), ("2026-11-21", [2], [1]))
        self.assertEqual(both["again"], {"rmm": "2026-11-28, load 2.5"})


class Tables(unittest.TestCase):
    def test_pairs_have_a_cell_for_each_contender_that_ran(self):
        rows = [{"1": name, "others": others, "size": 512, "cpu_time": time}
                for name, others, time in (("mend", 0, 41.4), ("mend", 1000, 60.0),
                                           ("jemalloc", 0, 11.0), ("jemalloc", 1000, 12.0))]
        text = report.pair_table(rows)
        self.assertIn("mend / jemalloc, nanoseconds", text)
        self.assertIn("| 512 B | 41 / 11 | 60 / 12 |", text)

    def test_threads_are_compared_with_one(self):
        text = report.threads_table(threads_rows())
        self.assertIn("| pair | 16 | 6.0 / 150.0 | 0.75 / 1.50 | 50 / 50 |", text)
        self.assertIn("| 1.5 / 1.5 | 2.5 / 2.5 |", text)

    def test_rmm_tells_the_host_time_of_a_run_and_no_figure_of_one_that_failed(self):
        text = report.rmm_table([replayed("mend"), replayed("caching", completed=False)])
        self.assertIn("mend / caching", text)
        self.assertIn("| 3.0 / - | 3.0 / - |", text)

    def test_latencies(self):
        times = {"mean": 1, "p50": 100, "p99": 200, "p999": 3000, "max": 40000}
        rows = [{"trace": "gpt2", "policy": "mend", "alloc_ns": times, "free_ns": times}]
        self.assertIn("| gpt2 | free | 100 | 200 | 3.0 | 40 |", report.latency_table(rows))
        rows.append({"trace": "gpt2", "policy": "rmm-pool", "alloc_ns": None, "free_ns": None})
        self.assertIn("| 100 / - | 200 / - | 3.0 / - | 40 / - |", report.latency_table(rows))

    def test_latencies_are_medians_of_runs_that_completed(self):
        def once(p50, completed=True):
            times = {"mean": 1, "p50": p50, "p99": 1, "p999": 1, "max": 1}
            return {"trace": "a/gpt2.csv.gz", "policy": "mend", "device": "sim",
                    "completed": completed, "alloc_ns": times,
                    "free_ns": times if completed else None}
        row, = report.latency_medians([[once(30)], [once(10)], [once(20)]])
        self.assertEqual((row["trace"], row["alloc_ns"]["p50"]), ("gpt2", 20))
        row, = report.latency_medians([[once(30)], [once(10, completed=False)]])
        self.assertEqual((row["alloc_ns"], row["free_ns"]), (None, None))

    def test_host_memory_is_measured_of_mend_alone(self):
        figures = {"fill_ns": 10.0, "churn_ns": 20.0, "drain_ns": 30.0, "host_bytes": 160.4}
        text = report.million_table([{"1": "mend", **figures}, {"1": "mimalloc", **figures}])
        self.assertIn("| mend | 10 | 20 | 30 | 160 |", text)
        self.assertIn("| mimalloc | 10 | 20 | 30 | not measured |", text)


class Document(unittest.TestCase):
    results = {"date": "2026-01-01", "repetitions": 5,
               "machine": {"processor": "P", "cores": 2, "load": 0.5},
               "threads": threads_rows(), "counts": {"gcc": {"pair": [100.0, "2026-01-01"]}}}

    def test_only_what_is_between_the_marks_changes(self):
        before = f"head\n{report.BEGIN}\nold\n{report.END}\ntail\n"
        after = report.put_between_marks("new\n", before)
        self.assertEqual(after, f"head\n{report.BEGIN}\n\nnew\n\n{report.END}\ntail\n")
        self.assertEqual(report.put_between_marks("new\n", after), after)

    def test_says_when_where_and_what(self):
        text = report.report(self.results)
        self.assertIn("Measured 2026-01-01 on 2 cores of P", text)
        self.assertIn("### Threads", text)
        self.assertNotIn("### Cached pairs", text)

    def test_raw_figures_come_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "raw.json"
            report.write_raw(self.results, str(path))
            text = path.read_text()
        self.assertEqual(json.loads(text), self.results)
        self.assertGreater(text.count("\n"), 4)


if __name__ == "__main__":
    unittest.main()
