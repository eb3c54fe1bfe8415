"""``weft new FILE ...``: look at files, guess what they are, and write a commented recipe that trains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

from weft.core.io import list_files
from weft.core.options import find_file, not_there
from weft.data.sources.cursor import Cursor
from weft.data.sources.labeled_text import LABEL, TEXT
from weft.data.sources.multiple_choice import MultipleChoice
from weft.data.sources.parsing import ColumnSpec, read_column_names, tables
from weft.data.sources.question_answering import ANSWER, CONTEXT, QUESTION, STARTS, QuestionAnswering
from weft.data.sources.sentence_pairs import FIRST, SECOND
from weft.inference.embedding import POOLING

_LOOK = 2000
"""So many rows are looked at."""
_SPLITS = {"train": "train", "training": "train", "valid": "valid", "validation": "valid", "val": "valid", "dev": "valid"} | {
    "test": "test",
    "testing": "test",
}
_TABLES = (".tsv", ".csv", ".jsonl", ".ndjson")
_TAG = re.compile(r"O|[BIESLU]-\S+")
_EMPTY_CHOICE = re.compile(r"choice \d+ of \d+ is empty")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")


@dataclass
class Guess:
    """What files seem to be.

    Args:
        source: The type of data.
        splits: For each split its files.
        options: Further choices of the data, as YAML.
        why: What it was guessed from.
        size: Bytes of the training files.
    """

    source: str
    splits: dict[str, list[str]]
    options: dict[str, str] = field(default_factory=dict)
    why: str = ""
    size: int = 0
    answer: str = "one"


def guess(files: list[str]) -> Guess:
    """What these files are. Raises ValueError where nothing fits."""
    there: list[str] = []
    for name in files:
        file = name if Path(name).exists() else str(find_file(name))
        if not Path(file).exists():
            raise ValueError(not_there(name))
        if not list_files(file) or not sum(Path(inner).stat().st_size for inner in list_files(file)):
            raise ValueError(f"{file}: the {'folder' if Path(file).is_dir() else 'file'} is empty")
        there += _unfolded(file)
    splits = _by_split(there)
    train = splits["train"]
    size = sum(Path(inner).stat().st_size for file in train for inner in list_files(file))
    if len(train) == 2 and (found := _parallel(splits)) is not None:
        made = found
    elif Path(train[0]).suffix.lower() == ".json":
        made = _nested(splits)
    elif Path(train[0]).suffix.lower() in _TABLES or _has_tabs(train[0]):
        made = _choosing(splits) or _table(splits)
    elif (tagged := _tagged(train[0])) is not None:
        made = Guess("tagged-text", splits, tagged, "lines of a word and its tags, with empty lines between sentences")
    else:
        made = Guess("plain-text", splits, why="texts without columns")
    made.size = size
    return made


def _unfolded(file: str) -> list[str]:
    """The files of a folder whose names say what each is for; a folder of texts stays whole. What is no text is refused."""
    inner = list_files(file)
    begin = [problem for _, problem in islice(Cursor(inner[:1]).lines(), _LOOK)]
    if sum(map(bool, begin)) > len(begin) / 2:
        raise ValueError(f"{inner[0]}: is no text: {next(filter(None, begin))}")
    told = all(Path(f).suffix.lower() in (*_TABLES, ".json") for f in inner) or any(map(_split_of, inner))
    return inner if Path(file).is_dir() and told else [file]


def _split_of(file: str) -> str | None:
    """The split that a file's name tells."""
    return next((_SPLITS[word] for word in re.split(r"[^a-z]+", Path(file).name.lower()) if word in _SPLITS), None)


def _nested(splits: dict[str, list[str]]) -> Guess:
    """One JSON document: SQuAD's questions, or nothing that is known."""
    file = splits["train"][0]
    found = next(QuestionAnswering(train=file).rows([Cursor([file])]), None)
    if found is None or (found.problem and not found.cells):
        raise ValueError(
            f"{file}: a .json file is read as SQuAD's questions, but: {found.problem if found else 'it has none'}. "
            "For an object a line, call it .jsonl"
        )
    return Guess("question-answering", splits, why="a JSON file of contexts with questions and answers, as SQuAD has it")


