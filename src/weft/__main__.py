"""``python -m weft`` and the command ``weft``."""

from __future__ import annotations

import os
import signal
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run a command. Ctrl-C exits with code 130 and no traceback, also while modules are imported."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not where the shell ignores it
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    from weft.training.threads import limit_spinning

    limit_spinning()
    from weft.cli.app import main as run

    signal.signal(signal.SIGINT, before)
    try:
        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
