"""Share the processors with other processes: torch's threads spin between operations only while no other process needs them.

libgomp's threads wait for each other by spinning, 300,000 times by default. While another process runs on the processor of a
thread that the others wait for, they spin for nothing, and training beside one busy process falls to a few percent of its speed.
On an idle machine spinning is faster than sleeping. libgomp reads its setting once, when it is loaded; but while it has more
threads than there are processors, it spins at most 100 times. So a pool of threads that only sleep, owned by a thread of Python,
makes all others stop spinning, and the end of that thread makes them spin again. The number of threads of an operation, on which
the last bits of its result depend, stays the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SPINS = 2000
"""Times that threads of the command ``weft`` spin: less than libgomp's 300,000, which is slower also on an idle machine."""
SETTINGS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Environment variables by which users set how threads wait."""
INTERVAL = 0.2
"""Seconds between two measurements of the time that threads wait for a processor."""
BUSY, CALM = 0.1, 0.03
"""Seconds of waiting per second: above the first, other processes need the processors; below the second, none does."""
PATIENCE, MAX_PATIENCE = 5, 300
"""Calm measurements before threads spin again. Doubled each time when that was too early."""
_MAX_THREADS = 1024
_own = False
_watch: Watch | None = None


def limit_spinning() -> None:
    """Make torch's threads spin at most ``SPINS`` times; for programs, before torch is imported. A user's own setting wins."""
    global _own
    if sys.platform == "linux" and "torch" not in sys.modules and not any(name in os.environ for name in SETTINGS):
        os.environ["GOMP_SPINCOUNT"] = str(SPINS)
        _own = True


def divide_threads(processes: int) -> None:
    """Divide the threads among processes that are started next, in their environment. A user's own setting wins."""
    import torch

    if _own:
        os.environ.pop("GOMP_SPINCOUNT", None)  # they limit it themselves
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, torch.get_num_threads() // processes)))


@contextlib.contextmanager
def threads_of_run(recorded: int | None, report: Callable[[str], None]) -> Iterator[None]:
    """A context that uses the number of threads a run was trained with: the last bits of its weights depend on it.

    Where the user has set another number, that is used, and reported.

    Args:
        recorded: Number of threads so far; None = a new run, or unknown.
        report: Called with a message where the number is not the one of this process.
    """
    import torch

    own = number = torch.get_num_threads()
    if recorded is not None and recorded != own and 1 <= recorded <= _MAX_THREADS:
        if user := next((name for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ), None):
            report(
                f"warning: the run was trained with {recorded} threads, but {user} sets {own}: the last bits of its weights can "
                f"differ from those of an uninterrupted run; for the same bits, resume with {user}={recorded}"
            )
        else:
            report(f"using {recorded} threads, as before: the last bits of the weights depend on the number")
            number = recorded
    torch.set_num_threads(number)  # also where it is the same: MKL then uses exactly this number
    try:
        yield
    finally:
        torch.set_num_threads(own)


def share_processors(report: Callable[[str], None] | None = None) -> Watch | None:
    """Watch in the background whether other processes need the processors, and let torch's threads spin only while they do not.

    It applies to the process, and has no effect when called again. Returns the watch; None where there is nothing to choose: with
    a single thread, where the user has set how threads wait, without libgomp or without ``/proc``.

    Args:
        report: Called with a message when other processes first need the processors.
    """
    global _watch
    if _watch is not None and _watch.is_alive():  # not in a fork
        _watch.report = _watch.report or report
        return _watch
    import torch

    threads = torch.get_num_threads()
    if threads == 1 or (not _own and any(name in os.environ for name in SETTINGS)):
        return None
    if run_delay() is None or (start_pool := _libgomp(threads)) is None:
        return None
    _watch = Watch(SpinSwitch(start_pool), report)
    _watch.start()
    return _watch


