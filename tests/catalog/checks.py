"""What every block must do, by slot: each check takes a factory and raises AssertionError with a sentence where it does not.

    from tests.catalog.checks import check_padding
    check_padding(MyEncoder)                      # or partial(MyEncoder, layers=2)

``checks_for(MyEncoder)`` lists the checks that apply to a block. Suffixes as in weft/seq.py.
"""

from __future__ import annotations

import copy
import doctest
import functools
import inspect
import io
import re
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from weft import recipe
from weft.blocks.attention.attend import record_attention
from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import (
    Activation,
    Attention,
    Backbone,
    Classifies,
    ConvUnit,
    Decoder,
    Decodes,
    Discriminator,
    Embedder,
    Encoder,
    Encodes,
    ExtractsSpans,
    FeatureGate,
    FeatureLayer,
    FeatureNorm,
    FeaturePooling,
    FeedForward,
    Head,
    Layer,
    LayerMix,
    Mixer,
    Norm,
    Objective,
    Pooler,
    Position,
    Reconstructs,
    Residual,
    Score,
    ScoresChoices,
    Structure,
    Tags,
    Transform,
)
from weft.core.example import MarkedIds, Sequences, Targets
from weft.core.fields import Info
from weft.core.masks import Causal, Full, Latest, Mask
from weft.core.registry import (
    CATALOG,
    alternatives,
    base_of,
    document,
    name_of,
    option_parameters,
    option_values,
    slot_of,
    wiring,
)
from weft.core.seq import Memory, Seq
from weft.models.text_vae import TextVAE

from .bench import (
    DIM,
    MASKS,
    VOCAB,
    Case,
    cases,
    feature_maps,
    grid,
    heads_of,
    ids,
    images,
    kind_of,
    memories,
    memory_of,
    move,
    normal,
    objective_batch,
    pack,
    seed_cpu,
    stir,
    text_batch,
    to_model,
    unpack,
    vectors,
    widest_mask,
    with_dropout,
    with_marks,
)

Check = Callable[[Any], None]
Condition = Callable[[Any], bool]


@dataclass(frozen=True)
class Entry:
    """A check, the slots that it is for (None: all) and the condition under which it applies to a block of those."""

    function: Check
    slots: tuple[type, ...] | None
    when: Condition


CHECKS: dict[str, Entry] = {}
"""Every check by name."""

MODULES = (
    Activation,
    Norm,
    FeedForward,
    Transform,
    Discriminator,
    Residual,
    Position,
    Score,
    Mixer,
    Attention,
    Layer,
    Embedder,
    Encoder,
    FeatureNorm,
    ConvUnit,
    FeatureGate,
    FeaturePooling,
    FeatureLayer,
    Backbone,
    LayerMix,
    Decoder,
    Pooler,
    Head,
    Structure,
    Objective,
)


def check(*kinds: type, table: bool = False, when: Condition = lambda factory: True) -> Callable[[Check], Check]:
    """List a check for these slots (none: for all), for blocks that fulfill ``when``.

    ``table``: only for blocks that test_catalog.py names.
    """

    def add(function: Check) -> Check:
        CHECKS[function.__name__] = Entry(function, () if table else kinds or None, when)
        return function

    return add


def checks_for(factory: Any) -> list[Check]:
    """The checks that apply to a block: a class, a partial of one, or a composition. An attention is also a mixer."""
    kinds = {base for base in kind_of(factory).__mro__ if base in CATALOG}
    return [e.function for e in CHECKS.values() if (e.slots is None or kinds & {*e.slots}) and _applies(e, factory)]


def _applies(entry: Entry, factory: Any) -> bool:
    try:
        return entry.when(factory)
    except Exception:  # a block that cannot be built at all: the check itself fails and reports why
        return True


# ------------------------------------------------------------------------------------------------------------- comparing


def same(got: Tensor, want: Tensor, sentence: str, tolerance: float = 1e-4) -> None:
    assert got.shape == want.shape, f"{sentence}: shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    got, want = got.detach().double(), want.detach().double()
    assert bool(torch.isfinite(got).all()), f"{sentence}: not finite"
    off = (got - want).abs()
    bound = tolerance * (1 + want.abs())
    assert bool((off <= bound).all()), f"{sentence}: off by {float(off.max()):.3g}"


def same_rows(got: Sequence[Tensor], want: Sequence[Tensor], sentence: str) -> None:
    for row, (a, b) in enumerate(zip(got, want, strict=True)):
        same(a, b, f"{sentence} (row {row})")


def influence(function: Callable[[Tensor], Tensor], x_BSD: Tensor) -> Tensor:
    """B x T x B x S: how strongly input (b', s) moves output (b, t), for a function of B x S x D to B x T x D in float64."""
    x_BSD = x_BSD.detach().clone().requires_grad_()
    y_BTD = function(x_BSD)
    direction_D = normal(y_BTD.shape[-1], seed=77, dtype=y_BTD.dtype)
    found = torch.zeros(*y_BTD.shape[:2], *x_BSD.shape[:2], dtype=torch.float64)
    for b in range(y_BTD.shape[0]):
        for t in range(y_BTD.shape[1]):
            (g,) = torch.autograd.grad((y_BTD[b, t] * direction_D).sum(), x_BSD, retain_graph=True, allow_unused=True)
            if g is not None:
                found[b, t] = g.abs().sum(-1)
    return found


def no_influence(found_BTBS: Tensor, allowed_BTBS: Tensor, sentence: str) -> None:
    leaks = (found_BTBS.nan_to_num(nan=1.0) * ~allowed_BTBS).nonzero()
    if len(leaks):
        b, t, c, s = leaks[0].tolist()
        amount = float(found_BTBS[b, t, c, s])
        raise AssertionError(
            f"{sentence}: output (row {b}, position {t}) depends on input (row {c}, position {s}) by {amount:.3g}"
        )


def diagonal(rows: int, inner_BTS: Tensor) -> Tensor:
    """B x T x B x S from what is allowed inside each row."""
    return torch.stack([torch.stack([inner_BTS[b] * (b == c) for c in range(rows)], 1) for b in range(rows)]).bool()


def _title(factory: Any) -> str:
    base = factory.func if isinstance(factory, functools.partial) else factory
    return getattr(base, "__name__", str(base))


def _base(factory: Any) -> Callable[..., Any]:
    return factory.func if isinstance(factory, functools.partial) else factory


# ------------------------------------------------------------------------------------------- registration, docs, options

SYNONYMS = {
    "num_heads": "heads",
    "n_heads": "heads",
    "nhead": "heads",
    "hidden_size": "dim",
    "d_model": "dim",
    "embed_dim": "dim",
    "num_units": "dim",
    "n_layers": "layers",
    "num_layers": "layers",
    "p": "dropout",
    "rate": "dropout",
    "dropout_rate": "dropout",
    "max_len": "max_length",
    "max_seq_length": "max_length",
}


@check()
def check_registration(factory: Any) -> None:
    """Wiring as the slot has it, everything else keyword-only and typed, a kebab-case name."""
    base, kind = _base(factory), kind_of(factory)
    if inspect.isclass(base):
        assert wiring(base) == wiring(kind), f"its wiring is {wiring(base)}, that of {kind.__name__} is {wiring(kind)}"
    else:
        assert not wiring(base), f"a composition takes choices only, not {wiring(base)}"
    for parameter in inspect.signature(base).parameters.values():
        assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL), f"*{parameter.name} is no schema"
        typed = parameter.kind is not parameter.KEYWORD_ONLY or parameter.annotation is not parameter.empty
        assert typed, f"option {parameter.name!r} has no type"
    if base_of(base) is not None:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name_of(base)), f"{name_of(base)!r} is not kebab-case"
    for word in ("Base", "Utils", "Manager", "Helper"):
        assert word not in base.__name__, f"{base.__name__} is named {word}: name what it is"


@check()
def check_vocabulary(factory: Any) -> None:
    """One word for one thing; parts rather than flags."""
    for name in option_parameters(_base(factory)):
        assert name not in SYNONYMS, f"option {name!r} is called {SYNONYMS[name]!r} in weft"
        plain = name == "n_best" or not name.startswith(("use_", "is_", "n_", "num_"))  # "n-best list" is the field's term
        assert plain, f"option {name!r}: a slot is a part, a number has a plain name"


@check()
def check_defaults(factory: Any) -> None:
    """Every default is a value that the option's own annotation accepts; parts fill the slot they stand in."""
    for name, parameter in option_parameters(_base(factory)).items():
        if parameter.default is not parameter.empty:
            _check_value(parameter.default, parameter.annotation, f"the default of {name!r}")


def _check_value(value: Any, annotation: Any, what: str) -> None:
    if value is None and type(None) in alternatives(annotation):
        return
    if (kinds := _part_kinds(annotation)) and (callable(value) or isinstance(value, list | tuple | dict)):
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
        for item in inner:
            base = base_of(item)
            assert base is not None, f"{what} is {item!r}, which is not in the catalog"
            assert issubclass(kind_of(base), tuple(kinds)), (
                f"{what} is a {kind_of(base).__name__}, not a {' or '.join(k.__name__ for k in kinds)}"
            )
            for name, given in getattr(item, "keywords", {}).items():
                assert name in option_parameters(base), f"{what} sets {name!r}, which {_title(base)} does not have"
                _check_value(given, option_parameters(base)[name].annotation, f"{name!r} in {what}")
        return
    try:
        TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(value)
    except ValidationError as error:
        raise AssertionError(f"{what} is {value!r}, which its own type refuses: {error.errors()[0]['msg']}") from None


def _part_kinds(annotation: Any) -> list[type]:
    """The slots that an annotation, or what is inside its lists and dicts, asks for."""
    found = []
    for member in alternatives(annotation):
        if (kind := slot_of(member)) is not None:
            found.append(kind)
        elif typing.get_origin(member) in (list, tuple, dict):
            found += [k for inner in typing.get_args(member) if (k := slot_of(inner)) is not None]
    return found


