"""Zero-, one- and few-shot evaluation: each row of a table is asked, and the likeliest answer compared with its class."""

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
from weft.data.sources.multiple_choice import ANSWER
from weft.data.sources.parsing import ColumnSpec, records, to_cell
from weft.evaluate import Accuracy, EvaluationResult
from weft.inference.load import load
from weft.inference.prompting import HOLE, Prompt
from weft.inference.published import open_published
from weft.inference.trained_run import TrainedRun

SCORES: dict[str, Literal["none", "length"]] = {"length": "length", "plain": "none"}
"""How answers of different length are compared: by the mean of their tokens' log-probabilities, or by the sum."""
Labelled = list[tuple[Mapping[str, str], str]]


def load_language_model(model: str | Path) -> TrainedRun:
    """A run, or a published model, that writes text."""
    run = load(model) if Path(model).exists() else open_published(model)
    if Decodes not in run.model.provides():
        raise ValueError(f"{model} is no language model: there is nothing in it that writes text, so no answer has a probability")
    return run


def read_template(given: str | None, file: Path | None) -> str:
    """The template of the command line, in which \\n and \\t are written with a backslash, or that of a file."""
    if (given is None) == (file is None):
        raise ValueError("give the template with --template, or in a file with --template-file, and not both")
    if file is None:
        assert given is not None
        return given.replace("\\n", "\n").replace("\\t", "\t")
    try:
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: is not UTF-8 text (byte {error.start})") from None


def read_answers(given: Sequence[str]) -> dict[str, str]:
    """From CLASS=WORDS, or CLASS alone where its name is what the model is to say."""
    found: dict[str, str] = {}
    for text in given:
        name, _, words = text.partition("=")
        name, words = name.strip(), (words if "=" in text else name).strip()
        if not name or not words:
            raise ValueError(f"the answer {text!r} has no {'words' if name else 'class'}: write CLASS=WORDS")
        if name in found:
            raise ValueError(f"the class {name!r} has two answers: {found[name]!r} and {words!r}")
        found[name] = words
    return found


def read_labelled(file: str | Path, template: str, label: str | None = None) -> Labelled:
    """The rows of a table (TSV, CSV or JSONL, by the file's ending) with their classes.

    Args:
        file: Its first line names the columns.
        template: The columns that it asks for must be there.
        label: The column of classes; None = the first that is called label, labels, class and so on.
    """
    if not Path(file).is_file():
        raise ValueError(f"there is no file {file}")
    wanted, asked, found = ColumnSpec(label, LABEL), [name for name in HOLE.findall(template) if name != "answer"], []
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
        if column in asked:
            raise ValueError(f"the template shows {{{column}}}, which is the answer: write {{answer}} at its end")
        if missing := [name for name in asked if name not in row]:
            raise ValueError(f"{where}: the template asks for {missing[0]!r}, but the columns are: {', '.join(row)}")
        found.append((row, row[column].strip()))
    if not found:
        raise ValueError(f"{file} has no rows")
    return found


def read_choices(file: str | Path, template: str, choices: str, label: str | None = None) -> Labelled:
    """The rows of a table with answers of their own (cell ``choices``, tabs between them), and the letter of the right one.

    Args:
        file: Read as ``multiple-choice`` does.
        template: What it asks for must be there: ``{question}`` is what the source finds, others are columns.
        choices: The column of answers; auto = what has a usual name.
        label: The column of the right one's label, number or text; None = the first that has a usual name.
    """
    if not Path(file).is_file():
        raise ValueError(f"there is no file {file}")
    asked, found = [name for name in HOLE.findall(template) if name != "answer"], []
    question = asked[0] if asked and "question" not in asked else None
    source = MultipleChoice(train=str(file), question=question, choices=None if choices == "auto" else choices, answer=label)
    cursors = [Cursor([str(file)]), Cursor([str(file)])]
    for record, read in zip(records(cursors[0]), source.rows(cursors[1:]), strict=True):
        where = f"{file}:{record.line}"
        if read.problem:
            raise ValueError(f"{where}: {read.problem}")
        if record.values is None:
            continue
        if not read.cells["label"]:
            raise ValueError(f"{where}: the row says of none of its choices that it is right")
        row = {str(name): to_cell(value, str(name)) for name, value in record.values.items()}
        column = label or next((name for name in ANSWER if name in row), None)
        if column in asked:
            raise ValueError(f"the template shows {{{column}}}, which is the answer: write {{answer}} at its end")
        row |= {name: read.cells[name] for name in ("question", "choices")}
        if missing := [name for name in asked if name not in row]:
            raise ValueError(f"{where}: the template asks for {missing[0]!r}, but the columns are: {', '.join(row)}")
        found.append((row, read.cells["label"]))
    if not found:
        raise ValueError(f"{file} has no rows")
    return found


