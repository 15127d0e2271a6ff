"""Code of torch.compile runs without the mode that looks at each operator: Dynamo's guards see the
mode, so it would compile again at every call."""

from __future__ import annotations

import functools
import types

import torch
from torch.utils import _python_dispatch as dispatch


def leave(mode) -> None:
    """From now on compiled functions run without this mode, where it is the only one."""
    compile_ = torch.compile

    def without_mode(compiled):
        @functools.wraps(compiled)
        def call(*arguments, **named):
            stack = dispatch._get_current_dispatch_mode_stack()
            if len(stack) != 1 or stack[0] is not mode:
                return compiled(*arguments, **named)
            with dispatch._pop_mode_temporarily():
                return compiled(*arguments, **named)

        return call

    def patch_once() -> None:
        from torch._dynamo.eval_frame import _TorchDynamoContext as context

        if hasattr(context, "_made_by_libmend"):
            return
        context._made_by_libmend = make = context.__call__

        def made(self, function):
            found = make(self, function)
            return without_mode(found) if isinstance(found, types.FunctionType) else found

        context.__call__ = made

    @functools.wraps(compile_)
    def patched(*arguments, **named):
        patch_once()
        return compile_(*arguments, **named)

    torch.compile = patched
