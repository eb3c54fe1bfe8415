"""The latent space of a trained run: encode, decode, sample, interpolate, steer. N texts, P latent dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Instance
from weft.core.contracts import Latent, Search
from weft.core.fields.tokenized import cut_text
from weft.core.outputs import Hypothesis
from weft.core.registry import Build
from weft.data.encoding import assemble, encode, rows_of, truncate
from weft.inference.engine import BATCH_SIZE, answers, encoder_budget
from weft.inference.load import load
from weft.inference.trained_run import TrainedRun
from weft.systems.latent_text.arithmetic import Interpolation, InterpolationStep, check_scale, interpolate_latents
from weft.systems.latent_text.evaluate.samples import max_new_tokens, sample_prior
from weft.systems.latent_text.inputs import text_list
from weft.systems.latent_text.labels import ClassLabels, Labels

SearchStrategy = Search | Build[Search] | None
"""Decoding strategy; None = that of the recipe's evaluation (greedy by default)."""


def open_latent(folder: str | Path, device: str = "auto") -> LatentSpace:
    """Open the latent space of a trained run: ``open_latent("runs/vae").reconstruct(["the food was good"])``.

    Args:
        folder: Folder of the run.
        device: Device of the model.
    """
    return LatentSpace(load(folder, device))


class LatentSpace:
    """Latent space of a trained run: encodes texts to latent codes z, and decodes latent codes to texts.

    A text is encoded to the mean of its posterior. A decoded text depends on its latent code, its class (if the model is
    class-conditional) and the search, not on the rest of the batch; the k-th sample depends on the seed and k. Encoded texts are
    counted, without empty ones, in ``encoded``; those longer than ``max_length`` are truncated and counted in ``truncated``;
    those with words outside the vocabulary of the encoder are counted in ``unknown``.

    Args:
        run: A trained run whose structure has a latent space, such as ``text-vae``.
    """

    def __init__(self, run: TrainedRun):
        if Latent not in run.model.provides():
            from weft.cli.runs import commands_for

            supported = commands_for(run)
            use = f"it supports {', '.join(supported)}; " if supported else ""
            raise ValueError(f"{run.folder or 'this run'} has no latent space; {use}train a structure with one, such as text-vae")
        self.run, self.codec = run, run.codec
        self.model: Any = run.model
        self.source, self.target = self.codec.info.text("source"), self.codec.info.text("target")
        self.latent: int = self.model.latent
        self.labels = ClassLabels(run)
        self.encoded = self.truncated = self.unknown = 0

    # -------------------------------------------------------------------------------------------------------------- encode

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """N x P: the posterior mean of each text. Equal texts are encoded once.

        Args:
            texts: A list of texts.
        """
        rows = text_list(texts)
        times = Counter(rows)

        def encode_window(distinct: list[str], first: int) -> list[Any]:
            return self._encoder_inputs(distinct, times)

        found = list(
            answers(
                times,
                encode_window,
                self._posterior_means,
                length=len,
                model=self.model,
                max_tokens=encoder_budget(self.run.device),
            )
        )
        z_NP = np.stack(found) if found else np.zeros((0, self.latent), np.float32)
        row_of = {text: row for row, text in enumerate(times)}
        return z_NP[[row_of[text] for text in rows]]

    def _posterior_means(self, inputs: list[Any], numbers: list[int]) -> np.ndarray:
        """B x P: the posterior means of the texts of a batch."""
        batch = self.run.collate([Instance(source=ids) for ids in inputs])
        return self.model.posterior(batch["source"]).mean_BP.float().cpu().numpy()

    def _encoder_inputs(self, texts: Sequence[str], times: Mapping[str, int]) -> list[Any]:
        """The input ids of texts, truncated; counts how often encoded, truncated and unknown texts occur."""
        parts = [cut_text(text, self.source.max_length) for text in texts]
        short = [truncate(self.codec.info, row) for row in rows_of(encode(self.codec, [{"source": text} for text in parts]))]
        unk = self.source.special.unk
        for text, part, (row, removed) in zip(texts, parts, short, strict=True):
            self.encoded += times[text] * bool(text.strip())
            self.truncated += times[text] * bool(removed or len(part) < len(text))
            self.unknown += times[text] * bool(text.strip() and (row["source"] == unk).any())
        return [self.source.frame.around([assemble(self.codec.info, row)["source"]]) for row, _ in short]

    # -------------------------------------------------------------------------------------------------------------- decode

    def decode(self, z: Any, label: Labels = None, search: SearchStrategy = None) -> list[str]:
        """Decode latent codes to texts.

        Args:
            z: N x P latent codes.
            label: Target classes, for class-conditional models.
            search: Decoding strategy, such as ``partial(Sampling, top_p=0.9)`` or ``partial(BeamSearch, beams=4)``.
        """
        self.labels.check(label)
        return [self.run.decode(row[0]) for row in self.hypotheses(self._check_latents(z), label, search)]

    def hypotheses(self, z_NP: np.ndarray, label: Labels = None, search: SearchStrategy = None) -> Iterator[list[Hypothesis]]:
        """Yield the hypotheses of the search for each latent code, best first. Models that are not class-conditional ignore the
        label."""
        label_N = self.labels.indices(label, len(z_NP))

        def decode(latents: list[np.ndarray], numbers: list[int]) -> list[list[Hypothesis]]:
            return self._search(np.stack(latents), None if label_N is None else label_N[numbers], search, numbers)

        return answers(z_NP, lambda window, first: window, decode, length=lambda z_P: 1, model=self.model)

    def _search(
        self, z_BP: np.ndarray, label_B: Tensor | None, search: SearchStrategy, keys: Sequence[int]
    ) -> list[list[Hypothesis]]:
        strategy = self.run.evaluation().search if search is None else search
        searcher: Any = strategy if isinstance(strategy, Search) else strategy()
        device = next(self.model.parameters()).device
        limits = [max_new_tokens(searcher, self.target)] * len(z_BP)
        label_B = None if label_B is None else label_B.to(device)
        memory = self.model.memory_from(torch.from_numpy(z_BP).to(device), label_B)
        return searcher(self.model, memory, limits=limits, keys=keys)

    def rewrite(
        self,
        texts: Iterable[str],
        change: Callable[[np.ndarray], np.ndarray] | None = None,
        label: Labels = None,
        search: SearchStrategy = None,
        batch_size: int = BATCH_SIZE,
    ) -> Iterator[str]:
        """Encode each text, change its latent code, and decode it. Empty texts stay empty.

        Args:
            texts: Texts, consumed in windows of a few batches.
            change: Maps the latent codes of several texts to new ones; None = unchanged.
            label: Target classes, for class-conditional models.
            search: Decoding strategy; see ``decode``.
            batch_size: Number of texts per batch.
        """
        self.labels.check(label)
        if isinstance(texts, str):
            raise ValueError(f"texts must be a list of strings, not a string; give [{texts[:40]!r}]")
        several = None if isinstance(label, str) else label
        rewritten = 0

        def change_codes(window: list[str], first: int) -> list[tuple[str, np.ndarray]]:
            z_NP = self.encode(window)
            z_NP = z_NP if change is None else change(z_NP).astype(np.float32)
            return list(zip(window, z_NP, strict=True))

        def decode(changed: list[tuple[str, np.ndarray]], numbers: list[int]) -> list[str]:
            own = label if several is None else [several[number] for number in numbers if number < len(several)]
            labels = self.labels.indices(own, len(numbers))
            found = self._search(np.stack([z_P for _, z_P in changed]), labels, search, numbers)
            return [self.run.decode(row[0]) if text.strip() else "" for (text, _), row in zip(changed, found, strict=True)]

        for text in answers(texts, change_codes, decode, length=lambda one: 1, model=self.model, max_rows=batch_size):
            yield text
            rewritten += 1
        if several is not None and len(several) != rewritten:
            raise ValueError(f"{len(several)} labels for {rewritten} texts; give one for all, or one per text")

    def reconstruct(self, texts: Iterable[str], label: Labels = None, search: SearchStrategy = None) -> list[str]:
        """Encode and decode each text: what its latent code preserves."""
        return list(self.rewrite(texts, None, label, search))

    # -------------------------------------------------------------------------------------------------------------- sample

    def sample_latents(self, samples: int, label: Labels = None, seed: int = 0) -> np.ndarray:
        """N x P latent codes, sampled from the prior. The k-th depends only on the seed, k and its class.

        Args:
            samples: N, the number of latent codes.
            label: Their classes, for models with a class-conditional prior.
            seed: Random seed.
        """
        if samples < 0:
            raise ValueError(f"samples must be at least 0, not {samples}")
        label_N = self.labels.indices(label, samples)
        with torch.inference_mode():
            return sample_prior(self.model, samples, label_N, seed).cpu().numpy()

    def sample(self, samples: int, label: Labels = None, seed: int = 0, search: SearchStrategy = None) -> list[str]:
        """Decode samples from the prior. The k-th text depends only on the seed and k.

        Args:
            samples: Number of texts.
            label: Their classes; None = all classes in turn, if the model is class-conditional.
            seed: Random seed.
            search: Decoding strategy; see ``decode``.
        """
        label = self.labels.resolve(samples, label)
        return [self.run.decode(row[0]) for row in self.hypotheses(self.sample_latents(samples, label, seed), label, search)]

    # --------------------------------------------------------------------------------------- interpolation and arithmetic

    def interpolate(
        self,
        a: str,
        b: str,
        steps: int = 11,
        method: Interpolation = "linear",
        label: Labels = None,
        search: SearchStrategy = None,
    ) -> list[InterpolationStep]:
        """Decode latent codes between two texts, endpoints included. The endpoints are the reconstructions of both texts.

        linear: z = (1 - tau) z_a + tau z_b;  spherical: see ``interpolate_latents``

        Args:
            a: First text.
            b: Last text.
            steps: Number of texts, endpoints included.
            method: linear or spherical.
            label: Class of all texts, for class-conditional models.
            search: Decoding strategy; see ``decode``.
        """
        if steps < 2:
            raise ValueError(f"steps must be at least 2, endpoints included, not {steps}")
        z_a, z_b = self.encode([a, b])
        taus = [step / (steps - 1) for step in range(steps)]
        texts = self.decode(np.stack([interpolate_latents(z_a, z_b, tau, method) for tau in taus]), label, search)
        return [InterpolationStep(tau, text) for tau, text in zip(taus, texts, strict=True)]

    def analogy(self, a: str, b: str, c: str, scale: float = 1.0, label: Labels = None, search: SearchStrategy = None) -> str:
        """Solve a : b = c : ? in the latent space: decode z_c + scale (z_b - z_a)."""
        z_a, z_b, z_c = self.encode([a, b, c])
        return self.decode((z_c + check_scale(scale) * (z_b - z_a))[None], label, search)[0]

    def arithmetic(self, terms: Sequence[tuple[float, str]], label: Labels = None, search: SearchStrategy = None) -> str:
        """Decode a linear combination of latent codes: z = sum_i scale_i z_i.

        Args:
            terms: Factors and texts; ``parse_terms`` parses them from words.
            label: Class of the text, for class-conditional models.
            search: Decoding strategy; see ``decode``.
        """
        if not terms:
            raise ValueError("terms is empty; give at least one (scale, text)")
        z_NP = self.encode([text for _, text in terms])
        scale_N = np.array([check_scale(scale) for scale, _ in terms], np.float32)
        return self.decode((scale_N @ z_NP)[None], label, search)[0]

    # --------------------------------------------------------------------------------------------- steering and transfer

    def direction(self, target: Iterable[str], source: Iterable[str], scale: float = 1.0) -> np.ndarray:
        """P: attribute vector, scale (mean z of the target texts - mean z of the source texts).

        Args:
            target: Texts with the target attribute.
            source: Texts with the source attribute.
            scale: Factor of the vector.
        """
        targets, sources = text_list(target), text_list(source)
        for name, group in (("target", targets), ("source", sources)):
            if not group:
                raise ValueError(f"{name} has no texts; a direction needs texts on both sides")
        z_NP = self.encode([*targets, *sources]).astype(np.float64)
        direction_P = z_NP[: len(targets)].mean(0) - z_NP[len(targets) :].mean(0)
        return (check_scale(scale) * direction_P).astype(np.float32)

    def steer(
        self,
        texts: Iterable[str],
        target: Iterable[str],
        source: Iterable[str],
        scale: float = 1.0,
        label: Labels = None,
        search: SearchStrategy = None,
    ) -> list[str]:
        """Rewrite texts along an attribute vector: decode z + scale (mean z of target - mean z of source).

        Args:
            texts: Texts to rewrite.
            target: Texts with the target attribute.
            source: Texts with the source attribute.
            scale: Factor of the attribute vector.
            label: Target classes, for class-conditional models.
            search: Decoding strategy; see ``decode``.
        """
        direction_P = self.direction(target, source, scale)
        return list(self.rewrite(texts, lambda z_BP: z_BP + direction_P, label, search))

    def transfer(self, texts: Iterable[str], label: Labels, search: SearchStrategy = None) -> list[str]:
        """Style transfer: encode each text and decode it with another class, for class-conditional models."""
        self.labels.check_transfer(label)
        return list(self.rewrite(texts, None, label, search))

    def _check_latents(self, z: Any) -> np.ndarray:
        z_NP = np.asarray(z, np.float32)
        if z_NP.ndim != 2 or z_NP.shape[1] != self.latent:
            raise ValueError(f"z must have the shape (N, {self.latent}), not {z_NP.shape}")
        if not np.isfinite(z_NP).all():
            raise ValueError("z has values that are not finite")
        return z_NP
