"""Changes to modules of other packages, made where these are imported, and not before: an engine's
plug-in must not import its parts early."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import inspect
import sys
from types import ModuleType
from typing import Callable

Change = Callable[[ModuleType], None]


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self.changes: dict[str, Change] = {}

    def find_spec(self, name, path=None, target=None):
        change = self.changes.pop(name, None)  # so that the search below passes by
        spec = importlib.util.find_spec(name) if change is not None else None
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                change(module)

            spec.loader.exec_module = exec_module
        return spec


_finder = _Finder()


def when_imported(name: str, change: Change) -> None:
    """Calls change(module) now, if the module is imported, or else at the end of its import."""
    if name in sys.modules:
        change(sys.modules[name])
        return
    _finder.changes[name] = change
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def copy_what_graphs_reduce(module: ModuleType) -> None:
    """Engines' custom all-reduce registers the tensors of a graph by cudaIpcGetMemHandle, which
    takes no virtual memory, so captures would fail with more than one GPU. Without that it copies
    it to a buffer of its own, as it does outside of graphs."""
    theirs = getattr(getattr(module, "CustomAllreduce", None), "all_reduce", None)
    if theirs is None or hasattr(theirs, "__wrapped__"):
        return
    if "registered" not in inspect.signature(theirs).parameters:
        return

    @functools.wraps(theirs)
    def all_reduce(self, *arguments, **options):
        return theirs(self, *arguments, **{**options, "registered": False})

    module.CustomAllreduce.all_reduce = all_reduce
