"""SGLang over Mend. SGLang loads this as a plug-in (entry point group sglang.srt.plugins) in each
of its processes. Its release of memory is torch_memory_saver's interface (mend.torch.memory_saver);
here is what several GPUs need. MEND_SGLANG=0: nothing is changed. docs/frameworks/README.md"""

from __future__ import annotations

import os

from . import _later


def register() -> None:
    """SGLang calls this in each process. Does nothing unless Mend is on."""
    from . import torch as _torch

    if os.environ.get("MEND_SGLANG", "1") != "0" and _torch.is_enabled():
        _later.when_imported(
            "sglang.srt.distributed.device_communicators.custom_all_reduce",
            _later.copy_what_graphs_reduce,
        )
