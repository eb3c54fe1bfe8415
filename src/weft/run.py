"""A run: four choices and what becomes of them. The same from Python and from YAML."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

import weft.blocks
import weft.models
import weft.objectives  # noqa: F401  (these imports fill the catalog)
from weft.batch import Batch, Hypothesis, Instance, collate
from weft.build import build_network, choose_device, plans
from weft.catalog import Build
from weft.choices import Natural
from weft.data import load_codec
from weft.evaluate import Evaluation, Judged
from weft.evaluate.evaluation import readable
from weft.folder import RunFolder, next_folder
from weft.learning import Stage, read_weights
from weft.recipe import (
    Node,
    Problem,
    Reader,
    RecipeError,
    dump_options,
    from_plain,
    nearest,
    override,
    parse,
    read_file,
    resolve,
    to_yaml,
)
from weft.slots import Classifies, Codec, Data, Learning, Objective, Search, Structure

MOST_TOKENS = 16_384
RECIPES = Path(__file__).parent / "recipes"


class Run:
    """A run is four choices, data, structure, objective and learning; each can be changed without touching the others.

    Args:
        seed: All randomness of the run follows from it.
        device: Where to compute; auto takes the best there is.
        precision: Numbers of the forward and backward pass; weights are kept in fp32.
        data: What there is.
        structure: How it is computed.
        objective: What is to be predicted; or several by name, for learning in phases.
        learning: How the weights move.
        evaluate: How the model is judged.
        stages: What follows, each replacing some of the four parts.
        format: Version of the recipe language.
    """

    def __init__(
        self,
        *,
        seed: Natural = 1,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["fp32", "bf16"] = "fp32",
        data: Build[Data],
        structure: Build[Structure],
        objective: Build[Objective] | dict[str, Build[Objective]],
        learning: Build[Learning],
        evaluate: Build[Evaluation] = Evaluation,
        stages: list[Build[Stage]] | None = None,
        format: Literal[1] = 1,
    ):
        self.seed, self.device, self.precision, self.format = seed, device, precision, format
        self.data, self.structure, self.objective, self.learning = data, structure, objective, learning
        self.evaluate, self.stages = evaluate, stages
        self.model: Any = None
        self.codec: Codec | None = None
        self.objectives: dict[str, Objective] = {}
        self.folder: Path | None = None
        self.name = "run"

    # ---------------------------------------------------------------------------------------------------------- recipe

    def dump(self, *, hashes: bool = False) -> dict[str, Any]:
        """The run as a filled recipe: plain dicts and lists with every default. ``hashes`` adds the SHA-256 of each file."""
        names = ("seed", "device", "precision", "data", "structure", "objective", "learning", "evaluate", "stages", "format")
        filled = dump_options(functools.partial(Run, **{n: getattr(self, n) for n in names}), hashes=hashes)
        return {"format": filled.pop("format"), **filled}

    def to_yaml(self) -> str:
        """The run as the text of a recipe that reads back to exactly this run."""
        return to_yaml(self.dump())

    def checked(self) -> Run:
        """The same run read from its own recipe: every option checked, every part with a place for messages."""
        again = read_tree(from_plain(self.dump(), ""))
        again.name = self.name
        return again

    # ----------------------------------------------------------------------------------------------------- train and use

    def train(self, folder: str | Path | None = None, *, resume: bool = False, quiet: bool = False) -> Judged:
        """Train into a folder (default: the next free ``runs/<name>-<n>``) and return the last evaluation."""
        from weft.display import Display, Terminal
        from weft.train import train

        path = Path(folder) if folder is not None else next_folder(self.name)
        run = self.checked()
        judged = train(run, path, resume=resume, display=Display() if quiet else Terminal())
        self.model, self.codec, self.objectives, self.folder = run.model, run.codec, run.objectives, run.folder
        return judged

    def generate(self, texts: Iterable[str], search: Search | Build[Search] | None = None, n_best: int = 1) -> list[Any]:
        """The answer to each text (with ``n_best`` > 1 a list of them), in order."""
        found = list(self.search_all(texts, search))
        if n_best == 1:
            return [self.text_of(row[0]) for row in found]
        return [[self.text_of(h) for h in row[:n_best]] for row in found]

    def search_all(
        self, texts: Iterable[str], search: Search | Build[Search] | None = None, batch: int = 64
    ) -> Iterator[list[Hypothesis]]:
        """The hypotheses for each text, best first, as they are found. A language model goes on from the text."""
        codec = self._ready()
        searcher: Any = self.evaluate().search if search is None else search if isinstance(search, Search) else search()
        target = codec.info[codec.info.target]
        given = next((f for f in codec.info.texts() if f.name != target.name), None)
        field, begin, end = (target, [target.special.bos], []) if given is None else (given, [], [given.special.eos])
        encoded = ([*begin, *codec.encode(field.name, text), *end] for text in texts)
        for first, ids in _groups(encoded, batch):
            limits, keys = [searcher.limit(len(i)) for i in ids], list(range(first, first + len(ids)))
            rows = self._batch(**{field.name: ids})
            try:
                with torch.inference_mode():
                    memory = None if given is None else self.model.memory(rows)
                    prompt = rows[field.name] if given is None else None
                    found = searcher(self.model, memory, prompt=prompt, limits=limits, keys=keys)
            except ValueError as error:
                raise ValueError(f"lines {first + 1} to {first + len(ids)}: {error}") from None
            yield from found

    def _batch(self, **rows: list[list[int]]) -> Batch:
        """Rows of ids by field, padded, where the model is."""
        names, columns = list(rows), list(rows.values())
        instances = [Instance(zip(names, map(np.array, row), strict=True)) for row in zip(*columns, strict=True)]
        return collate(instances).to(next(self.model.parameters()).device)

    def predict(self, texts: Iterable[str], batch: int = 64) -> list[str]:
        """The class of each text."""
        codec = self._ready()
        if not isinstance(self.model, Classifies):
            raise ValueError("this run's structure says no classes: use generate, or train a classifier")
        names, end = codec.info["label"].labels, codec.info["text"].special.eos
        found: list[int] = []
        for _, ids in _groups(([*codec.encode("text", text), end] for text in texts), batch):
            rows = self._batch(text=ids)
            with torch.inference_mode():
                found += self.model.classifier(self.model.features(rows["text"])).argmax(-1).tolist()
        return [names[n] if n < len(names) else str(n) for n in found]

    def judge(self, split: str | None = None, data: Build[Data] | None = None) -> Judged:
        """Evaluate on a split of the run's data, or of other data of the same kind; by default on test, or valid without one."""
        codec = self._ready()
        if data is None and self.folder is not None:  # to be judged by its own data, that must still be there and the same
            data = plans(read_run(RunFolder(self.folder).recipe))[-1].data
        corpus = (data or plans(self)[-1].data)().open(codec)
        split = split or ("test" if "test" in corpus.splits else "valid")
        if split not in corpus.splits:
            raise ValueError(f"there is no split {split!r} in the data (there is: {', '.join(corpus.splits)})")
        objective = next(iter(self.objectives.values()))
        device = next(self.model.parameters()).device
        judged = self.evaluate().judge(self.model, objective, corpus.splits[split], codec, device)
        return replace(judged, split=split)

    def text_of(self, prediction: Any) -> str:
        return readable([prediction] if isinstance(prediction, Hypothesis) else prediction, self._ready())

    def _ready(self) -> Codec:
        if self.model is None or self.codec is None:
            raise ValueError("this run is not trained yet: run.train(folder), or weft.load(folder)")
        return self.codec


