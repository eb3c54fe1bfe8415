"""Pretraining objectives: one small Transformer, pretrained with five objectives or not at all, then fine-tuned and probed.

    python -m benchmarks.pretraining           run missing arms, then print the table and write the plot
    python -m benchmarks.pretraining --table   print the table only; names missing arms
    python -m benchmarks.pretraining --minutes 30    stop after that time; another call resumes
    python -m benchmarks.pretraining --part 1/2      every second run, for one core; another call takes --part 2/2

Pretraining: Yelp sentences (benchmarks/pretraining.yaml), the same examples in the same order and the same number of updates for
each objective, one seed. Then SST-2 with 200, 1,000 and 5,000 labels, sampled with three seeds: all weights fine-tuned, or a
linear probe on the frozen encoder. The metric is accuracy on the development set after the last update. The data is expected
under WEFT_DATA; runs are stored under the hash of their recipe.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arms import FOLDER, Arm, done, figures_of, run
from benchmarks.queue import parser_of, wanted
from benchmarks.results import spread
from weft.core.io import write_text
from weft.core.options import find_file
from weft.recipe import RecipeError

RECIPE = str(Path(__file__).with_suffix(".yaml"))
LABELS, SEEDS, WAYS = (200, 1000, 5000), (1, 2, 3), ("tuned", "probed")
STEPS = {200: 100, 1000: 200, 5000: 400}
_LAYER = "{mixer: {type: multihead, heads: 4}, residual: {type: pre-norm, dropout: 0.1}}"
_PARTS = "dim: 128, embedder: {type: sum, parts: [token, sinusoidal], dropout: 0.1}"
_STACK = f"{{type: transformer, layers: 3, layer: {_LAYER}}}"
_ENCODER, _DECODER = f"encoder: {_STACK}", f"decoder: {_STACK.replace('layers: 3', 'layers: 1')}"
_LM = f"structure={{type: language-model, {_PARTS}, decoder: {_STACK}}}"
_SEQ2SEQ = f"structure={{type: seq2seq, {_PARTS}, {_ENCODER}, {_DECODER}}}"
OBJECTIVES: dict[str, tuple[str, ...]] = {
    "masked tokens": (),
    "replaced tokens": ("objective=replaced-token", "structure.discriminator={type: classifier, hidden: 128}"),
    "next token": (_LM, "objective=next-token"),
    "random spans": (_SEQ2SEQ, "objective={type: denoising, noise: random-spans}"),
    "infilling": (_SEQ2SEQ, "objective={type: denoising, noise: text-infilling}"),
}
"""Overrides of the recipe by objective."""
TITLES = {
    "masked tokens": "masked tokens (BERT)",
    "replaced tokens": "replaced tokens (ELECTRA)",
    "next token": "next token (GPT)",
    "random spans": "random spans (T5)",
    "infilling": "infilling (BART)",
    "nothing": "no pretraining",
}
WAY_TITLES = {"tuned": "fine-tuned", "probed": "probed"}
"""Titles in the table and the plot; names of runs stay as recorded."""


def pretraining(name: str) -> Arm:
    return Arm(f"pretrain-{name.replace(' ', '-')}", RECIPE, OBJECTIVES[name])


@dataclass(frozen=True)
class Trial:
    """One fine-tuning run: the pretraining objective, the number of labels, their seed, and the trained weights."""

    before: str
    labels: int
    seed: int
    way: str

    def arm(self) -> Arm:
        """Return the run. Its pretraining run must exist."""
        begun = pretraining(self.before if self.before in OBJECTIVES else "masked tokens").folder().resolve()
        weights = f"weights: {begun}" if self.before in OBJECTIVES else "weights: null"
        if self.before == "next token":
            structure = f"type: language-model, {_PARTS}, decoder: {_STACK}, pooler: last"
        else:
            structure = f"type: classifier, {_PARTS}, {_ENCODER}, pooler: mean"
        files = f"train: {subset(self.labels, self.seed)}, valid: {find_file('sst2/dev.tsv')}, max_length: 64"
        tokenizer = f"tokenizer: {{type: with-sentinels, tokenizer: {{type: pretrained, from: {begun}}}, count: 20}}"
        rate, trained = ("1e-3", "'*'") if self.way == "tuned" else ("1e-2", "classifier.*")
        changes = (
            f"seed={self.seed}",
            f"data={{type: labeled-text, {files}, {tokenizer}}}",
            f"structure={{{structure}, {weights}}}",
            f"objective={{type: classification, bos: {str(self.before == 'next token').lower()}}}",
            f"learning.steps={STEPS[self.labels]}",
            "learning.batch_tokens=1000",
            "learning.save_every=0",
            f"learning.phases=[{{train: [{trained}]}}]",
            f"learning.optimizer={{type: adamw, lr: {rate}, weight_decay: 0.01}}",
            "learning.schedule={type: linear, warmup: 30}",
            "evaluate={metrics: [accuracy]}",
        )
        name = "-".join(map(str, (self.way, self.before.replace(" ", "-"), self.labels, self.seed)))
        return Arm(name, RECIPE, changes, ("accuracy",))


def trials() -> Iterator[Trial]:
    for labels in LABELS:
        for seed in SEEDS:
            for way in WAYS:
                for before in TITLES:
                    yield Trial(before, labels, seed, way)


def subset(labels: int, seed: int) -> Path:
    """Return a file with ``labels`` examples of the SST-2 training set."""
    file = (FOLDER / f"sst2-{labels}-{seed}.tsv").resolve()
    if not file.is_file():
        header, *rows = find_file("sst2/train.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, "\n".join([header, *random.Random(seed).sample(rows, labels)]) + "\n")
    return file


def accuracies(before: str, labels: int, way: str) -> list[float]:
    """Return the accuracy of each seed with a result."""
    found: list[float] = []
    for seed in SEEDS:
        try:
            kept = figures_of(Trial(before, labels, seed, way).arm())
        except (OSError, RecipeError):  # its data or its pretraining run is missing
            continue
        if kept is not None:
            found.append(100 * kept["metrics"]["accuracy"])
    return found


def cell(found: list[float]) -> str:
    if not found:
        return "missing"
    return spread(found) + (f" ({len(found)} of {len(SEEDS)} seeds)" if len(found) < len(SEEDS) else "")


def table() -> str:
    columns = [(way, labels) for way in WAYS for labels in LABELS]
    lines = ["| pretrained by | " + " | ".join(f"{WAY_TITLES[way]}, {labels:,} labels" for way, labels in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for before in TITLES:
        lines.append(
            f"| {TITLES[before]} | " + " | ".join(cell(accuracies(before, labels, way)) for way, labels in columns) + " |"
        )
    return "\n".join(lines)


def draw(file: Path) -> None:
    """Plot accuracy against the number of labels, fine-tuned and probed."""
    import matplotlib.pyplot as plt

    figure, sides = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
    for side, way in zip(sides, WAYS, strict=True):
        for before in TITLES:
            points = [(labels, found) for labels in LABELS if (found := accuracies(before, labels, way))]
            means = [statistics.mean(found) for _, found in points]
            spreads = [statistics.stdev(found) if len(found) > 1 else 0.0 for _, found in points]
            look = {"label": TITLES[before], "marker": "o", "linestyle": "--" if before == "nothing" else "-", "capsize": 3}
            side.errorbar([labels for labels, _ in points], means, spreads, **look)
        side.set(
            xscale="log", title=WAY_TITLES[way], xlabel="labeled examples", xticks=LABELS, xticklabels=[f"{n:,}" for n in LABELS]
        )
        side.minorticks_off()
        side.grid(alpha=0.3)
    sides[0].set_ylabel("accuracy, % (SST-2 development set)")
    sides[1].legend(title="pretrained by", fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--picture", type=Path, default=Path("docs/images/pretraining.png"))
    chosen, began, failed = parser.parse_args(), time.monotonic(), list[str]()

    def each(arms: Iterator[Arm], finished: Callable[[Arm], bool]) -> None:
        for arm in wanted(arms, chosen, began):
            try:
                failed.extend([] if finished(arm) or run(arm) else [arm.name])
            except (OSError, RecipeError) as missing:
                print(f"== {arm.name}: {missing}", flush=True)

    each((pretraining(name) for name in OBJECTIVES), lambda arm: done(arm.folder()))
    each((trial.arm() for trial in trials()), lambda arm: figures_of(arm) is not None)
    print(table())
    if any(accuracies("nothing", labels, "tuned") for labels in LABELS):
        draw(chosen.picture)
    raise SystemExit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
