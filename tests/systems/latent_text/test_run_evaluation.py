"""Evaluation of class-conditional generation and style transfer of a trained run."""

from __future__ import annotations

import pytest
from tests.systems.latent_text.small_runs import CONDITIONAL, EXAMPLES, TEXTS

from weft.data.text_files import read_labeled_texts, read_texts
from weft.systems.latent_text.evaluate import Oracle
from weft.systems.latent_text.run_evaluation import evaluate_run, open_oracle, train_fluency_model
from weft.training.recipes import read_run


def test_generation_and_transfer_are_evaluated(conditional):
    oracle = Oracle.train(*map(list, zip(*EXAMPLES, strict=True)))
    messages: list[str] = []
    found = evaluate_run(
        conditional.run, oracle, oracle_texts=TEXTS, split="valid", seed=2, progress=lambda text, *_: messages.append(text)
    )
    real = [conditional.run.dataset("valid")[1].raw(row) for row in range(len(conditional.run.dataset("valid")[1]))]
    targets, generated = zip(*found.generated, strict=True)
    assert list(targets) == [("bad", "good")[row % 2] for row in range(len(real))]
    assert list(generated) == conditional.sample(len(real), seed=2)
    other = {"good": "bad", "bad": "good"}
    assert sorted((text, label) for text, label, _ in found.transferred) == sorted((r["source"], other[r["label"]]) for r in real)
    assert len({label for _, label, _ in found.transferred[:4]}) == 2, "files are sorted by class"
    assert [text for _, _, text in found.transferred] == [
        conditional.transfer([t], label)[0] for t, label, _ in found.transferred
    ]
    metric_values = found.metric_values()
    assert (
        metric_values["oracle_accuracy"] == oracle.accuracy(*zip(*((r["source"], r["label"]) for r in real), strict=True)) == 1.0
    )
    assert metric_values["generation_accuracy"] == oracle.accuracy(generated, targets)
    assert {"generation_bleu_4", "generation_self_bleu", "transfer_bleu_4", "transfer_g_score"} <= set(metric_values)
    assert metric_values["transfer_source_accuracy"] == 0.0 and found.oracle_overlap == len(real)
    warnings = "\n".join(found.warnings())
    assert f"{len(real)} of the real texts are in the training set of the oracle" in warnings
    train = len(conditional.run.dataset("train")[1])
    assert any(
        f"{train} training texts of the run are in the training set of the oracle" in warning for warning in found.warnings()
    )
    assert f"sampling texts: {len(real)} of {len(real)}" in messages and f"rewriting texts: 1 of {len(real)}" in messages
    fewer = evaluate_run(conditional.run, EXAMPLES, split="valid", max_texts=2)
    assert fewer.generation.texts == 2 and fewer.oracle_accuracy == 1.0


def test_all_training_texts_are_compared_with_those_of_the_oracle(monkeypatch, conditional):
    """Of 60,000 training texts, only the last is a text of the oracle."""

    class Many:
        def __len__(self) -> int:
            return 60_000

        def raw(self, row: int) -> dict[str, str]:
            return {"source": EXAMPLES[0][0] if row == 59_999 else f"text {row}", "label": "good"}

    dataset = conditional.run.dataset
    monkeypatch.setattr(
        conditional.run, "dataset", lambda split, files=(): ("train", Many()) if split == "train" else dataset(split)
    )
    assert evaluate_run(conditional.run, EXAMPLES, split="valid", max_texts=2).train_overlap == 1


def test_extra_classes_of_the_oracle_are_reported(conditional):
    rows = [(f"a {text}", label) for text, label in EXAMPLES]
    found = evaluate_run(conditional.run, rows, split="valid")
    assert not any("training set" in warning or "does not have the classes" in warning for warning in found.warnings())
    more = evaluate_run(conditional.run, [*rows, ("so so la la", "other"), ("so so", "other")], split="valid")
    warning = "the run does not have the classes other of the oracle; these predictions count as wrong"
    assert more.extra_classes == ("other",) and warning in more.warnings()


def test_other_files_are_evaluated_when_the_training_data_is_missing(home, tmp_path):
    (tmp_path / "texts.tsv").write_bytes((home / "texts.tsv").read_bytes())
    (tmp_path / "run.yaml").write_text(CONDITIONAL)
    read_run(tmp_path / "run.yaml").train(tmp_path / "run", quiet=True)
    (tmp_path / "texts.tsv").unlink()
    found = evaluate_run(tmp_path / "run", EXAMPLES, files=[home / "texts.tsv"])
    assert found.oracle_overlap == len(EXAMPLES) and found.train_overlap == 0


def test_invalid_evaluations_are_reported(conditional, home):
    with pytest.raises(ValueError, match=r"the oracle has no class 'bad' of the run; it has good, so-so"):
        evaluate_run(home / "conditional", [("a b", "good"), ("c d", "so-so")] * 2)
    with pytest.raises(ValueError, match="max_texts must be at least 2 for Self-BLEU, not 1"):
        evaluate_run(conditional.run, EXAMPLES, max_texts=1)
    with pytest.raises(ValueError, match="1 human references, but"):
        evaluate_run(conditional.run, EXAMPLES, split="valid", human_references=[["a"]])


def test_oracle_and_language_model_from_files(home, tmp_path):
    rows = read_texts(home / "texts.tsv")
    assert rows == EXAMPLES and [row.text for row in read_texts(home / "texts.txt")] == TEXTS
    labeled = read_labeled_texts([f"good={home / 'good.txt'}", f"bad={home / 'bad.txt'}"])
    assert sorted(labeled) == sorted(EXAMPLES)
    (tmp_path / "x=y.txt").write_text("a b\n")
    (tmp_path / "y.txt").write_text("c d\n")
    assert read_labeled_texts([f" a=b ={tmp_path}/y.txt", f"good={tmp_path}/x=y.txt"]) == [("c d", "a=b"), ("a b", "good")]
    oracle, texts = open_oracle([str(home / "texts.tsv")])
    assert texts == TEXTS and oracle.labels == ("bad", "good")
    oracle.save(tmp_path / "oracle.json")
    again, unknown = open_oracle([str(tmp_path / "oracle.json")])
    assert unknown == [] and again.predict(TEXTS) == oracle.predict(TEXTS)
    (tmp_path / "once.txt").write_text("a zorgon\n")
    model, read = train_fluency_model([str(home / "texts.tsv"), str(tmp_path / "once.txt")])
    words = {word for text in TEXTS for word in text.split()}
    assert read == [*TEXTS, "a zorgon"] and set(model.vocabulary) - {"</s>", "<unk>"} == words, (
        "words that occur once are unknown"
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.txt", None, "gone.txt: file not found"),
        ("empty.txt", b"\n \n", "empty.txt: no texts found"),
        ("x.txt", b"a\n\xff\n", "x.txt:2: byte 0xff is not valid UTF-8"),
        ("x.tsv", b"words\tlabel\na\tb\n", "x.tsv:2: no column 'text' or"),
        ("x.tsv", b"text\tlabel\na\n", "x.tsv:2: 1 columns, but the header has 2"),
        ("x.txt", b"a\n", "x.txt: texts without a label; give a table with a column of labels, or CLASS="),
    ],
)
def test_invalid_labeled_files_are_reported(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_labeled_texts([str(tmp_path / name)])
