"""A run: four choices and what becomes of them. The same from Python and from YAML."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch

from weft.core.batch import Batch, Clock, Instance, collate
from weft.core.contracts import Codec, Data, Dataset, Decodes, Latent, Learning, Objective, Search, Structure
from weft.core.example import Example, Sequences, between
from weft.core.fields import Field, Info
from weft.core.io import read_json
from weft.core.options import Natural
from weft.core.outputs import Hypothesis, MaskPrediction
from weft.core.registry import Build, base_of, choices, name_of
from weft.core.seq import Seq
from weft.data import example_of, load_codec, with_masks
from weft.data.requests import Asked, Reading, cells_of, is_pair, read_apart
from weft.data.text_files import class_and_file
from weft.evaluate import Evaluation, EvaluationResult
from weft.evaluate.evaluation import readable
from weft.generate.frontier import positions
from weft.inspect.architecture import StageNetwork
from weft.learning import read_weights
from weft.pretrained.generation_config import GENERATION, beginning
from weft.recipe import (
    Node,
    Problem,
    Reader,
    RecipeError,
    change,
    dump_options,
    from_plain,
    nearest,
    parse,
    read_file,
    resolve,
    to_yaml,
)
from weft.training.build import build_network, choose_device, plans, with_data
from weft.training.catalog import fill_catalog
from weft.training.run_folder import RunFolder, next_folder
from weft.training.stages import Stage

fill_catalog()

MOST_TOKENS = 16_384
RECIPES = Path(__file__).parent.parent / "recipes"


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
        self.begin: tuple[int, ...] | None = None
        """Ids that a text which is written begins with; None = the begin mark, as weft trains it."""
        self.pair: Reading | None = None
        """How two texts are read where one is usual: a published classifier does not say whether it is of texts or of pairs."""
        self.cut = 0
        """How many rows that were asked are longer than those of training, so that only their first part was read."""
        self.name = "run"
        self.copies: dict[str, str] = {}
        """Of its recipe: the paths of references, and what each copies."""

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

    def judging(self) -> Evaluation:
        """How the last stage is judged, and the run after it."""
        return plans(self)[-1].evaluate()

    def networks(self) -> list[StageNetwork]:
        """Build model and objectives of every stage, without opening a corpus; of a trained run, return those that it has.

        This is what ``weft.inspect.architecture(run)`` draws.
        """
        from weft.training.stage_networks import stage_networks

        return stage_networks(self)

    def _repr_html_(self) -> str:
        from weft.training.run_html import run_html

        return run_html(self)

    # ----------------------------------------------------------------------------------------------------- train and use

    def train(self, folder: str | Path | None = None, *, resume: bool = False, quiet: bool = False) -> EvaluationResult:
        """Train into a folder (default: the next free ``runs/<name>-<n>``) and return the last evaluation."""
        from weft.training.display import Display, Terminal
        from weft.training.trainer import train

        path = Path(folder) if folder is not None else next_folder(self.name)
        run = self.checked()
        judged = train(run, path, resume=resume, display=Display() if quiet else Terminal())
        self.model, self.codec, self.objectives, self.folder = run.model, run.codec, run.objectives, run.folder
        return judged

    def generate(self, texts: Iterable[str], search: Search | Build[Search] | None = None, n_best: int = 1) -> list[Any]:
        """The answer to each text (with ``n_best`` > 1 a list of them), in order."""
        with self._saying_what_is_cut():
            found = list(self.search_all(texts, search))
        if n_best == 1:
            return [self.text_of(row[0]) for row in found]
        return [[self.text_of(h) for h in row[:n_best]] for row in found]

    def search_all(
        self, texts: Iterable[str], search: Search | Build[Search] | None = None, batch: int = 64
    ) -> Iterator[list[Hypothesis]]:
        """The hypotheses for each text, best first, as they are found. A language model goes on from the text."""
        codec = self._ready()
        if Decodes not in self.model.provides():
            raise ValueError(f"{self.name} has nothing that writes text: ask it with predict")
        if getattr(self.model, "labelled", False):
            raise ValueError(
                f"{self.name} writes texts of a class: weft.systems.latent_text.space.open_latent(RUN).transfer(texts, CLASS) "
                "rewrites, and .sample(number, CLASS) draws some"
            )
        if isinstance(texts, str):
            raise ValueError(f"give a list of texts: generate([{texts[:40]!r}])")
        texts = (_a_text(text, number) for number, text in enumerate(texts, 1))
        searcher: Any = self.judging().search if search is None else search if isinstance(search, Search) else search()
        target = codec.info[codec.info.target]
        given = read_apart(self.model, codec.info)
        field = target if given is None else given
        if given is None:
            examples = (self._prompt(text, target, line) for line, text in enumerate(texts, 1))
        else:
            examples = (given.frame.around([example_of(codec, {field.name: text}, self._cut)[field.name]]) for text in texts)
        for first, group in _groups(examples, batch):
            limits, keys = [searcher.limit(len(row)) for row in group], list(range(first, first + len(group)))
            rows = self._batch([Instance({field.name: row}) for row in group])
            try:
                with torch.inference_mode():
                    memory = None if given is None else self.model.memory(rows)
                    prompt = rows[field.name] if given is None else self._begun(len(group))
                    found = searcher(self.model, memory, prompt=prompt, limits=limits, keys=keys)
            except ValueError as error:
                raise ValueError(f"lines {first + 1} to {first + len(group)}: {error}") from None
            yield from found

    def _cut(self, tokens: int) -> None:
        self.cut += 1

    @contextmanager
    def _saying_what_is_cut(self) -> Iterator[None]:
        before = self.cut
        yield
        if self.cut > before:
            warnings.warn(self.said_cut(self.cut - before), stacklevel=4)

    def said_cut(self, rows: int) -> str:
        """What is to be said of rows that were read in part."""
        length = max(f.length for f in self._ready().info.tokenized())
        return f"of {rows:,} rows that are longer than {length} tokens, only the first part was read"

    def _prompt(self, text: str, target: Field, line: int) -> Any:
        """What a language model goes on from: the text behind what it begins with; of an empty one, the begin mark."""
        codec, most = self._ready(), positions(self.model)
        ids = example_of(codec, {target.name: text}, self._cut)[target.name]
        begin = () if self.begin == () and len(ids) else self.begin or (target.special.bos,)
        if -1 in begin:
            raise ValueError(f"line {line} is empty, and this model's tokenizer has no id that begins a text")
        # as it was trained, a run of weft reads of a long text the first part
        tokens = len(begin) + (len(ids) if self.begin is None else len(codec.encode(target.name, text)))
        if most is not None and tokens > most:
            raise ValueError(f"line {line} has {tokens} tokens, but the model has {most} positions: give a shorter text")
        return between(begin, ids, [])

    def _begun(self, rows: int) -> Seq | None:
        if self.begin is None:
            return None
        return Seq(torch.tensor([self.begin] * rows, device=next(self.model.parameters()).device))

    def _batch(self, instances: Sequence[Instance]) -> Batch:
        return collate(instances, range(len(instances))).to(next(self.model.parameters()).device)

    def predict(self, texts: Iterable[Asked], batch: int = 64) -> list[str]:
        """The answer to each text as the data writes it: a class, tags, a number, an excerpt; of a run that was trained by
        ``masked-lm``, the best token at each <mask> of the text, with tabs between them. Rows of several texts are tuples,
        or dicts by field, with a list where a field has several: ``{"question": "Two?", "choices": ["1 + 1", "1 + 2"]}``. An
        image is said by its file's name."""
        with self._saying_what_is_cut():
            return [answer.text for answer in self.predict_all(texts, batch)]

    def predict_all(self, texts: Iterable[Asked], batch: int = 64) -> Iterator[Answer]:
        """The answers as they are found, with the probability of each class where there are classes."""
        codec, objective = self._ready(), next(iter(self.objectives.values()))
        search = self.judging().search
        if isinstance(texts, str):
            raise ValueError(f"give a list of texts: predict([{texts[:40]!r}])")
        if not set(objective.needs) <= set(self.model.provides()):
            raise ValueError(f"{self.name} says nothing of a text: for its vector there is weft embed")
        if Latent in self.model.provides():
            raise ValueError(
                f"{self.name} does not say the class of a text, it writes texts: "
                "weft.systems.latent_text.space.open_latent(RUN) does that"
            )
        done, masked = 0, with_masks(codec) if objective.fills else None
        for group in _batched((self.cells(text) for text in texts), batch):
            readings = [self.reading(row) for row in group]
            examples = [example_of(masked or read.codec, row, self._cut) for read, row in zip(readings, group, strict=True)]
            prepared = [
                _ask(read.objective, example, number) if _has_words(codec.info, row) else None
                for number, (read, row, example) in enumerate(zip(readings, group, examples, strict=True), done + 1)
            ]
            kept = [instance for instance in prepared if instance is not None]
            found: Iterator[tuple[Any, list[float]]] = iter(())
            if kept:
                rows = self._batch(kept)
                rows = replace(rows, rows=tuple(done + n for n, instance in enumerate(prepared, 1) if instance is not None))
                with torch.inference_mode(), rows.naming("those asked", 1):
                    predictions = objective.predict(self.model, rows, search)
                    shares = objective.probabilities(self.model, rows)
                found = zip(predictions, shares.tolist() if shares is not None else [[]] * len(kept), strict=True)
            done += len(group)
            labels = codec.info["label"].labels if "label" in codec.info else ()
            kind = next((f.kind for f in codec.info.fields.values() if f.name in ("label", "tags")), "text")
            for row, instance, example in zip(group, prepared, examples, strict=True):
                prediction, share = next(found) if instance is not None else (None, [])
                text = "" if prediction is None else readable(prediction, codec, row)
                number = next((len(value) for value in example.values() if isinstance(value, Sequences)), len(labels))
                shares = dict(zip(labels[:number], share[:number], strict=True)) if share else {}
                yield Answer(text, shares, _kind(prediction) or kind)

    def reading(self, asked: Asked) -> Reading:
        """How a row is read: as those of training; by a published classifier, as one text or as a pair."""
        if self.pair is not None and is_pair(asked):
            return self.pair
        return Reading(self._ready(), next(iter(self.objectives.values())))

    def cells(self, asked: Asked) -> dict[str, str]:
        """The cells of a row that is asked. Raises ValueError where texts are missing or too many."""
        return cells_of(self.reading(asked).codec.info, asked)

    def judge(self, split: str | None = None, files: Sequence[str | Path] = ()) -> EvaluationResult:
        """Evaluate on a split of the run's data (by default test, or valid without one), or on other files of the same kind."""
        codec, (name, dataset) = self._ready(), self.rows(split, files)
        objective = next(iter(self.objectives.values()))
        device = next(self.model.parameters()).device
        return replace(self.judging().judge(self.model, objective, dataset, codec, device), split=name)

    def rows(self, split: str | None = None, files: Sequence[str | Path] = ()) -> tuple[str, Dataset]:
        """A split of the run's data, or other files of the same kind (CLASS=FILE where each class has its own); with its name."""
        codec = self._ready()
        if files and split:
            raise ValueError(f"either a split of the run's own data ({split}), or other files: not both")
        if files:
            data = plans(self)[-1].data
            data = functools.partial(data, test=_places(files, data))
            return "files", data().open(codec, only=("test",)).splits["test"]
        # to be judged by its own data, that must still be there and the same
        own = plans(read_run(RunFolder(self.folder).recipe)) if self.folder is not None else plans(self)
        data = own[-1].data()
        wanted = (split,) if split else ("test", "valid")
        splits = data.open(codec, only=wanted).splits
        name = next((name for name in wanted if name in splits), None)
        if name is None:
            there = ", ".join(data.open(codec).splits)
            raise ValueError(f"there is no split {' or '.join(map(repr, wanted))} in the data (there is: {there})")
        return name, splits[name]

    def errors(self, split: str | None = None, files: Sequence[str | Path] = (), most: int = 20) -> list[Error]:
        """The rows that the run is most wrong about: those of the largest loss (per token, where there are several)."""
        codec, (_, dataset) = self._ready(), self.rows(split, files)
        objective = next(iter(self.objectives.values()))
        losses: list[tuple[float, int, Instance]] = []
        with torch.inference_mode():
            for row in range(len(dataset)):
                instance = objective.prepare(dataset[row], np.random.default_rng(0), dataset)
                if instance is not None:
                    loss = objective(self.model, self._batch([instance]), Clock()).mean().item()
                    losses.append((loss, row, instance))
            worst = sorted(losses, key=lambda found: -found[0])[:most]
            found: list[Error] = []
            for loss, row, instance in worst:
                try:
                    predicted = objective.predict(self.model, self._batch([instance]), self.judging().search)[0]
                    answer = readable(predicted, codec, dataset.raw(row))
                except ValueError:  # a language model answers nothing
                    answer = ""
                found.append(Error(row, loss, answer, dataset.raw(row)))
        return found

    def text_of(self, prediction: Any) -> str:
        return readable([prediction] if isinstance(prediction, Hypothesis) else prediction, self._ready(), {})

    def _ready(self) -> Codec:
        if self.model is None or self.codec is None:
            raise ValueError("this run is not trained yet: run.train(folder), or weft.load(folder)")
        return self.codec


