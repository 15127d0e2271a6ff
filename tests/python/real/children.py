"""Work in a process of its own, forked from this one: slow imports are made once. CUDA must not
have been used before."""

import contextlib
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass


@dataclass
class Outcome:
    """The result of work in a child."""

    answer: object  # what it returned; None: nothing
    status: int  # 0: it ended as it should
    output: str  # what it printed
    log: str  # the end of what it printed as errors
    is_late: bool
    seconds: float


def _work(work, writing, output, log):
    os.setpgid(0, 0)
    os.dup2(output.fileno(), 1)
    os.dup2(log.fileno(), 2)
    status = 1
    try:
        text = json.dumps(work()).encode()
        while text:
            text = text[os.write(writing, text) :]
        status = 0
    except SystemExit as end:
        status = 1 if end.code else 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            # Python's buffered output. The interpreter is not ended as usual.
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        os._exit(status)


def _read_until(reading, deadline):
    """All text written before the deadline. None: the writer did not end."""
    text = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return None
        part = os.read(reading, 1 << 16)
        if not part:
            return text
        text += part


def run(work, limit_s=600.0):
    """The outcome of work(), which may take so long and returns something that JSON knows."""
    start = time.monotonic()
    sys.stdout.flush()
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            os.close(reading)
            _work(work, writing, output, log)
        os.close(writing)
        text = _read_until(reading, start + limit_s)
        os.close(reading)
        if text is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        output.seek(0)
        log.seek(0)
        printed, errors = (file.read().decode(errors="replace") for file in (output, log))
    return Outcome(
        answer=json.loads(text) if text else None,
        status=status,
        output=printed,
        log=errors[-4000:],
        is_late=text is None,
        seconds=round(time.monotonic() - start, 2),
    )
