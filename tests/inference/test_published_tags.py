"""Tags of a published RoBERTa: its words have the tokens that they have in the text, in prediction and in training."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers as hf
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

import weft
from weft.data import ByteBPE, PretrainedTokenizer, TaggedText

WORDS = ["x", "good", "film", "bad", "Don't", "café", "12.5", "(a)", "<mask>", "🙂"]


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "prefix space"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roberta")
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=request.param), decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator([" ".join(WORDS)] * 3, trainer)
    inner.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True)])  # as RoBERTa's
    inner.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=request.param)
    inner.save(str(folder / "tokenizer.json"))
    torch.manual_seed(1)
    config = hf.RobertaConfig(
        vocab_size=inner.get_vocab_size(),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=60,
        num_labels=5,
        initializer_range=0.5,
    )
    hf.RobertaForTokenClassification(config).save_pretrained(folder)
    return folder


def texts() -> list[str]:
    rng = random.Random(3)
    return ["x good", *(" ".join(rng.choices(WORDS, k=rng.randint(1, 8))) for _ in range(20))]


def test_tags_are_those_of_transformers(folder: Path) -> None:
    model = hf.RobertaForTokenClassification.from_pretrained(folder).eval()
    tokenizer: Any = hf.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    expected = []
    for text in texts():
        with torch.no_grad():
            best = model(torch.tensor([tokenizer(text)["input_ids"]])).logits[0].argmax(-1).tolist()
        words = text.split(" ")
        before = [tokenizer(" ".join(words[:count]), add_special_tokens=False)["input_ids"] for count in range(len(words))]
        expected.append(" ".join(f"LABEL_{best[1 + len(ids)]}" for ids in before))
    assert weft.load(folder).predict(texts()) == expected


def test_words_are_trained_with_the_tokens_of_the_text(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "train.txt"
    file.write_text(
        "\n\n".join("\n".join(f"{word}\t{'B-X' if word == 'x' else 'O'}" for word in text.split(" ")) for text in texts()) + "\n"
    )
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))

    def tokenizer() -> PretrainedTokenizer:
        return PretrainedTokenizer(from_=str(folder))

    data = TaggedText(train=str(file), tokenizer=tokenizer).open().splits["train"]
    stored = {" ".join(map(str, np.asarray(data[row]["text"]).tolist())) for row in range(len(data))}
    expected = {" ".join(map(str, library.encode(text, add_special_tokens=False).ids)) for text in texts()}
    assert len(stored) > 15 and stored <= expected  # some are held out


def test_a_byte_level_vocabulary_of_the_data_too(tmp_path: Path) -> None:
    file = tmp_path / "train.txt"
    file.write_text("\n".join(f"{word}\t{'B-X' if word == 'x' else 'O'}" for word in WORDS) + "\n")
    corpus = TaggedText(train=str(file), tokenizer=lambda: ByteBPE(vocab_size=300), validation_fraction=0).open()
    found = np.asarray(corpus.splits["train"][0]["text"]).tolist()
    assert found == corpus.codec.tokenizers["text"].encode(" ".join(WORDS))
