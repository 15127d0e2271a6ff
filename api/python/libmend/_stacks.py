"""Stacks: the line of the program that allocates a block (docs/history.md)."""

from __future__ import annotations

import atexit
import ctypes
import functools
import glob
import os
import sys
import threading
from types import FrameType

from . import _devices
from ._errors import check
from ._warning import warn_user

_OF_STACK = 3  # mend_name_kind
_MOST = 65534
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen")
_OWN = os.path.dirname(__file__) + os.sep
# Frames of their own, before Python 3.12, of what stands in a function's line.
_PARTS_OF_LINES = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
_CALLS_OF_MODULES = ("/torch/nn/modules/module.py", "/torch/_dynamo/")

_numbers: dict[str, int] = {}  # by name
# By addresses of code objects, and instructions: the number, and these objects, which live on.
_places: dict[tuple, tuple[int, list]] = {}
_users: dict[str, bool | None] = {}  # by file: whether it is the program's. None: skipped
_sizes: dict[int, tuple[int, int, int, int]] = {}  # by number: see _note
_growing: dict[int, int] = {}
_lock = threading.Lock()


def record_stacks(every_bytes: int | str = 1 << 20) -> None:
    """From now on each block of at least so many bytes has the line of Python that allocates it. Of
    smaller blocks, one in each so many bytes of a thread has it. owners(), report(), leaks(), out
    of memory, recordings and snapshots name the line, as "model.py:41 forward from train.py:80 >
    linear (functional.py:12)": the innermost line of the program, its caller, past the modules
    around it, and the line of a library that it calls. 0 ends it. An allocation that is asked about
    takes some microseconds, and the interpreter's lock."""
    least = _devices.size_of("every_bytes", every_bytes)
    source = ctypes.cast(_source, ctypes.c_void_p) if least > 0 else None
    check(_devices.function("mend_stack_set_source")(source, None, least))
    if least > 0:
        atexit.register(record_stacks, 0)  # no thread may call Python when it ends


def record_as_asked() -> None:
    """record_stacks() in programs that cannot be edited: MEND_STACKS=1MiB in the environment. A
    wrong value is told, and no lines are recorded."""
    asked = os.environ.get("MEND_STACKS", "")
    least = _devices.bytes_of(asked or "0")
    if least < 0:
        warn_user(
            f"libmend: MEND_STACKS is {asked!r}; it takes a size as 1MiB, or 0. No lines are"
            " recorded"
        )
    if least > 0:
        record_stacks(least)


def _number(_context: object, size_bytes: int) -> int:
    """The number of the calling thread's stack, for the library."""
    frame: FrameType | None = sys._getframe().f_back
    inner = None
    while frame is not None:
        is_user = is_of_program(frame)
        if is_user is not None:
            inner = inner or frame
            if is_user:
                break
        frame = frame.f_back
    line = frame or inner
    if line is None:
        return 0  # a thread of C++
    caller = caller_of(line) or line
    # Hashing a code object, and finding a line in it, takes as long as all of its instructions.
    place = tuple((id(one.f_code), one.f_lasti) for one in (line, caller, inner))
    found = _places.get(place)
    number = found[0] if found else _add((line, caller, inner), place)
    _note(number, size_bytes)
    return number


def caller_of(line: FrameType) -> FrameType | None:
    """The next line of the program that leads to this one, and is in no module's forward: it tells
    training from validation."""
    frame, caller = line.f_back, None
    while frame is not None:
        is_user = is_of_program(frame)
        if is_user is not None:
            file = frame.f_code.co_filename
            if caller is not None and not any(part in file for part in _CALLS_OF_MODULES):
                break
            caller = frame if is_user else None
        frame = frame.f_back
    return caller


def _note(number: int, size_bytes: int) -> None:
    """Keeps the largest request of a stack in each doubling of their number."""
    count, most, before, first = _sizes.get(number, (0, 0, 0, 0))
    count, most = count + 1, max(most, size_bytes)
    if count >= 16 and count & (count - 1) == 0:
        most, before, first = 0, most, before
        if first * 3 <= before * 2 and first > 0:
            _growing[number] = before - first
        else:
            _growing.pop(number, None)
    _sizes[number] = (count, most, before, first)


def has_recorded() -> bool:
    """Whether any stack was asked for."""
    return bool(_numbers)


def growing() -> dict[str, int]:
    """The stacks whose requests grow by half or more each time their number doubles, because blocks
    are replaced by larger ones. By name, with the bytes of the last doubling."""
    with _lock:
        names = {number: name for name, number in _numbers.items()}
    return {names[n]: grown for n, grown in list(_growing.items()) if n in names}


def is_of_program(frame: FrameType) -> bool | None:
    """Whether the frame is of the program's own code. None: it is of no line to be named."""
    code = frame.f_code
    if code.co_name in _PARTS_OF_LINES:
        return None
    file = code.co_filename
    return _users[file] if file in _users else _learn(file)


def is_library(file: str) -> bool:
    """Whether an installer has put the file where it is."""
    if any(part in file for part in _LIBRARIES):
        return True
    folder, name = os.path.split(file)
    while name:
        if name in installed_in(folder):
            return True
        folder, name = os.path.split(folder)
    return False


@functools.cache
def installed_in(folder: str) -> set[str]:
    """The packages and modules that an installer has put into a folder, as `pip --target` does."""
    names = set()
    for record in glob.glob(glob.escape(folder) + "/*.dist-info/RECORD"):
        with open(record, encoding="utf-8", errors="replace") as lines:
            names.update(line.split(",")[0].split("/")[0] for line in lines)
    return names


def _learn(file: str) -> bool | None:
    _users[file] = None if _is_passed(file) else not is_library(file)
    return _users[file]


def _is_passed(file: str) -> bool:
    """For code of torch.compile the caller is named. Inductor names a file by the hash of its text,
    and its folder by two letters of that."""
    folder, name = os.path.split(file)
    is_hash = len(name) > 50 and name[0] == "c" and os.path.basename(folder) == name[1:3]
    return is_hash or file.startswith((_OWN, "<eval_with_key>"))


def _add(frames: tuple, place: tuple) -> int:
    name = _label(*((one.f_code, one.f_lineno) for one in frames))
    with _lock:
        number = _numbers.get(name, min(len(_numbers) + 1, _MOST))
        if number < _MOST:
            if name not in _numbers:
                text = name.encode(errors="replace")
                _devices.function("mend_set_name")(_OF_STACK, number, text)
            _numbers[name] = number
            _places[place] = number, [one.f_code for one in frames]
    return number


def _label(line, caller, inner) -> str:
    """As libmend report names the stacks of PyTorch's snapshots."""
    (code, number), (inner_code, inner_number) = line, inner
    name = "" if code.co_name == "<module>" else f" {code.co_name:.40}"
    label = f"{os.path.basename(code.co_filename):.60}:{number}{name}"
    if caller[0].co_filename != code.co_filename:
        label += f" from {os.path.basename(caller[0].co_filename):.40}:{caller[1]}"
    elif caller[1] != number:
        label += f" from line {caller[1]}"
    if line != inner:
        file = os.path.basename(inner_code.co_filename)
        label += f" > {inner_code.co_name:.40} ({file:.40}:{inner_number})"
    return label


_source = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64)(_number)