@dataclass(frozen=True)
class Answer:
    """What was predicted of a row as the data writes it, the probability of each class where there are classes, and the kind of
    the field that was predicted."""

    text: str
    probabilities: dict[str, float]
    kind: str = "label"

    def value(self) -> str | float | list[str]:
        """The answer as JSON says it: a number, a list of tags or of classes, else a text."""
        if self.kind == "number":
            return float(self.text)
        if self.kind in ("tags", "labels"):
            return self.text.split(" " if self.kind == "tags" else "\t") if self.text else []
        return self.text


@dataclass(frozen=True)
class Error:
    """A row that a run is wrong about: its number, its loss, what was predicted, and the row as it was written."""

    row: int
    loss: float
    prediction: str
    reference: dict[str, str]


def _kind(prediction: Any) -> str:
    """The kind of a prediction that is about no field, or about the one that is written; "" for any other."""
    if isinstance(prediction, list) and prediction and isinstance(prediction[0], Hypothesis):
        return "text"
    return "labels" if isinstance(prediction, MaskPrediction) else ""


def _ask(objective: Objective, example: Example, number: int) -> Instance | None:
    try:
        return objective.ask(example)
    except ValueError as error:
        raise ValueError(f"row {number} of those asked: {error}") from None


def _a_text(text: Any, number: int) -> str:
    if not isinstance(text, str):
        raise ValueError(f"text {number} is {str(text)[:40]!r}, a {type(text).__name__}: give texts")
    return text


