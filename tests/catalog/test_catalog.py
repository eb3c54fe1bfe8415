"""Every registered block, put through the checks of its slot."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from weft import slots
from weft.catalog import CATALOG

from . import bench, checks

BROKEN = bench.fill_catalog()

SAMPLES: dict[tuple[type, str], dict[str, Any]] = {}
"""Options for blocks that cannot be built, or have nothing to check, without them."""


def behaviours() -> Iterator[Any]:
    for slot, name, factory in bench.entries():
        for check in checks.checks_for(slot):
            yield pytest.param(slot, name, factory, check, id=f"{slot.__name__}-{name}-{check.__name__.removeprefix('check_')}")


PAGES = {"check_registration", "check_vocabulary", "check_defaults", "check_docstring", "check_example"}
"""Checks of what is written, not of what is computed: they look at the registered class or function itself."""


def test_every_module_can_be_imported() -> None:
    assert not BROKEN


@pytest.mark.parametrize(("slot", "name", "factory", "check"), behaviours())
def test_block(slot: type, name: str, factory: Any, check: checks.Check) -> None:
    subject = factory if check.__name__ in PAGES else bench.tiny(factory, SAMPLES.get((slot, name), {}))
    try:
        check(subject)
    except bench.Inapplicable as reason:
        pytest.skip(str(reason))
