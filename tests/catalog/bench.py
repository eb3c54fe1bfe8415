"""The bench that blocks are checked on: sizes, inputs, and how a block of each slot is built and called.

Suffixes as in weft/seq.py.
"""

from __future__ import annotations

import atexit
import copy
import functools
import importlib
import inspect
import itertools
import pkgutil
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor, nn

import weft
from weft.blocks import ClassifierHead, PatchEmbedder, ResNet, SharedTokenEmbedder, Transformer
from weft.core import contracts as slots
from weft.core.batch import Batch, Clock, collate
from weft.core.example import CHOICE_LABELS
from weft.core.fields import (
    Field,
    ImageField,
    Info,
    LabelField,
    LabelsField,
    NumberField,
    SpanField,
    TagsField,
    TextField,
    TextsField,
)
from weft.core.masks import Causal, Full, Mask, Prefix, Window
from weft.core.options import Count, Dim, Dropout, Heads, Layers, Natural
from weft.core.registry import (
    CATALOG,
    Build,
    alternatives,
    base_of,
    is_composition,
    name_of,
    option_parameters,
    option_values,
    slot_of,
)
from weft.core.seq import Memory, Seq
from weft.models import TextEncoder
from weft.systems.latent_text.cara import ClassifiesTexts, DiscriminatesLatents
from weft.systems.latent_text.optimus.latent_gan import GeneratesLatents

DIM, MEMORY, VOCAB, HEADS = 16, 12, 20, 2
LENGTHS = (6, 3, 1)
"""Real positions of the rows that padding is tried with."""
FILLER = 1e4
"""What stands in padded slots of vectors: large enough to be seen wherever it is read."""

TEXT = TextField("text", VOCAB, max_length=24, sentinel_count=6)
SPELLED = TextField("text", VOCAB, max_length=24, characters=12)
IMAGE = ImageField("image", 2, 32, 32)
PHOTO = ImageField("image", 2, 80, 76)
"""For image networks that need more pixels."""
LABEL = LabelField("label", 3, labels=("a", "b", "c"))
INFOS: dict[str, Info] = {
    "text": Info({"text": TEXT}, target="text"),
    "labeled": Info({"text": TEXT, "label": LABEL}, target="text"),
    "parallel": Info(
        {
            "source": TextField("source", VOCAB, max_length=24, sentinel_count=6),
            "target": TextField("target", VOCAB, max_length=24, sentinel_count=6),
        },
        target="target",
    ),
    "mirrored": Info(
        {
            "source": TextField("source", VOCAB, max_length=24, space="source"),
            "target": TextField("target", VOCAB + 3, max_length=24, space="target"),
            "label": LABEL,
        },
        target="target",
    ),
    "one vocabulary": Info(
        {
            "source": TextField("source", VOCAB, max_length=24),
            "target": TextField("target", VOCAB, max_length=24),
            "label": LABEL,
        },
        target="target",
    ),
    "tagged": Info({"text": TEXT, "tags": TagsField("tags", 3, labels=("a", "b", "c"))}, target="text"),
    "sets": Info({"text": TEXT, "label": LabelsField("label", 3, labels=("a", "b", "c"))}, target="text"),
    "choices": Info(
        {
            "question": TextField("question", VOCAB, max_length=24),
            "choices": TextsField("choices", VOCAB, max_length=24),
            "label": LabelField("label", 26, labels=CHOICE_LABELS),
        },
        target="question",
    ),
    "images": Info({"image": IMAGE, "label": LABEL}, target="image"),
    "numbers": Info({"text": TEXT, "label": NumberField("label")}, target="text"),
    "questions": Info(
        {
            "question": TextField("question", VOCAB, max_length=24),
            "context": TextField("context", VOCAB, max_length=24),
            "answer": SpanField("answer", of="context"),
        },
        target="context",
    ),
}
"""The kinds of data that structures are tried with; one of them must do."""

MASKS: tuple[Mask, ...] = (Full(), Causal(), Window(reach=1), Prefix(2), Causal() & Window(reach=2), Window(reach=1) | Prefix(1))

TINY: Mapping[str, Any] = {"dim": DIM, "layers": 2, "heads": HEADS, "hidden": 24, "length": 24, "dropout": 0.0}
"""Given to structures and named models, whose own sizes are too large to test with. Plain: dropout has checks of its own."""

