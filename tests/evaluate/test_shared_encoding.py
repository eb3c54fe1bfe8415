"""Loss, prediction and class probabilities of a batch come from one encoder pass."""

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import torch

import weft
from weft.core.example import Sequences
from weft.data import LabeledText, ParallelText, QuestionAnswering, TaggedText, Word
from weft.evaluate import BLEU, Accuracy, AnswerF1, Evaluation, TagAccuracy
from weft.evaluate.shared_encoding import shared_encoding
from weft.learning import Gradient
from weft.models import Classifier, Seq2Seq, SpanExtractor, Tagger
from weft.objectives import Classification, NextToken, SpanAnswer, Tagging

ROWS = "text\tlabel\n" + "a good film\tyes\na bad play\tno\n" * 20
TAGGED = "John B-PER\nsings O\n\nOslo B-LOC\nsleeps O\n\n" * 20
PAIRS = "source\ttarget\n" + "ein guter Film\ta good film\nein Spiel\ta play\n" * 20
ANSWERS = "question\tcontext\tanswer\tanswer_start\n" + "who sings\tone day in May John sings in Oslo\tJohn\t15\n" * 20
TASKS = {
    "classifier": ("rows.tsv", ROWS, LabeledText, Classifier, Classification, Accuracy),
    "tagger": ("tags.txt", TAGGED, TaggedText, Tagger, Tagging, TagAccuracy),
    "seq2seq": ("pairs.tsv", PAIRS, ParallelText, Seq2Seq, NextToken, BLEU),
    "span extractor": ("answers.tsv", ANSWERS, QuestionAnswering, SpanExtractor, SpanAnswer, AnswerF1),
    "windows": ("answers.tsv", ANSWERS, QuestionAnswering, SpanExtractor, partial(SpanAnswer, window=8, stride=2), AnswerF1),
}


WITH_PROBABILITIES = ("classifier", "tagger")
"""The tasks whose predictions have class probabilities."""


@pytest.fixture(scope="module")
def trained(request, tmp_path_factory) -> weft.TrainedRun:
    """The run of the task that a test is parametrized with."""
    folder = tmp_path_factory.mktemp("shared")
    name, text, source, structure, objective, metric = TASKS[request.param]
    (folder / name).write_text(text)
    return weft.Run(
        data=partial(source, train=str(folder / name), valid=str(folder / name), tokenizer=partial(Word, vocab_size=50)),
        structure=partial(structure, dim=8),
        objective=objective,
        learning=partial(Gradient, steps=2, batch_tokens=100),
        evaluate=partial(Evaluation, metrics=[metric], batch_tokens=100),
    ).train(folder / "run", quiet=True)


every_task = pytest.mark.parametrize("trained", TASKS, indirect=True, scope="module")


@contextmanager
def encoder_rows(model: torch.nn.Module) -> Iterator[list[int]]:
    """Record the number of rows of every encoder call."""
    rows: list[int] = []
    handle = model.encoder.register_forward_hook(lambda module, args, output: rows.append(args[0].data.shape[0]))
    yield rows
    handle.remove()


@every_task
def test_evaluation_encodes_every_sequence_once(trained) -> None:
    with encoder_rows(trained.model) as rows:
        result = trained.evaluate("valid")
    dataset = trained.dataset("valid")[1]
    prepared = [trained.objective.prepare(dataset[i], None, None) for i in range(len(dataset))]
    windows = [len(x["text"].parts) if isinstance(x.get("text"), Sequences) else 1 for x in prepared]
    assert sum(rows) == sum(windows) and len(dataset) == len(result.predictions)
    assert (sum(windows) > len(dataset)) == (getattr(trained.objective, "window", None) is not None)


@pytest.mark.parametrize("trained", WITH_PROBABILITIES, indirect=True, scope="module")
def test_prediction_with_probabilities_encodes_every_request_once(trained) -> None:
    with encoder_rows(trained.model) as rows:
        assert len(trained.predict(["a good film", "a bad play", "a film"], batch_size=2)) == 3
    assert rows == [2, 1]


@every_task
def test_loss_and_predictions_equal_those_of_separate_passes(trained, monkeypatch) -> None:
    shared = trained.evaluate("valid")
    monkeypatch.setattr("weft.evaluate.shared_encoding._METHODS", ())
    separate = trained.evaluate("valid")
    assert shared.metric_values == separate.metric_values and shared.predictions == separate.predictions != {}


def test_training_mode_and_other_inputs_are_not_shared() -> None:
    class Encoder(torch.nn.Module):
        calls = 0

        def encode(self, x: list[int]) -> int:
            self.calls += 1
            return sum(x)

    model, x = Encoder().eval(), [1, 2]
    with shared_encoding(model):
        assert [model.encode(x), model.encode(x), model.encode([1, 2])] == [3, 3, 3]
    assert model.calls == 2, "an equal but different object is another input"
    assert [model.encode(x), model.encode(x)] == [3, 3] and model.calls == 4, "nothing is shared after the context"
    with shared_encoding(model.train()):
        model.encode(x), model.encode(x)
    assert model.calls == 6


class Input:
    """An input that can be referred to weakly."""


class Identity(torch.nn.Module):
    """Its ``encode`` returns the id of its input, and does not keep the input alive."""

    def encode(self, x: Input) -> int:
        return id(x)


def test_an_input_lives_as_long_as_its_result() -> None:
    """Otherwise another input could get the id of one that is gone, and its result."""
    model = Identity().eval()
    with shared_encoding(model):
        x = Input()
        model.encode(x)
        alive = weakref.ref(x)
        del x
        gc.collect()
        assert alive() is not None
    gc.collect()
    assert alive() is None, "the context has ended"


def test_a_method_that_was_set_on_the_model_is_restored() -> None:
    model = Identity().eval()
    with shared_encoding(model):
        pass
    assert "encode" not in vars(model), "a method of the class does not become an attribute"

    def own(x: Input) -> int:
        return 7

    model.encode = own
    with pytest.raises(KeyError), shared_encoding(model):
        assert model.encode is not own and model.encode(Input()) == 7
        raise KeyError
    assert vars(model)["encode"] is own


def test_threads_predict_the_same_with_one_model() -> None:
    model, x, failed = _Squares().eval(), torch.arange(4.0), list[BaseException]()

    def work() -> None:
        try:
            for _ in range(50):
                with shared_encoding(model):
                    assert torch.equal(model.encode(x), x * x) and model.encode(x) is model.encode(x)
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed and "encode" not in vars(model)


class _Squares(torch.nn.Module):
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return x * x