def _has_words(info: Info, row: Mapping[str, str]) -> bool:
    """Whether there is anything to tag: a text that is given as words may have none."""
    return all(row[f.name] for f in info.texts() if f.words)


def _groups(rows: Iterable[Any], most: int) -> Iterator[tuple[int, list[Any]]]:
    """Rows in groups, each with the number of its first: at most ``most`` rows, and no padding beyond ``MOST_TOKENS``."""
    group: list[Any] = []
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


def _batched(rows: Iterable[Mapping[str, str]], most: int) -> Iterator[list[Mapping[str, str]]]:
    group: list[Mapping[str, str]] = []
    for row in rows:
        group.append(row)
        if len(group) == most:
            yield group
            group = []
    if group:
        yield group


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
    run.name = name_of_recipe(path)
    return run


def read_run_text(text: str, shown: str, folder: Path, overrides: Sequence[str] = (), *, files: bool = True) -> Run:
    root = parse(text, shown)
    change(root, overrides)
    return read_tree(resolve(root, choices(Run)), folder, files=files)


def read_tree(root: Node, folder: Path = Path(), *, files: bool = True) -> Run:
    run: Run = Reader(folder, files).root(Run, root)()
    run.copies = root.copies
    return run


def name_of_recipe(path: Path) -> str:
    """The file's name; of a run's own recipe, that of its folder."""
    own = path.name == "recipe.yaml" and RunFolder(path.parent).log.is_file()
    return path.resolve().parent.name if own else path.stem


