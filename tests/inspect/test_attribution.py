"""Input attribution: axioms, exact references and every kind of model."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from weft.core.batch import Instance, collate
from weft.core.contracts import Codec
from weft.core.fields import FIELD_KINDS, Field, ImageField, Info, NumberField, TagsField, TextField
from weft.core.seq import Seq
from weft.data import Character
from weft.inference.trained_run import TrainedRun
from weft.inspect.attribution import attribution, default_method
from weft.inspect.scored_outputs import scored_outputs
from weft.objectives import Classification, MultiLabel, NextToken, Ordinal, Regression, Tagging
from weft.training.recipes import read_run_text

TRANSFORMER = "{type: transformer, layers: 2, layer: {mixer: {type: multihead, heads: 2, dropout: 0.5}}}"
POSITIONS = "{type: sum, parts: [token, sinusoidal]}"
ENCODERS = {
    "lstm": "{type: lstm, bidirectional: true}",
    "cnn": "cnn",
    "bag of words": "{type: bag-of-words, feedforward: feed-forward}",
    "transformer": TRANSFORMER,
}
LABELS = ("good", "<b>bad</b>", "odd")


def run_of(structure: str, objective: Any, info: Info, search: str = "{type: greedy, max_length: 5}") -> TrainedRun:
    """An untrained run, as ``weft.load`` would give it."""
    tokens = Character()
    tokens.train(["abcdefgh <>"])
    parts = {"data": "dates", "structure": structure, "objective": "next-token", "learning": "{type: gradient, steps: 1}"}
    recipe = "".join(f"{key}: {value}\n" for key, value in {**parts, "evaluate": f"{{search: {search}}}"}.items())
    run = read_run_text(recipe, "here.yaml", Path())
    torch.manual_seed(4)
    run.name, model = "a run", run.structure(info)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    model.train(False)
    return TrainedRun(run, model, Codec(info, {"characters": tokens}), {"": objective(info, model.dim)})


def text_field(name: str, **options: Any) -> TextField:
    return TextField(name, 18, space="characters", max_length=600, **options)


def label_field(kind: str = "label") -> Field:
    return NumberField("label") if kind == "number" else FIELD_KINDS[kind].declare("label", LABELS, "")


def classifier(encoder: str, objective: Any = Classification, kind: str = "label", **options: Any) -> TrainedRun:
    structure = f"{{type: classifier, dim: 8, embedder: {POSITIONS}, encoder: {encoder}}}"
    return run_of(structure, objective, Info({"text": text_field("text"), "label": label_field(kind)}, "text"))


def pair_classifier(both: bool) -> TrainedRun:
    from functools import partial

    info = Info({"first": text_field("first"), "second": text_field("second"), "label": label_field()}, "first")
    objective = partial(Classification, pair_order="both" if both else "given")
    return run_of(f"{{type: classifier, dim: 8, encoder: {ENCODERS['lstm']}}}", objective, info)


def tagger(chain: str = "null") -> TrainedRun:
    tags = TagsField("tags", 5, labels=("O", "B-PER", "I-PER", "B-LOC", "I-LOC"))
    info = Info({"text": text_field("text", words=True), "tags": tags}, "text")
    return run_of(f"{{type: tagger, dim: 8, chain: {chain}}}", Tagging, info)


def seq2seq(encoder: str, decoder: str) -> TrainedRun:
    info = Info({"source": text_field("source"), "target": text_field("target")}, "target")
    return run_of(f"{{type: seq2seq, dim: 8, encoder: {encoder}, decoder: {decoder}}}", NextToken, info)


def language_model() -> TrainedRun:
    return run_of(
        f"{{type: language-model, dim: 8, decoder: {TRANSFORMER}}}", NextToken, Info({"text": text_field("text")}, "text")
    )


RUNS = {
    **{f"{name} classifier": (lambda encoder=encoder: classifier(encoder)) for name, encoder in ENCODERS.items()},
    "ordinal": lambda: classifier("lstm", Ordinal),
    "regression": lambda: classifier("lstm", Regression, "number"),
    "multi-label": lambda: classifier("lstm", MultiLabel, "labels"),
    "pair": lambda: pair_classifier(False),
    "pair in both orders": lambda: pair_classifier(True),
    "lstm generator": lambda: seq2seq("lstm", "lstm"),
    "attention generator": lambda: seq2seq("lstm", "{type: attention-lstm, score: additive}"),
    "transformer generator": lambda: seq2seq(TRANSFORMER, TRANSFORMER),
    "language model": language_model,
}


def request_of(name: str) -> Any:
    return ("abc d", "hg") if name.startswith("pair") else "cab hde"


# ------------------------------------------------------------------------------------------------------------ the axioms


@pytest.mark.parametrize("name", RUNS)
def test_integrated_gradients_and_shapley_values_are_complete(name: str) -> None:
    run, request = RUNS[name](), request_of(name)
    found = attribution(run, request, steps=200)
    assert found.steps == 200 and len(found.outputs) >= 1
    for one in found.outputs:
        assert one.total == pytest.approx(one.score - one.baseline_score, abs=0.02), one.name
        assert one.error == pytest.approx(one.total - (one.score - one.baseline_score))
    exact = attribution(run, request, method="shapley")
    for one, reference in zip(exact.outputs, found.outputs, strict=True):
        assert one.total == pytest.approx(one.score - one.baseline_score, abs=1e-4)
        assert (one.name, one.score) == (reference.name, pytest.approx(reference.score, abs=1e-4))


@pytest.mark.parametrize("name", ["lstm classifier", "transformer generator"])
def test_the_error_decreases_with_the_steps(name: str) -> None:
    run = RUNS[name]()
    errors = [max(abs(one.error) for one in attribution(run, "cab hde", steps=steps).outputs) for steps in (1, 4, 64)]
    assert errors[2] < min(errors[:2]) / 3 and errors[2] < 1e-3


def test_steps_are_doubled_until_the_sum_is_complete() -> None:
    found = attribution(RUNS["transformer classifier"](), "cab hde")
    assert found.steps in (32, 64, 128, 256, 512)
    assert abs(found.outputs[0].error) <= 0.01 * max(abs(found.outputs[0].score - found.outputs[0].baseline_score), 0.1)


# ------------------------------------------------------------------------------------------------------------ references


def linear() -> TrainedRun:
    """The score is linear in the embeddings: mean pooling and a linear head with one output."""
    return run_of(
        "{type: classifier, dim: 8, encoder: bag-of-words}",
        Regression,
        Info({"text": text_field("text"), "label": label_field("number")}),
    )


@pytest.mark.parametrize("baseline", ["zero", "unk", "mask"])
@pytest.mark.parametrize("method", ["integrated-gradients", "occlusion", "shapley"])
def test_in_a_linear_model_all_methods_equal_weights_times_embeddings(method: Any, baseline: Any) -> None:
    run = linear()
    found = attribution(run, "abca", method=method, baseline=baseline, steps=3)
    weight_D = next(p for n, p in run.model.classifier.named_parameters() if p.ndim == 2)[0]
    ids = run.codec.encode("text", "abca").tolist()
    vectors = run.model.embedder(Seq(torch.tensor([ids]))).data[0]
    special = {"unk": 3, "mask": 4}
    base_D = 0 if baseline == "zero" else run.model.embedder(Seq(torch.tensor([[special[baseline]]]))).data[0, 0]
    expected = (vectors - base_D) @ weight_D / (len(ids) + 1)  # the mean is over the text and EOS
    np.testing.assert_allclose(found.outputs[0].values, expected.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("name", ["lstm classifier", "cnn classifier", "transformer classifier"])
def test_occlusion_with_a_token_equals_scoring_the_changed_text(name: str) -> None:
    run = RUNS[name]()
    found = attribution(run, "abcd", method="occlusion", baseline="unk", targets=["odd"])

    def score(ids: list[int]) -> float:
        batch = run.collate([Instance(text=np.array([*ids, 2]), label=0)])
        with torch.no_grad():
            p = run.objective.probabilities(run.model, batch)[0, 2].item()
        return math.log(p / (1 - p))

    ids = run.codec.encode("text", "abcd").tolist()
    changed = [score([3 if j == i else token for j, token in enumerate(ids)]) for i in range(len(ids))]
    np.testing.assert_allclose(found.outputs[0].values, [score(ids) - value for value in changed], atol=1e-4)
    assert found.outputs[0].score == pytest.approx(score(ids), abs=1e-4)
    assert found.outputs[0].baseline_score == pytest.approx(score([3] * 4), abs=1e-4)


def test_shapley_values_are_the_mean_over_all_orders() -> None:
    run = RUNS["lstm classifier"]()
    scored = scored_outputs(run, "abcd", (), "zero", None).model
    found = attribution(run, "abcd", method="shapley").outputs[0].values
    expected = np.zeros(4)
    for order in itertools.permutations(range(4)):
        present = np.zeros(4)
        for feature in order:
            before = scored.values(present[None])[0, 0]
            present[feature] = 1
            expected[feature] += (scored.values(present[None])[0, 0] - before) / math.factorial(4)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_token_that_the_model_ignores_has_no_attribution() -> None:
    run = linear()
    with torch.no_grad():
        run.model.embedder.parts[0].weight[run.codec.encode("text", "c")[0]] = 0
    for method in ("integrated-gradients", "occlusion", "shapley"):
        values = attribution(run, "acb", method=method).outputs[0].values  # type: ignore[arg-type]
        assert values[1] == pytest.approx(0, abs=1e-6) and abs(values[0]) > 1e-4


def test_both_orders_of_a_pair_are_attributed_to_the_same_tokens() -> None:
    run = pair_classifier(True)
    one, two = attribution(run, ("abc d", "hg"), targets=["odd"]), attribution(run, ("hg", "abc d"), targets=["odd"])
    assert one.fields == ["first"] * 5 + ["second"] * 2
    np.testing.assert_allclose([*one.outputs[0].values[5:], *one.outputs[0].values[:5]], two.outputs[0].values, atol=1e-4)


def test_the_attribution_of_a_text_does_not_depend_on_the_size_of_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.inspect import presence

    run = RUNS["lstm generator"]()
    whole = attribution(run, "cab hde", steps=8)
    monkeypatch.setattr(presence, "_TOKENS_PER_PASS", 1)
    for one, other in zip(whole.outputs, attribution(run, "cab hde", steps=8).outputs, strict=True):
        np.testing.assert_allclose(one.values, other.values, atol=1e-4)


# ---------------------------------------------------------------------------------------------------------------- taggers


@pytest.mark.parametrize("chain", ["null", "crf"])
def test_every_entity_of_a_tagger_is_attributed(chain: str) -> None:
    run = tagger(chain)
    found = attribution(run, "ab ce de fg", steps=100)
    tags = found.prediction.split(" ")
    assert found.words == ["ab", "ce", "de", "fg"] and len(tags) == 4
    assert len(found.outputs) == len(found.entities) > 0
    for one, (kind, start, end) in zip(found.outputs, found.entities, strict=True):
        assert one.name == f"{kind}: {' '.join(found.words[start:end])}"
        assert one.total == pytest.approx(one.score - one.baseline_score, abs=0.02)
    batch = run.collate([scored_outputs(run, "ab ce de fg", (), "zero", None).model.instance])
    with torch.no_grad():
        logp = run.model.tag_head(batch["tags"].gather(run.model.encode(batch["text"]))).log_softmax(-1)
    kind, start, end = found.entities[0]
    names = run.codec.info["tags"].labels
    p = [logp[at, names.index(tags[at])].exp().item() for at in range(start, end)]
    assert found.outputs[0].score == pytest.approx(sum(math.log(x / (1 - x)) for x in p), abs=1e-3)
    assert any("CRF" in note for note in found.notes) == (chain == "crf")


def test_a_text_without_entities_has_no_attribution() -> None:
    run = tagger()
    with torch.no_grad():
        run.model.tag_head.get_parameter([n for n, p in run.model.tag_head.named_parameters() if p.ndim == 1][-1])[0] = 100.0
    found = attribution(run, "ab ce")
    assert not found.outputs and found.notes == ["No entity was predicted."]


# ----------------------------------------------------------------------------------------------------------------- images


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    from PIL import Image

    file = tmp_path_factory.mktemp("image") / "one.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8), np.uint8)).save(file)
    return str(file)


def image_run(**options: Any) -> TrainedRun:
    info = Info({"image": ImageField("image", 1, 8, 8, **options), "label": label_field()}, "image")
    embedder = "{type: patch, size: 4, cls_token: false}"
    encoder = "{type: transformer, layers: 1, position: null, layer: {mixer: {type: multihead, heads: 2}}}"
    return run_of(f"{{type: classifier, dim: 8, embedder: {embedder}, encoder: {encoder}}}", Classification, info)


@pytest.mark.parametrize(("patch", "grid"), [(None, (2, 2)), (1, (8, 8)), (3, (3, 3))])
def test_images_are_attributed_by_patch(image: str, patch: int | None, grid: tuple[int, int]) -> None:
    run = image_run()
    found = attribution(run, image, patch=patch, baseline="black", steps=64)
    (one,) = found.outputs
    assert found.grid == grid and len(one.values) == grid[0] * grid[1]
    assert one.total == pytest.approx(one.score - one.baseline_score, abs=0.02)
    if patch is None:  # the sum over the pixels of a patch is the value of the patch
        pixels = np.array(attribution(run, image, patch=1, baseline="black", steps=64).outputs[0].values).reshape(8, 8)
        np.testing.assert_allclose(one.values, pixels.reshape(2, 4, 2, 4).sum((1, 3)).ravel(), atol=1e-3)
        assert attribution(run, image, method="shapley").outputs[0].error == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(("baseline", "value"), [("black", 0.0), ("white", 1.0), ("zero", 0.3)])
def test_black_and_white_are_those_of_the_normalization(image: str, baseline: Any, value: float) -> None:
    run = image_run(mean=(0.3,), std=(0.2,))
    scored = scored_outputs(run, image, (), baseline, None)
    with scored.model._mixed(collate([scored.model.instance]), torch.zeros(1, 4)) as batch:
        assert batch["text"].data.numpy() == pytest.approx((value - 0.3) / 0.2, abs=1e-6)
    assert scored.pixels is not None and np.abs(scored.pixels).max() <= 1
    from PIL import Image

    assert np.allclose((scored.pixels[..., 0] + 1) * 127.5, np.asarray(Image.open(image)), atol=1e-3)


def test_occlusion_of_a_patch_equals_scoring_the_changed_image(image: str) -> None:
    run = image_run()
    found = attribution(run, image, method="occlusion", baseline="white", targets=["odd"])
    pixels = scored_outputs(run, image, (), "white", None).model.instance["text"]

    def score(changed: np.ndarray) -> float:
        with torch.no_grad():
            p = run.objective.probabilities(run.model, run.collate([Instance(text=changed, label=0)]))[0, 2].item()
        return math.log(p / (1 - p))

    changed = pixels.copy()
    changed[:, :4, 4:] = 1.0
    assert found.outputs[0].values[1] == pytest.approx(score(pixels) - score(changed), abs=1e-4)


# --------------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("name", "request_", "options", "message"),
    [
        ("lstm classifier", "abc", {"method": "lime"}, "unknown method 'lime'; use one of: integrated-gradients"),
        ("lstm classifier", "abc", {"targets": "goood"}, "target 'goood' is not a class; the classes are: good"),
        ("lstm classifier", "a" * 11, {"method": "shapley"}, "the input has 11, at most 10"),
        ("lstm classifier", "a" * 513, {}, "513 tokens; at most 512"),
        ("lstm classifier", "", {}, "no tokens"),
        ("lstm classifier", "abc", {"baseline": "black"}, "of a text it must be one of: zero, mask, unk, pad"),
        ("lstm classifier", "abc", {"patch": 2}, "the input is a text"),
        ("lstm classifier", "abc", {"steps": 0}, "steps is 0"),
        ("lstm classifier", 3, {}, "pass texts"),
        ("regression", "abc", {"targets": "good"}, "predicts a number"),
        ("lstm generator", "abc", {"targets": "good"}, "generates text"),
        ("lstm generator", "abc", {"patch": 2}, "the input is a text"),
        ("pair", "abc", {}, "separated by tabs"),
        ("language model", "", {}, "no tokens"),
    ],
)
def test_invalid_arguments_are_rejected(name: str, request_: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attribution(RUNS[name](), request_, **options)


def test_invalid_patches_and_baselines_of_images_are_rejected(image: str) -> None:
    for options, message in [({"patch": 9}, "patch is 9"), ({"baseline": "mask"}, "of an image"), ({"patch": 0}, "patch is 0")]:
        with pytest.raises(ValueError, match=message):
            attribution(image_run(), image, **options)


def test_the_mode_of_the_model_is_restored_and_no_dropout_is_applied() -> None:
    run = RUNS["transformer classifier"]()
    run.model.train()
    one, two = attribution(run, "abc"), attribution(run, "abc")
    assert run.model.training and one == two
    with pytest.raises(ValueError):
        attribution(run, "abc", targets=["none"])
    assert run.model.training
    assert not run.model.embedder._forward_hooks


def test_the_default_method_shows_attention_where_there_is_any() -> None:
    shown = {name: default_method(make()) for name, make in {**RUNS, "tagger": tagger, "image": image_run}.items()}
    assert {name for name, method in shown.items() if method == "attention"} == {
        "transformer classifier",
        "attention generator",
        "transformer generator",
        "language model",
    }
