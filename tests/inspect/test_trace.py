"""What ``weft inspect`` finds: exact maps, candidates, classes, limits."""

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
from weft.core.fields import Field, Info
from weft.core.masks import Full
from weft.core.outputs import Hypothesis
from weft.core.seq import Seq
from weft.data import Character
from weft.inference.trained_run import TrainedRun
from weft.inspect import trace as look_module
from weft.inspect.alignment import alignments
from weft.inspect.attention_page import CROSS, Example, Map
from weft.inspect.attention_picture import attention_picture
from weft.inspect.trace import BEGIN, DECODER, ENCODER, END, OTHER, POOLING, SELF, WHOLE, inspect_run, look, look_at
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
LETTERS = "abcdefgh <>/'\"&"


def run_of(name: str, search: str = "{type: greedy, max_length: 6}") -> TrainedRun:
    """An untrained run, as ``weft.load`` would give it."""
    structure = MODELS[name]
    tokens = Character()
    tokens.train([LETTERS])
    text = Field("text", tokens.vocab, space="characters", max_length=2000)
    label = Field("label", 3, kind="label", labels=("good", "<b>bad</b>", "odd"))
    pair = {n: Field(n, tokens.vocab, space="characters", max_length=2000) for n in ("source", "target")}
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
    """For each attention of the model: values that it was given, its output, and the map of values to outputs."""
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


# Answers as long as the text too: a map over the one must not be taken for a map over the other.
@pytest.mark.parametrize("answer", ["b", "abc", "hgfedcba"])
@pytest.mark.parametrize("name", ["transformer", "fused lstm attention", "lstm attention"])
def test_maps_times_values_are_what_the_attention_gave_with_its_fused_kernel(name, answer, monkeypatch):
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
    example = look(run.model, run.codec, "abc", target[1:])
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
        ENCODER: (["a", "b", "c", END],) * 2,
        DECODER: ([*answer, END], [BEGIN, *answer]),
        CROSS: ([*answer, END], ["a", "b", "c", END]),
    }
    for m in example.maps.values():
        assert tuple(m.weights.shape[1:]) == shapes[m.kind] and (m.rows, m.columns) == tokens[m.kind]


def assert_exact(example: Example, seen: dict) -> None:
    assert set(example.maps) == set(seen) and seen
    for name, (module, kv, out_BTD) in seen.items():
        weight_HTS = example.maps[name].weights
        assert torch.allclose(weight_HTS.sum(-1), torch.ones(weight_HTS.shape[:2]), atol=1e-6)
        value_HTK = weight_HTS @ kv.value[0]
        again = module.out(value_HTK.transpose(0, 1).flatten(1))
        assert torch.allclose(again, out_BTD[0], atol=2e-6), name


@pytest.mark.parametrize("name", ["language model", "classifier"])
def test_maps_are_exact_in_models_with_one_sequence(name):
    run = run_of(name)
    if name == "classifier":
        ids = [*ids_of(run, "text", "abca"), 2]
        seen = attended(run.model, lambda: run.model.features(batch_of(run, text=ids)["text"]))
        example = look(run.model, run.codec, "abca")
        tokens = (["a", "b", "c", "a", END],) * 2
    else:
        ids = [1, *ids_of(run, "text", "abca")]
        seen = attended(run.model, lambda: run.model.decode(batch_of(run, text=ids)["text"], None))
        example = look(run.model, run.codec, "ab", ids_of(run, "text", "ca"))
        tokens = (["a", "b", "c", "a", END], [BEGIN, "a", "b", "c", "a"])
    assert_exact(example, seen)
    assert all((m.rows, m.columns) == tokens and m.kind == SELF for m in example.maps.values())


def test_looking_changes_nothing_and_does_not_drop():
    run = run_of("transformer")
    run.model.train()
    first, second = (look(run.model, run.codec, "abc", [9, 8]) for _ in range(2))
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
    [example] = look_at(run, [text], top=4)
    given = 4 if name == "language model" else 0
    steps = example.steps[given:]
    assert [s.given for s in example.steps] == [True] * given + [False] * len(found.steps)
    assert [math.log(s.probability) for s in steps] == pytest.approx(found.steps, abs=1e-4)
    assert len(example.target) == len(example.steps) == given + len(found.ids) + found.finished
    assert [s.token for s in example.steps] == list(example.target)
    for step in example.steps:
        shares = [p for _, p in step.candidates]
        assert len(shares) == 4 and shares == sorted(shares, reverse=True) and sum(shares) <= 1 + 1e-6
        if step.rank <= 4:
            assert step.candidates[step.rank - 1] == (step.token, pytest.approx(step.probability))
        else:
            assert step.probability <= shares[-1] and step.token not in dict(step.candidates)
        assert not {BEGIN, "<pad>", "<mask>"} & set(dict(step.candidates))
    if "greedy" in search:
        assert all(s.rank == 1 for s in steps)
    if "beam" in search:
        assert [score for _, score in example.candidates] == [h.score for h in (found, *others)]
    else:
        assert not example.candidates
    assert example.output == run.decode(found) and example.input == text


