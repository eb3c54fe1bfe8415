"""Zero-shot and few-shot evaluation of a language model on a table of labeled examples.

Shape suffixes: N examples, C classes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weft.core.contracts import Decodes
from weft.core.io import write_text
from weft.data import MultipleChoice
from weft.data.sources.cursor import Cursor
from weft.data.sources.labeled_text import LABEL
from weft.data.sources.multiple_choice import ANSWER, CONTEXT
from weft.data.sources.parsing import ColumnSpec, records, to_cell
from weft.evaluate import Accuracy, EvaluationResult
from weft.inference.load import load
from weft.inference.prompting import PLACEHOLDER, LabeledRow, PromptTemplate
from weft.inference.published import open_published
from weft.inference.trained_run import TrainedRun

SCORES: dict[str, Literal["none", "length"]] = {"length": "length", "plain": "none"}
"""Scores of answers: the mean of their tokens' log-probabilities, or the sum."""


def load_language_model(model: str | Path) -> TrainedRun:
    """Open a run, or a published model, that generates text."""
    run = load(model) if Path(model).exists() else open_published(model)
    if Decodes not in run.model.provides():
        raise ValueError(f"{model} is not a language model; prompting needs a model that generates text")
    return run


def read_template(template: str | None, file: Path | None) -> str:
    """Return the template of the command line, with the escapes \\n and \\t, or that of a file."""
    if (template is None) == (file is None):
        raise ValueError("pass the template either as --template or as --template-file")
    if file is None:
        assert template is not None
        return template.replace("\\n", "\n").replace("\\t", "\t")
    try:
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: is not UTF-8 text (byte {error.start})") from None


def parse_verbalizer(assignments: Sequence[str]) -> dict[str, str]:
    """Parse CLASS=WORDS assignments, or CLASS alone where the class name is the answer."""
    found: dict[str, str] = {}
    for text in assignments:
        name, _, words = text.partition("=")
        name, words = name.strip(), (words if "=" in text else name).strip()
        if not name or not words:
            raise ValueError(f"the verbalizer {text!r} has no {'words' if name else 'class'}; write CLASS=WORDS")
        if name in found:
            raise ValueError(f"the class {name!r} has two verbalizers: {found[name]!r} and {words!r}")
        found[name] = words
    return found


# ------------------------------------------------------------------------------------------------------------------ tables


def read_labeled(file: str | Path, template: str, label: str | None = None) -> list[LabeledRow]:
    """Read the examples of a table (TSV, CSV or JSONL, by suffix) with their classes.

    Args:
        file: The table; its first line has the column names.
        template: The template, whose columns the table must have.
        label: Column of the classes; None = the first column with a usual name (label, labels, class, ...).
    """
    wanted, columns, found = ColumnSpec(label, LABEL), _columns(file, template), list[LabeledRow]()
    for record in records(Cursor([str(file)])):
        where = f"{file}:{record.line}"
        if record.problem:
            raise ValueError(f"{where}: {record.problem}")
        if record.values is None:
            continue
        row = {str(name): to_cell(value, str(name)) for name, value in record.values.items()}
        column = wanted.find(row)
        if column is None:
            raise ValueError(f"{where}: {wanted.missing(row, '--label')}")
        _check_columns(where, columns, row, column)
        found.append((row, row[column].strip()))
    return _checked_rows(found, file)


def read_choices(file: str | Path, template: str, choices: str, label: str | None = None) -> list[LabeledRow]:
    """Read the examples of a table with choices of their own (cell ``choices``, separated by tabs), labeled A, B, C, ...

    Args:
        file: The table, in a format of the data source ``multiple-choice``.
        template: The template; ``{question}`` is the question that the data source finds, with its context unless the template
            has a column of that; other names are columns.
        choices: Column of the choices; auto = columns with usual names.
        label: Column with label, index or text of the correct choice; None = the first column with a usual name.
    """
    columns, found = _columns(file, template), list[LabeledRow]()
    question = columns[0] if columns and "question" not in columns else None
    context = None if set(columns) & set(CONTEXT) else "auto"
    named = None if choices == "auto" else choices
    source = MultipleChoice(train=str(file), question=question, context=context, choices=named, answer=label)
    cursors = [Cursor([str(file)]), Cursor([str(file)])]
    for record, read in zip(records(cursors[0]), source.rows(cursors[1:]), strict=True):
        where = f"{file}:{record.line}"
        if read.problem:
            raise ValueError(f"{where}: {read.problem}")
        if record.values is None:
            continue
        if not read.cells["label"]:
            raise ValueError(f"{where}: no choice is marked as correct")
        row = {str(name): to_cell(value, str(name)) for name, value in record.values.items()}
        column = label or next((name for name in ANSWER if name in row), None)
        row |= {name: read.cells[name] for name in ("question", "choices")}
        _check_columns(where, columns, row, column)
        found.append((row, read.cells["label"]))
    return _checked_rows(found, file)


