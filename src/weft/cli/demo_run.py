"""Train a shipped recipe, print some of its test examples and write a page of the attention weights (``weft demo``)."""

from __future__ import annotations

from pathlib import Path

from weft.cli.console import print_result
from weft.evaluate import EvaluationResult
from weft.inference.trained_run import TrainedRun
from weft.inspect import attention_page
from weft.inspect.alignment import alignments
from weft.training.display import Terminal
from weft.training.recipes import read_run
from weft.training.run_folder import RunFolder
from weft.training.trainer import train

EXAMPLES = 12
"""Number of test examples to show."""


def demo(recipe: str, folder: Path, overrides: list[str]) -> EvaluationResult:
    """Train a recipe into a folder, then show test examples, one of each group if the data has groups."""
    run = read_run(recipe, overrides)
    RunFolder(folder).remove_if_created_by("demo")
    trained = train(run, folder, display=Terminal())
    show_examples(trained, folder)
    return trained.result


def show_examples(run: TrainedRun, folder: Path) -> None:
    """Print inputs with outputs, and write ``attention.html`` into the run folder."""
    examples = _select_examples(run)
    texts, references = [e["source"] for e in examples], [e["target"] for e in examples]
    hypotheses = [n_best[0] for n_best in run.hypotheses(texts)]
    width = max(map(len, texts))
    print_result()
    for text, reference, hypothesis in zip(texts, references, hypotheses, strict=True):
        output = run.decode(hypothesis)
        print_result(f"  {text:{width}}  ->  {output}" + ("" if output == reference else f"   (reference: {reference})"))
    page = folder / "attention.html"
    attention_page(alignments(run.model, run.codec, texts, hypotheses, references), page, f"Cross-attention weights: {run.name}")
    print_result(f"\nlearning curve  {folder / 'curve.png'}\nattention page  {page}\nmetrics         {folder / 'metrics.json'}")


def _select_examples(run: TrainedRun) -> list[dict[str, str]]:
    """Examples of the test split, each of another ``format`` where the data has that column."""
    dataset = run.run.data().open(run.codec).splits["test"]
    found: dict[str, dict[str, str]] = {}
    for index in range(len(dataset)):
        raw = dataset.raw(index)
        found.setdefault(raw.get("format", str(index)), raw)
        if len(found) == EXAMPLES:
            break
    return list(found.values())
