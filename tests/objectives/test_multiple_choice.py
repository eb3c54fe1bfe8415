"""Choosing among texts: the loss of each row is its own cross-entropy, whatever else is in the batch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from weft.core.batch import Clock, collate
from weft.core.example import CHOICE_LABELS, Sequences
from weft.core.fields import Frame, Info, LabelField, NumberField, TextField, TextsField
from weft.models import LanguageModel, MultipleChoiceModel
from weft.objectives import Classification, MultipleChoiceObjective, NextToken, Ordinal, Weighted
from weft.objectives.multiple_choice import log_sum_exp

QUESTION, CHOICES = TextField("question", 20), TextsField("choices", 20)
LABEL = LabelField("label", 26, labels=CHOICE_LABELS)
INFO = Info({f.name: f for f in (QUESTION, CHOICES, LABEL)}, "question")
ROWS: list[dict[str, Any]] = [
    {"question": np.array([7, 8]), "choices": Sequences((np.array([9]), np.array([10, 11, 12]))), "label": 1},
    {"question": np.array([7]), "choices": Sequences(tuple(np.array([n]) for n in (9, 13, 14, 15))), "label": 2},
    {"question": np.array([16, 17, 18]), "choices": Sequences((np.array([9, 9]), np.array([10]), np.array([11]))), "label": 0},
]


@pytest.fixture
def model() -> MultipleChoiceModel:
    torch.manual_seed(0)
    return MultipleChoiceModel(INFO, dim=8)


def batch(objective: MultipleChoiceObjective, rows: list[dict[str, Any]] = ROWS) -> Any:
    return collate([objective.prepare(row, None, None) for row in rows])


def logits_of(model: Any, objective: MultipleChoiceObjective, row: dict[str, Any]) -> torch.Tensor:
    """One choice at a time, without any padding."""
    parts = objective.prepare(row, None, None)["choices"].parts
    alone = [collate([{"x": part}])["x"] for part in parts]  # pyright: ignore[reportArgumentType]
    return torch.cat([model.choice_head(model.features(x))[:, 0] for x in alone])


def test_the_loss_is_the_cross_entropy_of_each_rows_own_choices(model: MultipleChoiceModel) -> None:
    objective = MultipleChoiceObjective(INFO, 8)
    loss = objective(model, batch(objective), Clock())["loss"]
    each = [F.cross_entropy(logits_of(model, objective, row)[None], torch.tensor([row["label"]])) for row in ROWS]
    assert loss.count == 3 and torch.allclose(loss.total, torch.stack(each).sum(), atol=1e-6)
    got, want = (torch.autograd.grad(x, list(model.parameters())) for x in (loss.total, torch.stack(each).sum()))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(got, want, strict=True))


def test_predictions_and_probabilities(model: MultipleChoiceModel) -> None:
    objective = MultipleChoiceObjective(INFO, 8)
    with torch.no_grad():
        model.choice_head.out.bias -= 100.0  # below whatever stands for a choice that is not there
    made = batch(objective)
    shares = objective.probabilities(model, made)
    assert shares.shape == (3, 4)
    for row, got, best in zip(ROWS, shares, objective.predict(model, made, None), strict=True):  # pyright: ignore[reportArgumentType]
        logits = logits_of(model, objective, row)
        assert torch.allclose(got[: len(logits)], logits.softmax(0), atol=1e-6) and not got[len(logits) :].any()
        assert best == int(logits.argmax())


def test_large_logits_do_not_overflow() -> None:
    made = batch(MultipleChoiceObjective(INFO, 8))["choices"]
    x_N = torch.randn(len(made), generator=torch.Generator().manual_seed(0)) * 1e4
    want = torch.stack([x_N[made.owner_N == row].logsumexp(0) for row in range(3)])
    assert torch.allclose(log_sum_exp(made, x_N), want)


def test_a_question_stands_before_each_choice_in_the_frame_of_its_tokenizer() -> None:
    frame = Frame((1,), (2,), (3,), segments=True)
    info = Info({**INFO.fields, "choices": replace(CHOICES, frame=frame)}, "question")
    parts = MultipleChoiceObjective(info, 8).prepare(ROWS[0], None, None)["choices"].parts
    assert [part.ids.tolist() for part in parts] == [[1, 7, 8, 2, 9, 3], [1, 7, 8, 2, 10, 11, 12, 3]]
    assert parts[1].marks["segment"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    alone = MultipleChoiceObjective(Info({"choices": CHOICES, "label": LABEL}), 8).prepare(ROWS[0], None, None)["choices"].parts
    assert [part.tolist() for part in alone] == [[9, 2], [10, 11, 12, 2]]


@pytest.mark.parametrize("asks", [True, False])
def test_a_row_costs_what_it_takes(asks: bool) -> None:
    info = INFO if asks else Info({"choices": CHOICES, "label": LABEL})
    objective = MultipleChoiceObjective(info, 8)
    told = [info.lengths(row) for row in ROWS]
    cost = objective.cost({name: np.array([t[name] for t in told], np.uint32) for name in told[0]})
    assert cost.tolist() == [collate([objective.prepare(row, None, None)]).tokens() for row in ROWS]


def test_a_language_model_chooses_by_its_last_token() -> None:
    torch.manual_seed(0)
    from weft.blocks import LastPooler

    model = LanguageModel(INFO, dim=8, pooler=LastPooler)
    assert [p.__name__ for p in model.provides()] == ["Decodes", "ModelsLanguage", "ScoresChoices"] and not hasattr(
        model, "classifier"
    )
    assert [p.__name__ for p in LanguageModel(INFO, dim=8).provides()] == ["Decodes", "ModelsLanguage"]
    objective = MultipleChoiceObjective(INFO, 8)
    row = ROWS[0]
    x = collate([objective.prepare(row, None, None)])["choices"].seq
    last = model.decode(x, None).hidden.data[torch.arange(2), x.lengths() - 1]
    assert torch.allclose(model.choice_head(last)[:, 0], logits_of(model, objective, row), atol=1e-6)
    both = Weighted(INFO, 8, parts={"choice": MultipleChoiceObjective, "lm": NextToken}, weights={"lm": 0.5})
    loss = both(model, collate([both.prepare(row, np.random.default_rng(0), None) for row in ROWS]), Clock())
    assert {name: term.count for name, term in loss.items()}.keys() == {"choice", "lm"} and torch.isfinite(loss.mean())


def test_data_that_do_not_fit_are_refused() -> None:
    one = Info({"question": QUESTION, "choices": TextField("choices", CHOICES.vocab), "label": LABEL}, data="mine")
    for part in (partial(MultipleChoiceObjective, one, 8), partial(MultipleChoiceModel, one)):
        with pytest.raises(ValueError, match=r"field 'choices' of the data \(mine\) has the kind 'text', expected 'texts'"):
            part()
    with pytest.raises(ValueError, match=r"field 'label' .* has the kind 'number', expected 'label'"):
        MultipleChoiceObjective(Info({"choices": CHOICES, "label": NumberField("label")}), 8)
    with pytest.raises(ValueError, match=r"different vocabularies \(words, text\)"):
        MultipleChoiceObjective(Info({"question": replace(QUESTION, space="words"), "choices": CHOICES, "label": LABEL}), 8)
    for other in (Classification, Ordinal):
        with pytest.raises(
            ValueError, match="the label is the index of one of the example's choices; use the objective multiple-choice"
        ):
            other(INFO, 8)
