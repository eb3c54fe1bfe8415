"""Perplexity of texts under a trained run, a pretrained model and an n-gram model, per token and per word."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers

import weft
from weft.data import BPE, Byte, ByteBPE, Dates, PlainText, Word
from weft.evaluate import Evaluation, KneserNey, WordPerplexity
from weft.inference.perplexity import Perplexity, perplexity
from weft.learning import Gradient
from weft.models import LanguageModel, Seq2Seq
from weft.objectives import NextToken

TEXTS = ["the food was good", "so cold", "the staff was very very rude today", "it is fine", "the food was cold"] * 4


def trained(folder: Path, tokenizer, length=64) -> weft.TrainedRun:
    (folder / "text.txt").write_text("\n".join(TEXTS))
    data = partial(
        PlainText, train=str(folder / "text.txt"), valid=str(folder / "text.txt"), tokenizer=tokenizer, max_length=length
    )
    run = weft.Run(
        data=data,
        structure=partial(LanguageModel, dim=16),
        objective=NextToken,
        learning=partial(Gradient, steps=20, batch_tokens=200),
        evaluate=partial(Evaluation, metrics=[WordPerplexity]),
    )
    return run.train(folder / "run", quiet=True)


@pytest.fixture(scope="module", params=["word", "pieces"])
def run(request, tmp_path_factory) -> weft.TrainedRun:
    tokenizer = partial(Word, vocab_size=100) if request.param == "word" else partial(BPE, vocab_size=40)
    folder = tmp_path_factory.mktemp("lm")
    trained(folder, tokenizer)
    return weft.load(folder / "run")


def test_perplexity_equals_that_of_the_evaluation(run):
    metric_values, found = run.evaluate("valid").metric_values, perplexity(run, TEXTS)
    assert found.per_token == pytest.approx(metric_values["perplexity"], rel=1e-5)
    assert found.per_word == pytest.approx(metric_values["word_perplexity"], rel=1e-5)
    assert found.words == sum(len(text.split()) + 1 for text in TEXTS) and found.unknown == 0
    assert found.tokens >= found.words and not run.model.training


def test_the_likelihood_does_not_depend_on_batching(run, monkeypatch):
    total = perplexity(run, TEXTS)
    monkeypatch.setattr("weft.inference.engine.MAX_BATCH_TOKENS", 20)
    parts = [perplexity(run, [text]) for text in TEXTS]
    for found in (perplexity(run, TEXTS), perplexity(run, TEXTS[::-1])):
        assert found.nll == pytest.approx(total.nll, rel=1e-5) and found.tokens == total.tokens
    assert sum(part.nll for part in parts) == pytest.approx(total.nll, rel=1e-5)


def test_of_an_empty_text_eos_is_scored(run):
    found = perplexity(run, [""])
    assert (found.tokens, found.words) == (1, 1) and found.nll > 0


def test_the_mode_of_the_model_is_restored(run):
    run.model.train()
    perplexity(run, TEXTS[:1])
    assert run.model.training
    run.model.eval()


def test_out_of_vocabulary_words_are_counted(tmp_path):
    run = trained(tmp_path, partial(Word, vocab_size=100))
    assert perplexity(run, ["the xylophone was good", "quux"]).unknown == 2


@pytest.mark.parametrize("tokenizer", [partial(Word, vocab_size=100), partial(ByteBPE, vocab_size=300), Byte])
def test_word_perplexity_counts_only_the_words_that_were_scored(tmp_path, tokenizer):
    """A truncated text has the loss of its first tokens: exp(loss / words of those tokens), not of the full text."""
    long = ["the food was good and the staff was rude today " * 2, "so cold"]
    (tmp_path / "text.txt").write_text("\n".join(long * 4))
    data = partial(PlainText, train=str(tmp_path / "text.txt"), valid=str(tmp_path / "text.txt"), tokenizer=tokenizer)
    data = partial(data, max_length=7, on_overflow="truncate")
    learning = partial(Gradient, steps=2, batch_tokens=200)
    evaluate = partial(Evaluation, metrics=[WordPerplexity])
    structure = partial(LanguageModel, dim=16)
    run = weft.Run(data=data, structure=structure, objective=NextToken, learning=learning, evaluate=evaluate)
    result = run.train(tmp_path / "run", quiet=True).evaluate("valid")
    found, codec = result.metric_values, weft.load(tmp_path / "run").codec
    tokens = [min(7, len(codec.encode("text", text))) + 1 for text in long]
    scored = [len(codec.decode("text", codec.encode("text", text)[:7].tolist()).split()) + 1 for text in long]
    assert found["word_perplexity"] == pytest.approx(found["perplexity"] ** (sum(tokens) / sum(scored)), rel=1e-4)
    cut = 4 * (sum(len(text.split()) + 1 for text in long) - sum(scored))
    assert found["truncated_words"] == cut > 0
    assert result.remarks == result.details([])["remarks"]
    assert any(f"does not include {cut} words" in remark for remark in result.remarks)


def test_split_texts_lose_no_words(tmp_path):
    """The pieces of a split text are decoded texts, which may encode to more tokens than the piece has."""
    run = trained(tmp_path, partial(BPE, vocab_size=30), length=5)
    found = run.evaluate("valid")
    assert found.metric_values["truncated_words"] == 0 and not found.remarks


def test_a_pretrained_gpt2_equals_transformers(tmp_path):
    tokenizer = ByteBPE(vocab_size=300)
    tokenizer.train(TEXTS)
    tokenizer.save(tmp_path / "tokenizer.json")
    torch.manual_seed(4)
    config = transformers.GPT2Config(
        vocab_size=tokenizer.vocab, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    theirs.save_pretrained(tmp_path)
    run = weft.load(tmp_path)
    nll, tokens = 0.0, 0
    for text in TEXTS[:3]:
        ids = run.codec.encode("text", text).tolist()
        with torch.no_grad():
            logp = theirs(torch.tensor([[1, *ids]])).logits[0].log_softmax(-1)
        nll -= sum(float(logp[at, token]) for at, token in enumerate([*ids, 2]))
        tokens += len(ids) + 1
    found = perplexity(run, TEXTS[:3])
    assert found.nll == pytest.approx(nll, rel=1e-4) and found.tokens == tokens
    with pytest.raises(ValueError, match=r"text 1 has \d+ tokens; the model accepts at most 15"):
        perplexity(run, ["so", "the food was good " * 6])


def test_ngram_models_score_words():
    model = KneserNey([text.split() for text in TEXTS], order=3)
    sentences = ["the food was rude", "so so", ""]
    found = perplexity(model, sentences)
    assert found.nll == pytest.approx(-sum(model.logprob(text.split()) for text in sentences))
    assert found.tokens == found.words == 9 and found.unknown == 0
    assert found.per_token == found.per_word == pytest.approx(model.perplexity([text.split() for text in sentences]))
    assert perplexity(model, ["the xylophone <unk>"]).unknown == 2


def test_perplexity_per_token_and_per_word():
    found = Perplexity(nll=6 * math.log(4), tokens=6, words=3)
    assert found.per_token == pytest.approx(4) and found.per_word == pytest.approx(16)
    assert math.isfinite(Perplexity(nll=1e9, tokens=1, words=1).per_token)


def test_invalid_arguments_are_rejected(tmp_path):
    model = KneserNey([["a"]])
    with pytest.raises(ValueError, match="expected a list of texts, got one string"):
        perplexity(model, "a")
    with pytest.raises(ValueError, match="got no texts"):
        perplexity(model, [])
    run = trained(tmp_path, partial(Word, vocab_size=100), length=8)
    with pytest.raises(ValueError, match="text 1 has 9 tokens; the model accepts at most 8"):
        perplexity(run, ["so " * 8, "so " * 9])
    untrained = weft.Run(
        data=partial(Dates, train=20),
        structure=partial(Seq2Seq, dim=8),
        objective=NextToken,
        learning=partial(Gradient, steps=1, batch_tokens=100),
    )
    with pytest.raises(AttributeError, match="not trained yet"):
        perplexity(untrained, ["a"])
    seq2seq = untrained.train(tmp_path / "dates", quiet=True)
    with pytest.raises(ValueError, match=r"needs a causal language model, but the model of \w+ provides: .*Decodes"):
        perplexity(seq2seq, ["a"])
