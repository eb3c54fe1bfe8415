"""BART that classifies against the package transformers: the same weights give the same logits, losses and gradients."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from tests.commands import weft as command
from tokenizers import models, pre_tokenizers, processors
from torch import Tensor

import weft
from weft.core.batch import Batch, Clock, collate
from weft.core.fields import Info, LabelField, TextField
from weft.core.registry import name_of
from weft.core.seq import Seq
from weft.inference.convert import to_published
from weft.models import Seq2SeqClassifier, bart
from weft.models.seq2seq_classifier import shift_right
from weft.objectives import Classification
from weft.pretrained import load, save
from weft.training.recipes import read_run_text

VOCAB, PAD, END = 50, 1, 2
BODY: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": 48,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 28,
    "max_position_embeddings": 30,
}
MORE: dict[str, dict[str, Any]] = {
    "three": {},
    "two-scaled": {"num_labels": 2, "scale_embedding": True, "activation_function": "relu"},
    "five-dropped": {"num_labels": 5, "classifier_dropout": 0.25},
}


def written(name: str, seed: int, folder: Path, norms: float = 0.0) -> Any:
    """A model of transformers whose every parameter is sampled from N(0, 0.3), those of norms around ``norms``."""
    model = hf.BartForSequenceClassification(hf.BartConfig(**BODY, **MORE[name]))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            mean = norms if re.search(r"norm\w*\.weight$", key) else 0.0
            tensor.copy_(mean + torch.randn(tensor.shape, generator=generator) * 0.3)
    model.save_pretrained(folder)
    return model.eval()


def rows(seed: int, lengths: tuple[int, ...] = (9, 6, 1, 2)) -> tuple[Tensor, Tensor]:
    """Ids that end with EOS, padded on the right, and which of them are real."""
    ids = torch.randint(5, VOCAB, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    position, last = torch.arange(max(lengths)), torch.tensor(lengths)[:, None] - 1
    return ids.masked_fill(position == last, END).masked_fill(position > last, PAD), position <= last


def logits(model: Any, x: Seq) -> Tensor:
    return model.classifier(model.features(x))


def close(ours: Tensor, theirs: Tensor, to: float = 1e-5) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= to * max(1e-3, float(theirs.abs().max()))


def test_the_decoder_reads_the_text_moved_on_and_its_last_token_first() -> None:
    ids, real = rows(1, (4, 3, 1))
    right = shift_right(Seq(ids, real, {"characters": ids[..., None] + 100}))
    turned = Seq(ids.flip(1), real.flip(1))
    a, b, c, d = ids[0].tolist()
    assert right.data[0].tolist() == [d, a, b, c] and d == END
    assert right.data[1, :3].tolist() == [END, *ids[1, :2].tolist()] and right.data[2, 0] == END
    assert torch.equal(right.marks["characters"][real][:, 0], right.data[real] + 100)
    assert shift_right(turned).data[1, 1:].tolist() == [ids[1, 0], *ids[1, 1:3].flip(0).tolist()]  # padding on the left
    assert shift_right(Seq(ids[:1])).data.tolist() == [[d, a, b, c]]


@pytest.mark.parametrize("norms", [0.0, 1.0])
@pytest.mark.parametrize("name", MORE)
def test_logits_and_losses_are_the_same(name: str, norms: float, tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        theirs = written(name, seed, tmp_path / str(seed), norms)
        loaded = load(tmp_path / str(seed))
        assert isinstance(loaded.model, Seq2SeqClassifier) and not loaded.report.new and not loaded.report.unused
        ids, real = rows(seed)
        label = torch.randint(theirs.config.num_labels, (4,), generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            result = theirs(ids, attention_mask=real.long(), labels=label)
            close(logits(loaded.model, Seq(ids, real)), result.logits)
            batch = Batch({"text": Seq(ids, real), "label": label}, 4)
            loss = Classification(loaded.info, 48)(loaded.model, batch, Clock()).mean()
        close(loss[None], result.loss[None])


def test_gradients_are_the_same(tmp_path: Path) -> None:
    theirs = written("three", 5, tmp_path, norms=1.0)
    ours = load(tmp_path).model
    ids, real = rows(5)
    theirs(ids, attention_mask=real.long()).logits.pow(2).mean().backward()
    logits(ours, Seq(ids, real)).pow(2).mean().backward()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(parameter.grad)
    theirs.save_pretrained(tmp_path / "gradients")
    named = dict(load(tmp_path / "gradients").model.named_parameters())
    largest = max(float(p.grad.abs().max()) for p in ours.parameters())
    for key, parameter in ours.named_parameters():
        off = (parameter.grad - named[key]).abs()
        if key.endswith("embedder.parts.0.weight"):
            off[PAD] = 0  # theirs learn nothing about the vector of padding
        assert off.max() <= 1e-4 * largest, key


@pytest.mark.parametrize("name", MORE)
def test_what_weft_writes_transformers_reads(name: str, tmp_path: Path) -> None:
    theirs = written(name, 7, tmp_path / "theirs")
    loaded = load(tmp_path / "theirs")
    save(loaded.model, loaded.structure, tmp_path / "ours")
    first, second = (load_file(tmp_path / side / "model.safetensors") for side in ("theirs", "ours"))
    assert first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)
    again = hf.BartForSequenceClassification.from_pretrained(tmp_path / "ours").eval()
    ids, real = rows(7)
    with torch.no_grad():
        assert torch.equal(*(m(ids, attention_mask=real.long()).logits for m in (theirs, again)))
    assert again.config.classifier_dropout == theirs.config.classifier_dropout
    assert json.loads((tmp_path / "ours/config.json").read_text())["architectures"] == ["BartForSequenceClassification"]


def test_two_tensors_that_are_swapped_are_noticed(tmp_path: Path) -> None:
    written("three", 9, tmp_path, norms=1.0)
    whole = load_file(tmp_path / "model.safetensors")
    by_shape: dict[Any, list[str]] = {}
    for key, tensor in whole.items():
        by_shape.setdefault(tuple(tensor.shape), []).append(key)
    ids, real = rows(9, (9, 8))

    @torch.no_grad()
    def result() -> Tensor:
        return logits(load(tmp_path).model, Seq(ids, real))

    before = result()
    pairs = [pair for keys in by_shape.values() for pair in itertools.combinations(keys, 2)]
    pairs = [pair for pair in pairs if not all(key.endswith(".k_proj.bias") for key in pair)]  # no softmax can tell
    heads = [pair for pair in pairs if any(key.startswith("classification_head") for key in pair)]
    chosen = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))[:80].tolist()
    for one, two in [*heads[:20], *(pairs[i] for i in chosen)]:
        swapped = {**whole, one: whole[two], two: whole[one]}
        save_file(swapped, tmp_path / "model.safetensors", metadata={"format": "pt"})
        assert (result() - before).abs().max() > 2e-5 * before.abs().max(), (one, two)


def test_a_bart_that_writes_classifies_with_a_new_head(tmp_path: Path) -> None:
    hf.BartForConditionalGeneration(hf.BartConfig(**BODY)).save_pretrained(tmp_path)
    loaded = load(tmp_path, task="classification")
    new = [f"classifier.{part}.{of}" for part in ("hidden", "out") for of in ("weight", "bias")]
    assert loaded.report.new == new and loaded.report.unused in ([], ["final_logits_bias"])
    with pytest.raises(ValueError, match="not supported by bart; use one of generation, classification"):
        load(tmp_path, task="token-classification")


def test_a_decoder_that_begins_otherwise_is_refused(tmp_path: Path) -> None:
    written("three", 1, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"decoder_start_token_id": 0}))
    with pytest.raises(ValueError, match=r"decoder_start_token_id is 0, but task classification needs eos_token_id \(2\)"):
        load(tmp_path)
    load(tmp_path, task="generation")


def test_a_copy_of_the_tokens_that_differs_is_refused(tmp_path: Path) -> None:
    written("three", 1, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    copy = tensors["model.shared.weight"].clone()
    save_file(tensors | {"model.encoder.embed_tokens.weight": copy}, tmp_path / "model.safetensors")
    assert not load(tmp_path).report.unused
    save_file(tensors | {"model.encoder.embed_tokens.weight": copy + 1}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"model.encoder.embed_tokens.weight differs"):
        load(tmp_path)


def test_the_named_model_has_the_parts_of_the_published_one(tmp_path: Path) -> None:
    same = {"decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 20}
    hf.BartForSequenceClassification(hf.BartConfig(**BODY | same)).save_pretrained(tmp_path)
    loaded = load(tmp_path)
    structure = bart(dim=48, layers=2, heads=2, hidden=20, length=30, task="classification")
    ours, theirs = ({k: tuple(p.shape) for k, p in m.named_parameters()} for m in (structure(loaded.info), loaded.model))
    assert name_of(structure) == "seq2seq-classifier" and ours == theirs


def test_the_classes_differ_by_the_last_token_alone() -> None:
    """The last state has seen all of the text: also the token before EOS."""
    info = Info({"text": TextField("text", VOCAB), "label": LabelField("label", 2, labels=("a", "b"))})
    torch.manual_seed(0)
    model = bart(dim=16, layers=1, heads=2, hidden=8, length=20, task="classification")(info).eval()
    ids, _ = rows(3, (6,))
    other = ids.clone()
    other[0, 4] = ids[0, 4] % 40 + 6
    objective = Classification(info, 16)
    made = [objective.prepare({"text": x[0, :-1].numpy(), "label": 0}, None, None) for x in (ids, other)]
    batch = collate(made)
    assert torch.equal(batch["text"].data, torch.cat([ids, other]))
    with torch.no_grad():
        shares = objective.probabilities(model, batch)
    assert (shares[0] - shares[1]).abs().max() > 1e-5


# ------------------------------------------------------------------------------------------------------------------ runs

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "good", "bad", "fine", "poor", "film", "play", "very", "not"]
TEXTS = [("good film", "yes"), ("bad play", "no"), ("fine film", "yes"), ("poor play", "no"), ("very good", "yes")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny published BART that writes, with its tokenizer."""
    folder = tmp_path / "published"
    small = {"vocab_size": len(WORDS), "d_model": 16, "max_position_embeddings": 32, "dropout": 0.0}
    torch.manual_seed(0)
    hf.BartForConditionalGeneration(hf.BartConfig(**BODY | small | {"decoder_attention_heads": 2})).save_pretrained(folder)
    inner = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.add_special_tokens(WORDS[:5])
    inner.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    inner.save(str(folder / "tokenizer.json"))
    return folder


