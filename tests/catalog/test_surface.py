"""The public surface changes only on purpose."""

from __future__ import annotations

import copy
import json

from .bench import fill_catalog
from .surface import FILE, REQUIRED, differences, surface

fill_catalog()


def test_surface_is_as_frozen() -> None:
    found = differences(json.loads(FILE.read_text(encoding="utf-8")), surface())
    assert not found, "if this is meant, write it down with `python -m tests.catalog.surface`:\n" + "\n".join(found)


def test_surface_is_plain_data() -> None:
    now = surface()
    assert json.loads(json.dumps(now)) == now
    assert now["Objective"]["weighted"]["parts"] == REQUIRED
    assert now["Encoder"]["transformer"]["norm"] == "layer-norm"


def test_differences_names_what_changed() -> None:
    now = surface()
    then = copy.deepcopy(now)
    then["Norm"]["batch-norm"] = {}
    del then["Norm"]["layer-norm"]
    then["Encoder"]["transformer"]["layers"] = 99
    lines = differences(then, now)
    assert [line.split(" had")[0] for line in lines] == [
        "Encoder 'transformer'",
        "Norm 'batch-norm' is gone",
        "Norm 'layer-norm' is new",
    ]
