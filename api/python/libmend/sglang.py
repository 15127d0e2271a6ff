"""SGLang over Mend. SGLang loads this as a plug-in (entry point group sglang.srt.plugins) in each
of its processes. Its release of memory is torch_memory_saver's interface
(libmend.torch.memory_saver). This module is for several GPUs. MEND_SGLANG=0: nothing is changed.
docs/frameworks/README.md"""

from __future__ import annotations

import contextlib
import functools
import os
from types import ModuleType

from . import _later

_PARTS = "sglang.srt.distributed.device_communicators."


def register() -> None:
    """SGLang calls this in each process. Does nothing unless Mend is on."""
    from . import torch as _torch

    if os.environ.get("MEND_SGLANG", "1") != "0" and _torch.is_enabled():
        _later.when_imported(_PARTS + "custom_all_reduce", _later.copy_what_graphs_reduce)
        _later.when_imported(_PARTS + "custom_all_reduce_v2", _copy_in_second_version)


def _copy_in_second_version(module: ModuleType) -> None:
    """CustomAllReduceV2, by version: registers tensors of graphs by cudaIpcGetMemHandle, which
    takes no virtual memory, or lets other processes map its chunks without Mend's knowledge. After
    a sleep or a move they would read old contents. So it copies, as it does where
    SGLANG_MEMORY_SAVER_CUDA_GRAPH=1."""
    theirs = getattr(module, "CustomAllReduceV2", None)
    if theirs is None or hasattr(theirs.__init__, "__wrapped__"):
        return
    begin = theirs.__init__

    @functools.wraps(begin)
    def __init__(self, *arguments, **options):
        begin(self, *arguments, **options)
        if hasattr(self, "_is_graph_mode_supported"):
            self._is_graph_mode_supported = False
        elif hasattr(self, "tms_cudagraph"):
            self.tms_cudagraph = True
        elif hasattr(self, "_all_reduce"):  # the first versions know no such mode
            self.capture = contextlib.nullcontext
            self.custom_all_reduce = self._all_reduce

    theirs.__init__ = __init__