def test_what_was_written_may_be_none_of_the_likeliest():
    run = run_of("transformer")
    worst = look(run.model, run.codec, "a", ids_of(run, "target", LETTERS), top=1).steps
    assert any(s.rank > 1 for s in worst) and all(len(s.candidates) == 1 for s in worst)


def test_an_unfinished_answer_has_no_end():
    run = run_of("transformer")
    example = look(run.model, run.codec, "a", Hypothesis([8, 9], 0.0, 0.0, finished=False))
    assert END not in example.target and len(example.steps) == len(example.target) == 2
    assert look(run.model, run.codec, "", Hypothesis([], 0.0, 0.0, finished=False)).notes == ["Nothing was written."]


def test_classes_are_those_that_are_predicted():
    run = run_of("classifier")
    for text in ("abc", "", "hgf"):
        [example] = look_at(run, [text])
        logits = run.model.classifier(run.model.features(batch_of(run, text=[*ids_of(run, "text", text), 2])["text"]))
        names = ["good", "<b>bad</b>", "odd"]
        assert dict(example.classes) == pytest.approx(dict(zip(names, logits.softmax(-1)[0].tolist(), strict=True)))
        assert example.output == example.classes[0][0] == run.predict([text])[0]
        assert [p for _, p in example.classes] == sorted((p for _, p in example.classes), reverse=True)


def test_a_model_that_writes_and_classifies_shows_both():
    run = run_of("both")
    [example] = look_at(run, ["abc"])
    assert example.steps and len(example.classes) == 3 and example.output == run.generate(["abc"])[0]


# ------------------------------------------------------------------------------------------------- other kinds of attention


class Twice(Encoder):
    """The same attention two times, and one over half of the places."""

    def __init__(self, dim: int):
        super().__init__(dim)
        self.shared, self.fewer = MultiHeadAttention(dim, dim, heads=2), MultiHeadAttention(dim, dim, heads=2)

    def states(self, x: Seq, mask=Full()) -> list[Seq]:
        kv = self.shared.project(x)
        x = self.shared(self.shared(x, kv, mask), kv, mask)
        few = Seq(x.data[:, ::2])
        return [self.fewer(few, self.fewer.project(few), mask)]


class Asks(Pooler):
    def __init__(self, dim: int):
        super().__init__(dim)
        self.ask, self.query = MultiHeadAttention(dim, dim, heads=2), torch.nn.Parameter(torch.ones(1, 1, dim))

    def forward(self, x: Seq) -> torch.Tensor:
        return self.ask(Seq(self.query.expand(x.rows, 1, -1)), self.ask.project(x), Full()).data[:, 0]


def test_shared_pooling_and_unknown_attention():
    run = run_of("classifier")
    run.model.encoder, run.model.pooler = Twice(8), Asks(8)
    maps = look(run.model, run.codec, "abc").maps
    found = {name: (m.kind, tuple(m.weights.shape)) for name, m in maps.items()}
    assert found == {
        "encoder.shared (1)": (SELF, (2, 4, 4)),
        "encoder.shared (2)": (SELF, (2, 4, 4)),
        "encoder.fewer": (OTHER, (2, 2, 2)),
        "pooler.ask": (OTHER, (2, 1, 2)),
    }
    assert maps["encoder.fewer"].rows == ["1", "2"]
    run.model.encoder = run.run.structure(run.codec.info).encoder
    pooled = look(run.model, run.codec, "abc").maps["pooler.ask"]
    assert (pooled.kind, pooled.rows, len(pooled.columns)) == (POOLING, [WHOLE], 4)


# ----------------------------------------------------------------------------------------------------------- files, limits


@pytest.mark.parametrize("name", MODELS)
def test_a_page_of_every_kind_of_model(name, tmp_path):
    run = run_of(name)
    texts = ["abc", "", "<script>alert(1)</script>", "\u2028\u202e😀"]
    file = inspect_run(run, texts, tmp_path / "new" / "page.html")
    assert file == tmp_path / "new" / "page.html" and name in file.read_text() and "alert(1)</script>" not in file.read_text()