@dataclass(frozen=True)
class FewShotResult:
    """What came out.

    Args:
        prompt: How was asked.
        rows: The questions with their classes.
        scores_NC: How likely each answer was.
    """

    prompt: Prompt
    rows: Labelled
    scores_NC: np.ndarray

    @property
    def predictions(self) -> list[str]:
        best_N = self.scores_NC.argmax(1)
        return [list(self.prompt.words(row))[int(best)] for (row, _), best in zip(self.rows, best_N, strict=True)]

    def judged(self) -> EvaluationResult:
        """The accuracy, and beside it that of the most frequent class alone."""
        references = [{"label": label} for _, label in self.rows]
        most = Counter(label for _, label in self.rows).most_common(1)[0][1]
        metric_values = {**Accuracy().compute(self.predictions, references), "majority": most / len(self.rows)}
        return EvaluationResult(
            metric_values,
            dict(enumerate(self.predictions)),
            dict(enumerate(references)),
            higher_is_better={"accuracy": True},
        )

    def intervals(self) -> dict[str, tuple[float, float]]:
        return self.judged().intervals([Accuracy()])

    def as_json(self) -> dict[str, Any]:
        ask = self.prompt
        score = next(name for name, normalise in SCORES.items() if normalise == ask.normalise)
        how = {"shots": ask.shots, "seed": ask.seed, "score": score, "calibrated": ask.calibrate}
        told = {"rows": len(self.rows), **how, "template": ask.template}
        told["answers"] = None if ask.answers is None else dict(ask.answers)
        return {**self.judged().metric_values, "intervals": self.intervals(), **told}

    def write(self, file: Path) -> None:
        """A JSON line for each row: its columns, its class, the predicted one, and the answers' scores."""
        lines: list[dict[str, Any]] = []
        for (row, label), best, scores in zip(self.rows, self.predictions, self.scores_NC.tolist(), strict=True):
            own = dict(zip(self.prompt.words(row), scores, strict=False))  # other rows may have more answers
            lines.append({"row": dict(row), "label": label, "predicted": best, "scores": own})
        write_text(file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def ask(
    run: TrainedRun,
    template: str,
    file: str | Path,
    *,
    train: str | Path | None = None,
    shots: int = 0,
    answers: Mapping[str, str] | None = None,
    choices: str | None = None,
    label: str | None = None,
    score: str = "length",
    calibrate: bool = False,
    seed: int = 1,
) -> FewShotResult:
    """Ask a language model for the class of each row of a table.

    Args:
        run: What writes; see ``load_language_model``.
        template: A row's columns in braces, with ``{answer}`` at its end.
        file: The table of questions, with their classes.
        train: The table that demonstrations are drawn from.
        shots: How many stand before each question.
        answers: For each class the words that stand for it; None = the classes' names, of all that the tables have.
        choices: The column of each row's own answers, as ``multiple-choice`` reads it (a path into JSON, ``ending*``), or
            ``auto`` for what has a usual name. The classes are then A for the first of them, B for the second.
        label: The column of classes, or of the right one of a row's own answers.
        score: length or plain: whether an answer's log-probability is divided by its number of tokens.
        calibrate: Whether what the model would answer to nothing is taken off.
        seed: Which demonstrations are drawn.
    """
    if score not in SCORES:
        raise ValueError(f"there is no score {score!r}: answers are compared by {' or '.join(SCORES)}")
    if shots and train is None:
        raise ValueError(f"{shots} demonstrations are wanted: say with --train which file they are drawn from")
    if shots and train is not None and Path(train).resolve() == Path(file).resolve():
        raise ValueError(f"{file} has the questions: drawn from it, demonstrations would show their answers")
    if choices is not None and answers:
        raise ValueError(
            "give answers that all rows share (--verbalizer), or the column of each row's own (--choices), and not both"
        )
    if choices is not None:
        rows, *pools = [read_choices(place, template, choices, label) for place in (file, train) if place is not None]
        made = Prompt(template, None, shots=shots, normalise=SCORES[score], calibrate=calibrate, seed=seed)
        _tokens(run, rows, file)
        return FewShotResult(made, rows, made.scores(run, [row for row, _ in rows], pools[0] if pools else []))
    rows = read_labelled(file, template, label)
    pool = read_labelled(train, template, label) if train is not None else []
    classes = {name: str(place) for place, table in ((train, pool), (file, rows)) for _, name in table}
    if not answers:
        if "" in classes:
            raise ValueError(f"{classes['']} has rows without a class")
        answers = {name: name for name in sorted(classes)}
    if unknown := sorted(classes.keys() - answers.keys()):
        raise ValueError(f"{classes[unknown[0]]} has the class {unknown[0]!r}, but the answers are: {', '.join(answers)}")
    made = Prompt(template, answers, shots=shots, normalise=SCORES[score], calibrate=calibrate, seed=seed)
    _differ(run, answers)
    return FewShotResult(made, rows, made.scores(run, [row for row, _ in rows], pool))


def _tokens(run: TrainedRun, rows: Labelled, file: str | Path) -> None:
    """Of an answer without a token, nothing could be asked."""
    codec = run.codec
    for number, (row, _) in enumerate(rows, 1):
        for word in row["choices"].split("\t"):
            if not len(codec.encode(codec.info.target, f" {word}")):
                raise ValueError(f"{file}: the choice {word!r} of row {number} is no token of this model")


def _differ(run: TrainedRun, answers: Mapping[str, str]) -> None:
    """Answers that are the same to the model leave nothing to choose."""
    codec = run.codec
    seen: dict[tuple[int, ...], str] = {}
    for name, words in answers.items():
        ids = tuple(int(i) for i in codec.encode(codec.info.target, f" {words}"))
        if not ids:
            raise ValueError(f"the answer {words!r} of the class {name!r} is no token of this model")
        if ids in seen:
            raise ValueError(f"the answers of {seen[ids]!r} and {name!r} are the same tokens to this model: choose other words")
        seen[ids] = name