class SpinSwitch:
    """Whether torch's threads spin. Without spinning, a thread sleeps that owns a pool of threads which do nothing.

    Args:
        start_pool: Starts the pool in the thread that calls it. The pool ends with the thread.
    """

    def __init__(self, start_pool: Callable[[], None]):
        self.start_pool = start_pool
        self._end: Callable[[], None] | None = None

    @property
    def spinning(self) -> bool:
        """Whether threads spin as long as libgomp was told when it was loaded."""
        return self._end is None

    def set(self, spinning: bool) -> None:
        """Switch, and return when it has an effect."""
        if spinning == self.spinning:
            return
        if self._end is not None:
            self._end()
            self._end = None
            return
        ready, ended = threading.Event(), threading.Event()

        def hold() -> None:
            self.start_pool()
            ready.set()
            ended.wait()

        thread = threading.Thread(target=hold, name="weft-sleeping-pool", daemon=True)
        thread.start()
        ready.wait()

        def end() -> None:
            ended.set()
            thread.join()

        self._end = end


class Contention:
    """Decides from the time that threads wait for a processor whether other processes need the processors.

    Args:
        busy: Whether they do at the start.

    Example:
        >>> contention = Contention(busy=False)
        >>> contention.update(0.5), contention.update(0.0)
        (True, True)
        >>> [contention.update(0.0) for _ in range(4)]
        [True, True, True, False]
    """

    def __init__(self, busy: bool):
        self.busy, self.patience, self.calm, self.since = busy, PATIENCE, 0, 0

    def update(self, waited: float) -> bool:
        """Return whether other processes need the processors. ``waited``: seconds of waiting per second, summed over threads."""
        self.since += 1
        if self.busy:
            self.calm = self.calm + 1 if waited < CALM else 0
            if self.calm >= self.patience:
                self.busy, self.since = False, 0
        elif waited > BUSY:
            early = self.since <= 2 * self.patience  # spinning was the cause, or the other process came back
            self.patience = min(2 * self.patience, MAX_PATIENCE) if early else PATIENCE
            self.busy, self.calm = True, 0
        return self.busy


class Watch(threading.Thread):
    """The background thread that measures and switches.

    Args:
        switch: What it switches.
        report: Called once, when other processes first need the processors.
    """

    def __init__(self, switch: SpinSwitch, report: Callable[[str], None] | None = None):
        super().__init__(name="weft-watch", daemon=True)
        self.switch, self.report = switch, report

    def run(self) -> None:
        """Measure and switch until the process ends."""
        before, then = run_delay() or 0.0, time.monotonic()
        contention = Contention(busy=before > BUSY * max(time.thread_time(), time.process_time()))
        while True:
            self.switch.set(not contention.busy)
            if contention.busy and self.report is not None:
                self.report("other processes need the processors: until they are free again, threads sleep where they would spin")
                self.report = None
            time.sleep(INTERVAL)
            if (delay := run_delay()) is None:
                return
            now = time.monotonic()
            contention.update(max(delay - before, 0.0) / (now - then))
            before, then = delay, now


def run_delay() -> float | None:
    """Return the seconds that the threads of this process were runnable and waited for a processor; None where it is unknown."""
    total = 0
    try:
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
                total += int((task / "schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return total / 1e9 or None


def _libgomp(threads: int) -> Callable[[], None] | None:
    """Return a function that starts a pool of idle threads in libgomp: with it there are more threads than processors."""
    import torch

    files = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))
    files += sorted((Path(torch.__file__).parent.parent / "torch.libs").glob("libgomp*.so*"))
    with contextlib.suppress(OSError, AttributeError, IndexError):
        parallel, nothing = ctypes.CDLL(str(files[0])).GOMP_parallel, ctypes.CDLL(None).free
        parallel.argtypes, parallel.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
        number = max(2, len(os.sched_getaffinity(0)) - threads + 2)
        return lambda: parallel(ctypes.cast(nothing, ctypes.c_void_p), None, number, 0)  # every thread calls free(NULL)
    return None
