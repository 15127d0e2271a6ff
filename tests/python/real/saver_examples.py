#!/usr/bin/env python3
"""torch_memory_saver's own examples over Mend, without a GPU: MEND_TORCH=1, and the CPU computes in
place of kernels.

Usage: saver_examples.py TREE FOLDER

FOLDER is a copy of that package's repository, of which no library is built. TREE holds the package
mend as a wheel would. Each example runs as its test_examples.py runs it, with an eighth of its
largest sizes. Exit status 1: one does not pass and NOT_PASSED does not say why, or says so of one
that passes.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import children

HERE = Path(__file__).resolve().parent
BOTH = ("preload", "torch")
FROM_START = {"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1"}
MMAP = {"TMS_INIT_CPU_BACKUP_BACKEND": "mmap"}

# File, function, hook modes, environment.
EXAMPLES = (
    ("simple", "run", BOTH, {}),
    ("cuda_graph", "run", BOTH, {}),
    ("cpu_backup", "run", BOTH, {}),
    ("cpu_backup", "run_multi_device_mmap_restore", BOTH, {}),
    ("cpu_backup", "run_rss", ("torch",), {}),
    ("cpu_backup", "run_backend_from_env", BOTH, MMAP),
    ("cpu_backup", "run_preload_backend_from_env", ("preload",), {**FROM_START, **MMAP}),
    ("cpu_backup", "run_retain_from_env", BOTH, {"TMS_RETAIN_CPU_BACKUP": "1"}),
    ("disk_backup", "run", BOTH, {}),
    ("multi_device", "run", BOTH, {}),
    ("multi_device_torch_mode", "run", ("torch",), {}),
    ("rl_example", "run", BOTH, {}),
    ("training_engine", "run", ("preload",), FROM_START),
    ("cuda_vmm_granularity", "run", ("preload",), {"TMS_INIT_ENABLE": "1"}),
    ("nested_region", "run", ("preload",), FROM_START),
)  # fmt: skip

# Where those end that do not pass: the line of theirs that fails. docs/frameworks has the reasons.
NOT_PASSED = {
    ("cpu_backup", "run"): "assert after.data_ptr() == first_ptr",
    ("cpu_backup", "run_rss"): "assert pause_delta >= tensor_bytes",
    ("cpu_backup", "run_preload_backend_from_env"): "assert pause_delta >= tensor_bytes",
    ("disk_backup", "run"): "assert len(files) >= 2",
    ("training_engine", "run"): "assert delta_expect - 50",
    ("cuda_vmm_granularity", "run"): "tms_pause",
}

LARGE = re.compile(r"\b\d[\d_]*_000_000\b|(?<!/)\b1024 ?\*\* ?3")


def smaller(match):
    text = match.group()
    is_large = "*" in text or int(text) >= 80_000_000
    return f"({text} // 8)" if is_large else text


def run_example(path, function, mode, variables):
    """In a process of its own, as `import torch` with MEND_TORCH=1 begins."""
    import host_values
    import libmend.torch

    os.environ.update(variables, MEND_TORCH="1")
    device = libmend.simulate()
    libmend.torch._autoload()
    text = LARGE.sub(smaller, path.read_text(encoding="utf-8"))
    module = {"__name__": "example"}
    with host_values.HostValues():
        exec(compile(text, str(path), "exec"), module)
        module[function](hook_mode=mode)
    assert device.violations == 0, device.first_violation


def failure_of(path, *others):
    """The last line of the example that it came to, with the error. Empty: it passed."""
    done = children.run(lambda: run_example(path, *others))
    if done.status == 0:
        return ""
    lines = done.log.strip().splitlines() or [f"status {done.status}"]
    source = path.read_text(encoding="utf-8").splitlines()
    at = re.findall(rf'{re.escape(str(path))}", line (\d+)', done.log)
    return f"{source[int(at[-1]) - 1].strip() if at else ''} | {lines[-1]}"


def run_all(folder):
    import torch  # once

    passed, wrong, count = 0, [], 0
    for name, function, modes, variables in EXAMPLES:
        for mode in modes:
            path = folder / "test" / "examples" / f"{name}.py"
            failure = failure_of(path, function, mode, variables)
            print(f"{name}.{function} {mode}: {failure or 'passed'}", flush=True)
            count += 1
            passed += not failure
            expected = NOT_PASSED.get((name, function), "")
            if bool(failure) != bool(expected) or expected not in failure:
                wrong.append(f"{name}.{function} {mode}")
    print(f"torch_memory_saver's examples, PyTorch {torch.__version__}: {passed} of {count} pass")
    print("not as expected: " + ", ".join(wrong) if wrong else "as expected")
    return 1 if wrong else 0


def main(tree, folder):
    with tempfile.TemporaryDirectory() as cache:
        path = (Path(tree).resolve(), HERE, Path(folder).resolve())
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MEND_")}
        kept.update(PYTHONPATH=os.pathsep.join(map(str, path)), MEND_CACHE_DIR=cache)
        command = [sys.executable, "-m", "libmend.simulate", "--memory=4GiB", "--devices=2"]
        command += [__file__, "--inner", folder]
        return subprocess.run(command, env=kept, check=False).returncode


if __name__ == "__main__":
    if sys.argv[1] == "--inner":
        sys.exit(run_all(Path(sys.argv[2]).resolve()))
    sys.exit(main(*sys.argv[1:]))
