"""The suite itself is tested: each planted fault turns its check red, and its good twin passes.

Every fault is a good block of toys.py with one thing wrong. Suffixes as in weft/seq.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from weft.blocks.attention.attend import attend
from weft.blocks.attention.sequence import attention_mask as allowed_by
from weft.blocks.embedding.patch import PatchEmbedder
from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Activation, FeedForward, LayerOutput, Mixed, Norm, Structure
from weft.core.example import Example, Targets
from weft.core.fields import Field, Info, TagsField
from weft.core.loss import Loss
from weft.core.masks import Causal, Full, Mask
from weft.core.options import Fraction, Heads, Positive
from weft.core.registry import Build, block, unregister
from weft.core.seq import KV, Decoded, Memory, Seq

from . import checks, faulty_images
from .bench import DIM
from .toys import (
    Add,
    Attends,
    Average,
    Backward,
    Bilinear,
    Cache,
    Cube,
    Dense,
    Finds,
    Follow,
    Labels,
    OneHead,
    Picker,
    PlainLayer,
    Rescale,
    RunningMean,
    Slope,
    Speaks,
    Sums,
    Tokens,
    ToyEncoder,
    ToyLanguageModel,
    Translator,
    Wide,
)

# ------------------------------------------------------------------------------------------- registration, docs, options


class RescaleManager(Rescale):
    """A meaningless name."""


class Synonym(Norm):
    """An option by another name."""

    def __init__(self, dim: int, *, num_heads: Heads = 1):
        super().__init__(dim)


class BadDefault(Norm):
    """A default that its own type refuses."""

    def __init__(self, dim: int, *, eps: Fraction = 2.0):
        super().__init__(dim)


class WrongSlot(FeedForward):
    """A default that does not fill its slot."""

    def __init__(self, dim: int, *, activation: Build[Activation] = Norm):  # pyright: ignore[reportArgumentType]
        super().__init__(dim)


class Undocumented(Rescale):
    """Divides every vector by its length.

    Args:
        epsilon: An option that it does not have, in place of the one it has.

    Example:
        >>> 1
        1
    """


class TwoSentences(Rescale):
    """Divides every vector by its length. Then explains more.

    Args:
        eps: Added to the length.

    Example:
        >>> 1
        1
    """


class WrongExample(Rescale):
    """Divides every vector by its length.

    Args:
        eps: Added to the length.

    Example:
        >>> Rescale(2)(torch.tensor([[3.0, 4.0]])).sum().item()
        2.0
    """


# ------------------------------------------------------------------------------------------------------------- any module


class NotFinite(Rescale):
    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.weight * x_BTD.log()


class Idle(Rescale):
    """A parameter that is not used."""

    def __init__(self, dim: int, *, eps: Fraction = 0.0):
        super().__init__(dim, eps=eps)
        self.idle = nn.Parameter(torch.ones(dim))


class Muted(Idle):
    """A parameter whose gradient is always zero."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(x_BTD) + 0.0 * self.idle


