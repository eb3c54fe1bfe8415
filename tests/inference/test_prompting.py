"""Prompt templates, demonstrations, and the scores of answers."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

import weft
from weft.core.seq import Seq
from weft.data import Dates, PlainText, Word
from weft.inference.prompting import PromptTemplate, log_probabilities
from weft.learning import Gradient
from weft.models import LanguageModel
from weft.objectives import NextToken

TEMPLATE = PromptTemplate("Review: {text}\nIt was {answer}", {"pos": "good", "neg": "very bad"})
POOL = [({"text": f"row {i}"}, "pos" if i % 2 else "neg") for i in range(6)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> weft.TrainedRun:
    folder = tmp_path_factory.mktemp("lm")
    (folder / "text.txt").write_text("Review: a film\nIt was good\nReview: a play\nIt was very bad\n" * 5)
    data = partial(PlainText, train=str(folder / "text.txt"), tokenizer=partial(Word, vocab_size=100), validation_fraction=0.0)
    learning = partial(Gradient, steps=3, batch_tokens=100)
    run = weft.Run(data=data, structure=partial(LanguageModel, dim=16), objective=NextToken, learning=learning)
    return run.train(folder / "run", quiet=True)


def test_a_prompt_consists_of_demonstrations_and_the_query() -> None:
    shown = [({"text": "fine"}, "pos"), ({"text": "dull"}, "neg")]
    wanted = "Review: fine\nIt was good\n\nReview: dull\nIt was very bad\n\nReview: new\nIt was"
    assert TEMPLATE.format({"text": "new"}, shown) == wanted


def test_demonstrations_are_sampled_without_replacement_and_reproducibly() -> None:
    template = PromptTemplate(TEMPLATE.template, TEMPLATE.verbalizer, shots=4)
    first, again, other = template.demonstrations(POOL, 0), template.demonstrations(POOL, 0), template.demonstrations(POOL, 1)
    assert first == again and first != other
    assert len({row["text"] for row, _ in first}) == 4


def test_the_score_is_the_summed_log_probability_of_the_answer(run: weft.TrainedRun) -> None:
    prompt, answer = "Review: a film It was", " very bad"
    found, tokens = log_probabilities(run, [(prompt, answer), (prompt, " good")])
    codec = run.codec
    assert codec is not None and tokens.tolist() == [2, 1]
    ids = codec.encode("text", prompt + answer).tolist()
    bos = codec.info["text"].special.bos
    with torch.no_grad():
        hidden = run.model.decode(Seq(torch.tensor([[bos, *ids[:-1]]])), None).hidden.data[0]
        logp = run.model.head(hidden).log_softmax(-1)
    wanted = sum(float(logp[i, ids[i]]) for i in (len(ids) - 2, len(ids) - 1))
    assert found[0] == pytest.approx(wanted, abs=1e-4)
    alone, _ = log_probabilities(run, [(prompt, " good")])
    assert found[1] == pytest.approx(alone[0], abs=1e-5)  # independent of the batch


def test_length_normalization_and_contextual_calibration(run: weft.TrainedRun) -> None:
    rows = [{"text": "a film"}, {"text": "a play"}]
    plain = PromptTemplate(TEMPLATE.template, TEMPLATE.verbalizer, normalize="none").scores(run, rows)
    by_length = TEMPLATE.scores(run, rows)
    assert np.allclose(by_length, plain / [1, 2], atol=1e-5)
    empty = PromptTemplate(TEMPLATE.template, TEMPLATE.verbalizer, normalize="none").scores(run, [{"text": "N/A"}])
    calibrated = PromptTemplate(TEMPLATE.template, TEMPLATE.verbalizer, normalize="none", calibrate=True).scores(run, rows)
    assert np.allclose(calibrated, plain - empty, atol=1e-4)
    assert TEMPLATE.classify(run, rows) == [["pos", "neg"][i] for i in by_length.argmax(1)]


def test_invalid_templates_and_demonstrations_are_rejected(run: weft.TrainedRun) -> None:
    with pytest.raises(ValueError, match="got 1 answers; classification needs at least two"):
        PromptTemplate("{text}", {"a": "x"})
    for template in ("{text} {answer", "{text {answer}", "text} {answer}"):
        with pytest.raises(ValueError, match="the template has an unmatched brace at"):
            PromptTemplate(template, {"a": "x", "b": "y"})
    assert PromptTemplate("{ {text} }", {"a": "x", "b": "y"}).format({"text": "t"}) == "{ t }"
    with pytest.raises(ValueError, match="shots is -1"):
        PromptTemplate("{text}", {"a": "x", "b": "y"}, shots=-1)
    with pytest.raises(ValueError, match="the template has the column 'text', but the columns of the data are: sentence"):
        TEMPLATE.format({"sentence": "x"})
    with pytest.raises(ValueError, match="shots is 9, but there are 6 examples"):
        PromptTemplate(TEMPLATE.template, TEMPLATE.verbalizer, shots=9).demonstrations(POOL, 0)
    with pytest.raises(ValueError, match="the class 'odd' has no answer"):
        TEMPLATE.demonstrations([({"text": "x"}, "odd")], 0)
    untrained = weft.Run(data=Dates, structure=LanguageModel, objective=NextToken, learning=partial(Gradient, steps=1))
    with pytest.raises(AttributeError, match="not trained yet"):
        log_probabilities(untrained, [("a", "b")])


def test_a_column_may_have_any_name() -> None:
    row = {"my col": "M", "sentence-1": "S"}
    assert PromptTemplate("{my col}: {sentence-1} {answer}", {"a": "a", "b": "b"}).format(row) == "M: S"
    with pytest.raises(
        ValueError, match="the template has the column ' my col ', but the columns of the data are: my col, sentence-1"
    ):
        PromptTemplate("{ my col } {answer}", {"a": "a", "b": "b"}).format(row)
