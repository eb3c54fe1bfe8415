"""A published model that was loaded is written back with all that belongs to it: transformers loads it and uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers as hf
from safetensors.torch import load_file
from tokenizers import models, pre_tokenizers, processors

import weft
from weft.pretrained import load, save

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "good", "bad", "fine", "poor", "film", "play", "very", "not"]
ENCODER = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 30,
}
PAIR = {"vocab_size": len(WORDS), "d_model": 16, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 4}
BART = {
    f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 20))
}
THEIRS: dict[str, Any] = {
    "classify": lambda: hf.BertForSequenceClassification(hf.BertConfig(**ENCODER, num_labels=3, classifier_dropout=0.2)),
    "tag": lambda: hf.BertForTokenClassification(hf.BertConfig(**ENCODER, num_labels=5, classifier_dropout=0.2)),
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=len(WORDS), n_embd=16, n_layer=1, n_head=2, n_positions=30, bos_token_id=0, eos_token_id=2)
    ),
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**PAIR, d_kv=6, num_heads=2, num_layers=1, d_ff=20)),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**PAIR, **BART, max_position_embeddings=30)),
}


def published(name: str, folder: Path) -> Any:
    torch.manual_seed(1)
    theirs = THEIRS[name]()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    theirs.tie_weights()
    theirs.save_pretrained(folder)
    inner = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.add_special_tokens(WORDS[:5])
    inner.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    hf.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="</s>").save_pretrained(folder)
    return theirs.eval()


def change(folder: Path, **config: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))


@pytest.mark.parametrize("name", THEIRS)
def test_what_was_loaded_goes_back_whole(name: str, tmp_path: Path) -> None:
    theirs = published(name, tmp_path / "theirs")
    loaded = load(tmp_path / "theirs")
    assert loaded.tokenizer.encode("very good film") == [11, 5, 9]
    out = loaded.save(tmp_path / "ours")
    first, second = (load_file(tmp_path / side / "model.safetensors") for side in ("theirs", "ours"))
    assert first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)
    was, now = (json.loads((tmp_path / side / "config.json").read_text()) for side in ("theirs", "ours"))
    assert {key: now.get(key) for key in was if key not in ("dtype", "transformers_version")} == {
        key: was[key] for key in was if key not in ("dtype", "transformers_version")
    }
    again, tokenizer = type(theirs).from_pretrained(out).eval(), hf.AutoTokenizer.from_pretrained(out)
    ids = torch.tensor([tokenizer("very good film")["input_ids"]])
    with torch.no_grad():
        if name in ("gpt2", "t5", "bart"):
            assert torch.equal(*(m.generate(ids, max_new_tokens=9, do_sample=False) for m in (theirs, again)))
        else:
            assert torch.allclose(theirs(ids).logits, again(ids).logits, atol=1e-5)


def test_nothing_is_written_over_and_nothing_is_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published("classify", tmp_path / "theirs")
    loaded = load(tmp_path / "theirs")
    for write in (loaded.save, lambda folder: save(loaded.model, loaded.structure, folder)):
        with pytest.raises(ValueError, match="already exists and is not empty; choose another folder"):
            write(tmp_path / "theirs")  # a sharded model's index would still list its tensors
    monkeypatch.setattr("weft.pretrained.saving.save_file", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    for write in (loaded.save, lambda folder: save(loaded.model, loaded.structure, folder)):
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "ours")
        assert [file.name for file in tmp_path.iterdir()] == ["theirs"]


def test_classes_are_counted_where_they_have_no_names(tmp_path: Path) -> None:
    theirs = published("classify", tmp_path / "theirs")
    loaded = load(tmp_path / "theirs")
    save(loaded.model, loaded.structure, tmp_path / "ours")
    again = hf.BertForSequenceClassification.from_pretrained(tmp_path / "ours").eval()
    assert again.config.num_labels == 3 and torch.equal(again.classifier.weight, theirs.classifier.weight)


def test_a_tokenizer_with_more_ids_than_the_model_is_refused(tmp_path: Path) -> None:
    published("classify", tmp_path)
    inner = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    inner.add_tokens(["more", "words"])
    inner.save(str(tmp_path / "tokenizer.json"))
    for opened in (lambda: load(tmp_path).tokenizer, lambda: weft.load(tmp_path)):
        with pytest.raises(ValueError, match=r"the tokenizer has 15 ids, but config.json has vocab_size 13"):
            opened()


def test_regression_and_multi_label_heads_are_saved(tmp_path: Path) -> None:
    texts = ["very good film", "bad play"]
    theirs = published("classify", tmp_path)
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path)
    with torch.no_grad():
        logits = [theirs(torch.tensor([tokenizer(text)["input_ids"]])).logits[0] for text in texts]
    change(tmp_path, problem_type="multi_label_classification", id2label={"0": "a", "1": "b", "2": "c"})
    answers = [answer.value() for answer in weft.load(tmp_path).predictions(texts)]
    assert answers == [["abc"[i] for i in range(3) if row[i] > 0] for row in logits]
    change(tmp_path, problem_type="regression")
    with pytest.raises(ValueError, match=r"problem_type is 'regression' with 3 labels, but only 1 is supported"):
        load(tmp_path)
    change(tmp_path, problem_type="ranking")
    with pytest.raises(ValueError, match=r"problem_type is 'ranking', but it must be regression, single_label_class"):
        load(tmp_path)


def test_one_label_is_a_number(tmp_path: Path) -> None:
    THEIRS["one"] = lambda: hf.BertForSequenceClassification(hf.BertConfig(**ENCODER, num_labels=1))
    theirs = published("one", tmp_path)
    ids = torch.tensor([hf.AutoTokenizer.from_pretrained(tmp_path)("very good film")["input_ids"]])
    with torch.no_grad():
        expected = float(theirs(ids).logits)
    assert float(weft.load(tmp_path).predict(["very good film"])[0]) == pytest.approx(expected, rel=1e-4)
