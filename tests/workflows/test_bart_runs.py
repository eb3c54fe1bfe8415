"""A published BART brought to a file of pairs: it begins its texts as it was published, as the package transformers has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers as hf
from tokenizers import models, pre_tokenizers, processors

import weft
from weft.core.batch import Clock, collate
from weft.data.encoding import encode_example
from weft.data.tokenizers.pretrained import PretrainedTokenizer
from weft.generate import GreedySearch
from weft.inference.convert import to_published
from weft.training.recipes import read_run_text

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "good", "bad", "fine", "poor", "film", "play", "very", "not"]
PAIRS = [("good film", "fine film"), ("bad play", "poor play"), ("very good film", "very fine film"), ("not bad", "fine")]
MOST = 12
RECIPE = """
data: {{type: parallel-text, train: rows.tsv, valid: rows.tsv, tokenizer: {{type: pretrained, from: {0}}}, max_length: 10}}
structure: {{type: pretrained, from: {0}, task: generation}}
objective: next-token
learning: {{type: gradient, steps: {1}, batch_tokens: 200, optimizer: {{type: adamw, lr: 1.0e-2}}, save_every: 0}}
evaluate: {{every: 0, metrics: [exact-match]}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "published"
    sizes = {f"{side}_{part}": n for side in ("encoder", "decoder") for part, n in (("layers", 1), ("attention_heads", 2))}
    small = {"vocab_size": len(WORDS), "d_model": 16, "max_position_embeddings": MOST, "dropout": 0.0, "init_std": 0.5}
    small["forced_eos_token_id"] = None
    torch.manual_seed(0)
    config = hf.BartConfig(**sizes, **small, encoder_ffn_dim=20, decoder_ffn_dim=20)
    hf.BartForConditionalGeneration(config).eval().save_pretrained(folder)
    inner: Any = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.add_special_tokens(WORDS[:5])
    inner.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    inner.save(str(folder / "tokenizer.json"))
    (tmp_path / "rows.tsv").write_text("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in PAIRS * 5))
    return folder


def ids(text: str) -> list[int]:
    return [0, *(WORDS.index(word) for word in text.split()), 2]


def padded(rows: list[list[int]], pad: int) -> torch.Tensor:
    return torch.tensor([row + [pad] * (max(map(len, rows)) - len(row)) for row in rows])


def test_the_loss_and_the_texts_of_a_tuned_bart_are_those_of_transformers(tmp_path: Path, folder: Path) -> None:
    judged = read_run_text(RECIPE.format(folder, 150), "r.yaml", tmp_path).train(tmp_path / "run", quiet=True).result
    assert judged.metric_values["exact_match"] == 1.0  # it begins in evaluation as in training
    run = weft.load(tmp_path / "run")
    to_published(tmp_path / "run", tmp_path / "out")
    theirs: Any = hf.BartForConditionalGeneration.from_pretrained(tmp_path / "out").eval()
    assert (theirs.config.decoder_start_token_id, theirs.config.bos_token_id) == (2, 0)
    (objective,), codec = run.objectives.values(), run.codec
    assert codec is not None and run.model is not None
    rows = [objective.prepare(encode_example(codec, {"source": a, "target": b}), None, None) for a, b in PAIRS]
    source, labels = padded([ids(a) for a, _ in PAIRS], 1), padded([ids(b) for _, b in PAIRS], -100)
    with torch.no_grad():
        loss = objective(run.model, collate([row for row in rows if row is not None]), Clock())["loss"]
        wanted = theirs(source, attention_mask=(source != 1).long(), labels=labels).loss
        written = theirs.generate(source, attention_mask=(source != 1).long(), do_sample=False, num_beams=1, max_length=MOST)
    assert loss.count == (labels >= 0).sum()
    assert float(loss.total) / loss.count == pytest.approx(float(wanted), abs=1e-5)
    expected = [" ".join(WORDS[i] for i in row if i > 4) for row in written.tolist()]
    assert run.generate([a for a, _ in PAIRS]) == expected == [b for _, b in PAIRS]


def test_denoising_begins_so_too_and_the_start_is_kept_with_the_run(tmp_path: Path, folder: Path) -> None:
    assert PretrainedTokenizer(from_=str(folder)).decoder_start == 2
    (tmp_path / "lines.txt").write_text("very good film\nnot bad play\n" * 10)
    text = RECIPE.format(folder, 1).replace("parallel-text, train: rows.tsv, valid: rows.tsv", "plain-text, train: lines.txt")
    text = text.replace("objective: next-token", "objective: {type: denoising, noise: chain}").split("evaluate")[0]
    read_run_text(text, "r.yaml", tmp_path).train(tmp_path / "run", quiet=True)
    field = json.loads((tmp_path / "run" / "fields.json").read_text())["fields"][0]
    assert field["decoder_start"] == 2
    run = weft.load(tmp_path / "run")
    (objective,) = run.objectives.values()
    assert run.codec is not None
    made = objective.prepare(encode_example(run.codec, {"text": "very good film"}), np.random.default_rng(0), None)
    assert made is not None
    assert made["input"].tolist() == [2, *ids("very good film")[:-1]] and made["picks"].ids.tolist() == ids("very good film")


def test_texts_that_fill_the_positions_are_read(folder: Path) -> None:
    run, theirs = weft.load(folder), hf.BartForConditionalGeneration.from_pretrained(folder).eval()
    full = " ".join((WORDS[5:] * 2)[: MOST - 2])
    with torch.no_grad():
        options = {"do_sample": False, "num_beams": 1, "max_new_tokens": 4, "suppress_tokens": [0, 1, 4]}
        written: Any = theirs.generate(torch.tensor([ids(full)]), **options)  # pyright: ignore
    wanted = " ".join(WORDS[i] for i in written[0].tolist() if i > 4)
    assert run.generate([full], search=GreedySearch(max_length=4)) == [wanted]
    with pytest.warns(UserWarning, match=f"truncated 1 request longer than {MOST - 2} tokens"):
        assert run.generate([full + " good"], search=GreedySearch(max_length=4)) == [wanted]