def _by_split(files: list[str]) -> dict[str, list[str]]:
    """Files by the split that their names tell; without any, all are for training."""
    found: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for file in files:
        found[_split_of(file) or "train"].append(file)
    if not found["train"]:
        raise ValueError(
            f"none of {', '.join(Path(f).name for f in files)} seems to be for training: a training file has train in its name"
        )
    return {split: named for split, named in found.items() if named}


def _parallel(splits: dict[str, list[str]]) -> Guess | None:
    """Two files that differ in their ending (train.de, train.en) and have equally many lines."""
    one, two = splits["train"]
    if Path(one).stem != Path(two).stem or Path(one).suffix in _TABLES or Path(one).suffix == Path(two).suffix:
        return None
    counts = [sum(1 for _ in _lines(file)) for file in (one, two)]
    if counts[0] != counts[1]:
        raise ValueError(f"{one} and {two} look like parallel texts, but have {counts[0]} and {counts[1]} lines")
    ordered = {split: sorted(files, key=lambda file: Path(file).suffix != Path(one).suffix) for split, files in splits.items()}
    for split, files in ordered.items():
        if [Path(f).suffix for f in files] != [Path(one).suffix, Path(two).suffix]:
            raise ValueError(f"{split} needs one file {Path(one).suffix} and one {Path(two).suffix}, not {', '.join(files)}")
    return Guess("parallel-text", ordered, why=f"two files of {counts[0]:,} lines each")


def _lines(file: str) -> list[tuple[str, str]]:
    cursor = Cursor(list_files(file)[:1])
    return list(cursor.lines())


def _first_lines(file: str) -> list[str]:
    return [line for line, problem in islice(Cursor(list_files(file)[:1]).lines(), _LOOK) if not problem]


def _has_tabs(file: str) -> bool:
    """Whether nearly all lines have the same number of tabs, at least one."""
    counts = Counter(line.count("\t") for line in _first_lines(file) if line.strip())
    return bool(counts) and counts.most_common(1)[0][0] > 0 and counts.most_common(1)[0][1] > 0.95 * counts.total()


def _tagged(file: str) -> dict[str, str] | None:
    """The choices of a file of words with tags, or None."""
    lines = [line.split() for line in _first_lines(file)]
    rows = [cells for cells in lines if cells and cells[0] != "-DOCSTART-" and not cells[0].startswith("#")]
    widths = Counter(map(len, rows))
    if not rows or [] not in lines or len(widths) != 1 or len(rows[0]) < 2:
        return None
    tags = {cells[-1] for cells in rows}
    if len(tags) > 100 or len(tags) * 5 > len(rows):
        return None
    return {} if all(map(_TAG.fullmatch, tags)) else {"scheme": "null"}


# ----------------------------------------------------------------------------------------------------------------- tables


