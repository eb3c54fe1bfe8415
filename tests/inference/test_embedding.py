"""Sentence embeddings equal those of sentence-transformers, with every pooling mode; unsupported modules are rejected."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers
import torch
import transformers as hf
from sentence_transformers import models
from tests.commands import weft

from weft.inference.convert import to_published, to_run
from weft.inference.embedding import open_embedder
from weft.training.recipes import read_run_text

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "good",
    "film",
    "bad",
    "play",
    "was",
    "not",
    "very",
    "fine",
    ",",
    "it",
    "?",
    "the",
    "what",
]
TEXTS = ["a good film", "", "bad play was not very fine , was it ?", "the what", "unknown"]
MODES: list[Any] = ["mean", "cls", "max", "mean_sqrt_len_tokens", "lasttoken", "weightedmean", ("cls", "mean")]
OLDER = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20}
    model = hf.BertModel(hf.BertConfig(vocab_size=len(WORDS), max_position_embeddings=30, **sizes))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.4)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    hf.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def saved(bert: Path, folder: Path, mode: Any = "mean", more: tuple[Any, ...] = (), **options: Any) -> np.ndarray:
    """Save a model with sentence-transformers; return its normalized embeddings of the texts."""
    parts = [models.Transformer(str(bert), **options), models.Pooling(24, pooling_mode=mode), *more]
    model = sentence_transformers.SentenceTransformer(modules=parts, device="cpu")
    model.save(str(folder))
    found = np.asarray(model.encode(TEXTS))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape and np.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_every_pooling_mode_equals_sentence_transformers(mode: Any, bert: Path, tmp_path: Path) -> None:
    wanted = saved(bert, tmp_path / "st", mode, (models.Normalize(),))
    close(open_embedder(tmp_path / "st", "cpu")(TEXTS), wanted)
    if isinstance(mode, str):  # the older format
        older = {key: value == mode for key, value in OLDER.items()}
        (tmp_path / "st/1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 24, **older}))
        close(open_embedder(tmp_path / "st", "cpu")(TEXTS), wanted)


def test_evaluate_of_an_encoder_correlates_similarities(bert: Path, tmp_path: Path) -> None:
    """Without an option: a published encoder has nothing else to be evaluated with."""
    saved(bert, tmp_path / "st")
    rows = [("a good film", "a bad film", 1.0), ("the play was fine", "it was fine", 4.5), ("what", "a very good play", 0.5)]
    (tmp_path / "pairs.tsv").write_text("first\tsecond\tscore\n" + "".join(f"{a}\t{b}\t{c}\n" for a, b, c in rows))
    embed = open_embedder(tmp_path / "st", "cpu")
    cosine = (embed([row[0] for row in rows]) * embed([row[1] for row in rows])).sum(1)
    answer = weft("evaluate", tmp_path / "st", tmp_path / "pairs.tsv", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["pearson"] == pytest.approx(np.corrcoef(cosine, [row[2] for row in rows])[0, 1], abs=1e-4)


def test_truncation_equals_sentence_transformers(bert: Path, tmp_path: Path) -> None:
    wanted = saved(bert, tmp_path / "st", max_seq_length=6)
    vectors = open_embedder(tmp_path / "st", "cpu")
    close(vectors(TEXTS), wanted)
    assert (vectors.max_length, vectors.truncated) == (6, 1)
    (tmp_path / "st/sentence_bert_config.json").write_text('{"max_seq_length": 5}')  # the older format
    assert open_embedder(tmp_path / "st", "cpu").max_length == 5


def test_a_long_text_is_cut_before_it_is_tokenized(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, given = open_embedder(bert, "cpu"), list[int]()
    kind = type(next(iter(vectors.codec.tokenizers.values())))
    before = kind.encode_batch
    monkeypatch.setattr(kind, "encode_batch", lambda self, texts: given.extend(map(len, texts)) or before(self, texts))
    close(vectors(["good film " * 100_000]), vectors(["good film " * 100]))
    assert given == [1024 * 64, 1000] and vectors.truncated == 2


def test_lowercasing_equals_sentence_transformers(bert: Path, tmp_path: Path) -> None:
    cased = tmp_path / "cased"
    shutil.copytree(bert, cased)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (cased / file).unlink()
    hf.BertTokenizerFast(str(cased / "vocab.txt"), do_lower_case=False).save_pretrained(cased)
    saved(cased, tmp_path / "st")
    (tmp_path / "st/sentence_bert_config.json").write_text('{"max_seq_length": 20, "do_lower_case": true}')
    model = sentence_transformers.SentenceTransformer(str(tmp_path / "st"), device="cpu")
    wanted = np.asarray(model.encode(["GOOD Film"]))
    close(open_embedder(tmp_path / "st", "cpu")(["GOOD Film"]), wanted / np.linalg.norm(wanted))


def test_unsupported_modules_and_prompts_are_rejected(bert: Path, tmp_path: Path) -> None:
    saved(bert, tmp_path / "dense", "mean", (models.Dense(24, 8), models.Normalize()))
    with pytest.raises(
        ValueError, match=r"modules\.json: the module Dense is not supported; supported: Transformer, Pooling, Norm"
    ):
        open_embedder(tmp_path / "dense", "cpu")
    saved(bert, tmp_path / "st")
    (tmp_path / "st/1_Pooling/config.json").write_text('{"pooling_mode": "median"}')
    with pytest.raises(ValueError, match=r"unknown pooling_mode 'median'; supported: cls, max, mean"):
        open_embedder(tmp_path / "st", "cpu")
    (tmp_path / "st/1_Pooling/config.json").write_text('{"pooling_mode": "mean"}')
    config = {"prompts": {"query": "find: "}, "default_prompt_name": "query"}
    (tmp_path / "st/config_sentence_transformers.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="default_prompt_name is 'query', but prompts are not supported"):
        open_embedder(tmp_path / "st", "cpu")


def theirs(folder: Path) -> np.ndarray:
    return np.asarray(sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(TEXTS))


def test_conversion_to_a_run_and_back_keeps_the_embeddings(bert: Path, tmp_path: Path) -> None:
    wanted = saved(bert, tmp_path / "st", "cls", (models.Normalize(),), max_seq_length=7)
    run = to_run(tmp_path / "st", tmp_path / "run")
    close(open_embedder(run, "cpu")(TEXTS), wanted)
    back = to_published(run, tmp_path / "back")
    close(theirs(back), wanted)
    close(open_embedder(back, "cpu")(TEXTS), wanted)


@pytest.mark.parametrize("kind", ["roberta", "electra", "bert"])
def test_a_converted_run_equals_sentence_transformers(kind: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(TEXTS * 8) + "\n")
    text = f"""
structure: {{type: {kind}, dim: 24, layers: 2, heads: 2, hidden: 20, length: 40, task: masked-lm}}
data: {{type: plain-text, train: text.txt, tokenizer: {{type: byte-bpe, vocab_size: 300}}}}
objective: masked-lm
learning: {{type: gradient, steps: 2}}
device: cpu
"""
    run = read_run_text(text, "recipe.yaml", tmp_path)
    run.train(tmp_path / "run", quiet=True)
    out = to_published(tmp_path / "run", tmp_path / "out")
    wanted = open_embedder(tmp_path / "run", "cpu")(TEXTS)
    if kind == "bert":  # its pooler has weights, which no module of sentence-transformers supports
        assert not (out / "modules.json").exists()
        return
    close(theirs(out), wanted)
    close(open_embedder(out, "cpu")(TEXTS), wanted)
    tokenizer: Any = hf.AutoTokenizer.from_pretrained(out)
    assert (tokenizer.pad_token_id, tokenizer.mask_token_id, tokenizer("a")["input_ids"][-1]) == (0, 4, 2)
