"""From a published model to a run's folder, and back: nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers as hf
from safetensors.torch import load_file
from tokenizers import models, pre_tokenizers, processors

import weft
import weft.blocks
import weft.inference.convert
from weft.cli.app import main
from weft.core.hub import find_model
from weft.generate import GreedySearch
from weft.inference.convert import to_published, to_run
from weft.inference.embedding import open_embedder

WORDS = ["good", "bad", "fine", "poor", "film", "play", "very", "not", "a", "the"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
SMALL: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 30,
}
T5: dict[str, Any] = {"d_model": 24, "d_kv": 6, "num_heads": 2, "num_layers": 2, "d_ff": 20, "decoder_start_token_id": 0}
IDS: dict[str, Any] = {"pad_token_id": 0, "eos_token_id": 1}
CLASSES: dict[str, Any] = {
    "id2label": {0: "no", 1: "perhaps", 2: "yes"},
    "label2id": {"no": 0, "perhaps": 1, "yes": 2},
    "classifier_dropout": 0.2,
}
MODELS: dict[str, Callable[[], Any]] = {
    "bert": lambda: hf.BertModel(hf.BertConfig(vocab_size=len(BERT), **SMALL)),
    "masks": lambda: hf.BertForMaskedLM(hf.BertConfig(vocab_size=len(BERT), **SMALL)),
    "classes": lambda: hf.BertForSequenceClassification(hf.BertConfig(vocab_size=len(BERT), **SMALL, **CLASSES)),
    "electra": lambda: hf.ElectraForTokenClassification(
        hf.ElectraConfig(vocab_size=len(BERT), embedding_size=8, **SMALL, **CLASSES)
    ),
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=20, n_embd=24, n_layer=2, n_head=2, n_positions=30, bos_token_id=0, eos_token_id=0)
    ),
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=13, **T5, **IDS)),
}


def published(name: str, folder: Path) -> Path:
    """A model of transformers with random weights and a tokenizer. The GPT-2 has vectors for ids that it never gives."""
    model = MODELS[name]()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
    model.save_pretrained(folder)
    if name in ("gpt2", "t5"):
        special = ["<|endoftext|>"] if name == "gpt2" else ["<pad>", "</s>", "<unk>"]
        ids = {word: number for number, word in enumerate([*special, *WORDS])}
        inner = tokenizers.Tokenizer(models.WordLevel(ids, unk_token=special[-1]))
        inner.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
        inner.add_special_tokens(special)
        if name == "t5":
            inner.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
                single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
            )
        inner.save(str(folder / "tokenizer.json"))
    else:
        (folder / "vocab.txt").write_text("\n".join(BERT) + "\n")
    return folder


TEXTS = ["good film", "not a very good play", "the poor film"]


def same_tensors(one: Path, two: Path) -> None:
    first, second = load_file(one / "model.safetensors"), load_file(two / "model.safetensors")
    first = {name: t for name, t in first.items() if not name.endswith("position_ids")}
    assert first.keys() == second.keys()
    assert all(first[n].dtype == second[n].dtype and first[n].shape == second[n].shape for n in first)
    assert all(first[n].numpy().tobytes() == second[n].numpy().tobytes() for n in first)


@pytest.mark.parametrize("name", MODELS)
def test_converting_to_a_run_and_back_keeps_weights_and_tokens(name: str, tmp_path: Path) -> None:
    folder = published(name, tmp_path / "published")
    back = to_published(to_run(folder, tmp_path / "run"), tmp_path / "back")
    same_tensors(folder, back)
    first, second = weft.load(folder).codec, weft.load(back).codec
    assert first is not None and second is not None
    assert first.info.fields == second.info.fields and first.info.target == second.info.target
    one, two = first.tokenizers["text"], second.tokenizers["text"]
    assert [one.encode(t) for t in TEXTS] == [two.encode(t) for t in TEXTS]
    assert (one.special, one.frame, one.names) == (two.special, two.frame, two.names)  # pyright: ignore[reportAttributeAccessIssue]
    theirs, ours = (type(MODELS[name]()).from_pretrained(run_folder).eval() for run_folder in (folder, back))
    old, new = theirs.config.to_dict(), ours.config.to_dict()
    changed = {key for key in old if key not in new or (old[key] is not None and old[key] != new[key])}
    assert changed <= {"_name_or_path", "dtype", "transformers_version"}
    ids = torch.tensor([[5, 6, 7, 8]])
    more = {"decoder_input_ids": ids} if name == "t5" else {}
    with torch.no_grad():
        assert torch.equal(theirs(ids, **more)[0], ours(ids, **more)[0])


@pytest.mark.parametrize("name", MODELS)
def test_a_converted_run_does_not_need_the_published_folder(name: str, tmp_path: Path) -> None:
    folder = published(name, tmp_path / "published")
    run_folder = to_run(folder, tmp_path / "run")
    before = weft.load(folder)
    hidden = folder.rename(tmp_path / "elsewhere")
    run = weft.load(run_folder)
    assert run.folder == run_folder
    if name in ("gpt2", "t5"):
        search = GreedySearch(max_length=8)
        written = run.generate(TEXTS, search)
        assert written == before.generate(TEXTS, search)
        if name == "t5":  # start and end ids come from its config
            theirs: Any = hf.T5ForConditionalGeneration.from_pretrained(hidden).eval()
            tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(hidden / "tokenizer.json"))
            found = [next(h[0].ids for h in run.hypotheses([text], search)) for text in TEXTS]
            for text, ids in zip(TEXTS, found, strict=True):
                told: Any = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
                wanted = theirs.generate(**told, max_new_tokens=8, do_sample=False, suppress_tokens=[0])[0, 1:].tolist()
                assert ids == [i for i in wanted if i != 1]
    elif name in ("classes", "electra"):
        assert run.predict(TEXTS) == before.predict(TEXTS)
        assert [a.probabilities for a in run.predictions(TEXTS)] == [a.probabilities for a in before.predictions(TEXTS)]
    if name in ("bert", "masks", "classes"):
        texts = [*TEXTS, "a good film " * 20]
        old, new = open_embedder(hidden), open_embedder(run_folder)
        if name == "classes":  # a run that classifies has its own pooler, a published one is averaged: so is this
            assert isinstance(new.pooler, weft.blocks.MeanPooler)
        assert np.array_equal(old(texts), new(texts)) and (old.truncated, old.max_length) == (new.truncated, new.max_length) == (
            1,
            30,
        )


def commands(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main([*arguments])
    return int(left.value.code or 0)


def test_commands_accept_a_converted_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(TEXTS) + "\n")
    for name in ("classes", "t5"):
        published(name, tmp_path / name)
        assert commands("convert", str(tmp_path / name), str(tmp_path / "runs" / name)) == 0
        assert capsys.readouterr().out == f"wrote {tmp_path / 'runs' / name}\n"
    classes, t5 = str(tmp_path / "runs/classes"), str(tmp_path / "runs/t5")
    assert commands("predict", classes, str(file)) == 0
    assert set(capsys.readouterr().out.split()) <= {"no", "perhaps", "yes"}
    (tmp_path / "rows.tsv").write_text("text\tlabel\ngood film\tyes\nbad play\tno\n")
    assert commands("evaluate", classes, str(tmp_path / "rows.tsv")) == 0
    assert commands("embed", classes, str(file), "--query", "film") == 0
    assert commands("generate", t5, str(file)) == 0
    capsys.readouterr()
    for run in (classes, t5):
        assert commands("inspect", run, "--input", "good film", "--out", str(tmp_path / "page.html")) == 0
    assert commands("convert", t5, str(tmp_path / "back")) == 0
    same_tensors(tmp_path / "t5", tmp_path / "back")
    capsys.readouterr()
    assert commands("convert", str(tmp_path / "t5"), t5) == 2
    assert "already exists and is not empty; choose another folder" in capsys.readouterr().err
    assert commands("convert", str(tmp_path / "t5"), str(tmp_path / "new"), "--family", "t5") == 2
    assert "is not a run folder" in capsys.readouterr().err
    assert commands("train", t5, "--resume", "--run", t5) == 2
    assert "there is no file" in capsys.readouterr().err


@pytest.mark.parametrize("step", ["write_weights", "save_codec", "write_json"])
def test_an_interrupted_conversion_leaves_no_files(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = published("bert", tmp_path / "published")
    run = to_run(folder, tmp_path / "run")
    there = sorted(tmp_path.iterdir())

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(weft.inference.convert, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            to_run(folder, tmp_path / "other")
        if step == "write_json":
            patched.setattr(weft.inference.convert, "write_text", interrupted)
            with pytest.raises(KeyboardInterrupt):
                to_published(run, tmp_path / "other")
    assert sorted(tmp_path.iterdir()) == there
    assert weft.load(to_run(folder, tmp_path / "other")).folder == tmp_path / "other"


def test_an_existing_output_is_rejected(tmp_path: Path) -> None:
    folder = published("bert", tmp_path / "published")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="already exists and is not empty"):
        to_run(folder, tmp_path / "file")
    with pytest.raises(ValueError, match=r"cannot write .*: Not a directory"):
        to_run(folder, tmp_path / "file" / "run")
    (tmp_path / "empty").mkdir()
    assert weft.load(to_run(folder, tmp_path / "empty")).model is not None


def test_minilm_survives_conversion_to_a_run_and_back(tmp_path: Path) -> None:
    run = to_run("minilm", tmp_path / "minilm")
    back = to_published(run, tmp_path / "back")
    same_tensors(find_model("minilm"), back)
    texts = ["A dog in the snow.", "Puppies play outside.", "Interest rates rose."]
    wanted = open_embedder("minilm")(texts)
    assert np.array_equal(wanted, open_embedder(run)(texts)) and np.array_equal(wanted, open_embedder(back)(texts))