class Unsaved(Rescale):
    """A random buffer that is not in the state."""

    noise: Tensor

    def __init__(self, dim: int, *, eps: Fraction = 0.0):
        super().__init__(dim, eps=eps)
        self.register_buffer("noise", torch.randn(dim), persistent=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(x_BTD) + self.noise


class Entangled(Rescale):
    """A closure over itself: a copy continues with the original's weights."""

    def __init__(self, dim: int, *, eps: Fraction = 0.0):
        super().__init__(dim, eps=eps)
        self.scale = lambda x_BTD: self.weight * x_BTD

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.scale(x_BTD)


class Boolean(Average):
    """Boolean indexing, whose size depends on values."""

    def forward(self, x: Seq) -> Tensor:
        kept = torch.zeros_like(x.data)
        kept[x.real()] = x.data[x.real()]
        return kept.sum(1) / x.lengths()[:, None].clamp(min=1)


class Looks(Average):
    """A branch on values."""

    def forward(self, x: Seq) -> Tensor:
        return x.data.mean(1) if bool(x.real().all()) else super().forward(x)


class SinglePrecision(Wide):
    """A constant that does not follow the weights."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(x_BTD) @ torch.eye(DIM)


class AlwaysDrops(Wide):
    def drop(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, self.dropout, True)


class NeverDrops(Wide):
    def drop(self, x: Tensor) -> Tensor:
        return x


class OwnDice(Rescale):
    """Weights from a generator that nobody seeds."""

    def __init__(self, dim: int, *, eps: Fraction = 0.0):
        super().__init__(dim, eps=eps)
        with torch.no_grad():
            self.weight.mul_(random.SystemRandom().random() + 0.5)


# ------------------------------------------------------------------------------------------------------------ small parts


class BatchStatistics(Rescale):
    """Centers by the batch's mean while it trains."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.weight * (x_BTD - (x_BTD.mean((0, 1)) if self.training else 0.0))


class Neighbors(Wide):
    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(x_BTD) + x_BTD.roll(1, 1)


class Softmax(Cube):
    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(-1)


class Forgets(Add):
    def forward(self, x_BTD: Tensor, f: Any) -> Tensor:
        return f(x_BTD)


class Absolute(Slope):
    """Counts from the start of the sequence instead of the distance."""

    def bias(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        return self.slope[:, None, None] * key_BS[:, None, None, :].expand(-1, -1, query_BT.shape[1], -1)


class Unscaled(Bilinear):
    """Declares half an inner product, and computes a whole one."""

    scale = 0.5


class Normalized(Bilinear):
    """Compares keys with each other."""

    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        return super().forward(query_BHTK, key_BHSK).softmax(-1)


# ---------------------------------------------------------------------------------------------------- attention and layer


class ReadsPadding(OneHead):
    def readable(self, kv: KV) -> Tensor:
        return torch.ones_like(kv.real())


class IgnoresMask(OneHead):
    def allowed(self, query: Seq, kv: KV, mask: Mask) -> Tensor:
        return super().allowed(query, kv, Full())


class TooStrict(OneHead):
    """Causal without itself."""

    def allowed(self, query: Seq, kv: KV, mask: Mask) -> Tensor:
        keep_BTS = super().allowed(query, kv, mask)
        return keep_BTS & (kv.position[:, None, :] != query.positions()[:, :, None])


class LooksAhead(OneHead):
    """Off by one."""

    def allowed(self, query: Seq, kv: KV, mask: Mask) -> Tensor:
        ahead = query.mark(position=query.positions() + 1) if mask != Full() else query
        return super().allowed(ahead, kv, mask)


class CountsSlots(OneHead):
    """Takes the index in the tensor for the position."""

    def allowed(self, query: Seq, kv: KV, mask: Mask) -> Tensor:
        return super().allowed(Seq(query.data), kv, mask)


class NotANumber(OneHead):
    """Nothing to attend to is minus infinity everywhere."""

    def weights(self, score_BTS: Tensor, keep_BTS: Tensor) -> Tensor:
        return score_BTS.masked_fill(~keep_BTS, -torch.inf).softmax(-1)


class Watched(OneHead):
    """Through the one function that can be watched."""

    def forward(self, query: Seq, kv: KV, mask: Mask, position: Any = None) -> Seq:
        query_B1TD = self.query(query.data)[:, None]
        out_B1TD = attend(query_B1TD, kv.key, kv.value, _PLAIN, owner=self, allow=allowed_by(query, kv, mask))
        return query.with_data(out_B1TD[:, 0])


class _Plain(Bilinear):
    scale = 0.25

    def __init__(self) -> None:
        super().__init__(DIM, DIM)

    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        return 0.25 * query_BHTK @ key_BHSK.transpose(-1, -2)


_PLAIN = _Plain()


class WatchedApart(Watched):
    """What is recorded is not what is computed."""

    def forward(self, query: Seq, kv: KV, mask: Mask, position: Any = None) -> Seq:
        super().forward(query, kv, mask)
        return OneHead.forward(self, query.with_data(query.data * 2), kv, mask)


def layer_of(kind: type[OneHead]) -> type[PlainLayer]:
    return type(f"PlainLayerOf{kind.__name__}", (PlainLayer,), {"attention": kind})


class NoPast(PlainLayer):
    def forward(self, x: Seq, mask: Mask, position: Any, past: KV | None, context: KV | None) -> LayerOutput:
        return super().forward(x, mask, position, None, context)


# --------------------------------------------------------------------------------------------------------------- embedder


class Hard(Tokens):
    """Takes the most probable of soft ids: correct for one-hot rows, and no gradient."""

    def forward(self, x: Seq) -> Seq:
        return super().forward(x.with_data(x.data.argmax(-1)) if x.data.is_floating_point() else x)


class Truncates(Tokens):
    """Takes soft ids for something else."""

    def forward(self, x: Seq) -> Seq:
        return super().forward(x.with_data(x.data.sum(-1).long()) if x.data.is_floating_point() else x)


class SlotPositions(Tokens):
    """Left padding counts as positions."""

    def forward(self, x: Seq) -> Seq:
        return super().forward(x if "position" in x.marks else x.mark(position=Seq(x.data).positions()))


class Bigrams(Tokens):
    def forward(self, x: Seq) -> Seq:
        out = super().forward(x)
        return out.with_data(out.data + out.data.roll(1, 1))


class IgnoresMarks(Tokens):
    def forward(self, x: Seq) -> Seq:
        return super().forward(replace(x, marks={}))


# ---------------------------------------------------------------------------------------------------------------- encoder


class RunsOverPadding(Backward):
    def keep(self, new_BD: Tensor, old_BD: Tensor, real_B1: Tensor) -> Tensor:
        return new_BD


class RightPaddingOnly(Backward):
    """Takes the first ``length`` slots for the real ones."""

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        first = torch.arange(x.width, device=x.data.device) < x.lengths()[:, None]
        return [x, x.with_data(super().states(replace(x, mask=first), mask)[-1].data)]


class CenteredBatch(Attends):
    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        found = super().states(x, mask)
        middle = found[-1].data.mean(0) if self.training else 0.0
        return [*found[:-1], found[-1].with_data(found[-1].data - middle)]


def encoder_of(kind: type[OneHead]) -> type[Attends]:
    return type(f"AttendsOf{kind.__name__}", (Attends,), {"layer": layer_of(kind)})


class TakesAnyMask(Backward):
    def check_mask(self, mask: Mask) -> None:
        pass


class LastStateOnly(Attends):
    """Forward does more than ``states`` declares."""

    def forward(self, x: Seq, mask: Mask = Full()) -> Seq:
        out = super().forward(x, mask)
        return out.with_data(2 * out.data)


# ---------------------------------------------------------------------------------------------------------------- decoder


def decoder_of(kind: type[OneHead]) -> type[Speaks]:
    return type(f"SpeaksOf{kind.__name__}", (Speaks,), {"layer": layer_of(kind)})


class ContextReadsPadding(PlainLayer):
    def __init__(self, dim: int, memory: int | None):
        super().__init__(dim, memory)
        self.context = None if memory is None else ReadsPadding(dim, memory)


class ReadsMemoryPadding(Speaks):
    layer = ContextReadsPadding


class IgnoresMemory(Speaks):
    def forward(self, x: Seq, memory: Memory | None = None, mask: Mask = Causal()) -> Decoded:
        return super().forward(x, None, mask)


class BatchMean(Speaks):
    def forward(self, x: Seq, memory: Memory | None = None, mask: Mask = Causal()) -> Decoded:
        out = super().forward(x, memory, mask).hidden
        return Decoded(out.with_data(out.data - (out.data.mean(0) if self.training else 0.0)))


class StandsStill(Speaks):
    """The position does not advance."""

    def advance(self, seen_B: Tensor, x: Seq) -> Tensor:
        return seen_B


class CountsPadding(Speaks):
    """The position advances by padding too."""

    def advance(self, seen_B: Tensor, x: Seq) -> Tensor:
        return seen_B + x.width


class SumsPadding(RunningMean):
    """Padding counts as a position."""

    def real(self, x: Seq) -> Tensor:
        return torch.ones_like(x.real())


class MixesAhead(RunningMean):
    """A position also gets the next one."""

    def output(self, mean_BTD: Tensor) -> Tensor:
        return mean_BTD + mean_BTD.roll(-1, 1)


class AcceptsEveryMask(RunningMean):
    """It ignores masks instead of refusing them."""

    def check_mask(self, mask: Mask) -> None:
        pass


class LosesState(RunningMean):
    """The state before the first token, at every step."""

    def forward(self, x: Seq, mask: Mask, position: Any = None, past: Sums | None = None) -> Mixed:
        return super().forward(x, mask, position, None)


class FirstRows(Sums):
    """A selection keeps the rows in their old order."""

    def select(self, rows: Tensor) -> FirstRows:
        return FirstRows(*(value[torch.arange(len(rows)) % len(value)] for value in (self.sum_BD, self.count_B)))


class KeepsRows(RunningMean):
    state = FirstRows


class Stale(Speaks):
    """The cache forgets the newest token."""

    def step(self, x: Seq, state: Cache) -> Decoded:
        done = super().step(x, state)
        kv = done.state.past
        kept = None if kv is None else KV(kv.key[:, :, :-1], kv.value[:, :, :-1], kv.real()[:, :-1], kv.position[:, :-1])
        return Decoded(done.hidden, replace(done.state, past=kept))


class Detached(Speaks):
    """The cache is cut from the gradient."""

    def step(self, x: Seq, state: Cache) -> Decoded:
        done = super().step(x, state)
        kv = done.state.past
        return Decoded(done.hidden, replace(done.state, past=replace(kv, key=kv.key.detach(), value=kv.value.detach())))


@dataclass
class KeepsContext(Cache):
    """Selects the past, not the memory that the decoder attends to."""

    def select(self, rows: Tensor) -> Cache:
        kept = super().select(rows)
        context = self.context
        if context is not None and len(rows) != len(self.seen_B):
            context = context.select(torch.arange(len(rows)) % len(self.seen_B))
        return KeepsContext(kept.past, context, kept.seen_B)


class WrongContext(Speaks):
    state = KeepsContext


@dataclass
class InPlace:
    """Keys and values of up to 16 positions, written in place."""

    key_BSD: Tensor
    value_BSD: Tensor
    used: int
    context: KV | None

    copies = True

    def select(self, rows: Tensor) -> InPlace:
        key, value = self.key_BSD[rows], self.value_BSD[rows]
        if not self.copies and torch.equal(rows, torch.arange(len(self.key_BSD))):
            key, value = self.key_BSD, self.value_BSD
        return type(self)(key, value, self.used, None if self.context is None else self.context.select(rows))


@dataclass
class Shared(InPlace):
    """A fork of all rows in order keeps writing into the same memory."""

    copies = False


class Preallocated(Speaks):
    """A cache written in place (where there is no gradient). Rows are not ragged."""

    memory_state: type[InPlace] = InPlace

    def start(self, memory: Memory | None, rows: int) -> Any:
        empty_BSD = torch.zeros(rows, 16, DIM, dtype=self.projection.weight.dtype)
        context = None if memory is None else self.inner.project(memory)
        return self.memory_state(empty_BSD, empty_BSD.clone(), 0, context)

    def step(self, x: Seq, state: Any) -> Decoded:
        at, until = state.used, state.used + x.width
        here = self.placed(x.mark(position=torch.arange(at, until).expand(x.rows, -1)))
        new = self.inner.mixer.project(here)
        state.key_BSD[:, at:until], state.value_BSD[:, at:until] = new.key[:, 0], new.value[:, 0]
        past = KV(state.key_BSD[:, None, :at], state.value_BSD[:, None, :at], None, torch.arange(at).expand(x.rows, -1))
        out = self.inner(here, Causal(), None, past, state.context)
        return Decoded(out.hidden, type(state)(state.key_BSD, state.value_BSD, until, state.context))


class SharedForks(Preallocated):
    memory_state = Shared


# ------------------------------------------------------------------------------------------------------- pooler and head


class AveragesPadding(Average):
    def forward(self, x: Seq) -> Tensor:
        return x.data.mean(1)


class DividesByZero(Average):
    def forward(self, x: Seq) -> Tensor:
        real_BT1 = x.real()[:, :, None]
        return x.data.masked_fill(~real_BT1, 0.0).sum(1) / real_BT1.sum(1)


class Weighs(Average):
    """Later positions count for more."""

    def forward(self, x: Seq) -> Tensor:
        return super().forward(x.with_data(x.data * (1 + x.positions()[:, :, None])))


class NoSmoothing(Dense):
    def nll(self, x_ND: Tensor, target_N: Tensor, smoothing: float = 0.0) -> Tensor:
        return super().nll(x_ND, target_N)


class NoGradient(Dense):
    """Correct values with a wrong gradient."""

    def nll(self, x_ND: Tensor, target_N: Tensor, smoothing: float = 0.0) -> Tensor:
        return super().nll(x_ND.detach(), target_N, smoothing) + 0.0 * x_ND.sum()


class CentersRows(Dense):
    def forward(self, x_ND: Tensor) -> Tensor:
        return self.map(x_ND - (x_ND.mean(0) if self.training else 0.0))


# -------------------------------------------------------------------------------------------------------------- structure


class Nothing(Structure):
    """Provides no protocol."""

    def __init__(self, info: Info):
        super().__init__(info)
        self.dim = DIM


class PoolsPadding(ToyEncoder):
    def __init__(self, info: Info):
        super().__init__(info)
        self.pooler = AveragesPadding(DIM)


class ForwardIgnoresMask(ToyEncoder):
    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        return self.classifier(self.features(Seq(Seq.of(x, mask).data)))


class ForwardIgnoresPlainMask(ToyEncoder):
    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        return self.classifier(self.features(Seq.of(x)))


class PredictsWords(Labels):
    """Logits over the words in place of the tags."""

    def outputs(self, info: Info) -> Field:
        return replace(info.expect("tags", TagsField), classes=info.text("text").vocab)


class PointsAtWords(Finds):
    """Logits over the words in place of two."""

    def outputs(self, info: Info) -> Field:
        return info["context"]


class LosesMask(Translator):
    """The mask of the source does not reach the decoder."""

    def memory(self, batch: Batch) -> Memory | None:
        return Memory((Seq(self.encode(batch["source"]).data),))


class EmbedsFromZero(ToyLanguageModel):
    """While stepping, every token is embedded as the first."""

    def embed(self, x: Seq) -> Seq:
        return super().embed(replace(x, marks={}))


# -------------------------------------------------------------------------------------------------------------- objective


class MeanLoss(Follow):
    def reduce(self, losses_N: Tensor) -> Tensor:
        return losses_N.mean()


class WrongCounts(Follow):
    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch)}


