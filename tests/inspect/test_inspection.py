"""``weft inspect``: exact attention weights, token and class probabilities, limits."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from weft.blocks.attention.multihead import MultiHeadAttention
from weft.core.batch import Instance
from weft.core.contracts import Attention, Codec, Encoder, Pooler
from weft.core.fields import Info, LabelField, TextField
from weft.core.masks import Full
from weft.core.outputs import Hypothesis
from weft.core.seq import Seq
from weft.data import Character
from weft.inference.trained_run import TrainedRun
from weft.inspect import inspection
from weft.inspect.alignment import alignments
from weft.inspect.attention_page import CROSS, AttentionExample
from weft.inspect.inspection import (
    BOS,
    DECODER,
    ENCODER,
    EOS,
    OTHER,
    POOLED,
    POOLING,
    SELF,
    inspect_run,
    inspect_text,
    inspect_texts,
)
from weft.objectives import Classification
from weft.training.recipes import read_run_text

TRANSFORMER = "{type: transformer, layers: 2, layer: {mixer: {type: multihead, heads: 2, dropout: 0.5}}}"
SEQ2SEQ = "{{type: seq2seq, dim: 8, encoder: {0}, decoder: {1}}}"
MODELS = {
    "transformer": SEQ2SEQ.format(TRANSFORMER, TRANSFORMER),
    "fused lstm attention": SEQ2SEQ.format("lstm", "{type: attention-lstm, score: general}"),
    "lstm attention": SEQ2SEQ.format("lstm", "{type: attention-lstm, score: additive}"),
    "plain lstm": SEQ2SEQ.format("lstm", "lstm"),
    "language model": f"{{type: language-model, dim: 8, decoder: {TRANSFORMER}}}",
    "both": f"{{type: language-model, dim: 8, decoder: {TRANSFORMER}, pooler: last}}",
    "classifier": f"{{type: classifier, dim: 8, encoder: {TRANSFORMER}}}",
    "lstm classifier": "{type: classifier, dim: 8}",
}
CHARACTERS = "abcdefgh <>/'\"&"


def run_of(name: str, search: str = "{type: greedy, max_length: 6}") -> TrainedRun:
    """An untrained run, as ``weft.load`` would give it."""
    structure = MODELS[name]
    tokens = Character()
    tokens.train([CHARACTERS])
    text = TextField("text", tokens.vocab, space="characters", max_length=2000)
    label = LabelField("label", 3, labels=("good", "<b>bad</b>", "odd"))
    pair = {n: TextField(n, tokens.vocab, space="characters", max_length=2000) for n in ("source", "target")}
    info = Info(pair, "target") if "seq2seq" in structure else Info({"text": text, "label": label}, "text")
    parts = {"data": "dates", "structure": structure, "objective": "next-token", "learning": "{type: gradient, steps: 1}"}
    recipe = "".join(f"{key}: {value}\n" for key, value in {**parts, "evaluate": f"{{search: {search}}}"}.items())
    run = read_run_text(recipe, "here.yaml", Path())
    torch.manual_seed(1)
    run.name, model = name, run.structure(info)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    model.train(False)
    objectives = {"": Classification(info, model.dim)} if "label" in info else {}
    return TrainedRun(run, model, Codec(info, {"characters": tokens}), objectives)


def attended(model: torch.nn.Module, act) -> dict[str, tuple]:
    """Module, keys and values, and output of each attention module that ``act`` runs."""
    seen, hooks = {}, []
    for name, module in model.named_modules():
        if isinstance(module, Attention):
            keep = lambda m, given, out, name=name: seen.__setitem__(name, (m, given[1], out.data))  # noqa: E731
            hooks.append(module.register_forward_hook(keep))
    with torch.inference_mode():
        act()
    for hook in hooks:
        hook.remove()
    return seen


def batch_of(run, **ids):
    return run.collate([Instance({name: np.array(some) for name, some in ids.items()})])


def ids_of(run: TrainedRun, field: str, text: str) -> list[int]:
    return run.codec.encode(field, text).tolist()


# outputs as long as the source too: a map over the one must not be mistaken for a map over the other
@pytest.mark.parametrize("answer", ["b", "abc", "hgfedcba"])
@pytest.mark.parametrize("name", ["transformer", "fused lstm attention", "lstm attention"])
def test_weights_times_values_equal_the_output_of_the_fused_kernel(name, answer, monkeypatch):
    run = run_of(name)
    source, target = [*ids_of(run, "source", "abc"), 2], [1, *ids_of(run, "target", answer)]
    fused, kernel = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: (fused.append(1), kernel(*a, **k))[1])

    def act():
        batch = batch_of(run, source=source, input=target)
        run.model.decode(batch["input"], run.model.memory(batch))

    seen = attended(run.model, act)
    assert len(fused) == (0 if name == "lstm attention" else len(seen))
    fused.clear()
    example = inspect_text(run.model, run.codec, "abc", target[1:])
    assert not fused
    assert_exact(example, seen)
    shapes = {ENCODER: (4, 4), DECODER: (len(target), len(target)), CROSS: (len(target), 4)}
    kinds = {n: m.kind for n, m in example.maps.items()}
    if name == "transformer":
        parts = {"encoder": ("mixer", ENCODER), "decoder": ("mixer", DECODER), "cross": ("context", CROSS)}
        expected = {
            f"{'encoder' if part == 'encoder' else 'decoder'}.stack.layers.{n}.{own}": kind
            for n in range(2)
            for part, (own, kind) in parts.items()
        }
        assert kinds == expected
    else:
        assert kinds == {"decoder.attention": CROSS}
    assert next(iter(kinds.values())) == CROSS
    tokens = {
        ENCODER: (["a", "b", "c", EOS],) * 2,
        DECODER: ([*answer, EOS], [BOS, *answer]),
        CROSS: ([*answer, EOS], ["a", "b", "c", EOS]),
    }
    for m in example.maps.values():
        assert tuple(m.weights.shape[1:]) == shapes[m.kind] and (m.queries, m.keys) == tokens[m.kind]


def assert_exact(example: AttentionExample, seen: dict) -> None:
    assert set(example.maps) == set(seen) and seen
    for name, (module, kv, out_BTD) in seen.items():
        weight_HTS = example.maps[name].weights
        assert torch.allclose(weight_HTS.sum(-1), torch.ones(weight_HTS.shape[:2]), atol=1e-6)
        value_HTK = weight_HTS @ kv.value[0]
        again = module.out(value_HTK.transpose(0, 1).flatten(1))
        assert torch.allclose(again, out_BTD[0], atol=2e-6), name


@pytest.mark.parametrize("name", ["language model", "classifier"])
def test_weights_are_exact_in_models_with_one_sequence(name):
    run = run_of(name)
    if name == "classifier":
        ids = [*ids_of(run, "text", "abca"), 2]
        seen = attended(run.model, lambda: run.model.features(batch_of(run, text=ids)["text"]))
        example = inspect_text(run.model, run.codec, "abca")
        tokens = (["a", "b", "c", "a", EOS],) * 2
    else:
        ids = [1, *ids_of(run, "text", "abca")]
        seen = attended(run.model, lambda: run.model.decode(batch_of(run, text=ids)["text"], None))
        example = inspect_text(run.model, run.codec, "ab", ids_of(run, "text", "ca"))
        tokens = (["a", "b", "c", "a", EOS], [BOS, "a", "b", "c", "a"])
    assert_exact(example, seen)
    assert all((m.queries, m.keys) == tokens and m.kind == SELF for m in example.maps.values())


def test_inspection_restores_the_mode_and_applies_no_dropout():
    run = run_of("transformer")
    run.model.train()
    first, second = (inspect_text(run.model, run.codec, "abc", [9, 8]) for _ in range(2))
    assert run.model.training and all(torch.equal(first.maps[n].weights, second.maps[n].weights) for n in first.maps)


# ------------------------------------------------------------------------------------------------------------ candidates


@pytest.mark.parametrize("name", ["transformer", "plain lstm", "language model"])
@pytest.mark.parametrize(
    "search",
    ["{type: greedy, max_length: 6}", "{type: beam, beams: 3, n_best: 3, max_length: 6}", "{type: sample, max_length: 6}"],
)
def test_probabilities_are_those_of_the_search(name, search):
    run = run_of(name, search)
    text = "fade"
    [[found, *others]] = run.hypotheses([text])
    [example] = inspect_texts(run, [text], top=4)
    forced = 4 if name == "language model" else 0
    steps = example.steps[forced:]
    assert [s.forced for s in example.steps] == [True] * forced + [False] * len(found.steps)
    assert [math.log(s.probability) for s in steps] == pytest.approx(found.steps, abs=1e-4)
    assert len(example.target) == len(example.steps) == forced + len(found.ids) + found.finished
    assert [s.token for s in example.steps] == list(example.target)
    for step in example.steps:
        probabilities = [p for _, p in step.candidates]
        assert len(probabilities) == 4 and probabilities == sorted(probabilities, reverse=True)
        assert sum(probabilities) <= 1 + 1e-6
        if step.rank <= 4:
            assert step.candidates[step.rank - 1] == (step.token, pytest.approx(step.probability))
        else:
            assert step.probability <= probabilities[-1] and step.token not in dict(step.candidates)
        assert not {BOS, "<pad>", "<mask>"} & set(dict(step.candidates))
    if "greedy" in search:
        assert all(s.rank == 1 for s in steps)
    if "beam" in search:
        assert [score for _, score in example.candidates] == [h.score for h in (found, *others)]
    else:
        assert not example.candidates
    assert example.output == run.decode(found) and example.input == text


def test_an_output_token_may_be_none_of_the_most_probable():
    run = run_of("transformer")
    worst = inspect_text(run.model, run.codec, "a", ids_of(run, "target", CHARACTERS), top=1).steps
    assert any(s.rank > 1 for s in worst) and all(len(s.candidates) == 1 for s in worst)


def test_an_unfinished_output_has_no_eos():
    run = run_of("transformer")
    example = inspect_text(run.model, run.codec, "a", Hypothesis([8, 9], 0.0, 0.0, finished=False))
    assert EOS not in example.target and len(example.steps) == len(example.target) == 2
    assert inspect_text(run.model, run.codec, "", Hypothesis([], 0.0, 0.0, finished=False)).notes == ["No token was generated."]


def test_class_probabilities_equal_those_of_the_classifier():
    run = run_of("classifier")
    for text in ("abc", "", "hgf"):
        [example] = inspect_texts(run, [text])
        logits = run.model.classifier(run.model.features(batch_of(run, text=[*ids_of(run, "text", text), 2])["text"]))
        names = ["good", "<b>bad</b>", "odd"]
        assert dict(example.classes) == pytest.approx(dict(zip(names, logits.softmax(-1)[0].tolist(), strict=True)))
        assert example.output == example.classes[0][0] == run.predict([text])[0]
        assert [p for _, p in example.classes] == sorted((p for _, p in example.classes), reverse=True)


def test_a_language_model_with_a_classifier_shows_output_and_classes():
    run = run_of("both")
    [example] = inspect_texts(run, ["abc"])
    assert example.steps and len(example.classes) == 3 and example.output == run.generate(["abc"])[0]


# ------------------------------------------------------------------------------------------------- other types of attention


class Twice(Encoder):
    """A shared attention module applied twice, and one over every second position."""

    def __init__(self, dim: int):
        super().__init__(dim)
        self.shared, self.fewer = MultiHeadAttention(dim, dim, heads=2), MultiHeadAttention(dim, dim, heads=2)

    def states(self, x: Seq, mask=Full()) -> list[Seq]:
        kv = self.shared.project(x)
        x = self.shared(self.shared(x, kv, mask), kv, mask)
        few = Seq(x.data[:, ::2])
        return [self.fewer(few, self.fewer.project(few), mask)]


class AttentionPooler(Pooler):
    def __init__(self, dim: int):
        super().__init__(dim)
        self.attention, self.query = MultiHeadAttention(dim, dim, heads=2), torch.nn.Parameter(torch.ones(1, 1, dim))

    def forward(self, x: Seq) -> torch.Tensor:
        return self.attention(Seq(self.query.expand(x.rows, 1, -1)), self.attention.project(x), Full()).data[:, 0]


def test_shared_pooling_and_other_attention_have_their_own_groups():
    run = run_of("classifier")
    run.model.encoder, run.model.pooler = Twice(8), AttentionPooler(8)
    maps = inspect_text(run.model, run.codec, "abc").maps
    found = {name: (m.kind, tuple(m.weights.shape)) for name, m in maps.items()}
    assert found == {
        "encoder.shared (1)": (SELF, (2, 4, 4)),
        "encoder.shared (2)": (SELF, (2, 4, 4)),
        "encoder.fewer": (OTHER, (2, 2, 2)),
        "pooler.attention": (OTHER, (2, 1, 2)),
    }
    assert maps["encoder.fewer"].queries == ["1", "2"]
    run.model.encoder = run.run.structure(run.codec.info).encoder
    pooled = inspect_text(run.model, run.codec, "abc").maps["pooler.attention"]
    assert (pooled.kind, pooled.queries, len(pooled.keys)) == (POOLING, [POOLED], 4)


# ----------------------------------------------------------------------------------------------------------- files, limits


@pytest.mark.parametrize("name", MODELS)
def test_every_type_of_model_has_a_page(name, tmp_path):
    run = run_of(name)
    texts = ["abc", "", "<script>alert(1)</script>", "\u2028\u202e😀"]
    file = inspect_run(run, texts, tmp_path / "new" / "page.html")
    assert file == tmp_path / "new" / "page.html" and name in file.read_text() and "alert(1)</script>" not in file.read_text()


@pytest.mark.parametrize("name", MODELS)
def test_every_type_of_model_with_attention_or_classes_has_an_image(name, tmp_path):
    run = run_of(name)
    if name == "plain lstm":
        with pytest.raises(ValueError, match="neither attention nor classes to plot; write a page"):
            inspect_run(run, ["abc"], tmp_path / "x.png")
        return
    file = inspect_run(run, ["ab<c"], tmp_path / "new" / "x.PNG")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_long_texts_are_rejected_and_long_outputs_truncated(monkeypatch, tmp_path):
    run = run_of("transformer")
    with pytest.raises(ValueError, match=r"text 2 has 513 tokens; at most 512 can be inspected, pass a shorter text"):
        inspect_run(run, ["a" * 511, "a" * 512], tmp_path / "x.html")
    monkeypatch.setattr(inspection, "MAX_TOKENS", 12)
    assert len(inspect_texts(run, ["a" * 11])[0].source) == 12
    cut = inspect_text(run.model, run.codec, "abc", Hypothesis([8] * 30, 0.0, 0.0))
    assert cut.notes == ["Only the first 11 of 30 generated tokens are shown."] and len(cut.target) == 11 == len(cut.steps)
    model = run_of("language model")
    cut = inspect_text(model.model, model.codec, "a" * 9, Hypothesis([8] * 30, 0.0, 0.0))
    assert cut.notes == ["Only the first 2 of 30 generated tokens are shown."] and len(cut.target) == 11
    assert next(iter(cut.maps.values())).weights.shape[1:] == (11, 11)


def test_invalid_arguments_are_rejected(tmp_path, monkeypatch):
    run = run_of("classifier")
    with pytest.raises(ValueError, match=r"x.pdf has an unknown suffix; .* \.html or \.png"):
        inspect_run(run, ["a"], tmp_path / "x.pdf")
    with pytest.raises(ValueError, match="got no text to inspect"):
        inspect_run(run, [], tmp_path / "x.html")
    with pytest.raises(ValueError, match="an image shows one text, got 2"):
        inspect_run(run, ["a", "b"], tmp_path / "x.png")
    with pytest.raises(ValueError, match="top is 0; must be at least 1"):
        inspect_run(run, ["a"], tmp_path / "x.html", top=0)
    with pytest.raises(ValueError, match="alignments need an encoder-decoder, got Classifier"):
        alignments(run.model, run.codec, ["a"], [[8]])
    plain = run_of("plain lstm")
    with pytest.raises(ValueError, match="LSTMDecoder has no cross-attention"):
        alignments(plain.model, plain.codec, ["a"], [[8]])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"matplotlib: pip install 'weft\[plots\]'"):
        inspect_run(run, ["a"], tmp_path / "x.png")
    with pytest.raises(AttributeError, match="not trained yet"):
        inspect_run(run.run, ["a"], tmp_path / "x.html")


def test_alignments_compare_the_output_with_the_reference():
    run = run_of("lstm attention")
    answers = [ids_of(run, "target", "ab"), Hypothesis(ids_of(run, "target", "cd"), 0.0, 0.0)]
    equal, different = alignments(run.model, run.codec, ["a", "b"], answers, ["ab", "dc"])
    assert (equal.correct, different.correct, different.reference, different.output) == (True, False, "dc", "cd")
    assert alignments(run.model, run.codec, ["a"], answers[:1])[0].correct is None
