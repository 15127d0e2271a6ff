"""Mend's modules that replace other packages with MEND_TORCH=1. Those packages hook cudaMalloc,
which PyTorch does not call then, and would silently release no memory."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys

_NAMES = {"torch_memory_saver": "libmend.torch.memory_saver"}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name not in _NAMES:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin="libmend.torch", is_package=True)

    def create_module(self, spec):
        return _made(spec.name)

    def exec_module(self, module):
        pass


def _made(name: str):
    """Mend's module. Where the other package is installed too, it has that one's parts and place:
    programs look beside it for the library that they preload, which does nothing then."""
    module = importlib.import_module(_NAMES[name])
    other = importlib.machinery.PathFinder.find_spec(name)
    module.__path__ = list((other and other.submodule_search_locations) or [])
    module.__file__ = (other and other.origin) or module.__file__
    return module


def install() -> None:
    """From now on these names import Mend's modules, also during an import of the other one that
    has led here. MEND_TORCH_MEMORY_SAVER=0: the others."""
    if os.environ.get("MEND_TORCH_MEMORY_SAVER", "1") == "0":
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for name in _NAMES:
        if name in sys.modules:
            sys.modules[name] = _made(name)
