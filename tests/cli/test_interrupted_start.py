"""Ctrl-C right after a command was started: exit code 130, no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from weft.__main__ import interrupt

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


SWALLOWS = """
import signal
try:
    signal.raise_signal(signal.SIGINT)
except BaseException:
    pass
"""


def test_a_module_cannot_swallow_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "swallows.py").write_text(SWALLOWS)
    done = subprocess.run(
        [sys.executable, "-m", "weft", "check", "dates", "--import", "swallows"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        preexec_fn=_default_interrupts,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_outside_of_imports_can_be_handled() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, sys._getframe())


@pytest.mark.parametrize(("module", "printed"), [("typer", ""), ("weft.cli.commands.train", ""), ("weft.inference.load", "")])
def test_an_interrupt_while_modules_are_imported_is_quiet(module: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(module=module)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=_default_interrupts,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", printed)