TINY_BACKBONES: Mapping[str, Mapping[str, Any]] = {
    "alexnet": {"dims": [4, 6, 8, 8, 6], "hidden": 10},
    "densenet": {"layers": [2, 1], "growth": 4, "stem_dim": 8},
    "efficientnet-lite": {"width": 0.25, "depth": 0.5},
    "feature-pyramid": {"encoder": functools.partial(ResNet, layers=[1, 1], dims=[8, 12], stem_dim=8), "dim": 8},
    "googlenet": {"width": 0.125},
    "inception-v3": {"width": 0.0625},
    "mobilenet-v2": {"width": 0.25},
    "resnet": {"layers": [1, 2], "dims": [8, 16], "stem_dim": 8},
    "vgg": {"layers": [1, 2], "dims": [4, 8], "hidden": 10},
    "vit": {
        "dim": DIM,
        "embedder": functools.partial(PatchEmbedder, size=8),
        "encoder": functools.partial(Transformer, layers=2, position=None),
    },
}
"""Small sizes of the image networks by name."""

OWN_TESTS = (
    "Annealing",
    "Augmentation",
    "FreeBits",
    "Injection",
    "BatchNormalization",
    "LinearChain",
    "Mask",
    "MaskingStrategy",
    "Noise",
    "Pairing",
    "RotaryScaling",
    "Sync",
    "Tokenizer",
    "Data",
    "Optimizer",
    "Schedule",
    "Constraint",
    "Learning",
    "Search",
    "Metric",
    "EMA",
    "Phase",
    "Stage",
    "Evaluation",
)
"""Slots whose behavior is tested elsewhere; here only their registration and documentation."""


# ------------------------------------------------------------------------------------------------- what is in the catalog


def fill_catalog() -> dict[str, str]:
    """Import every module of weft, so that nothing registered is left out. Returns what could not be imported, and why."""
    broken: dict[str, str] = {}
    for module in pkgutil.walk_packages(weft.__path__, "weft.", onerror=lambda _: None):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except Exception as error:
                broken[module.name] = f"{type(error).__name__}: {error}"
    return broken


