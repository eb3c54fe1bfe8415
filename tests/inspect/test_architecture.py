"""The figure of an architecture: every structure draws, nothing overlaps, and the parameters add up."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import pytest
import torch
from tests.catalog import bench
from torch import nn

from weft.blocks import PostNorm, SharedTransformer, Transformer, TransformerLayer
from weft.core import contracts as slots
from weft.core.fields import Info, TextField
from weft.inspect.architecture import Architecture, StageNetwork, architecture
from weft.inspect.diagram.layout import Rect
from weft.inspect.diagram.panel import Panel
from weft.models import LanguageModel, Seq2Seq
from weft.objectives import Classification, MaskedLM, NextToken

bench.fill_catalog()
SVG = "{http://www.w3.org/2000/svg}"


@dataclass
class Composed:
    """Stands for a run: a name, and networks that are built."""

    stages: list[StageNetwork]
    name: str = "composed"
    asked: list[str] = field(default_factory=list)

    def networks(self) -> list[StageNetwork]:
        return self.stages


def stage(structure: Any, objective: Any, info: Info, device: str = "cpu") -> StageNetwork:
    torch.manual_seed(0)
    with torch.device(device):
        model = structure(info)
        return StageNetwork(model, {"": objective(info, model.dim)}, info, "main", type(model).__name__)


def figure_of(structure: Any, objective: Any, info: Info, **options: Any) -> Architecture:
    return architecture(Composed([stage(structure, objective, info)]), **options)


@cache
def cases() -> list[Any]:
    """Every registered structure with an objective that fits, and every other objective with a structure that fits."""
    structures = [(n, bench.tiny(f, {})) for s, n, f in bench.entries() if s is slots.Structure]
    parts = {"lm": NextToken, "class": Classification}
    given = {"weighted": {"parts": parts, "weights": {"lm": 0.5}}}
    objectives = [(n, bench.tiny(f, given.get(n, {}))) for s, n, f in bench.entries() if s is slots.Objective]
    combinations = itertools.product(structures, objectives, bench.INFOS.items())
    fitting = [
        (model, task, pytest.param(structure, objective, info, id=f"{model}-{task}-{data}"))
        for (model, structure), (task, objective), (data, info) in combinations
        if bench.fits(structure, objective, data)
    ]
    chosen: list[Any] = []
    seen: set[str] = set()
    for model, task, case in fitting:
        if not {f"structure {model}", f"objective {task}"} <= seen:
            seen |= {f"structure {model}", f"objective {task}"}
            chosen.append(case)
    missing = {f"structure {n}" for n, _ in structures} - seen
    assert not missing, f"no objective fits {missing}"
    return chosen


def parameters(one: StageNetwork) -> int:
    modules = (one.model, *one.objectives.values())
    return sum(p.numel() for p in {p: None for m in modules for p in m.parameters()})


def groups(svg: str, kind: str) -> list[ET.Element]:
    return [g for g in ET.fromstring(svg).iter(f"{SVG}g") if g.get("class") == kind]


def boxes(figure: Architecture) -> list[tuple[Any, Rect]]:
    (panel,) = figure.panels
    return [(block, rect) for block, rect in panel.layout.rects.items() if block.role != "residual"]


def inside(one: Rect, other: Rect) -> bool:
    return other.x < one.x and one.right < other.right and other.u < one.u and one.top < other.top


def apart(one: Rect, other: Rect) -> bool:
    return one.right <= other.x or other.right <= one.x or one.top <= other.u or other.top <= one.u


def crosses(start: tuple[float, float], end: tuple[float, float], rect: Rect) -> bool:
    """Whether a horizontal or vertical line goes through the inside of a box."""
    left, right = sorted((start[0], end[0]))
    low, high = sorted((start[1], end[1]))
    return left < rect.right - 1 and right > rect.x + 1 and low < rect.top - 1 and high > rect.u + 1


def assert_tidy(figure: Architecture) -> None:
    """Boxes are nested or apart, wires pass between them, and everything is on the canvas."""
    (panel,) = figure.panels
    found = boxes(figure)
    for (a, one), (b, other) in itertools.combinations(found, 2):
        nested = b in a.walk() or a in b.walk()
        assert (inside(one, other) or inside(other, one)) if nested else apart(one, other), (a.path, b.path)
    leaves = [(block, rect) for block, rect in found if not block.children]
    for wire in panel.layout.wires:
        for start, end in itertools.pairwise(wire.points):
            assert start[0] == pytest.approx(end[0]) or start[1] == pytest.approx(end[1]), "wires have right angles"
            for block, rect in leaves:
                assert not crosses(start, end, rect), (block.path, wire)
        assert all(-1 <= x <= panel.width + 1 and -1 <= u <= panel.height + 1 for x, u in wire.points)
    for _, rect in found:
        assert rect.x >= 0 and rect.right <= panel.width + 0.1 and rect.u >= 0 and rect.top <= panel.height


@pytest.mark.parametrize(("structure", "objective", "info"), cases())
def test_every_structure_draws_a_tidy_figure_whose_parameters_add_up(structure: Any, objective: Any, info: Info) -> None:
    one = stage(structure, objective, info)
    figure = architecture(Composed([one]))
    svg = figure.svg()
    total = sum(int(g.attrib["data-parameters"]) * int(g.attrib["data-copies"]) for g in groups(svg, "block"))
    assert total == parameters(one) == figure.parameters[0]
    assert f"{total:,} parameters" in svg
    assert "nan" not in svg
    assert_tidy(figure)


# --------------------------------------------------------------------------------------------------------- what it shows

PAIR = Info({"source": TextField("source", 20, max_length=24), "target": TextField("target", 20, max_length=24)}, target="target")
TEXT = Info({"text": TextField("text", 20, max_length=24)}, target="text")


def texts(figure: Architecture) -> list[str]:
    return ["".join(t.itertext()) for t in ET.fromstring(figure.svg()).iter(f"{SVG}text")]


def by_path(panel: Panel) -> dict[str, Any]:
    return {block.path: block for block in panel.top.walk()}


def seq2seq(**options: Any) -> Any:
    from weft.blocks import TransformerDecoder

    return partial(Seq2Seq, dim=16, encoder=Transformer, decoder=TransformerDecoder, **options)


def test_a_seq2seq_model_has_its_encoder_feed_the_cross_attention_of_its_decoder() -> None:
    (panel,) = figure_of(seq2seq(), NextToken, PAIR).panels
    blocks = by_path(panel)
    edge = panel.top.edges[blocks["model.encoder"], blocks["model.decoder"]]
    assert edge.consumer.title == "Cross-attention"
    assert edge.shape == "B × S × 16"
    assert panel.top.edges[blocks["model.decoder"], blocks["model.head"]].shape == "N × 16"
    assert list(blocks["model.embedder"].inputs) == ["source", "input"]


def test_shapes_have_symbols_where_a_size_depends_on_the_batch_and_numbers_elsewhere() -> None:
    """The dimension is as large as a batch or a text could be: what is alike by chance must not be mistaken."""
    for dim in (3, 5, 16, 19):
        encoder = partial(Transformer, layers=1, layer=_one_head())
        (panel,) = figure_of(partial(Seq2Seq, dim=dim, encoder=encoder), NextToken, PAIR).panels
        assert by_path(panel)["model.encoder"].shape == f"B × S × {dim}"
        assert by_path(panel)["model.head"].shape == "N × 20"


def test_the_lengths_of_source_and_target_are_told_apart_even_where_texts_are_short() -> None:
    short = Info(
        {"source": TextField("source", 20, max_length=8), "target": TextField("target", 20, max_length=12)}, target="target"
    )
    (panel,) = figure_of(seq2seq(), NextToken, short).panels
    assert by_path(panel)["model.encoder"].shape == "B × S × 16"
    assert by_path(panel)["model.decoder"].shape == "B × T × 16"


def _one_head() -> Any:
    from weft.blocks import MultiHeadAttention

    return partial(TransformerLayer, mixer=partial(MultiHeadAttention, heads=1))


def test_a_residual_connection_encloses_the_norm_and_the_sublayer_in_the_order_of_the_data() -> None:
    for residual, titles in ((None, ["LayerNorm", "Self-attention"]), (PostNorm, ["Self-attention", "LayerNorm"])):
        layer = TransformerLayer if residual is None else partial(TransformerLayer, residual=residual)
        (panel,) = figure_of(seq2seq() if residual is None else _post(layer), NextToken, PAIR).panels
        first = next(b for b in by_path(panel)["model.encoder"].walk() if b.role == "residual")
        assert [child.title for child in first.children] == titles
        added = [u for x, u in panel.layout.sums if panel.layout.rects[first].u < u < panel.layout.rects[first].top]
        above = panel.layout.rects[first.children[0]].top < added[0]
        assert above and (added[0] < panel.layout.rects[first.children[1]].u) == (residual is PostNorm)


def _post(layer: Any) -> Any:
    from weft.blocks import TransformerDecoder

    return partial(Seq2Seq, dim=16, encoder=partial(Transformer, layer=layer), decoder=partial(TransformerDecoder, layer=layer))


@pytest.mark.parametrize("layers", [2, 6, 48])
def test_identical_layers_are_shown_once_with_their_number(layers: int) -> None:
    figure = figure_of(partial(Seq2Seq, dim=16, encoder=partial(Transformer, layers=layers)), NextToken, PAIR)
    assert f"Layer × {layers}" in "".join(texts(figure))
    layer_boxes = [b for b in by_path(figure.panels[0]).values() if b.role == "layer"]
    assert [(b.repeat, len(b.paths)) for b in layer_boxes] == [(layers, layers)]
    assert len(figure.svg()) < 40_000


def test_layers_that_alternate_are_shown_as_one_group() -> None:
    from weft.blocks import GatedFeedForward

    kinds = [TransformerLayer, partial(TransformerLayer, feedforward=GatedFeedForward)]
    figure = figure_of(partial(Seq2Seq, dim=16, encoder=partial(Transformer, layers=9, layer=kinds)), NextToken, PAIR)
    group = next(b for b in by_path(figure.panels[0])["model.encoder"].children if b.title == "Layers")
    assert (group.repeat, [child.repeat for child in group.children]) == (4, [1, 1])
    assert [b.title for b in by_path(figure.panels[0])["model.encoder"].children if b.role == "layer"] == ["Layers", "Layer"]
    assert_tidy(figure)


def test_layers_that_share_their_weights_are_counted_once() -> None:
    figure = figure_of(partial(Seq2Seq, dim=16, encoder=partial(SharedTransformer, layers=12)), NextToken, PAIR)
    layer = next(b for b in by_path(figure.panels[0]).values() if b.role == "layer")
    assert (layer.repeat, layer.applied) == (1, 12)
    assert "Layer × 12 with shared weights" in "".join(texts(figure))


def test_a_tied_head_names_the_embedder_whose_weights_it_uses() -> None:
    figure = figure_of(seq2seq(), NextToken, PAIR)
    assert by_path(figure.panels[0])["model.head"].tied == ("model.embedder",)
    assert "tied to embedder" in texts(figure)
    from weft.blocks import UntiedHead

    assert "tied to embedder" not in texts(figure_of(seq2seq(head=UntiedHead), NextToken, PAIR))


def test_what_an_objective_does_not_use_is_faded() -> None:
    from weft.models import bert

    figure = figure_of(bert(size="tiny", dim=16, layers=1, heads=2, hidden=24, length=24), MaskedLM, TEXT)
    unused = {b.path for b in by_path(figure.panels[0]).values() if not b.ran}
    assert unused == {"model.pooler", "model.segment_head"}
    assert figure.svg().count('opacity="0.45"') == 2
    assert any("not used by this objective" in text for text in texts(figure))


def test_the_objective_and_what_its_loss_is_computed_from_are_named() -> None:
    shown = texts(figure_of(seq2seq(), NextToken, PAIR))
    assert any(text.startswith("next-token") and "loss ← Head" in text for text in shown)


def test_every_stage_is_shown_under_its_name() -> None:
    one, two = stage(LanguageModel, NextToken, TEXT), stage(seq2seq(), NextToken, PAIR)
    figure = architecture(Composed([one, two]))
    assert len(figure.panels) == 2 and figure.parameters == [parameters(one), parameters(two)]
    assert "2 stages" in texts(figure)
    assert sum(text.startswith("Stage main: ") for text in texts(figure)) == 2


def test_the_same_model_gives_the_same_figure_on_every_device() -> None:
    drawings = {architecture(Composed([stage(seq2seq(), NextToken, PAIR, device)])).svg() for device in ("cpu", "meta", "cpu")}
    assert len(drawings) == 1


def test_drawing_leaves_the_model_and_the_random_numbers_as_they_were() -> None:
    one = stage(seq2seq(), NextToken, PAIR)
    before = {name: p.clone() for name, p in one.model.state_dict().items()}
    attributes = {name: set(vars(module)) for name, module in one.model.named_modules()}
    torch.manual_seed(7)
    architecture(Composed([one]))
    state = torch.random.get_rng_state()
    torch.manual_seed(7)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(p, before[name]) for name, p in one.model.state_dict().items())
    assert {name: set(vars(module)) for name, module in one.model.named_modules()} == attributes
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in one.model.modules())


# ---------------------------------------------------------------------------------------------------------- any nn.Module


class Branches(nn.Module):
    """Two maps of one input, added; an attention of torch's own; a parameter of the module itself."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.left, self.right, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.left(x) + self.right(x)) * self.scale
        return self.attention(y, y, y)[0]