@check()
def check_docstring(factory: Any) -> None:
    """One sentence, an ``Args:`` entry for each option and no others, an example."""
    base = _base(factory)
    own = vars(base).get("__doc__") if inspect.isclass(base) else base.__doc__
    assert own, "it has no docstring"
    docs, known = document(base), option_parameters(base)
    assert docs.summary.endswith("."), f"the first paragraph is not a sentence: {docs.summary!r}"
    assert not re.search(r"[a-z)][.] [A-Z]", docs.summary), f"the first paragraph has more than one sentence: {docs.summary!r}"
    assert len(docs.summary) <= 200, f"the first sentence has {len(docs.summary)} characters; 200 are enough"
    missing, extra = [n for n in known if n not in docs.args], [n for n in docs.args if n not in known]
    assert not missing, f"Args: lacks {', '.join(missing)}"
    assert not extra, f"Args: describes {', '.join(extra)}, which is no option"
    empty = [n for n, text in docs.args.items() if not text]
    assert not empty, f"Args: has no text for {', '.join(empty)}"
    assert re.search(r"^ *Examples?:$", own, re.MULTILINE), "it has no Example:"
    assert ">>>" in own, "its Example: has no line that runs"


@check()
def check_example(factory: Any) -> None:
    """The docstring's example runs and prints the expected output."""
    base = _base(factory)
    space = dict(vars(sys.modules[base.__module__]))
    found = doctest.DocTestFinder(recurse=False).find(base, base.__name__, globs=space)
    assert any(test.examples for test in found), "it has no example that runs"
    report = io.StringIO()
    for test in found:
        result = doctest.DocTestRunner(verbose=False).run(test, out=report.write)
        assert not result.failed, f"its example fails:\n{report.getvalue()}"


# ------------------------------------------------------------------------------------------------------------- any module


@check(*MODULES)
def check_builds(factory: Any) -> None:
    """It can be built from the wiring alone and returns finite numbers."""
    for case in cases(factory):
        for out in case.call(case.build()):
            assert bool(torch.isfinite(out).all()), f"{case.label}: its output is not finite"


@check(*MODULES)
def check_gradients(factory: Any) -> None:
    """Backward is finite and reaches every parameter."""
    for case in cases(factory):
        module = case.build()
        outputs = [o for o in case.call(module) if o.requires_grad]
        # A head that is not tied leaves the embedder beside it alone; a decoder without injections leaves the encoder alone.
        alone = ("embedder.",) if case.kind is Head else ()
        if isinstance(module, TextVAE) and not len(module.decoder.injections):
            alone = ("encoder.", "pooler.", "to_posterior.")
        named = {n: p for n, p in module.named_parameters() if not n.startswith(alone)}
        if not named:
            continue
        assert outputs, f"{case.label}: no output depends on its parameters"
        torch.stack([(o * normal(*o.shape, seed=60 + i)).sum() for i, o in enumerate(outputs)]).sum().backward()
        for name, parameter in named.items():
            if parameter.requires_grad:
                assert parameter.grad is not None, f"{case.label}: parameter {name} receives no gradient"
                assert bool(torch.isfinite(parameter.grad).all()), f"{case.label}: the gradient of {name} is not finite"
                assert bool((parameter.grad != 0).any()), f"{case.label}: the gradient of {name} is zero everywhere"


@check(*MODULES)
@torch.no_grad()
def check_save_and_load(factory: Any) -> None:
    """Weights written to safetensors and read into a fresh instance give the same output."""
    for case in cases(factory):
        module = case.build(seed=1)
        stored = save_tensors({k: v.clone().contiguous() for k, v in module.state_dict().items()})
        fresh = case.build(seed=2, stirred=False)
        fresh.load_state_dict(load_tensors(stored))
        for a, b in zip(case.call(fresh), case.call(module), strict=True):
            assert torch.equal(a, b), (
                f"{case.label}: after saving and loading the output is off by {float((a - b).abs().max()):.3g}"
            )


@check(*MODULES)
@torch.no_grad()
def check_deepcopy(factory: Any) -> None:
    """A deep copy computes the same and shares nothing."""
    for case in cases(factory):
        module = case.build()
        twin, before = copy.deepcopy(module), case.call(module)
        for a, b in zip(case.call(twin), before, strict=True):
            assert torch.equal(a, b), f"{case.label}: a deep copy computes something else"
        for parameter in twin.parameters():
            parameter.add_(normal(*parameter.shape, seed=55))
        if any(True for _ in twin.parameters()):
            moved = any(not torch.equal(a, b) for a, b in zip(case.call(twin), before, strict=True))
            assert moved, f"{case.label}: a deep copy still computes with the weights of the original"
        for a, b in zip(case.call(module), before, strict=True):
            assert torch.equal(a, b), f"{case.label}: changing a deep copy changes the original"


@check(*MODULES)
def check_meta(factory: Any) -> None:
    """Built and run on the meta device: no value is read, so that ``weft check`` costs nothing."""
    for case in cases(factory):
        real = case.call(case.build())
        with torch.device("meta"):
            module = case.build(stirred=False)
        for name, tensor in module.state_dict().items():
            assert tensor.device.type == "meta", f"{case.label}: {name} is made on {tensor.device}, not on the default device"
        try:
            outputs = case.call(module, device="meta")
        except (RuntimeError, NotImplementedError) as error:
            raise AssertionError(f"{case.label}: does not run on the meta device: {str(error).splitlines()[0]}") from error
        for a, b in zip(outputs, real, strict=True):
            assert a.shape == b.shape, f"{case.label}: on the meta device its shape is {tuple(a.shape)}, else {tuple(b.shape)}"


@check(*MODULES)
@torch.no_grad()
def check_bfloat16(factory: Any) -> None:
    """Runs in bfloat16, finite, roughly as in float32, without changing the type."""
    for case in cases(factory):
        want = case.call(case.build())
        try:
            outputs = case.call(case.build(dtype=torch.bfloat16), dtype=torch.bfloat16)
        except RuntimeError as error:
            raise AssertionError(f"{case.label}: does not run in bfloat16: {str(error).splitlines()[0]}") from error
        for out, full in zip(outputs, want, strict=True):
            assert bool(torch.isfinite(out).all()), f"{case.label}: not finite in bfloat16"
            kept = out.dtype is torch.bfloat16 or case.kind in (Head, Objective, Position)
            assert kept, f"{case.label}: bfloat16 in, {out.dtype} out"
            off = (out.double() - full.double()).norm() / (full.double().norm() + 1e-6)
            assert float(off) < 0.2, f"{case.label}: in bfloat16 the output differs from float32's by {float(off):.0%}"


@check(*MODULES)
@torch.no_grad()
def check_eval(factory: Any) -> None:
    """In eval mode nothing is random, whatever the dropout."""
    plain, (dropping, number) = with_dropout(factory, 0.0)[0], with_dropout(factory, 0.5)
    for case in cases(factory):
        module = replace(case, factory=dropping).build()
        one, two = case.call(module), case.call(module)
        for a, b in zip(one, two, strict=True):
            assert torch.equal(a, b), f"{case.label}: two calls in eval mode differ"
        if number:
            for a, b in zip(one, case.call(replace(case, factory=plain).build()), strict=True):
                same(a, b, f"{case.label}: dropout changes the output in eval mode", 1e-5)


@check(*MODULES, when=lambda factory: with_dropout(factory, 0.5)[1] > 0)
@torch.no_grad()
def check_dropout(factory: Any) -> None:
    """In training, dropout 0.5 does something (and dropout 0 nothing)."""
    dropping = with_dropout(factory, 0.5)[0]
    for case in cases(factory):
        module = replace(case, factory=dropping).build().train()
        differ = any(not torch.equal(a, b) for a, b in zip(case.call(module), case.call(module), strict=True))
        assert differ, f"{case.label}: with dropout 0.5 two calls in training are equal"
        none = replace(case, factory=with_dropout(factory, 0.0)[0]).build().train()
        for a, b in zip(case.call(none), case.call(none), strict=True):
            assert torch.equal(a, b), f"{case.label}: with dropout 0 two calls in training differ"


@check(*MODULES)
def check_seed(factory: Any) -> None:
    """The same seed gives the same weights."""
    for case in cases(factory):
        one, two = (case.build(seed=3, stirred=False).state_dict() for _ in range(2))
        for name, tensor in one.items():
            assert torch.equal(tensor, two[name]), f"{case.label}: {name} differs between two builds under one seed"
            assert bool(torch.isfinite(tensor).all()) or not tensor.is_floating_point(), f"{case.label}: {name} starts not finite"


# ------------------------------------------------------------------------------------------------------------ small parts


@check(Norm, FeedForward, Residual, Activation)
def check_positionwise(factory: Any) -> None:
    """Each position is mapped by itself, in training as in eval; the shape stays."""
    for case in cases(factory):
        for training in (False, True):
            module = case.build(dtype=torch.float64).train(training)
            call = (lambda x, m=module: m(x, torch.tanh)) if case.kind is Residual else module
            x_BTD = normal(2, 3, DIM, seed=21, dtype=torch.float64)
            assert call(x_BTD).shape == x_BTD.shape, f"the shape {tuple(x_BTD.shape)} becomes {tuple(call(x_BTD).shape)}"
            own = diagonal(2, torch.eye(3).expand(2, 3, 3))
            found = influence(call, x_BTD)
            no_influence(found, own, "a position sees another")
            assert bool((found[own] > 0).all()), "the output of a position does not depend on its input"
            same(call(x_BTD[:1, :2]), call(x_BTD)[:1, :2], "positions left out change those that remain")


@check(Activation)
def check_elementwise(factory: Any) -> None:
    """Element-wise activation."""
    for case in cases(factory):
        module = case.build(dtype=torch.float64)
        x = normal(DIM, seed=22, dtype=torch.float64)
        jacobian: Any = torch.autograd.functional.jacobian(module, x)
        assert not bool((jacobian - jacobian.diag().diag()).any()), "one number depends on another"


@check(Residual)
def check_residual(factory: Any) -> None:
    """Both the input and the sub-layer's result reach the output."""
    for case in cases(factory):
        module = case.build()
        x_BTD = normal(2, 3, DIM, seed=23)
        one, two = module(x_BTD, torch.tanh), module(x_BTD, torch.cos)
        assert not torch.allclose(one, two), "the sub-layer's result does not reach the output"
        silent = [module(x_BTD * s, torch.zeros_like) for s in (1.0, torch.linspace(0.5, 2.0, DIM))]
        assert not torch.allclose(*silent), "without a sub-layer's result the input does not reach the output"