def entries() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Slot, name and factory of everything weft itself registers, each in the most specific slot that it fills."""
    for slot, named in CATALOG.items():
        for name, factory in named.items():
            if factory.__module__.partition(".")[0] == "weft" and kind_of(factory) is slot:
                yield slot, name, factory


def kind_of(factory: Any) -> type:
    """The slot that a class, a partial of one, or a composition fills."""
    base = factory.func if isinstance(factory, functools.partial) else factory
    if inspect.isclass(base):
        found = next((c for c in base.__mro__ if c in CATALOG), None)
    else:
        found = slot_of(get_type_hints(base).get("return"))
    if found is None:
        raise TypeError(f"{base!r} fills no slot")
    return found


def tiny(factory: Callable[..., Any], given: Mapping[str, Any]) -> Build[Any]:
    """A factory that takes only wiring: with the ``given`` options, and small sizes where the slot is a whole network."""
    known = option_parameters(factory.func if isinstance(factory, functools.partial) else factory)
    if "from_" in known and kind_of(factory) is slots.Structure:
        given = {"from_": published(), **given}
    shrunk = {k: v for k, v in TINY.items() if k in known} if kind_of(factory) is slots.Structure else {}
    if kind_of(factory) is slots.Structure and not is_composition(factory):  # networks inside it are small too
        inner = {k: p.default for k, p in known.items() if slot_of(p.annotation) in (slots.Structure, slots.Backbone)}
        shrunk |= {k: tiny(v, {}) for k, v in inner.items()}
    if kind_of(factory) is slots.Backbone and base_of(factory) is not None:
        shrunk = {k: v for k, v in TINY_BACKBONES.get(name_of(factory), {}).items() if k in known}
    shrunk |= given
    if is_composition(factory):
        return factory(**shrunk)
    return functools.partial(factory, **shrunk) if shrunk else factory


@functools.cache
def published() -> str:
    """The folder of a tiny BERT in the published layout."""
    from weft.models import bert
    from weft.pretrained import save

    structure = bert(**{name: value for name, value in TINY.items() if name in option_parameters(bert)})
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(save(structure(INFOS["text"]), structure, folder))


def with_dropout(factory: Any, amount: float) -> tuple[Any, int]:
    """The factory with every ``Dropout`` option in its tree set, and how many were."""
    return _with_options(factory, Dropout, amount)


def _with_options(factory: Any, annotation: Any, value: Any) -> tuple[Any, int]:
    """The factory with every option of this annotation in its tree set, and how many were."""
    base, given = (factory.func, dict(factory.keywords)) if isinstance(factory, functools.partial) else (factory, {})
    if not inspect.isclass(base):
        return factory, 0
    found = 0
    for name, parameter in option_parameters(base).items():
        now = given.get(name, parameter.default)
        if parameter.annotation == annotation:
            given[name], found = value, found + 1
        elif isinstance(now, list | tuple):
            parts = [_with_options(v, annotation, value) if is_factory(v) else (v, 0) for v in now]
            if number := sum(n for _, n in parts):
                given[name], found = type(now)(v for v, _ in parts), found + number
        elif isinstance(now, dict):
            named = {k: _with_options(v, annotation, value) if is_factory(v) else (v, 0) for k, v in now.items()}
            if number := sum(n for _, n in named.values()):
                given[name], found = {k: v for k, (v, _) in named.items()}, found + number
        elif is_factory(now):
            changed, number = _with_options(now, annotation, value)
            if number:
                given[name], found = changed, found + number
    return functools.partial(base, **given), found


def variations(factory: Any) -> Iterator[tuple[str, Any]]:
    """The factory with one option changed, in every way the catalog offers: another part in a slot, a flag turned, a size."""
    base = factory.func if isinstance(factory, functools.partial) else factory
    now = option_values(factory)
    for name, parameter in option_parameters(base).items():
        for value in _alternatives(parameter.annotation, now[name]):
            yield f"{name}={_show(value)}", functools.partial(factory, **{name: value})


def ability_variations(factory: Any) -> Iterator[tuple[str, Any]]:
    """The variations that can change what a structure provides: a part that is added or left out, and flags.

    test_variation checks that no other variation does.
    """
    base = factory.func if isinstance(factory, functools.partial) else factory
    now = option_values(factory)
    for name, parameter in option_parameters(base).items():
        values = _alternatives(parameter.annotation, now[name])
        changed = [(value, functools.partial(factory, **{name: value})) for value in values]
        if now[name] is None:  # one part that fits shows what any part in this slot adds
            yield from itertools.islice(((f"{name}={_show(v)}", c) for v, c in changed if accepts(c)), 1)
        else:
            yield from ((f"{name}={_show(v)}", c) for v, c in changed if v is None or isinstance(v, bool))


def _alternatives(annotation: Any, value: Any) -> list[Any]:
    members = alternatives(annotation)
    found: list[Any] = []
    for member in members:
        inner = get_args(member)
        if (slot := slot_of(member)) is not None:
            others = [f for s, _, f in entries() if s is slot and f is not base_of(value) and _plain(f)]
            found += [small(f) for f in others] if slot is slots.Backbone else others
        elif get_origin(member) is list and (slot := slot_of(inner[0])) is not None:
            extra = [f for s, _, f in entries() if s is slot and _plain(f)]
            found += [[*value, f] for f in extra] if isinstance(value, list) else [extra[:2]] * (len(extra) > 1)
    if found:
        return found + [None] * (type(None) in members and value is not None)
    if annotation is bool:
        return [not value]
    if Layers in members:
        return [n for n in (1, 3) if n != value]
    if Heads in members:
        return [n for n in (1, 2) if n != value]
    if value is None and (Dim in members or Count in members):
        return [26]
    return [2] if Natural in members and value == 0 else []


def _plain(factory: Any) -> bool:
    """Whether it can be put into a slot as it is; one that borrows its tokens needs another beside it."""
    if name_of(factory) == "shared-token":
        return False
    return inspect.isclass(factory) and all(p.default is not p.empty for p in option_parameters(factory).values())


def _show(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(_show(v) for v in value)
    return name_of(value) if base_of(value) is not None else str(value)


def is_factory(value: Any) -> bool:
    base = value.func if isinstance(value, functools.partial) else value
    return inspect.isclass(base) and any(c in CATALOG for c in base.__mro__)


# --------------------------------------------------------------------------------------------------------------- inputs


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64).to(dtype)


def vectors(
    width: int = DIM, lengths: Sequence[int] = LENGTHS, seed: int = 1, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Rows of vectors, each T x width."""
    return [normal(n, width, seed=seed * 100 + i, dtype=dtype) for i, n in enumerate(lengths)]


def ids(lengths: Sequence[int] = LENGTHS, seed: int = 1, vocab: int = VOCAB) -> list[Tensor]:
    """Rows of ids that are not special, each T."""
    return [torch.randint(7, vocab, (n,), generator=generator(seed * 100 + i)) for i, n in enumerate(lengths)]


def images(field: ImageField, rows: int = 3, seed: int = 1) -> Seq:
    """Images of a field's size."""
    return Seq(normal(rows, *field.shape, seed=seed * 100))


