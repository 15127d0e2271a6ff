"""Failures of the library, as exceptions with the library's messages."""

from __future__ import annotations

import ctypes
import re

from . import _library, _structures

OK = 0
OUT_OF_MEMORY = 2
DRIVER_ERROR = 8


class Error(RuntimeError):
    """A call of Mend failed. `result` is its code, `name` the code's name. `driver_status`,
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
    """The device or the limit has too little memory for the request. The text is the report."""


# As programs know them, in tracebacks too.
Error.__module__ = OutOfMemoryError.__module__ = "libmend"


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


# Python's names of the functions in messages of the library.
_FUNCTIONS = {
    "mend_sleep": "libmend.sleep",
    "mend_wake": "libmend.wake",
    "mend_read_backup": "get_cpu_backup",
    "mend_trim": "libmend.trim",
    "mend_compact": "libmend.compact",
    "mend_get_available": "libmend.available",
    "mend_set_limit": "libmend.set_limit",
    "mend_scope_push": "libmend.scope",
    "mend_get_scopes": "libmend.scopes",
    "mend_get_owners": "libmend.owners",
    "mend_set_name": "libmend.name_tag",
    "mend_stack_set_source": "libmend.record_stacks",
    "mend_get_regions": "libmend.regions",
    "mend_history_start": "libmend.keep_history",
    "mend_history_read": "libmend.history",
    "mend_range_create": "GrowingTensor",
    "mend_range_commit": "GrowingTensor.commit",
    "mend_range_decommit": "GrowingTensor.decommit",
    "mend_range_record_stream": "GrowingTensor.record_stream",
}
# Options and values that MEND_CONF spells otherwise.
_VALUES = {"shareable = MEND_SHAREABLE_FABRIC": "shareable:fabric"}
_BACKUP = re.compile(r"\bMEND_(?:BACKUP_|STAY_)?(DEFAULT|HOST|FILE|DISCARD|RESIDENT)\b")


def in_words_of_python(message: str) -> str:
    """A message of the library with the names that Python has for functions and options: a pool is
    configured by MEND_CONF."""
    for value, key in _VALUES.items():
        message = message.replace(f"mend_pool_config.{value}", f"{key} of MEND_CONF")
    message = re.sub(r"\bmend_(?:range|sleep)_options\.|\bmend_sleep_rule\.", "", message)
    message = re.sub(
        r"\bmend_pool_config\.(\w+?)(?:_bytes|_percent)?\b",
        r"\1 of MEND_CONF",
        message,
    )
    message = re.sub(_BACKUP, lambda backup: f'"{backup[1].lower()}"', message)
    message = message.replace(" is NULL", " is None")
    return re.sub(r"\bmend_\w+", lambda name: _FUNCTIONS.get(name[0], name[0]), message)


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
    library.mend_get_last_error(ctypes.byref(last))
    kind = OutOfMemoryError if result == OUT_OF_MEMORY else Error
    if last.result != result:  # the allocator of the program failed, without a message
        return kind(name, result, name)
    return kind(
        f"{name}: {in_words_of_python(_text(last.message))}",
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
