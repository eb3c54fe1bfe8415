"""Tokenizer folders as transformers reads them: GPT's and ByT5's files, options of tokenizer_config.json, templates."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import transformers as hf
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers

from weft.core.example import MarkedIds
from weft.core.fields import Frame
from weft.data import PretrainedTokenizer, Word

CORPUS = [
    "low lower lowest slow slower, slowest!",
    "Don't be naïve: cafés in the Straße cost 12.50 €",
    "漢字 and 仮名 (x) 'quoted'",
]
PIECES = [
    *CORPUS,
    "",
    " ",
    "  two  spaces ",
    "<unk>",
    "<s>",
    "</s>",
    "<mask>",
    "<pad>",
    "<extra_id_3>",
    "\t\n",
    "É",
    "e\u0301",
    "a\u00a0b",
    "🙂👩‍👧",
    "'s",
    "low</w>",
]


def texts(count: int = 150) -> list[str]:
    rng = random.Random(5)
    return [*PIECES, *("".join(rng.choices([*PIECES, *"abcé .,'\"<>/w1", " "], k=rng.randint(1, 6))) for _ in range(count))]


def same(folder: Path, theirs: Any, given: list[str]) -> None:
    ours = PretrainedTokenizer(from_=str(folder))
    assert [ours.encode(text) for text in given] == [theirs(text, add_special_tokens=False)["input_ids"] for text in given]
    assert ours.vocab == len(theirs)
    for text in CORPUS:
        assert ours.frame.around([np.array(ours.encode(text))]).tolist() == theirs(text)["input_ids"]  # type: ignore[union-attr]


def trained(suffix: str | None = None) -> dict[str, Any]:
    """The model of a BPE that was trained on the corpus: byte-level, or with a suffix at the end of words."""
    inner = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix=suffix) if suffix else models.BPE())
    if suffix:
        inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    else:
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = [] if suffix else pre_tokenizers.ByteLevel.alphabet()
    special = ["<unk>"] if suffix else ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    ends = {"end_of_word_suffix": suffix} if suffix else {}
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=special, initial_alphabet=alphabet, show_progress=False, **ends)
    inner.train_from_iterator(CORPUS * 3, trainer)
    return json.loads(inner.to_str())["model"]


def write_files(folder: Path, model: dict[str, Any], **config: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def test_gpt_has_words_that_end(tmp_path: Path) -> None:
    write_files(tmp_path, trained("</w>"), tokenizer_class="OpenAIGPTTokenizer", unk_token="<unk>")
    theirs = hf.OpenAIGPTTokenizer.from_pretrained(tmp_path)
    same(tmp_path, theirs, texts())
    ours, ids = PretrainedTokenizer(from_=str(tmp_path)), theirs("slower cafés")["input_ids"]
    assert ours.decode(ids) == theirs.decode(ids) == "slower cafes"
    (tmp_path / "tokenizer_config.json").unlink()  # as the files of the first release
    assert PretrainedTokenizer(from_=str(tmp_path)).encode_batch(texts()) == ours.encode_batch(texts())


def test_byt5_has_no_vocabulary_file(tmp_path: Path) -> None:
    theirs = hf.ByT5Tokenizer()
    theirs.save_pretrained(tmp_path)
    assert not {file.name for file in tmp_path.iterdir()} & {"tokenizer.json", "vocab.json", "vocab.txt", "spiece.model"}
    same(tmp_path, theirs, texts())
    ours = PretrainedTokenizer(from_=str(tmp_path))
    assert (ours.special.pad, ours.special.eos, ours.special.unk, ours.sentinel_count) == (0, 1, 2, 125)
    assert ours.decode(ours.encode(CORPUS[2])) == CORPUS[2]
    a, b = (np.array(ours.encode(text)) for text in CORPUS[:2])
    assert ours.frame.around([a, b]).tolist() == theirs(*CORPUS[:2])["input_ids"]  # type: ignore[union-attr]
    ours.save(tmp_path / "copy.json")
    other = PretrainedTokenizer(from_="nowhere")
    other.load(tmp_path / "copy.json")
    assert other.encode_batch(texts()) == ours.encode_batch(texts())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "ByT5Tokenizer", "extra_ids": 125}))
    assert PretrainedTokenizer(from_=str(tmp_path)).encode_batch(texts()) == ours.encode_batch(texts())


@pytest.mark.parametrize("prefix", [True, False, None])
@pytest.mark.parametrize("kind", [hf.GPT2Tokenizer, hf.RobertaTokenizer])
def test_the_space_before_a_text_is_that_of_the_config(kind: Any, prefix: bool | None, tmp_path: Path) -> None:
    told = {} if prefix is None else {"add_prefix_space": prefix}
    special = {} if kind is hf.RobertaTokenizer else {f"{name}_token": "</s>" for name in ("bos", "eos", "unk")}
    write_files(tmp_path / "two", trained(), tokenizer_class=kind.__name__, **special, **told)
    plain = [text for text in texts() if "<" not in text]  # which names are special tokens depends on the class
    same(tmp_path / "two", kind.from_pretrained(tmp_path / "two"), plain) if kind is hf.RobertaTokenizer else None
    ours = PretrainedTokenizer(from_=str(tmp_path / "two"))
    theirs = kind.from_pretrained(tmp_path / "two")
    assert ours.encode_batch(plain) == theirs(plain, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    "kind", ["RobertaTokenizer", "RobertaTokenizerFast", "GPT2Tokenizer", "BartTokenizer", "PreTrainedTokenizerFast"]
)
def test_the_config_beside_a_tokenizer_json_counts_where_theirs_does(
    kind: str, stored: bool, prefix: bool, tmp_path: Path
) -> None:
    hf.RobertaConfig().save_pretrained(tmp_path)
    model = trained()
    inner = tokenizers.Tokenizer(models.BPE(model["vocab"], [tuple(merge) for merge in model["merges"]]))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=stored), decoders.ByteLevel()
    inner.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind, "add_prefix_space": prefix}))
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path)
    plain = [text for text in texts(60) if "<" not in text]
    expected = theirs(plain, add_special_tokens=False)["input_ids"]
    assert PretrainedTokenizer(from_=str(tmp_path)).encode_batch(plain) == expected


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    "kind", ["BertTokenizer", "BertTokenizerFast", "ElectraTokenizer", "DistilBertTokenizer", "PreTrainedTokenizerFast"]
)
def test_lower_casing_beside_a_tokenizer_json_counts_where_theirs_does(
    kind: str, stored: bool, lower: bool, tmp_path: Path
) -> None:
    hf.BertConfig().save_pretrained(tmp_path)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "low", "Low", "##er", "##ER", "é", "É", "e", "E", "L", "l", "##ow"]
    inner = tokenizers.Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(lowercase=stored), pre_tokenizers.BertPreTokenizer()
    inner.add_special_tokens(pieces[:5])
    inner.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    inner.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind, "do_lower_case": lower}))
    same(tmp_path, hf.AutoTokenizer.from_pretrained(tmp_path), ["Lower low LOWER", "É é e E", "[MASK] Low"])


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_mpnet_has_wordpiece_between_the_special_tokens_of_roberta(lower: bool, saved: bool, tmp_path: Path) -> None:
    letters = sorted({c for text in CORPUS for c in text if not c.isspace()})
    pieces = ["<s>", "<pad>", "</s>", "[UNK]", *letters, *(f"##{c}" for c in letters), "low", "##er", "##est", "<mask>"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    names = {"cls": "<s>", "bos": "<s>", "sep": "</s>", "eos": "</s>", "pad": "<pad>", "unk": "[UNK]", "mask": "<mask>"}
    config = {"tokenizer_class": "MPNetTokenizer", "do_lower_case": lower, **{f"{k}_token": v for k, v in names.items()}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    hf.MPNetConfig().save_pretrained(tmp_path)
    theirs = hf.MPNetTokenizer.from_pretrained(tmp_path)
    if saved:
        theirs.save_pretrained(tmp_path)
    same(tmp_path, theirs, texts())
    same_pairs(tmp_path, theirs)
    assert PretrainedTokenizer(from_=str(tmp_path)).special.pad == 1


def test_distilbert_has_the_tokenizer_of_bert(tmp_path: Path) -> None:
    letters = sorted({c for text in CORPUS for c in text.lower() if not c.isspace()})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters), "low", "##er"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    hf.DistilBertConfig().save_pretrained(tmp_path)
    theirs = hf.DistilBertTokenizer.from_pretrained(tmp_path)
    same(tmp_path, theirs, texts())
    theirs.save_pretrained(tmp_path)
    same(tmp_path, theirs, texts())
    same_pairs(tmp_path, theirs)


def test_xlm_r_has_a_unigram_between_the_special_tokens_of_roberta(tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer(models.Unigram())
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=special, unk_token="<unk>", show_progress=False)
    inner.train_from_iterator(CORPUS * 3, trainer)
    vocabulary = [(piece, score) for piece, score in json.loads(inner.to_str())["model"]["vocab"]]
    theirs = hf.XLMRobertaTokenizer(vocab=[*vocabulary, ("<mask>", 0.0)])
    theirs.save_pretrained(tmp_path)
    hf.XLMRobertaConfig().save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.model"))
    same(tmp_path, hf.AutoTokenizer.from_pretrained(tmp_path), texts())
    same_pairs(tmp_path, theirs)


def same_pairs(folder: Path, theirs: Any) -> None:
    ours = PretrainedTokenizer(from_=str(folder))
    for given in (CORPUS[:2], CORPUS[1:]):
        found = ours.frame.around([np.array(ours.encode(text)) for text in given])
        ids = found.ids if isinstance(found, MarkedIds) else found
        assert ids.tolist() == theirs(*given)["input_ids"]


def test_options_that_are_no_booleans_are_named(tmp_path: Path) -> None:
    write_files(tmp_path, trained(), add_prefix_space="yes")
    with pytest.raises(ValueError, match=r"add_prefix_space in tokenizer_config\.json is 'yes'; it must be true or false"):
        PretrainedTokenizer(from_=str(tmp_path)).encode("a")


TEMPLATES = {
    "bert": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"),
    "roberta": ("[CLS] $A [SEP]", "[CLS] $A [SEP] [SEP] $B [SEP]"),
    "bare pair": ("[CLS] $A [SEP]", "$A [SEP] $B:1"),
    "xlnet": ("$A [SEP] [CLS]:2", "$A [SEP] $B:1 [SEP]:1 [CLS]:2"),
    "order": ("[CLS] $A", "[CLS] $B:1 [SEP]:1 $A:0 [SEP]:0"),
    "extra": ("$A [SEP]", "[CLS] [CLS] $A [SEP] [MASK] $B:1 [SEP]:1 [SEP]:1"),
    "segments": ("[CLS]:1 $A:1 [SEP]:0", "[CLS]:1 $A:0 [SEP]:1 $B:0 [SEP]:1"),
    "nothing": ("$A", "$A $B"),
}


def write_template(file: Path, single: str, pair: str) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "low", "dog", "very"]
    inner = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens([AddedToken(word) for word in words[:5]])
    special = [(word, i) for i, word in enumerate(words[:5])]
    inner.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)
    inner.save(str(file))


@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_are_framed_as_the_template_does(name: str, tmp_path: Path) -> None:
    write_template(tmp_path / "tokenizer.json", *TEMPLATES[name])
    theirs = hf.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "tokenizer.json"), model_input_names=["input_ids", "token_type_ids"]
    )
    ours = PretrainedTokenizer(from_=str(tmp_path / "tokenizer.json"))
    for given in (["very low dog"], ["a"], ["very low dog", "a a"], ["a", "dog very"]):
        expected = theirs(*given)
        encoded = [np.array(ours.encode(text), np.int64) for text in given]
        found = ours.frame.around(encoded)
        ids, segment = (found.ids, found.marks["segment"]) if isinstance(found, MarkedIds) else (found, np.zeros(len(found), int))
        assert ids.tolist() == expected["input_ids"] and segment.tolist() == expected["token_type_ids"]
        assert ours.frame.size(len(given)) == len(ids) - sum(map(len, encoded))
        for index, part in enumerate(encoded):
            start = ours.frame.start([len(part) for part in encoded], index)
            assert ids[start : start + len(part)].tolist() == part.tolist()


def test_a_template_that_repeats_a_text_is_refused(tmp_path: Path) -> None:
    write_template(tmp_path / "tokenizer.json", "[CLS] $A [SEP]", "[CLS] $A $A [SEP] $B [SEP]")
    with pytest.raises(ValueError, match=r"tokenizer\.json: the template of the post-processor repeats a text"):
        PretrainedTokenizer(from_=str(tmp_path)).encode("a")


def test_the_usual_form_needs_no_template() -> None:
    assert PretrainedTokenizer(from_="minilm").frame == Frame((101,), (102,), (102,), True)


def test_words_are_encoded_as_in_the_text(tmp_path: Path) -> None:
    for prefix, expected in ((False, " "), (True, "")):
        write_files(tmp_path / str(prefix), trained(), tokenizer_class="RobertaTokenizer", add_prefix_space=prefix)
        ours = PretrainedTokenizer(from_=str(tmp_path / str(prefix)))
        assert ours.word_prefix == expected
        for text in CORPUS:
            first, *others = text.split(" ")
            alone = [ours.encode(first), *(ours.encode(expected + word) for word in others)]
            assert [i for ids in alone for i in ids] == ours.encode(text)
    word = Word()
    word.train(CORPUS)
    assert word.word_prefix == "" == PretrainedTokenizer(from_="minilm").word_prefix
