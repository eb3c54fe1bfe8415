"""Registration of commands by plug-ins."""

from __future__ import annotations

import pytest

from weft.cli.options import command
from weft.cli.plugins import COMMANDS, register_command


@command
def version() -> None:
    """Print the version."""


@pytest.mark.parametrize("name", ["", "--json", "two words", "a\x1b[31m", "line\n", "Upper", "a/b", "a" * 51])
def test_a_malformed_name_of_a_command_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a command; use at most 50 lower-case letters"):
        register_command(version, name)
    assert name not in COMMANDS
