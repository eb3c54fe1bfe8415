"""What can be done with the latent space of a trained run: read, write, walk, steer. N texts, P width of the space."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Instance, collate
from weft.core.contracts import Latent, Search
from weft.core.outputs import Hypothesis
from weft.core.registry import Build
from weft.data.encoding import assemble, encode, rows_of, truncate
from weft.data.text_files import TextWithLabel, class_and_file, read_labeled_texts, read_texts
from weft.evaluate.subsample import subsample
from weft.inference.load import load
from weft.inference.trained_run import TrainedRun
from weft.recipe import nearest
from weft.systems.latent_text.evaluate.samples import most_tokens, places

BUDGET = 4096
"""Places of a batch that is read, padding included."""
BATCH = 64
"""Texts of a batch that is written."""
MOST_SCALE = 1_000_000
"""Beyond it there are no texts, and soon no numbers."""
SPLITS = ("train", "valid", "test")
How = Literal["linear", "spherical"]
Labels = str | Sequence[str] | None
"""The class that texts are to have: one for all, one for each, or none."""
Searching = Search | Build[Search] | None
"""How texts are written; None = as the recipe says for evaluation, which is greedy where it says nothing."""
_COMMANDS = {
    "weft generate": {"Decodes"},
    "weft predict": {"Classifies", "Tags", "ScoresChoices", "ExtractsSpans", "PredictsMasked"},
    "weft embed": {"Encodes"},
}


class Step(NamedTuple):
    """A place on the way from one text to another: how far it is, and what is written there."""

    tau: float
    text: str


def open_latent(folder: str | Path, device: str = "auto") -> LatentSpace:
    """The latent space of a trained run: ``open_latent("runs/vae").interpolate("the food was good", "we had to wait")``."""
    return LatentSpace(load(folder, device))


def commands_for(run: TrainedRun) -> list[str]:
    """The commands that can do something with a run, by what its structure provides."""
    provided = {p.__name__ for p in run.model.provides()}
    found = {command: command for command, any_of in _COMMANDS.items() if any_of & provided}
    if Latent.__name__ not in provided:
        return list(found)
    labelled = bool(run.model.labelled)
    if labelled or run.model.samples_by_label:
        found["weft generate"] = "weft generate --label CLASS"
    return [*(["weft transfer --to CLASS"] if labelled else []), *found.values(), "weft latent"]


class LatentSpace:
    """The space between what a run reads and what it writes.

    Texts are read to the means of their posteriors. What is written of a place depends on that place, on the class that the text
    is to have (for models that heed one) and on the search alone, not on the other texts of a batch; what is drawn at random
    follows from its seed and its number. Of the texts that were read, blank ones apart (``read``), those that are longer than
    those of training are cut and counted in ``cut``; those with words that the encoder's vocabulary has not, in ``unknown``.

    Args:
        run: A trained run whose structure has a latent space, such as ``text-vae``.
    """

    def __init__(self, run: TrainedRun):
        if Latent not in run.model.provides():
            can = commands_for(run)
            what = f"there is {' and '.join(can)} for it" if can else "train a text-vae, for example"
            raise ValueError(f"{run.folder or 'this run'} has no latent space, as a text-vae has one: {what}")
        self.run, self.codec = run, run.codec
        self.model: Any = run.model
        self.source, self.target = self.codec.info["source"], self.codec.info["target"]
        self.width: int = self.model.latent
        self.classes: tuple[str, ...] = self.codec.info["label"].labels if "label" in self.codec.info else ()
        self.read = self.cut = self.unknown = 0

    # ---------------------------------------------------------------------------------------------------------------- read

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """N x P: the mean of each text's posterior. Texts of one length are read together, and equal texts once."""
        rows = _listed(texts)
        different = list(dict.fromkeys(rows))
        values = rows_of(encode(self.codec, [{"source": text} for text in different])) if different else []
        short = [truncate(self.codec.info, row) for row in values]
        lost = {text for text, (_, tokens) in zip(different, short, strict=True) if tokens}
        unk = self.source.special.unk
        strange = {text for text, (row, _) in zip(different, short, strict=True) if text.strip() and (row["source"] == unk).any()}
        self.read += sum(bool(text.strip()) for text in rows)
        self.cut += sum(text in lost for text in rows)
        self.unknown += sum(text in strange for text in rows)
        read = [self.source.frame.around([assemble(self.codec.info, row)["source"]]) for row, _ in short]
        found = np.zeros((len(different), self.width), np.float32)
        order = sorted(range(len(read)), key=lambda i: -len(read[i]))
        device = next(self.model.parameters()).device
        start = 0
        with torch.inference_mode():
            while start < len(order):
                some = order[start : start + max(1, BUDGET // max(1, len(read[order[start]])))]
                batch = collate([Instance(source=read[i]) for i in some], some).to(device)
                found[some] = self.model.posterior(batch["source"]).mean_BP.float().cpu().numpy()
                start += len(some)
        place = {text: at for at, text in enumerate(different)}
        return found[[place[text] for text in rows]]

    # --------------------------------------------------------------------------------------------------------------- write

    def write(self, z: Any, label: Labels = None, search: Searching = None) -> list[str]:
        """The text that is written at each place.

        Args:
            z: N x P places.
            label: The class that each text is to have; for models that heed it.
            search: ``partial(Sampling, top_p=0.9)``, ``partial(BeamSearch, width=4)`` and so on; see ``Searching``.
        """
        self._check_label(label)
        return [self.run.decode(row[0]) for row in self.search_all(self._places(z), label, search)]

    def search_all(self, z_NP: np.ndarray, label: Labels = None, search: Searching = None) -> Iterator[list[Hypothesis]]:
        """What was found at each place, best first. A class that the model does not heed changes nothing."""
        label_N = self._numbers(label, len(z_NP))
        for first in range(0, len(z_NP), BATCH):
            part = slice(first, first + BATCH)
            yield from self._search(z_NP[part], None if label_N is None else label_N[part], search, first)

    def _search(self, z_BP: np.ndarray, label_B: Tensor | None, search: Searching, first: int) -> list[list[Hypothesis]]:
        judged = self.run.evaluation().search if search is None else search
        searcher: Any = judged if isinstance(judged, Search) else judged()
        device = next(self.model.parameters()).device
        limits, keys = [most_tokens(searcher, self.target)] * len(z_BP), list(range(first, first + len(z_BP)))
        with torch.inference_mode():
            label_B = None if label_B is None else label_B.to(device)
            memory = self.model.memory_from(torch.from_numpy(z_BP).to(device), label_B)
            return searcher(self.model, memory, limits=limits, keys=keys)

    def rewrite(
        self,
        texts: Iterable[str],
        change: Callable[[np.ndarray], np.ndarray] | None = None,
        label: Labels = None,
        search: Searching = None,
        batch: int = BATCH,
    ) -> Iterator[str]:
        """Each text read, its place changed, and written again, as they come: so many at a time. A blank text stays empty."""
        self._check_label(label)
        first = 0
        for group in _groups(texts, batch):
            z_BP = self.encode(group)
            z_BP = z_BP if change is None else change(z_BP).astype(np.float32)
            own = label if label is None or isinstance(label, str) else label[first : first + len(group)]
            found = self._search(z_BP, self._numbers(own, len(group)), search, first)
            yield from (self.run.decode(row[0]) if text.strip() else "" for text, row in zip(group, found, strict=True))
            first += len(group)
        if label is not None and not isinstance(label, str) and len(label) != first:
            raise ValueError(f"{len(label)} classes for {first} texts: give one for each, or one for all")

    def reconstruct(self, texts: Iterable[str], label: Labels = None, search: Searching = None) -> list[str]:
        """Each text read and written again: what the space keeps of it."""
        return list(self.rewrite(texts, None, label, search))

    # ----------------------------------------------------------------------------------------------------------------- draw

    def draw(self, number: int, label: Labels = None, seed: int = 0) -> np.ndarray:
        """N x P places as nobody has read them. The k-th depends on the seed, k and its class alone."""
        if number < 0:
            raise ValueError(f"{number} places cannot be drawn: give 0 or more")
        label_N = self._numbers(label, number)
        with torch.inference_mode():
            return places(self.model, number, label_N, seed).cpu().numpy()

    def sample(self, number: int, label: Labels = None, seed: int = 0, search: Searching = None) -> list[str]:
        """Texts as nobody has written them; of a class, for models that heed one. The k-th depends on the seed and on k alone."""
        label = self.wanted(number, label)
        return [self.run.decode(row[0]) for row in self.search_all(self.draw(number, label, seed), label, search)]

    def wanted(self, number: int, label: Labels = None) -> Labels:
        """The classes of texts that are drawn: those given, or all of them in turn where the model heeds a class."""
        if not self.samples_by_label:
            if label is not None:
                raise ValueError(f"{self._name} draws texts of no class: {self._instead()}")
            return None
        if label is None:
            return [self.classes[row % len(self.classes)] for row in range(number)]
        for name in [label] if isinstance(label, str) else label:
            self._number(name)
        return label

    # ----------------------------------------------------------------------------------------------------------------- walk

    def interpolate(
        self, a: str, b: str, steps: int = 11, how: How = "linear", label: Labels = None, search: Searching = None
    ) -> list[Step]:
        """The texts on the way from one to the other; the first and the last are those that ``reconstruct`` gives.

        linear: z = (1 - tau) z_a + tau z_b;  spherical: z = (sin((1 - tau) w) z_a + sin(tau w) z_b) / sin w, w the angle between

        Spherical: Shoemake 1985; for latent spaces White 2016, https://arxiv.org/abs/1609.04468

        Args:
            a: Where the way begins.
            b: Where it ends.
            steps: How many texts, both ends included.
            how: Straight, or on an arc, which stays as far from the origin as its ends.
            label: The class of all texts, for models that heed it.
            search: See ``write``.
        """
        if steps < 2:
            raise ValueError(f"{steps} steps leave no way: both ends count, so give 2 or more")
        z_a, z_b = self.encode([a, b])
        taus = [step / (steps - 1) for step in range(steps)]
        texts = self.write(np.stack([between(z_a, z_b, tau, how) for tau in taus]), label, search)
        return [Step(tau, text) for tau, text in zip(taus, texts, strict=True)]

    def analogy(self, a: str, b: str, c: str, scale: float = 1.0, label: Labels = None, search: Searching = None) -> str:
        """What is to ``c`` as ``b`` is to ``a``: z = z_c + scale (z_b - z_a)."""
        z_a, z_b, z_c = self.encode([a, b, c])
        return self.write((z_c + _scaled(scale) * (z_b - z_a))[None], label, search)[0]

    def arithmetic(self, terms: Sequence[tuple[float, str]], label: Labels = None, search: Searching = None) -> str:
        """The text at a sum of places: z = sum_i scale_i z_i. Terms are scales with texts; see ``read_terms``."""
        if not terms:
            raise ValueError("there are no terms to add: give at least one")
        z_NP = self.encode([text for _, text in terms])
        scale_N = np.array([_scaled(scale) for scale, _ in terms], np.float32)
        return self.write((scale_N @ z_NP)[None], label, search)[0]

    # ---------------------------------------------------------------------------------------------------------------- steer

    def direction(self, towards: Iterable[str], away: Iterable[str], scale: float = 1.0) -> np.ndarray:
        """P: the mean of the texts ``towards``, less that of the texts ``away``, times the scale."""
        groups = [_listed(towards), _listed(away)]
        for name, group in zip(("towards", "away"), groups, strict=True):
            if not group:
                raise ValueError(f"there are no texts in {name}: a direction needs some on both sides")
        z_NP = self.encode([*groups[0], *groups[1]]).astype(np.float64)
        along_P = z_NP[: len(groups[0])].mean(0) - z_NP[len(groups[0]) :].mean(0)
        return (_scaled(scale) * along_P).astype(np.float32)

    def guide(
        self,
        texts: Iterable[str],
        towards: Iterable[str],
        away: Iterable[str],
        scale: float = 1.0,
        label: Labels = None,
        search: Searching = None,
    ) -> list[str]:
        """Each text moved from one group of texts to another: z = z_x + scale (mean z_towards - mean z_away)."""
        along_P = self.direction(towards, away, scale)
        return list(self.rewrite(texts, lambda z_BP: z_BP + along_P, label, search))

    def transfer(self, texts: Iterable[str], label: Labels, search: Searching = None) -> list[str]:
        """Each text written again as one of another class, for models that heed the class when they write."""
        self.check_transfer(label)
        return list(self.rewrite(texts, None, label, search))

    def check_transfer(self, label: Labels) -> None:
        """Raises ValueError where texts cannot be rewritten to be of this class."""
        if not self.labelled:
            raise ValueError(f"{self._name} cannot rewrite a text to be of a class: {self._instead(label)}")
        if label is None:
            raise ValueError(f"a class is needed to rewrite texts: {_or(self.classes)}")
        self._check_label(label)

    # -------------------------------------------------------------------------------------------------------------- classes

    @property
    def labelled(self) -> bool:
        """Whether a text can be rewritten to be of another class."""
        return bool(self.model.labelled)

    @property
    def samples_by_label(self) -> bool:
        """Whether texts of a class can be drawn."""
        return bool(self.model.labelled or self.model.samples_by_label)

    @property
    def _name(self) -> str:
        return f"{self.run.folder or 'this run'} ({type(self.model).__name__})"

    def _instead(self, label: Labels = None) -> str:
        named = label if isinstance(label, str) and label in self.classes else next(iter(self.classes), "")
        drawn = f"texts of a class can be drawn (weft generate RUN --label {named}); " if self.samples_by_label else ""
        how = "guide moves texts from one group to another (weft latent RUN steer --target FILE --source FILE)"
        return f"{drawn}it writes from the place alone, but {how}"

    def _check_label(self, label: Labels) -> None:
        """A class must be given where the model heeds it when it writes, and only there."""
        if label is None and self.labelled:
            option = f"--label {self.classes[0]}, on the command line"
            raise ValueError(f"{self._name} writes texts of a class, and none was given: {_or(self.classes)} ({option})")
        if label is not None and not self.labelled:
            raise ValueError(f"{self._name} heeds no class when it writes: {self._instead(label)}")
        for name in [label] if isinstance(label, str) else label or ():
            self._number(name)

    def _number(self, name: str) -> int:
        if name not in self.classes:
            known = f"it has: {', '.join(self.classes)}" if self.classes else "it has none"
            raise ValueError(f"{self._name} has no class {name!r}{nearest(name, self.classes)} ({known})")
        return self.classes.index(name)

    def _numbers(self, label: Labels, rows: int) -> Tensor | None:
        """The classes as numbers, one for each row."""
        if label is None:
            return None
        names = [label] * rows if isinstance(label, str) else label
        if len(names) != rows:
            raise ValueError(f"{len(names)} classes for {rows} texts: give one for each, or one for all")
        return torch.tensor([self._number(name) for name in names], dtype=torch.long)

    def _places(self, z: Any) -> np.ndarray:
        found = np.asarray(z, np.float32)
        if found.ndim != 2 or found.shape[1] != self.width:
            raise ValueError(f"places are N x {self.width} numbers, but these are {' x '.join(map(str, found.shape)) or 'one'}")
        if not np.isfinite(found).all():
            raise ValueError("some places have numbers that are not finite")
        return found


def between(a_P: np.ndarray, b_P: np.ndarray, tau: float, how: How = "linear") -> np.ndarray:
    """The place at ``tau`` between two; exactly the first at 0 and the second at 1.

    On an arc (spherical), where there is one: between places in one line with the origin it is the straight way.

    >>> between(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.5, "spherical").round(4).tolist()
    [0.7071, 0.7071]
    """
    if how not in ("linear", "spherical"):
        raise ValueError(f"there is no way {how!r}: it is linear or spherical")
    a, b = np.asarray(a_P, np.float64), np.asarray(b_P, np.float64)
    first, second = 1 - tau, tau
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    angle = np.arccos(np.clip(a @ b / lengths, -1, 1)) if how == "spherical" and lengths > 0 else 0.0
    if np.sin(angle) > 1e-6:
        first, second = np.sin((1 - tau) * angle) / np.sin(angle), np.sin(tau * angle) / np.sin(angle)
    return (first * a + second * b).astype(np.asarray(a_P).dtype)


def read_terms(words: Sequence[str]) -> list[tuple[float, str]]:
    """Scales with texts, from words of a command line: texts with + or - between them, and numbers before them.

    The sign may be that of the number.

    >>> read_terms(["good food", "-", "0.5", "food", "+", "staff"])
    [(1.0, 'good food'), (-0.5, 'food'), (1.0, 'staff')]
    >>> read_terms(["-0.5", "food", "+2", "staff"])
    [(-0.5, 'food'), (2.0, 'staff')]
    """
    found: list[tuple[float, str]] = []
    rest = list(words)
    while rest:
        sign, scale = 1.0, 1.0
        if rest[0] in ("+", "-"):
            sign = -1.0 if rest.pop(0) == "-" else 1.0
        elif found and not (rest[0][0:1] in ("+", "-") and _is_scale(rest)):
            raise ValueError(f"between {found[-1][1]!r} and {rest[0]!r} there is no sign: put + or - there, as a word of its own")
        if _is_scale(rest):
            scale = float(rest.pop(0))
        if not rest or rest[0] in ("+", "-"):
            raise ValueError(f"there is no text after {words[len(words) - len(rest) - 1]!r}: give one after every sign")
        found.append((sign * scale, rest.pop(0)))
    return found


def _is_scale(words: Sequence[str]) -> bool:
    """Whether the first word is a number before a text."""
    numeric = len(words) > 1 and re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", words[0])
    return bool(numeric) and words[1] not in ("+", "-")


def texts_at(run: TrainedRun, places: Sequence[str], most: int) -> list[TextWithLabel]:
    """Texts with their classes, as far as these are known: of a file, of a split of the run's data, or of files named with their
    class (CLASS=FILE); not all, where they are more than wanted."""
    place = places[0]
    if len(places) > 1 and (split := next((one for one in places if one in SPLITS and not Path(one).is_file()), None)):
        raise ValueError(f"{split} is a split of the run's data, which stands alone: give it, or files")
    if len(places) > 1 or class_and_file(place) is not None:
        return subsample(read_labeled_texts(places), most)
    if Path(place).is_file():
        return subsample(read_texts(place), most)
    if place not in SPLITS:
        raise ValueError(f"there is no file {place}, and splits are called {', '.join(SPLITS)}")
    dataset = run.dataset(place)[1]
    raw = (dataset.raw(row) for row in subsample(range(len(dataset)), most))
    return [TextWithLabel(row["source"], row.get("label")) for row in raw]


def _listed(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise ValueError(f"give a list of texts: [{texts[:40]!r}]")
    return list(texts)


def _groups(texts: Iterable[str], most: int) -> Iterator[list[str]]:
    if isinstance(texts, str):
        raise ValueError(f"give a list of texts: [{texts[:40]!r}]")
    group: list[str] = []
    for text in texts:
        group.append(text)
        if len(group) == most:  # at once: a person may be waiting for the answer before typing the next line
            yield group
            group = []
    if group:
        yield group


def _scaled(scale: float) -> float:
    if not abs(scale) <= MOST_SCALE:
        raise ValueError(f"the scale is {scale:g}, but it must be a number between -{MOST_SCALE:,} and {MOST_SCALE:,}")
    return scale


def _or(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names))
