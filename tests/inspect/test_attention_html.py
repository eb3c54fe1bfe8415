"""Display of attention weights in a notebook."""

from __future__ import annotations

import torch
from tests.displays import HOSTILE, cells, parsed, words
from torch import nn

from weft.blocks import MultiHeadAttention
from weft.core.masks import Full
from weft.core.seq import Seq
from weft.inspect import AttentionExample, AttentionMap, attention
from weft.inspect.attention_html import MAX_HEADS, MAX_MAPS


def count_cells(tree: object) -> int:
    return sum(e.tag.endswith("rect") for e in tree.iter())  # type: ignore[attr-defined]


def test_a_map_shows_the_mean_of_its_heads_and_then_each_head() -> None:
    weights = torch.tensor([[[1.0, 0.0]], [[0.5, 0.5]]])
    tree = parsed(AttentionMap(weights, ["out"], ["in", "put"]))
    assert count_cells(tree) == 3 * 2
    titles = ["".join(e.itertext()) for e in tree.iter() if e.tag.endswith("title")]
    assert titles[:2] == ["out → in: 0.750", "out → put: 0.250"]
    assert "mean of 2 heads" in words(tree) and "head 2" in words(tree)


def test_a_map_without_heads_is_one_heat_map() -> None:
    assert count_cells(parsed(AttentionMap([[0.2, 0.8]], ["a"], ["b", "c"]))) == 2


def test_of_many_heads_the_first_are_shown_with_a_note() -> None:
    tree = parsed(AttentionMap(torch.full((MAX_HEADS + 3, 1, 1), 0.5), ["a"], ["b"]))
    assert count_cells(tree) == 1 + MAX_HEADS
    assert "3 more heads are not shown" in words(tree)


def test_an_example_shows_texts_classes_and_maps() -> None:
    example = AttentionExample(
        ["a", "b"], ["c"], {"decoder.0": [[0.1, 0.9]]}, reference="d", classes=[("good", 0.75)], notes=["short"]
    )
    tree = parsed(example)
    assert ["input", "a b"] in cells(tree) and ["output", "c"] in cells(tree) and ["reference", "d"] in cells(tree)
    assert ["good", "0.750"] in cells(tree)
    assert count_cells(tree) == 2 and "decoder.0" in words(tree) and "short" in words(tree)


def test_an_example_with_many_layers_shows_the_first() -> None:
    maps = {f"layer {i}": [[1.0]] for i in range(MAX_MAPS + 2)}
    tree = parsed(AttentionExample(["a"], ["b"], maps))
    assert count_cells(tree) == MAX_MAPS and "2 more attention maps are not shown" in words(tree)


def test_tokens_with_markup_are_escaped() -> None:
    parsed(
        AttentionExample([HOSTILE], [HOSTILE], {HOSTILE: [[1.0]]}, reference=HOSTILE, classes=[(HOSTILE, 1.0)], notes=[HOSTILE])
    )
    parsed(AttentionMap([[1.0]], [HOSTILE], [HOSTILE]))


def test_recorded_attention_is_shown_by_module() -> None:
    model = nn.ModuleDict({"first": MultiHeadAttention(8, 8, heads=2), "second": MultiHeadAttention(8, 8, heads=2)})
    x = Seq(torch.ones(2, 3, 8))
    with attention(model) as maps:
        for layer in model.values():
            layer(x, layer.project(x), Full())  # type: ignore[operator]
    assert set(maps) == {"first", "second"} and isinstance(maps, dict)
    tree = parsed(maps)
    assert count_cells(tree) == 2 * 9
    assert "first, mean of 2 heads" in words(tree) and "second, mean of 2 heads" in words(tree)


def test_empty_recording_is_shown_with_a_note() -> None:
    with attention(nn.Linear(2, 2)) as maps:
        pass
    assert "no attention was recorded" in words(parsed(maps))
