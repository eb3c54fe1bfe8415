"""The commands of latent-variable text models: ``weft latent RUN ...`` and ``weft transfer``.

``weft latent`` encodes, decodes and traverses the latent space of a trained run, and evaluates class-conditional generation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.commands.evaluate import Files, Split, report_evaluation
from weft.cli.console import (
    batch_size,
    message,
    print_json_line,
    print_line,
    print_result,
    print_text,
    read_lines,
    stream,
)
from weft.cli.options import InputLines, Json, Label, RunFolderArgument, SearchOptions, Source, command
from weft.cli.plugins import register_command
from weft.cli.runs import load_for_files

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun
    from weft.systems.latent_text.space import LatentSpace

latent = typer.Typer(
    no_args_is_help=True,
    help="Work in the latent space of a trained run: reconstruct, sample, interpolate, steer, plot, evaluate.",
)
Scale = Annotated[float, typer.Option(help="Factor of the difference vector; negative values reverse it.")]


@latent.callback()
def _run_folder(context: typer.Context, run: RunFolderArgument) -> None:
    context.obj = run


def _open(context: typer.Context, options: SearchOptions) -> tuple[LatentSpace, Callable[..., Any]]:
    """The latent space of the run, and the search that decodes from it."""
    from weft.core.registry import option_values as options_of
    from weft.systems.latent_text.space import open_latent

    space = open_latent(context.obj)
    return space, options.build(options_of(space.run.run.evaluate)["search"])


def _rewrite_lines(
    space: LatentSpace,
    file: Path | None,
    change: Callable[[Any], Any] | None,
    label: str | None,
    search: Callable[..., Any],
    as_json: bool,
) -> None:
    """Encode each input line, change its latent code and decode it."""
    for line, text in stream(read_lines(file), lambda lines: space.rewrite(lines, change, label, search, batch_size())):
        print_text(text, {"input": line}, as_json)
    warn_lost_input(space)


@latent.command()
@command
def reconstruct(
    context: typer.Context, search: SearchOptions, file: InputLines = None, label: Label = None, as_json: Json = False
) -> None:
    """Encode each line and decode it again: what the latent code preserves."""
    space, factory = _open(context, search)
    _rewrite_lines(space, file, None, label, factory, as_json)


@latent.command()
@command
def sample(
    context: typer.Context,
    search: SearchOptions,
    samples: Annotated[int, typer.Option(help="Number of texts.", min=1)] = 10,
    label: Label = None,
    as_json: Json = False,
) -> None:
    """Sample latent codes from the prior and decode them; without --label, from all classes in turn, each text with its class."""
    space, factory = _open(context, search)
    labels = space.labels.resolve(samples, label)
    names = [labels] * samples if labels is None or isinstance(labels, str) else labels
    for name, text in zip(names, space.sample(samples, labels, search.seed, factory), strict=True):
        shown = text if as_json or label is not None or name is None else f"{name}\t{text}"
        print_text(shown, {} if name is None else {"label": name}, as_json)


@latent.command()
@command
def interpolate(
    context: typer.Context,
    search: SearchOptions,
    a: Annotated[str, typer.Argument(metavar="A", help="First text.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="Last text.", show_default=False)],
    steps: Annotated[int, typer.Option(help="Number of texts, both ends included.", min=2)] = 11,
    spherical: Annotated[bool, typer.Option("--spherical", help="Spherical instead of linear interpolation (slerp).")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Also write a page (.html).")] = None,
    label: Label = None,
    as_json: Json = False,
) -> None:
    """Decode latent codes interpolated between two texts: z = (1 - tau) z_A + tau z_B."""
    if out is not None and out.suffix != ".html":
        raise ValueError(f"--out {out}: unknown format {out.suffix or 'without suffix'}; use .html")
    space, factory = _open(context, search)
    method = "spherical" if spherical else "linear"
    found = space.interpolate(a, b, steps, method, label, factory)
    for tau, text in found:
        if as_json:
            print_json_line({"tau": round(tau, 6), "text": text})
        else:
            print_line(f"{tau:.2f}\t{text}")
    warn_lost_input(space)
    if out is not None:
        from weft.inspect.interpolation import interpolation_page

        title = f"Latent interpolation: {context.obj}"
        message(f"wrote {interpolation_page(found, out, first=a, last=b, how=method, title=title)}")


@latent.command()
@command
def analogy(
    context: typer.Context,
    search: SearchOptions,
    a: Annotated[str, typer.Argument(metavar="A", help="A text.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The text that relates to A as the result relates to C.")],
    c: Annotated[str, typer.Argument(metavar="C", help="The text to transform.")],
    scale: Scale = 1.0,
    label: Label = None,
    as_json: Json = False,
) -> None:
    """Analogy A : B = C : ? in latent space: z = z_C + scale (z_B - z_A)."""
    space, factory = _open(context, search)
    print_text(space.analogy(a, b, c, scale, label, factory), {"a": a, "b": b, "c": c, "scale": scale}, as_json)
    warn_lost_input(space)


@latent.command(context_settings={"ignore_unknown_options": True})  # or -0.5 would be an option
@command
def arithmetic(
    context: typer.Context,
    search: SearchOptions,
    terms: Annotated[
        list[str],
        typer.Argument(metavar="TERM...", help="Texts with + or - between them, and factors before them.", show_default=False),
    ],
    label: Label = None,
    as_json: Json = False,
) -> None:
    """Decode a linear combination of latent codes: weft latent RUN arithmetic "good food" - "food" + 0.5 "staff"."""
    _refuse_options(context, terms)
    space, factory = _open(context, search)
    from weft.systems.latent_text.arithmetic import parse_terms

    parsed = parse_terms(terms)
    print_text(space.arithmetic(parsed, label, factory), {"terms": parsed}, as_json)
    warn_lost_input(space)


def _refuse_options(context: typer.Context, terms: list[str]) -> None:
    """Raise ValueError for a term that can only be a misspelled option; the parser takes unknown options for terms."""
    from weft.recipe import nearest

    for term in terms:
        if re.fullmatch(r"--?[A-Za-z][\w-]*(=.*)?", term):
            known = [name for option in context.command.params for name in option.opts if name.startswith("-")]
            hint = nearest(term.partition("=")[0], known) if term.startswith("--") else "; put a space after a sign"
            raise ValueError(f"unknown option {term}{hint}")


@latent.command()
@command
def steer(
    context: typer.Context,
    search: SearchOptions,
    target: Annotated[Path, typer.Option(metavar="FILE", help="Texts with the target attribute, one per line.")],
    source: Annotated[Path, typer.Option(metavar="FILE", help="Texts with the source attribute, one per line.")],
    file: InputLines = None,
    scale: Scale = 1.0,
    label: Label = None,
    as_json: Json = False,
) -> None:
    """Rewrite lines along an attribute vector: z + scale (mean z of target - mean z of source)."""
    space, factory = _open(context, search)
    from weft.data.text_files import read_texts

    targets, sources = ([example.text for example in read_texts(group)] for group in (target, source))
    direction_P = space.direction(targets, sources, scale)
    _rewrite_lines(space, file, lambda z_BP: z_BP + direction_P, label, factory, as_json)


@latent.command("plot")
@command
def plot(
    context: typer.Context,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|SPLIT|CLASS=FILE...",
            help="Texts: a table, a file with one text per line, a split of the run's data, or one file per class.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Image to write (.png).")] = Path("latent.png"),
    max_texts: Annotated[int, typer.Option(help="Maximum number of texts, sampled evenly.", min=2)] = 2000,
    annotate: Annotated[int, typer.Option(help="Number of points labeled with their text.", min=0, max=100)] = 14,
    as_json: Json = False,
) -> None:
    """Plot latent codes on their first two principal components, colored by class."""
    if out.suffix != ".png":
        raise ValueError(f"--out {out}: unknown format {out.suffix or 'without suffix'}; use .png")
    from weft.inspect.latent_space import plot_latent_space
    from weft.systems.latent_text.inputs import load_texts
    from weft.systems.latent_text.space import open_latent
    from weft.training.display import Terminal

    space = open_latent(context.obj)
    examples = load_texts(space.run, inputs, max_texts)
    with Terminal().waiting(f"encoding {len(examples):,} texts"):
        z_NP = space.encode([example.text for example in examples])
    about = {"labels": [example.label for example in examples], "texts": [example.text for example in examples]}
    components = plot_latent_space(z_NP, out, **about, annotate=annotate, title=f"{context.obj}: {' '.join(inputs)}")
    warn_lost_input(space)
    ratio = components.explained_variance_ratio
    if as_json:
        print_json_line({"file": str(out), "texts": len(examples), "variance": ratio.tolist()})
    else:
        print_result(f"wrote {out}: {len(examples):,} texts, {ratio.sum():.1%} of the variance explained")


@latent.command("evaluate")
@command
def evaluate_texts(
    context: typer.Context,
    oracle: Annotated[
        list[str],
        typer.Option(
            metavar="FILE",
            help="Train the oracle on this file: a table with labels, CLASS=FILE for each class, or a saved classifier (.json).",
        ),
    ],
    files: Files = None,
    split: Split = None,
    source: Source = None,
    fluency: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Also the perplexity of generated texts under an n-gram model of these texts; may be repeated."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate class-conditional generation and style transfer with an oracle, a classifier trained on other texts.

    The metrics of weft evaluate follow; those of generated texts (generation_, transfer_) have no confidence intervals.
    """
    trained, data_files = load_for_files(context.obj, files, source)
    generated, warnings = _evaluate_generation(trained, oracle, fluency, split, data_files)
    report_evaluation(context.obj, trained, split, data_files, as_json, generated, warnings)