def pack(rows: Sequence[Tensor], side: str = "right", extra: int = 2, filler: float = FILLER) -> Seq:
    """Rows of different lengths in one sequence, ``extra`` slots wider than need be, padded on one side with ``filler``."""
    width = max(len(r) for r in rows) + extra
    value = filler if rows[0].is_floating_point() else 0
    data = torch.full((len(rows), width, *rows[0].shape[1:]), value, dtype=rows[0].dtype)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        at = slice(0, len(row)) if side == "right" else slice(width - len(row), width)
        data[i, at], mask[i, at] = row, True
    return Seq(data, mask)


def unpack(data: Tensor, mask: Tensor) -> list[Tensor]:
    """The real positions of each row."""
    return [row[real] for row, real in zip(data, mask, strict=True)]


def with_marks(x: Seq) -> Seq:
    """With segments and characters that follow from the ids. Padding and id 7 have no characters."""
    characters = torch.stack([x.data % 5 + 1, x.data % 3 * 4, x.data % 2 * 11], -1)
    return x.mark(segment=x.data % 2, characters=characters * (x.data > 7)[..., None])


def memory_of(
    rows: Sequence[Tensor], vector: Tensor | None, side: str = "right", extra: int = 1, filler: float = FILLER
) -> Memory:
    return Memory((pack(rows, side, extra, filler),), vector)


def move(x: Any, device: str, dtype: torch.dtype) -> Any:
    """Sequences, memories, batches and tensors on another device; floating numbers in another precision."""
    if isinstance(x, Tensor):
        return x.to(device, dtype) if x.is_floating_point() else x.to(device)
    if isinstance(x, Seq):
        moved = x.to(device)
        return moved.with_data(move(moved.data, device, dtype))
    if isinstance(x, Memory):
        return Memory(
            tuple(move(s, device, dtype) for s in x.sources), None if x.vector is None else move(x.vector, device, dtype)
        )
    if isinstance(x, Batch):
        return x.to(device)
    return x


def text_batch(info: Info, lengths: Sequence[int] = (5, 3, 2), seed: int = 3, side: str = "right", extra: int = 1) -> Batch:
    """Padded ids of every text field of ``info``, images, and labels; answers of other kinds are the objectives' affair."""
    fields: dict[str, Any] = {}
    for number, f in enumerate(info.fields.values()):
        if isinstance(f, LabelField):
            fields[f.name] = torch.arange(len(lengths)) % f.classes
        elif isinstance(f, TextField):
            fields[f.name] = pack(ids(lengths, seed + number, f.vocab), side, extra)
        elif isinstance(f, ImageField):
            fields[f.name] = images(f, len(lengths), seed + number)
    return Batch(fields, len(lengths))


def examples(info: Info, lengths: Sequence[int] = (6, 3, 4), seed: int = 5) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [info.synthetic_example(rng, n) for n in lengths]


# ---------------------------------------------------------------------------------------- how each slot is built and called


class Table(slots.Embedder):
    """The simplest embedder there is: what heads are tied to on the bench."""

    def __init__(self, dim: int, field: Field):
        super().__init__(dim, field)
        self.weight = nn.Parameter(torch.randn(field.outputs, dim))

    def forward(self, x: Seq) -> Seq:
        soft = x.data if x.data.is_floating_point() else nn.functional.one_hot(x.data, len(self.weight)).to(self.weight.dtype)
        return x.with_data(soft @ self.weight)

    def table(self) -> Tensor:
        return self.weight


class Lent(slots.Embedder):
    """An embedder that borrows the tokens of another, together with that one: moved, saved and copied as one."""

    def __init__(self, embedder: slots.Embedder):
        super().__init__(DIM, TEXT)
        self.embedder, self.owner = embedder, Table(DIM, TEXT)
        embedder.share(self.owner)

    def forward(self, x: Seq) -> Seq:
        return self.embedder(x)

    def table(self) -> Tensor:
        return self.embedder.table()

    def __deepcopy__(self, memo: dict[int, Any]) -> Lent:
        twin = Lent(copy.deepcopy(self.embedder, memo))
        twin.load_state_dict(self.state_dict())
        return twin.to(self.owner.weight.dtype)


class Bound(nn.Module):
    """A head together with the embedder it may be tied to, as they stand in a structure: moved, saved and copied as one."""

    def __init__(self, head: slots.Head, embedder: slots.Embedder):
        super().__init__()
        self.head, self.embedder = head, embedder

    def forward(self, x_ND: Tensor) -> Tensor:
        return self.head(x_ND)

    def nll(self, x_ND: Tensor, target_N: Tensor, smoothing: float = 0.0) -> Tensor:
        return self.head.nll(x_ND, target_N, smoothing)


