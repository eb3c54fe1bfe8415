"""``weft generate``: text from a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.console import batch_size, message, print_json_line, print_line, read_lines, stream
from weft.cli.options import InputLines, Json, RunFolderArgument, SearchOptions, command
from weft.cli.runs import capabilities, commands_for

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun


@command
def generate(
    run: RunFolderArgument,
    search: SearchOptions,
    file: InputLines = None,
    n_best: Annotated[int, typer.Option(help="Hypotheses per line, each with its score.", min=1, max=1000)] = 1,
    as_json: Json = False,
) -> None:
    """Generate text with a trained run: one output per input line, in order.

    A language model continues each line; an encoder-decoder encodes it.
    """
    from weft.core.registry import option_values
    from weft.inference.load import load

    trained = load(run)
    _check_generator(trained, run)
    factory = search.build(option_values(trained.run.evaluate)["search"], n_best)
    for line, hypotheses in stream(read_lines(file), lambda lines: trained.hypotheses(lines, factory, batch_size())):
        answers = [{"text": trained.decode(h), "score": h.score} for h in hypotheses[:n_best]]
        if as_json:
            print_json_line({"input": line, "answers": answers})
        elif n_best == 1:
            print_line(answers[0]["text"])
        else:
            for answer in answers:
                print_line(f"{answer['score']:.4f}\t{answer['text']}")
    if trained.truncated:
        message(trained.truncation_warning(trained.truncated))


def _check_generator(trained: TrainedRun, run: Path) -> None:
    """Raise ValueError for a model that does not generate text from a text alone."""
    if "Decodes" not in capabilities(trained):
        raise ValueError(f"{run} does not generate text; it supports {', '.join(commands_for(trained))}")
    if getattr(trained.model, "class_conditional", False):
        labels = ", ".join(trained.classes)
        raise ValueError(f"{run} is class-conditional ({labels}); it supports {', '.join(commands_for(trained))}")
