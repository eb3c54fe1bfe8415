"""``weft`` for tests: within this process, or as one of its own that is forked from a server which has imported torch already."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

import pytest

from weft.cli.app import main
from weft.learning import digest

TINY = """\
seed: 3
device: cpu
data: {type: dates, train: 60, valid: 8, test: 8}
structure:
  type: seq2seq
  dim: 8
  encoder: {type: transformer, layers: 1, layer: {mixer: {type: multihead, heads: 2}}}
  decoder: {type: transformer, layers: 1}
objective: next-token
learning: {type: gradient, steps: 4, batch_tokens: 300, save_every: 2, log_every: 1}
evaluate: {search: {type: greedy, max_length: 12}, metrics: [exact-match]}
"""


@dataclass(frozen=True)
class Answer:
    """The output of a command and its exit code."""

    code: int
    out: str
    err: str


def weft(*arguments: str | Path, given: bytes = b"") -> Answer:
    """Run a command here. No command ever shows a traceback."""
    out, err = io.StringIO(), io.StringIO()
    heard = (contextlib.redirect_stdout(out), contextlib.redirect_stderr(err))
    with heard[0], heard[1], standard_input(given), pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    code = ended.value.code
    assert code is None or isinstance(code, int), code
    assert "Traceback" not in err.getvalue()
    return Answer(code or 0, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def standard_input(given: bytes) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(given))
    try:
        yield
    finally:
        sys.stdin = before


def state(run: Path) -> str:
    """The SHA-256 of the final weights; before the end, of weights and optimizer in the last checkpoint."""
    final = run / "model.safetensors"
    return digest(final if final.exists() else sorted((run / "checkpoints").glob("step-*"))[-1])


# ------------------------------------------------------------------------------------------------------------- processes

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["weft.cli.app", "weft.training.dry_run", "weft.cli.demo_run", "torch._dynamo", "matplotlib.pyplot"])


class Forked:
    """A running command, with what ``subprocess.Popen`` has.

    Args:
        arguments: Those of ``weft``.
        output: A file or a descriptor for its output.
        errors: A file for standard error; None = as ``output``.
        given: Standard input.
        folder: Where it runs.
        path: A folder with modules and installed packages.
    """

    def __init__(
        self,
        arguments: list[str],
        output: Path | int,
        errors: Path | None = None,
        given: bytes = b"",
        folder: Path | None = None,
        path: Path | None = None,
    ):
        out = output if isinstance(output, int) else os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        err = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if errors else out
        given_to = (arguments, _Descriptor(out), _Descriptor(err), given, folder, path)
        self._process = FORKS.Process(target=_run, args=given_to, daemon=True)
        self._process.start()
        for number in {out, err}:
            os.close(number)
        assert self._process.pid
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int:
        self._process.join(300)
        if self._process.exitcode is None:
            self._process.kill()
            raise TimeoutError("a command did not end within 300 s")
        return self._process.exitcode

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)


def forked(*arguments: str | Path, output_folder: Path, **how: Any) -> Answer:
    """Run a command in a process of its own to its end; ``output_folder`` holds the files of its output."""
    out, err = output_folder / "out.txt", output_folder / "err.txt"
    for file in (out, err):
        file.unlink(missing_ok=True)
    code = Forked([str(a) for a in arguments], out, err, **how).wait()
    answer = Answer(code, out.read_text(), err.read_text())
    assert "Traceback" not in answer.err, answer.err
    return answer


class _Descriptor:
    """A file descriptor that finds its way into another process."""

    def __init__(self, number: int):
        self.number = number

    def __getstate__(self) -> Any:
        return {"there": DupFd(self.number)}

    def __setstate__(self, state: Any) -> None:
        self.number = state["there"].detach()


def _run(arguments: list[str], out: _Descriptor, err: _Descriptor, given: bytes, folder: Path | None, path: Path | None) -> None:
    import torch

    torch.set_num_threads(1)
    os.dup2(out.number, 1)
    os.dup2(err.number, 2)
    for number in (out.number, err.number):
        os.close(number)
    sys.stdin = io.TextIOWrapper(io.BytesIO(given))
    if folder:
        os.chdir(folder)
    if path:
        sys.path.insert(0, str(path))
    main(arguments)
