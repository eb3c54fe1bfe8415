"""Run a demonstration: write its data, train its recipe, print some test examples and write a page that explains them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.cli.console import message, print_result
from weft.cli.demos import DEMOS, recipe_of
from weft.cli.demos.data import DATA
from weft.core.contracts import Decodes
from weft.core.printable import printable_line
from weft.data.cache import cache_folder, entry
from weft.evaluate import EvaluationResult, class_report
from weft.inference.trained_run import TrainedRun
from weft.inspect import attention_page, attribution, attribution_page
from weft.inspect.alignment import alignments
from weft.training.display import Terminal
from weft.training.recipes import read_run
from weft.training.run_folder import RunFolder
from weft.training.trainer import train

EXAMPLES = 12
"""Number of test examples to show."""
_WRONG, _ATTRIBUTED = 4, 6
QUERIES = (
    "remove a directory and all of its files",
    "how long does my code take",
    "the average of some numbers",
    "undo HTML markup",
)
"""Queries of the demonstration ``search``."""


def demo(name: str, folder: Path, overrides: list[str], recipe: str | None = None) -> EvaluationResult | None:
    """Run a demonstration in a folder.

    Args:
        name: Its name in ``DEMOS``.
        folder: The run folder.
        overrides: Overrides of its recipe.
        recipe: Another recipe; None = its own.
    """
    chosen = DEMOS[name]
    chosen.check(name)
    if overrides and not chosen.recipe:
        raise ValueError(f"{overrides[0]}: the demonstration {name} trains nothing, so it has no options; remove it")
    print_result(f"{name}: {chosen.summary}")
    files = _write_data(chosen.data) if chosen.data else {}
    if not chosen.recipe:
        _search(files["sentences"])
        return None
    changes = [f"data.{split}={file}" for split, file in files.items()]
    run = read_run(recipe or recipe_of(chosen), [*changes, *overrides])
    RunFolder(folder).remove_if_created_by("demo")
    trained = train(run, folder, display=Terminal())
    if Decodes in trained.model.provides():
        show_examples(trained, folder)
    else:
        _show_classes(trained, folder)
    return trained.result


def _write_data(name: str) -> Mapping[str, Path]:
    """Write the data into the cache; it is written again by each demonstration, so that it follows the installed packages."""
    with entry(f"demo-{name}") as folder, Terminal().waiting("reading the data from installed packages"):
        files = DATA[name](folder)
    message(f"data: {', '.join(files)} in {cache_folder() / f'demo-{name}'}")
    return files


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
    rows = sorted(run.result.predictions)
    if rows and " " in references[0]:  # tokens such as phonemes, not characters
        rate = token_error_rate([run.result.predictions[r] for r in rows], [run.result.references[r]["target"] for r in rows])
        print_result(f"\ntoken error rate {rate:.1%} on {len(rows):,} test examples (edit distance / length of the references)")
    page = folder / "attention.html"
    attention_page(alignments(run.model, run.codec, texts, hypotheses, references), page, f"Cross-attention weights: {run.name}")
    print_result(f"\nlearning curve  {folder / 'curve.png'}\nattention page  {page}\nmetrics         {folder / 'metrics.json'}")
    _show_next(folder, [f"weft generate {shlex.quote(str(folder))}   (one input per line)"])


def token_error_rate(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Return the edit distance between tokens separated by spaces, divided by the number of tokens of the references.

    >>> token_error_rate(["K AE T S"], ["K AH T"])
    0.6666666666666666
    """
    pairs = [(guess.split(), truth.split()) for guess, truth in zip(predictions, references, strict=True)]
    return sum(_edit_distance(guess, truth) for guess, truth in pairs) / max(1, sum(len(truth) for _, truth in pairs))


def _edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Levenshtein distance: the smallest number of insertions, deletions and substitutions."""
    before = list(range(len(other) + 1))
    for i, token in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (token != wanted)))
        before = row
    return before[-1]


def _show_classes(run: TrainedRun, folder: Path) -> None:
    """Print test examples with their predicted class and the scores of every class; write ``attribution.html``."""
    result = run.result
    field, is_image = run.codec.info.inputs()[0].name, bool(run.codec.info.images())
    wrong = [row for row in sorted(result.predictions) if result.predictions[row] != result.references[row]["label"]]
    others = sorted(result.predictions.keys() - set(wrong))
    shown_wrong = wrong[: max(_WRONG, EXAMPLES - len(others))]
    rows = [*others[: EXAMPLES - len(shown_wrong)], *shown_wrong]
    print_result()
    for row in rows:
        example: Mapping[str, Any] = result.references[row]
        text = Path(example[field]).name if is_image else printable_line(example[field])[:90]
        correct = result.predictions[row] == example["label"]
        print_result(f"  {text}  ->  {result.predictions[row]}" + ("" if correct else f"   (true: {example['label']})"))
    if report := class_report(result, run.codec.info):
        print_result("\n" + report.text())
    shown = rows[-_ATTRIBUTED:]
    baseline = "black" if is_image else "zero"
    found = [attribution(run, result.references[row][field], baseline=baseline) for row in shown]
    page = attribution_page(found, folder / "attribution.html", f"Attribution: {run.name}")
    lines = {"learning curve": "curve.png", "confusion matrix": "confusion.png", "metrics": "metrics.json"}
    print_result(
        "\n" + "\n".join(f"{what:17} {folder / file}" for what, file in lines.items()) + f"\n{'attribution page':17} {page}"
    )
    given = shlex.quote(printable_line(result.references[shown[0]][field]))
    quoted = shlex.quote(str(folder))
    _show_next(folder, [f"weft inspect {quoted} --input {given} --method occlusion", f"weft errors {quoted}"])


def _search(file: Path) -> None:
    """Embed the sentences, and print the most similar ones for each query."""
    from weft.inference.embedding import open_embedder

    texts = file.read_text(encoding="utf-8").splitlines()
    with Terminal().waiting(f"embedding {len(texts):,} sentences"):
        encoder = open_embedder("minilm")
        vectors = encoder(texts)
    for query in QUERIES:
        print_result(f"\n{query}")
        for similarity, text in encoder.nearest(query, texts, vectors, 3):
            print_result(f"  {similarity:.3f}  {printable_line(text)}")
    print_result(f"\nsentences  {file}")
    _show_next(None, [f'weft embed minilm {shlex.quote(str(file))} --query "your own query"'])


def _show_next(folder: Path | None, commands: list[str]) -> None:
    first = [f"weft evaluate {shlex.quote(str(folder))}"] if folder else []
    print_result("\nnext:\n" + "\n".join(f"  {command}" for command in [*first, *commands]))


def _select_examples(run: TrainedRun) -> list[dict[str, str]]:
    """Examples of the test split, each of another ``format`` where the data has that column."""
    dataset = run.dataset("test")[1]
    found: dict[str, dict[str, str]] = {}
    for index in range(len(dataset)):
        raw = dataset.raw(index)
        found.setdefault(raw.get("format", str(index)), raw)
        if len(found) == EXAMPLES:
            break
    return list(found.values())
