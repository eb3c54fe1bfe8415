"""Loss, prediction and class probabilities of a batch come from one encoder pass."""

from functools import partial

import pytest
import torch

import weft
from weft.data import LabeledText, TaggedText, Word
from weft.evaluate import Accuracy, Evaluation, TagAccuracy
from weft.evaluate.shared_encoding import shared_encoding
from weft.learning import Gradient
from weft.models import Classifier, Tagger
from weft.objectives import Classification, Tagging

ROWS = "text\tlabel\n" + "a good film\tyes\na bad play\tno\n" * 20
TAGGED = "John B-PER\nsings O\n\nOslo B-LOC\nsleeps O\n\n" * 20


@pytest.fixture(params=["classifier", "tagger"])
def trained(request, tmp_path) -> weft.TrainedRun:
    (tmp_path / "rows.tsv").write_text(ROWS)
    (tmp_path / "tags.txt").write_text(TAGGED)
    classifies = request.param == "classifier"
    source, file = (LabeledText, "rows.tsv") if classifies else (TaggedText, "tags.txt")
    return weft.Run(
        data=partial(source, train=str(tmp_path / file), valid=str(tmp_path / file), tokenizer=partial(Word, vocab_size=50)),
        structure=partial(Classifier if classifies else Tagger, dim=8),
        objective=Classification if classifies else Tagging,
        learning=partial(Gradient, steps=2, batch_tokens=100),
        evaluate=partial(Evaluation, metrics=[Accuracy if classifies else TagAccuracy], batch_tokens=100),
    ).train(tmp_path / "run", quiet=True)


def encoder_rows(model: torch.nn.Module) -> list[int]:
    """Record the number of rows of every encoder call."""
    rows: list[int] = []
    model.encoder.register_forward_hook(lambda module, args, output: rows.append(args[0].data.shape[0]))
    return rows


def test_evaluation_encodes_every_example_once(trained) -> None:
    rows = encoder_rows(trained.model)
    result = trained.evaluate("valid")
    assert sum(rows) == len(trained.dataset("valid")[1]) == len(result.predictions)


def test_prediction_with_probabilities_encodes_every_request_once(trained) -> None:
    rows = encoder_rows(trained.model)
    assert len(trained.predict(["a good film", "a bad play", "a film"], batch_size=2)) == 3
    assert rows == [2, 1]


def test_loss_and_predictions_equal_those_of_separate_passes(trained, monkeypatch) -> None:
    shared = trained.evaluate("valid")
    monkeypatch.setattr("weft.evaluate.shared_encoding._METHODS", ())
    separate = trained.evaluate("valid")
    assert shared.metric_values == separate.metric_values and shared.predictions == separate.predictions


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