def _groups(rows: Iterable[list[int]], most: int) -> Iterator[tuple[int, list[list[int]]]]:
    """Rows in groups, each with the number of its first: at most ``most`` rows, and no padding beyond ``MOST_TOKENS``."""
    group: list[list[int]] = []
    first = width = 0
    for row in rows:
        if group and (len(group) + 1) * max(width, len(row)) > MOST_TOKENS:
            yield first, group
            first, group, width = first + len(group), [], 0
        group.append(row)
        width = max(width, len(row))
        if len(group) == most:  # at once: a person may be waiting for the answer before typing the next line
            yield first, group
            first, group, width = first + len(group), [], 0
    if group:
        yield first, group


# ------------------------------------------------------------------------------------------------------------- reading


def read_run(file: str | Path, overrides: Sequence[str] = (), *, files: bool = True) -> Run:
    """A run from a recipe: a file, or the name of a shipped one. Raises RecipeError with every mistake.

    Args:
        file: The recipe.
        overrides: Assignments ``path=value`` as on the command line.
        files: Whether the files that it names must be there.
    """
    path = find_recipe(file)
    shown = str(file) if path == Path(file) else path.name
    run = read_run_text(read_file(path, shown), shown, path.parent, overrides, files=files)
    run.name = path.stem if path.stem != "recipe" else path.parent.name
    return run


def read_run_text(text: str, shown: str, folder: Path, overrides: Sequence[str] = (), *, files: bool = True) -> Run:
    root = parse(text, shown)
    for assignment in overrides:
        override(root, assignment)
    return read_tree(resolve(root), folder, files=files)


def read_tree(root: Node, folder: Path = Path(), *, files: bool = True) -> Run:
    return Reader(folder, files).root(Run, root)()


def find_recipe(name: str | Path) -> Path:
    """The path of a recipe file, of a run's own recipe, or of a shipped recipe by name."""
    path = Path(name)
    if path.is_dir() and (path / "recipe.yaml").is_file():
        return path / "recipe.yaml"
    if path.exists() or path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        return path
    shipped = shipped_recipes()
    if str(name) in shipped:
        return shipped[str(name)]
    known = ", ".join(shipped)
    raise RecipeError(
        [Problem("", "", f"there is no file or shipped recipe {str(name)!r}{nearest(name, shipped)} (shipped: {known})")]
    )


def shipped_recipes() -> dict[str, Path]:
    return {p.stem: p for p in sorted(RECIPES.glob("*.yaml"))}


def load(folder: str | Path, device: str = "auto") -> Run:
    """Open a trained run's folder: ``weft.load("runs/demo").generate(["3 March 1999"])``."""
    place = RunFolder(folder)
    if not place.path.is_dir():
        raise ValueError(f"there is no folder {place.path}")
    if not place.is_run():
        raise ValueError(f"{place.path} is not a run's folder (it has no recipe.yaml)")
    try:
        run = read_run(place.recipe, files=False)
    except RecipeError as error:
        if plugins := place.plugins():
            raise ValueError(f"{error}\nthis run was made with plug-ins: add --import {' --import '.join(plugins)}") from None
        raise
    if not place.model.is_file():
        raise ValueError(f"{place.path} has no final weights yet: finish it with weft train {place.path} --resume")
    stages = plans(run)
    at = max(p.index for p in stages if p.new_data)
    codec = load_codec(stages[at].data(), place.path if at == 0 else place.path / stages[at].name)
    network = build_network(stages[-1], codec.info, run.seed)
    network.load(read_weights(place.model))
    network.to(choose_device(device)).train(False)
    run.model, run.codec, run.objectives, run.folder = network.model, codec, network.objectives, place.path
    return run