class PaddedLoss(Follow):
    """Averages the padded width in."""

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        loss = super().forward(model, batch, clock)["loss"]
        return Loss.of(loss.total * batch["input"].width, loss.count)


class GlobalDice(Follow):
    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        return super().prepare({k: v if np.ndim(v) == 0 else np.random.permutation(v) for k, v in example.items()}, rng, pool)


class Overwrites(Follow):
    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        made = super().prepare(example, rng, pool)
        example[self.field.name][0] = 7 + (example[self.field.name][0] == 7)
        return made


class PaddedTargets(Follow):
    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        made = super().prepare(example, rng, pool)
        if made is not None:
            picks = made["picks"]
            made["picks"] = Targets(picks.of, picks.at, np.where(picks.ids == 2, 0, picks.ids))
        return made


class OutsideTargets(Follow):
    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        made = super().prepare(example, rng, pool)
        if made is not None:
            made["picks"] = Targets("input", made["picks"].at + 1, made["picks"].ids)
        return made


# ----------------------------------------------------------------------------------------------------------------- recipe


class Written(Norm):
    """Can be written as a recipe."""

    def __init__(self, dim: int, *, eps: Positive = 1e-5):
        super().__init__(dim)


class Unwritable(Norm):
    """Its default cannot be read back."""

    def __init__(self, dim: int, *, eps: Positive = -1.0):
        super().__init__(dim)


