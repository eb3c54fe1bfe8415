"""Objectives about whole texts: several labels, ordered ones, numbers, weights of classes. References: torch and sums by hand."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from weft.blocks import BagOfWords, ClassifierHead, OrdinalHead
from weft.core.batch import Clock, collate
from weft.core.fields import Info, LabelField, LabelsField, NumberField, TextField
from weft.core.seq import Seq
from weft.generate import GreedySearch
from weft.models import Classifier
from weft.objectives import Classification, MultiLabel, Ordinal, Regression

TEXT = TextField("text", 20)
ONE = Info({"text": TEXT, "label": LabelField("label", 4, labels=("a", "b", "c", "d"))})
SET = Info({"text": TEXT, "label": LabelsField("label", 4, labels=("a", "b", "c", "d"))})
NUMBER = Info({"text": TEXT, "label": NumberField("label")})


class Fixed(nn.Module):
    """A structure whose logits are given, a row for each text."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def features(self, x: Seq):
        return self.logits[: x.rows]

    def classifier(self, x_ND):
        return x_ND


def batch_of(objective, labels):
    return collate([objective.prepare({"text": np.array([7, 8]), "label": label}, None, None) for label in labels], range(9))


def total(objective, model, batch):
    return objective(model, batch, Clock())["loss"].total


def test_multi_label_is_torchs_binary_cross_entropy():
    objective = MultiLabel(SET, 8)
    wanted = np.random.default_rng(0).integers(0, 2, (5, 4)).astype(np.float32)
    logits = torch.randn(5, 4)
    batch = batch_of(objective, list(wanted))
    want = F.binary_cross_entropy(logits.sigmoid(), torch.from_numpy(wanted), reduction="sum")
    torch.testing.assert_close(total(objective, Fixed(logits), batch), want)
    assert objective(Fixed(logits), batch, Clock())["loss"].count == 5 == objective.counts(batch)["loss"]


def test_multi_label_predicts_sets():
    logits = torch.tensor([[1.0, -1.0, 3.0, -1.0], [-1.0, -2.0, -3.0, -4.0]])
    batch = batch_of(MultiLabel(SET, 8), [np.zeros(4, np.float32)] * 2)
    assert MultiLabel(SET, 8).predict(Fixed(logits), batch, GreedySearch()) == [[0, 2], []]
    assert MultiLabel(SET, 8, threshold=0.9).predict(Fixed(logits), batch, GreedySearch()) == [[2], []]


def test_ordinal_is_coral_with_the_ordered_head():
    """Written out: one score, thresholds, and a binary cross-entropy for each of them."""
    model = Classifier(ONE, dim=8, encoder=BagOfWords, head=OrdinalHead).eval()
    with torch.no_grad():
        model.classifier.gaps.add_(torch.randn(2))
    objective = Ordinal(ONE, 8)
    labels = [0, 3, 1, 2, 2]
    batch = batch_of(objective, labels)
    above_BK = model.classifier.score(model.features(batch["text"])) - model.classifier.thresholds()
    levels_BK = (torch.tensor(labels)[:, None] > torch.arange(3)).float()
    want = F.binary_cross_entropy_with_logits(above_BK, levels_BK, reduction="sum")
    torch.testing.assert_close(total(objective, model, batch), want)
    assert objective.predict(model, batch, GreedySearch()) == (above_BK > 0).sum(1).tolist()


def test_ordinal_costs_more_the_farther_away():
    losses = []
    for label in range(4):
        objective = Ordinal(ONE, 8)
        logits = torch.tensor([[9.0, 0.0, 0.0, 0.0]])
        losses.append(float(total(objective, Fixed(logits), batch_of(objective, [label]))))
    assert losses == sorted(losses) and losses[3] > losses[1] + 5


def test_ordinal_predicts_the_median():
    logits = torch.tensor([[0.4, 0.0, 0.25, 0.35], [0.0, 0.0, 0.0, 1.0], [0.6, 0.0, 0.0, 0.4]]).clamp(min=1e-9).log()
    objective = Ordinal(ONE, 8)
    batch = batch_of(objective, [0, 0, 0])
    assert objective.predict(Fixed(logits), batch, GreedySearch()) == [2, 3, 0]
    torch.testing.assert_close(objective.probabilities(Fixed(logits), batch), logits.exp())


def test_regression_is_the_squared_error():
    objective = Regression(NUMBER, 8)
    numbers = [0.5, -2.0, 3.25]
    guesses = torch.tensor([[0.0], [-2.0], [1.25]])
    batch = batch_of(objective, numbers)
    torch.testing.assert_close(total(objective, Fixed(guesses), batch), torch.tensor(0.25 + 0.0 + 4.0))
    assert objective.predict(Fixed(guesses), batch, GreedySearch()) == [0.0, -2.0, 1.25]