def _places(files: Sequence[str | Path], data: Any) -> Any:
    """Files as an option of the data says them: one, several, or those of each class."""
    by_class: dict[str, list[str]] = {}
    places: list[str] = []
    for file in files:
        if (named := class_and_file(str(file))) is not None:
            by_class.setdefault(named[0], []).append(str(Path(named[1]).absolute()))
        else:
            places.append(str(Path(file).absolute()))
    if by_class and places:
        raise ValueError(f"{places[0]} is given without a class, and others with one: give CLASS=FILE for all, or for none")
    if by_class and not any(get_origin(kind) is dict for kind in get_args(choices(base_of(data))["test"].annotation)):
        raise ValueError(f"{files[0]}: a {name_of(data)} has no files by class: give FILE alone")
    return by_class or (places[0] if len(places) == 1 else places)


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


def tune(
    name: str | Path,
    *files: str | Path,
    steps: int | None = None,
    folder: str | Path | None = None,
    quiet: bool = False,
    device: str = "auto",
) -> Run:
    """Go on with a published model on files: ``weft.tune("minilm", "train.tsv").predict(["Well done."])``.

    What the files are, and so the task, is guessed as ``weft new`` does; ``weft new FILE --from MODEL`` writes the same recipe.

    Args:
        name: A folder in the Hugging Face layout, a packaged model's name, or a hub's.
        files: The data; names with train, dev or test are understood.
        steps: Updates; None = about three times through the data.
        folder: The run's folder; None = the next free ``runs/tuned-<n>``.
        quiet: Whether nothing is said of the progress.
        device: Where to compute.
    """
    from weft.experiments.scaffold import guess, tuned_recipe

    text = tuned_recipe(guess([str(file) for file in files]), Path(), str(name), steps)
    run = read_run_text(text, "tuned.yaml", Path(), [f"device={device}"])
    run.name = "tuned"
    run.train(folder, quiet=quiet)
    return run


