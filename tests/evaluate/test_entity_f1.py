from __future__ import annotations

import random
from importlib import import_module

import numpy as np
import pytest

from weft.evaluate import EntityF1


def random_tags(rng, prefixes, n=30):
    tags = ["O", "O"] + [f"{prefix}-{type_}" for prefix in prefixes for type_ in ("PER", "LOC", "A-B")]
    gold = [[rng.choice(tags) for _ in range(rng.randrange(1, 10))] for _ in range(n)]
    return gold, [[tag if rng.random() < 0.7 else rng.choice(tags) for tag in row] for row in gold]


def compute(metric, predicted, gold):
    return metric.compute([" ".join(row) for row in predicted], [{"tags": " ".join(row)} for row in gold])


def expected(seqeval, gold, predicted, **options):
    each = seqeval.classification_report(gold, predicted, output_dict=True, zero_division=0, **options)
    return {
        "entity_f1": seqeval.f1_score(gold, predicted, zero_division=0, **options),
        "entity_precision": seqeval.precision_score(gold, predicted, zero_division=0, **options),
        "entity_recall": seqeval.recall_score(gold, predicted, zero_division=0, **options),
    } | {f"entity_f1/{kind}": metric_values["f1-score"] for kind, metric_values in each.items() if not kind.endswith(" avg")}


@pytest.mark.parametrize("prefixes", ["BI", "I", "BIES", "ES"])
def test_entity_f1_equals_seqeval(prefixes):
    seqeval = import_module("seqeval.metrics")
    rng = random.Random(0)
    for n in [1] * 15 + [30] * 15:
        gold, predicted = random_tags(rng, prefixes, n)
        found = compute(EntityF1(), predicted, gold)
        if "entity_f1/PER" not in found and len(found) == 3:
            assert set(found.values()) == {0.0}  # no span: seqeval has no report
            continue
        assert found == pytest.approx(expected(seqeval, gold, predicted)), (gold, predicted)


@pytest.mark.parametrize(
    ("scheme", "prefixes", "name"), [("iob1", "BI", "IOB1"), ("iob2", "BI", "IOB2"), ("bioes", "BIES", "IOBES")]
)
def test_strict_mode_equals_seqeval(scheme, prefixes, name):
    seqeval, schemes = import_module("seqeval.metrics"), import_module("seqeval.scheme")
    rng = random.Random(1)
    for _ in range(20):
        gold, predicted = random_tags(rng, prefixes)
        theirs = expected(seqeval, gold, predicted, mode="strict", scheme=getattr(schemes, name))
        assert compute(EntityF1(strict=scheme), predicted, gold) == pytest.approx(theirs)


def test_without_spans_all_values_are_zero():
    assert compute(EntityF1(), [["O", "O"]], [["O", "B-X"]]) == {
        "entity_f1": 0.0,
        "entity_precision": 0.0,
        "entity_recall": 0.0,
        "entity_f1/X": 0.0,
    }
    assert set(compute(EntityF1(), [[], ["O"]], [[], ["O"]]).values()) == {0.0}


def test_spans_do_not_cross_examples():
    rows = [["B-X"], ["I-X"]]
    stats = EntityF1().statistics([" ".join(r) for r in rows], [{"tags": " ".join(r)} for r in rows])
    assert np.array_equal(stats, [[1, 1, 1], [1, 1, 1]])


def test_invalid_tags_are_rejected():
    with pytest.raises(ValueError, match="example 1 has 2 tags in 'tags', but 3 predicted tags"):
        compute(EntityF1(), [["O"], ["O"] * 3], [["O"], ["O"] * 2])
    with pytest.raises(ValueError, match="example 0: 'PER' is not a tag"):
        compute(EntityF1(), [["PER"]], [["O"]])
    with pytest.raises(ValueError, match="example 0: the tag 'S-X' is not valid in the scheme iob2"):
        compute(EntityF1(strict="iob2"), [["S-X"]], [["B-X"]])
