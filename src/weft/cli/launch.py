"""Start the processes of ``weft train --processes``: torch.distributed's elastic launcher, with the messages of one process."""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from weft.cli.console import FAILURE, INTERRUPTED, message

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

STOP_SECONDS = 600
"""Time that processes have to finish their step and to save a checkpoint after a signal."""
_LINES = 20
"""Lines of a failed process' output that are shown."""


@dataclass(frozen=True)
class Group:
    """How many processes train together, and where they meet.

    Args:
        processes: Number of processes on this host.
        nodes: Number of hosts; the command runs on each of them.
        rendezvous: ``HOST:PORT`` of one of the hosts, where several hosts meet.
    """

    processes: int = 1
    nodes: int = 1
    rendezvous: str | None = None

    def needs_launcher(self) -> bool:
        """Return whether processes have to be started. Raises ValueError for options that do not fit together."""
        if self.nodes > 1 and self.rendezvous is None:
            raise ValueError(
                f"--nodes {self.nodes} needs --rendezvous HOST:PORT, the same address of one of the hosts on all of them"
            )
        if self.rendezvous is not None and not re.fullmatch(r"\S+:\d{1,5}", self.rendezvous):
            raise ValueError(f"--rendezvous is HOST:PORT, such as 10.0.0.1:29400, not {self.rendezvous!r}")
        if self.nodes == 1 and self.rendezvous is not None:
            raise ValueError(f"--rendezvous {self.rendezvous} is for several hosts; add --nodes N")
        world = self.processes * self.nodes
        if "WORLD_SIZE" not in os.environ:
            return world > 1
        if world > 1 and int(os.environ["WORLD_SIZE"]) != world:
            raise ValueError(
                f"torchrun has started {os.environ['WORLD_SIZE']} processes, but --processes and --nodes ask for {world}; "
                "leave out one of the two"
            )
        return False

    def arguments(self) -> list[str]:
        """The options that start the same group."""
        found = ["--processes", str(self.processes)] if self.processes > 1 else []
        return [*found, "--nodes", str(self.nodes), "--rendezvous", str(self.rendezvous)] if self.nodes > 1 else found


def launch(group: Group, arguments: list[str], folder: Path, imports: list[str]) -> None:
    """Run ``weft`` with these arguments in every process of the group, and wait for all of them.

    Exits with the code and the message of the process that failed first; an interruption exits like that of one process.

    Args:
        group: The processes.
        arguments: Command and arguments.
        folder: Run folder.
        imports: Options that import the plug-ins, for the command that resumes.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    resume = shlex.join(["weft", "train", str(folder), "--resume", *group.arguments(), *imports])
    before = _children()
    with tempfile.TemporaryDirectory(prefix="weft-processes-") as logs:
        try:
            _launch_elastic(group, arguments, logs)
        except SignalException:
            raise typer.Exit(INTERRUPTED) from None  # the first process has printed how to resume
        except ChildFailedError as error:
            raise typer.Exit(_report(error.failures, Path(logs), folder, resume)) from None
        finally:
            for pid in _children() - before:  # after a second signal, the launcher leaves them
                os.kill(pid, signal.SIGKILL)


def _launch_elastic(group: Group, arguments: list[str], logs: str) -> None:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from weft.training.threads import divide_threads

    logging.disable(logging.ERROR)  # the launcher reports every signal and failure in several records
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # every process warns of what weft has asked for
    divide_threads(group.processes)
    config = LaunchConfig(
        min_nodes=group.nodes,
        max_nodes=group.nodes,
        nproc_per_node=group.processes,
        run_id="weft" if group.nodes > 1 else uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint=group.rendezvous or "localhost:0",
        max_restarts=0,
        shutdown_timeout=STOP_SECONDS,
        logs_specs=DefaultLogsSpecs(logs, redirects=dict.fromkeys(range(1, group.processes), Std.ALL)),
    )
    elastic_launch(config, sys.executable)("-m", "weft", *arguments)


def _children() -> set[int]:
    import psutil

    return {child.pid for child in psutil.Process().children()}


def _report(failures: dict[int, ProcessFailure], logs: Path, folder: Path, resume: str) -> int:
    """Print which process failed and how to resume. Returns the exit code."""
    from weft.training.run_folder import RunFolder

    stopped = -signal.SIGTERM  # by the launcher, after another one has failed
    rank, failure = min(failures.items(), key=lambda item: (item[1].exitcode == stopped, item[1].exitcode >= 0, item[0]))
    if failure.exitcode >= 0 and rank == 0:
        return failure.exitcode  # it has printed why
    files = sorted(logs.glob(f"**/{failure.local_rank}/std*.log"))
    output = "".join(file.read_text(encoding="utf-8", errors="replace") for file in files).splitlines()[-_LINES:]
    if failure.exitcode < 0:
        ended = f"process {rank} was killed by {signal.Signals(-failure.exitcode).name}"
    else:
        ended = f"process {rank} has failed with exit code {failure.exitcode}"
    way_out = f". Resume from the last checkpoint with: {resume}" if RunFolder(folder).is_run() else ""
    message("\n".join([*output, f"error: {ended}, so the others have been stopped{way_out}"]))
    return failure.exitcode if failure.exitcode > 0 else FAILURE