def stir(module: nn.Module, amount: float = 0.2) -> None:
    """Generic weights: parameters initialized to zero or one (biases, gates, relative positions) must not conceal a fault."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            noise = normal(*parameter.shape, seed=900 + number, dtype=parameter.dtype)
            parameter.add_(amount * noise.to(parameter.device))


def seed_cpu(seed: int) -> None:
    """Seed the generator of the CPU only: ``torch.manual_seed`` formats a stack trace for each absent accelerator."""
    torch.default_generator.manual_seed(seed)


@dataclass(frozen=True)
class Case:
    """One way in which a block is built: its factory and the wiring it is given; for a structure, the protocols it provides."""

    factory: Build[Any]
    kind: type
    wiring: tuple[Any, ...]
    label: str
    provides: tuple[type, ...] = ()

    def build(self, seed: int = 0, dtype: torch.dtype = torch.float32, stirred: bool = True) -> Any:
        seed_cpu(seed)
        if self.label == "tied":
            embedder = Table(DIM, TEXT)
            module: Any = Bound(self.factory(DIM, TEXT, embedder), embedder)
        else:
            module = self.factory(*self.wiring)
        if base_of(self.factory) is SharedTokenEmbedder:
            module = Lent(module)
        if stirred:
            stir(module)
        return module.to(dtype).eval()

    def call(self, module: Any, device: str = "cpu", dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """Everything that the block computes from generic input, padding and marks included: a list of tensors."""
        return CALLS[self.kind](module, self, functools.partial(move, device=device, dtype=dtype))


WIRINGS: dict[type, dict[str, tuple[Any, ...]]] = {
    slots.Activation: {"": ()},
    slots.Norm: {"": (DIM,)},
    slots.FeedForward: {"": (DIM,)},
    slots.Transform: {"": (DIM, MEMORY)},
    slots.Discriminator: {"": (DIM, 3)},
    slots.Residual: {"": (DIM,)},
    slots.Position: {"": (DIM,)},
    slots.Score: {"equal": (DIM, DIM), "unequal": (DIM, MEMORY)},
    slots.Mixer: {"": (DIM,)},
    slots.Attention: {"own": (DIM, DIM), "other": (DIM, MEMORY)},
    slots.Layer: {"alone": (DIM, None), "memory": (DIM, MEMORY), "level": (DIM, DIM)},
    slots.Embedder: {"": (DIM, TEXT), "spelled": (DIM, SPELLED), "image": (DIM, IMAGE)},
    slots.Encoder: {"": (DIM,)},
    slots.FeatureNorm: {"": (DIM,)},
    slots.ConvUnit: {"same": (DIM, DIM, 1), "strided": (DIM, 24, 2)},
    slots.FeatureGate: {"": (DIM,)},
    slots.FeaturePooling: {"": ()},
    slots.FeatureLayer: {"": (DIM,)},
    slots.Backbone: {"small": (IMAGE,), "level": (PHOTO,)},
    slots.LayerMix: {"": (DIM, 6)},
    slots.Decoder: {"alone": (DIM, None), "memory": (DIM, MEMORY), "level": (DIM, DIM)},
    slots.Pooler: {"": (DIM,)},
    slots.Head: {"untied": (DIM, TEXT, None), "tied": (DIM, TEXT, Table)},
    slots.Structure: {name: (info,) for name, info in INFOS.items()},
    slots.Objective: {name: (info, DIM) for name, info in INFOS.items()},
}


def cases(factory: Any) -> list[Case]:
    """Every wiring of the slot that the block accepts. It may refuse some with a ValueError, not all.

    A memory as wide as the block, or a larger image, is tried where another is refused; of several kinds of data, those on
    which a structure can do something else.
    """
    accepted, refused = _tried(factory)
    assert accepted, f"it can be built in no way: {refused}"
    return accepted


def accepts(factory: Any, first: Sequence[str] = ()) -> bool:
    """Whether a block can be built with some wiring of its slot; those labeled ``first`` are tried first."""
    kind = kind_of(factory)
    labels = sorted(WIRINGS[kind], key=lambda label: label not in first)
    return not all(isinstance(_trial(Case(factory, kind, WIRINGS[kind][label], label)), ValueError) for label in labels)


def _trial(case: Case) -> Any:
    """What is built, or the ValueError with which the block refuses its wiring."""
    try:
        return case.build(stirred=False)
    except ValueError as error:
        return error


@functools.cache
def _tried(factory: Any) -> tuple[list[Case], str]:
    kind = kind_of(factory)
    accepted, refused = [], []
    for label, wiring in WIRINGS[kind].items():
        if label == "level" and any(c.label in ("memory", "small") for c in accepted):
            continue
        case = Case(factory, kind, wiring, label)
        module = _structure(factory, label) if kind is slots.Structure else _trial(case)
        if isinstance(module, ValueError):
            refused.append(f"{label}: {module}")
        elif kind is slots.Objective and model_for(factory, label) is None:
            refused.append(f"{label}: no structure has {', '.join(n.__name__ for n in module.needs)} there")
        elif kind is not slots.Structure:
            accepted.append(case)
        elif (found := provided(factory, label)) not in [c.provides for c in accepted]:
            accepted.append(replace(case, provides=found))
    return accepted, "; ".join(refused)


Mover = Callable[[Any], Any]


def _call_plain(module: Any, case: Case, to: Mover) -> list[Tensor]:
    return [module(to(normal(3, 6, DIM, seed=11)))]


def _call_critic(module: Any, case: Case, to: Mover) -> list[Tensor]:
    return [module(to(normal(5, DIM, seed=11)), to(torch.arange(5) % case.wiring[1]))]


def _call_residual(module: Any, case: Case, to: Mover) -> list[Tensor]:
    return [module(to(normal(3, 6, DIM, seed=11)), torch.tanh)]


def grid(rows: int, width: int, start: int = 0) -> Tensor:
    return torch.arange(start, start + width).expand(rows, -1)


def _call_position(module: Any, case: Case, to: Mover) -> list[Tensor]:
    heads = heads_of(module)
    rotated = module.rotate(to(normal(3, heads, 6, DIM // heads, seed=11)), to(grid(3, 6)))
    bias = module.bias(to(grid(3, 6)), to(grid(3, 5)))
    return [rotated] if bias is None else [rotated, bias]


def heads_of(position: Any) -> int:
    """How many heads a Position is made for; those that serve any number are tried with two."""
    return getattr(position, "heads", None) or HEADS


def _call_score(module: Any, case: Case, to: Mover) -> list[Tensor]:
    query, key = normal(3, 2, 6, case.wiring[0], seed=11), normal(3, 2, 5, case.wiring[1], seed=12)
    return [module(to(query), module.prepare(to(key), to(grid(3, 5))))]


def _call_mixer(module: Any, case: Case, to: Mover) -> list[Tensor]:
    return [module.mix(to(pack(vectors(), filler=0.5)), Causal(), None, None).hidden.data]


def _call_attention(module: Any, case: Case, to: Mover) -> list[Tensor]:
    kv = module.project(to(pack(vectors(case.wiring[1], (5, 3, 2), 2), filler=0.5)))
    return [module(to(pack(vectors(), filler=0.5)), kv, Full()).data]


def _call_layer(module: Any, case: Case, to: Mover) -> list[Tensor]:
    context = module.project(to(memories(case)[1])) if case.wiring[1] else None
    return [module(to(pack(vectors(), filler=0.5)), widest_mask(module), None, None, context).hidden.data]


def widest_mask(layer: Any) -> Mask:
    """Full, or Causal for a layer that does not support it."""
    try:
        layer.check_mask(Full())
    except ValueError:
        return Causal()
    return Full()


def _call_embedder(module: Any, case: Case, to: Mover) -> list[Tensor]:
    if case.label == "image":
        return [module(to(images(IMAGE))).data]
    x = with_marks(pack(ids()))
    soft = nn.functional.one_hot(x.data, VOCAB).float()
    return [module(to(x)).data, module(to(x.with_data(soft))).data]


def _call_encoder(module: Any, case: Case, to: Mover) -> list[Tensor]:
    return [s.data for s in module.states(to(pack(vectors(), filler=0.5)))]


def feature_maps(dtype: torch.dtype = torch.float32, rows: int = 3, height: int = 6, width: int = 5, seed: int = 11) -> Tensor:
    """Feature maps of DIM channels."""
    return normal(rows, DIM, height, width, seed=seed, dtype=dtype)


def _call_maps(module: Any, case: Case, to: Mover) -> list[Tensor]:
    return [module(to(feature_maps()))]


def _call_backbone(module: Any, case: Case, to: Mover) -> list[Tensor]:
    x_BCHW = to(images(case.wiring[0])).data
    return [*module(x_BCHW), module.vector(x_BCHW)]


def _call_mix(module: Any, case: Case, to: Mover) -> list[Tensor]:
    return [module([to(pack(vectors(seed=i), filler=0.5)) for i in range(case.wiring[1])]).data]


def memories(case: Case, dtype: torch.dtype = torch.float32) -> list[Memory | None]:
    """What a decoder of this wiring may be given. The last is the richest: a padded source and a vector."""
    if case.wiring[1] is None:
        return [None]
    width = case.wiring[1]
    rows, vector = vectors(width, (5, 2, 3), 2, dtype), normal(3, width, seed=13, dtype=dtype)
    return [memory_of(rows, None, filler=0.5), memory_of(rows, vector, filler=0.5)]


def _call_decoder(module: Any, case: Case, to: Mover) -> list[Tensor]:
    return [module(to(pack(vectors(), filler=0.5)), to(memories(case)[-1])).hidden.data]


def _call_pooler(module: Any, case: Case, to: Mover) -> list[Tensor]:
    return [module(to(pack(vectors(), filler=0.5)))]


def _call_head(module: Any, case: Case, to: Mover) -> list[Tensor]:
    x, target = to(normal(7, DIM, seed=11)), to(torch.arange(7) + 3)
    return [module(x), module.nll(x, target, 0.1)]


def _call_structure(module: Any, case: Case, to: Mover) -> list[Tensor]:
    info: Info = case.wiring[0]
    batch, out = to(text_batch(info)), []
    provided = module.provides()
    if slots.Decodes in provided or slots.Reconstructs in provided:
        hidden = module.decode(batch[module.target.name], module.memory(batch)).hidden.data
        out.append(module.head(hidden.flatten(0, 1)))
    if slots.Encodes in provided:
        x = next(batch.sequences())
        out.append(module.encode(x).data)
        if not hasattr(module, "decode") and isinstance(getattr(module, "head", None), slots.Head):
            out.append(module.head(out[-1].flatten(0, 1)))
        if slots.Classifies not in provided and hasattr(module, "features") and getattr(module, "pooler", None) is not None:
            out.append(module.features(x))
            out += [] if getattr(module, "segment_head", None) is None else [module.segment_head(out[-1])]
        if slots.DetectsReplaced in provided:
            out.append(module.discriminator(module.encode(x).data.flatten(0, 1)))
    if DiscriminatesLatents in provided:
        z = module.posterior(batch["source"]).mean_BP
        out += [module.fake_latents(to(normal(3, module.noise, seed=14))), module.latent_logits(z), module.latent_scores(z)]
    if ClassifiesTexts in provided:
        out.append(module.text_logits(batch[module.target.name]))
    if slots.Classifies in provided:
        out.append(module.classifier(module.features(next(batch.sequences()))))
    if slots.ScoresChoices in provided:
        out.append(module.choice_head(module.features(next(batch.sequences()))))
    if slots.Tags in provided:
        hidden = module.encode(batch["text"])
        out.append(module.tag_head(hidden.data.flatten(0, 1)))
        if module.chain is not None:
            tag_BT = to(torch.arange(hidden.rows * hidden.width).unflatten(0, (-1, hidden.width)) % 3)
            out.append(module.chain.nll(module.tag_head(hidden.data), tag_BT, hidden.real()))
    if GeneratesLatents in provided:
        z = module.fake_latents(to(normal(3, module.noise, seed=11)), batch["label"])
        out += [z, module.score(z, batch["label"])]
    if slots.ExtractsSpans in provided:
        out.append(module.span_head(module.encode(next(batch.sequences())).data.flatten(0, 1)))
    return out


def _call_objective(module: Any, case: Case, to: Mover) -> list[Tensor]:
    model, batch = to_model(case, to), to(objective_batch(module, case.wiring[0]))
    return [term.total for term in module(model, batch, Clock()).values()]


CALLS: dict[type, Callable[[Any, Case, Mover], list[Tensor]]] = {
    slots.Activation: _call_plain,
    slots.Norm: _call_plain,
    slots.FeedForward: _call_plain,
    slots.Transform: _call_plain,
    slots.Discriminator: _call_critic,
    slots.Residual: _call_residual,
    slots.Position: _call_position,
    slots.Score: _call_score,
    slots.Mixer: _call_mixer,
    slots.Attention: _call_attention,
    slots.Layer: _call_layer,
    slots.Embedder: _call_embedder,
    slots.Encoder: _call_encoder,
    slots.FeatureNorm: _call_maps,
    slots.ConvUnit: _call_maps,
    slots.FeatureGate: _call_maps,
    slots.FeaturePooling: _call_maps,
    slots.FeatureLayer: _call_maps,
    slots.Backbone: _call_backbone,
    slots.LayerMix: _call_mix,
    slots.Decoder: _call_decoder,
    slots.Pooler: _call_pooler,
    slots.Head: _call_head,
    slots.Structure: _call_structure,
    slots.Objective: _call_objective,
}


# ------------------------------------------------------------------------------------------------ objectives and their models


@functools.cache
def small(factory: Callable[..., Any]) -> Build[Any]:
    """``tiny`` without options, once for each factory."""
    return tiny(factory, {})


@functools.cache
def shallow(factory: Callable[..., Any]) -> Build[Any]:
    """A small structure whose networks have one layer, for checks that are not about depth."""
    return _with_options(small(factory), Layers, 1)[0]


@functools.cache
def _candidates() -> list[Build[Any]]:
    """The structures that objectives are tried on: those of the bench itself first, then those of the catalog."""
    from .toys import TOYS

    detecting = functools.partial(small(TextEncoder), discriminator=ClassifierHead)  # none has one by default
    return [*TOYS, *(small(f) for s, _, f in entries() if s is slots.Structure), detecting]


@functools.cache
def model_for(objective: Build[Any], data: str) -> Build[Any] | None:
    """The first structure, on this kind of data, that has what the objective needs and is as wide."""
    return next((f for f in _candidates() if fits(f, objective, data) and _structure(f, data).dim == DIM), None)


@functools.lru_cache(64)
def _structure(factory: Build[Any], data: str) -> Any:
    """The structure on this kind of data, or the ValueError with which it refuses that."""
    return _built(factory, INFOS[data])


@functools.cache
def _objective(factory: Build[Any], data: str) -> Any:
    return _built(factory, INFOS[data], DIM)


def _built(factory: Build[Any], *wiring: Any) -> Any:
    seed_cpu(0)
    try:
        return factory(*wiring)
    except ValueError as error:
        return error


@functools.cache
def provided(structure: Build[Any], data: str) -> tuple[type, ...]:
    """The protocols of a structure on this kind of data; none where it refuses the data."""
    model = _structure(structure, data)
    return () if isinstance(model, ValueError) else model.provides()


def fits(structure: Build[Any], objective: Build[Any], data: str) -> bool:
    """Whether a structure has what an objective needs, on this kind of data."""
    goal, found = _objective(objective, data), provided(structure, data)
    if isinstance(goal, ValueError) or not found or not set(goal.needs) <= set(found):
        return False
    return _respects(_structure(structure, data), goal, INFOS[data])


def _respects(model: Any, objective: Any, info: Info) -> bool:
    """Whether the structure computes the objective: an encoder may refuse a mask, a class-conditional decoder a missing label.

    A refusal is a ValueError. Objectives that do not encode are not run: they ask for no mask.
    """
    if slots.Encodes not in getattr(objective, "needs", ()) and not getattr(model, "class_conditional", False):
        return True
    try:
        objective(model, objective_batch(objective, info), Clock())
    except ValueError:
        return False
    return True


def to_model(case: Case, to: Mover) -> Any:
    """A structure that the objective can be tried on, where ``to`` moves things."""
    where = to(torch.zeros(1))
    with torch.random.fork_rng():  # what the objective draws itself must differ between calls
        factory = model_for(case.factory, case.label)
        assert factory is not None, f"no structure has what it needs on {case.label} data"
        seed_cpu(1)
        with torch.device(where.device):
            model = factory(case.wiring[0])
    if where.device.type != "meta":
        stir(model)
    return model.to(where.dtype).eval()


def objective_batch(objective: Any, info: Info, rows: Sequence[int] | None = None, seed: int = 5) -> Batch:
    """The prepared batch of a few synthetic examples (or of the chosen ``rows`` of them)."""
    pool = examples(info, seed=seed)
    prepared = [objective.prepare(example, np.random.default_rng(7), pool) for example in pool]
    chosen = [prepared[i] for i in (range(len(pool)) if rows is None else rows)]
    kept = [i for i in chosen if i is not None]
    assert kept, "prepare found nothing to learn in any of the synthetic examples"
    return collate(kept, range(len(kept)))


def abilities(structure: Any) -> frozenset[str]:
    """What a structure can do."""
    return frozenset(p.__name__ for case in _tried(structure)[0] for p in case.provides)
