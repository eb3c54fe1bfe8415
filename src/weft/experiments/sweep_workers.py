"""Trials in processes of their own: ``python -m weft.experiments.sweep_workers`` trains one that it is given on standard input.

A worker ends with its sweep: it stops after the current step, with a checkpoint, when its standard input is closed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from weft.core.io import parse_json

_POLL_SECONDS = 0.1
INTERRUPTED = "interrupted"


class Job(NamedTuple):
    """A trial to train.

    Args:
        recipe: A recipe file, the name of a shipped recipe, or a run folder; or a recipe as text.
        is_text: Whether it is a text.
        overrides: Assignments.
        folder: The run folder.
        plugins: Names of the plug-ins to import.
    """

    recipe: str
    is_text: bool
    overrides: list[str]
    folder: str
    plugins: list[str]


class Worker:
    """A process that trains a trial.

    Args:
        job: The trial.
        threads: Number of threads it may use; 0 = as many as it likes.
    """

    def __init__(self, job: Job, threads: int):
        share = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")} if threads else {}
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._stopped = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "weft.experiments.sweep_workers"],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._errors,
            env={**os.environ, **share},
            start_new_session=True,  # a Ctrl-C at the terminal is handled by the sweep
        )
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write((json.dumps([*job]) + "\n").encode())
            self._process.stdin.flush()

    def stop(self) -> None:
        """Let the trial stop after its current step, with a checkpoint."""
        assert self._process.stdin
        self._stopped = True
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()

    def result(self) -> str | None:
        """Return the message of an error, "" for success, ``INTERRUPTED``, or None while the trial is trained."""
        if self._process.poll() is None:
            return None
        if self._stopped and self._process.returncode == -signal.SIGTERM:  # outside of the training loop
            return INTERRUPTED
        self.stop()
        for file in (self._output, self._errors):
            file.seek(0)
        lines = self._output.read().decode(errors="replace").splitlines()
        errors = self._errors.read()[-10_000:].decode(errors="replace").strip().splitlines()
        for file in (self._output, self._errors):
            file.close()
        if self._process.returncode == 0 and lines:
            return str(parse_json(lines[-1]))
        ended = f"the process ended with code {self._process.returncode}"
        return f"{ended}: {errors[-1]}" if errors else ended


def wait(workers: list[Worker], deadline: float) -> Iterator[tuple[Worker, str]]:
    """Yield workers that are done with their results, once there is one; none after the deadline (of ``time.monotonic``)."""
    while workers and time.monotonic() < deadline:
        done = [(worker, result) for worker in workers if (result := worker.result()) is not None]
        if done:
            yield from done
            return
        time.sleep(_POLL_SECONDS)


def thread_share(workers: int) -> int:
    """Return the number of threads for each of several workers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores, int(limit)) if limit.isdigit() and int(limit) else cores) // workers or 1


# ----------------------------------------------------------------------------------------------------------- the process


def main() -> None:
    """Train the trial that standard input names, and print the message of an error, "" or ``INTERRUPTED`` as JSON."""
    job = Job(*parse_json(sys.stdin.readline()))
    result = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        outcome = _train(job)
    print(json.dumps(outcome), file=result, flush=True)


def _train(job: Job) -> str:
    from weft.learning import Interrupted
    from weft.training.recipes import read_run, read_run_text
    from weft.training.run_folder import RunFolder
    from weft.training.trainer import train

    if "" not in sys.path:
        sys.path.insert(0, "")
    ended = threading.Event()
    try:
        for name in job.plugins:
            importlib.import_module(name.partition(":")[0])
        if job.is_text:
            run = read_run_text(job.recipe, "run.to_yaml()", Path(), job.overrides)
        else:
            run = read_run(job.recipe, job.overrides)
        folder = RunFolder(Path(job.folder))
        threading.Thread(target=_stop_at_end_of_input, args=(ended,), daemon=True).start()
        train(run, folder.path, resume=folder.is_run() or folder.is_incomplete(), plugins=job.plugins)
    except (Interrupted, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:  # of any type: the other trials can still succeed
        return describe(error)
    finally:
        ended.set()
    return ""


def _stop_at_end_of_input(ended: threading.Event) -> None:
    sys.stdin.read()
    if not ended.is_set():
        # the handler of training stops after the step; before and after training, the default one ends the process
        os.kill(os.getpid(), signal.SIGTERM)


def describe(error: Any) -> str:
    """Return the message of an error on one line; with its type, unless it is an expected one."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError | ArithmeticError | OSError) else f"{type(error).__name__}: {text}"


if __name__ == "__main__":
    main()