def test_any_module_is_shown_along_the_data_of_an_example() -> None:
    figure = architecture(Branches(), example=(torch.ones(2, 3, 4),))
    blocks = by_path(figure.panels[0])
    edges = {(p.path, c.path) for p, c in figure.panels[0].top.edges}
    assert {("model.left", "model.norm"), ("model.right", "model.norm"), ("model.norm", "model.attention")} == edges
    assert blocks["model.attention"].shape == "2 × 3 × 4"
    assert figure.parameters == [sum(p.numel() for p in Branches().parameters())]
    assert_tidy(figure)


class Pair(nn.Module):
    """Two parallel parts, of which the second in the row has a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        return self.norm(self.near(two) + self.far(one))


class Across(nn.Module):
    """What comes from the left column is used by the right part of a row."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.pair = nn.Linear(4, 4), nn.Linear(4, 4), Pair()

    def forward(self, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        return self.pair(self.first(one), self.second(two))


def test_a_wire_that_would_cross_a_block_ends_at_the_frame_around_it() -> None:
    figure = architecture(Across(), example=(torch.ones(2, 4), torch.ones(2, 4)))
    layout, blocks = figure.panels[0].layout, by_path(figure.panels[0])
    near, far, frame = (layout.rects[blocks[f"model.pair{name}"]] for name in (".near", ".far", ""))
    assert near.right < far.x, "the blocks stand in one row"
    ends = [
        wire.points[-1]
        for wire in layout.wires
        if wire.points[0] == (layout.rects[blocks["model.first"]].center, layout.rects[blocks["model.first"]].top)
    ]
    assert [x for x, _ in ends] == [frame.x]
    assert_tidy(figure)


def test_a_module_without_an_example_is_shown_in_the_order_of_its_parts() -> None:
    figure = architecture(Branches())
    assert [b.path for b in figure.panels[0].top.children][1:] == ["model.left", "model.right", "model.norm", "model.attention"]
    assert not figure.panels[0].top.edges
    model = stage(seq2seq(), NextToken, PAIR).model
    assert by_path(architecture(model).panels[0])["model.head"].tied == ("model.embedder",)
    assert architecture(model).parameters == [sum(p.numel() for p in model.parameters())]
    assert_tidy(architecture(model))


def test_hostile_names_are_escaped() -> None:
    hostile = '<script>alert("1")</script>&\u0000'
    model = nn.ModuleDict({hostile.replace(".", ""): nn.Linear(2, 2)})
    svg = architecture(model, title=hostile).svg()
    ET.fromstring(svg)
    assert "<script" not in svg and "&lt;script&gt;" in svg and "\u0000" not in svg


def test_long_names_stay_inside_their_boxes() -> None:
    from weft.inspect.diagram.layout import WIDEST

    figure = architecture(nn.ModuleDict({"w" * 200: nn.Linear(2, 2)}), title="t" * 500)
    assert all(rect.width <= max(WIDEST, figure.panels[0].width) for _, rect in boxes(figure))
    assert all(len(text) < 120 for text in texts(figure))


def test_a_model_without_parameters_is_shown() -> None:
    for model in (nn.Sequential(nn.ReLU()), nn.Identity()):
        figure = architecture(model)
        assert figure.parameters == [0]
        assert type(model).__name__ in texts(figure)[2:]
        assert_tidy(figure)


def test_a_notebook_shows_the_figure_and_it_can_be_saved(tmp_path: Any) -> None:
    figure = architecture(Branches())
    assert figure._repr_svg_() == figure.svg()
    assert figure.save(tmp_path / "a.svg").read_text(encoding="utf-8") == figure.svg()


@pytest.mark.parametrize("name", ["a.png", "a.pdf", "a", "a.svg.gz"])
def test_other_formats_are_refused(name: str, tmp_path: Any) -> None:
    with pytest.raises(ValueError, match=r"SVG only; give a file name that ends in \.svg"):
        architecture(Branches()).save(tmp_path / name)
    assert not list(tmp_path.iterdir())