def recipe(folder: Path, data: str) -> str:
    return f"""
data: {{type: {data}, train: train.tsv, valid: train.tsv, tokenizer: {{type: pretrained, from: {folder}}}, max_length: 14}}
structure: {{type: pretrained, from: {folder}, task: classification}}
objective: classification
learning: {{type: gradient, steps: 40, batch_tokens: 200, optimizer: {{type: adamw, lr: 1.0e-2}}, save_every: 0}}
evaluate: {{every: 0, metrics: [accuracy]}}
"""


def test_a_published_bart_is_trained_asked_and_goes_back(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "train.tsv").write_text("sentence\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in TEXTS * 4))
    judged = read_run_text(recipe(folder, "labeled-text"), "r.yaml", tmp_path).train(tmp_path / "run", quiet=True).result
    assert judged.metric_values["accuracy"] == 1.0
    answer = command("predict", tmp_path / "run", given=b"very good film\nbad play\n")
    assert answer.code == 0 and answer.out.split() == ["yes", "no"]
    to_published(tmp_path / "run", tmp_path / "out")
    theirs = hf.BartForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    ids = torch.tensor([[0, *(WORDS.index(w) for w in ["very", "good", "film"]), END]])
    with torch.no_grad():
        shares = theirs(ids).logits.softmax(-1)[0].tolist()
    assert theirs.config.id2label == {0: "no", 1: "yes"} and theirs.config.decoder_start_token_id == END
    ours = next(weft.load(tmp_path / "run").predictions(["very good film"])).probabilities
    assert [ours["no"], ours["yes"]] == pytest.approx(shares, abs=1e-5)


def test_pairs_of_texts_too(tmp_path: Path, folder: Path) -> None:
    pairs = [("good film", "fine film", "yes"), ("good film", "bad play", "no"), ("bad play", "poor play", "yes")]
    (tmp_path / "train.tsv").write_text("first\tsecond\tlabel\n" + "".join("\t".join(row) + "\n" for row in pairs * 4))
    judged = read_run_text(recipe(folder, "sentence-pairs"), "r.yaml", tmp_path).train(tmp_path / "run", quiet=True).result
    assert judged.metric_values["accuracy"] == 1.0
    to_published(tmp_path / "run", tmp_path / "out")
    theirs = hf.BartForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert theirs.config.decoder_start_token_id == END
    one, two = ([WORDS.index(w) for w in text.split()] for text in pairs[1][:2])
    with torch.no_grad():
        shares = theirs(torch.tensor([[0, *one, END, END, *two, END]])).logits.softmax(-1)[0].tolist()
    ours = next(weft.load(tmp_path / "run").predictions([{"first": "good film", "second": "bad play"}])).probabilities
    assert [ours["no"], ours["yes"]] == pytest.approx(shares, abs=1e-5)
