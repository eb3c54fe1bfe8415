"""Masks that are filled: their names in a text, the best tokens at them, and what is no question is refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.commands import weft

from weft.core.batch import Batch, collate
from weft.core.contracts import Objective
from weft.core.fields import Info, TextField
from weft.core.outputs import MaskPrediction
from weft.data import BPE, Byte, ByteBPE, Character, PretrainedTokenizer, Unigram, Word, WordPiece
from weft.data.tokenizers.mask_tokens import MaskAwareTokenizer
from weft.generate import GreedySearch
from weft.models import bert
from weft.objectives import MaskedLM, NextSentence, NextToken, Weighted
from weft.training.recipes import read_run_text

TEXTS = ["the cat sat on the mat .", "the dog sat on the rug .", "a cat and a dog sat ."] * 40


@pytest.mark.parametrize("make", [Word, WordPiece, BPE, partial(ByteBPE, vocab_size=300), partial(Unigram, vocab_size=60)])
@pytest.mark.parametrize("name", ["<mask>", "[MASK]"])
def test_a_mask_by_its_name_stands_where_a_token_would(make: Any, name: str) -> None:
    tokenizer = make()
    tokenizer.train(TEXTS)
    whole = tokenizer.encode("the cat sat on the mat .")
    assert len(whole) == 7  # a token for each word
    asked = {"the {0} sat on the mat .": [1], "{0} cat sat {0} the mat {0}": [0, 3, 6], "the cat {0} {0} the mat .": [2, 3]}
    for text, positions in asked.items():
        wanted = [4 if i in positions else whole[i] for i in range(7)]
        found = MaskAwareTokenizer(tokenizer).encode(text.format(name))
        assert found == wanted
        assert MaskAwareTokenizer(tokenizer).encode_batch([text.format(name), "the cat sat"]) == [
            wanted,
            tokenizer.encode("the cat sat"),
        ]


@pytest.mark.parametrize("make", [Character, Byte])
def test_blanks_are_tokens_of_their_own_where_they_are(make: Any) -> None:
    tokenizer = make()
    tokenizer.train(TEXTS)
    cat = tokenizer.encode("the cat")
    assert MaskAwareTokenizer(tokenizer).encode("the <mask>at") == [*cat[:4], 4, *cat[5:]]


def test_spelled_words_have_a_spelling_for_the_mask() -> None:
    tokenizer = Word(max_characters=5)
    tokenizer.train(TEXTS)
    spelled = MaskAwareTokenizer(tokenizer).spell("the <mask> sat")
    assert spelled is not None and len(spelled) == 3 and [spelled[0], spelled[2]] == tokenizer.spell("the sat")


def test_a_published_tokenizer_knows_its_own_mask(tmp_path: Path) -> None:
    file = tmp_path / "vocab.txt"
    file.write_text("[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat".replace(" ", "\n"))
    masking = MaskAwareTokenizer(PretrainedTokenizer(from_=str(file)))
    assert masking.encode("the [MASK] sat") == masking.encode("the <mask> sat") == [5, 4, 7]


INFO = Info({"text": TextField("text", 30, sentinel_count=3)})


def filler() -> Any:
    torch.manual_seed(0)
    return bert(dim=16, layers=1, heads=2, hidden=16, length=32, task="masked-lm")(INFO).eval()


def asked(objective: Objective, *texts: Any) -> Batch:
    instances = [objective.prepare_request({"text": np.array(text)}) for text in texts]
    return collate([instance for instance in instances if instance is not None])


def test_the_best_ordinary_token_is_predicted_for_each_mask() -> None:
    model, objective = filler(), MaskedLM(INFO, 16)
    texts = [np.array([8, 4, 9, 4]), np.array([4, 10, 11, 12, 13])]
    found = objective.predict(model, asked(objective, *texts), GreedySearch())
    assert [len(one.ids) for one in found] == [2, 1]
    for text, one in zip(texts, found, strict=True):
        assert isinstance(one, MaskPrediction) and one.of == "text"
        with torch.no_grad():
            logits_TV = model.head(model.encode(asked(objective, text)["text"]).data[0])
        logits_TV[:, INFO["text"].reserved_ids()] = -torch.inf
        assert list(one.ids) == logits_TV.argmax(-1)[np.flatnonzero(text == 4)].tolist()


def test_the_first_part_of_several_is_asked() -> None:
    model = filler()
    objective = Weighted(INFO, 16, parts={"fill": MaskedLM, "other": NextToken})
    assert objective.fills and not Weighted(INFO, 16, parts={"other": NextToken, "fill": MaskedLM}).fills
    alone = MaskedLM(INFO, 16)
    (wanted,) = alone.predict(model, asked(alone, [8, 4, 9]), GreedySearch())
    assert objective.predict(model, asked(objective, [8, 4, 9]), GreedySearch()) == [wanted]


def test_what_cannot_be_filled_is_refused() -> None:
    objective, example = MaskedLM(INFO, 16), {"text": np.arange(8, 20)}
    with pytest.raises(ValueError, match=r"the text has no mask token; write <mask> or \[MASK\]"):
        objective.prepare_request(example)
    hidden = objective.prepare(example, np.random.default_rng(0), None)
    assert hidden is not None
    with pytest.raises(ValueError, match="has no predictions to compare with references"):
        objective.predict(filler(), collate([hidden]), GreedySearch())
    assert not MaskedLM(INFO, 16, mask_ratio=0.0, pairing=NextSentence).fills


def test_a_run_fills_masks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text("\n".join(TEXTS))
    recipe = """
data: {type: plain-text, train: t.txt, tokenizer: word, validation_fraction: 0}
structure: {type: bert, dim: 32, layers: 1, heads: 2, hidden: 32, length: 64, task: masked-lm}
objective: masked-lm
learning: {type: gradient, steps: 60, batch_tokens: 400, optimizer: {type: adam, lr: 0.01}}
"""
    run = read_run_text(recipe, "r.yaml", tmp_path)
    trained = run.train("run", quiet=True)
    answers = trained.predict(["the dog [MASK] on the rug <mask>", "a cat and a dog <mask> ."])
    assert answers == ["sat\t.", "sat"]
    with pytest.raises(ValueError, match="request 2: the text has no mask token"):
        trained.predict(["the <mask>", "the cat"])
    Path("asked.txt").write_text("the dog <mask> on the rug [MASK]\n")
    assert weft("predict", "run", "asked.txt").out == "sat | .\n"
    assert '"answer": ["sat", "."]' in weft("predict", "run", "asked.txt", "--json").out
