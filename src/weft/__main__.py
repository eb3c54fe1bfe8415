"""``python -m weft`` and the command ``weft``."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Run a command. Ctrl-C exits with code 130 and no traceback, also while modules are imported."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the shell ignores it
        signal.signal(signal.SIGINT, interrupt)
    from weft.training.threads import limit_spinning

    limit_spinning()
    from weft.cli.app import main as run

    try:
        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handle SIGINT: raise KeyboardInterrupt, or exit at once while a module is imported.

    Modules that are imported may catch the exception, and then continue half imported.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
