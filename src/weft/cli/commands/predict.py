"""``weft predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.cli.console import batch_size, message, print_json_line, print_line, read_lines, stream
from weft.cli.options import InputLines, Json, RunFolderArgument, command
from weft.cli.runs import capabilities

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

PREDICTORS = {"Classifies", "Tags", "ScoresChoices", "ExtractsSpans", "PredictsMasked"}


@command
def predict(run: RunFolderArgument, file: InputLines = None, as_json: Json = False) -> None:
    """Predict the class, tags, value, correct choice, answer span or masked tokens (<mask>) of each input line, in order.

    Tabs separate the texts of an example: a sentence pair; a question and its context; a question and its choices.
    """
    from weft.inference.load import load

    trained = load(run)
    if not PREDICTORS & capabilities(trained):
        from weft.systems.latent_text.inputs import commands_for

        commands = commands_for(trained) or ["no other command"]
        raise ValueError(f"{run} has no classifier, tagger or other predictor; it supports {', '.join(commands)}")
    several = {name for name, field in trained.codec.info.fields.items() if field.kind == "texts"}
    examples = (_example(trained, line, number) for number, line in enumerate(read_lines(file), 1))
    for example, answer in stream(examples, lambda batch: trained.predictions(batch, batch_size())):
        if as_json:
            probabilities = {"probabilities": answer.probabilities} if answer.probabilities else {}
            texts = {name: text.split("\t") if name in several else text for name, text in example.items()}
            print_json_line({**texts, "answer": answer.value(), **probabilities})
        else:
            print_line(answer.text.replace("\t", " | "))
    if trained.truncated:
        message(trained.truncation_warning(trained.truncated))


def _example(trained: TrainedRun, line: str, number: int) -> dict[str, str]:
    try:
        return trained.cells(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
