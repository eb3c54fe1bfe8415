"""Options and names of special tokens in the files beside a vocabulary. transformers reads the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers as hf
from tokenizers import models, pre_tokenizers, processors

from weft.core.fields import Frame, Special
from weft.data import PretrainedTokenizer

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = ["Hello é É hello", "日本 e", "HELLO [MASK] e\u0301", "Hello日e"]


@pytest.mark.parametrize("chinese", [True, False])
@pytest.mark.parametrize("accents", [None, True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_a_vocabulary_is_read_with_the_options_of_its_config(
    lower: bool, accents: bool | None, chinese: bool, tmp_path: Path
) -> None:
    for pieces in (["hello", "Hello", "é", "É", "e", "日", "本", "##本"], ["hello", "é", "e", "日", "本", "##本", "##日", "##e"]):
        (tmp_path / "vocab.txt").write_text("\n".join([*BERT, *pieces]) + "\n")
        options = {"do_lower_case": lower, "strip_accents": accents, "tokenize_chinese_chars": chinese}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({**options, "tokenizer_class": "BertTokenizer"}))
        theirs: Any = hf.BertTokenizer.from_pretrained(tmp_path)
        ours = PretrainedTokenizer(from_=str(tmp_path))
        for text in TEXTS:
            assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], (text, pieces)


def test_what_is_chosen_counts_more_than_the_config(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join([*BERT, "hello"]) + "\n")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert PretrainedTokenizer(from_=str(tmp_path)).encode("Hello") == [1]
    assert PretrainedTokenizer(from_=str(tmp_path), lowercase=True).encode("Hello") == [5]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": "yes"}')
    with pytest.raises(ValueError, match=r"do_lower_case in tokenizer_config\.json is 'yes'; it must be true or false"):
        PretrainedTokenizer(from_=str(tmp_path)).encode("Hello")
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"tokenizer_config\.json: must be a JSON object"):
        PretrainedTokenizer(from_=str(tmp_path)).encode("Hello")


NAMES = {"pad": "«pad»", "cls": "«cls»", "sep": "«sep»", "mask": "«mask»", "unk": "«unk»"}
SPECIAL = Special(pad=0, bos=1, eos=2, unk=5, mask=3, cls=1, sep=2)


def own_names(folder: Path) -> None:
    ids = {name: number for number, name in enumerate([*list(NAMES.values())[:4], "a", "«unk»"])}
    inner: Any = tokenizers.Tokenizer(models.WordLevel(ids, unk_token="«unk»"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.BertProcessing(("«sep»", 2), ("«cls»", 1))
    inner.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("as_object", [False, True])
def test_special_tokens_have_the_names_in_the_files(file: str, as_object: bool, tmp_path: Path) -> None:
    own_names(tmp_path)
    options = {f"{key}_token": {"content": name, "lstrip": False} if as_object else name for key, name in NAMES.items()}
    (tmp_path / file).write_text(json.dumps(options))
    found = PretrainedTokenizer(from_=str(tmp_path))
    assert found.special == SPECIAL and found.frame == Frame((1,), (2,), (2,), True)
    assert found.decode([1, 4, 3, 4, 2, 0]) == "a a"
    (tmp_path / file).unlink()
    assert PretrainedTokenizer(from_=str(tmp_path)).special.mask == -1  # no file specifies it


def test_a_vocabulary_with_other_names(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join([*list(NAMES.values())[:4], "a", "«unk»"]) + "\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({f"{key}_token": name for key, name in NAMES.items()}))
    found = PretrainedTokenizer(from_=str(tmp_path))
    assert found.special == SPECIAL and found.frame.first == (1,) and found.encode("a b") == [4, 5]


def test_the_eos_of_a_gpt2_is_not_unknown(tmp_path: Path) -> None:
    names = {name: number for number, name in enumerate([*sorted(pre_tokenizers.ByteLevel.alphabet()), "<|endoftext|>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(names))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    options = {f"{key}_token": "<|endoftext|>" for key in ("bos", "eos", "unk")}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    assert PretrainedTokenizer(from_=str(tmp_path)).special == Special(256, 256, 256, -1, -1, 256, 256)


def test_a_frame_is_found_where_a_is_no_token(tmp_path: Path) -> None:
    inner: Any = tokenizers.Tokenizer(models.BPE({"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "日": 3, "本": 4}, []))
    inner.add_special_tokens(["[PAD]", "[CLS]", "[SEP]"])
    inner.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    inner.save(str(tmp_path / "tokenizer.json"))
    found = PretrainedTokenizer(from_=str(tmp_path))
    assert found.encode("日本") == [3, 4] and found.frame == Frame((1,), (2,), (2,), True)


@pytest.mark.parametrize("framed", [False, True])
def test_a_vocabulary_of_special_tokens_alone_is_refused(framed: bool, tmp_path: Path) -> None:
    inner: Any = tokenizers.Tokenizer(models.BPE())
    inner.add_special_tokens(["<s>", "</s>"])
    if framed:
        inner.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    inner.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match="no text can be tokenized: the vocabulary is empty"):
        PretrainedTokenizer(from_=str(tmp_path)).encode("a")
