"""``weft demo``: train a shipped recipe, show what it learnt, write a page that shows where the decoder looked."""

from __future__ import annotations

from pathlib import Path

from weft.evaluate import EvaluationResult
from weft.inspect import attention_page
from weft.inspect.alignment import alignments
from weft.training.display import Terminal
from weft.training.run import Run, read_run
from weft.training.run_folder import RunFolder
from weft.training.trainer import train

_SHOWN = 12


def demo(recipe: str, folder: Path, overrides: list[str]) -> EvaluationResult:
    """Train, then print and draw some rows of the test split, one of each group that the metrics know."""
    run = read_run(recipe, overrides)
    RunFolder(folder).discard_if_made_by("demo")
    display = Terminal()
    judged = train(run, folder, display=display)
    show_examples(run, folder)
    return judged


def show_examples(run: Run, folder: Path) -> None:
    assert run.codec is not None
    rows = _one_of_each(run)
    texts, references = [r["source"] for r in rows], [r["target"] for r in rows]
    found = [hypotheses[0] for hypotheses in run.search_all(texts)]
    width = max(map(len, texts))
    print()
    for text, reference, best in zip(texts, references, found, strict=True):
        answer = run.text_of(best)
        print(f"  {text:{width}}  ->  {answer}" + ("" if answer == reference else f"   (should be {reference})"))
    page = folder / "attention.html"
    looked = alignments(run.model, run.codec, texts, found, references)
    attention_page(looked, page, f"Where the decoder looked: {run.name}")
    print(f"\nlearning curve  {folder / 'curve.png'}\nattention page  {page}\nfigures         {folder / 'metrics.json'}")


def _one_of_each(run: Run) -> list[dict[str, str]]:
    """Rows of the test split, each of another format where the data knows formats."""
    dataset = run.data().open(run.codec).splits["test"]
    found: dict[str, dict[str, str]] = {}
    for row in range(len(dataset)):
        raw = dataset.raw(row)
        found.setdefault(raw.get("format", str(row)), raw)
        if len(found) == _SHOWN:
            break
    return list(found.values())