@check(Position)
@torch.no_grad()
def check_position(factory: Any) -> None:
    """Shapes fit attention's; padding positions are harmless; what counts is the distance."""
    for case in cases(factory):
        module = case.build(dtype=torch.float64)
        heads = heads_of(module)
        query, key = (normal(2, heads, n, DIM // heads, seed=30 + n, dtype=torch.float64) for n in (4, 5))

        def scores(shift: int, module: Any = module, query: Tensor = query, key: Tensor = key, heads: int = heads) -> Tensor:
            at_query, at_key = grid(2, 4, shift), grid(2, 5, shift)
            turned_query, turned_key = module.rotate(query, at_query), module.rotate(key, at_key)
            assert turned_query.shape == query.shape, f"rotate turns {tuple(query.shape)} into {tuple(turned_query.shape)}"
            bias = module.bias(at_query, at_key)
            found = turned_query @ turned_key.transpose(-1, -2)
            if bias is None:
                return found
            assert torch.broadcast_shapes(bias.shape, found.shape) == found.shape, (
                f"the bias has shape {tuple(bias.shape)}, which does not fit scores of {tuple(found.shape)}"
            )
            return found + bias

        same(scores(3), scores(0), "moving query and keys together changes the scores", 1e-5)
        single = torch.cat([module.rotate(query[:, :, t : t + 1], grid(2, 1, t)) for t in range(4)], 2)
        same(single, module.rotate(query, grid(2, 4)), "one position rotated by itself differs", 1e-5)


@check(Score)
@torch.no_grad()
def check_score(factory: Any) -> None:
    """B x H x T x S, each score from its own query and key; ``scale`` specifies what forward does."""
    for case in cases(factory):
        module = case.build()
        query, key = normal(2, 3, 4, case.wiring[0], seed=31), normal(2, 3, 5, case.wiring[1], seed=32)
        prepared = module.prepare(key, grid(2, 5))
        found = module(query, prepared)
        assert found.shape == (2, 3, 4, 5), f"{case.label}: scores of shape {tuple(found.shape)}, expected (2, 3, 4, 5)"
        if module.scale is not None:
            same(found, module.scale * query @ prepared.transpose(-1, -2), "forward is not scale * (q . k) of prepared keys")
        one = module(query[1:, 1:2, 2:3], module.prepare(key[1:, 1:2, 3:4], grid(2, 5)[1:, 3:4]))
        same(one, found[1:, 1:2, 2:3, 3:4], f"{case.label}: a score depends on other queries, keys, heads or rows")


# ----------------------------------------------------------------------------------------------------------- feature maps

_CANVAS, _MARGIN = 48, 8
"""Side of the zero images that a pattern is shifted in; output positions at their borders that the padding influences."""


@check(FeatureNorm, ConvUnit, FeatureGate, FeaturePooling, FeatureLayer)
@torch.no_grad()
def check_feature_shapes(factory: Any) -> None:
    """Channels as wired or as ``out`` declares; every ``stride``-th position, of odd sizes too; each image on its own."""
    for case in cases(factory):
        module = case.build(dtype=torch.float64)
        channels = case.wiring[1] if case.kind is ConvUnit else getattr(module, "out", DIM)
        for height, width in ((6, 5), (7, 8)):
            x_BCHW = feature_maps(torch.float64, height=height, width=width)
            got = module(x_BCHW)
            assert got.shape[:2] == (3, channels), f"{case.label}: {got.shape[1]} channels, expected {channels}"
            if case.kind not in (FeatureLayer, FeaturePooling):
                stride = case.wiring[2] if case.kind is ConvUnit else 1
                want = -(-height // stride), -(-width // stride)
                assert got.shape[2:] == want, f"{case.label}: {height} x {width} becomes {tuple(got.shape[2:])}, expected {want}"
            same(module(x_BCHW[1:2]), got[1:2], f"{case.label}: an image depends on the others")


@check(FeatureNorm, ConvUnit, FeatureGate, FeaturePooling, FeatureLayer)
@torch.no_grad()
def check_translation(factory: Any) -> None:
    """A pattern shifted by some strides gives the same feature maps, shifted: translation equivariance."""
    for case in cases(factory):
        module = case.build(dtype=torch.float64)
        x_BCHW = torch.zeros(1, DIM, _CANVAS, _CANVAS, dtype=torch.float64)
        size = module(x_BCHW).shape[-1]
        if size < 3 * _MARGIN or _CANVAS % size:  # a grid of fixed size
            continue
        stride, at = _CANVAS // size, _CANVAS // 2 - 2
        declared = case.wiring[2] if case.kind is ConvUnit else getattr(module, "stride", 1)
        assert stride == declared, f"{case.label}: the stride is declared as {declared}, but it is {stride}"
        outputs = []
        for start in (at, at + stride):
            shifted_BCHW = x_BCHW.clone()
            shifted_BCHW[:, :, start : start + 4, start : start + 4] = feature_maps(torch.float64, 1, 4, 4)
            outputs.append(module(shifted_BCHW))
        inner = slice(_MARGIN, size - _MARGIN)
        moved = outputs[0].roll((1, 1), (2, 3))[..., inner, inner]
        same(outputs[1][..., inner, inner], moved, f"{case.label}: shifted input does not give shifted output", 1e-6)
        assert outputs[0].std() > 0, f"{case.label}: the output does not depend on the position"


@check(ConvUnit)
def check_alignment(factory: Any) -> None:
    """Padding is balanced: the window of output position i is centered at i times the stride, or before the next one's."""
    for case in cases(factory):
        module, stride, at = case.build(dtype=torch.float64), case.wiring[2], 4
        x_BCHW = feature_maps(torch.float64, 1, 20, 20).requires_grad_()
        (g,) = torch.autograd.grad(module(x_BCHW)[:, :, at, at].sum(), x_BCHW)
        for name, seen in (("rows", g.abs().sum((0, 1, 3))), ("columns", g.abs().sum((0, 1, 2)))):
            reach = seen.nonzero().flatten()
            if len(reach) == len(seen):  # statistics of the whole image
                continue
            center = (int(reach[0]) + int(reach[-1])) / 2
            assert 0 <= center - at * stride < stride, (
                f"{case.label}: the window of output {at} is centered at input {center} ({name}), expected {at * stride}"
            )


@check(FeatureNorm, ConvUnit, FeatureLayer, Backbone)
@torch.no_grad()
def check_running_statistics(factory: Any) -> None:
    """Buffers change in training only; after training on a batch, evaluation of that batch gives what training gave."""
    plain = with_dropout(factory, 0.0)[0]
    for case in (replace(case, factory=plain) for case in cases(factory)):
        module = case.build()
        before = {name: buffer.clone() for name, buffer in module.named_buffers()}
        case.call(module)
        for name, buffer in module.named_buffers():
            assert torch.equal(buffer, before[name]), f"{case.label}: {name} changes in evaluation mode"
        module.train()
        for _ in range(60 if case.kind is FeatureNorm else 1):
            trained = case.call(module)
        for name, buffer in module.named_buffers():
            assert not torch.equal(buffer, before[name]), f"{case.label}: {name} does not change in training"
        if case.kind is FeatureNorm:  # the running variance is unbiased
            for a, b in zip(case.call(module.eval()), trained, strict=True):
                same(a, b, f"{case.label}: evaluation after training on one batch differs from training on it", 0.03)


@check(Backbone)
@torch.no_grad()
def check_pyramid(factory: Any) -> None:
    """Feature maps as ``channels`` and ``strides`` declare; a vector of size ``dim``; each image on its own."""
    for case in cases(factory):
        module, field = case.build(dtype=torch.float64), case.wiring[0]
        x_BCHW = images(field).data.double()
        maps, vector_BD = module(x_BCHW), module.vector(x_BCHW)
        assert len(maps) == len(module.channels) == len(module.strides), f"{case.label}: {len(maps)} feature maps"
        assert sorted(module.strides) == list(module.strides), (
            f"{case.label}: strides {module.strides} are not from fine to coarse"
        )
        for found, channels, stride in zip(maps, module.channels, module.strides, strict=True):
            assert found.shape[:2] == (3, channels), f"{case.label}: {found.shape[1]} channels, declared {channels}"
            for pixels, positions in zip(x_BCHW.shape[2:], found.shape[2:], strict=True):
                assert 0.6 * pixels / stride - 1 < positions <= -(-pixels // stride), (
                    f"{case.label}: {pixels} pixels give {positions} positions, but the stride is declared as {stride}"
                )
        assert vector_BD.shape == (3, module.dim), f"{case.label}: a vector of shape {tuple(vector_BD.shape)}, dim {module.dim}"
        for alone, together in zip((*module(x_BCHW[1:2]), module.vector(x_BCHW[1:2])), (*maps, vector_BD), strict=True):
            same(alone, together[1:2], f"{case.label}: an image depends on the others")


@check(Backbone)
def check_image_shape(factory: Any) -> None:
    """Images of another shape than declared are a ValueError that names both."""
    for case in cases(factory):
        module, (channels, height, width) = case.build(), case.wiring[0].shape
        for shape in ((2, channels + 1, height, width), (2, channels, height + 8, width), (channels, height, width)):
            for call in (module, module.vector):
                try:
                    call(torch.zeros(shape))
                except ValueError as error:
                    named = " x ".join(map(str, shape)) in str(error) and f"{height} x {width}" in str(error)
                    assert named, f"{case.label}: the message does not name both shapes: {error}"
                except RuntimeError as error:
                    raise AssertionError(f"{case.label}: images of shape {shape} fail inside of torch: {error}") from error
                else:
                    raise AssertionError(f"{case.label}: images of shape {shape} are accepted")


# ------------------------------------------------------------------------------------------------------------------ mixer


def _mixer(factory: Any, dtype: torch.dtype = torch.float32) -> Mixer:
    return Case(factory, Mixer, (DIM,), "mixer").build(dtype=dtype)


def _masks(module: Mixer) -> list[Mask]:
    return [mask for mask in MASKS if isinstance(mask, module.supported_masks)]


def _refuses(module: Mixer, mask: Mask) -> bool:
    try:
        module.check_mask(mask)
    except ValueError:
        return True
    return False


def _decodes(factory: Any) -> bool:
    return issubclass(Causal, _mixer(factory).supported_masks)


@check(Mixer)
@torch.no_grad()
def check_mixer_padding(factory: Any) -> None:
    """Padding is not read, on either side; nor do other rows matter."""
    module, rows = _mixer(factory), vectors()
    for mask in _masks(module):
        alone = [module.mix(Seq(row[None]), mask, None, None).hidden.data[0] for row in rows]
        for side in ("right", "left"):
            x = pack(rows, side, filler=0.5)
            got = unpack(module.mix(x, mask, None, None).hidden.data, x.real())
            same_rows(got, alone, f"padding on the {side} is read under {mask}")


@check(Mixer)
def check_mixer_mask(factory: Any) -> None:
    """What a mask forbids has no influence; a mask that the mixer does not support is refused."""
    module = _mixer(factory, torch.float64)
    real = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    for mask in MASKS:
        if not isinstance(mask, module.supported_masks):
            assert _refuses(module, mask), f"the mask {mask} is neither supported nor refused"
            continue

        def function(x_BTD: Tensor, mask: Mask = mask) -> Tensor:
            return module.mix(Seq(x_BTD, real), mask, None, None).hidden.data

        found = influence(function, normal(2, 6, DIM, seed=47, dtype=torch.float64))
        at = Seq(torch.zeros(2, 6), real).positions()
        allow = mask.allow(at, at)
        inner = real[:, None, :].expand(2, 6, 6) if allow is None else allow & real[:, None, :]
        found = found * real[:, :, None, None]  # outputs at padding mean nothing
        no_influence(found, diagonal(2, inner), f"the mask {mask} leaks")


@check(Mixer, when=_decodes)
@torch.no_grad()
def check_mixer_stepping(factory: Any) -> None:
    """Token by token, in chunks, and after a prefill of rows of unequal length, it computes what it does in one pass."""
    module, x = _mixer(factory), Seq(normal(3, 7, DIM, seed=48))
    want = module.mix(x, Causal(), None, None).hidden.data
    for edges in ((0, 1, 2, 3, 4, 5, 6, 7), (0, 4, 5, 7)):
        past, got = None, []
        for a, b in pairwise(edges):
            piece = Seq(x.data[:, a:b]).mark(position=grid(3, 7)[:, a:b])
            done = module.mix(piece, Causal() if b - a > 1 else Latest(), None, past)
            past = done.state
            got.append(done.hidden.data)
        same(torch.cat(got, 1), want, f"in chunks {edges} it differs from the whole")
    for side in ("right", "left"):
        prompt = pack([x.data[0, :5], x.data[1, :2], x.data[2, :3]], side, filler=0.5)
        state = module.mix(prompt, Causal(), None, None).state.select(torch.tensor([2, 0, 1, 0]))
        token, at = torch.stack([x.data[2, 3], x.data[0, 5], x.data[1, 2], x.data[0, 5]])[:, None], torch.tensor([3, 5, 2, 5])
        got = module.mix(Seq(token).mark(position=at[:, None]), Latest(), None, state).hidden.data[:, 0]
        expected = torch.stack([want[2, 3], want[0, 5], want[1, 2], want[0, 5]])
        same(got, expected, f"after a prompt padded on the {side} and a selection of rows it differs from the whole")


# -------------------------------------------------------------------------------------------------------------- attention


@check(Attention)
@torch.no_grad()
def check_attention_padding(factory: Any) -> None:
    """Keys that are padding are not read, on either side; nor do other rows matter."""
    for case in cases(factory):
        module = case.build()
        queries, keys = vectors(DIM, (4, 4, 4), 1), vectors(case.wiring[1], (5, 2, 1), 2)
        alone = [module(Seq(q[None]), module.project(Seq(k[None])), Full()).data[0] for q, k in zip(queries, keys, strict=True)]
        for side in ("right", "left"):
            kv = module.project(pack(keys, side))
            same_rows(
                list(module(Seq(torch.stack(queries)), kv, Full()).data),
                alone,
                f"{case.label}: keys padded on the {side} are read",
            )


@check(Attention)
def check_attention_mask(factory: Any) -> None:
    """What a mask forbids has no influence, and what it allows has."""
    for case in cases(factory):
        module = case.build(dtype=torch.float64)
        query, real = normal(2, 5, DIM, seed=41, dtype=torch.float64), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
        for mask in MASKS:

            def function(memory: Tensor, m: Any = module, q: Tensor = query, r: Tensor = real, mask: Mask = mask) -> Tensor:
                return m(Seq(q), m.project(Seq(memory, r)), mask).data

            found = influence(function, normal(2, 5, case.wiring[1], seed=42, dtype=torch.float64))
            allow = mask.allow(grid(2, 5), Seq(query, real).positions())
            inner = real[:, None, :].expand(2, 5, 5) if allow is None else allow & real[:, None, :]
            no_influence(found, diagonal(2, inner), f"{case.label}: the mask {mask} leaks")
            assert bool((found[diagonal(2, inner)] > 0).all()), f"{case.label}: {mask} allows more than is attended to"


@check(Attention)
@torch.no_grad()
def check_attention_chunks(factory: Any) -> None:
    """A memory projected once serves queries in pieces as it does all at once; memories can be joined."""
    for case in cases(factory):
        module = case.build()
        query, memory = Seq(normal(3, 6, DIM, seed=43)), pack(vectors(case.wiring[1], (6, 4, 2), 2), extra=0)
        kv = module.project(memory)
        at = grid(3, 6)
        halves = [Seq(query.data[:, a:b]).mark(position=at[:, a:b]) for a, b in ((0, 2), (2, 6))]
        pieces = [
            Seq(memory.data[:, a:b], memory.real()[:, a:b]).mark(position=memory.positions()[:, a:b]) for a, b in ((0, 2), (2, 6))
        ]
        joined = module.project(pieces[0]).join(module.project(pieces[1]))
        for mask in (Full(), Causal()):
            want = module(query, kv, mask).data
            got = torch.cat([module(half, kv, mask).data for half in halves], 1)
            same(got, want, f"{case.label}: queries in two pieces differ from all at once under {mask}")
            same(module(query, joined, mask).data, want, f"{case.label}: two joined memories differ from one under {mask}")


@check(Attention)
@torch.no_grad()
def check_attention_maps(factory: Any) -> None:
    """Recording changes nothing; the recorded maps are distributions over real keys, and explain the output."""
    for case in cases(factory):
        module = case.build(dtype=torch.float64)
        query = Seq(normal(3, 4, DIM, seed=44, dtype=torch.float64))
        keys = pack(vectors(case.wiring[1], (6, 2, 3), 2, torch.float64))
        kv = module.project(keys)
        plain = module(query, kv, Full()).data
        found: list[Tensor] = []
        with record_attention(lambda owner, weight_BHTS, found=found: found.append(weight_BHTS)):
            recorded = module(query, kv, Full()).data
        same(recorded, plain, f"{case.label}: recording changes the output")
        assert found, f"{case.label}: nothing was recorded: a softmax over keys does not go through attend"
        for weight_BHTS in found:
            assert weight_BHTS.shape[-1] == keys.width, (
                f"{case.label}: a map of shape {tuple(weight_BHTS.shape)} for {keys.width} keys"
            )
            same(weight_BHTS.sum(-1), torch.ones(weight_BHTS.shape[:-1]), f"{case.label}: the rows of a map do not sum to 1")
            outside = weight_BHTS * ~keys.real()[:, None, None, :]
            assert not bool(outside.any()), f"{case.label}: a map gives weight to padding"
        if len(found) == 1 and found[0].shape[1] == kv.value.shape[1]:
            # Values moved to where the map sees nothing leave the output as it is, if the map is the one that was used.
            unseen_BHSS = torch.eye(keys.width) - torch.linalg.pinv(found[0]) @ found[0]
            moved = replace(kv, value=kv.value + unseen_BHSS @ normal(*kv.value.shape, seed=46, dtype=torch.float64))
            same(module(query, moved, Full()).data, plain, f"{case.label}: the map is not what the values were weighted with")


# ------------------------------------------------------------------------------------------------------------------ layer


@check(Layer)
@torch.no_grad()
def check_layer_padding(factory: Any) -> None:
    """Padding in the layer's own sequence or in its memory is not read."""
    for case in cases(factory):
        module, rows = case.build(), vectors()
        seen = vectors(case.wiring[1], (5, 2, 3), 2) if case.wiring[1] else None

        def run(x: Seq, memory: Memory | None, module: Any = module) -> Tensor:
            context = None if memory is None else module.project(memory)
            return module(x, widest_mask(module), None, None, context).hidden.data

        alone = [run(Seq(row[None]), None if seen is None else Memory((Seq(seen[i][None]),)))[0] for i, row in enumerate(rows)]
        for side in ("right", "left"):
            x = pack(rows, side)
            got = run(x, None if seen is None else memory_of(seen, None, side))
            same_rows(unpack(got, x.real()), alone, f"{case.label}: padding on the {side} is read")


@check(Layer)
@torch.no_grad()
def check_layer_past(factory: Any) -> None:
    """A sequence in two pieces, the first given as the past, equals the whole under a causal mask."""
    for case in cases(factory):
        module, x = case.build(), Seq(normal(3, 6, DIM, seed=45))
        context = module.project(memories(case)[-1]) if case.wiring[1] else None
        want, past, got = module(x, Causal(), None, None, context).hidden.data, None, []
        for a, b in ((0, 4), (4, 5), (5, 6)):
            piece = Seq(x.data[:, a:b]).mark(position=grid(3, 6)[:, a:b])
            done = module(piece, Causal(), None, past, context)
            past = done.state
            got.append(done.hidden.data)
        same(torch.cat(got, 1), want, f"{case.label}: with a past it differs from the whole")


# --------------------------------------------------------------------------------------------------------------- embedder


def _of_ids(factory: Any) -> list[Case]:
    return [case for case in cases(factory) if case.label != "image"]


def _of_images(factory: Any) -> list[Case]:
    return [case for case in cases(factory) if case.label == "image"]


def _takes_ids(factory: Any) -> bool:
    return bool(_of_ids(factory))


@check(Embedder, when=lambda factory: bool(_of_images(factory)))
@torch.no_grad()
def check_embedder_images(factory: Any) -> None:
    """An image becomes B x T x D vectors, whatever the other rows are; every pixel matters."""
    for case in _of_images(factory):
        module, x = case.build(), images(case.wiring[1])
        out = module(x)
        assert out.data.ndim == 3 and out.rows == 3 and out.data.shape[-1] == DIM, f"images become {tuple(out.data.shape)}"
        for row in range(3):
            same(module(Seq(x.data[row : row + 1])).data[0], out.data[row], f"row {row} depends on other rows")
        for pixel in ((0, 0, 0), (1, 31, 31), (0, 7, 20)):
            changed = x.data.clone()
            changed[(slice(None), *pixel)] += 1
            assert not torch.equal(module(Seq(changed)).data, out.data), f"the pixel {pixel} does not matter"


@check(Embedder, when=_takes_ids)
def check_soft_ids(factory: Any) -> None:
    """A one-hot row of the vocabulary is the same as its id, and a gradient reaches soft ids where ids matter."""
    for case in _of_ids(factory):
        module = case.build()
        x = with_marks(pack(ids()))
        hot = nn.functional.one_hot(x.data, VOCAB).float().requires_grad_()
        soft = module(x.with_data(hot)).data
        same(soft, module(x).data, "soft ids give something else than ids")
        if torch.equal(module(x).data, module(x.with_data(x.data.flip(0))).data):
            continue
        (g,) = (
            torch.autograd.grad((soft * normal(*soft.shape, seed=56)).sum(), hot, allow_unused=True)
            if soft.requires_grad
            else [None]
        )
        assert g is not None and bool(g.any()), "no gradient reaches soft ids"


@check(Embedder, when=_takes_ids)
@torch.no_grad()
def check_embedder_padding(factory: Any) -> None:
    """Padding on either side changes nothing at real positions, nor do other rows."""
    for case in _of_ids(factory):
        module, rows = case.build(), ids()
        alone = [module(with_marks(Seq(row[None]))).data[0] for row in rows]
        assert alone[0].shape == (len(rows[0]), DIM), f"{len(rows[0])} ids become {tuple(alone[0].shape)}"
        for side in ("right", "left"):
            x = with_marks(pack(rows, side))
            out = module(x)
            same_rows(unpack(out.data, x.real()), alone, f"padding on the {side} matters")
            assert out.mask is x.mask or torch.equal(out.real(), x.real()), "the mask is lost or changed"


@check(Embedder, when=_takes_ids)
@torch.no_grad()
def check_embedder_local(factory: Any) -> None:
    """The vector of a position depends on its own id (and position) only."""
    for case in _of_ids(factory):
        module, x = case.build(), torch.stack(ids((6, 6)))
        changed = x.clone()
        changed[:, 3] = (changed[:, 3] - 6) % (VOCAB - 7) + 7
        marks = with_marks(Seq(x)).marks
        one, two = (module(Seq(d).mark(**marks)).data for d in (x, changed))
        others = [t for t in range(6) if t != 3]
        same(two[:, others], one[:, others], "the vector of one position depends on the id at another")


@check(Embedder, when=_takes_ids)
@torch.no_grad()
def check_embedder_steps(factory: Any) -> None:
    """A position mark replaces the counting of positions: what stepping relies on."""
    for case in _of_ids(factory):
        module, x = case.build(), with_marks(Seq(torch.stack(ids((6, 6)))))
        pieces = [
            Seq(x.data[:, t : t + 1]).mark(**{n: m[:, t : t + 1] for n, m in x.marks.items()}, position=torch.full((2, 1), t))
            for t in range(6)
        ]
        got = torch.cat([module(piece).data for piece in pieces], 1)
        same(got, module(x).data, "one position at a time, with its position marked, differs")


# ---------------------------------------------------------------------------------------------------------------- encoder


def applied_masks(module: Encoder) -> list[Mask]:
    return [mask for mask in MASKS if isinstance(mask, module.supported_masks)]


@check(Encoder)
@torch.no_grad()
def check_padding(factory: Any) -> None:
    """Padding, on either side and whatever stands in it, changes nothing at real positions. One position works."""
    for case in cases(factory):
        module, rows = case.build(), vectors()
        assert Full in module.supported_masks or Mask in module.supported_masks, "an encoder respects Full at least"
        for mask in applied_masks(module):
            alone = [module(Seq(row[None]), mask).data[0] for row in rows]
            for side in ("right", "left"):
                x = pack(rows, side)
                out = module(x, mask)
                same_rows(unpack(out.data, x.real()), alone, f"padding on the {side} is read under {mask}")
                assert torch.equal(out.real(), x.real()), "the mask is lost or changed"


@check(Encoder)
@torch.no_grad()
def check_rows(factory: Any) -> None:
    """A row does not depend on what else is in the batch, in training as in eval."""
    for case in cases(factory):
        for training in (True, False):
            x_BTD = normal(3, 5, DIM, seed=51)
            module = case.build().train(training)
            together = module(Seq(x_BTD)).data
            for row in range(3):
                alone = case.build().train(training)(Seq(x_BTD[row : row + 1])).data[0]
                same(alone, together[row], f"row {row} depends on the other rows ({'training' if training else 'eval'})")


def _mixed(dtype: torch.dtype = torch.float64) -> Seq:
    """Three rows: one whole, one padded on the right, one on the left."""
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 1]]).bool()
    return Seq(normal(3, 5, DIM, seed=52, dtype=dtype), mask)


