"""The language model, and what a pooler adds to it."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from weft.blocks import AttentionLSTM, GRUDecoder, LastPooler, LSTMDecoder, TransformerDecoder
from weft.core.contracts import Classifies, Decodes, ModelsLanguage
from weft.core.fields import Info, LabelField, TextField
from weft.core.seq import Seq
from weft.models import LanguageModel

TEXT, LABEL = TextField("text", 13), LabelField("label", 3)
BOTH = Info({"text": TEXT, "label": LABEL})
IDS = torch.tensor([[1, 7, 8, 9], [1, 11, 12, 0]])
MASK = IDS > 0


@pytest.mark.parametrize("decoder", [LSTMDecoder, GRUDecoder, TransformerDecoder])
def test_padding_changes_nothing_and_all_learns(decoder):
    model = LanguageModel(BOTH, dim=8, decoder=decoder, pooler=LastPooler)
    hidden, features = model.decode(Seq(IDS, MASK), None).hidden.data, model.features(Seq(IDS, MASK))
    torch.testing.assert_close(hidden[1:, :3], model.decode(Seq(IDS[1:, :3]), None).hidden.data, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(features, hidden[[0, 1], [3, 2]])
    loss = model.head.nll(hidden.flatten(0, 1), IDS.flatten()).sum() + model.classifier.nll(features, torch.tensor([0, 2])).sum()
    loss.backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None]


def test_classifies_only_with_a_pooler():
    plain, both = LanguageModel(BOTH, dim=8), LanguageModel(BOTH, dim=8, pooler=LastPooler)
    assert plain.provides() == (Decodes, ModelsLanguage)
    assert both.provides() == (Decodes, ModelsLanguage, Classifies)
    assert both.classifier(both.features(Seq(IDS, MASK))).shape == (2, 3)
    assert not any("classifier" in name for name, _ in plain.named_parameters())
    with pytest.raises(ValueError, match="does not classify; set the option pooler"):
        plain.features(Seq(IDS))
    with pytest.raises(ValueError, match="needs a field 'label'"):
        LanguageModel(Info({"text": TEXT}), dim=8, pooler=LastPooler)


def test_takes_the_text_or_what_is_to_be_generated():
    pair = Info({"source": TextField("source", 20), "target": TextField("target", 30)}, target="target")
    assert LanguageModel(pair, dim=8).target.name == "target"
    assert LanguageModel(BOTH, dim=8).target.name == "text"


def test_a_decoder_that_must_look_is_refused():
    with pytest.raises(ValueError, match=r"needs a memory to attend to.*use lstm"):
        LanguageModel(BOTH, dim=8, decoder=partial(AttentionLSTM, layers=2))


@pytest.mark.parametrize("dim", [64, 512])
@pytest.mark.parametrize("decoder", [LSTMDecoder, TransformerDecoder])
def test_begins_at_chance_however_wide(dim, decoder):
    torch.manual_seed(0)
    model = LanguageModel(Info({"text": TextField("text", 2000)}), dim=dim, decoder=decoder)
    ids = torch.randint(7, 2000, (4, 33))
    with torch.no_grad():
        hidden = model.decode(Seq(ids[:, :-1]), None).hidden.data
        loss = model.head.nll(hidden.flatten(0, 1), ids[:, 1:].flatten()).mean().item()
    assert abs(loss - math.log(2000)) < 0.2