def _columns(file: str | Path, template: str) -> list[str]:
    """The columns of a template, once the file is known to exist."""
    if not Path(file).is_file():
        raise ValueError(f"there is no file {file}")
    return [name for name in PLACEHOLDER.findall(template) if name != "answer"]


def _check_columns(where: str, columns: Sequence[str], row: Mapping[str, str], label: str | None) -> None:
    if label in columns:
        raise ValueError(f"the template contains {{{label}}}, the column of the labels; write {{answer}} at its end instead")
    if missing := [name for name in columns if name not in row]:
        raise ValueError(f"{where}: the template has the column {missing[0]!r}, but the columns are: {', '.join(row)}")


def _checked_rows(rows: list[LabeledRow], file: str | Path) -> list[LabeledRow]:
    if not rows:
        raise ValueError(f"{file} has no examples")
    return rows


# -------------------------------------------------------------------------------------------------------------- evaluation


@dataclass(frozen=True)
class FewShotResult:
    """Result of a few-shot evaluation.

    Args:
        prompt: The prompt template.
        rows: The examples with their classes.
        scores_NC: The scores of the answers.
    """

    prompt: PromptTemplate
    rows: list[LabeledRow]
    scores_NC: np.ndarray

    @property
    def predictions(self) -> list[str]:
        """The class with the highest score for each example."""
        best_N = self.scores_NC.argmax(1)
        return [list(self.prompt.answers(row))[int(best)] for (row, _), best in zip(self.rows, best_N, strict=True)]

    def evaluation(self) -> EvaluationResult:
        """Return the accuracy, and that of the majority-class baseline."""
        references = [{"label": label} for _, label in self.rows]
        most_frequent = Counter(label for _, label in self.rows).most_common(1)[0][1]
        metric_values = {**Accuracy().compute(self.predictions, references), "majority": most_frequent / len(self.rows)}
        return EvaluationResult(
            metric_values,
            dict(enumerate(self.predictions)),
            dict(enumerate(references)),
            higher_is_better={"accuracy": True},
        )

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Return the 95 % confidence interval of the accuracy."""
        return self.evaluation().intervals([Accuracy()])

    def as_json(self) -> dict[str, Any]:
        """Return metrics and settings as JSON values."""
        prompt = self.prompt
        score = next(name for name, normalize in SCORES.items() if normalize == prompt.normalize)
        return {
            **self.evaluation().metric_values,
            "intervals": self.intervals(),
            "examples": len(self.rows),
            "shots": prompt.shots,
            "seed": prompt.seed,
            "score": score,
            "calibrated": prompt.calibrate,
            "template": prompt.template,
            "verbalizer": None if prompt.verbalizer is None else dict(prompt.verbalizer),
        }

    def write(self, file: Path) -> None:
        """Write a JSON line for each example: its columns, its class, the prediction, and the scores of the answers."""
        lines: list[dict[str, Any]] = []
        for (row, label), best, scores in zip(self.rows, self.predictions, self.scores_NC.tolist(), strict=True):
            own = dict(zip(self.prompt.answers(row), scores, strict=False))  # other examples may have more choices
            lines.append({"row": dict(row), "label": label, "predicted": best, "scores": own})
        write_text(file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def evaluate_few_shot(
    run: TrainedRun,
    template: str,
    file: str | Path,
    *,
    train: str | Path | None = None,
    shots: int = 0,
    verbalizer: Mapping[str, str] | None = None,
    choices: str | None = None,
    label: str | None = None,
    score: str = "length",
    calibrate: bool = False,
    seed: int = 1,
) -> FewShotResult:
    """Classify the examples of a table with a language model, and compare with their labels.

    Args:
        run: A run that generates text; see ``load_language_model``.
        template: Column names in braces, with ``{answer}`` at the end.
        file: The table of labeled examples.
        train: The table that demonstrations are sampled from.
        shots: Number of demonstrations in each prompt.
        verbalizer: The answer of each class; None = the class names, of all classes in the tables.
        choices: Column with the choices of each example, as in the data source ``multiple-choice`` (a path into JSON,
            ``ending*``); auto = columns with usual names. The classes are A, B, C, ...
        label: Column of the classes, or of the correct choice.
        score: ``length`` or ``plain``: whether the log-probability of an answer is divided by its number of tokens.
        calibrate: Contextual calibration: subtract the scores of a content-free prompt.
        seed: Seed of the demonstrations.
    """
    _check_options(file, train, shots, verbalizer, choices, score)
    options: dict[str, Any] = {"shots": shots, "normalize": SCORES[score], "calibrate": calibrate, "seed": seed}
    if choices is not None:
        rows, *pools = [read_choices(path, template, choices, label) for path in (file, train) if path is not None]
        prompt, pool = PromptTemplate(template, None, **options), pools[0] if pools else []
        check_choices(run, rows, file)
    else:
        rows = read_labeled(file, template, label)
        pool = read_labeled(train, template, label) if train is not None else []
        verbalizer = _complete_verbalizer(verbalizer, {str(train): pool, str(file): rows})
        prompt = PromptTemplate(template, verbalizer, **options)
        _check_verbalizer(run, verbalizer)
    return FewShotResult(prompt, rows, prompt.scores(run, [row for row, _ in rows], pool))


def _check_options(
    file: str | Path,
    train: str | Path | None,
    shots: int,
    verbalizer: Mapping[str, str] | None,
    choices: str | None,
    score: str,
) -> None:
    if score not in SCORES:
        raise ValueError(f"unknown score {score!r}; use {' or '.join(SCORES)}")
    if shots and train is None:
        raise ValueError(f"{shots} shots need a file to sample demonstrations from; pass it as --train")
    if shots and train is not None and Path(train).resolve() == Path(file).resolve():
        raise ValueError(f"--train {train} is the file to classify; demonstrations from it would reveal the labels")
    if choices is not None and verbalizer:
        raise ValueError("--verbalizer (answers of all examples) and --choices (choices of each example) exclude each other")


def _complete_verbalizer(verbalizer: Mapping[str, str] | None, tables: Mapping[str, Sequence[LabeledRow]]) -> Mapping[str, str]:
    """Return the verbalizer, by default the class names. Raises ValueError if a class of the tables has no answer."""
    classes = {name: file for file, rows in tables.items() for _, name in rows}
    if not verbalizer:
        if "" in classes:
            raise ValueError(f"{classes['']} has examples without a label")
        return {name: name for name in sorted(classes)}
    if unknown := sorted(classes.keys() - verbalizer.keys()):
        raise ValueError(f"{classes[unknown[0]]} has the class {unknown[0]!r}, but verbalizers are: {', '.join(verbalizer)}")
    return verbalizer


def check_choices(run: TrainedRun, rows: Sequence[LabeledRow], file: str | Path) -> None:
    """Raise ValueError for a choice that has no tokens, and therefore no probability."""
    codec = run.codec
    for number, (row, _) in enumerate(rows, 1):
        for choice in row["choices"].split("\t"):
            if not len(codec.encode(codec.info.target, f" {choice}")):
                raise ValueError(
                    f"{file}: the choice {choice!r} of example {number} has no tokens in the vocabulary of this model"
                )


def _check_verbalizer(run: TrainedRun, verbalizer: Mapping[str, str]) -> None:
    """Raise ValueError for answers without tokens, and for answers with the same tokens."""
    codec = run.codec
    seen: dict[tuple[int, ...], str] = {}
    for name, words in verbalizer.items():
        ids = tuple(int(i) for i in codec.encode(codec.info.target, f" {words}"))
        if not ids:
            raise ValueError(f"the verbalizer {words!r} of the class {name!r} has no tokens in the vocabulary of this model")
        if ids in seen:
            raise ValueError(f"the verbalizers of {seen[ids]!r} and {name!r} have the same tokens; choose other words")
        seen[ids] = name