def reach(mask: Mask, x: Seq, layers: int) -> Tensor:
    """B x T x S: where information can come from through this many layers."""
    allow = mask.allow(x.positions(), x.positions())
    one = x.real()[:, None, :].expand(-1, x.width, -1) if allow is None else allow & x.real()[:, None, :]
    one = (one | torch.eye(x.width, dtype=torch.bool)).double()
    return functools.reduce(lambda total, _: (total @ one).clamp(max=1), range(layers - 1), one).bool()


@check(Encoder)
def check_mask_leak(factory: Any) -> None:
    """Zero Jacobian wherever the mask, through all layers, forbids influence; also from padding and other rows."""
    for case in cases(factory):
        module, x = case.build(dtype=torch.float64), _mixed()
        for mask in applied_masks(module):
            layers = max(1, len(module.states(x, mask)) - 1 - (getattr(module, "layer_mix", None) is not None))
            found = influence(lambda d, x=x, m=mask, e=module: e(x.with_data(d), m).data, x.data)
            found = found * x.real()[:, :, None, None]
            no_influence(found, diagonal(3, reach(mask, x, layers)), f"{mask} leaks")


@check(Encoder)
def check_mask_reach(factory: Any) -> None:
    """Under a mask it still attends to all that the mask allows, as far as it would without one."""
    for case in cases(factory):
        module, x = case.build(dtype=torch.float64), _mixed()
        free = influence(lambda d, x=x, e=module: e(x.with_data(d), Full()).data, x.data) > 0
        for mask in applied_masks(module):
            layers = max(1, len(module.states(x, mask)) - 1 - (getattr(module, "layer_mix", None) is not None))
            found = influence(lambda d, x=x, m=mask, e=module: e(x.with_data(d), m).data, x.data)
            allowed = diagonal(3, reach(mask, x, layers)) & x.real()[:, :, None, None] & free
            unseen = (allowed & (found == 0)).nonzero()
            assert not len(unseen), f"under {mask}, {unseen[0].tolist()} (row, position, row, position) is allowed but not seen"


