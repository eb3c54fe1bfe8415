"""Attribute the prediction of a trained run to the tokens or patches of its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from weft.core.contracts import Attention, Latent, Tags
from weft.core.fields import ImageField
from weft.data.requests import Request
from weft.data.tag_schemes import Span
from weft.inspect.attribution_html import attribution_html
from weft.inspect.attribution_methods import METHODS, Values
from weft.inspect.presence import Baseline
from weft.inspect.scored_outputs import Scored, scored_outputs

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

Method = Literal["integrated-gradients", "occlusion", "shapley"]
"""Methods of attribution."""
_SHOWN_ERROR = 0.05


@dataclass(frozen=True)
class OutputAttribution:
    """The attribution of one output to the features of the input.

    Args:
        name: A class, an entity, or a generated token.
        values: The attribution of each feature: positive = it raises the score.
        score: Score of the output for the input: the log-odds log p - log (1 - p), or the value of a regression.
        baseline_score: Its score for the baseline.
    """

    name: str
    values: Sequence[float]
    score: float
    baseline_score: float

    @property
    def total(self) -> float:
        """Sum of the attributions."""
        return float(sum(self.values))

    @property
    def error(self) -> float:
        """Sum of the attributions minus the difference of both scores (completeness error)."""
        return self.total - (self.score - self.baseline_score)


@dataclass(frozen=True)
class Attribution:
    """The attributions of the outputs of a model to its input. A notebook shows them in colors.

    Args:
        input: The input as text; of an image, the name of its file.
        prediction: The prediction as text.
        method: The method.
        baseline: What an absent feature is replaced with.
        tokens: The features: tokens of the input, or positions of patches.
        fields: The field that each token belongs to.
        outputs: The attribution of each output.
        steps: Number of steps of integrated gradients; 0 for other methods.
        words: The words of a tagged text.
        entities: Predicted entities: type, first word, and the word after the last one.
        grid: Rows and columns of the patches of an image; None for a text.
        pixels: H x W x C pixels of an image, between -1 and 1.
        notes: Remarks, such as that the input was truncated.
    """

    input: str
    prediction: str
    method: str
    baseline: str
    tokens: Sequence[str]
    fields: Sequence[str]
    outputs: Sequence[OutputAttribution]
    steps: int = 0
    words: Sequence[str] = ()
    entities: Sequence[Span] = ()
    grid: tuple[int, int] | None = None
    pixels: np.ndarray | None = field(default=None, repr=False, compare=False)
    notes: Sequence[str] = ()

    def _repr_html_(self) -> str:
        return attribution_html(self)


def attribution(
    run: TrainedRun,
    request: Request,
    *,
    method: Method = "integrated-gradients",
    targets: Sequence[str] = (),
    baseline: Baseline = "zero",
    steps: int | None = None,
    patch: int | None = None,
) -> Attribution:
    """Attribute the prediction for an input to its tokens, or to the patches of an image.

    Works for every classifier, regression, tagger and generator, with or without attention. The score of an output is the
    log-odds of its probability, log p - log (1 - p); that of an entity, the sum over the tags of its words; that of a generated
    token, with all earlier ones given; that of a regression, its value. Special tokens stay in the baseline and have no
    attribution.

    Args:
        run: A trained run, from ``weft.load``.
        request: A text; a pair of texts as a tuple; the name of an image file.
        method: The method: ``integrated-gradients``, ``occlusion``, or ``shapley`` (exact, at most 10 tokens).
        targets: Classes to attribute; empty = the predicted one.
        baseline: What an absent token is replaced with: ``zero`` (a vector of zeros in place of its embedding), or the embedding
            of a special token (``mask``, ``unk``, ``pad``); for images gray (``zero``), ``black`` or ``white``.
        steps: Steps of integrated gradients; None = doubled from 32 until the error of the sum is below 1 %, at most 512.
        patch: Side of the patches of an image in pixels; None = the patches of the model, or pixels.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; use one of: {', '.join(METHODS)}")
    if isinstance(targets, str):
        targets = (targets,)
    model = run.model
    was_training = model.training
    model.train(False)
    try:
        scored = scored_outputs(run, request, tuple(targets), baseline, patch)
        found = METHODS[method](scored.model, steps) if scored.model.outputs else None
    finally:
        model.train(was_training)
    return _attribution(run, request, scored, found, method)


def default_method(run: TrainedRun) -> Method | Literal["attention"]:
    """Return how ``weft inspect`` shows a run: attention weights where the model has any, integrated gradients of a tagger and of
    models without attention."""
    has_attention = any(isinstance(module, Attention) for module in run.model.modules())
    attributed = Tags in run.model.provides() or isinstance(run.codec.info.inputs()[0], ImageField) or not has_attention
    return "attention" if not attributed or Latent in run.model.provides() else "integrated-gradients"


def _attribution(run: TrainedRun, request: Request, scored: Scored, found: Values | None, method: str) -> Attribution:
    features, notes, outputs = scored.model.features, list(scored.model.notes), list[OutputAttribution]()
    if found is None:
        notes.append("No entity was predicted." if scored.words else "No token was generated.")
    else:
        if not np.isfinite(found.value_KF).all():
            raise ValueError(f"the attributions of {run.name} are not finite: the weights have diverged or were not loaded")
        error_K = np.abs(found.error()) / np.maximum(np.abs(found.full_K - found.baseline_K), 0.1)
        if found.steps and error_K.max() > _SHOWN_ERROR:
            notes.append(f"With {found.steps} steps the sum is off by up to {error_K.max():.0%}; pass more steps.")
        columns = zip(scored.model.outputs, found.value_KF, found.full_K, found.baseline_K, strict=True)
        outputs = [OutputAttribution(name, row.tolist(), float(full), float(base)) for name, row, full, base in columns]
    cells = run.cells(request)
    return Attribution(
        input="\t".join(cells[name] for name in dict.fromkeys(features.fields) if name in cells),
        prediction=scored.prediction,
        method=method,
        baseline=scored.model.baseline,
        tokens=list(features.names),
        fields=list(features.fields),
        outputs=outputs,
        steps=found.steps if found else 0,
        words=list(scored.words),
        entities=list(scored.spans),
        grid=features.grid,
        pixels=scored.pixels,
        notes=notes,
    )
