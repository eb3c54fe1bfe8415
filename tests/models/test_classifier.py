"""The classifier of texts."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from weft.blocks import GRU, BagOfWords, ClassifierHead, FirstPooler, LastPooler, MaxPooler, MeanPooler, Transformer
from weft.core.contracts import Classifies, Embeds, Encodes
from weft.core.fields import Info, LabelField, TextField
from weft.core.masks import Causal
from weft.core.seq import Seq
from weft.models import Classifier

INFO = Info({"text": TextField("text", 13), "label": LabelField("label", 3)})
IDS = torch.tensor([[7, 8, 9, 10], [0, 0, 11, 12], [7, 9, 0, 0]])


@pytest.mark.parametrize("encoder", [BagOfWords, partial(GRU, layers=2), Transformer])
@pytest.mark.parametrize("pooler", [FirstPooler, LastPooler, MeanPooler, MaxPooler])
def test_each_row_is_classified_as_if_alone(encoder, pooler):
    model = Classifier(INFO, dim=8, encoder=encoder, pooler=pooler, head=partial(ClassifierHead, hidden=6))
    got = model.classifier(model.features(Seq(IDS, IDS > 0)))
    for row, ids in enumerate(IDS):
        alone = model.classifier(model.features(Seq(ids[ids > 0][None])))[0]
        torch.testing.assert_close(got[row], alone, atol=1e-5, rtol=1e-4)


def test_protocols_fields_and_masks():
    model = Classifier(INFO, dim=8, encoder=Transformer)
    assert model.provides() == (Encodes, Embeds, Classifies)
    assert not torch.allclose(model.encode(Seq(IDS), Causal()).data, model.encode(Seq(IDS)).data)
    with pytest.raises(ValueError, match="needs a field 'label'"):
        Classifier(Info({"text": TextField("text", 13)}))


def test_a_bag_of_words_does_not_know_the_order():
    model = Classifier(INFO, dim=8, encoder=BagOfWords)
    torch.testing.assert_close(model.features(Seq(IDS[:1])), model.features(Seq(IDS[:1].flip(1))))
    ordered = Classifier(INFO, dim=8)
    assert not torch.allclose(ordered.features(Seq(IDS[:1])), ordered.features(Seq(IDS[:1].flip(1))))