@check(Encoder)
def check_refused_masks(factory: Any) -> None:
    """A mask that it does not apply is refused with a ValueError, not ignored."""
    for case in cases(factory):
        module, x = case.build(), Seq(normal(2, 4, DIM, seed=53))
        for mask in MASKS:
            if isinstance(mask, module.supported_masks):
                continue
            for name, call in (("forward", module), ("states", module.states)):
                try:
                    call(x, mask)
                except ValueError as error:
                    assert type(mask).__name__ in str(error), f"{name}: the error does not name the mask {type(mask).__name__}"
                else:
                    raise AssertionError(f"{name} takes {mask}, which it does not apply")


@check(Encoder)
@torch.no_grad()
def check_states(factory: Any) -> None:
    """``states`` ends with what forward returns; all have the input's shape."""
    for case in cases(factory):
        module, x = case.build(), pack(vectors(), extra=0)
        for mask in applied_masks(module):
            states = module.states(x, mask)
            assert states, "states gives nothing: the input and the output of every layer are wanted"
            for state in states:
                assert state.data.shape == x.data.shape, f"a state of shape {tuple(state.data.shape)} for {tuple(x.data.shape)}"
            same(states[-1].data, module(x, mask).data, "the last of states is not what forward returns")


@check(Encoder, table=True)
@torch.no_grad()
def check_permutation(factory: Any) -> None:
    """Permuted inputs give permuted outputs."""
    for case in cases(factory):
        module, x_BTD = case.build(), normal(2, 6, DIM, seed=54)
        order = torch.tensor([3, 0, 5, 1, 4, 2])
        same(module(Seq(x_BTD[:, order])).data, module(Seq(x_BTD)).data[:, order], "permuted inputs do not give permuted outputs")


# ---------------------------------------------------------------------------------------------------------------- decoder


def _given(case: Case, dtype: torch.dtype = torch.float32) -> Iterator[Memory | None]:
    yield from memories(case, dtype)


def _scratch(module: Any, x: Seq, memory: Memory | None) -> Tensor:
    return module(x, memory).hidden.data


def _marks(x: Seq, seen_B: Tensor) -> Seq:
    return x.mark(position=seen_B[:, None] + Seq(x.data, x.mask).positions())


def _walk(module: Any, x_BTD: Tensor, memory: Memory | None, chunks: Sequence[int], marked: bool = False) -> Tensor:
    """The hidden states of stepping in chunks; ``marked``: with positions, as a structure steps."""
    state, out, at = module.start(memory, len(x_BTD)), [], 0
    for size in chunks:
        piece = Seq(x_BTD[:, at : at + size])
        done = module.step(_marks(piece, torch.full((len(x_BTD),), at)) if marked else piece, state)
        state, at = done.state, at + size
        out.append(done.hidden.data)
    return torch.cat(out, 1)


@check(Decoder)
@torch.no_grad()
def check_decoder_padding(factory: Any) -> None:
    """Padding of the decoder's own sequence, on either side, changes nothing at real positions, nor do other rows."""
    for case in cases(factory):
        module, rows = case.build(), vectors()
        for memory in _given(case):
            alone = [
                _scratch(module, Seq(row[None]), None if memory is None else memory.select(torch.tensor([i])))[0]
                for i, row in enumerate(rows)
            ]
            for side in ("right", "left"):
                x = pack(rows, side)
                same_rows(unpack(_scratch(module, x, memory), x.real()), alone, f"{case.label}: padding on the {side} is read")


