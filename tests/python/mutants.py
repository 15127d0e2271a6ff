#!/usr/bin/env python3
"""Who tests the tests of the Python package? Deliberate bugs in copies of what CMake installed,
each of which its test must see.

Usage: mutants.py BUILD [PYTHON], after `ctest --test-dir BUILD -R python.tree`. Takes some minutes.

PYTHON is an interpreter that has PyTorch: with it, tests under PyTorch itself (real/) must see bugs
too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# File of the package, what is there, what comes in its place, the test that must see it.
MUTANTS = [
    ("torch/__init__.py", "        if _kept:\n            return\n", "", "torch"),
    ("torch/__init__.py", "        if reason:\n", "        if False:\n", "torch"),
    (
        "torch/__init__.py",
        "        count = torch.cuda.device_count() if is_initialized else 0",
        "        count = 0",
        "torch",
    ),
    (
        "torch/__init__.py",
        "    except Exception as error:",
        "    except KeyError as error:",
        "autoload",
    ),
    ("torch/__init__.py", '    if wish in ("", "0"):\n        return\n', "", "autoload"),
    ("torch/_settings.py", "        if found:\n", "        if not found:\n", "torch"),
    ("torch/_pool.py", "    if chosen in entered:", "    if False:", "torch_part"),
    ("torch/_pool.py", "        entered.remove(chosen)\n", "        pass\n", "torch_part"),
    ("torch/_pool.py", "        if index not in _shared:\n", "        if True:\n", "torch_part"),
    ("torch/_build.py", "    if is_ours(path):\n        return path\n", "", "torch"),
    ("torch/_build.py", "            os.unlink(unfinished)", "            pass", "torch"),
    ("torch/_build.py", "cuda_headers, Path(source).parent)", "cuda_headers)", "headers"),
    ("torch/_class.py", "    if prebuilt.is_file() and", "    if False and", "torch"),
    (
        "cupy.py",
        "        if size and not segment.ptr:\n",
        "        if False:\n",
        "cupy",
    ),
    (
        "cupy.py",
        "self.free(self.device, self.address, self.size, stream)",
        "self.free(self.device, self.address, self.size, 0)",
        "cupy",
    ),
    (
        "cupy.py",
        "_devices.alloc(device, size, stream.ptr)",
        "_devices.alloc(device, size, 0)",
        "cupy",
    ),
    ("cupy.py", "        self.address = 0  # __del__", "        # __del__", "cupy"),
    (
        "cupy.py",
        "UnownedMemory(block.address, size, block, device)",
        "UnownedMemory(block.address, size, None, device)",
        "cupy",
    ),
    (
        "numba.py",
        "free(device, address, size, _devices.NO_STREAM)",
        "free(device, address, size, 0)",
        "hooks",
    ),
    (
        "numba.py",
        "            self.deallocations.clear()\n            return allocator()",
        "            raise",
        "hooks",
    ),
    ("numba.py", "finalizer=give_back", "finalizer=None", "hooks"),
    (
        "rmm.py",
        "_devices.free(device, address, size, _handle_of(stream))",
        "_devices.free(device, address, size, 0)",
        "hooks",
    ),
    (
        "rmm.py",
        "_devices.alloc(device, size, _handle_of(stream))",
        "_devices.alloc(device, size, 0)",
        "hooks",
    ),
    ("rmm.py", "    if ordinal not in _kept:\n", "    if True:\n", "hooks"),
    (
        "onnxruntime.py",
        '"gpu_external_free": "mend_ort_free"',
        '"gpu_external_free": "mend_ort_alloc"',
        "hooks",
    ),
    ("onnxruntime.py", "name: str(value)", "name: value", "hooks"),
    ("handler.py", "    if device not in _kept:", "    if True:", "hooks"),
    ("_library.py", "return ctypes.CDLL(path.name, mode=os.RTLD_NOLOAD)", "raise OSError", "core"),
    (
        "_errors.py",
        "kind = OutOfMemoryError if result == OUT_OF_MEMORY else Error",
        "kind = Error",
        "core",
    ),
    (
        "_errors.py",
        "kind = OutOfMemoryError if result == OUT_OF_MEMORY else Error",
        "kind = OutOfMemoryError",
        "core",
    ),
    (
        "_simulation.py",
        '        check(_devices.function("mend_set_default_config")(-1, None))\n',
        "",
        "core",
    ),
    (
        "_devices.py",
        '    check(function("mend_device_free")',
        '    (function("mend_device_free")',
        "core",
    ),
    ("_library.py", "_use_simulated_device(_loaded[needed])", "pass", "simulate"),
    ("_simulation.py", "if asked is not None and asked != has:", "if False:", "simulate"),
    ("simulate.py", "sys.modules[__name__].__class__ = _Callable", "pass", "simulate"),
    ("simulate.py", "    if not 0 < size <= 1 << 44:", "    if size < 0:", "simulate"),
    ("simulate.py", 'at += 1 if "="', 'at += 2 if "="', "simulate"),
    ("simulate.py", '"MEND_SIMULATE_DEVICES": str(devices)', '"_": ""', "simulate"),
    ("simulate.py", '("--help", "-h", "--fabric")', '("--help", "-h")', "simulate"),
    ("_sleep.py", "        _set_tag(before)\n", "        pass\n", "sleep"),
    ("_sleep.py", '"little") | _FIRST_OF_NAMES', '"little")', "sleep"),
    ("_sleep.py", "0 < number < _FIRST_OF_POOLS or", "0 < number or", "sleep"),
    ("_sleep.py", "        if result == OUT_OF_MEMORY:", "        if False:", "sleep"),
    ("_sleep.py", "            except Error:", "            except KeyError:", "sleep"),
    ("_sleep.py", "if tags is None or numbers:", "if True:", "sleep"),
    ("_sleep.py", '(_several(tags), "host")', '(_several(tags), "nothing")', "sleep"),
    ("_sleep.py", '("host" if tags is None else "awake")', '"host"', "sleep"),
    ("_sleep.py", '("host" if tags is None else "awake")', '"awake"', "sleep"),
    ("_sleep.py", "keep_free=int(keep_free)", "keep_free=0", "sleep"),
    ("_sleep.py", "skip_pinned=int(skip_pinned)", "skip_pinned=0", "sleep"),
    ("_sleep.py", "if number == 0 or name != str(name).lower():", "if number == 0:", "sleep"),
]

# The same, seen by a test of a script in real/, with an interpreter that has PyTorch.
MUTANTS_OF_PYTORCH = [
    (
        "torch/_sleep.py",
        "    if not is_enabled():\n",
        "    if False:\n",
        "torch_sleep_real",
        "Sleep.test_it_needs_enable",
    ),
    (
        "torch/_sleep.py",
        "    if _is_capturing():\n",
        "    if False:\n",
        "torch_sleep_real",
        "Sleep.test_what_cannot_be_done_has_a_name_and_changes_nothing",
    ),
    (
        "torch/_sleep.py",
        '2: {"weights": "nothing"',
        '2: {"weights": "host"',
        "torch_sleep_real",
        "Sleep.test_an_engine_of_two_levels",
    ),
    (
        "torch/_sleep.py",
        "torch.cuda.current_device() if device is None else device",
        "0",
        "torch_sleep_real",
        "Sleep.test_each_gpu_sleeps_by_itself",
    ),
    (
        "torch/_sleep.py",
        "if old._cdata not in moved:",
        "if True:",
        "torch_sleep_real",
        "Sleep.test_a_module_that_is_there_is_moved_to_a_tag",
    ),
    (
        "torch/_sleep.py",
        "tensor.storage_offset(), tensor.shape, tensor.stride()",
        "0, tensor.shape, tensor.stride()",
        "torch_sleep_real",
        "Sleep.test_a_module_that_is_there_is_moved_to_a_tag",
    ),
    (
        "torch/_errors.py",
        "(OutOfMemoryError, torch.OutOfMemoryError)",
        "(OutOfMemoryError,)",
        "torch_sleep_real",
        "Sleep.test_no_room_to_wake_is_an_error_of_out_of_memory_and_can_be_tried_again",
    ),
    (
        "_sleep.py",
        "        if result == OUT_OF_MEMORY:",
        "        if False:",
        "torch_sleep_real",
        "Sleep.test_no_room_to_wake_is_an_error_of_out_of_memory_and_can_be_tried_again",
    ),
    (
        "torch/_growing.py",
        "            if self._now() != self._stream:  # at its end",
        "            if False:  # at its end",
        "torch_growing_real",
        "Growing.test_the_end_waits_for_each_stream_that_used_it",
    ),
    (
        "torch/_growing.py",
        "            if self._now() != self._stream:\n",
        "            if False:\n",
        "torch_growing_real",
        "Growing.test_memory_waits_for_each_stream_that_used_it",
    ),
    (
        "torch/_growing.py",
        "math.prod(self._shape[1:]) *",
        "math.prod(self._shape) *",
        "torch_growing_real",
        "Growing.test_pages_come_and_go_one_by_one",
    ),
    (
        "torch/_growing.py",
        "if end == self.capacity else to // page)",
        "if True else to // page)",
        "torch_growing_real",
        "Growing.test_pages_come_and_go_one_by_one",
    ),
    (
        "torch/_growing.py",
        "make(self._whole, length * self._row_bytes",
        "make(self._whole, self._shape[0] * self._row_bytes",
        "torch_growing_real",
        "Growing.test_a_tensor_of_it_is_copied_and_saved_with_its_own_size",
    ),
    (
        "torch/_growing.py",
        "            with as_pytorch():\n",
        "            if True:\n",
        "torch_growing_real",
        "Growing.test_memory_passes_between_it_and_other_tensors",
    ),
    (
        "torch/_growing.py",
        "        self._length, self._tensor = length, tensor\n",
        "        self._length, self._tensor = length, self._tensor\n",
        "torch_growing_real",
        "Growing.test_it_grows_at_one_address_and_keeps_what_it_holds",
    ),
]


def with_bug(name, original, mutated, tests, work):
    """A copy of the package with the bug. Raises where the bug has no place."""
    tree = work / "tree"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(tests / "tree", tree)
    path = tree / "mend" / name
    text = path.read_text(encoding="utf-8")
    if original not in text:
        raise SystemExit(f"{name} has no longer: {original}")
    path.write_text(text.replace(original, mutated), encoding="utf-8")
    return tree


def passes(command, path, variables):
    """Whether a test passes."""
    environment = {
        **os.environ,
        **variables,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    return done.returncode == 0


def is_seen(name, original, mutated, test, tests, work):
    """Whether the test fails over a copy with the bug."""
    tree = with_bug(name, original, mutated, tests, work)
    variables = {
        "MEND_TEST_TREE": str(tree),
        "MEND_TEST_FAKES": str(tests / "fakes"),
        "MEND_SOURCE": str(HERE.parent.parent),
    }
    command = [sys.executable, str(HERE / f"{test}_test.py"), "-f"]
    return not passes(command, (tree, tests / "fakes"), variables)


def is_seen_by_pytorch(name, original, mutated, script, test, tests, work, python):
    """Whether a test under PyTorch passes over the package, and fails over a copy with the bug."""
    command = [python, "-m", "mend.simulate", "--memory=1GiB", HERE / "real" / f"{script}.py", test]

    def passes_over(tree):
        variables = {"MEND_TEST_TREE": str(tree), "MEND_CACHE_DIR": str(work.parent / "cache")}
        return passes(command, (tree, HERE / "real"), variables)

    if not passes_over(tests / "tree"):
        raise SystemExit(f"{script}.py {test} fails without a bug")
    return not passes_over(with_bug(name, original, mutated, tests, work))


def main():
    tests = Path(sys.argv[1]).resolve() / "tests" / "python"
    bugs = list(MUTANTS)
    unseen = 0
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "copy"
        for name, original, mutated, test in MUTANTS:
            if not is_seen(name, original, mutated, test, tests, copy):
                unseen += 1
                print(f"not seen by {test}_test.py: in {name}, {original!r} as {mutated!r}")
        for python in sys.argv[2:3]:
            bugs += MUTANTS_OF_PYTORCH
            for name, original, mutated, script, test in MUTANTS_OF_PYTORCH:
                if not is_seen_by_pytorch(
                    name, original, mutated, script, test, tests, copy, python
                ):
                    unseen += 1
                    print(f"not seen by {script}.py: in {name}, {original!r} as {mutated!r}")
    print(f"{len(bugs)} mutants, {unseen} not seen")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
