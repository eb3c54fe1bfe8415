"""Trained runs in the published layout: transformers and weft compute with them what the run does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import weft
from weft.core.contracts import ClassifiesPairs, PredictsMasked
from weft.core.seq import Seq
from weft.inference.convert import to_published, to_run
from weft.pretrained import load
from weft.training.recipes import read_run_text

TEXTS = ["a good film and a very good play", "the poor film was bad", "not a fine play , the film was poor"]
RUN = """
structure: {{type: {kind}, dim: 32, layers: 2, heads: 2, hidden: 64, length: 48{more}}}
data: {data}
objective: {objective}
learning: {{type: gradient, steps: 2}}
device: cpu
"""
PLAIN = "{type: plain-text, train: text.txt, tokenizer: {type: byte-bpe, vocab_size: 300}}"


def trained(folder: Path, kind: str, objective: str, data: str = PLAIN, more: str = "") -> Path:
    """A run of two updates; what was random is made larger, so that nothing is equal by being small."""
    (folder / "text.txt").write_text("\n".join(TEXTS * 8) + "\n")
    (folder / "rows.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{i / 7}\n" for i, text in enumerate(TEXTS * 8)))
    text = RUN.format(kind=kind, data=data, objective=objective, more=more)
    run = read_run_text(text, "recipe.yaml", folder)
    run.train(folder / "run", quiet=True)
    return folder / "run"


def ids_of(run: weft.TrainedRun, texts: list[str]) -> list[list[int]]:
    codec: Any = run.codec
    field = codec.info.input_texts()[0]
    return [[*field.frame.first, *codec.encode(field.name, text).tolist(), *field.frame.last] for text in texts]


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize(
    ("kind", "task"), [("roberta", "masked-lm"), ("roberta", "encode"), ("xlm-roberta", "masked-lm"), ("xlm-roberta", "encode")]
)
def test_position_embeddings_of_a_converted_roberta_start_after_the_padding_id(kind: str, task: str, tmp_path: Path) -> None:
    folder = trained(tmp_path, kind, "masked-lm", more=", task: masked-lm")
    run, out = weft.load(folder, "cpu"), to_published(folder, tmp_path / "out", kind=kind)
    assert config_of(out)["model_type"] == kind
    assert config_of(out)["pad_token_id"] == 0 and config_of(out)["max_position_embeddings"] == 49
    again, theirs = load(out, task=task).model, hf.AutoModelForMaskedLM.from_pretrained(out).eval()
    rows = ids_of(run, TEXTS)
    width = max(map(len, rows))
    padded = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    real = torch.tensor([[True] * len(row) + [False] * (width - len(row)) for row in rows])
    with torch.no_grad():
        wanted = run.model.encode(Seq(padded, real)).data[real]
        assert torch.allclose(again.encode(Seq(padded, real)).data[real], wanted, atol=1e-5)  # pyright: ignore[reportCallIssue]
        found = theirs.roberta(padded, attention_mask=real.long()).last_hidden_state[real]
        assert torch.allclose(found, wanted, atol=1e-5)
        longest = torch.arange(48)[None] % 200 + 50
        mine = run.model.encode(Seq(longest)).data
        assert torch.allclose(theirs.roberta(longest).last_hidden_state, mine, atol=1e-5)


def test_a_converted_regression_run_equals_transformers(tmp_path: Path) -> None:
    data = "{type: labeled-text, train: rows.tsv, label_type: number, tokenizer: {type: byte-bpe, vocab_size: 300}}"
    folder = trained(tmp_path, "bert", "regression", data, more=", task: classification")
    run, out = weft.load(folder, "cpu"), to_published(folder, tmp_path / "out")
    assert config_of(out)["problem_type"] == "regression"
    theirs = hf.BertForSequenceClassification.from_pretrained(out).eval()
    assert theirs.config.num_labels == 1
    for text, ids in zip(TEXTS, ids_of(run, TEXTS), strict=True):
        with torch.no_grad():
            assert float(run.predict([text])[0]) == pytest.approx(theirs(torch.tensor([ids])).logits.item(), abs=1e-3)


def test_a_converted_distilbert_equals_transformers(tmp_path: Path) -> None:
    data = "{type: labeled-text, train: rows.tsv, label_type: number, tokenizer: {type: byte-bpe, vocab_size: 300}}"
    folder = trained(tmp_path, "distilbert", "regression", data, more=", task: classification")
    run, out = weft.load(folder, "cpu"), to_published(folder, tmp_path / "out")
    theirs = hf.DistilBertForSequenceClassification.from_pretrained(out).eval()
    for text, ids in zip(TEXTS, ids_of(run, TEXTS), strict=True):
        with torch.no_grad():
            assert float(run.predict([text])[0]) == pytest.approx(theirs(torch.tensor([ids])).logits.item(), abs=1e-3)


def test_an_mpnet_counts_positions_from_1_whatever_pads(tmp_path: Path) -> None:
    folder = trained(tmp_path, "mpnet", "masked-lm", more=", task: masked-lm")
    with pytest.raises(ValueError, match=r"config\.json of a mpnet cannot express its embedder"):
        to_published(folder, tmp_path / "out")


def test_a_converted_gpt2_classifier_equals_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RUN", RUN.replace(", hidden: 64", ""))
    data = "{type: labeled-text, train: rows.tsv, tokenizer: {type: byte-bpe, vocab_size: 300}}"
    folder = trained(tmp_path, "gpt2", "classification", data, more=", task: classification")
    run, out = weft.load(folder, "cpu"), to_published(folder, tmp_path / "out")
    theirs = hf.GPT2ForSequenceClassification.from_pretrained(out).eval()
    for text, ids in zip(TEXTS, ids_of(run, TEXTS), strict=True):
        with torch.no_grad():
            best = int(theirs(torch.tensor([ids])).logits.argmax())
        assert run.predict([text]) == [theirs.config.id2label[best]]


def test_an_unknown_family_is_rejected_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown model family 'brt'.*did you mean.*bert.*known: .*roberta"):
        to_published(tmp_path, tmp_path / "out", kind="brt")


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", *["a", "the", "good", "bad", "film", "play", "was"]]
BERT: dict[str, Any] = {
    "vocab_size": len(WORDS),
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 30,
}
BART: dict[str, Any] = {"vocab_size": len(WORDS), "d_model": 24, "max_position_embeddings": 30}
BART |= {
    f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 20))
}
GPT: dict[str, Any] = {"vocab_size": len(WORDS), "n_embd": 24, "n_layer": 2, "n_head": 2, "n_positions": 30}
MADE: dict[str, Any] = {
    "answers": lambda: hf.BertForQuestionAnswering(hf.BertConfig(**BERT)),
    "relates": lambda: hf.BertForNextSentencePrediction(hf.BertConfig(**BERT)),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT, bos_token_id=None, eos_token_id=9, pad_token_id=11)),
    "bart": lambda: hf.BartForConditionalGeneration(
        hf.BartConfig(**BART, bos_token_id=5, eos_token_id=6, pad_token_id=0, decoder_start_token_id=8, forced_bos_token_id=7)
    ),
}


def published(name: str, folder: Path, seed: int = 1) -> Any:
    model = MADE[name]()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}')
    return model.eval()


@pytest.mark.parametrize("name", MADE)
def test_converting_to_a_run_and_back_keeps_special_ids_and_files(name: str, tmp_path: Path) -> None:
    published(name, tmp_path / "old")
    to_published(to_run(tmp_path / "old", tmp_path / "run"), tmp_path / "new")
    old, new = config_of(tmp_path / "old"), config_of(tmp_path / "new")
    assert {key for key in old | new if key not in old or old[key] != new.get(key)} <= {"dtype", "transformers_version"}
    for file in ("generation_config.json", "tokenizer_config.json"):
        there = (tmp_path / "old" / file).is_file()
        assert there == (tmp_path / "new" / file).is_file()
        assert not there or json.loads((tmp_path / "old" / file).read_text()) == json.loads((tmp_path / "new" / file).read_text())


def test_bert_for_next_sentence_prediction_has_no_mlm_head(tmp_path: Path) -> None:
    theirs = published("relates", tmp_path / "old")
    folder = to_run(tmp_path / "old", tmp_path / "run")
    again = hf.BertForNextSentencePrediction.from_pretrained(to_published(folder, tmp_path / "new")).eval()
    ids, segment = torch.tensor([[2, 8, 9, 3, 10, 11, 3]]), torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    with torch.no_grad():
        wanted = theirs(ids, token_type_ids=segment).logits
        assert torch.allclose(again(ids, token_type_ids=segment).logits, wanted, atol=1e-6)
        for run in (weft.load(tmp_path / "old", "cpu"), weft.load(folder, "cpu")):
            assert (
                run.model.head is None and ClassifiesPairs in run.model.provides() and PredictsMasked not in run.model.provides()
            )
            assert torch.allclose(run.model.segment_head(run.model.features(Seq(ids).mark(segment=segment))), wanted, atol=1e-5)
            with pytest.raises(ValueError, match=r"request 1: mask_ratio is 0, so the model predicts no masked tokens"):
                run.predict(["a good [MASK]"])


def test_a_trained_next_sentence_model_is_converted(tmp_path: Path) -> None:
    objective = "{type: masked-lm, mask_ratio: 0, pairing: next-sentence}"
    folder = trained(tmp_path, "bert", objective, more=", task: next-sentence")
    run, out = weft.load(folder, "cpu"), to_published(folder, tmp_path / "out")
    assert config_of(out)["architectures"] == ["BertForNextSentencePrediction"]
    theirs, (ids, *_) = hf.BertForNextSentencePrediction.from_pretrained(out).eval(), ids_of(run, TEXTS)
    with torch.no_grad():
        wanted = run.model.segment_head(run.model.features(Seq(torch.tensor([ids]))))
        assert torch.allclose(theirs(torch.tensor([ids])).logits, wanted, atol=1e-5)
    (tmp_path / "r").mkdir()
    with pytest.raises(ValueError, match="none of the published families"):
        to_published(trained(tmp_path / "r", "roberta", objective, more=", task: next-sentence"), tmp_path / "no")


def test_a_question_answering_run_has_no_decoder_start_token(tmp_path: Path) -> None:
    published("answers", tmp_path / "old")
    folder = to_run(tmp_path / "old", tmp_path / "run")
    (folder / "published.json").unlink()  # as of a run that was trained
    found = config_of(to_published(folder, tmp_path / "new"))
    assert "decoder_start_token_id" not in found and found["pad_token_id"] == 0


def test_different_padding_ids_of_roberta_and_tokenizer_are_rejected(tmp_path: Path) -> None:
    model = hf.RobertaForMaskedLM(hf.RobertaConfig(**BERT, pad_token_id=1, type_vocab_size=1))
    model.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    with pytest.raises(
        ValueError, match=r"pad_token_id is 1 in config\.json but 0 \(\[PAD\]\) in the tokenizer; a roberta derives position ids"
    ):
        weft.load(tmp_path, "cpu")
    (tmp_path / "vocab.txt").write_text("\n".join([WORDS[1], WORDS[0], *WORDS[2:]]) + "\n")
    assert weft.load(tmp_path, "cpu").model is not None
