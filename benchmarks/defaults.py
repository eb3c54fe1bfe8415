"""The recipes of ``weft new`` against simple baselines, on real data: a queue of runs that can be interrupted and resumed.

    python -m benchmarks.defaults                   run missing arms, one after another, and write the table into the docs
    python -m benchmarks.defaults --table           print the table only; missing runs are counted
    python -m benchmarks.defaults --minutes 10      start no arm after 10 minutes

Arms: the default recipe and ``weft new --from minilm``, with three seeds each; and the baselines of ``weft baseline``. Training,
validation and test sets are disjoint samples of the data under WEFT_DATA; weights are selected on validation data, and
all numbers are of the test sets. Seconds are those of the whole run, from reading the data to the last metric, on one core.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.arms import FOLDER, Arm, done, figures_of, run
from benchmarks.document import show
from benchmarks.queue import parser_of, wanted
from benchmarks.results import record, recorded, spread
from weft.core.files import make_folder
from weft.core.io import write_text
from weft.core.options import find_file
from weft.experiments.baselines import LOGISTIC, MAJORITY, TAGS, run_baselines
from weft.experiments.scaffold import detect_data, fine_tuning_recipe, scratch_recipe
from weft.training.recipes import read_run

SEEDS = (1, 2, 3)
HOME = FOLDER / "defaults"
NAMES = ("train", "valid", "test")
ARMS = {"default": "default recipe", "minilm": "`--from minilm`"}


def lines_of(name: str) -> list[str]:
    """The lines of a file under WEFT_DATA, stripped."""
    return [line.strip() for line in find_file(name).read_text(encoding="utf-8-sig", errors="replace").split("\n")]


def sst2(split: str) -> list[str]:
    rows = (line.rpartition("\t") for line in lines_of(f"sst2/{split}.tsv")[1:] if line)
    return [f"{text.strip()}\t{'positive' if label == '1' else 'negative'}" for text, _, label in rows]


def by_class(names: dict[str, str]) -> list[str]:
    """Distinct texts of one file per class; a text of several classes is left out."""
    texts = {label: set(lines_of(name)) - {""} for label, name in names.items()}
    shared = set.intersection(*texts.values())
    return [f"{text}\t{label}" for label, own in texts.items() for text in sorted(own - shared) if "\t" not in text]


def reports(split: str) -> list[str]:
    """Chest X-ray reports, by whether the radiologists coded any finding."""
    findings = json.loads(find_file(f"iuxray/{split}.findings.json").read_text(encoding="utf-8"))
    rows = [json.loads(line) for line in lines_of(f"iuxray/{split}.jsonl") if line]
    labels = {True: "normal", False: "abnormal"}
    return [
        f"{' '.join(row['report'].split())}\t{labels[findings[row['id']] == ['normal']]}" for row in rows if row["id"] in findings
    ]


def paraphrases() -> list[str]:
    rows = [line.split("\t") for line in lines_of("mrpc/train.tsv")[1:]]
    labels = {"0": "different", "1": "paraphrase"}
    return [f"{row[3].strip()}\t{row[4].strip()}\t{labels[row[0]]}" for row in rows if len(row) == 5]


def sentences(split: str) -> list[str]:
    """Tagged sentences: a word and its tag per line."""
    blocks = "\n".join(lines_of(f"conll2003/{split}.conll")).split("\n\n")
    found = [[line.split() for line in block.split("\n") if line and not line.startswith("-DOCSTART-")] for block in blocks]
    return ["\n".join(f"{cells[0]} {cells[-1]}" for cells in sentence) + "\n" for sentence in found if sentence]


@dataclass(frozen=True)
class DataSet:
    """Data with training, validation and test examples.

    Args:
        name: Name in the table and in file names.
        sizes: Number of examples of the splits.
        rows: Examples, or the training and the test examples where the data has both.
        header: The first line of a table; empty = tagged text.
        metric: The metric in the table.
    """

    name: str
    sizes: tuple[int, int, int]
    rows: Callable[[], list[str]]
    test: Callable[[], list[str]] | None = None
    header: str = "text\tlabel"
    metric: str = "accuracy"

    @property
    def suffix(self) -> str:
        return ".tsv" if self.header else ".conll"

    def files(self) -> list[str]:
        """Write the splits where they are missing; return the files."""
        files = [HOME / f"{self.name}-{split}{self.suffix}" for split in NAMES]
        if not all(file.is_file() for file in files):
            make_folder(HOME)
            rows, kept = self.rows(), self.test() if self.test else []
            random.Random(0).shuffle(rows)
            random.Random(0).shuffle(kept)
            train, valid, test = self.sizes
            parts = (rows[:train], rows[train : train + valid], (kept or rows[train + valid :])[:test])
            for file, part in zip(files, parts, strict=True):
                write_text(file, "\n".join([*([self.header] if self.header else []), *part]) + "\n")
        return [str(file) for file in files]


DATA = (
    DataSet("sst2-1k", (1000, 500, 872), lambda: sst2("train"), lambda: sst2("dev")),
    DataSet("yelp-2k", (2000, 500, 1000), lambda: by_class({"negative": "yelp/negative.txt", "positive": "yelp/positive.txt"})),
    DataSet(
        "flickrstyle-2k",
        (2000, 500, 1000),
        lambda: by_class({"humorous": "flickrstyle/humorous.txt", "romantic": "flickrstyle/romantic.txt"}),
    ),
    DataSet("iuxray", (1200, 300, 296), lambda: reports("train"), lambda: reports("val")),
    DataSet("mrpc-2k", (2000, 500, 576), paraphrases, header="first\tsecond\tlabel"),
    DataSet("conll2003-1.5k", (1500, 500, 1000), lambda: sentences("train"), lambda: sentences("dev"), "", "entity_f1"),
)


def recipe_of(data: DataSet, kind: str) -> Path:
    """Write the recipe of an arm beside its data."""
    detected = detect_data(data.files())
    texts = {
        "default": lambda: scratch_recipe(detected, HOME),
        "minilm": lambda: fine_tuning_recipe(detected, HOME, "minilm"),
    }
    file = HOME / f"{data.name}-{kind}.yaml"
    write_text(file, texts[kind]())
    return file


def arm(data: DataSet, kind: str, seed: int) -> Arm:
    return Arm(f"defaults-{data.name}-{kind}-{seed}", str(recipe_of(data, kind)), (f"seed={seed}",), (data.metric,))


def arms() -> Iterator[Arm]:
    """All arms, those of the first seed first."""
    for seed in SEEDS:
        for kind in ARMS:
            for data in DATA:
                yield arm(data, kind, seed)


def baselines(data: DataSet) -> dict[str, Any]:
    """Baselines of the default recipe on the test set: as recorded, or computed."""
    name = f"baselines-{arm(data, 'default', 1).folder().name}"
    if (kept := recorded(name)) is not None:
        return kept
    report = run_baselines(read_run(str(recipe_of(data, "default"))))
    found = {
        "results": {
            result.name: {"value": result.metric_values[data.metric], "interval": result.intervals[data.metric]}
            for result in report.results
            if result.split == "test"
        },
        "seconds": report.seconds,
    }
    record(name, found)
    return found


def cell_of(data: DataSet, kind: str) -> str:
    """Mean and standard deviation over the seeds, and seconds."""
    found = [figures for seed in SEEDS if (figures := figures_of(arm(data, kind, seed))) is not None]
    if not found:
        return "missing"
    seconds = statistics.median(figures["cpu_seconds"] for figures in found)
    missing = f" ({len(found)} of {len(SEEDS)})" if len(found) < len(SEEDS) else ""
    return f"{spread([100 * figures['metrics'][data.metric] for figures in found])}, {seconds:.0f} s{missing}"


def table() -> list[str]:
    names = ["data", "metric", "examples", "majority class", "TF-IDF + LR (95 % interval)", *ARMS.values()]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for data in DATA:
        simple = baselines(data)["results"]
        best = simple.get(LOGISTIC) or simple[TAGS]
        low, high = best["interval"]
        score = f"{100 * best['value']:.1f} ({100 * low:.1f} to {100 * high:.1f})"
        cells = [f"{100 * simple[MAJORITY]['value']:.1f}", score] if MAJORITY in simple else ["", f"{score}, {TAGS}"]
        shown = [data.name, data.metric.replace("_", " "), f"{data.sizes[0]:,}", *cells, *(cell_of(data, kind) for kind in ARMS)]
        lines.append(f"| {' | '.join(shown)} |")
    return lines


def main() -> None:
    chosen = parser_of(__doc__).parse_args()
    began, failed = time.monotonic(), list[str]()
    for one in wanted(arms(), chosen, began):
        if figures_of(one) is None and not run(one):
            failed.append(one.name)
        if done(one.folder()):
            figures_of(one)
    show("defaults", table(), **({"page": None} if chosen.table else {}))
    raise SystemExit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
