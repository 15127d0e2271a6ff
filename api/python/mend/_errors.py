"""Failures of the library, as exceptions with the library's messages."""

from __future__ import annotations

import ctypes

from . import _library, _structures

OK = 0
OUT_OF_MEMORY = 2
DRIVER_ERROR = 8


class Error(RuntimeError):
    """A call of Mend failed. `result` is its code, `name` the code's name; `driver_status`,
    `driver_name` and `driver_call` describe the driver call that failed, if one did."""

    def __init__(
        self,
        message: str,
        result: int = 0,
        name: str = "",
        driver_status: int = 0,
        driver_name: str = "",
        driver_call: str = "",
    ) -> None:
        super().__init__(message)
        self.result = result
        self.name = name
        self.driver_status = driver_status
        self.driver_name = driver_name
        self.driver_call = driver_call


class OutOfMemoryError(Error, MemoryError):
    """The device, or the pool's limit, has no room for the request; the text is the report."""


# As programs know them, in tracebacks too.
Error.__module__ = OutOfMemoryError.__module__ = "mend"


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def name_of(result: int) -> str:
    """The name of a mend_result: "MEND_ERROR_OUT_OF_MEMORY"."""
    library = _library.load("mend")
    library.mend_result_name.restype = ctypes.c_char_p
    return _text(library.mend_result_name(result))


def error_of(result: int) -> Error:
    """The exception for a result that a call of this thread has just returned."""
    library = _library.load("mend")
    name = name_of(result)
    last = _structures.made("mend_error")
    library.mend_last_error(ctypes.byref(last))
    kind = OutOfMemoryError if result == OUT_OF_MEMORY else Error
    if last.result != result:  # the allocator of the program failed, without a message
        return kind(name, result, name)
    return kind(
        f"{name}: {_text(last.message)}",
        result,
        name,
        last.driver_status,
        _text(last.driver_name),
        _text(last.driver_call),
    )


def error_named(name: str, why: str) -> Error:
    """The exception for a result that Python itself found."""
    return Error(f"{name}: {why}", _structures.results()[name], name)


def check(result: int) -> None:
    """Raises the exception for a result that is not success."""
    if result != OK:
        raise error_of(result)