class Unlisted(Norm):
    """Its default part is not in the catalog."""

    def __init__(self, dim: int, *, inner: Build[Norm] = Rescale):
        super().__init__(dim)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """Those that must be in the catalog are in it for one test."""
    planted = {"planted-written": Written, "planted-unwritable": Unwritable, "planted-unlisted": Unlisted}
    for name, cls in planted.items():
        block(name)(cls)
    yield
    for cls in planted.values():
        unregister(cls)


# ------------------------------------------------------------------------------------------------------------------ table


class HalfBlind(PatchEmbedder):
    """Sees only the upper half of an image."""

    def forward(self, x: Seq) -> Seq:
        height = x.data.shape[2] // 2
        return super().forward(x.with_data(torch.cat([x.data[:, :, :height], torch.zeros_like(x.data[:, :, height:])], 2)))


PLANTED: list[tuple[checks.Check, Any, Any]] = [
    (checks.check_registration, Rescale, RescaleManager),
    (checks.check_vocabulary, Rescale, Synonym),
    (checks.check_defaults, Rescale, BadDefault),
    (checks.check_defaults, Rescale, WrongSlot),
    (checks.check_docstring, Rescale, Undocumented),
    (checks.check_docstring, Rescale, TwoSentences),
    (checks.check_docstring, Rescale, Wide),
    (checks.check_docstring, Rescale, NotFinite),
    (checks.check_example, Rescale, WrongExample),
    (checks.check_recipe, Written, Unwritable),
    (checks.check_recipe, Written, Unlisted),
    (checks.check_builds, Rescale, NotFinite),
    (checks.check_gradients, Rescale, Idle),
    (checks.check_gradients, Rescale, Muted),
    (checks.check_save_and_load, Rescale, Unsaved),
    (checks.check_deepcopy, Rescale, Entangled),
    (checks.check_meta, Average, Boolean),
    (checks.check_meta, Average, Looks),
    (checks.check_bfloat16, Wide, SinglePrecision),
    (checks.check_eval, Wide, AlwaysDrops),
    (checks.check_dropout, Wide, NeverDrops),
    (checks.check_seed, Rescale, OwnDice),
    (checks.check_positionwise, Rescale, BatchStatistics),
    (checks.check_positionwise, Wide, Neighbors),
    (checks.check_elementwise, Cube, Softmax),
    (checks.check_residual, Add, Forgets),
    (checks.check_position, Slope, Absolute),
    (checks.check_score, Bilinear, Unscaled),
    (checks.check_score, Bilinear, Normalized),
    (checks.check_mixer_padding, RunningMean, SumsPadding),
    (checks.check_mixer_mask, RunningMean, MixesAhead),
    (checks.check_mixer_mask, RunningMean, AcceptsEveryMask),
    (checks.check_mixer_stepping, RunningMean, LosesState),
    (checks.check_mixer_stepping, RunningMean, KeepsRows),
    (checks.check_attention_padding, OneHead, ReadsPadding),
    (checks.check_attention_mask, OneHead, IgnoresMask),
    (checks.check_attention_mask, OneHead, LooksAhead),
    (checks.check_attention_mask, OneHead, TooStrict),
    (checks.check_attention_chunks, OneHead, CountsSlots),
    (checks.check_attention_maps, Watched, OneHead),
    (checks.check_attention_maps, Watched, WatchedApart),
    (checks.check_layer_padding, PlainLayer, layer_of(ReadsPadding)),
    (checks.check_layer_past, PlainLayer, NoPast),
    (checks.check_soft_ids, Tokens, Hard),
    (checks.check_soft_ids, Tokens, Truncates),
    (checks.check_embedder_padding, Tokens, SlotPositions),
    (checks.check_embedder_images, PatchEmbedder, HalfBlind),
    (checks.check_embedder_local, Tokens, Bigrams),
    (checks.check_embedder_steps, Tokens, IgnoresMarks),
    (checks.check_padding, Backward, RunsOverPadding),
    (checks.check_padding, Backward, RightPaddingOnly),
    (checks.check_padding, Attends, encoder_of(ReadsPadding)),
    (checks.check_padding, Attends, encoder_of(CountsSlots)),
    (checks.check_rows, Attends, CenteredBatch),
    (checks.check_mask_leak, partial(Attends, layers=2), partial(encoder_of(LooksAhead), layers=2)),
    (checks.check_mask_leak, Attends, encoder_of(IgnoresMask)),
    (checks.check_mask_leak, Attends, encoder_of(ReadsPadding)),
    (checks.check_mask_reach, Attends, encoder_of(CountsSlots)),
    (checks.check_refused_masks, Backward, TakesAnyMask),
    (checks.check_states, Attends, LastStateOnly),
    (checks.check_permutation, Attends, Backward),
    (checks.check_decoder_padding, Speaks, decoder_of(ReadsPadding)),
    (checks.check_decoder_rows, Speaks, BatchMean),
    (checks.check_causal, Speaks, decoder_of(IgnoresMask)),
    (checks.check_causal, Speaks, decoder_of(LooksAhead)),
    (checks.check_memory_padding, Speaks, ReadsMemoryPadding),
    (checks.check_memory_padding, Speaks, IgnoresMemory),
    (checks.check_stepping, Speaks, StandsStill),
    (checks.check_stepping, Speaks, Stale),
    (checks.check_ragged_stepping, Speaks, CountsPadding),
    (checks.check_step_gradient, Speaks, Detached),
    (checks.check_select, Speaks, WrongContext),
    (checks.check_forks, Preallocated, SharedForks),
    (checks.check_pooler_padding, Average, AveragesPadding),
    (checks.check_empty_row, Average, DividesByZero),
    (checks.check_empty_row, Attends, encoder_of(NotANumber)),
    (checks.check_empty_row, Speaks, decoder_of(NotANumber)),
    (checks.check_idle_step, Speaks, CountsPadding),
    (checks.check_invariance, Average, Weighs),
    (checks.check_nll, Dense, NoSmoothing),
    (checks.check_nll, Dense, NoGradient),
    (checks.check_head_rows, Dense, CentersRows),
    (checks.check_protocols, ToyEncoder, Nothing),
    (checks.check_forward, ToyEncoder, ForwardIgnoresMask),
    (checks.check_forward, ToyEncoder, ForwardIgnoresPlainMask),
    (checks.check_encodes, ToyEncoder, partial(ToyEncoder, encoder=RunsOverPadding)),
    (checks.check_classifies, ToyEncoder, PoolsPadding),
    (checks.check_chooses, Picker, partial(Picker, pooler=AveragesPadding)),
    (checks.check_tags, Labels, PredictsWords),
    (checks.check_points, Finds, PointsAtWords),
    (checks.check_decodes, Translator, LosesMask),
    (checks.check_decodes, Translator, partial(Translator, decoder=ReadsMemoryPadding)),
    (checks.check_decodes_causal, ToyLanguageModel, partial(ToyLanguageModel, decoder=decoder_of(LooksAhead))),
    (checks.check_structure_stepping, ToyLanguageModel, EmbedsFromZero),
    (checks.check_structure_stepping, Translator, partial(Translator, decoder=Stale)),
    (checks.check_counts, Follow, WrongCounts),
    (checks.check_sum, Follow, MeanLoss),
    (checks.check_sum, Follow, PaddedLoss),
    (checks.check_prepare, Follow, GlobalDice),
    (checks.check_prepare, Follow, Overwrites),
    (checks.check_targets, Follow, PaddedTargets),
    (checks.check_targets, Follow, OutsideTargets),
    *faulty_images.PLANTED,
]


