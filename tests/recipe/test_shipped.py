"""Every shipped recipe trains on small files instead of its data, and can be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import weft
from weft.core.fields import Field, ImageField, TextsField
from weft.data.requests import input_fields
from weft.generate import GreedySearch
from weft.training.recipes import read_run, shipped_recipes

SMALL = ("learning.steps=2", "learning.batch_tokens=200", "structure.dim=16", "learning.save_every=0", "evaluate.every=1")
DATES = ("data.train=50", "data.valid=10", "data.test=10")


@pytest.mark.parametrize("name", list(shipped_recipes()))
def test_a_shipped_recipe_trains_and_can_be_used(name, tmp_path):
    fixed = name.endswith("-minilm") or name == "classify-images"  # their structures have no option dim
    changes = [change for change in SMALL if not (fixed and change.startswith("structure."))]
    changes += DATES if name.startswith("dates") else ()
    if name.startswith("translate"):
        changes.append("learning.average=1")
    if name == "pretrain-classify":
        changes += ["data.validation_fraction=0.2", *(f"stages.0.{change}" for change in SMALL)]
    if "\n  test:" in shipped_recipes()[name].read_text(encoding="utf-8"):
        changes = ["preset=test", "data.validation_fraction=0.3"]
    run = read_run(name, changes)
    judged = run.train(tmp_path / "run", quiet=True).result
    assert judged.metric_values
    again = weft.load(tmp_path / "run")
    assert again.evaluate().metric_values == pytest.approx(judged.metric_values)
    if getattr(again.model, "class_conditional", False):
        memory = again.model.memory_from(again.model.prior(2), torch.tensor([0, 1]))
        assert len(GreedySearch()(again.model, memory, limits=[5, 5])) == 2
        return
    use = again.generate if hasattr(again.model, "head") and hasattr(again.model, "decoder") else again.predict
    assert again.codec is not None
    row = {f.name: request(f) for f in input_fields(again.codec.info)}
    assert len(use([row if len(row) > 1 else next(iter(row.values()))])) == 1


def request(field: Field) -> str | list[str]:
    """What a request gives for a field."""
    if isinstance(field, ImageField):
        return str(Path(os.environ["WEFT_DATA"], "cifar10/cat-0.png"))
    return ["a dog", "a man"] if isinstance(field, TextsField) else "Anna saw the dog in Oslo ."
