"""``weft evaluate`` and ``weft errors``: metrics of a trained run, and the examples it gets most wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.console import message, print_json, print_json_line, print_result
from weft.cli.options import Json, RunOrModel, Source, command
from weft.cli.runs import load_for_files
from weft.core.printable import printable_line

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

Split = Annotated[str | None, typer.Option(help="Split of the data (default: test; valid if there is no test split).")]
Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE]... [data.OPTION=VALUE]...",
        help="Other data files of the same format (default: the data of the run), CLASS=FILE for one file per class; and options "
        "of the data source that differ for them.",
        show_default=False,
    ),
]
RunOrEncoder = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="The folder of a trained run; a published encoder for similarity.", show_default=False),
]
Similarity = Annotated[
    bool,
    typer.Option(
        "--similarity",
        help="Evaluate sentence embeddings: correlate the cosine similarity of sentence pairs with their scores. FILE is a "
        "table with two texts and a number; the default for a published encoder without a head.",
    ),
]


@command
def evaluate(
    run: RunOrEncoder,
    files: Files = None,
    split: Split = None,
    source: Source = None,
    similarity: Similarity = False,
    as_json: Json = False,
) -> None:
    """Evaluate a trained run on a split of its data or on other files, or an encoder on sentence similarity.

    Metrics have 95% confidence intervals. Of classifiers and taggers, precision, recall and F1 of each class or entity type
    follow.
    """
    if similarity or _is_bare_encoder(run):
        _evaluate_similarity(run, files or [], as_json)
        return
    trained, data_files = load_for_files(run, files, source)
    report_evaluation(run, trained, split, data_files, as_json)


def report_evaluation(
    run: Path,
    trained: TrainedRun,
    split: str | None,
    files: list[str],
    as_json: bool,
    more: Mapping[str, float] = {},
    warnings: Sequence[str] = (),
) -> None:
    """Evaluate a run, print the metrics and, for a split of its data, write them into its folder.

    Args:
        run: The folder of the run.
        trained: The run.
        split: The split; None = the default one.
        files: Data files instead of a split.
        as_json: Whether to print JSON.
        more: Further metrics, from a command of a plug-in; they have no confidence intervals.
        warnings: Warnings about these metrics.
    """
    from weft.core.io import finite, write_json
    from weft.evaluate import class_report
    from weft.inspect.classification_plots import plot_classification
    from weft.training.display import show_intervals
    from weft.training.run_folder import FORMAT

    result = trained.evaluate(_data(split, files))
    result.remarks += [f"warning: {warning}" for warning in warnings]
    about = result.details(trained.evaluation().metrics)
    metric_values = {**result.metric_values, **more}
    if not files:
        document = {"format": FORMAT, "split": result.split, **metric_values, **about}
        of = f"{trained.part}-" if trained.part else ""
        write_json(run / f"metrics-{of}{result.split}.json", finite(document))
        if problem := plot_classification(trained, result, run):
            message(problem)
    report = class_report(result, trained.codec.info)
    if as_json:
        print_json({**metric_values, **about, **({"class_report": report.document()} if report else {})})
    else:
        print_result("\n".join([show_intervals(metric_values, about["intervals"], result.signatures), *result.remarks]))
        if report:
            print_result("\n" + report.text())


def _data(split: str | None, files: list[str]) -> str | list[str] | None:
    """The data to evaluate on: a split, or files."""
    if split and files:
        raise ValueError(f"got both the split {split!r} and other files; pass one of them")
    return split or files or None


def _is_bare_encoder(model: Path) -> bool:
    """Whether this is a published encoder without a head that its objective could be evaluated with."""
    from weft.inference.load import load
    from weft.training.run_folder import RunFolder

    if RunFolder(model).is_run():
        return False
    trained = load(model)
    return not set(trained.objective.needs) <= set(trained.model.provides()) and hasattr(trained.model, "encode")


def _evaluate_similarity(model: Path, arguments: list[str], as_json: bool) -> None:
    """Print the correlation of the similarity of embeddings with the scores of sentence pairs."""
    from weft.experiments.similarity import evaluate_similarity
    from weft.training.display import show_intervals

    options = [a for a in arguments if a.startswith("data.") and "=" in a and not Path(a).exists()]
    columns: dict[str, Any] = dict(a.removeprefix("data.").split("=", 1) for a in options)
    if "column_names" in columns:
        columns["column_names"] = tuple(name.strip() for name in columns["column_names"].strip("[]").split(","))
    result = evaluate_similarity(model, [a for a in arguments if a not in options], columns)
    about = result.details(result.metrics)
    if as_json:
        print_json({**result.metric_values, **about})
    else:
        print_result("\n".join([show_intervals(result.metric_values, about["intervals"], {}), *result.remarks]))


@command
def errors(
    run: RunOrModel,
    files: Files = None,
    split: Split = None,
    source: Source = None,
    max_examples: Annotated[int, typer.Option(help="Number of examples to show.", min=1)] = 20,
    as_json: Json = False,
) -> None:
    """Show the examples with the largest loss, with prediction and reference."""
    trained, data_files = load_for_files(run, files, source)
    for error in trained.errors(_data(split, data_files), max_examples):
        if as_json:
            print_json_line(vars(error))
            continue
        predicted = f"  predicted: {printable_line(error.prediction)}" if error.prediction else ""
        print_result(f"example {error.row}  loss {error.loss:.4f}{predicted}")
        for name, text in error.reference.items():
            print_result(f"  {name}: " + printable_line(text.replace("\t", " | ")))
