"""Scopes: names for the steps of a program, with the memory allocated in each. And names for tags
and streams (docs/history.md)."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import _devices, _library, _unused
from ._errors import check

_OF_ALL_THREADS = 1
_OF_TAG, _OF_STREAM = 1, 2  # mend_name_kind

# Names of sleep tags, by their numbers, that the library is told when a thread first has the tag.
_untold: dict[int, str] = {}


class Scope(NamedTuple):
    """Memory allocated in a scope and its inner scopes, in bytes: the fields of mend_scope_info."""

    path: str  # its names from the outermost, as "step/forward"
    live_bytes: int
    own_live_bytes: int
    own_live_blocks: int
    peak_live_bytes: int
    allocations: int
    pool_peak_bytes: int
    pool_reserved_bytes: int


@contextlib.contextmanager
def scope(name: str, *, all_threads: bool = False) -> Iterator[None]:
    """Allocations of this thread inside the `with` count for a scope, inside the one around it.
    scopes() has the sums. A function can be decorated with it. With `all_threads` that holds for
    threads without a scope of their own, too: PyTorch computes gradients in threads of its own."""
    result = _push(name, _OF_ALL_THREADS if all_threads else 0)
    try:
        check(result)
        yield
    finally:
        _pop()


def _push(name: str, flags: int = 0) -> int:
    _unused.note()
    call = _function("mend_scope_push")
    call.argtypes = [ctypes.c_char_p, ctypes.c_uint]
    return call(_encoded(name), flags)


def _pop(*_: object) -> None:
    _function("mend_scope_pop")()


@contextlib.contextmanager
def module_scopes(model: Any, optimizer: Any = None) -> Iterator[None]:
    """While the `with` lasts, allocations of a PyTorch module that this thread calls count for a
    scope of its name, inside the scope of the calling module ("Model/layers.0/attention").
    Allocations of an optimizer step count for "optimizer". Done by hooks of PyTorch 2: two calls of
    the library each time a module is called."""
    stepping: list[str] = []

    def begin(name: str, *, is_step: bool = False) -> None:
        _push(name)
        stepping.extend([name] * is_step)

    def end_step(*_: object) -> None:  # also of one that raised, which PyTorch does not tell
        while stepping:
            _pop(stepping.pop())

    hooks = [model.register_forward_pre_hook(end_step)]
    for path, module in model.named_modules():
        parts = path.split(".")
        name = ".".join(parts[-2:] if parts[-1].isdigit() else parts[-1:]) or type(model).__name__
        hooks.append(module.register_forward_pre_hook(lambda *_, name=name: begin(name)))
        hooks.append(module.register_forward_hook(_pop, always_call=True))
    if optimizer is not None:
        hooks.append(optimizer.register_step_pre_hook(end_step))
        hooks.append(
            optimizer.register_step_pre_hook(lambda *_: begin("optimizer", is_step=True))
        )
        hooks.append(optimizer.register_step_post_hook(end_step))
    try:
        yield
    finally:
        end_step()
        for hook in hooks:
            hook.remove()


def name_tag(tag: int, name: str) -> None:
    """Names a tag for people: owners, out of memory, recordings and prometheus() say `name` in
    place of "tag 7". The last name of a tag counts, and "" removes it. A sleep tag that is a name
    (libmend.sleep_tag) has that from the start."""
    number = _devices.amount_of("tag", tag)
    _name(_OF_TAG, number, name)
    _untold.pop(number, None)


def name_later(number: int, name: str) -> None:
    """The name of a sleep tag, unless the program names it before the tag is used."""
    _untold[number] = name


def tell_name(number: int) -> None:
    """A thread has the sleep tag from now on: once, the library is told its name. If the table is
    full, a tag keeps its number, without a failure."""
    name = _untold.pop(number, None)
    if name is not None:
        _devices.function("mend_set_name")(_OF_TAG, number, name.encode())


def name_stream(stream: object, name: str) -> None:
    """The same of a stream: PyTorch's, CuPy's, or its number. Call it where you make the stream. A
    later stream with the number of a destroyed one has its name, too."""
    _name(_OF_STREAM, _devices.stream_of(stream), name)


def _name(kind: int, number: int, name: str) -> None:
    check(_devices.function("mend_set_name")(kind, number, _encoded(name, may_be_empty=True)))


def _encoded(name: str, *, may_be_empty: bool = False) -> bytes:
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"libmend: the name is no UTF-8: {name!r}") from error
    if not encoded and not may_be_empty:
        raise ValueError("libmend: the name is empty")
    if b"\0" in encoded:
        raise ValueError(f"libmend: the name has a NUL byte: {name!r}")
    return encoded


def scopes(device: object = 0) -> list[Scope]:
    """The scopes in which something was allocated in the device's default pool, each before those
    inside it. The sum of own_live_bytes and of memory outside of scopes is live_bytes of
    stats()."""
    infos = _infos(device)
    names = _paths(infos)
    return [
        Scope(names[info.number], *(getattr(info, field) for field in Scope._fields[1:]))
        for info in infos
    ]


def paths(device: object) -> dict[int, str]:
    """The paths of the scopes of scopes(), by their numbers."""
    return _paths(_infos(device))


def _paths(infos: list[ctypes.Structure]) -> dict[int, str]:
    found: dict[int, str] = {}
    for info in infos:
        name = info.name.decode(errors="replace")
        name = name.replace("\\", "\\\\").replace("/", "\\/")  # as the library writes paths
        found[info.number] = f"{found[info.around]}/{name}" if info.around else name
    return found


def _infos(device: object) -> list[ctypes.Structure]:
    return _devices.listed("mend_get_scopes", "mend_scope_info", _devices.pool(device))


def _function(name: str) -> ctypes._CFuncPtr:
    call = getattr(_library.load("mend"), name)
    call.restype = ctypes.c_int
    return call


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Allocations of this thread inside the `with` are plain memory: each block is a cuMemAlloc of
    its own, for cudaIpcGetMemHandle and older MPI (docs/sharing.md). Other threads are not
    affected. A free of such a block waits for the device."""
    before = _devices.set_option("plain", 1)
    try:
        yield
    finally:
        _devices.set_option("plain", before)