@dataclass
class _Column:
    name: str
    cells: list[str]

    @property
    def words(self) -> float:
        return sum(len(cell.split()) for cell in self.cells) / max(1, len(self.cells))

    @property
    def numeric(self) -> bool:
        return all(map(_NUMBER.fullmatch, self.cells))

    @property
    def measured(self) -> bool:
        """Whether the cells are numbers on a scale: with fractions; few whole ones, also as 0.0 and 1.0, are names of classes."""
        return self.numeric and "." in "".join(self.cells) and not (self.is_label and all(float(c) % 1 == 0 for c in self.cells))

    @property
    def kinds(self) -> int:
        return len(set(self.cells))

    @property
    def is_label(self) -> bool:
        return bool(self.mark) or (self.words < 3 and self.kinds <= max(2, min(100, len(self.cells) // 4)))

    @cached_property
    def mark(self) -> str:
        """What stands between the classes of cells that have several: many cells have it, and what it parts comes again; of a
        comma or semicolon, which texts have too, some of it also alone."""
        for mark in ("\t", "|", ";", ","):
            several = [[part.strip() for part in cell.split(mark)] for cell in self.cells if mark in cell]
            parts = Counter(part.strip() for cell in self.cells for part in cell.split(mark))
            again = [parts[part] > 1 for cell in several for part in cell]
            if mark in ";," and not {part for cell in several for part in cell} & {cell.strip() for cell in self.cells}:
                continue
            if len(several) >= max(1, 0.05 * len(self.cells)) and len(parts) <= 100 and sum(again) > 0.9 * len(again):
                return mark
        return ""


def _choosing(splits: dict[str, list[str]]) -> Guess | None:
    """Whether nearly all rows are questions with choices; those of which a choice is empty can be told, and are skipped."""
    file = list_files(splits["train"][0])[0]
    counts: tuple[Literal[0, 1] | None, ...] = (None, 1)
    found: dict[Literal[0, 1] | None, tuple[int, int, int]] = {}
    for first_index in counts:
        rows = list(islice(MultipleChoice(train=file, first_index=first_index).rows([Cursor([file])]), _LOOK))
        empty = sum(bool(_EMPTY_CHOICE.fullmatch(row.problem or "")) for row in rows)
        found[first_index] = sum(bool(row.cells) for row in rows), sum(bool(row.cells or row.problem) for row in rows), empty
    best = max(counts, key=lambda first_index: found[first_index][0])
    good, there, empty = found[best]
    if not good or good + empty <= 0.95 * there:
        return None
    options = {} if best is None else {"first_index": str(best)}
    if empty:
        options["on_bad_row"] = f"skip                 # {empty} of {there} rows have an empty choice"
    return Guess("multiple-choice", splits, options, "questions with several choices")


def _table(splits: dict[str, list[str]]) -> Guess:
    file = splits["train"][0]
    names = read_column_names(file)
    wanted = {name: ColumnSpec(name) for name in names}
    rows = [row.cells for row in islice(tables(Cursor([file]), wanted), _LOOK) if row.cells and not row.problem]
    if not rows:
        raise ValueError(f"{file}: no row can be read as a table")
    options: dict[str, str] = {}
    if Path(file).suffix.lower() not in (".jsonl", ".ndjson") and _is_data(names, rows):
        header = [f"column{i}" for i in range(1, len(names) + 1)]
        rows = [dict(zip(header, cells, strict=True)) for cells in (names, *(list(r.values()) for r in rows))]
        names = header
        options["column_names"] = f"[{', '.join(header)}]"
    columns = [_Column(name, [row.get(name, "").strip() for row in rows if row.get(name, "").strip()]) for name in names]
    texts = sorted((c for c in columns if (c.words >= 3 and not c.is_label) or c.name.lower() in TEXT), key=lambda c: -c.words)
    texts = [c for c in columns if c in texts[:2]]
    labels = [c for c in columns if c not in texts and c.is_label and c.kinds > 1 and c.name.lower() not in ("id", "split")]
    label = next((c for c in labels if c.name.lower() in LABEL), labels[-1] if labels else None)
    number = next((c for c in columns if c not in texts and c.measured and c.kinds > 1), None)
    if number is not None and (label is None or label is number):
        label = number
    named = ", ".join(names)
    if "column_names" not in options and all(set(usual) & set(names) for usual in (QUESTION, CONTEXT, ANSWER, STARTS)):
        return Guess("question-answering", splits, options, f"a table with questions, contexts and answers (columns: {named})")
    if len(texts) == 2 and label is not None:
        options |= _named(texts[0], FIRST, "first") | _named(texts[1], SECOND, "second") | _named(label, ("label",), "label")
        made = Guess("sentence-pairs", splits, options, f"a table with two texts and an answer (columns: {named})")
    elif len(texts) == 2:
        options |= _named(texts[0], ("source",), "source") | _named(texts[1], ("target",), "target")
        return Guess("parallel-text", splits, options, f"a table with two texts (columns: {named})")
    elif texts and label is not None:
        options |= _named(texts[0], TEXT, "text") | _named(label, LABEL, "label")
        made = Guess("labeled-text", splits, options, f"a table with a text and an answer (columns: {named})")
        if mark := label.mark:
            made.answer, made.options["label_type"] = "several", "multiple"
            made.options |= {"separator": repr(mark)} if mark not in ("|", "\t") else {}
    else:
        raise ValueError(
            f"{file}: a table with the columns {named}, but "
            f"{'none of them holds texts' if not texts else 'none of the others looks like an answer (few different values)'}: "
            "write the recipe by hand (weft catalog data), or give a file of plain lines"
        )
    if made.answer != "several" and len(label.cells) < len(rows):
        made.options["on_bad_row"] = (
            f"skip                 # {len(rows) - len(label.cells)} of {len(rows)} rows have no {label.name}"
        )
    if label is number:
        made.answer, made.options["label_type"] = "number", "number"
    return made


def _is_data(names: list[str], rows: Sequence[Mapping[str, str]]) -> bool:
    """Whether a first line that should name the columns is already a row: a number, or a cell that the column has again."""
    return any(_NUMBER.fullmatch(n.strip()) or any(row[n] == n for row in rows) or len(n.split()) > 6 for n in names)


def _named(column: _Column, usual: tuple[str, ...], option: str) -> dict[str, str]:
    return {} if column.name in usual and column.name == next(iter(usual)) else {option: _quoted(column.name)}


def _quoted(text: str) -> str:
    return (
        text
        if re.fullmatch(r"[A-Za-z_][\w-]*", text) and text.lower() not in ("null", "true", "false", "yes", "no")
        else repr(text)
    )


# ----------------------------------------------------------------------------------------------------------------- recipes


def recipe_for(made: Guess, folder: Path) -> str:
    """A commented recipe; paths are written relative to ``folder`` where they lie below it."""
    body = _BODIES[made.source if made.answer == "one" else made.answer]
    if made.options.get("scheme") == "null":
        body = body.replace("entity-f1", "tag-accuracy")
    epochs = {"parallel-text": 25, "plain-text": 10, "tagged-text": 25, "question-answering": 10}.get(made.source, 8)
    steps = min(20_000, max(300, round(made.size / 5 * epochs / 2000 / 100) * 100))
    data = _data(made, folder)
    data.append(_TOKENIZERS[made.source])
    return (
        f"# Guessed from {made.why}.\n"
        "# Every choice can be exchanged: weft catalog lists what there is, weft check says what this recipe is.\n"
        f"seed: 1\n\ndata:                              # what there is\n  type: {made.source}\n"
        + "\n".join(data)
        + "\n\n"
        + body.format(steps=steps, warmup=max(10, steps // 20), every=max(50, steps // 10))
    )


def tuned_recipe(made: Guess, folder: Path, name: str, steps: int | None = None) -> str:
    """A commented recipe that goes on with a published model: its tokenizer, its weights, and small steps.

    Args:
        made: What the files are.
        folder: What paths are written relative to, where they lie below it.
        name: A published model's folder, a packaged one (minilm), or a hub's.
        steps: Updates; None = about three times through the data.
    """
    from weft.core.registry import name_of
    from weft.pretrained import PublishedModel

    published = PublishedModel(name)
    kind = made.source if made.answer == "one" else made.answer
    tuning = _TUNED["fill" if kind == "plain-text" and published.task != "generation" else kind]
    try:
        both = name_of(published.structure(tuning.task)) == "seq2seq"
    except ValueError as error:
        raise ValueError(f"the files are {made.source} ({made.why}), but {error}") from None
    if both != (made.source == "parallel-text"):
        what = "writes texts from texts" if both else "writes no texts from texts, as a t5 does"
        raise ValueError(f"the files are {made.source} ({made.why}), but {published.path} {what}")
    room = published.family.field(published.config).max_length - 8
    windows = made.source == "question-answering" and room >= 64  # of fewer tokens, a question may take all
    together = made.source in ("sentence-pairs", "multiple-choice", "question-answering")
    most = 4000 if windows else min(256, max(1, room // 2 if together else room))
    objective = f"{{type: span, window: {min(384, room)}}}   # long contexts in windows" if windows else tuning.objective
    steps = steps or min(20_000, max(100, round(made.size / 4 * 3 / 1000)))
    place = _places([name], folder) if Path(name).exists() else name
    mean = (published.path / POOLING).is_file() and tuning.task in ("classification", "multiple-choice")
    metrics = tuning.metrics.replace("entity-f1", "tag-accuracy") if made.options.get("scheme") == "null" else tuning.metrics
    return f"""# Guessed from {made.why}.
# Goes on with a published model: the tokenizer belongs to its weights, and both are named. What is new begins at random.
# Every choice can be exchanged: weft catalog lists what there is, weft check says what this recipe is.
seed: 1

data:                              # what there is
  type: {made.source}
{chr(10).join(_data(made, folder))}
  tokenizer: {{type: pretrained, from: {place}}}
  max_length: {most}                  # tokens of a text; longer ones are cut or split, and counted

structure:                         # how it is computed
  type: pretrained
  from: {place}
  task: {tuning.task}{chr(10) + "  pooler: mean" if mean else ""}

objective: {objective}

learning:                          # to train only the head, see docs/howto/pretrained-models.md
  type: gradient
  steps: {steps}                       # about three times through the data, 100 at least
  batch_tokens: 1000               # token budget of a batch
  optimizer: {{type: adamw, lr: {tuning.lr}}}
  schedule: {{type: linear, warmup: {max(1, steps // 10)}}}

evaluate:
  every: {max(1, steps // 3)}
  max_examples: 1000               # during training; the final evaluation uses all
{f"  metrics: [{metrics}]{chr(10)}" if metrics else ""}"""


@dataclass(frozen=True)
class _Tuning:
    """How a published model is tuned: its task, the objective, the learning rate, and what is measured."""

    task: str
    objective: str
    lr: str
    metrics: str


_TUNED = {
    "labeled-text": _Tuning("classification", "classification", "5.0e-5", "accuracy, macro-f1"),
    "several": _Tuning("classification", "multi-label", "5.0e-5", "multi-label-f1"),
    "number": _Tuning("classification", "regression", "5.0e-5", "correlation"),
    "sentence-pairs": _Tuning("classification", "classification", "5.0e-5", "accuracy, macro-f1"),
    "multiple-choice": _Tuning("multiple-choice", "multiple-choice", "5.0e-5", "accuracy"),
    "question-answering": _Tuning("question-answering", "span", "5.0e-5", "answer-exact-match, answer-f1"),
    "tagged-text": _Tuning("token-classification", "tagging", "5.0e-5", "entity-f1"),
    "parallel-text": _Tuning("generation", "next-token", "3.0e-4", "bleu, chrf"),
    "plain-text": _Tuning("generation", "next-token", "5.0e-5", "word-perplexity"),
    "fill": _Tuning("masked-lm", "masked-lm", "5.0e-5", ""),
}
"""By the kind of data. 5e-5 with a linear fall is in the range of Devlin et al. 2019, appendix A.3; T5 wants more."""


def _data(made: Guess, folder: Path) -> list[str]:
    """The lines of the data that both kinds of recipe have."""
    lines = [f"  {split}: {_places(files, folder)}" for split, files in made.splits.items()]
    lines += [f"  {option}: {value}" for option, value in made.options.items()]
    if "valid" not in made.splits:
        lines.append("  validation_fraction: 0.05                   # share of the training rows that is kept for validation")
    return lines


def _places(files: list[str], folder: Path) -> str:
    def shown(file: str) -> str:
        path = Path(file).resolve()
        near = path.relative_to(folder.resolve()) if path.is_relative_to(folder.resolve()) else path
        return str(near) if re.fullmatch(r"[\w./-]+", str(near)) else repr(str(near))

    return shown(files[0]) if len(files) == 1 else f"[{', '.join(map(shown, files))}]"


_TOKENIZERS = {
    "plain-text": "  tokenizer: {type: bpe, vocab_size: 8000}\n  max_length: 128                  # longer texts are split",
    "parallel-text": "  tokenizer: {type: bpe, vocab_size: 8000}",
    "labeled-text": "  tokenizer: {type: word, lowercase: true}",
    "sentence-pairs": "  tokenizer: {type: word, lowercase: true}",
    "multiple-choice": "  tokenizer: {type: word, lowercase: true}",
    "question-answering": "  tokenizer: {type: bpe, vocab_size: 8000}",
    "tagged-text": "  tokenizer: {type: word, split: whitespace, max_characters: 20}   # words, and their letters",
}
_LEARNING = """
learning:                          # how the weights move
  type: gradient
  steps: {{steps}}
  batch_tokens: 2000               # token budget of a batch
  optimizer: {{{{type: adamw, lr: {lr}}}}}
  schedule: {{{{type: cosine, warmup: {{warmup}}}}}}

evaluate:
  every: {{every}}
  metrics: [{metrics}]
"""


def _body(structure: str, objective: str, lr: str, metrics: str, more: str = "") -> str:
    structure = structure.replace("{", "{{").replace("}", "}}")
    return (
        f"structure:                         # how it is computed\n{structure}\n\n"
        f"objective: {objective.replace('{', '{{').replace('}', '}}')}\n"
        + _LEARNING.format(lr=lr, metrics=metrics)
        + more.replace("{", "{{").replace("}", "}}")
    )


_CLASSIFIER = """  type: classifier
  dim: 128
  embedder: {type: sum, dropout: 0.3}
  encoder: {type: lstm, layers: 1, bidirectional: true}
  pooler: max"""
_BODIES = {
    "labeled-text": _body(_CLASSIFIER, "classification", "2.0e-3", "accuracy, macro-f1"),
    "several": _body(_CLASSIFIER, "multi-label", "2.0e-3", "multi-label-f1"),
    "number": _body(_CLASSIFIER, "regression", "2.0e-3", "correlation"),
    "sentence-pairs": _body(_CLASSIFIER, "classification", "2.0e-3", "accuracy, macro-f1"),
    "multiple-choice": _body(_CLASSIFIER.replace("classifier", "multiple-choice"), "multiple-choice", "2.0e-3", "accuracy"),
    "plain-text": _body(
        "  type: language-model\n  dim: 256\n  embedder: {type: sum, parts: [token, sinusoidal], dropout: 0.1}\n"
        "  decoder: {type: transformer, layers: 4}",
        "next-token",
        "1.0e-3",
        "word-perplexity",
    ),
    "parallel-text": _body(
        "  type: seq2seq\n  dim: 256\n  embedder: {type: sum, parts: [token, sinusoidal], dropout: 0.1}\n"
        "  encoder: {type: transformer, layers: 3}\n  decoder: {type: transformer, layers: 3}",
        "{type: next-token, label_smoothing: 0.1}",
        "1.0e-3",
        "bleu, chrf",
        "  max_examples: 500                # during training; at the end all\n  search: {type: beam, beams: 4}\n",
    ),
    "question-answering": _body(
        "  type: span-extractor\n  dim: 128\n  embedder: {type: sum, dropout: 0.2}\n"
        "  encoder: {type: lstm, layers: 2, bidirectional: true}",
        "span",
        "1.0e-3",
        "answer-exact-match, answer-f1",
    ),
    "tagged-text": _body(
        "  type: tagger\n  dim: 128\n  embedder: char-cnn\n  encoder: {type: lstm, layers: 1, bidirectional: true}",
        "tagging",
        "2.0e-3",
        "entity-f1",
    ),
}