def _evaluate_generation(
    trained: TrainedRun, oracle: list[str], fluency: list[str] | None, split: str | None, files: list[str]
) -> tuple[dict[str, float], list[str]]:
    """Metrics of generated and rewritten texts by an external classifier, and warnings about them."""
    from weft.systems.latent_text.run_evaluation import evaluate_run, is_oracle, open_oracle, train_fluency_model
    from weft.training.display import Terminal

    language_model, language_model_texts = train_fluency_model(fluency) if fluency else (None, [])
    with Terminal().waiting("loading the classifier" if is_oracle(oracle) else "training the classifier") as progress:
        classifier, oracle_texts = open_oracle(oracle)
        options: dict[str, Any] = {"language_model": language_model, "language_model_texts": language_model_texts}
        options |= {"oracle_texts": oracle_texts, "progress": progress}
        result = evaluate_run(trained, classifier, split=split, files=files, **options)
    return result.metric_values(), result.warnings()


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


def warn_lost_input(space: LatentSpace) -> None:
    """Report how many texts were truncated and how many have words outside the vocabulary."""
    if space.truncated:
        limit = f"{space.source.max_words} words or " * bool(space.source.max_words) + f"{space.source.max_length} tokens"
        message(f"truncated {space.truncated:,} text{'s' * (space.truncated > 1)} to {limit}")
    if space.unknown:
        texts = f"{space.unknown:,} of {space.encoded:,} text{'s' * (space.encoded > 1)}"
        verb = "has" if space.unknown == 1 else "have"
        message(
            f"{texts} {verb} words outside the vocabulary: they are encoded as <unk> and decoded as \ufffd or as another word"
        )


def _has_latent_space(run: TrainedRun) -> bool:
    from weft.core.contracts import Latent

    return Latent in run.model.provides()


def _rewrites_to_classes(run: TrainedRun) -> bool:
    return _has_latent_space(run) and bool(run.model.class_conditional)


_PANEL = "Use a trained model"
register_command(transfer, "transfer", panel=_PANEL, supports=_rewrites_to_classes)
register_command(latent, "latent", panel=_PANEL, supports=_has_latent_space)
