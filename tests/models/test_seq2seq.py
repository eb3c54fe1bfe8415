"""Seq2Seq: what it builds, that padding and stepping change nothing, and that it learns."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from weft.blocks import (
    GRU,
    AttentionGRU,
    BagOfWords,
    ConcatPooler,
    LearnedPositionEmbedder,
    LSTMDecoder,
    SinusoidalPositionEmbedder,
    SumEmbedder,
    TokenEmbedder,
    Transformer,
    TransformerDecoder,
    UntiedHead,
)
from weft.core.batch import Batch
from weft.core.contracts import Decodes, Encodes, Reconstructs
from weft.core.fields import Info, TextField
from weft.core.seq import Seq
from weft.models import Seq2Seq, transformer_base, transformer_big

CLOSE = {"atol": 1e-5, "rtol": 1e-4}
PAIR = Info({"source": TextField("source", 13, max_length=9), "target": TextField("target", 13, max_length=20)}, target="target")
APART = Info(
    {"source": TextField("source", 13, space="source"), "target": TextField("target", 17, space="target")}, target="target"
)
POSITIONS = partial(SumEmbedder, parts=[TokenEmbedder, SinusoidalPositionEmbedder, LearnedPositionEmbedder])
SMALL = [
    Seq2Seq,
    partial(Seq2Seq, encoder=GRU, decoder=partial(AttentionGRU, layers=2), pooler=ConcatPooler),
    partial(Seq2Seq, encoder=Transformer, decoder=TransformerDecoder, pooler=ConcatPooler),
    partial(Seq2Seq, embedder=POSITIONS, encoder=BagOfWords, decoder=LSTMDecoder, head=UntiedHead),
    transformer_base(dim=8, layers=2, heads=2, hidden=16, dropout=0.0),
]
SOURCE = torch.tensor([[7, 8, 9, 10], [11, 12, 0, 0]])
SOURCE_MASK = SOURCE > 0
INPUT = torch.tensor([[1, 7, 9], [1, 12, 10]])


def small(structure, info=PAIR):
    torch.manual_seed(0)
    return structure(info, dim=8) if "dim" not in getattr(structure, "keywords", {}) else structure(info)


def run(model, source, mask, ids):
    return model.decode(ids, model.memory(Batch({"source": Seq(source, mask)}, len(source)))).hidden.data


@pytest.mark.parametrize("info", [PAIR, APART], ids=["one space", "two"])
@pytest.mark.parametrize("structure", SMALL)
def test_padding_of_the_source_changes_nothing(structure, info):
    model = small(structure, info)
    got = run(model, SOURCE, SOURCE_MASK, Seq(INPUT))
    left = torch.tensor([[0, 7, 8, 9, 10], [0, 0, 0, 11, 12]])
    torch.testing.assert_close(run(model, left, left > 0, Seq(INPUT)), got, **CLOSE)
    torch.testing.assert_close(run(model, SOURCE[1:, :2], None, Seq(INPUT[1:])), got[1:], **CLOSE)


@pytest.mark.parametrize("structure", SMALL)
def test_stepping_equals_the_full_pass(structure):
    model = small(structure)
    memory = model.memory(Batch({"source": Seq(SOURCE, SOURCE_MASK)}, 2))
    mask = torch.tensor([[True, True, True], [False, True, True]])
    want = model.decode(Seq(INPUT, mask), memory).hidden.data
    state = model.start(memory, 2)
    first = model.step(Seq(INPUT[:, :2], mask[:, :2]), state)
    second = model.step(Seq(INPUT[:, 2:]), first.state.select(torch.tensor([1, 0])).select(torch.tensor([1, 0])))
    got = torch.cat([first.hidden.data, second.hidden.data], 1)
    torch.testing.assert_close(got[mask], want[mask], **CLOSE)
    assert second.state.seen_B.tolist() == [3, 2]


@pytest.mark.parametrize("structure", SMALL)
@pytest.mark.parametrize("info", [PAIR, APART], ids=["one space", "two"])
def test_every_parameter_learns_and_soft_ids_are_ids(structure, info):
    model = small(structure, info)
    hidden = run(model, SOURCE, SOURCE_MASK, Seq(INPUT))
    soft = run(model, F.one_hot(SOURCE, 13).float(), SOURCE_MASK, Seq(F.one_hot(INPUT, info["target"].vocab).float()))
    torch.testing.assert_close(soft, hidden, **CLOSE)
    model.head.nll(hidden.flatten(0, 1), torch.full((6,), 9)).sum().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None]


@pytest.mark.parametrize("structure", SMALL)
@pytest.mark.parametrize("where", ["meta", "bfloat16"])
def test_runs_on_the_meta_device_and_in_low_precision(structure, where):
    device = "meta" if where == "meta" else "cpu"
    with torch.device(device):
        model = small(structure)
    if where == "bfloat16":
        model = model.bfloat16()
    source, ids = Seq(SOURCE, SOURCE_MASK).to(device), Seq(INPUT).to(device)
    memory = model.memory(Batch({"source": source}, 2))
    hidden = model.decode(ids, memory).hidden.data
    stepped = model.step(ids, model.start(memory, 2)).hidden.data
    assert hidden.shape == stepped.shape == (2, 3, 8)
    assert hidden.dtype == stepped.dtype == (torch.float32 if where == "meta" else torch.bfloat16)
    loss = model.head.nll(hidden.flatten(0, 1), ids.data.flatten(), 0.1).sum()
    loss.backward()
    assert loss.device.type == device


def test_one_id_space_shares_the_embedder():
    model, apart, own = Seq2Seq(PAIR, dim=8), Seq2Seq(APART, dim=8), Seq2Seq(PAIR, dim=8, target_embedder=POSITIONS)
    assert model.target_embedder is None
    assert model.head._tie[0] is model.embedder
    assert apart.target_embedder.table().shape == (17, 8) and apart.embedder.table().shape == (13, 8)
    assert apart.head._tie[0] is apart.target_embedder
    assert len(own.target_embedder.parts) == 3
    both = Seq2Seq(PAIR, dim=8, embedder=POSITIONS)
    assert both.embedder.parts[2].length == 20 + 7  # the longer of the two fields
    longer = Info({"source": PAIR["source"], "target": TextField("target", 14)}, target="target")
    assert Seq2Seq(longer, dim=8).target_embedder is not None


def test_a_pooler_is_built_only_where_its_vector_is_read():
    assert Seq2Seq(PAIR, dim=8).pooler is not None
    assert Seq2Seq(PAIR, dim=8, decoder=TransformerDecoder).pooler is None


def test_no_tensor_is_saved_twice():
    state = Seq2Seq(PAIR, dim=8).state_dict()
    pointers = [t.data_ptr() for t in state.values()]
    assert len(set(pointers)) == len(pointers)


def test_a_deep_copy_is_independent():
    model = Seq2Seq(PAIR, dim=8)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)
    hidden = torch.randn(2, 8)
    assert not torch.allclose(twin.head(hidden), model.head(hidden))
    torch.testing.assert_close(twin.head(hidden), F.linear(twin.head.scale * hidden, twin.embedder.table(), twin.head.bias))


def test_protocols_and_missing_fields():
    assert Seq2Seq(PAIR, dim=8).provides() == (Encodes, Decodes, Reconstructs)
    assert Seq2Seq(Info({"text": TextField("text", 9)}), dim=8).provides() == (Encodes, Reconstructs)
    apart = Info({"source": TextField("source", 9, space="a"), "target": TextField("target", 9, space="b")}, "target")
    assert Seq2Seq(apart, dim=8).provides() == (Encodes, Decodes)
    with pytest.raises(ValueError, match="needs a field 'source'"):
        Seq2Seq(Info({"target": TextField("target", 9)}))
    with pytest.raises(ValueError, match="dim 9 is odd"):
        Seq2Seq(PAIR, dim=9)


def test_published_sizes():
    base, big = transformer_base(), transformer_big()
    info = Info({"source": TextField("source", 37_000), "target": TextField("target", 37_000)}, target="target")
    with torch.device("meta"):
        sizes = [sum(p.numel() for p in build(info).parameters()) / 1e6 for build in (base, big)]
    assert sizes == pytest.approx([63, 214], abs=1.0)  # table 3: 65 and 213 million


@pytest.mark.parametrize("structure", [Seq2Seq, partial(Seq2Seq, encoder=Transformer, decoder=TransformerDecoder)])
def test_learns_to_reverse(structure):
    torch.manual_seed(0)
    model = structure(PAIR, dim=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loss = torch.tensor(0.0)
    for _ in range(150):
        source = torch.randint(7, 13, (32, 4))
        target = source.flip(1)
        inputs = torch.cat([torch.ones(32, 1, dtype=torch.long), target[:, :-1]], 1)
        loss = model.head.nll(run(model, source, None, Seq(inputs)).flatten(0, 1), target.flatten()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5  # chance is log 6 = 1.79