@pytest.mark.parametrize("objective", [MultiLabel, Ordinal, Regression])
def test_a_classifier_learns_it(objective):
    info = {MultiLabel: SET, Ordinal: ONE, Regression: NUMBER}[objective]
    label = {MultiLabel: lambda i: np.eye(4, dtype=np.float32)[i], Ordinal: int, Regression: lambda i: i / 4}[objective]
    torch.manual_seed(0)
    head = OrdinalHead if objective is Ordinal else ClassifierHead
    model, goal = Classifier(info, dim=8, encoder=BagOfWords, head=head), objective(info, 8)
    batch = collate([goal.prepare({"text": np.array([7 + i]), "label": label(i)}, None, None) for i in range(4)], range(4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(80):
        optimizer.zero_grad()
        goal(model, batch, Clock()).mean().backward()
        optimizer.step()
    found = goal.predict(model, batch, GreedySearch())
    want = {MultiLabel: [[0], [1], [2], [3]], Ordinal: [0, 1, 2, 3], Regression: pytest.approx([0, 0.25, 0.5, 0.75], abs=0.1)}
    assert found == want[objective]


def test_weights_are_torchs():
    weights = {"a": 3.0, "c": 0.0, "d": 0.5}
    objective, labels = Classification(ONE, 8, weights=weights), [0, 1, 2, 3, 0]
    model, batch = Classifier(ONE, dim=8, encoder=BagOfWords), batch_of(objective, labels)
    logits = model.classifier(model.features(batch["text"]))
    want = F.cross_entropy(logits, torch.tensor(labels), torch.tensor([3.0, 1.0, 0.0, 0.5]), reduction="sum")
    torch.testing.assert_close(total(objective, model, batch), want)
    assert objective.counts(batch) == {"loss": 5}
    plain = F.cross_entropy(logits, torch.tensor(labels), reduction="sum")
    torch.testing.assert_close(total(objective.eval(), model, batch), plain)  # evaluation is of the plain loss


def test_balanced_weights_are_scikit_learns():
    sklearn = import_module("sklearn.utils.class_weight")
    labels = np.array([0] * 6 + [1] * 3 + [3])
    dataset = [{"text": np.array([7]), "label": int(label)} for label in labels]
    objective = Classification(ONE, 8, weights="balanced")
    objective.setup(None, dataset)
    want = sklearn.compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=labels)
    np.testing.assert_allclose(objective.class_weights.weight_C[[0, 1, 3]], want, rtol=1e-6)
    # over the training data weights are 1 in the mean, so the count stays the number of texts
    assert float(objective.class_weights.weight_C[labels].mean()) == pytest.approx(1.0)
    assert not objective.state_dict()  # counted anew at each start


def test_weights_for_classes_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="weights for unknown classes: x; the classes of 'label' are a, b, c, d"):
        Classification(ONE, 8, weights={"x": 1.0, "a": 2.0})
    unread = Info({"text": TEXT, "label": LabelField("label", 2)})
    Classification(unread, 8, weights={"x": 1.0})  # before the data is read, its classes have no names


@pytest.mark.parametrize(
    ("objective", "info", "message"),
    [
        (Classification, SET, "has the kind 'labels', expected 'label'; use the objective multi-label"),
        (Classification, NUMBER, "has the kind 'number', expected 'label'; use the objective regression"),
        (MultiLabel, ONE, "has the kind 'label', expected 'labels'; set label_type: multiple"),
        (Regression, ONE, "has the kind 'label', expected 'number'; set label_type: number"),
        (Ordinal, NUMBER, "has the kind 'number', expected 'label'"),
    ],
)
def test_the_wrong_kind_of_answer_is_refused(objective, info, message):
    with pytest.raises(ValueError, match=message):
        objective(info, 8)


def test_recipe_words_for_weights():
    from weft.core.contracts import Objective
    from weft.recipe import RecipeParser, parse

    for text, want in (("balanced", "balanced"), ("{a: 2}", {"a": 2.0}), ("null", None)):
        parser = RecipeParser()
        node = parse(f"part: {{type: classification, weights: {text}}}", "r.yaml")
        part = parser.read(Objective, node.value["part"], "part")
        assert not parser.problems
        assert part.keywords["weights"] == want
    for text in ("equal", "{a: -1}"):
        parser = RecipeParser()
        parser.read(Objective, parse(f"part: {{type: classification, weights: {text}}}", "r.yaml").value["part"], "part")
        assert parser.problems


def test_smoothing_and_weights_together():
    objective = Classification(ONE, 8, label_smoothing=0.2, weights={"b": 2.0})
    head = partial(ClassifierHead, dropout=0.0)
    model = Classifier(ONE, dim=8, encoder=BagOfWords, head=head)
    batch = batch_of(objective, [1, 2])
    logits = model.classifier(model.features(batch["text"]))
    each = F.cross_entropy(logits, torch.tensor([1, 2]), reduction="none", label_smoothing=0.2)
    torch.testing.assert_close(total(objective, model, batch), 2 * each[0] + each[1])
