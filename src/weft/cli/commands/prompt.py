"""``weft prompt``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import message, print_json, print_result
from weft.cli.options import Json, Model, command


@command
def prompt(
    model: Model,
    file: Annotated[
        Path, typer.Argument(help="Examples to classify: TSV, CSV or JSONL with a column of labels.", show_default=False)
    ],
    template: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="'Review: {text}\\nIt was {answer}': column names in braces, the answer last."),
    ] = None,
    template_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Read the template from a file.")] = None,
    train: Annotated[Path | None, typer.Option(metavar="FILE", help="Data file to sample demonstrations from.")] = None,
    shots: Annotated[int, typer.Option(help="Number of demonstrations in each prompt (few-shot).", min=0)] = 0,
    verbalizers: Annotated[
        list[str] | None,
        typer.Option("--verbalizer", metavar="CLASS=WORDS", help="Text for a class, for each class (default: the labels)."),
    ] = None,
    choices: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Multiple choice: column with the choices of each example; auto = find it by name."),
    ] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the labels, or of the correct choice.")] = None,
    score: Annotated[
        str, typer.Option(metavar="length|plain", help="Log-probability of an answer: divided by its length, or the sum.")
    ] = "length",
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Contextual calibration: subtract the scores of a content-free prompt.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed of the demonstrations.")] = 1,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write predictions and scores as JSON lines.")] = None,
    as_json: Json = False,
) -> None:
    """Zero-shot and few-shot classification with a language model: accuracy with its 95% confidence interval."""
    from weft.inference.few_shot import evaluate_few_shot, load_language_model, parse_verbalizer, read_template
    from weft.training.display import show_intervals

    text, verbalizer = read_template(template, template_file), parse_verbalizer(verbalizers or [])
    options = {"train": train, "shots": shots, "verbalizer": verbalizer, "choices": choices, "label": label, "seed": seed}
    result = evaluate_few_shot(load_language_model(model), text, file, score=score, calibrate=calibrate, **options)
    if out is not None:
        result.write(out)
        message(f"wrote {len(result.rows)} predictions to {out}")
    if as_json:
        print_json(result.as_json())
    else:
        print_result(show_intervals(result.evaluation().metric_values, result.intervals(), {}))
