"""Paraphrases (MRPC) by cross-validation: MiniLM fine-tuned, and frozen with a linear head.

    python -m benchmarks.paraphrases           run missing arms, then print the table
    python -m benchmarks.paraphrases --table   print the table only

The training file (under WEFT_DATA) is split into three folds by a seeded shuffle; each fold is the validation set once.
Accuracy and F1 of the paraphrase class are those of the final weights, pooled over the folds; nothing is selected by them.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from sklearn.metrics import accuracy_score, f1_score

from benchmarks.arms import FOLDER, FROZEN, HALF, Arm, done, only, run
from weft.core.io import read_lines, write_text
from weft.core.options import find_file
from weft.recipe import RecipeError

FOLDS = 3
# without weight averaging: over so few updates the average would still be close to the initial weights
WAYS = {"tuned": (*HALF, "learning.ema=null"), "frozen": (only("classifier"), *FROZEN)}


def parts() -> list[list[str]]:
    """The header, then the rows of each fold."""
    header, *rows = find_file("mrpc/train.tsv").read_text(encoding="utf-8-sig").rstrip("\n").split("\n")
    random.Random(1).shuffle(rows)
    return [[header], *(rows[fold::FOLDS] for fold in range(FOLDS))]


def arm(fold: int, way: str) -> Arm:
    header, *folds = parts()
    files: dict[str, Path] = {}
    rest = [row for number, part in enumerate(folds) if number != fold for row in part]
    for name, rows in (("train", rest), ("valid", folds[fold])):
        files[name] = (FOLDER / f"mrpc-{name}-{fold}.tsv").resolve()
        files[name].parent.mkdir(parents=True, exist_ok=True)
        write_text(files[name], "\n".join([*header, *rows]) + "\n")
    columns = "first: '#1 String', second: '#2 String', label: Quality"
    paths = ", ".join(f"{name}: {file}" for name, file in files.items())
    tokenizer = "tokenizer: {type: pretrained, from: minilm}, max_length: 128"
    data = f"data={{type: sentence-pairs, {paths}, {columns}, {tokenizer}}}"
    return Arm(f"mrpc-{way}-{fold}", "classify-minilm", (data, "learning.steps=400", *WAYS[way]), ("accuracy",))


def main() -> None:
    print("| MiniLM | parts | accuracy | F1 of paraphrases | all are paraphrases: accuracy, F1 |\n|---|---|---|---|---|")
    for way in WAYS:
        predicted: list[str] = []
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
                raise SystemExit(f"the data of MRPC is missing: {missing}") from None
            lines = read_lines(own.folder() / "predictions.jsonl")
            predicted += [line["prediction"] for line in lines]
            right += [line["reference"]["label"] for line in lines]
            finished += 1
        if not finished:
            print(f"| {way} | missing | | | |")
            continue
        all_same = ["1"] * len(right)
        values = [f"{measure(right, some):.1%}" for some in (predicted, all_same) for measure in (accuracy_score, _f1)]
        print(f"| {way} | {finished} of {FOLDS} | {values[0]} | {values[1]} | {values[2]}, {values[3]} |")


def _f1(right: list[str], predicted: list[str]) -> float:
    return float(f1_score(right, predicted, pos_label="1"))


if __name__ == "__main__":
    main()