def _name(factory: Any) -> str:
    if isinstance(factory, partial):
        return "-".join([_name(factory.func), *(_name(v) for v in factory.keywords.values() if isinstance(v, type))])
    return factory.__name__


@pytest.mark.parametrize(
    ("check", "good", "bad"), [pytest.param(*row, id=f"{row[0].__name__}-{_name(row[2])}") for row in PLANTED]
)
def test_fault_turns_its_check_red(check: checks.Check, good: Any, bad: Any) -> None:
    check(good)
    with pytest.raises(AssertionError) as failure:
        check(bad)
    assert str(failure.value), "a check reports in a sentence what is wrong"


@pytest.mark.parametrize("name", checks.CHECKS)
def test_every_check_can_turn_red(name: str) -> None:
    assert name in {check.__name__ for check, _, _ in PLANTED}


@pytest.mark.parametrize(
    "good",
    [
        Cube,
        Rescale,
        Wide,
        Add,
        Slope,
        Bilinear,
        RunningMean,
        Watched,
        PlainLayer,
        Tokens,
        Attends,
        Backward,
        Speaks,
        Average,
        Dense,
        ToyEncoder,
        ToyLanguageModel,
        Translator,
        Labels,
        Picker,
        Finds,
        Follow,
    ],
    ids=_name,
)
def test_good_blocks_pass_everything(good: Any) -> None:
    """What is right is not called wrong."""
    for check in checks.checks_for(good):
        if check.__name__ not in ("check_docstring", "check_example"):
            check(good)
