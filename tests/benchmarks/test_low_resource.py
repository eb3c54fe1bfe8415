"""Classes from few labels: the same texts for both, and a space that tells classes apart is found to."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from benchmarks.low_resource import accuracy, compare, features, sample_balanced

from weft.core.contracts import Codec
from weft.core.fields import Info, LabelField, TextField
from weft.core.seq import Seq
from weft.models import LanguageModel, TextEncoder, TextVAE

INFO = Info(
    {
        "source": TextField("source", 20),
        "target": TextField("target", 20),
        "label": LabelField("label", 2, labels=("bad", "good")),
    },
    target="target",
)


class Rows:
    """A class is told by one of two words."""

    def __init__(self, number, seed):
        rng = np.random.default_rng(seed)
        classes = rng.integers(0, 2, number).tolist()
        self.rows = [{"label": y, "source": np.array([7 + y, *rng.integers(9, 20, rng.integers(1, 5))])} for y in classes]
        self.lengths = {"source": np.array([len(row["source"]) for row in self.rows])}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, row):
        return self.rows[row]


@pytest.fixture
def run():
    torch.manual_seed(0)
    model = TextVAE(INFO, latent=3, encoder=partial(TextEncoder, dim=16, head=None), decoder=partial(LanguageModel, dim=8)).eval()
    splits = {"train": Rows(200, 0), "valid": Rows(80, 1)}
    return SimpleNamespace(model=model, codec=Codec(INFO, {}), name="run", dataset=lambda split: (split, splits[split]))


def test_features_are_in_the_order_of_the_rows_and_free_of_padding(run):
    dataset = run.dataset("train")[1]
    rows = [5, 0, 17, 3]
    together = features(run, dataset, rows)
    assert {name: x.shape for name, x in together.items()} == {"latent means": (4, 3), "pooled states": (4, 16)}
    for i, row in enumerate(rows):
        for name, x in features(run, dataset, [row]).items():
            np.testing.assert_allclose(together[name][i], x[0], rtol=1e-4, atol=1e-5)


def test_a_plain_encoder_is_the_mean_of_its_states_and_others_are_refused(run):
    dataset, rows = run.dataset("train")[1], [5, 0, 17]
    encoder = TextEncoder(INFO.single_text("source"), dim=16, head=None).eval()
    found = features(SimpleNamespace(model=encoder, codec=run.codec, name="plain"), dataset, rows)
    assert found.keys() == {"plain encoder"}
    for i, row in enumerate(rows):
        read = Seq(torch.tensor([[*dataset[row]["source"], INFO.text("source").special.eos]]))
        wanted = encoder.encode(read).data.mean(1)[0].detach().numpy()
        np.testing.assert_allclose(found["plain encoder"][i], wanted, rtol=1e-4, atol=1e-5)
    decoder = LanguageModel(INFO.single_text("target"), dim=8)
    with pytest.raises(ValueError, match="decoder neither has a latent space nor encodes"):
        features(SimpleNamespace(model=decoder, codec=run.codec, name="decoder"), dataset, rows)


def test_a_sample_is_balanced_and_follows_from_the_seed():
    labels = np.array([0] * 30 + [1] * 10)
    rows = sample_balanced(labels, 9, 1)
    assert np.bincount(labels[rows]).tolist() == [5, 4] and len(set(rows.tolist())) == 9
    assert sample_balanced(labels, 9, 1).tolist() == rows.tolist() != sample_balanced(labels, 9, 2).tolist()
    with pytest.raises(ValueError, match="22 labels are more than there are: a class has 10 texts"):
        sample_balanced(labels, 22, 1)


def test_accuracy_is_on_texts_that_were_not_seen():
    rng = np.random.default_rng(0)
    label = np.arange(40) % 2
    told = np.stack([label + 0.1 * rng.normal(size=40), 1000 * rng.normal(size=40)], 1)
    assert accuracy(told[:20], label[:20], told[20:], label[20:]) == 1.0
    assert accuracy(told[:20], label[:20], told[20:], 1 - label[20:]) == 0.0


def test_compare(run):
    found = compare(run, (10, 60), seeds=2)
    assert found.keys() == {"latent means", "pooled states"}
    assert all(len(accuracies) == 2 for by in found.values() for accuracies in by.values())
    assert np.mean(found["pooled states"]["60"]) > 0.75  # which word there is is in the mean of the states
