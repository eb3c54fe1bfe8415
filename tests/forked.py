"""``weft`` as a process of its own, without the seconds that importing torch takes: forked from a server that has it already."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["weft.cli", "weft.run", "weft.check", "weft.train", "weft.demo", "benchmarks.gan"])


class Forked:
    """A running command, with what ``subprocess.Popen`` has. Its output goes into a file, or a pipe's end.

    Args:
        arguments: Those of ``weft``.
        output: A file, or a file descriptor: standard output and error.
        given: Standard input.
        folder: Where it runs.
    """

    def __init__(self, arguments: list[str], output: Path | int, given: bytes = b"", folder: Path | None = None):
        self._process = FORKS.Process(target=_run, args=(arguments, output, given, folder), daemon=True)
        if isinstance(output, int):
            self._process = FORKS.Process(target=_run, args=(arguments, _Descriptor(output), given, folder), daemon=True)
        self._process.start()
        assert self._process.pid
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int:
        self._process.join(120)
        if self._process.exitcode is None:
            self._process.kill()
            raise TimeoutError("a command did not end within 120 s")
        return self._process.exitcode

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)


class _Descriptor:
    """A file descriptor that survives the way into another process."""

    def __init__(self, number: int):
        self.number = number

    def __getstate__(self) -> Any:
        from multiprocessing.reduction import DupFd

        return {"there": DupFd(self.number)}

    def __setstate__(self, state: Any) -> None:
        self.number = state["there"].detach()


def _run(arguments: list[str], output: Any, given: bytes, folder: Path | None) -> None:
    import torch

    from weft.cli import main

    torch.set_num_threads(1)
    number = output.number if isinstance(output, _Descriptor) else os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(number, 1)
    os.dup2(number, 2)
    os.close(number)
    sys.stdin = io.TextIOWrapper(io.BytesIO(given))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if folder:
        os.chdir(folder)
    main(arguments)