@check(Decoder)
@torch.no_grad()
def check_decoder_rows(factory: Any) -> None:
    """A row does not depend on what else is in the batch, in training as in eval."""
    for case in cases(factory):
        for training in (True, False):
            x_BTD, memory = normal(3, 5, DIM, seed=61), memories(case)[-1]
            together = _scratch(case.build().train(training), Seq(x_BTD), memory)
            for row in range(3):
                own = None if memory is None else memory.select(torch.tensor([row]))
                alone = _scratch(case.build().train(training), Seq(x_BTD[row : row + 1]), own)
                same(alone[0], together[row], f"{case.label}: row {row} depends on the other rows")


@check(Decoder)
def check_causal(factory: Any) -> None:
    """Zero Jacobian to later inputs, to padding and to other rows."""
    for case in cases(factory):
        module, x = case.build(dtype=torch.float64), _mixed()
        for memory in _given(case, torch.float64):
            found = influence(lambda d, x=x, m=module, k=memory: _scratch(m, x.with_data(d), k), x.data)
            found = found * x.real()[:, :, None, None]
            earlier = torch.ones(5, 5).tril().bool() & x.real()[:, None, :] | torch.eye(5).bool()
            no_influence(found, diagonal(3, earlier), f"{case.label}: it looks ahead")
            seen = diagonal(3, earlier) & x.real()[:, :, None, None]
            assert bool((found[seen] > 0).all()), f"{case.label}: it does not attend to all earlier positions"


@check(Decoder)
@torch.no_grad()
def check_memory_padding(factory: Any) -> None:
    """Padding of the memory, on either side and whatever stands in it, is not read; the memory itself is."""
    for case in cases(factory):
        if case.wiring[1] is None:
            continue
        module, x_BTD, width = case.build(), normal(3, 5, DIM, seed=62), case.wiring[1]
        rows, vector_BD = vectors(width, (5, 2, 3), 2), normal(3, width, seed=63)
        alone = [
            _scratch(module, Seq(x_BTD[i : i + 1]), Memory((Seq(row[None]),), vector_BD[i : i + 1]))[0]
            for i, row in enumerate(rows)
        ]
        for side in ("right", "left"):
            memory = memory_of(rows, vector_BD, side)
            same_rows(list(_scratch(module, Seq(x_BTD), memory)), alone, f"padding of the memory on the {side} is read")
            same_rows(list(_walk(module, x_BTD, memory, (2, 3))), alone, f"stepping reads padding of the memory on the {side}")
        other = memory_of(vectors(width, (5, 2, 3), 4), normal(3, width, seed=64))
        assert not torch.allclose(_scratch(module, Seq(x_BTD), other), _scratch(module, Seq(x_BTD), memory)), (
            "the memory is not read"
        )


@check(Decoder)
@torch.no_grad()
def check_stepping(factory: Any) -> None:
    """Stepping, in chunks of any size, equals the full pass."""
    for case in cases(factory):
        module, x_BTD = case.build(), normal(3, 6, DIM, seed=65)
        for memory in _given(case):
            whole = _scratch(module, Seq(x_BTD), memory)
            for chunks in ((1, 1, 1, 1, 1, 1), (3, 1, 2), (6,)):
                for marked in (False, True):
                    stepped = _walk(module, x_BTD, memory, chunks, marked)
                    how = "with positions marked" if marked else "without marks"
                    same(stepped, whole, f"{case.label}: stepping by {chunks} {how} differs from the full pass")


@check(Decoder)
@torch.no_grad()
def check_ragged_stepping(factory: Any) -> None:
    """Prompts of different lengths in one prefill, padded on either side, then one token at a time."""
    for case in cases(factory):
        module, memory = case.build(), memories(case)[-1]
        prompts, rest_BTD = vectors(DIM, (4, 2, 1), 6), normal(3, 3, DIM, seed=66)
        rows = [torch.cat([p, rest_BTD[i]]) for i, p in enumerate(prompts)]
        whole = pack(rows, filler=0.0)
        want = unpack(_scratch(module, whole, memory), whole.real())
        for side in ("right", "left"):
            for marked in (False, True):
                x, seen = pack(prompts, side, extra=1), torch.zeros(3, dtype=torch.long)
                done = module.step(_marks(x, seen) if marked else x, module.start(memory, 3))
                got, seen = [unpack(done.hidden.data, x.real())], x.lengths()
                for t in range(3):
                    one = Seq(rest_BTD[:, t : t + 1])
                    done = module.step(_marks(one, seen) if marked else one, done.state)
                    got.append(list(done.hidden.data))
                    seen = seen + 1
                joined = [torch.cat(pieces) for pieces in zip(*got, strict=True)]
                same_rows(joined, want, f"{case.label}: after prompts padded on the {side} stepping differs from the full pass")


@check(Decoder)
def check_step_gradient(factory: Any) -> None:
    """With gradients on, stepping equals the full pass too, and so does what flows back through it."""
    for case in cases(factory):
        module, memory = case.build(dtype=torch.float64), memories(case, torch.float64)[-1]
        grads = []
        for stepped in (False, True):
            x_BTD = normal(3, 4, DIM, seed=67, dtype=torch.float64).requires_grad_()
            out = _walk(module, x_BTD, memory, (1, 2, 1)) if stepped else _scratch(module, Seq(x_BTD), memory)
            try:
                (g,) = torch.autograd.grad((out * normal(*out.shape, seed=68, dtype=torch.float64)).sum(), x_BTD)
            except RuntimeError as error:
                raise AssertionError(f"{case.label}: no gradient through {'steps' if stepped else 'forward'}: {error}") from error
            grads.append(g)
        same(grads[1], grads[0], f"{case.label}: the gradient through steps differs from the full pass'")


@check(Decoder)
@torch.no_grad()
def check_select(factory: Any) -> None:
    """``state.select(rows)``, with rows left out, reordered or doubled, continues as those rows would from scratch."""
    for case in cases(factory):
        module, memory = case.build(), memories(case)[-1]
        start_BTD = normal(3, 3, DIM, seed=71)
        for rows in (torch.tensor([2, 0, 0, 1]), torch.tensor([1]), torch.tensor([1, 2, 0])):
            done = module.step(Seq(start_BTD), module.start(memory, 3))
            more = normal(len(rows), 2, DIM, seed=72)
            state, got = done.state.select(rows), []
            for t in range(2):
                done = module.step(Seq(more[:, t : t + 1]), state)
                state = done.state
                got.append(done.hidden.data)
            chosen = None if memory is None else memory.select(rows)
            want = _scratch(module, Seq(torch.cat([start_BTD[rows], more], 1)), chosen)[:, 3:]
            same(torch.cat(got, 1), want, f"{case.label}: after select({rows.tolist()}) stepping differs from scratch")


@check(Decoder)
@torch.no_grad()
def check_forks(factory: Any) -> None:
    """Forks of one state, stepped in turns, do not disturb each other."""
    for case in cases(factory):
        module, memory = case.build(), memories(case)[-1]
        start_BTD = normal(3, 2, DIM, seed=73)
        origin = module.step(Seq(start_BTD), module.start(memory, 3)).state
        forks = [torch.tensor(rows) for rows in ([0, 1, 2], [2, 1, 1], [0, 1, 2])]
        states = [origin.select(rows) for rows in forks]
        more = [normal(3, 3, DIM, seed=74 + i) for i in range(len(forks))]
        got: list[list[Tensor]] = [[] for _ in forks]
        for t in range(3):
            for i in range(len(forks)):
                done = module.step(Seq(more[i][:, t : t + 1]), states[i])
                states[i] = done.state
                got[i].append(done.hidden.data)
        for i, rows in enumerate(forks):
            chosen = None if memory is None else memory.select(rows)
            want = _scratch(module, Seq(torch.cat([start_BTD[rows], more[i]], 1)), chosen)[:, 2:]
            same(torch.cat(got[i], 1), want, f"{case.label}: stepping one fork changes the other")


# ------------------------------------------------------------------------------------------------------- pooler and head


@check(Pooler)
@torch.no_grad()
def check_pooler_padding(factory: Any) -> None:
    """Padding on either side is not read; a row does not depend on the others."""
    for case in cases(factory):
        for training in (True, False):
            module, rows = case.build().train(training), vectors()
            alone = [module(Seq(row[None]))[0] for row in rows]
            for side in ("right", "left"):
                same_rows(list(module(pack(rows, side))), alone, f"padding on the {side} is read, or other rows are")


@check(Pooler, Encoder, Decoder)
def check_empty_row(factory: Any) -> None:
    """A row that is all padding, in the sequence or in the memory, gives finite numbers and gradients and leaves others alone."""
    for case in cases(factory):
        module, mask = case.build(), torch.tensor([[True, True, False], [False, False, False]])
        data_BTD = normal(2, 3, DIM, seed=81)
        wide = case.wiring[1] if case.kind is Decoder else None
        seen = None if wide is None else Seq(normal(2, 3, wide, seed=82), mask)

        def run(x: Seq, seen: Seq | None, module: Any = module, kind: type = case.kind) -> Tensor:
            if kind is Decoder:
                return module(x, None if seen is None else Memory((seen,))).hidden.data
            return module(x) if kind is Pooler else module(x).data

        whole = data_BTD.clone().requires_grad_()
        out = run(Seq(whole, mask if seen is None else None), seen)
        assert bool(torch.isfinite(out).all()), f"{case.label}: a row that is all padding gives something that is not finite"
        (g,) = torch.autograd.grad(out.sum(), whole)
        assert bool(torch.isfinite(g).all()), f"{case.label}: the gradient of a row that is all padding is not finite"
        own = None if seen is None else Seq(seen.data[:1, :2])
        length = 2 if seen is None else 3
        alone = run(Seq(data_BTD[:1, :length]), own)
        beside = out[:1] if case.kind is Pooler else out[:1, :length]
        same(beside, alone, f"{case.label}: a row that is all padding changes another")


