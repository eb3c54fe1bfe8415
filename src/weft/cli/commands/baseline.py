"""``weft baseline``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import print_json, print_result
from weft.cli.options import Json, command


@command
def baseline(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...|RECIPE [path=value]...",
            help="Data files, as for weft new; or a recipe and options that differ from it.",
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Evaluate simple baselines with the splits and metrics of a recipe: what a trained model must exceed.

    Classification: majority class, and logistic regression on TF-IDF features. Regression: mean, and ridge regression. Tagging:
    the most frequent tag of each word. Needs scikit-learn (extra metrics) for the linear models.
    """
    from weft.experiments.baselines import run_baselines
    from weft.experiments.scaffold import detect_data, scratch_recipe
    from weft.training.recipes import read_run, read_run_text

    overrides = [argument for argument in arguments if "=" in argument and not Path(argument).exists()]
    names = [argument for argument in arguments if argument not in overrides]
    if len(names) == 1 and _is_recipe(names[0]):
        run = read_run(names[0], overrides)
    else:
        run = read_run_text(scratch_recipe(detect_data(names), Path()), "baseline.yaml", Path(), overrides)
    report = run_baselines(run)
    if as_json:
        print_json(report.to_document())
    else:
        print_result("\n".join([*report.lines(), f"{report.seconds:.1f} s"]))


def _is_recipe(name: str) -> bool:
    """Whether this names a recipe file, a run folder or a shipped recipe, and not a data file."""
    from weft.training.recipes import shipped_recipes
    from weft.training.run_folder import RunFolder

    path = Path(name)
    return path.suffix in (".yaml", ".yml") or RunFolder(path).is_run() or (not path.exists() and name in shipped_recipes())
