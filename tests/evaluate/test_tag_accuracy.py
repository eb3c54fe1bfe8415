"""Tag accuracy against scikit-learn."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from weft.core.fields import Info, TagsField
from weft.evaluate import EntityF1, TagAccuracy


def test_tag_accuracy_is_the_accuracy_over_all_words():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, 40)
    gold, found = ([rng.choice(["DET", "NOUN", "VERB"], n).tolist() for n in sizes] for _ in range(2))
    metric_values = TagAccuracy().compute([" ".join(row) for row in found], [{"tags": " ".join(row)} for row in gold])
    assert metric_values["tag_accuracy"] == pytest.approx(
        accuracy_score(*(list(chain.from_iterable(rows)) for rows in (gold, found)))
    )


def test_the_number_of_tags_must_match():
    with pytest.raises(ValueError, match="example 0 has 1 tags in 'tags', but 2 predicted tags"):
        TagAccuracy().compute(["DET NOUN"], [{"tags": "DET"}])


def test_entity_f1_rejects_tags_that_are_no_entities():
    info = Info({"tags": TagsField("tags", 2, labels=("DET", "NOUN"))}, data="tagged-text")
    with pytest.raises(ValueError, match=r"the metric entity-f1 needs entity tags .*'DET' is not a tag.*scheme"):
        EntityF1().check(info)
    EntityF1().check(Info({"tags": TagsField("tags", 2, labels=("O", "B-PER"))}))
