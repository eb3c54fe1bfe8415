"""Asking a language model by example: what is asked, and how answers are scored."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

import weft
from weft.core.seq import Seq
from weft.data import Dates, PlainText, Word
from weft.inference.prompting import Prompt, log_probabilities
from weft.learning import Gradient
from weft.models import LanguageModel
from weft.objectives import NextToken

ASK = Prompt("Review: {text}\nIt was {answer}", {"pos": "good", "neg": "very bad"})
POOL = [({"text": f"row {i}"}, "pos" if i % 2 else "neg") for i in range(6)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> weft.TrainedRun:
    folder = tmp_path_factory.mktemp("lm")
    (folder / "text.txt").write_text("Review: a film\nIt was good\nReview: a play\nIt was very bad\n" * 5)
    data = partial(PlainText, train=str(folder / "text.txt"), tokenizer=partial(Word, vocab_size=100), validation_fraction=0.0)
    learning = partial(Gradient, steps=3, batch_tokens=100)
    made = weft.Run(data=data, structure=partial(LanguageModel, dim=16), objective=NextToken, learning=learning)
    return made.train(folder / "run", quiet=True)


def test_a_prompt_has_its_demonstrations_and_then_the_question() -> None:
    shown = [({"text": "fine"}, "pos"), ({"text": "dull"}, "neg")]
    wanted = "Review: fine\nIt was good\n\nReview: dull\nIt was very bad\n\nReview: new\nIt was"
    assert ASK.filled({"text": "new"}, shown) == wanted


def test_demonstrations_are_drawn_without_replacement_and_the_same_each_time() -> None:
    ask = Prompt(ASK.template, ASK.answers, shots=4)
    first, again, other = ask.demonstrations(POOL, 0), ask.demonstrations(POOL, 0), ask.demonstrations(POOL, 1)
    assert first == again and first != other
    assert len({row["text"] for row, _ in first}) == 4


def test_a_score_is_the_summed_log_probability_of_the_answers_tokens(run: weft.TrainedRun) -> None:
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
    assert found[1] == pytest.approx(alone[0], abs=1e-5)  # whatever else is asked


def test_normalised_and_calibrated_scores(run: weft.TrainedRun) -> None:
    rows = [{"text": "a film"}, {"text": "a play"}]
    plain = Prompt(ASK.template, ASK.answers, normalise="none").scores(run, rows)
    by_length = ASK.scores(run, rows)
    assert np.allclose(by_length, plain / [1, 2], atol=1e-5)
    empty = Prompt(ASK.template, ASK.answers, normalise="none").scores(run, [{"text": "N/A"}])
    calibrated = Prompt(ASK.template, ASK.answers, normalise="none", calibrate=True).scores(run, rows)
    assert np.allclose(calibrated, plain - empty, atol=1e-4)
    assert ASK.choose(run, rows) == [["pos", "neg"][i] for i in by_length.argmax(1)]


def test_what_cannot_be_asked(run: weft.TrainedRun) -> None:
    with pytest.raises(ValueError, match="1 answers leave nothing to choose"):
        Prompt("{text}", {"a": "x"})
    for template in ("{text} {answer", "{text {answer}", "text} {answer}"):
        with pytest.raises(ValueError, match="the template has a brace without its other half at"):
            Prompt(template, {"a": "x", "b": "y"})
    assert Prompt("{ {text} }", {"a": "x", "b": "y"}).filled({"text": "t"}) == "{ t }"
    with pytest.raises(ValueError, match="shots is -1"):
        Prompt("{text}", {"a": "x", "b": "y"}, shots=-1)
    with pytest.raises(ValueError, match="the template asks for 'text', but the rows have: sentence"):
        ASK.filled({"sentence": "x"})
    with pytest.raises(ValueError, match="9 demonstrations are wanted, but there are 6 rows"):
        Prompt(ASK.template, ASK.answers, shots=9).demonstrations(POOL, 0)
    with pytest.raises(ValueError, match="the class 'odd' has no answer"):
        ASK.demonstrations([({"text": "x"}, "odd")], 0)
    untrained = weft.Run(data=Dates, structure=LanguageModel, objective=NextToken, learning=partial(Gradient, steps=1))
    with pytest.raises(AttributeError, match="not trained yet"):
        log_probabilities(untrained, [("a", "b")])


def test_a_column_may_have_any_name() -> None:
    row = {"my col": "M", "sentence-1": "S"}
    assert Prompt("{my col}: {sentence-1} {answer}", {"a": "a", "b": "b"}).filled(row) == "M: S"
    with pytest.raises(ValueError, match="the template asks for ' my col ', but the rows have: my col, sentence-1"):
        Prompt("{ my col } {answer}", {"a": "a", "b": "b"}).filled(row)
