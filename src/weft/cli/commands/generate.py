"""``weft generate`` and ``weft transfer``: text from a trained model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.console import batch_size, message, print_json_line, print_line, print_text, read_lines, stream, warn_lost_input
from weft.cli.options import InputLines, Json, RunFolderArgument, RunOrModel, SearchOptions, command
from weft.cli.runs import capabilities

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

SAMPLES = 10
"""Default number of class-conditional samples."""


@command
def generate(
    run: RunOrModel,
    search: SearchOptions,
    file: InputLines = None,
    n_best: Annotated[int, typer.Option(help="Hypotheses per line, each with its score.", min=1, max=1000)] = 1,
    label: Annotated[str | None, typer.Option(metavar="CLASS", help="Sample texts of this class; reads no input.")] = None,
    samples: Annotated[
        int | None, typer.Option(help=f"Number of texts to sample with --label (default: {SAMPLES}).", min=1)
    ] = None,
    as_json: Json = False,
) -> None:
    """Generate text with a trained run or a pretrained model: one output per input line, in order.

    A language model continues each line. With --label, sample texts of a class.
    """
    from weft.core.registry import option_values
    from weft.inference.load import load

    if samples is not None and label is None:
        raise ValueError(f"--samples {samples} is the number of class-conditional samples; add --label CLASS")
    if file is not None and label is not None:
        raise ValueError(f"--label samples texts and does not read {file}; to rewrite its lines use weft transfer --to {label}")
    trained = load(run)
    _check_generator(trained, run, label)
    factory = search.build(option_values(trained.run.evaluate)["search"], n_best)
    if label is None:
        found = (({"input": line}, hypotheses) for line, hypotheses in _continuations(trained, file, factory))
    else:
        found = (({"label": label}, h) for h in _samples(trained, samples or SAMPLES, label, search.seed, factory))
    for details, hypotheses in found:
        answers = [{"text": trained.decode(h), "score": h.score} for h in hypotheses[:n_best]]
        if as_json:
            print_json_line({**details, "answers": answers})
        elif n_best == 1:
            print_line(answers[0]["text"])
        else:
            for answer in answers:
                print_line(f"{answer['score']:.4f}\t{answer['text']}")
    if trained.truncated:
        message(trained.truncation_warning(trained.truncated))


def _check_generator(trained: TrainedRun, run: Path, label: str | None) -> None:
    """Raise ValueError for a model that does not generate text, or not as requested."""
    provided = capabilities(trained)
    if "Decodes" not in provided:
        raise ValueError(f"{run} does not generate text; to predict the labels of each line use: weft predict {run}")
    if label is not None and "Latent" not in provided:
        raise ValueError(f"{run} is not class-conditional; omit --label")
    if label is None and getattr(trained.model, "class_conditional", False):
        labels = ", ".join(trained.codec.info["label"].labels)
        sample, rewrite = f"weft generate {run} --label CLASS", f"weft transfer {run} --to CLASS"
        raise ValueError(f"{run} is class-conditional ({labels}); sample texts with {sample}, or rewrite lines with {rewrite}")


def _continuations(trained: TrainedRun, file: Path | None, search: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Each input line with its hypotheses."""
    return stream(read_lines(file), lambda lines: trained.hypotheses(lines, search, batch_size()))


def _samples(trained: TrainedRun, number: int, label: str, seed: int, search: Callable[..., Any]) -> Iterator[Any]:
    """Hypotheses decoded from latent codes sampled for a class."""
    from weft.systems.latent_text.space import LatentSpace

    space = LatentSpace(trained)
    labels = space.labels.resolve(number, label)
    return space.hypotheses(space.sample_latents(number, labels, seed), labels, search)


@command
def transfer(
    run: RunFolderArgument,
    search: SearchOptions,
    to: Annotated[str, typer.Option("--to", metavar="CLASS", help="Target class.")],
    file: InputLines = None,
    as_json: Json = False,
) -> None:
    """Style transfer: rewrite each input line to have another class, in order."""
    from weft.core.registry import option_values
    from weft.inference.load import load
    from weft.systems.latent_text.space import LatentSpace

    trained = load(run)
    space = LatentSpace(trained)
    space.labels.check_transfer(to)
    factory = search.build(option_values(trained.run.evaluate)["search"])
    for line, text in stream(read_lines(file), lambda lines: space.rewrite(lines, None, to, factory, batch_size())):
        print_text(text, {"input": line, "label": to}, as_json)
    warn_lost_input(space)
