#!/usr/bin/env python3
"""PyTorch's own tests judge allocators without a GPU, over `python -m libmend.simulate`: PyTorch's
native allocator, its expandable segments, and Mend.

Usage: upstream_tests.py [options] TREE FILE

FILE is a copy of PyTorch's test/test_cuda.py, of about the version that this interpreter has. It
needs the packages expecttest, hypothesis and psutil. TREE holds the package mend as a wheel would.
A test that does not pass while the host computes its values is run without them too, and the better
outcome counts. The tests of optimizers, which have little to do with memory and take longest, run
where --tests names them. Prints counts, and each test that passes natively and not otherwise, by
name. Exit status 1 if there is one that --expected-losses does not name.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from programs import add_entry_point

HERE = Path(__file__).resolve().parent
ALLOCATORS = ("native", "expandable", "mend")
MEMORY = "8GiB"
# Outcomes from the best to the worst.
ORDER = ("pass", "skip", "fail", "error", "timeout", "crash")


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tree", type=lambda text: Path(text).resolve())
    parser.add_argument("file", type=lambda text: Path(text).resolve())
    parser.add_argument("--allocators", default=",".join(ALLOCATORS))
    parser.add_argument(
        "--tests", default="^(?!TestCudaOptims)", help="only those that this pattern finds"
    )
    parser.add_argument("--devices", default="1")
    parser.add_argument("--limit", default="60", help="seconds for a test")
    parser.add_argument("--output", type=Path, default=Path("upstream"), help="folder of results")
    parser.add_argument("--expected-losses", type=Path, help="names of tests that Mend may lose")
    return parser.parse_args()


def environment(options, allocator, scratch):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEND_")}
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        kept.pop(name, None)
    if allocator == "expandable":
        kept["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        kept["PYTORCH_TEST_WITH_EXPANDABLE_SEGMENTS"] = "1"
    path = [str(options.tree), str(HERE), scratch, *filter(None, [kept.get("PYTHONPATH")])]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(path),
        "MEND_CACHE_DIR": scratch,
        "OMP_NUM_THREADS": "1",  # the operators are small: threads would wait for each other
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(options, allocator, scratch, *arguments):
    """The outcomes by test, in the order in which they ran."""
    command = [sys.executable, "-m", "libmend.simulate", "--memory", MEMORY]
    command += ["--devices", options.devices, str(HERE / "upstream_inner.py")]
    command += [str(options.file), allocator, "--limit", options.limit, *arguments]
    outcomes = {}
    variables = environment(options, allocator, scratch)
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as inner:
        for line in inner.stdout:
            outcome = json.loads(line)
            outcomes[outcome["test"]] = outcome
            print(f"{allocator}: {outcome['test']}: {outcome['status']}", flush=True)
    if inner.returncode != 0:
        sys.exit(f"{allocator}: the tests could not be run")
    return outcomes


def judge(options, allocator):
    with tempfile.TemporaryDirectory() as scratch:
        add_entry_point(scratch)
        outcomes = run(options, allocator, scratch, "--tests", options.tests)
        again = [name for name, made in outcomes.items() if made["status"] not in ORDER[:2]]
        names = Path(scratch) / "names"
        names.write_text("\n".join(again))
        others = run(options, allocator, scratch, "--names", str(names), "--no-values")
    for name, other in others.items():
        if ORDER.index(other["status"]) < ORDER.index(outcomes[name]["status"]):
            outcomes[name] = other
    options.output.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(outcome) + "\n" for outcome in outcomes.values())
    (options.output / f"{allocator}.jsonl").write_text(text)
    return outcomes


def report(results):
    """Prints the results. Returns the tests that pass natively and not with Mend."""
    for allocator, outcomes in results.items():
        counts = collections.Counter(outcome["status"] for outcome in outcomes.values())
        print(f"{allocator}: " + ", ".join(f"{counts[name]} {name}" for name in ORDER))
        for name, outcome in outcomes.items():
            if outcome.get("violation"):
                print(f"  {name} broke a rule of the driver: {outcome['violation']}")
    lost = {}
    passing = [name for name, made in results.get("native", {}).items() if made["status"] == "pass"]
    for allocator, outcomes in results.items():
        bad = [outcomes[name] for name in passing if outcomes[name]["status"] != "pass"]
        lost[allocator] = [outcome["test"] for outcome in bad]
        print(f"{allocator}: {len(passing) - len(bad)} of the {len(passing)} that pass natively")
        for outcome in bad:
            message = outcome["message"].replace("\n", " ")[:160]
            print(f"  {outcome['test']}: {outcome['status']}: {message}")
    return lost.get("mend", [])


def main():
    options = read_arguments()
    results = {}
    for allocator in options.allocators.split(","):
        results[allocator] = judge(options, allocator)
    lost = set(report(results))
    if options.expected_losses:
        lost -= set(options.expected_losses.read_text().split())
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