@check(Decoder)
@torch.no_grad()
def check_idle_step(factory: Any) -> None:
    """A step in which a row has no token leaves that row as it was."""
    for case in cases(factory):
        module, memory = case.build(), memories(case)[-1]
        x_BTD = normal(3, 4, DIM, seed=87)
        state = module.step(Seq(x_BTD[:, :2]), module.start(memory, 3)).state
        real = torch.tensor([[True], [False], [True]])
        state = module.step(Seq(normal(3, 1, DIM, seed=88), real), state).state
        done = module.step(Seq(x_BTD[:, 2:3]), state)
        got = torch.cat([done.hidden.data, module.step(Seq(x_BTD[:, 3:]), done.state).hidden.data], 1)
        want = _scratch(module, Seq(x_BTD), memory)[:, 2:]
        same(got[1], want[1], f"{case.label}: a step without a token changes the row")
        assert not torch.allclose(got[0], want[0]), f"{case.label}: a step with a token does not change the row"


@check(Pooler, table=True)
@torch.no_grad()
def check_invariance(factory: Any) -> None:
    """The order of positions does not matter."""
    for case in cases(factory):
        module, x_BTD = case.build(), normal(2, 6, DIM, seed=82)
        same(module(Seq(x_BTD[:, torch.tensor([3, 0, 5, 1, 4, 2])])), module(Seq(x_BTD)), "the order of positions matters")


@check(Head)
def check_nll(factory: Any) -> None:
    """``nll`` is the cross entropy of forward's logits, smoothed or not, and so is its gradient; no rows are no losses."""
    for case in cases(factory):
        module = case.build(dtype=torch.float64)
        target_N = torch.randint(0, VOCAB, (7,), generator=torch.Generator().manual_seed(83))
        x_ND = normal(7, DIM, seed=84, dtype=torch.float64).requires_grad_()
        assert module(x_ND).shape == (7, VOCAB), (
            f"{case.label}: logits of shape {tuple(module(x_ND).shape)}, expected (7, {VOCAB})"
        )
        wanted = [x_ND, *(p for p in module.parameters() if p.requires_grad)]
        weight_N = normal(7, seed=85, dtype=torch.float64)
        for smoothing in (0.0, 0.1):
            want_N = nn.functional.cross_entropy(module(x_ND), target_N, reduction="none", label_smoothing=smoothing)
            got_N = module.nll(x_ND, target_N, smoothing)
            same(got_N, want_N, f"{case.label}: nll with smoothing {smoothing} is not the cross entropy of the logits", 1e-6)
            with torch.no_grad():
                quiet_N = module.nll(x_ND, target_N, smoothing)
            same(quiet_N, want_N, f"{case.label}: without gradients nll with smoothing {smoothing} differs", 1e-6)
            got, want = (torch.autograd.grad((n * weight_N).sum(), wanted, allow_unused=True) for n in (got_N, want_N))
            for a, b in zip(got, want, strict=True):
                zero = torch.zeros(())
                same(zero if a is None else a, zero if b is None else b, f"{case.label}: the gradient of nll differs", 1e-6)
        empty = module.nll(x_ND[:0], target_N[:0], 0.1)
        assert empty.shape == (0,), f"{case.label}: no rows give {tuple(empty.shape)}"


@check(Head)
@torch.no_grad()
def check_head_rows(factory: Any) -> None:
    """Each row's logits and loss are its own; in training too."""
    for case in cases(factory):
        for training in (True, False):
            module, x_ND, target_N = case.build().train(training), normal(5, DIM, seed=86), torch.arange(5) + 4
            same(module(x_ND[2:3]), module(x_ND)[2:3], f"{case.label}: the logits of a row depend on other rows")
            some = module.nll(x_ND[2:3], target_N[2:3])
            same(some, module.nll(x_ND, target_N)[2:3], f"{case.label}: the loss of a row depends on other rows")


# -------------------------------------------------------------------------------------------------------------- structure


def _single(batch: Batch, row: int) -> Batch:
    """One row of a batch, without its padding."""
    fields = {}
    for name, value in batch.fields.items():
        one = value.select(torch.tensor([row])) if isinstance(value, Seq) else value[row : row + 1]
        fields[name] = Seq(one.data[one.real()][None]) if isinstance(one, Seq) else one
    return Batch(fields, 1)


@check(Structure)
def check_protocols(factory: Any) -> None:
    """It declares its protocols and its dimension."""
    for case in cases(factory):
        module = case.build()
        assert module.provides(), f"{case.label}: it provides none of the protocols"
        assert isinstance(getattr(module, "dim", None), int), f"{case.label}: it has no dim"
        if Decodes in module.provides():
            assert module.target.name in case.wiring[0], (
                f"{case.label}: it generates {module.target.name!r}, which the data has not"
            )


@check(Structure)
@torch.no_grad()
def check_forward(factory: Any) -> None:
    """``forward`` takes a ``Seq``, or plain data with a mask; a row does not depend on other rows or on padding."""
    for case in cases(factory):
        module, info = case.build(), case.wiring[0]
        for side in ("right", "left"):
            batch = text_batch(info, side=side)
            x = next(batch.sequences())
            inputs = [x]
            if {Decodes, Reconstructs} & set(module.provides()) and module.memory(batch) is not None:
                inputs = [batch["source"] if "source" in batch else x, batch[module.target.name]]  # noqa: SIM401
            label = {"label": batch["label"]} if getattr(module, "class_conditional", False) else {}
            together = module(*inputs, **label)
            assert isinstance(together, Tensor), f"{case.label}: forward returns a {type(together).__name__}, not a tensor"
            plain = module(*(s.data for s in inputs), *(s.mask for s in inputs), **label)
            same(plain, together, f"{case.label}: plain data with a mask and a Seq differ", 0.0)
            if ScoresChoices in module.provides():
                continue  # several sequences per row
            for row in range(len(together)):
                alone = [Seq(s.data[row][s.real()[row]][None]) if s.data.ndim == 2 else s.select(_index(row)) for s in inputs]
                own = module(*alone, **{name: values[[row]] for name, values in label.items()})[0]
                real_T = inputs[-1].real()[row]
                kept = together[row][real_T] if own.ndim == 2 and len(own) == int(real_T.sum()) else together[row]
                same(kept, own, f"{case.label}: forward of row {row} depends on padding ({side}) or on other rows")


def _index(row: int) -> Tensor:
    return torch.tensor([row])


def _provides(protocol: type) -> Condition:
    return lambda factory: any(protocol in case.provides for case in cases(factory))


def _structures(factory: Any, protocol: type) -> Iterator[tuple[Case, Any, Info]]:
    for case in cases(factory):
        if protocol in case.provides:
            yield case, case.build(), case.wiring[0]


@check(Structure, when=_provides(Encodes))
@torch.no_grad()
def check_encodes(factory: Any) -> None:
    """``encode``: padding on either side changes nothing, nor do other rows, in training as in eval."""
    for case, module, info in _structures(factory, Encodes):
        if not info.texts():
            _check_image_rows(lambda x, module=module: module.encode(x).data, info, case.label)
            continue
        field = _encoded(module, info)
        for training in (False, True):
            module.train(training)
            rows = ids((5, 3, 1), 4, field.vocab)
            alone = [module.encode(Seq(row[None])).data[0] for row in rows]
            assert alone[0].shape == (5, module.dim), f"{case.label}: 5 ids are encoded as {tuple(alone[0].shape)}"
            for side in ("right", "left"):
                x = pack(rows, side)
                same_rows(
                    unpack(module.encode(x).data, x.real()), alone, f"{case.label}: padding on the {side} is read, or other rows"
                )


def _check_image_rows(function: Callable[[Seq], Tensor], info: Info, label: str) -> None:
    x = images(info.images()[0])
    alone = [function(Seq(row[None]))[0] for row in x.data]
    same_rows(list(function(x)), alone, f"{label}: an image depends on other rows")


def _encoded(module: Any, info: Info) -> Any:
    """The field that a structure encodes: the text that it does not generate, if there are two."""
    texts = [f for f in info.texts() if Decodes not in module.provides() or f.name != module.target.name]
    return texts[0] if texts else info.texts()[0]


@check(Structure, when=_provides(Classifies))
@torch.no_grad()
def check_classifies(factory: Any) -> None:
    """``features``: B x D, padding and other rows change nothing; the classifier has a logit per class."""
    for case, module, info in _structures(factory, Classifies):
        if not info.texts():
            _check_image_rows(module.features, info, case.label)
            logits = module.classifier(module.features(images(info.images()[0])))
            assert logits.shape == (3, info["label"].classes), f"{case.label}: logits of shape {tuple(logits.shape)}"
            continue
        rows = ids((5, 3, 1), 4, info["text"].vocab)
        for training in (False, True):
            module.train(training)
            alone = [module.features(Seq(row[None]))[0] for row in rows]
            for side in ("right", "left"):
                same_rows(
                    list(module.features(pack(rows, side))), alone, f"{case.label}: padding on the {side} is read, or other rows"
                )
            logits = module.classifier(torch.stack(alone))
            assert logits.shape == (3, info["label"].classes), f"{case.label}: logits of shape {tuple(logits.shape)}"


@check(Structure, when=_provides(ScoresChoices))
@torch.no_grad()
def check_chooses(factory: Any) -> None:
    """``features``: as of what classifies; the chooser has one logit for each sequence."""
    for case, module, info in _structures(factory, ScoresChoices):
        rows = ids((5, 3, 1), 4, info["choices"].vocab)
        for training in (False, True):
            module.train(training)
            alone = [module.features(Seq(row[None]))[0] for row in rows]
            for side in ("right", "left"):
                same_rows(
                    list(module.features(pack(rows, side))), alone, f"{case.label}: padding on the {side} is read, or other rows"
                )
            logits = module.choice_head(torch.stack(alone))
            assert logits.shape == (3, 1), f"{case.label}: logits of shape {tuple(logits.shape)}"


@check(Structure, when=_provides(Tags))
@torch.no_grad()
def check_tags(factory: Any) -> None:
    """The tagger has a logit per tag for each vector of ``encode``."""
    for case, module, info in _structures(factory, Tags):
        hidden = module.encode(pack(ids((5, 3, 1), 4, info["text"].vocab))).data
        logits = module.tag_head(hidden.flatten(0, 1))
        assert logits.shape == (hidden.shape[0] * hidden.shape[1], info["tags"].classes), (
            f"{case.label}: logits of shape {tuple(logits.shape)}"
        )


@check(Structure, when=_provides(ExtractsSpans))
@torch.no_grad()
def check_points(factory: Any) -> None:
    """The pointer has two logits, begin and end, for each vector of ``encode``."""
    for case, module, info in _structures(factory, ExtractsSpans):
        hidden = module.encode(pack(ids((5, 3, 1), 4, info.input_texts()[0].vocab))).data
        logits = module.span_head(hidden.flatten(0, 1))
        assert logits.shape == (hidden.shape[0] * hidden.shape[1], 2), f"{case.label}: logits of shape {tuple(logits.shape)}"


