"""A run: four choices and what becomes of them. The same from Python and from YAML."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

import weft.blocks
import weft.models
import weft.objectives  # noqa: F401  (these imports fill the catalog)
from weft.batch import Hypothesis, Instance, collate
from weft.build import build_network, choose_device, plans
from weft.catalog import Build
from weft.choices import Natural
from weft.data import load_codec
from weft.evaluate import Evaluation, Judged
from weft.evaluate.evaluation import readable
from weft.folder import RunFolder, next_folder
from weft.learning import Stage, read_tensors
from weft.recipe import Node, Problem, Reader, RecipeError, dump_options, nearest, override, parse, read_file, resolve, to_yaml
from weft.slots import Codec, Data, Learning, Objective, Search, Structure

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
        text = self.to_yaml()
        again = read_run_text(text, "run.to_yaml()", Path())
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
        """The hypotheses for each text, best first, as they are found."""
        codec = self._ready()
        searcher: Any = self.evaluate().search if search is None else search if isinstance(search, Search) else search()
        given = [f for f in codec.info.texts() if f.name != codec.info.target]
        number = 0
        for group in _groups(texts, batch):
            instances = [Instance(input=_ids(self, field=(given[0].name if given else codec.info.target), text=t)) for t in group]
            keys = range(number, number + len(group))
            number += len(group)
            yield from self._search(searcher, instances, list(keys), bool(given))

    def _search(self, search: Any, instances: list[Instance], keys: list[int], paired: bool) -> list[list[Hypothesis]]:
        codec = self._ready()
        device = next(self.model.parameters()).device
        lengths = [len(i["input"]) for i in instances]
        with torch.inference_mode():
            if not paired:  # a language model goes on from the text
                special = codec.info[codec.info.target].special
                prompts = [Instance(input=_insert(i["input"], special.bos)) for i in instances]
                prompt = collate(prompts).to(device)["input"]
                return search(self.model, None, prompt=prompt, limits=[search.limit(n) for n in lengths], keys=keys)
            name = next(f for f in codec.info.texts() if f.name != codec.info.target)
            batch = collate([Instance(**{name.name: _append(i["input"], name.special.eos)}) for i in instances]).to(device)
            limits = [search.limit(n + 1) for n in lengths]
            return search(self.model, self.model.memory(batch), limits=limits, keys=keys)

    def predict(self, texts: Iterable[str]) -> list[str]:
        """The class of each text."""
        codec = self._ready()
        field, label = codec.info["text"], codec.info["label"]
        device = next(self.model.parameters()).device
        found: list[str] = []
        with torch.inference_mode():
            for group in _groups(texts, 64):
                ids = [_append(codec.encode("text", t), field.special.eos) for t in group]
                batch = collate([Instance(text=i) for i in ids]).to(device)
                numbers = self.model.classifier(self.model.features(batch["text"])).argmax(-1).tolist()
                found += [label.labels[n] if n < len(label.labels) else str(n) for n in numbers]
        return found

    def judge(self, split: str = "test", data: Build[Data] | None = None) -> Judged:
        """Evaluate on a split of the run's data, or of other data of the same kind."""
        codec = self._ready()
        corpus = (data or plans(self)[-1].data)().open(codec)
        if split not in corpus.splits:
            raise ValueError(f"there is no split {split!r} in the data (there is: {', '.join(corpus.splits)})")
        objective = next(iter(self.objectives.values()))
        device = next(self.model.parameters()).device
        return self.evaluate().judge(self.model, objective, corpus.splits[split], codec, device)

    def text_of(self, prediction: Any) -> str:
        return readable([prediction] if isinstance(prediction, Hypothesis) else prediction, self._ready())

    def _ready(self) -> Codec:
        if self.model is None or self.codec is None:
            raise ValueError("this run is not trained yet: run.train(folder), or weft.load(folder)")
        return self.codec


def _groups(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    group: list[str] = []
    for text in texts:
        group.append(text)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _ids(run: Run, field: str, text: str) -> Any:
    return run._ready().encode(field, text)


def _append(ids: Any, end: int) -> Any:
    import numpy as np

    return np.append(ids, end).astype(np.int64)


def _insert(ids: Any, begin: int) -> Any:
    import numpy as np

    return np.insert(ids, 0, begin).astype(np.int64)


# ------------------------------------------------------------------------------------------------------------- reading


def read_run(file: str | Path, overrides: Sequence[str] = ()) -> Run:
    """A run from a recipe: a file, or the name of a shipped one. Raises RecipeError with every mistake."""
    path = find_recipe(file)
    shown = str(file) if path == Path(file) else path.name
    run = read_run_text(read_file(path, shown), shown, path.parent, overrides)
    run.name = path.stem if path.stem != "recipe" else path.parent.name
    return run


def read_run_text(text: str, shown: str, folder: Path, overrides: Sequence[str] = ()) -> Run:
    root = parse(text, shown)
    problems: list[Problem] = []
    for assignment in overrides:
        try:
            override(root, assignment)
        except RecipeError as error:
            problems += error.problems
    if problems:
        raise RecipeError(problems)
    return read_tree(resolve(root), folder)


def read_tree(root: Node, folder: Path = Path()) -> Run:
    return Reader(folder).root(Run, root)()


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
        run = read_run(place.recipe)
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
    network.load(read_tensors(place.model))
    network.to(choose_device(device)).train(False)
    run.model, run.codec, run.objectives, run.folder = network.model, codec, network.objectives, place.path
    return run
