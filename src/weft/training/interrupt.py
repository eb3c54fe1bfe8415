"""Stop training on Ctrl-C or SIGTERM: the first signal after the current step, the second at once."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from weft.training.display import Display


class StopRequest:
    """Whether a signal has requested that training stops.

    Args:
        display: Where the request is acknowledged.
        several: Whether several processes train together.

    Attributes:
        requested: Whether a signal was received.
    """

    def __init__(self, display: Display, several: bool = False):
        self.display, self.several, self.requested = display, several, False

    def __call__(self, number: int, frame: Any) -> None:
        """Handle a signal. Raises KeyboardInterrupt on the second one."""
        # torchrun forwards its signals, and terminates the other processes when one has stopped: that is no second request
        if self.requested and not self.several:
            raise KeyboardInterrupt
        self.requested = True
        if self.several and number == signal.SIGTERM:
            return  # another process has failed, or a job scheduler has stopped all of them
        with contextlib.suppress(RuntimeError):  # the signal came while another line was being written
            self.display.message("stopping after this step and saving a checkpoint (press Ctrl-C again to stop at once)")

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM within the context. Has no effect outside the main thread."""
        before: dict[int, Any] = {}
        with contextlib.suppress(ValueError):
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, self)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
