"""Runs the tests of a file, each in a process of its own. Prints a JSON line for each.

    python -m libmend.simulate upstream_inner.py FILE native|expandable|mend [options]

Run by upstream_tests.py. PyTorch is imported once. A test's process is forked before CUDA is used.
"""

import argparse
import contextlib
import ctypes
import json
import os
import re
import sys
import tempfile
import threading
import types
import unittest
from pathlib import Path

import children
import torch
import torch._dynamo  # what most tests import
import torch.cuda._memory_viz

MODULE = "upstream_under_test"
FOREIGN_BYTES = 512 << 20  # what a context takes of a real GPU


# ---- in the process of a test --------------------------------------------------------------------


def simulated_device():
    """The record of the program's use. A part of each device is a context's, as of a real GPU."""
    import libmend
    from libmend import _standin

    device = libmend.simulate()
    for index in range(_standin.device_count()):
        foreign_bytes = ctypes.c_uint64(FOREIGN_BYTES)
        device._library.mend_sim_set_foreign_bytes(device._sim, index, foreign_bytes)
    return device


def load(options, code):
    """The module of the tests, under the allocator that is asked for."""
    if options.allocator == "mend":
        import libmend.torch

        os.environ["MEND_TORCH"] = "1"  # for the processes that a test starts
        libmend.torch.enable()
    module = types.ModuleType(MODULE)
    module.__file__ = str(options.file)
    sys.modules[MODULE] = module
    exec(code, module.__dict__)
    return module


def cases_of(module):
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, unittest.TestCase)
        and value.__module__ == MODULE
    ]


def names_of(module):
    return sorted(
        {
            f"{case.__name__}.{name}"
            for case in cases_of(module)
            for name in dir(case)
            if name.startswith("test") and callable(getattr(case, name))
        }
    )


@contextlib.contextmanager
def computed_by_host(options):
    """Values are computed in this block, in all its threads."""
    if not options.values:
        yield None
        return
    from host_values import HostValues

    run = threading.Thread.run

    def run_with_values(thread):
        with HostValues():
            run(thread)

    threading.Thread.run = run_with_values
    try:
        with HostValues():
            yield HostValues
    finally:
        threading.Thread.run = run


def last_error_of(text):
    """The message at the end of a traceback."""
    lines = text.strip().splitlines()
    begins = re.compile(r"[\w.]+(Error|Exception|Warning|Interrupt)\b")
    at = max((n for n, line in enumerate(lines) if begins.match(line)), default=len(lines) - 1)
    return "\n".join(lines[at:])[:600]


def run_test(options, code, name):
    device = simulated_device()
    module = load(options, code)
    case, method = name.split(".")
    result = unittest.TestResult()
    with computed_by_host(options) as values:
        unittest.TestSuite([getattr(module, case)(method)]).run(result)
    answer = {"status": "pass", "message": "", "violation": device.first_violation[:300]}
    bad = result.errors + result.failures
    if bad:
        answer["status"] = "error" if result.errors else "fail"
        answer["message"] = last_error_of(bad[0][1])
        answer["traceback"] = bad[0][1][-4000:]
        answer["not_computed"] = values.errors[:3] if values else []
    elif result.skipped:
        answer.update(status="skip", message=result.skipped[0][1])
    return answer


# ---- processes -----------------------------------------------------------------------------------


def outcome_of(work, limit_s):
    """The result of work() in a process of its own, or its failure."""
    done = children.run(work, limit_s)
    answer = done.answer
    if done.is_late:
        answer = {"status": "timeout", "message": done.log[-600:]}
    elif answer is None:
        answer = {"status": "crash", "message": f"status {done.status}: {done.log[-600:]}"}
    return {**answer, "seconds": done.seconds}


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("allocator")
    parser.add_argument("--tests", default="")
    parser.add_argument("--names", type=Path)
    parser.add_argument("--no-values", dest="values", action="store_false")
    parser.add_argument("--limit", type=float, default=60)
    return parser.parse_args()


def main():
    options = read_arguments()
    code = compile(options.file.read_text(), str(options.file), "exec")
    sys.path.insert(0, str(options.file.resolve().parent))
    if options.names:
        names = options.names.read_text().split()
    else:
        found = outcome_of(lambda: {"names": names_of(load(options, code))}, options.limit)
        if "names" not in found:
            sys.exit(f"the tests could not be loaded: {found['message']}")
        names = [name for name in found["names"] if re.search(options.tests, name)]
    for name in names:
        # A test that is killed while it compiles leaves a lock, for which another would wait.
        with tempfile.TemporaryDirectory() as extensions:
            os.environ["TORCH_EXTENSIONS_DIR"] = extensions
            answer = outcome_of(lambda: run_test(options, code, name), options.limit)
        print(json.dumps({"test": name, **answer}), flush=True)


if __name__ == "__main__":
    main()
