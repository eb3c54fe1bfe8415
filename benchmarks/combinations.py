"""Every encoder x decoder x objective: what ``check`` accepts trains, what it refuses raises.

``python -m benchmarks.combinations``
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from weft.blocks import ClassifierHead, ConcatPooler, FirstPooler, LatentEmbedding, LatentMemory, MeanPooler
from weft.core.batch import Batch, Clock, collate
from weft.core.contracts import Data, Decoder, Encoder, Objective, Pooler
from weft.core.example import CHOICE_LABELS
from weft.core.fields import Field, Info
from weft.core.registry import CATALOG, name_of
from weft.learning import Gradient
from weft.models import (
    Classifier,
    ImageEncoder,
    LanguageModel,
    MultipleChoiceModel,
    Seq2Seq,
    Seq2SeqClassifier,
    SpanExtractor,
    Tagger,
    TextEncoder,
    TextVAE,
)
from weft.objectives import (
    ELBO,
    Classification,
    Denoising,
    EncoderLM,
    MaskedLM,
    MaskedPatches,
    MultiLabel,
    MultipleChoiceObjective,
    NextToken,
    Ordinal,
    PrefixLM,
    Regression,
    ReplacedToken,
    SpanAnswer,
    Tagging,
    Weighted,
)
from weft.training.build import StagePlan, build_network
from weft.training.dry_run import check
from weft.training.run import Run

DIM, STEPS = 8, 30
_TEXT = partial(Field, vocab=16, max_length=6, sentinel_count=4)
INFOS = {
    "paired text": Info({"source": _TEXT("source"), "target": _TEXT("target")}, "target", "paired text"),
    "mirrored text": Info(
        {"source": _TEXT("source", space="source"), "target": _TEXT("target", space="target")}, "target", "mirrored text"
    ),
    "plain text": Info({"text": _TEXT("text")}, "text", "plain text"),
    "labeled text": Info({"text": _TEXT("text"), "label": Field("label", 3, "label")}, "text", "labeled text"),
    "text with several labels": Info({"text": _TEXT("text"), "label": Field("label", 3, "labels")}, "text", "several labels"),
    "text with a number": Info({"text": _TEXT("text"), "label": Field("label", 1, "number")}, "text", "numbers"),
    "tagged text": Info({"text": _TEXT("text", words=True), "tags": Field("tags", 3, "tags", space="text")}, "text", "tagged"),
    "questions": Info(
        {"question": _TEXT("question"), "context": _TEXT("context"), "answer": Field("answer", 2, "span", space="context")},
        "context",
        "questions",
    ),
    "choices": Info(
        {
            "question": _TEXT("question"),
            "choices": _TEXT("choices", kind="texts"),
            "label": Field("label", len(CHOICE_LABELS), "label", labels=CHOICE_LABELS),
        },
        "question",
        "choices",
    ),
    "images": Info({"image": Field("image", 3, "image", max_length=16), "label": Field("label", 3, "label")}, "image", "images"),
}


@dataclass(frozen=True)
class Combination:
    data: str
    structure: Any
    objective: Any
    title: str

    def plan(self) -> StagePlan:
        return StagePlan(0, "main", None, self.structure, self.objective, None, None, {}, True)


def combinations() -> Iterator[Combination]:
    """Every kind of data x every structure with every encoder, decoder and pooler x every objective."""
    encoders, decoders = CATALOG[Encoder], CATALOG[Decoder]
    poolers = {
        n: partial(ConcatPooler, parts=[FirstPooler, MeanPooler]) if p is ConcatPooler else p for n, p in CATALOG[Pooler].items()
    }
    structures: dict[str, Any] = {}
    for (e, encoder), (d, decoder) in itertools.product(encoders.items(), decoders.items()):
        structures[f"seq2seq {e} + {d}"] = partial(Seq2Seq, dim=DIM, encoder=encoder, decoder=decoder)
        text_encoder = partial(TextEncoder, dim=DIM, encoder=encoder, head=None)
        language_model = partial(LanguageModel, dim=DIM, decoder=decoder)
        slots = [LatentMemory, LatentEmbedding] if d == "transformer" else [LatentEmbedding]
        structures[f"text-vae {e} + {d}"] = partial(
            TextVAE, latent=4, encoder=text_encoder, decoder=language_model, injections=slots
        )
        structures[f"seq2seq-classifier {e} + {d}"] = partial(Seq2SeqClassifier, dim=DIM, encoder=encoder, decoder=decoder)
    for d, decoder in decoders.items():
        structures[f"language-model {d}"] = partial(LanguageModel, dim=DIM, decoder=decoder)
        structures[f"language-model {d} + mean"] = partial(LanguageModel, dim=DIM, decoder=decoder, pooler=MeanPooler)
    for (e, encoder), (p, pooler) in itertools.product(encoders.items(), poolers.items()):
        structures[f"classifier {e} + {p}"] = partial(Classifier, dim=DIM, encoder=encoder, pooler=pooler)
    for e, encoder in encoders.items():
        structures[f"tagger {e}"] = partial(Tagger, dim=DIM, encoder=encoder)
        structures[f"span-extractor {e}"] = partial(SpanExtractor, dim=DIM, encoder=encoder)
        structures[f"multiple-choice {e}"] = partial(MultipleChoiceModel, dim=DIM, encoder=encoder)
        structures[f"text-encoder {e}"] = partial(TextEncoder, dim=DIM, encoder=encoder)
        structures[f"text-encoder {e} + discriminator"] = partial(
            TextEncoder, dim=DIM, encoder=encoder, discriminator=ClassifierHead
        )
        structures[f"image-encoder {e}"] = partial(ImageEncoder, dim=DIM, encoder=encoder)
    objectives: dict[str, Any] = {
        "next-token": NextToken,
        "classification": Classification,
        "multi-label": MultiLabel,
        "ordinal": Ordinal,
        "regression": Regression,
        "tagging": Tagging,
        "span": SpanAnswer,
        "choice": MultipleChoiceObjective,
        "elbo": ELBO,
        "encoder-lm": EncoderLM,
        "masked-lm": MaskedLM,
        "denoising": Denoising,
        "prefix-lm": PrefixLM,
        "replaced-token": ReplacedToken,
        "masked-patches": MaskedPatches,
        "both": partial(Weighted, parts={"next": NextToken, "class": Classification}, weights={"class": 0.5}),
    }
    systems = {name for name, o in CATALOG[Objective].items() if o.__module__.startswith("weft.systems")}  # tested by themselves
    missing = (
        set(CATALOG[Objective])
        - {name_of(o) for o in objectives.values()}
        - {"gan-discriminator", "gan-generator", "picky"}
        - systems
    )
    assert not missing, f"objectives without a combination: {missing}"
    for data, (s, structure), (o, objective) in itertools.product(INFOS, structures.items(), objectives.items()):
        yield Combination(data, structure, objective, f"{data} | {s} | {o}")


def fixed_batch(info: Info, objective: Objective) -> Batch:
    rng = np.random.default_rng(1)
    return collate(
        [i for i in (objective.prepare(info.synthetic_example(rng, n), rng, None) for n in (5, 3, 1, 6)) if i is not None]
    )


def accepted(combination: Combination) -> bool:
    """Run the checks of ``weft check``: build on the meta device, match structure and objective, compute a batch."""
    try:
        build_network(
            combination.plan(), {"": INFOS[combination.data]}, 1, "meta"
        )  # what is refused at once need not be reported
        reported_idle(combination)
    except ValueError:
        return False
    return True


def reported_idle(combination: Combination) -> list[str]:
    """Parameters that ``weft check`` reports as untrained by this objective (a second head, for another objective)."""

    class Declared(Data):
        def declare(self) -> Info:
            return INFOS[combination.data]

        def open(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("check opens no data")

        def tokenizers(self) -> dict[str, Any]:
            return {}

    run = Run(
        data=Declared,
        structure=combination.structure,
        objective=combination.objective,
        learning=partial(Gradient, steps=1, batch_tokens=60),
    )
    return check(run)[0].idle


def trains(combination: Combination) -> str | None:
    """None if every parameter gets a gradient, but for those that check names, and the loss on a fixed batch falls by a tenth."""
    info = INFOS[combination.data]
    network = build_network(combination.plan(), {"": info}, 1)
    objective = network.objectives[""]
    batch = fixed_batch(info, objective)
    parameters = network.parameters()
    idle = reported_idle(combination)
    optimizer = torch.optim.Adam(parameters.values(), 1e-2)
    losses: list[float] = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = objective(network.model, batch, Clock()).mean()
        loss.backward()
        losses.append(loss.item())
        without = [n for n, p in parameters.items() if p.grad is None]
        if without != idle:
            return f"no gradient: {', '.join(without)}; check reports: {', '.join(idle)}"
        optimizer.step()
    # in a bag of words, the last vector is always that of EOS: only the class frequencies can be learned from it
    enough = 1.0 if "bag-of-words + last" in combination.title else 0.9
    if not losses[-1] < enough * losses[0]:
        return f"the loss went from {losses[0]:.3f} to {losses[-1]:.3f}"
    return None


def raises(combination: Combination) -> bool:
    """Built with checking off: does it raise, when built or when computed?"""
    info = INFOS[combination.data]
    try:
        network = build_network(combination.plan(), {"": info}, 1, check=False)
        objective = network.objectives[""]
        objective(network.model, fixed_batch(info, objective), Clock())
    except Exception:
        return True
    return False


def main() -> None:
    torch.set_num_threads(1)
    tally: collections.Counter[str] = collections.Counter()
    for combination in combinations():
        if accepted(combination):
            problem = trains(combination)
            whole = "accepted, trains" + (", but for a head that check names" if reported_idle(combination) else "")
            tally[whole if problem is None else "accepted, does not train"] += 1
            if problem:
                print(f"{combination.title}: {problem}")
        else:
            fine = raises(combination)
            tally["refused, raises" if fine else "refused, yet works"] += 1
            if not fine:
                print(f"{combination.title}: refused, but with checking off it works")
    for outcome, n in sorted(tally.items()):
        print(f"{outcome:50} {n}")
    raise SystemExit(bool(tally["accepted, does not train"] or tally["refused, yet works"]))


if __name__ == "__main__":
    main()
