"""Paraphrases (MRPC) by cross-validation: MiniLM tuned, and frozen with a linear head.

    python -m benchmarks.paraphrases           run what is missing, then show the table
    python -m benchmarks.paraphrases --table   only show what is there

The training file (under WEFT_DATA) is cut into three parts by a seeded shuffle; each is once what the others are judged by.
Accuracy and the F1 of the class of paraphrases are of the final weights, pooled over the three parts; nothing is chosen by them.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from sklearn.metrics import accuracy_score, f1_score

from benchmarks.arms import FROZEN, HALF, PLACE, Arm, done, only, run
from weft.core.io import read_lines, write_text
from weft.core.options import find_file
from weft.recipe import RecipeError

FOLDS = 3
# without averaged weights: over so few updates the average would still be half of what it began with
WAYS = {"tuned": (*HALF, "learning.ema=null"), "frozen": (only("classifier"), *FROZEN)}


def parts() -> list[list[str]]:
    """The rows in three parts, and the header before all."""
    header, *rows = find_file("mrpc/train.tsv").read_text(encoding="utf-8-sig").rstrip("\n").split("\n")
    random.Random(1).shuffle(rows)
    return [[header], *(rows[fold::FOLDS] for fold in range(FOLDS))]


def arm(fold: int, way: str) -> Arm:
    header, *folds = parts()
    files: dict[str, Path] = {}
    rest = [row for number, part in enumerate(folds) if number != fold for row in part]
    for name, rows in (("train", rest), ("valid", folds[fold])):
        files[name] = (PLACE / f"mrpc-{name}-{fold}.tsv").resolve()
        files[name].parent.mkdir(parents=True, exist_ok=True)
        write_text(files[name], "\n".join([*header, *rows]) + "\n")
    columns = "first: '#1 String', second: '#2 String', label: Quality"
    places = ", ".join(f"{name}: {file}" for name, file in files.items())
    tokenizer = "tokenizer: {type: pretrained, from: minilm}, length: 128"
    data = f"data={{type: sentence-pairs, {places}, {columns}, {tokenizer}}}"
    return Arm(f"mrpc-{way}-{fold}", "classify-minilm", (data, "learning.steps=400", *WAYS[way]), ("accuracy",))


def main() -> None:
    print("| MiniLM | parts | accuracy | F1 of paraphrases | all are paraphrases: accuracy, F1 |\n|---|---|---|---|---|")
    for way in WAYS:
        said: list[str] = []
        right: list[str] = []
        finished = 0
        for fold in range(FOLDS):
            try:
                own = arm(fold, way)
                if "--table" not in sys.argv and not done(own.folder()):
                    run(own)
                if not done(own.folder()):
                    continue
            except (OSError, RecipeError) as missing:
                raise SystemExit(f"MRPC's file is not there: {missing}") from None
            lines = read_lines(own.folder() / "predictions.jsonl")
            said += [line["prediction"] for line in lines]
            right += [line["reference"]["label"] for line in lines]
            finished += 1
        if not finished:
            print(f"| {way} | missing | | | |")
            continue
        all_same = ["1"] * len(right)
        values = [f"{measure(right, some):.1%}" for some in (said, all_same) for measure in (accuracy_score, _f1)]
        print(f"| {way} | {finished} of {FOLDS} | {values[0]} | {values[1]} | {values[2]}, {values[3]} |")


def _f1(right: list[str], said: list[str]) -> float:
    return float(f1_score(right, said, pos_label="1"))


if __name__ == "__main__":
    main()
