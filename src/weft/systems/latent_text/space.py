"""The latent space of a trained run: encode, decode, sample, interpolate, steer. N texts, P latent dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Instance, collate
from weft.core.contracts import Latent, Search
from weft.core.outputs import Hypothesis
from weft.core.registry import Build
from weft.data.encoding import assemble, cut_text, encode, rows_of, truncate
from weft.inference.load import load
from weft.inference.trained_run import TrainedRun
from weft.systems.latent_text.arithmetic import Interpolation, InterpolationStep, check_scale, interpolate_latents
from weft.systems.latent_text.evaluate.samples import max_new_tokens, sample_prior
from weft.systems.latent_text.inputs import commands_for, text_batches, text_list
from weft.systems.latent_text.labels import ClassLabels, Labels

BATCH_TOKENS = 4096
"""Maximum number of tokens per encoded batch, padding included."""
BATCH_SIZE = 64
"""Number of texts per decoded batch."""
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
            supported = commands_for(run)
            use = f"it supports {', '.join(supported)}; " if supported else ""
            raise ValueError(f"{run.folder or 'this run'} has no latent space; {use}train a structure with one, such as text-vae")
        self.run, self.codec = run, run.codec
        self.model: Any = run.model
        self.source, self.target = self.codec.info["source"], self.codec.info["target"]
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
        distinct = list(dict.fromkeys(rows))
        inputs = self._encoder_inputs(rows, distinct)
        z_NP = np.zeros((len(distinct), self.latent), np.float32)
        order = sorted(range(len(inputs)), key=lambda i: -len(inputs[i]))
        device = next(self.model.parameters()).device
        start = 0
        with torch.inference_mode():
            while start < len(order):
                some = order[start : start + max(1, BATCH_TOKENS // max(1, len(inputs[order[start]])))]
                batch = collate([Instance(source=inputs[i]) for i in some], some).to(device)
                z_NP[some] = self.model.posterior(batch["source"]).mean_BP.float().cpu().numpy()
                start += len(some)
        row_of = {text: row for row, text in enumerate(distinct)}
        return z_NP[[row_of[text] for text in rows]]

    def _encoder_inputs(self, rows: Sequence[str], distinct: Sequence[str]) -> list[Any]:
        """Token ids of the distinct texts, truncated; updates the counts of encoded, truncated and unknown texts."""
        parts = [cut_text(text, self.source.max_length) for text in distinct]
        values = rows_of(encode(self.codec, [{"source": text} for text in parts])) if distinct else []
        short = [truncate(self.codec.info, row) for row in values]
        cut = zip(distinct, parts, short, strict=True)
        truncated = {text for text, part, (_, removed) in cut if removed or len(part) < len(text)}
        unk = self.source.special.unk
        unknown = {text for text, (row, _) in zip(distinct, short, strict=True) if text.strip() and (row["source"] == unk).any()}
        self.encoded += sum(bool(text.strip()) for text in rows)
        self.truncated += sum(text in truncated for text in rows)
        self.unknown += sum(text in unknown for text in rows)
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
        for first in range(0, len(z_NP), BATCH_SIZE):
            part = slice(first, first + BATCH_SIZE)
            yield from self._search(z_NP[part], None if label_N is None else label_N[part], search, first)

    def _search(self, z_BP: np.ndarray, label_B: Tensor | None, search: SearchStrategy, first: int) -> list[list[Hypothesis]]:
        strategy = self.run.evaluation().search if search is None else search
        searcher: Any = strategy if isinstance(strategy, Search) else strategy()
        device = next(self.model.parameters()).device
        limits, keys = [max_new_tokens(searcher, self.target)] * len(z_BP), list(range(first, first + len(z_BP)))
        with torch.inference_mode():
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
            texts: Texts, consumed one batch at a time.
            change: Maps a batch of latent codes to new ones; None = unchanged.
            label: Target classes, for class-conditional models.
            search: Decoding strategy; see ``decode``.
            batch_size: Number of texts per batch.
        """
        self.labels.check(label)
        first = 0
        for batch in text_batches(texts, batch_size):
            z_BP = self.encode(batch)
            z_BP = z_BP if change is None else change(z_BP).astype(np.float32)
            own = label if label is None or isinstance(label, str) else label[first : first + len(batch)]
            found = self._search(z_BP, self.labels.indices(own, len(batch)), search, first)
            yield from (self.run.decode(row[0]) if text.strip() else "" for text, row in zip(batch, found, strict=True))
            first += len(batch)
        if label is not None and not isinstance(label, str) and len(label) != first:
            raise ValueError(f"{len(label)} labels for {first} texts; give one for all, or one per text")

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
