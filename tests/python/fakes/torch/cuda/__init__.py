"""torch.cuda: two devices."""

import threading

_initialized = False
_queued = []
_here = threading.local()


def is_initialized():
    return _initialized


def _lazy_init():
    global _initialized
    for call in _queued:
        call()
    _initialized = True


def _lazy_call(call):
    call() if _initialized else _queued.append(call)


def device_count():
    return 2


def current_device():
    return 0


class device:
    def __init__(self, index):
        self.index = index

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


from .memory import *  # noqa: E402,F401,F403
from . import memory  # noqa: E402,F401
