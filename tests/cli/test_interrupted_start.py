"""Ctrl-C right after a command was started: exit code 130, no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

CODE = """
import runpy, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["weft", "predict", "nowhere"]
runpy.run_module("weft", run_name="__main__")
"""


def _default_interrupts() -> None:
    """A shell ignores SIGINT in its background jobs, and processes inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("module", "printed"), [("typer", ""), ("weft.cli.commands.train", ""), ("weft.inference.load", "interrupted\n")]
)
def test_an_interrupt_while_modules_are_imported_is_quiet(module: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(module=module)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=_default_interrupts,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", printed)
