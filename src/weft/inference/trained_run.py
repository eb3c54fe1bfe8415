"""``TrainedRun``: a model with its weights, tokenizers and objectives, for generation, prediction and evaluation."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch

from weft.core import html
from weft.core.batch import Batch, Instance, collate
from weft.core.contracts import Codec, Dataset, Objective, Search
from weft.core.fields import ClassField
from weft.core.outputs import Hypothesis
from weft.core.registry import Build
from weft.data.requests import Request, RequestSpec, is_pair, request_cells
from weft.data.sources.mixture import Mixture
from weft.evaluate import Evaluation, EvaluationResult
from weft.evaluate.evaluation import prediction_text
from weft.inference import python_inputs
from weft.inference.errors import HighLossExample, high_loss_examples
from weft.inference.generation import hypotheses
from weft.inference.prediction import Prediction, predictions
from weft.inspect.architecture import StageNetwork
from weft.inspect.diagram.describe import kind_of
from weft.training.build import final_key, plans
from weft.training.run import Run
from weft.training.run_html import parts_of, run_html
from weft.training.sources import build_sources, parts

Requests = Iterable[Any] | os.PathLike[str]
"""What is predicted: a list of texts or other requests, a table in memory, or files."""


class TrainedRun:
    """A trained model, ready for inference. ``Run.train`` and ``weft.load`` return it.

    Args:
        run: The specification it was trained from.
        model: The structure with its final weights; what it can do is ``model.provides()``.
        codec: Fields and tokenizers: between text and ids.
        objectives: Objectives of the last stage by name; the first one predicts.
        folder: Run folder; None for a pretrained model.
        result: Final evaluation of the training; without predictions if the run was loaded, empty for a pretrained model.
        start_ids: Ids that a generated text starts with; None = the BOS token, as weft trains it.
        codecs: Fields and tokenizers of each named source; empty = there is one source.
        part: The source, or source of a mixture, that is predicted and evaluated; "" = the first one predicts, all are evaluated.
        pair_format: Codec and objective for pairs of texts, where single texts are the default: a pretrained classifier does
            not declare which of the two it was trained on.
    """

    def __init__(
        self,
        run: Run,
        model: Any,
        codec: Codec,
        objectives: dict[str, Objective],
        *,
        folder: Path | None = None,
        result: EvaluationResult | None = None,
        start_ids: tuple[int, ...] | None = None,
        pair_format: RequestSpec | None = None,
        codecs: Mapping[str, Codec] = MappingProxyType({}),
        part: str = "",
    ):
        self.run, self.model, self.codec, self.objectives = run, model, codec, objectives
        self.folder, self.result = folder, result or EvaluationResult({})
        self.start_ids, self.pair_format = start_ids, pair_format
        self.codecs, self.part = codecs, part
        self.truncated = 0
        """Number of requests that were longer than the examples of training and were truncated."""

    @property
    def name(self) -> str:
        """Name of the run folder or of the pretrained model."""
        return self.run.name if self.folder is None else self.folder.resolve().name

    def __repr__(self) -> str:
        parameters = sum(p.numel() for p in self.model.parameters())
        facts = [*parts_of(self.run)[self.folder is None :], f"{parameters:,} parameters", *self.result.shown()]
        return f"<TrainedRun {self.name}: {', '.join(facts)}>"

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the final evaluation, by name, as in ``metrics.json``; empty for a pretrained model."""
        return self.result.metric_values

    @property
    def objective(self) -> Objective:
        """The objective that predicts: the first one."""
        return next(iter(self.objectives.values()))

    @property
    def device(self) -> torch.device:
        """Device of the model's parameters."""
        return next(self.model.parameters()).device

    def evaluation(self) -> Evaluation:
        """Build the evaluation of the last stage: its metrics and its search."""
        return plans(self.run)[-1].evaluations()[self.part] if self.part else self.run.evaluation()

    @property
    def parts(self) -> list[str]:
        """Names of the sources that are evaluated separately, of those of a mixture too; [""] = a single, unnamed source."""
        return [self.part] if self.part else list(parts(plans(self.run)[-1]))

    def of(self, name: str) -> TrainedRun:
        """Return this run for one of several sources: with its fields, its objective, its metrics and its data.

        Args:
            name: Name of a source; of a source of a mixture, that within the mixture (after the name of the mixture and a dot,
                where it has one).
        """
        plan = plans(self.run)[-1]
        known = parts(plan)
        if not name or name not in known:
            has = f"it has: {', '.join(known)}" if any(known) else "it has a single, unnamed one"
            raise ValueError(f"{self.name} has no source {name!r}; {has}")
        part = known[name]
        source, codec = build_sources(plan)[part.source], self.codecs.get(part.source, self.codec)
        if part.member and isinstance(source, Mixture):
            codec = source.codec_of(codec, part.member)
        objectives = {part.objective: self.objectives[part.objective]} | self.objectives
        found = TrainedRun(self.run, self.model, codec, objectives, folder=self.folder, codecs=self.codecs, part=name)
        found.result = self.result.parts.get(name, found.result)
        return found

    def networks(self) -> list[StageNetwork]:
        """Return model and objectives of the last stage. ``weft.inspect.architecture(trained)`` draws them."""
        return [StageNetwork(self.model, self.objectives, self.codec.info, kind=kind_of(self.model))]

    def _repr_html_(self) -> str:
        parameters = sum(p.numel() for p in self.model.parameters())
        facts = [f"{parameters:,} parameters", *([f"folder: {self.folder}"] if self.folder is not None else [])]
        return html.page(run_html(self.run, facts), self.result._repr_html_() if self.metrics else "")

    # -------------------------------------------------------------------------------------------------------- generation

    def generate(self, texts: Iterable[str], search: Search | Build[Search] | None = None, n_best: int = 1) -> list[Any]:
        """Generate a text for each text, in order; with ``n_best`` > 1 a list of texts for each, best first.

        Args:
            texts: Prompts for a language model; source texts for an encoder-decoder.
            search: Decoding algorithm (``GreedySearch``, ``BeamSearch``, ``Sampling``); None = that of the recipe.
            n_best: Number of hypotheses to return for each text.
        """
        with self._warn_of_truncation():
            found = list(self.hypotheses(texts, search))
        if n_best == 1:
            return [self.decode(row[0]) for row in found]
        return [[self.decode(hypothesis) for hypothesis in row[:n_best]] for row in found]

    def hypotheses(
        self, texts: Iterable[str], search: Search | Build[Search] | None = None, batch_size: int = 64
    ) -> Iterator[list[Hypothesis]]:
        """Yield the hypotheses for each text, best first, with token ids and scores. See ``generate``."""
        return hypotheses(self, texts, search, batch_size)

    def decode(self, prediction: Any) -> str:
        """Return a hypothesis, or another output of the objective, as text."""
        return prediction_text([prediction] if isinstance(prediction, Hypothesis) else prediction, self.codec, {})

    # -------------------------------------------------------------------------------------------------------- prediction

    def predict(self, requests: Requests, batch_size: int = 64) -> list[str]:
        """Predict each request: a class, tags, a number, a span, a choice, in the notation of the data files.

        A run trained with ``masked-lm`` predicts the most probable token at each ``<mask>``, separated by tabs.

        Args:
            requests: Texts. Examples with several texts are tuples, or dicts by field with a list where a field has several:
                ``{"question": "Two?", "choices": ["1 + 1", "1 + 2"]}``. An image is the name of its file. Or the ``Path`` of a
                file or several, a DataFrame of pandas or polars, a Dataset or a dict of columns, as the run's data
                source reads them.
            batch_size: Number of requests per batch.
        """
        with self._warn_of_truncation():
            return [prediction.text for prediction in self.predictions(requests, batch_size)]

    def predict_proba(self, requests: Requests, batch_size: int = 64) -> np.ndarray:
        """Return the probability of each class for each request, N x C in the order of ``classes``, as in scikit-learn.

        Choices that a question does not have get 0.

        Args:
            requests: As for ``predict``.
            batch_size: Number of requests per batch.
        """
        classes = self.classes
        with self._warn_of_truncation():
            found = [prediction.probabilities for prediction in self.predictions(requests, batch_size)]
        if not classes or any(not probabilities for probabilities in found):
            raise ValueError(f"{self.name} predicts no class, so it has no probabilities; use predict")
        return np.array([[of_one.get(name, 0.0) for name in classes] for of_one in found]).reshape(-1, len(classes))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes that are predicted; empty where the target is no class."""
        label = self.codec.info.fields.get("label")
        return label.labels if isinstance(label, ClassField) else ()

    def predictions(
        self,
        requests: Requests,
        batch_size: int = 64,
        on_bad_request: Literal["error", "skip"] = "error",
    ) -> Iterator[Prediction]:
        """Yield the prediction for each request, with the probability of each class. See ``predict``.

        Args:
            requests: As for ``predict``.
            batch_size: Number of requests per batch.
            on_bad_request: What happens to a request that cannot be read: ``error``, or ``skip`` for an empty prediction with
                its ``problem``.
        """
        return predictions(self, python_inputs.requests(self, requests), batch_size, on_bad_request)

    def embed(self, texts: Requests) -> np.ndarray:
        """Return the sentence embeddings of texts, N x D, each of unit length: ``weft.load("minilm").embed(["a text"])``.

        ``weft.inference.embedding.open_embedder`` has more: pooling, semantic search.

        Args:
            texts: Texts; or a file, a DataFrame, a Dataset or a dict of columns, as for ``predict``.
        """
        from weft.inference.embedding import embedder_of

        embedder = embedder_of(self)
        vectors_ND = embedder(python_inputs.texts(self, texts))
        if embedder.truncated:
            warnings.warn(f"truncated {embedder.truncated:,} texts to {embedder.max_length} tokens", stacklevel=2)
        return vectors_ND

    def request_format(self, request: Request) -> RequestSpec:
        """Return the codec and the objective for a request: those for pairs where it is a pair."""
        if self.pair_format is not None and is_pair(request):
            return self.pair_format
        return RequestSpec(self.codec, self.objective)

    def cells(self, request: Request) -> dict[str, str]:
        """Return the texts of a request by field. Raises ValueError where texts are missing or too many."""
        return request_cells(self.request_format(request).codec.info, request)

    # -------------------------------------------------------------------------------------------------------- evaluation

    def evaluate(self, data: Any = None) -> EvaluationResult:
        """Evaluate on a split of the run's data, or other data: ``evaluate("valid")``, ``evaluate("x.csv")``, ``evaluate(df)``.

        Of several sources, each that has the split is evaluated; for other data, name one: ``run.of(name).evaluate(df)``.

        Args:
            data: Name of a split; or a file or list of files in the format of the run's data (``CLASS=FILE`` where each class has
                its own); or rows with the columns of the run's data: a DataFrame of pandas or polars, a Dataset, a dict of
                columns, a list of dicts or tuples. None = the split test, or valid where there is no test.
        """
        if not self.part and self.parts != [""]:
            return python_inputs.evaluate_parts(self, data)
        opened = python_inputs.open_data(self, data)
        key = final_key(self.run, opened.name)
        key = (key, self.part) if self.part else key
        result = self.evaluation().evaluate(self.model, self.objective, opened.dataset, self.codec, self.device, key=key)
        left_out = opened.left_out()
        return replace(result, split=opened.name, remarks=[*result.remarks, *([left_out] if left_out else [])])

    def dataset(self, data: Any = None) -> tuple[str, Dataset]:
        """Open a split of the run's data, or other data. Returns the name of the split and the dataset. See ``evaluate``."""
        opened = python_inputs.open_data(self, data)
        return opened.name, opened.dataset

    def errors(self, data: Any = None, max_examples: int = 20) -> list[HighLossExample]:
        """Return the examples with the largest loss (per token where there are several), largest first.

        Args:
            data: A split, files or rows, as for ``evaluate``.
            max_examples: Number of examples to return.
        """
        return high_loss_examples(self, self.dataset(data)[1], max_examples)

    # ---------------------------------------------------------------------------------------------------------- batching

    def collate(self, instances: Sequence[Instance]) -> Batch:
        """Return a padded batch on the model's device."""
        return collate(instances, range(len(instances))).to(self.device)

    def count_truncated(self, tokens: int) -> None:
        """Count a request that was truncated; ``tokens`` is its full length."""
        self.truncated += 1

    def truncation_warning(self, requests: int) -> str:
        """Return the warning for a number of truncated requests."""
        length = max(field.max_length for field in self.codec.info.tokenized())
        return f"truncated {requests:,} request{'s' * (requests != 1)} longer than {length} tokens"

    @contextmanager
    def _warn_of_truncation(self) -> Iterator[None]:
        before = self.truncated
        yield
        if self.truncated > before:
            warnings.warn(self.truncation_warning(self.truncated - before), stacklevel=4)