@check(Structure, when=_provides(Decodes))
@torch.no_grad()
def check_decodes(factory: Any) -> None:
    """``decode``: a row alone, without padding anywhere, equals the same row in a padded batch; logits over the target."""
    for case, module, info in _structures(factory, Decodes):
        for training in (False, True):
            module.train(training)
            for side in ("right", "left"):
                batch = text_batch(info, side=side)
                x, memory = batch[module.target.name], module.memory(batch)
                together = unpack(module.decode(x, memory).hidden.data, x.real())
                for row in range(3):
                    own = _single(batch, row)
                    alone = module.decode(own[module.target.name], module.memory(own)).hidden.data[0]
                    same(together[row], alone, f"{case.label}: row {row} depends on padding ({side}) or on other rows")
        logits = module.head(together[0])
        assert logits.shape == (len(together[0]), module.target.vocab), f"{case.label}: logits of shape {tuple(logits.shape)}"


@check(Structure, when=_provides(Decodes))
@torch.no_grad()
def check_decodes_causal(factory: Any) -> None:
    """A later token changes nothing before it, and something at its own position."""
    for case, module, info in _structures(factory, Decodes):
        batch = text_batch(info, (6, 6, 6), extra=0)
        x, memory = batch[module.target.name], module.memory(batch)
        before = module.decode(x, memory).hidden.data
        for t in (1, 3, 5):
            changed = x.data.clone()
            changed[:, t] = (changed[:, t] - 6) % (VOCAB - 7) + 7
            after = module.decode(x.with_data(changed), memory).hidden.data
            same(after[:, :t], before[:, :t], f"{case.label}: the token at {t} changes what comes before", 1e-5)
            assert not torch.allclose(after[:, t], before[:, t]), f"{case.label}: the token at {t} changes nothing there"


@check(Structure, when=_provides(Decodes))
@torch.no_grad()
def check_structure_stepping(factory: Any) -> None:
    """``start`` and ``step`` equal ``decode``, positions of the embedding included; ragged prompts and forks too."""
    for case, module, info in _structures(factory, Decodes):
        batch = text_batch(info, (6, 6, 6), extra=0)
        x, memory = batch[module.target.name].data, module.memory(text_batch(info))
        want = module.decode(Seq(x), memory).hidden.data
        for chunks in ((1, 1, 1, 1, 1, 1), (3, 1, 2), (6,)):
            state, got, at = module.start(memory, 3), [], 0
            for size in chunks:
                done = module.step(Seq(x[:, at : at + size]), state)
                state, at = done.state, at + size
                got.append(done.hidden.data)
            same(torch.cat(got, 1), want, f"{case.label}: stepping by {chunks} differs from decode")
        for side in ("right", "left"):
            prompt = pack([x[0, :4], x[1, :2], x[2, :1]], side)
            done = module.step(prompt, module.start(memory, 3))
            rows = torch.tensor([2, 0, 0, 1])
            state, seen = done.state.select(rows), prompt.lengths()[rows]
            for _ in range(2):
                token = x[rows, seen][:, None]
                done = module.step(Seq(token), state)
                state = done.state
                same(
                    done.hidden.data[:, 0],
                    want[rows, seen],
                    f"{case.label}: after prompts padded on the {side} and a fork it differs",
                )
                seen = seen + 1


# -------------------------------------------------------------------------------------------------------------- objective


def _fitting(factory: Any) -> Iterator[tuple[Case, Any, Any]]:
    """The objective on each kind of data on which a structure has what it needs, with such a structure."""
    for case in cases(factory):
        yield case, case.build(), to_model(case, functools.partial(move, device="cpu", dtype=torch.float32))


def check_pair_counts(objective: Any, model: Any, info: Info) -> None:
    batch = objective_batch(objective, info)
    loss, counts = objective(model, batch, Clock()), objective.counts(batch)
    found = {name: term.count for name, term in loss.items()}
    assert counts == found, f"counts returns {counts}, the loss {found}"
    for name, term in loss.items():
        assert isinstance(term.count, int), f"the count of {name} is a {type(term.count).__name__}, not an int"
        assert term.total.shape == (), f"the total of {name} has shape {tuple(term.total.shape)}"
        assert bool(torch.isfinite(term.total)), f"the total of {name} is not finite"


def check_pair_sum(objective: Any, model: Any, info: Info) -> None:
    for training in (False, True):
        objective.train(training)
        loss = objective(model, objective_batch(objective, info), Clock())
        rows = [objective(model, objective_batch(objective, info, [row]), Clock()) for row in range(3)]
        for name, term in loss.items():
            total, count = sum(r[name].total for r in rows), sum(r[name].count for r in rows)
            assert term.count == count, f"{name}: the count of a batch is {term.count}, its rows' together {count}"
            same(term.total, torch.as_tensor(total), f"{name}: the total of a batch is not the sum of its rows'")


def check_pair(structure: Any, objective: Any, info: Info) -> None:
    """A structure under an objective: counts, a loss that is a sum, a gradient, and the meta device."""
    seed_cpu(0)
    model, goal = structure(info), objective(info, DIM)
    stir(model)
    stir(goal)
    model.eval()
    with torch.no_grad():
        check_pair_counts(goal, model, info)
        if not goal.couples:
            check_pair_sum(goal, model, info)
    goal.train()
    batch = objective_batch(goal, info)
    goal(model, batch, Clock()).mean().backward()
    reached = [p for p in (*model.parameters(), *goal.parameters()) if p.grad is not None]
    assert reached, "no parameter receives a gradient"
    assert all(bool(torch.isfinite(p.grad).all()) for p in reached if p.grad is not None), "a gradient is not finite"
    with torch.device("meta"):
        model, goal = structure(info), objective(info, DIM)
    loss = goal(model, batch.to("meta"), Clock())
    assert {k: t.count for k, t in loss.items()} == goal.counts(batch), "on the meta device the counts differ"
    assert all(t.total.shape == () for t in loss.values()), "on the meta device a total is no scalar"


@check(Objective)
@torch.no_grad()
def check_counts(factory: Any) -> None:
    """``counts`` returns, from the batch alone, what the loss will be divided by."""
    for case, objective, model in _fitting(factory):
        check_pair_counts(objective, model, case.wiring[0])


def _is_sum(factory: Any) -> bool:
    """Whether the examples of a batch do not interact."""
    return not any(case.build(stirred=False).couples for case in cases(factory))


@check(Objective, when=_is_sum)
@torch.no_grad()
def check_sum(factory: Any) -> None:
    """A loss is a sum: that of a batch is the sum of its rows' alone, whatever the padding."""
    for case, objective, model in _fitting(factory):
        check_pair_sum(objective, model, case.wiring[0])


@check(Objective)
def check_prepare(factory: Any) -> None:
    """``prepare`` is a function of the example and the generator, and leaves the example alone."""
    for case, objective, _ in _fitting(factory):
        pool = [case.wiring[0].synthetic_example(np.random.default_rng(s), 6) for s in range(3)]
        before = copy.deepcopy(pool[0])
        one, two = (objective.prepare(pool[0], np.random.default_rng(4), pool) for _ in range(2))
        assert one is not None and two is not None, f"{case.label}: prepare finds nothing to learn in a plain example"
        assert _plain(one) == _plain(two), f"{case.label}: prepare is random beyond the generator it is given"
        assert _plain(before) == _plain(pool[0]), f"{case.label}: prepare changes the example"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, Targets):
        return value.of, value.at.tolist(), value.ids.tolist()
    if isinstance(value, Sequences):
        return [_plain(part) for part in value.parts]
    if isinstance(value, MarkedIds):
        return value.ids.tolist(), _plain(value.marks)
    return value.tolist() if isinstance(value, np.ndarray) else value


@check(Objective)
def check_targets(factory: Any) -> None:
    """Targets stand at real positions and are ids of the vocabulary, never padding."""
    for case, objective, _ in _fitting(factory):
        info: Info = case.wiring[0]
        if not info.texts():  # there are no ids: integers there are positions
            continue
        vocab = max(f.vocab for f in info.tokenized())
        for example in [info.synthetic_example(np.random.default_rng(s), n) for s, n in enumerate((6, 1, 3))]:
            made = objective.prepare(example, np.random.default_rng(4), [example])
            if made is not None:
                _check_targets(made, vocab, case.label, "tags" in info)


def _check_targets(made: Instance, vocab: int, label: str, classes: bool) -> None:
    for name, value in made.items():
        if isinstance(value, Instance):
            _check_targets(value, vocab, label, classes)
        elif isinstance(value, Targets):
            width = len(made[value.of])
            assert len(value.at) == len(value.ids), f"{label}: {name} has {len(value.at)} positions for {len(value.ids)} targets"
            assert np.all((value.at >= 0) & (value.at < width)), (
                f"{label}: {name} points outside the {width} positions of {value.of}"
            )
            first = 0 if classes and name == "tags" else 1  # classes begin at 0, where texts have padding
            assert np.all(value.ids >= first), f"{label}: {name} has padding as a target"
            assert np.all(value.ids < vocab), f"{label}: {name} has a target outside the vocabulary of {vocab}"
        elif isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.ndim == 1:
            assert np.all((value >= 0) & (value < vocab)), f"{label}: {name} has an id outside the vocabulary of {vocab}"


# ----------------------------------------------------------------------------------------------------------------- recipe


def _registered_with_defaults(factory: Any) -> bool:
    return base_of(factory) is not None and inspect.Parameter.empty not in option_values(factory).values()


@check(when=_registered_with_defaults)
def check_recipe(factory: Any) -> None:
    """Written as a recipe and read back, it is the same."""
    try:
        tree = recipe.dump(factory)
    except ValueError as error:
        raise AssertionError(f"cannot be written as a recipe: {error}") from error
    node = recipe.parse(recipe.to_yaml({"part": tree}), "recipe.yaml")
    parser = recipe.RecipeParser()
    back = parser.read(kind_of(factory), node.value["part"], "part")
    assert not parser.problems, "; ".join(str(p) for p in parser.problems)
    assert recipe.dump(back) == tree, f"read back it is {recipe.dump(back)}, written {tree}"
