"""The recipes on real data: a queue of runs, each stored under the hash of its recipe, so that it runs once and can be resumed.

    python -m benchmarks.arms            run missing arms, one after another, then print the table
    python -m benchmarks.arms --table    print the table only; names missing runs
    python -m benchmarks.arms tag lm     only these

The data is expected under WEFT_DATA; results are stored in benchmarks/results. Minutes are wall-clock time of the whole run, from
reading the data to the last metric, and are comparable only on an idle machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import record, recorded
from weft.core.io import read_json
from weft.recipe import RecipeError
from weft.training.recipes import read_run

FOLDER = Path("runs/arms")
LSTM = (
    "structure.encoder={type: lstm, layers: 2, bidirectional: true, dropout: 0.3}",
    "structure.decoder=attention-lstm",
)
HALF = ("precision=bf16",)
"""Matrix products in bfloat16, for processors with such instructions; weights stay in fp32."""
FROZEN = (*HALF, "learning.optimizer.lr=3e-3", "learning.optimizer.weight_decay=0", "learning.steps=600", "learning.ema=null")
"""Frozen pretrained features with a linear head; the arm names the trained parameters. Without weight averaging: over so few
updates the average would still be close to the initial head."""
SOTU = ("data.train=sotu", "data.unit=file", "data.max_length=128", "learning.steps=1500")


def elsewhere() -> list[Path]:
    """Folders whose path differs between clones and must not enter the hash: of the runs, and of installed packages."""
    return [FOLDER.resolve(), Path(sysconfig.get_path("purelib")).resolve()]


@dataclass(frozen=True)
class Arm:
    """One run: its name, a packaged recipe, overrides, and the metrics to show."""

    name: str
    recipe: str
    changes: tuple[str, ...] = ()
    metric_values: tuple[str, ...] = ()

    def folder(self) -> Path:
        """The folder of the run; a different recipe has a different folder. Raises RecipeError if its data is missing."""
        content = json.dumps(read_run(self.recipe, self.changes).dump(), sort_keys=True)
        for folder in elsewhere():
            content = content.replace(f"{folder}/", "")
        return FOLDER / f"{self.name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def only(head: str) -> str:
    """Train this head alone."""
    return f"learning.phases=[{{train: [{head}.*]}}]"


ARMS = (
    Arm("translate", "translate", (), ("bleu", "chrf")),
    Arm("translate-small", "translate-small", (), ("bleu", "chrf")),
    Arm("translate-lstm", "translate", LSTM, ("bleu", "chrf")),
    *(Arm(f"classify-{seed}", "classify", (f"seed={seed}",), ("accuracy",)) for seed in (1, 2, 3)),
    *(Arm(f"tag-{seed}", "tag", (f"seed={seed}",), ("entity_f1",)) for seed in (1, 2, 3)),
    Arm("tag-and-read", "tag-and-read", (), ("entity_f1",)),
    Arm("lm-shakespeare", "language-model", (), ("word_perplexity",)),
    Arm("lm-sotu", "language-model", SOTU, ("word_perplexity",)),
    Arm("minilm-classify", "classify-minilm", HALF, ("accuracy",)),
    Arm("minilm-classify-frozen", "classify-minilm", (only("classifier"), *FROZEN), ("accuracy",)),
    Arm("minilm-tag", "tag-minilm", HALF, ("entity_f1",)),
    Arm("minilm-tag-frozen", "tag-minilm", (only("tag_head"), *FROZEN), ("entity_f1",)),
    Arm("minilm-similar", "similar-minilm", HALF, ("spearman", "pearson")),
    Arm("minilm-similar-frozen", "similar-minilm", (only("classifier"), *FROZEN), ("spearman", "pearson")),
    Arm("minilm-choose", "choose-minilm", HALF, ("accuracy",)),
    Arm("minilm-choose-frozen", "choose-minilm", (only("choice_head"), *FROZEN), ("accuracy",)),
    Arm("minilm-choose-answers-alone", "choose-minilm", (*HALF, "data.given=nothing", "learning.steps=600"), ("accuracy",)),
    Arm("minilm-answer", "answer-minilm", HALF, ("answer_f1", "answer_exact_match")),
    Arm("minilm-answer-frozen", "answer-minilm", (only("span_head"), *FROZEN), ("answer_f1", "answer_exact_match")),
    Arm("pretrain-classify", "pretrain-classify", (), ("accuracy",)),
)


def done(folder: Path) -> bool:
    return (folder / "metrics.json").is_file()


def figures_of(arm: Arm) -> dict[str, Any] | None:
    """Metrics and cost of an arm: read from its run and recorded, or as recorded. None = missing."""
    folder = arm.folder()
    if done(folder):
        usage = read_json(folder / "usage.json")
        costs = {name: usage[name] for name in ("seconds", "cpu_seconds", "peak_memory")}
        record(folder.name, {"metrics": read_json(folder / "metrics.json"), **costs})
    return recorded(folder.name)


def run(arm: Arm) -> bool:
    """Train an arm to its end, resuming from the last checkpoint; return whether it succeeded."""
    folder = arm.folder()
    begun = (folder / "recipe.yaml").is_file()
    command = [str(folder), "--resume"] if begun else [arm.recipe, *arm.changes, "--run", str(folder)]
    print(f"== {arm.name}: weft train {' '.join(command)}", flush=True)
    return subprocess.run([sys.executable, "-m", "weft", "train", *command]).returncode == 0


def row_of(arm: Arm) -> str:
    try:
        found = figures_of(arm)
    except RecipeError:
        return f"| {arm.name} | its data is not under WEFT_DATA | | | |"
    if found is None:
        return f"| {arm.name} | missing | | | |"
    metrics, shown = found["metrics"], list[str]()
    for figure in arm.metric_values:
        low, high = metrics.get("intervals", {}).get(figure, (None, None))
        shown.append(f"{figure} {metrics[figure]:.4g}" + (f" ({low:.4g} to {high:.4g})" if low is not None else ""))
    minutes = f"{found['seconds'] / 60:.1f} | {found['cpu_seconds'] / 60:.1f}"
    return f"| {arm.name} | {', '.join(shown)} | {minutes} | {found['peak_memory'] / 1e6:.0f} |"


def table() -> str:
    return "\n".join(
        ["| run | metrics (95 % interval) | minutes | of a core | memory, MB |", "|---|---|---|---|---|", *map(row_of, ARMS)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only arms whose names start with one of these")
    parser.add_argument("--table", action="store_true", help="print the table only")
    chosen = parser.parse_args()
    wanted = [arm for arm in ARMS if not chosen.names or arm.name.startswith(tuple(chosen.names))]
    failed: list[str] = []
    for arm in [] if chosen.table else wanted:
        try:
            failed += [] if figures_of(arm) or run(arm) else [arm.name]
        except RecipeError as missing:
            print(f"== {arm.name}: {missing.problems[0].text}", flush=True)
    print(table())
    raise SystemExit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