@pytest.mark.parametrize("name", MODELS)
def test_a_picture_of_every_kind_of_model(name, tmp_path):
    run = run_of(name)
    if name == "plain lstm":
        with pytest.raises(ValueError, match="no attention and no classes to draw: write a page"):
            inspect_run(run, ["abc"], tmp_path / "x.png")
        return
    file = inspect_run(run, ["ab<c"], tmp_path / "new" / "x.PNG")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_the_picture_shows_the_maps(tmp_path, monkeypatch, recwarn):
    from matplotlib.figure import Figure

    metric_values, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (metric_values.append(self), save(self, *a, **k))[1])
    weight = np.random.default_rng(0).dirichlet(np.ones(3), (2, 4))
    tokens = ["$x$", "\u202eb", "漢", "long" * 9]
    cross = Example(tokens[:3], tokens, {"other": Map(weight[:, :3], tokens[:3], tokens[:3], SELF), "m": weight})
    attention_picture(cross, tmp_path / "a.png", "$t$")
    attention_picture(Example([], [], {f"l{n}": Map(weight, tokens, tokens[:3], SELF) for n in range(3)}), tmp_path / "b.png")
    attention_picture(Example([], [], classes=[("good", 0.75), ("bad", 0.25)]), tmp_path / "c.png")
    [axes] = metric_values[0].axes
    assert np.allclose(axes.images[0].get_array(), weight.mean(0))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$x$", "U+202Eb", "漢", "longlonglongl…"]
    assert len(metric_values[1].axes) == 6
    assert all(np.allclose(a.images[0].get_array(), weight[n % 2]) for n, a in enumerate(metric_values[1].axes))
    assert [patch.get_width() for patch in metric_values[2].axes[0].patches] == [0.75, 0.25]
    assert not [w for w in recwarn if "lyph" in str(w.message)]


def test_long_texts(monkeypatch, tmp_path):
    run = run_of("transformer")
    with pytest.raises(ValueError, match=r"text 2 has 513 tokens, but at most 512 can be looked into: give a shorter one"):
        inspect_run(run, ["a" * 511, "a" * 512], tmp_path / "x.html")
    monkeypatch.setattr(look_module, "MOST_TOKENS", 12)
    assert len(look_at(run, ["a" * 11])[0].source) == 12
    cut = look(run.model, run.codec, "abc", Hypothesis([8] * 30, 0.0, 0.0))
    assert cut.notes == ["Only the first 11 of 30 written tokens are shown."] and len(cut.target) == 11 == len(cut.steps)
    model = run_of("language model")
    cut = look(model.model, model.codec, "a" * 9, Hypothesis([8] * 30, 0.0, 0.0))
    assert cut.notes == ["Only the first 2 of 30 written tokens are shown."] and len(cut.target) == 11
    assert next(iter(cut.maps.values())).weights.shape[1:] == (11, 11)


def test_mistakes(tmp_path, monkeypatch):
    run = run_of("classifier")
    with pytest.raises(ValueError, match=r"x.pdf is neither a page nor a picture: .* \.html or \.png"):
        inspect_run(run, ["a"], tmp_path / "x.pdf")
    with pytest.raises(ValueError, match="no text to look at"):
        inspect_run(run, [], tmp_path / "x.html")
    with pytest.raises(ValueError, match="a picture shows one text, but 2 were given"):
        inspect_run(run, ["a", "b"], tmp_path / "x.png")
    with pytest.raises(ValueError, match="0 candidates cannot be shown"):
        inspect_run(run, ["a"], tmp_path / "x.html", top=0)
    with pytest.raises(ValueError, match="only a structure with a source and a decoder"):
        alignments(run.model, run.codec, ["a"], [[8]])
    plain = run_of("plain lstm")
    with pytest.raises(ValueError, match="LSTMDecoder does not look at its source"):
        alignments(plain.model, plain.codec, ["a"], [[8]])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"matplotlib: pip install 'weft\[plots\]'"):
        inspect_run(run, ["a"], tmp_path / "x.png")
    with pytest.raises(AttributeError, match="not trained yet"):
        inspect_run(run.run, ["a"], tmp_path / "x.html")


def test_alignments_know_what_is_right():
    run = run_of("lstm attention")
    answers = [ids_of(run, "target", "ab"), Hypothesis(ids_of(run, "target", "cd"), 0.0, 0.0)]
    right, wrong = alignments(run.model, run.codec, ["a", "b"], answers, ["ab", "dc"])
    assert (right.right, wrong.right, wrong.reference, wrong.output) == (True, False, "dc", "cd")
    assert alignments(run.model, run.codec, ["a"], answers[:1])[0].right is None
