"""GPT's ways to read structured inputs, from a decoder alone: pairs in one order and in both, choices, all with the loss of the
language model. Radford et al. 2018, section 3.3."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from weft.core.batch import Batch, Clock, collate
from weft.core.example import CHOICE_LABELS, MarkedIds, Sequences
from weft.core.fields import Frame, ImageField, Info, LabelField, NumberField, Special, TextField, TextsField
from weft.core.seq import Seq
from weft.models import LanguageModel, Seq2Seq, gpt
from weft.objectives import Classification, MultipleChoiceObjective, NextToken, Ordinal, Regression, Weighted
from weft.objectives.inputs import EncoderInput

VOCAB, DIM = 30, 16
BOS, END, BETWEEN = Special.bos, Special.eos, Special.sep
TEXT = Info({"text": TextField("text", VOCAB)})
LABELS = {
    "label": LabelField("label", 3, labels=("a", "b", "c")),
    "number": NumberField("label"),
}
CHOICES = Info(
    {
        "question": TextField("question", VOCAB),
        "choices": TextsField("choices", VOCAB),
        "label": LabelField("label", len(CHOICE_LABELS), labels=CHOICE_LABELS),
    },
    "question",
)


def pairs(kind: str = "label", **of_texts: Any) -> Info:
    texts = {name: TextField(name, VOCAB, **of_texts) for name in ("first", "second")}
    return Info({**texts, "label": LABELS[kind]}, "first")


def ids(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(7, VOCAB, size)


PAIRS = [{"first": ids(i, 2 + i), "second": ids(i + 50, 5 - i), "label": i % 3} for i in range(4)]
QUESTIONS = [
    {"question": ids(i, 3), "choices": Sequences(tuple(ids(9 * i + j, 1 + j) for j in range(2 + i))), "label": i}
    for i in range(3)
]


def model_for(info: Info, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    structure = gpt(
        dim=DIM, layers=2, heads=2, length=20, dropout=0.0, task="multiple-choice" if "choices" in info else "classification"
    )
    model = structure(info).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3)
    return model


def turned(example: dict[str, Any]) -> dict[str, Any]:
    return {**example, "first": example["second"], "second": example["first"]}


def batch(objective: Any, examples: Any) -> Batch:
    return collate([objective.prepare(example, None, None) for example in examples])


@torch.no_grad()
def mean(objective: Any, model: Any, examples: Any) -> float:
    return float(objective.eval()(model, batch(objective, examples), Clock()).mean())


# ---------------------------------------------------------------------------------------------------------- both orders


def test_both_orders_are_read_with_the_delimiter_and_their_vectors_added() -> None:
    info = pairs()
    model, objective = model_for(info), Classification(info, DIM, pair_order="both")
    made = batch(objective, PAIRS)
    one, two = PAIRS[0]["first"].tolist(), PAIRS[0]["second"].tolist()
    assert made["text"].data[0].tolist()[: len(one) + len(two) + 2] == [*one, BETWEEN, *two, END]
    assert made["reversed"].data[0].tolist()[: len(one) + len(two) + 2] == [*two, BETWEEN, *one, END]
    with torch.no_grad():
        alone = Classification(info, DIM)
        states = [model.features(batch(alone, rows)["text"]) for rows in (PAIRS, [turned(row) for row in PAIRS])]
        expected = model.classifier(states[0] + states[1]).softmax(-1)
        assert torch.allclose(objective.probabilities(model, made), expected, atol=1e-6)


@pytest.mark.parametrize(("make", "kind"), [(Classification, "label"), (Ordinal, "label"), (Regression, "number")])
@pytest.mark.parametrize("bos", [False, True])
def test_with_both_orders_it_is_all_the_same_which_text_is_first(make: Any, kind: str, bos: bool) -> None:
    info = pairs(kind)
    model = model_for(info)
    both, one = (make(info, DIM, pair_order=order, bos=bos) for order in ("both", "given"))
    other = [turned(row) for row in PAIRS]
    with torch.no_grad():
        answers = [
            objective.input.features(model, batch(objective, rows)) for objective in (both, one) for rows in (PAIRS, other)
        ]
    assert torch.allclose(answers[0], answers[1], atol=1e-6)
    assert (answers[2] - answers[3]).abs().max() > 1e-3
    assert mean(both, model, PAIRS) == pytest.approx(mean(both, model, other), abs=1e-6)
    assert abs(mean(one, model, PAIRS) - mean(one, model, other)) > 1e-4


def test_a_text_alone_is_read_with_its_end_at_which_it_is_classified() -> None:
    """Start, text, extract (section 3.3); where a published tokenizer puts nothing around a text, nothing is there."""
    row, label = {"text": np.array([7, 8]), "label": 1}, {"label": LABELS["label"]}
    own, bare = Info({**TEXT.fields, **label}), Info({"text": TextField("text", VOCAB, frame=Frame((), (), ())), **label})
    assert batch(Classification(own, DIM), [row])["text"].data.tolist() == [[7, 8, END]]
    assert batch(Classification(own, DIM, bos=True), [row])["text"].data.tolist() == [[BOS, 7, 8, END]]
    assert batch(Classification(bare, DIM), [row])["text"].data.tolist() == [[7, 8]]
    model, read = model_for(own), Seq(torch.tensor([[7, 8, END, 0]]), torch.tensor([[True, True, True, False]]))
    with torch.no_grad():  # the state at EOS, which has seen all of the text
        last = model.decode(read, None).hidden.data[:, 2]
        assert torch.allclose(model.features(read), last, atol=1e-6)


def test_both_orders_cost_twice_and_need_a_pair() -> None:
    lengths = {"first": np.array([3, 4]), "second": np.array([5, 1])}
    assert Classification(pairs(), DIM, pair_order="both").cost(lengths).tolist() == [16, 10]
    assert Classification(pairs(), DIM).cost(lengths).tolist() == [8, 5]
    with pytest.raises(
        ValueError, match=r"pair_order: both needs a pair of texts, but the inputs of the data \(data\) are: text; remove"
    ):
        Classification(Info({**TEXT.fields, "label": LABELS["label"]}), DIM, pair_order="both")


def test_where_a_tokenizer_puts_nothing_between_two_texts_its_separator_stands_there() -> None:
    bare = Frame((), (), ())
    info = pairs(frame=bare)
    row = {"first": np.array([7]), "second": np.array([8]), "label": 0}
    assert EncoderInput(info)(row).tolist() == [7, BETWEEN, 8]
    assert EncoderInput(pairs(frame=bare, special=Special(sep=-1)))(row).tolist() == [7, 8]
    asked = replace(CHOICES, fields=CHOICES.fields | {f.name: replace(f, frame=bare) for f in CHOICES.tokenized()})
    read = MultipleChoiceObjective(asked, DIM).prepare(QUESTIONS[0], None, None)["choices"].parts[0].tolist()
    assert read == [*QUESTIONS[0]["question"], BETWEEN, *QUESTIONS[0]["choices"].parts[0]]


def test_bos_comes_first_where_it_is_requested() -> None:
    made = Classification(pairs(), DIM, pair_order="both", bos=True).prepare(PAIRS[0], None, None)
    assert made["text"][0] == made["reversed"][0] == BOS and made["text"][-1] == END
    assert all(
        part[0] == BOS
        for part in MultipleChoiceObjective(CHOICES, DIM, bos=True).prepare(QUESTIONS[0], None, None)["choices"].parts
    )
    lengths = {"question": np.array([3]), "choices": np.array([3]), "choices/sizes": np.array([2])}
    assert (
        MultipleChoiceObjective(CHOICES, DIM, bos=True).cost(lengths)[0]
        == MultipleChoiceObjective(CHOICES, DIM).cost(lengths)[0] + 2
    )
    image = Info({"image": ImageField("image", 1, 4, 4), "label": LABELS["label"]}, "image")
    with pytest.raises(ValueError, match="bos: true needs a text with a BOS token, but 'image' has none"):
        Classification(image, DIM, bos=True)


# ------------------------------------------------------------------------------------------------- the auxiliary loss


def plain(text: np.ndarray) -> dict[str, np.ndarray]:
    return {"text": text}


def test_the_loss_of_a_pair_is_that_of_its_texts_as_one() -> None:
    info = pairs()
    model = model_for(info)
    as_one = [plain(np.concatenate([row["first"], [BETWEEN], row["second"]])) for row in PAIRS]
    whole, text = NextToken(info, DIM, full_sequence=True), NextToken(TEXT, DIM)
    assert mean(whole, model, PAIRS) == pytest.approx(mean(text, model, as_one), rel=1e-6)
    made = whole.prepare(PAIRS[1], None, None)
    assert made["input"].tolist() == [BOS, *as_one[1]["text"]] and made["picks"].ids.tolist() == [*as_one[1]["text"], END]
    assert whole.cost({"first": np.array([3]), "second": np.array([4])}).tolist() == [9]
    # what is classified is the same sequence, with the EOS whose state is classified
    read = Classification(info, DIM, bos=True).prepare(PAIRS[1], None, None)["text"]
    assert read.tolist() == [*made["input"].tolist(), END]


def test_the_loss_of_a_question_is_that_of_its_right_choice() -> None:
    model = model_for(CHOICES)
    right = [row["choices"].parts[row["label"]] for row in QUESTIONS]
    as_one = [plain(np.concatenate([row["question"], [BETWEEN], text])) for row, text in zip(QUESTIONS, right, strict=True)]
    whole = NextToken(CHOICES, DIM, full_sequence=True)
    assert mean(whole, model, QUESTIONS) == pytest.approx(mean(NextToken(TEXT, DIM), model, as_one), rel=1e-6)
    read = MultipleChoiceObjective(CHOICES, DIM, bos=True).prepare(QUESTIONS[2], None, None)["choices"].parts[2]
    assert read.tolist() == [*whole.prepare(QUESTIONS[2], None, None)["input"].tolist(), END]
    alone = Info({n: CHOICES[n] for n in ("choices", "label")}, "choices")
    assert NextToken(alone, DIM, full_sequence=True).prepare(QUESTIONS[2], None, None)["picks"].ids.tolist() == [*right[2], END]


def test_a_text_alone_is_predicted_as_ever() -> None:
    rows = [plain(ids(i, 4 + i)) for i in range(3)]
    model = LanguageModel(TEXT, dim=DIM).eval()
    assert mean(NextToken(TEXT, DIM, full_sequence=True), model, rows) == mean(NextToken(TEXT, DIM), model, rows)
    assert NextToken(TEXT, DIM, full_sequence=True).prepare(plain(np.array([], np.int64)), None, None) is None


def test_characters_stay_with_their_words() -> None:
    info = pairs(characters=15)
    row = {name: MarkedIds(np.array([7, 8]), {"characters": np.array([[9], [10]])}) for name in ("first", "second")}
    made = NextToken(info, DIM, full_sequence=True).prepare(row, None, None)
    assert made["input"].ids.tolist() == [BOS, 7, 8, BETWEEN, 7, 8]
    assert made["input"].marks["characters"][:, 0].tolist() == [0, 9, 10, 0, 9, 10]


@pytest.mark.parametrize("of", ["pairs", "choices"])
def test_both_losses_together_are_gpts(of: str) -> None:
    """L3 = L2 + 0.5 L1."""
    info, examples = (pairs(), PAIRS) if of == "pairs" else (CHOICES, QUESTIONS)
    model = model_for(info)
    answer = partial(Classification, pair_order="both", bos=True) if of == "pairs" else partial(MultipleChoiceObjective, bos=True)
    parts = {"answer": answer, "lm": partial(NextToken, full_sequence=True)}
    together = Weighted(info, DIM, parts=parts, weights={"lm": 0.5})
    alone = [mean(part(info, DIM), model, examples) for part in parts.values()]
    assert mean(together, model, examples) == pytest.approx(alone[0] + 0.5 * alone[1], rel=1e-6)
    together.train()(model, batch(together, examples), Clock()).mean().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None]


def test_only_a_decoder_alone_predicts_the_whole() -> None:
    info = pairs()
    model = Seq2Seq(Info({"source": TextField("source", VOCAB), "target": TextField("target", VOCAB)}, "target"), dim=DIM)
    whole = NextToken(info, DIM, full_sequence=True)
    with pytest.raises(ValueError, match="NextToken needs a structure that provides ModelsLanguage, but Seq2Seq does not"):
        whole(model, batch(whole, PAIRS), Clock())
    two = Info({"first": TextField("first", 9, space="a"), "second": TextField("second", 9, space="b")}, "first")
    with pytest.raises(ValueError, match="needs texts of one id space"):
        NextToken(two, DIM, full_sequence=True)
    with pytest.raises(ValueError, match="a language model has no source text"):
        whole.predict(model, batch(whole, PAIRS), None)  # pyright: ignore[reportArgumentType]