def load(folder: str | Path, device: str = "auto", changes: Sequence[str] = ()) -> Run:
    """Open a trained run's folder: ``weft.load("runs/demo").generate(["3 March 1999"])``; or a published model's.

    Args:
        folder: Where it is.
        device: Where it computes.
        changes: How other files are read that it is to be judged by: ``data.text=review``. Nothing else can be changed.
    """
    if wrong := [change for change in changes if not re.match(r"(stages\.\d+\.)?data\.", change)]:
        raise ValueError(f"{wrong[0]}: of a trained run, only how other files are read can be changed (data.text=review)")
    if own := [change for change in changes if re.match(r"(stages\.\d+\.)?data\.(train|valid|test)\b", change)]:
        raise ValueError(f"{own[0]}: a trained run keeps its data; other files are named by themselves, or as CLASS=FILE")
    place = RunFolder(folder)
    if not place.is_run() and (not place.path.exists() or (place.path / "config.json").is_file()):
        from weft.core.hub import PACKAGED
        from weft.inference.published import open_published

        if place.path.exists() or str(folder) in PACKAGED:
            return open_published(folder, device=device)
    if not place.path.is_dir():
        raise ValueError(f"there is no folder {place.path}")
    if not place.is_run():
        raise ValueError(f"{place.path} is not a run's folder (it has no recipe.yaml)")
    try:
        run = read_run(place.recipe, files=False)
        if changes:  # of the data that the last stage has
            at = with_data(plans(run))[-1].index
            own = [f"stages.{at - 1}.{change}" if at and change.startswith("data.") else change for change in changes]
            run = read_run(place.recipe, own, files=False)
    except RecipeError as error:
        if plugins := place.plugins():
            raise ValueError(f"{error}\nthis run was made with plug-ins: add --import {' --import '.join(plugins)}") from None
        raise
    if not place.model.is_file():
        raise ValueError(f"{place.path} has no final weights yet: finish it with weft train {place.path} --resume")
    stages = plans(run)
    source = with_data(stages)[-1]
    codec = load_codec(source.data(), source.place(place.path))
    network = build_network(stages[-1], codec.info, run.seed, check=False)  # whoever made the folder has checked that
    network.load(read_weights(place.model))
    network.to(choose_device(device)).train(False)
    run.model, run.codec, run.objectives, run.folder = network.model, codec, network.objectives, place.path
    if place.origin.is_file() and Decodes in run.model.provides():  # not trained by weft: it begins as it did
        was = read_json(place.origin)
        run.begin = beginning(run.model, codec.info, {**was["config"], **was.get("files", {}).get(GENERATION, {})})
    if place.origin.is_file():
        from weft.inference.published import pair_of

        run.pair = pair_of(run)
    return run
