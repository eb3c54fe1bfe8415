"""Tags of words, and an encoder that also predicts the next word: losses by hand, padding, and what may be seen."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from weft.blocks import CNN, CRF, LSTM, BagOfWords, CharCNN, SumEmbedder, Transformer
from weft.core.batch import Clock, collate
from weft.core.contracts import Embeds, Encodes, Tags
from weft.core.example import MarkedIds, Targets
from weft.core.fields import Info, LabelField, TagsField, TextField
from weft.core.seq import Seq
from weft.generate import GreedySearch
from weft.models import Classifier, Tagger
from weft.objectives import EncoderLM, Tagging, Weighted

TAGS = TagsField("tags", 3, labels=("O", "B", "I"))
INFO = Info({"text": TextField("text", 20, words=True), "tags": TAGS})
SPELLED = Info({"text": TextField("text", 20, words=True, characters=11), "tags": TAGS})
ROWS = [
    {"text": np.array([7, 8, 9, 10]), "tags": Targets("text", np.array([0, 1, 3]), np.array([1, 2, 0]))},  # 9 belongs to word 8
    {"text": np.array([11]), "tags": Targets("text", np.array([0]), np.array([0]))},
]


def batch_of(objective, rows=ROWS):
    return collate([objective.prepare(row, None, None) for row in rows], range(len(rows)))


def test_the_loss_is_over_first_tokens_of_words():
    model, objective = Tagger(INFO, dim=8).eval(), Tagging(INFO, 8)
    batch = batch_of(objective)
    loss = objective(model, batch, Clock())["loss"]
    assert loss.count == 4 and objective.counts(batch) == {"loss": 4}
    want = torch.zeros(())
    for row in ROWS:
        hidden = model.encode(Seq(torch.tensor([*row["text"], 2])[None])).data[0][row["tags"].at]
        want = want + F.cross_entropy(model.tag_head(hidden), torch.tensor(row["tags"].ids), reduction="sum")
    torch.testing.assert_close(loss.total, want)


def test_predictions_are_one_list_of_tags_a_row_whatever_the_batch():
    model, objective = Tagger(INFO, dim=8).eval(), Tagging(INFO, 8)
    together = objective.predict(model, batch_of(objective), GreedySearch())
    assert [len(row) for row in together] == [3, 1]
    assert together == [objective.predict(model, batch_of(objective, [row]), GreedySearch())[0] for row in ROWS]


def test_weights_count_words():
    objective = Tagging(INFO, 8, weights="balanced")
    objective.setup(None, ROWS)
    torch.testing.assert_close(objective.class_weights.weight_C, torch.tensor([4 / (3 * 2), 4 / 3, 4 / 3]))
    model, plain, batch = Tagger(INFO, dim=8).eval(), Tagging(INFO, 8), batch_of(objective)
    with torch.no_grad():
        want = plain(model, batch, Clock())["loss"].total
        assert not torch.isclose(objective(model, batch, Clock())["loss"].total, want)
        torch.testing.assert_close(objective.eval()(model, batch, Clock())["loss"].total, want)


def test_a_row_without_words_has_nothing_to_learn():
    empty = {"text": np.array([], np.int64), "tags": Targets("text", np.array([], np.int64), np.array([], np.int64))}
    assert Tagging(INFO, 8).prepare(empty, None, None) is None


def test_spelled_words_are_tagged():
    rng = np.random.default_rng(0)
    model, objective = Tagger(SPELLED, dim=8, embedder=CharCNN).eval(), Tagging(SPELLED, 8)
    rows = [SPELLED.synthetic_example(rng, n) for n in (5, 2)]
    assert isinstance(rows[0]["text"], MarkedIds)
    alone = [objective(model, batch_of(objective, [row]), Clock())["loss"].total for row in rows]
    torch.testing.assert_close(objective(model, batch_of(objective, rows), Clock())["loss"].total, alone[0] + alone[1])


def test_protocols_and_refusals():
    assert Tagger(INFO, dim=8).provides() == (Encodes, Embeds, Tags)
    labeled = Info({"text": TextField("text", 20), "tags": LabelField("tags", 3)})
    for build in (partial(Tagger, labeled), partial(Tagging, labeled, 8)):
        with pytest.raises(ValueError, match=r"field 'tags' .*has the kind 'label', expected 'tags'"):
            build()


# ---------------------------------------------------------------------------------------------------- the second task


@pytest.mark.parametrize("encoder", [partial(Transformer, layers=2), partial(CNN, layers=3, dilations=[1, 2]), BagOfWords])
@pytest.mark.parametrize("info", [INFO, SPELLED], ids=["plain", "spelled"])
def test_what_is_to_be_predicted_is_not_seen(encoder, info):
    """Zero Jacobian of the loss at each target to the vectors of that token and of all later ones."""
    embedder = CharCNN if info is SPELLED else SumEmbedder
    model = Tagger(info, dim=8, embedder=embedder, encoder=encoder).double().eval()
    objective = EncoderLM(info, 8).double()
    row = info.synthetic_example(np.random.default_rng(0), 6)
    batch = batch_of(objective, [row])
    vectors = model.embedder(batch["input"]).data.detach().requires_grad_()
    model.embedder = Given(vectors)
    picks = batch["picks"]
    nll_N = objective.head.nll(picks.gather(_encode(objective, model, batch)), picks.target_N)
    for n, position in enumerate(picks.index_N.tolist()):
        (gradient,) = torch.autograd.grad(nll_N[n], vectors, retain_graph=True)
        seen_T = gradient[0].abs().sum(-1) > 0
        assert seen_T[position] and not seen_T[position + 1 :].any()  # input[t] is the token before target[t]


class Given(nn.Module):
    """Vectors instead of an embedder."""

    def __init__(self, vectors):
        super().__init__()
        self.vectors = vectors

    def forward(self, x):
        return x.with_data(self.vectors)


def _encode(objective, model, batch):
    """What the objective itself asks the model for."""
    asked = []

    class Asked:
        def encode(self, x, mask):
            asked.append(model.encode(x, mask))
            return asked[-1]

    objective(Asked(), batch, Clock())
    return asked[0]


def test_inputs_are_shifted_and_rare_words_unknown():
    objective = EncoderLM(INFO, 8, vocab_size=10)
    made = objective.prepare(ROWS[0], None, None)
    assert made["input"].tolist() == [1, 7, 8, 9, 10]
    assert made["picks"].ids.tolist() == [7, 8, 9, 3, 2]
    assert objective.head(torch.ones(1, 8)).shape == (1, 10)
    assert EncoderLM(INFO, 8, vocab_size=1000).vocab_size == 20


def test_an_encoder_that_looks_ahead_is_refused():
    objective = EncoderLM(INFO, 8)
    model = Tagger(INFO, dim=8, encoder=partial(LSTM, bidirectional=True))
    with pytest.raises(ValueError, match="LSTM does not support the mask Causal"):
        objective(model, batch_of(objective), Clock())


def test_two_tasks_on_one_encoder():
    objective = Weighted(INFO, 8, parts={"tagging": Tagging, "reading": EncoderLM}, weights={"reading": 0.1})
    model = Tagger(INFO, dim=8, encoder=CNN)
    batch = batch_of(objective)
    loss = objective(model, batch, Clock())
    assert {name: term.count for name, term in loss.items()} == objective.counts(batch) == {"tagging": 4, "reading": 7}
    loss.mean().backward()
    assert all(p.grad is not None for p in (*model.parameters(), *objective.parameters()))
    assert [len(row) for row in objective.predict(model.eval(), batch, GreedySearch())] == [3, 1]


def test_any_structure_that_encodes_will_do():
    info = Info({"text": TextField("text", 20), "label": LabelField("label", 2)})
    objective = EncoderLM(info, 8)
    batch = collate([objective.prepare({"text": np.array([7, 8]), "label": 1}, None, None)])
    assert objective(Classifier(info, dim=8, encoder=Transformer), batch, Clock())["loss"].count == 3
    assert objective.metric_values({"loss": 0.0}) == {"perplexity": 1.0}


# ------------------------------------------------------------------------------------------------------------- a chain


def test_with_a_chain_all_tags_of_a_text_are_judged_together():
    model, objective = Tagger(INFO, dim=8, chain=CRF).eval(), Tagging(INFO, 8)
    with torch.no_grad():
        model.chain.pair.copy_(torch.randn(3, 3))
    batch = batch_of(objective)
    want, best = torch.zeros(()), []
    for row in ROWS:
        score_TC = model.tag_head(model.encode(Seq(torch.tensor([*row["text"], 2])[None])).data[0][row["tags"].at])
        every = torch.ones(1, len(score_TC)).bool()
        want = want + model.chain.nll(score_TC[None], torch.tensor(row["tags"].ids)[None], every).sum()
        best.append(model.chain.best(score_TC[None], every)[0].tolist())
    loss = objective(model, batch, Clock())["loss"]
    torch.testing.assert_close(loss.total, want)
    assert loss.count == 4 and objective.counts(batch) == {"loss": 4}
    assert objective.predict(model, batch, GreedySearch()) == best
    with torch.device("meta"):
        unreal = Tagger(INFO, dim=8, chain=CRF)
    assert objective(unreal, batch.to("meta"), Clock())["loss"].total.shape == ()


@pytest.mark.parametrize("option", [{"label_smoothing": 0.1}, {"weights": "balanced"}])
def test_options_about_single_tags_are_refused_with_a_chain(option):
    objective = Tagging(INFO, 8, **option)
    with pytest.raises(ValueError, match=f"{next(iter(option))} applies to the loss of single tags, but the structure has a CRF"):
        objective(Tagger(INFO, dim=8, chain=CRF), batch_of(objective), Clock())
