"""The command line. Nothing heavy is imported before a command needs it: ``weft --help`` answers at once."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from weft.cli.console import (
    AsJson,
    Beam,
    Imports,
    Length,
    Lines,
    RunDir,
    Seed,
    Temperature,
    TopK,
    TopP,
    import_plugins,
    lines_of,
    needs,
    said_lost,
    say,
    search_for,
    together,
)
from weft.cli.latent import latent
from weft.core.io import finite

if TYPE_CHECKING:
    from weft.training.run import Run


class Commands(typer.core.TyperGroup):
    """What typer would answer itself: a reader that goes away is no failure, Ctrl-C has a message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes at the end
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            say("stopped at once")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="weft",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Transformers and their relatives, composed: data, structure, objective and learning as exchangeable parts.",
)

app.add_typer(latent, name="latent")

Recipe = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe file, the name of a shipped recipe, or a run's folder.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[PATH=VALUE]...", help="Change single choices of the recipe.")]
MISTAKE, FAILURE, INTERRUPTED = 2, 1, 130


def _version(asked: bool) -> None:
    if asked:
        from weft import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _all(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which weft this is.")] = False,
) -> None:
    pass


@app.command()
def train(
    recipe: Recipe,
    overrides: Overrides = None,
    run: Annotated[Path | None, typer.Option("--run", metavar="DIR", help="Its folder (default: runs/<recipe>-<n>).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's files too.")] = False,
    imports: Imports = None,
) -> None:
    """Train a recipe. Stop it with Ctrl-C; go on with --resume."""
    plugins = import_plugins(imports)
    from weft.cli.report import slow_starts
    from weft.training.display import Display, Terminal
    from weft.training.dry_run import check, enough_memory
    from weft.training.run import find_recipe
    from weft.training.run_folder import RunFolder, newest_folder, next_folder
    from weft.training.trainer import train as run_training

    own = Path(recipe).parent if Path(recipe).name == "recipe.yaml" else Path(recipe)
    if resume and run is None and RunFolder(own).is_run():
        run = own
    place = RunFolder(run or Path(recipe))
    if resume and place.path.is_dir() and not place.is_run() and not (run and place.is_stub()):
        raise ValueError(_no_run(place.path))
    composed = _read(recipe, overrides)
    folder = run or (newest_folder(composed.name) if resume else next_folder(composed.name))
    if not resume:
        for report in check(composed):
            if trouble := enough_memory(report):
                raise ValueError(f"{find_recipe(recipe)}: stage {report.stage}: {trouble}")
    for trouble in [] if quiet else slow_starts(composed):
        say(f"warning: {trouble}")
    with _told(folder, imports):
        shown = Display() if quiet else Terminal()
        run_training(composed, folder, resume=resume, plugins=plugins, display=shown, tensorboard=tensorboard)


def _no_run(folder: Path) -> str:
    from weft.training.run_folder import RunFolder

    if RunFolder(folder).is_stub() or not any(folder.iterdir()):
        begin = shlex.join(["weft", "train", "RECIPE", "--run", str(folder)])
        return f"{folder} holds no run yet, so there is nothing to go on with: begin one with {begin}"
    return f"{folder} is not a run's folder (it has no recipe.yaml): name one that is, or a recipe and its folder with --run"


@contextlib.contextmanager
def _told(folder: Path, imports: list[str] | None = None) -> Iterator[None]:
    """While training: however it ends, say how to go on."""
    from weft.learning import Interrupted, NonFinite

    again = shlex.join(["weft", "train", str(folder), "--resume", *(f"--import={module}" for module in imports or [])])
    try:
        yield
    except Interrupted:
        say(f"stopped; everything so far is in {folder}. Go on with: {again}")
        raise typer.Exit(INTERRUPTED) from None
    except KeyboardInterrupt:
        say(f"stopped at once. Go on from the last checkpoint with: {again}")
        raise typer.Exit(INTERRUPTED) from None
    except NonFinite as trouble:
        say(f"error: {trouble}\nthe last good checkpoint is kept; see learning.on_nonfinite (stop, skip, rollback)")
        raise typer.Exit(FAILURE) from None


@app.command()
def new(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files or folders of data; names with train, dev, test are understood.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The recipe to write.")] = Path("recipe.yaml"),
    from_: Annotated[
        str | None, typer.Option("--from", metavar="MODEL", help="Go on with a published model: a folder, minilm, a hub's name.")
    ] = None,
) -> None:
    """Look at files, guess what they are, and write a commented recipe that trains."""
    from weft.core.io import write_text
    from weft.experiments.scaffold import guess, recipe_for, tuned_recipe

    if out.exists():
        raise ValueError(f"{out} is there already: choose another name with --out")
    found = guess(files)
    folder = out.absolute().parent
    write_text(out, recipe_for(found, folder) if from_ is None else tuned_recipe(found, folder, from_))
    print(f"{found.source}: {found.why}\nwrote {out}\n\n  weft check {out}\n  weft train {out}")


@app.command("check")
def check_recipe(
    recipe: Recipe,
    overrides: Overrides = None,
    figure: Annotated[Path | None, typer.Option("--figure", metavar="FILE.svg", help="Draw the architecture.")] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Is a recipe valid? Show its composition, shapes, parameters, memory and operations. Opens no corpus."""
    import_plugins(imports)
    from weft.cli.report import print_reports, reports_as_json
    from weft.inspect import architecture, check_suffix
    from weft.training.dry_run import check

    if figure is not None:
        check_suffix(figure)
    run = _read(recipe, overrides)
    reports = check(run)
    if figure is not None:
        say(f"wrote {architecture(run).save(figure)}")
    if as_json:
        print(json.dumps(reports_as_json(reports), indent=2))
    else:
        print_reports(run, reports)


@app.command()
def generate(
    run: RunDir,
    file: Annotated[Path | None, typer.Argument(help="Lines to answer (default: standard input).")] = None,
    beam: Beam = 0,
    n_best: Annotated[int, typer.Option(help="Answers per line, each with its score.", min=1, max=1000)] = 1,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    length: Length = None,
    label: Annotated[str | None, typer.Option(metavar="CLASS", help="Draw texts of this class; no lines are read.")] = None,
    number: Annotated[int | None, typer.Option(help="How many texts of a class (default: 10).", min=1)] = None,
    seed: Seed = 0,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Answer lines with a trained run, as they come, in order. A language model goes on from each line. With --label, draw texts
    of a class."""
    import_plugins(imports)
    from weft.core.registry import options
    from weft.training.run import load

    if n_best > max(beam, 1):
        raise ValueError(f"--n-best {n_best} needs a beam at least as wide: add --beam {n_best}")
    if number is not None and label is None:
        raise ValueError(f"--number {number} says how many texts of a class are drawn: add --label CLASS")
    if file is not None and label is not None:
        raise ValueError(
            f"with --label texts are drawn, and {file} is not read: for its lines there is weft transfer --to {label}"
        )
    trained = load(run)
    needs(trained, "Decodes", f"{run} has nothing that writes text: for the class of each line there is weft predict")
    default = options(trained.evaluate)["search"]
    search = search_for(default, beam, temperature, top_k, top_p, length, seed)
    if beam > 1:
        search = functools.partial(search, best=n_best)
    if label is not None and "Latent" not in {p.__name__ for p in trained.model.provides()}:
        raise ValueError(f"{run} writes texts of no class: leave --label out")
    if label is None:
        if getattr(trained.model, "labelled", False):
            labels = ", ".join(trained.codec.info["label"].labels) if trained.codec else ""
            draw, rewrite = f"weft generate {run} --label CLASS", f"weft transfer {run} --to CLASS"
            raise ValueError(f"{run} writes texts of a class ({labels}): draw some with {draw}, or rewrite lines with {rewrite}")
        found = (({"input": line}, row) for line, row in _streamed(trained, lines_of(file), search))
    else:
        found = (({"label": label}, row) for row in _drawn(trained, number or 10, label, seed, search))
    for about, row in found:
        answers = [{"text": trained.text_of(h), "score": h.score} for h in row[:n_best]]
        if as_json:
            print(json.dumps({**about, "answers": answers}, ensure_ascii=False))
        elif n_best == 1:
            print(answers[0]["text"])
        else:
            print("\n".join(f"{a['score']:.4f}\t{a['text']}" for a in answers))
        sys.stdout.flush()
    if trained.cut:
        say(trained.said_cut(trained.cut))


def _drawn(run: Run, number: int, label: str, seed: int, search: Any) -> Iterator[Any]:
    """What is written at places of a class."""
    from weft.systems.latent_text.space import LatentSpace

    space = LatentSpace(run)
    wanted = space.wanted(number, label)
    return space.search_all(space.draw(number, wanted, seed), wanted, search)


def _streamed(run: Run, lines: Iterator[str], search: Any) -> Iterator[tuple[str, Any]]:
    """Answers with their lines: one at a time for a person at a terminal, in batches otherwise."""
    return together(lines, lambda used: run.search_all(used, search, 1 if sys.stdin.isatty() else 64))


@app.command()
def transfer(
    run: RunDir,
    to: Annotated[str, typer.Option("--to", metavar="CLASS", help="The class that texts are to have.")],
    file: Lines = None,
    beam: Beam = 0,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    length: Length = None,
    seed: Seed = 0,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Rewrite lines to be of another class with a trained run, as they come, in order."""
    import_plugins(imports)
    from weft.core.registry import options
    from weft.systems.latent_text.space import LatentSpace
    from weft.training.run import load

    trained = load(run)
    space = LatentSpace(trained)
    space.check_transfer(to)
    search = search_for(options(trained.evaluate)["search"], beam, temperature, top_k, top_p, length, seed)
    batch = 1 if sys.stdin.isatty() else 64
    for line, text in together(lines_of(file), lambda used: space.rewrite(used, None, to, search, batch)):
        print(json.dumps({"input": line, "label": to, "text": text}, ensure_ascii=False) if as_json else text, flush=True)
    said_lost(space)


@app.command()
def predict(
    run: RunDir,
    file: Annotated[Path | None, typer.Argument(help="Lines to answer (default: standard input).")] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Say the class, tags, number, right choice or answer of each line, or the tokens at its masks (<mask>), as they come, in
    order. Texts of a row have tabs between them: two texts; a question and its context; a question and each of its choices."""
    import_plugins(imports)
    from weft.training.run import load

    trained = load(run)
    if not {"Classifies", "Tags", "ScoresChoices", "ExtractsSpans", "PredictsMasked"} & {
        p.__name__ for p in trained.model.provides()
    }:
        from weft.systems.latent_text.space import commands_for

        can = commands_for(trained) or ["nothing"]
        there = " and ".join(filter(None, [", ".join(can[:-1]), can[-1]]))
        raise ValueError(f"{run} does not say the class of a text: there is {there} for it")
    assert trained.codec is not None
    info = trained.codec.info
    kinds = {name: f.kind for name, f in info.fields.items()}
    cells = (_cells(trained, line, number) for number, line in enumerate(lines_of(file), 1))
    for row, answer in together(cells, lambda rows: trained.predict_all(rows, 1 if sys.stdin.isatty() else 64)):
        if as_json:
            shares = {"probabilities": answer.probabilities} if answer.probabilities else {}
            texts = {name: text.split("\t") if kinds.get(name) == "texts" else text for name, text in row.items()}
            print(json.dumps({**texts, "answer": answer.value(), **shares}, ensure_ascii=False))
        else:
            print(answer.text.replace("\t", " | "))
        sys.stdout.flush()
    if trained.cut:
        say(trained.said_cut(trained.cut))


def _cells(run: Run, line: str, number: int) -> dict[str, str]:
    try:
        return run.cells(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None


Split = Annotated[str | None, typer.Option(help="Which split of the data (default: test, or valid without one).")]
Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE]... [data.OPTION=VALUE]...",
        help="Other files of the same kind (default: the run's own data), CLASS=FILE where each class has its own; and how they "
        "are read where that differs.",
    ),
]


def _judged_by(run: Path, arguments: list[str] | None) -> tuple[Run, list[str]]:
    """The run, and the files among the arguments; the others say how these are read."""
    from weft.core.registry import choices
    from weft.training.run import Run, load

    changes = [a for a in arguments or [] if "=" in a and not Path(a).exists() and re.split(r"[.=]", a)[0] in choices(Run)]
    files = [a for a in arguments or [] if a not in changes]
    trained = load(run, changes=changes)
    if changes and not files:
        raise ValueError(f"{changes[0]} says how other files are read, and none is given: name one before it")
    return trained, files


@app.command()
def evaluate(
    run: RunDir,
    files: Files = None,
    split: Split = None,
    oracle: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Judge texts of a class too, drawn and rewritten, by a classifier trained on this: a table with classes, or "
            "CLASS=FILE for each; or an oracle's file (.json).",
        ),
    ] = None,
    fluency: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="With --oracle: their perplexity under n-grams of other texts: a table, or a text a line; several times.",
        ),
    ] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a trained run on a split of its data, or on other files; figures with 95 % confidence intervals, except those of
    texts that --oracle judges (generation_, transfer_), which have none."""
    import_plugins(imports)
    if fluency and not oracle:
        raise ValueError("--fluency is for texts of a class, which are drawn and rewritten: add --oracle FILE")
    from weft.core.io import write_json
    from weft.inspect.classification import draw_classes
    from weft.training.display import Terminal, show_intervals
    from weft.training.run_folder import FORMAT

    trained, files = _judged_by(run, files)
    written: dict[str, float] = {}
    warned: list[str] = []
    if oracle:
        from weft.systems.latent_text.transfer import is_oracle, judge_run, open_fluency, open_oracle

        model, read = open_fluency(fluency) if fluency else (None, [])
        with Terminal().waiting("reading the oracle" if is_oracle(oracle) else "training the oracle") as tell:
            judge, known = open_oracle(oracle)
            about = {"known": known, "model": model, "model_known": read}
            writing = judge_run(trained, judge, split=split, files=files, tell=tell, **about)
        written, warned = writing.metric_values(), writing.warnings()
    judged = trained.judge(split, files)
    judged.remarks += [f"warning: {warning}" for warning in warned]
    about = judged.about(trained.judging().metrics)
    metric_values = {**judged.metric_values, **written}
    if not files:
        told = {"format": FORMAT, "split": judged.split, **metric_values, **about}
        write_json(run / f"metrics-{judged.split}.json", finite(told))
        if trouble := draw_classes(trained, judged, run):
            say(trouble)
    if as_json:
        print(json.dumps(finite({**metric_values, **about}), indent=2))
    else:
        print("\n".join([show_intervals(metric_values, about["intervals"], judged.signatures), *judged.remarks]))


@app.command()
def errors(
    run: RunDir,
    files: Files = None,
    split: Split = None,
    most: Annotated[int, typer.Option(help="How many.", min=1)] = 20,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Show the examples that a trained run is most wrong about: those of the largest loss."""
    import_plugins(imports)
    from weft.cli.report import print_errors

    trained, files = _judged_by(run, files)
    found = trained.errors(split, files, most)
    if as_json:
        for error in found:
            print(json.dumps(vars(error), ensure_ascii=False))
    else:
        print_errors(found)


@app.command()
def embed(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run's folder, a published model's, or minilm.")],
    file: Annotated[Path | None, typer.Argument(help="A text a line (default: standard input).")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the vectors: .npy, or .jsonl with the texts.")
    ] = None,
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="Show the lines that are most like this text.")] = None,
    most: Annotated[int, typer.Option(help="How many of them.", min=1)] = 5,
    imports: Imports = None,
) -> None:
    """Make a vector of each line, and find lines by their likeness to a text. Without --out and --search, print JSON lines."""
    import_plugins(imports)
    import numpy as np

    from weft.core.io import write_text
    from weft.inference.embedding import open_vectors

    if out is not None and out.suffix not in (".npy", ".jsonl"):
        raise ValueError(f"{out}: vectors are written as .npy or .jsonl")
    vectors_of = open_vectors(model)
    texts = list(lines_of(file))
    if not texts:
        raise ValueError(f"{file or 'standard input'} has no line to make a vector of")
    vectors = vectors_of(texts)
    if vectors_of.cut:
        say(f"{vectors_of.cut} of {len(texts)} lines are longer than {vectors_of.length} tokens: the rest of them was left out")
    rows = (
        json.dumps({"text": t, "vector": [round(float(x), 6) for x in v]}, ensure_ascii=False)
        for t, v in zip(texts, vectors, strict=True)
    )
    if out is not None and out.suffix == ".npy":
        np.save(out, vectors)
    elif out is not None:
        write_text(out, "".join(row + "\n" for row in rows))
    if out is not None:
        say(f"{len(vectors)} vectors of {vectors.shape[1]} numbers are in {out}")
    if search is not None:
        for likeness, text in vectors_of.nearest(search, texts, vectors, most):
            print(f"{likeness:.4f}\t{text}")
    elif out is None:
        for row in rows:
            print(row)


@app.command()
def prompt(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run's folder, or a published model's, that writes text.")],
    file: Annotated[Path, typer.Argument(help="The questions: TSV, CSV or JSONL with a column of classes.")],
    template: Annotated[
        str | None, typer.Option(metavar="TEXT", help="'Review: {text}\\nIt was {answer}': columns in braces, the answer last.")
    ] = None,
    template_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The template in a file.")] = None,
    train: Annotated[Path | None, typer.Option(metavar="FILE", help="Where demonstrations are drawn from.")] = None,
    shots: Annotated[int, typer.Option(help="Demonstrations before each question.", min=0)] = 0,
    answers: Annotated[
        list[str] | None,
        typer.Option("--answer", metavar="CLASS=WORDS", help="What stands for a class, for each (default: the classes' names)."),
    ] = None,
    choices: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of each row's own answers; auto = what has a usual name.")
    ] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of classes, or of the right answer.")] = None,
    score: Annotated[
        str, typer.Option(metavar="length|plain", help="Log-probability per token of an answer, or whole.")
    ] = "length",
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Take off what the model answers to nothing.")] = False,
    seed: Annotated[int, typer.Option(help="Which demonstrations are drawn.")] = 1,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write predictions and scores as JSON lines.")] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Ask a language model for the class of each row, by a template and a few demonstrations; accuracy with its 95 % interval."""
    import_plugins(imports)
    from weft.inference.few_shot import ask, open_writer, read_answers, read_template
    from weft.training.display import show_intervals

    words, known = read_template(template, template_file), read_answers(answers or [])
    options = {"train": train, "shots": shots, "answers": known, "choices": choices, "label": label, "seed": seed}
    found = ask(open_writer(model), words, file, score=score, calibrate=calibrate, **options)
    if out is not None:
        found.write(out)
        say(f"{len(found.rows)} predictions are in {out}")
    if as_json:
        print(json.dumps(finite(found.as_json()), indent=2, ensure_ascii=False))
    else:
        print(show_intervals(found.judged().metric_values, found.intervals(), {}))


@app.command()
def convert(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run's folder; or a published model's, or minilm.")],
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to write; it must be new or empty.")],
    kind: Annotated[str | None, typer.Option(metavar="FAMILY", help="bert, gpt2, t5, ... (default: the one that fits).")] = None,
    imports: Imports = None,
) -> None:
    """Write a trained run in the published (Hugging Face) layout, so that the package transformers reads it; or a published model
    as a run's folder."""
    import_plugins(imports)
    from weft.inference.convert import to_published, to_run
    from weft.training.run_folder import RunFolder

    if kind is not None and not RunFolder(model).is_run():
        raise ValueError(f"{model} is not a run's folder: --kind says the family to write a run as")
    print(f"wrote {to_published(model, out, kind) if RunFolder(model).is_run() else to_run(model, out)}")


@app.command("inspect")
def inspect_text(
    run: RunDir,
    texts: Annotated[list[str], typer.Option("--input", metavar="TEXT", help="A text to look at; may be given several times.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A page (.html), or a picture (.png) of one text.")] = Path(
        "inspect.html"
    ),
    top: Annotated[int, typer.Option(help="Candidates to show at each step.", min=1, max=100)] = 5,
    imports: Imports = None,
) -> None:
    """Show what a trained run did with a text: tokens, attention of every layer and head, candidates, classes."""
    import_plugins(imports)
    from weft.inspect.trace import inspect_run
    from weft.training.run import load

    print(inspect_run(load(run), texts, out, top=top))


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Two or more runs' folders.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The picture of the curves.")] = Path("compare.png"),
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs: what differs in their recipes, their curves in one picture, their figures side by side."""
    import_plugins(imports)
    from weft.experiments.compare import compare as compare_runs

    found = compare_runs(runs, out)
    if as_json:
        print(json.dumps(finite(found.as_json()), indent=2, ensure_ascii=False))
    else:
        found.print()


@app.command()
def sweep(
    recipe: Recipe,
    assignments: Annotated[list[str], typer.Argument(metavar="PATH=V1,V2...", help="The values of each choice.")],
    run: Annotated[
        Path | None, typer.Option("--run", metavar="DIR", help="The sweep's folder (default: runs/<recipe>-sweep-<hash>).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Train a recipe with every combination of values, one after another. Stop it with Ctrl-C; the same command goes on."""
    plugins = import_plugins(imports)
    from weft.experiments.sweep import default_folder
    from weft.experiments.sweep import sweep as run_sweep
    from weft.learning import Interrupted
    from weft.training.display import Display, Terminal

    folder = run or default_folder(recipe, assignments)
    try:
        found = run_sweep(recipe, assignments, folder, plugins=plugins, display=Display() if quiet else Terminal())
    except (Interrupted, KeyboardInterrupt):
        again = ["weft", "sweep", recipe, *assignments, "--run", str(folder), *(f"--import={module}" for module in imports or [])]
        say(f"stopped; everything so far is in {folder}. Go on with: {shlex.join(again)}")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print(json.dumps(finite(found.as_json()), indent=2, ensure_ascii=False))
    else:
        found.print()
        say(f"the table is in {folder / 'table.md'}")
    if found.failed:
        raise typer.Exit(FAILURE)


@app.command()
def catalog(
    slot: Annotated[str | None, typer.Argument(help="Only this slot, e.g. encoder.")] = None,
    name: Annotated[str | None, typer.Argument(help="Show this entry: options, defaults, formula, paper.")] = None,
    imports: Imports = None,
) -> None:
    """List the parts there are: every slot and its entries, a line each."""
    import_plugins(imports)
    from weft.cli.report import print_catalog

    print_catalog(slot, name)


@app.command()
def schema(imports: Imports = None) -> None:
    """Write the JSON Schema of recipes, for editors: weft schema > recipe.schema.json"""
    import_plugins(imports)
    from weft.recipe.schema import schema as make
    from weft.training.run import Run

    print(json.dumps(make(Run), indent=2, ensure_ascii=False))


@app.command()
def demo(
    overrides: Overrides = None,
    recipe: Annotated[str, typer.Option(help="A shipped recipe that turns texts into texts.")] = "dates",
    run: Annotated[Path, typer.Option("--run", metavar="DIR", help="The run's folder.")] = Path("runs/demo"),
) -> None:
    """Train a small recipe and show what it learnt: examples, learning curve, attention page."""
    from weft.cli.demo import demo as show

    with _told(run):
        show(recipe, run, overrides or [])


@app.command()
def recipes() -> None:
    """List the shipped recipes."""
    from weft.cli.report import print_recipes

    print_recipes()


# ------------------------------------------------------------------------------------------------------------ plumbing


def _read(recipe: str, overrides: list[str] | None) -> Run:
    """A run from a recipe. A run's own recipe that is not understood may be in want of its plug-ins."""
    from weft.recipe import RecipeError
    from weft.training.run import find_recipe, read_run
    from weft.training.run_folder import RunFolder

    path = find_recipe(recipe)
    try:
        return read_run(recipe, overrides or [])
    except RecipeError as error:
        if missing := [name for name in RunFolder(path.parent).plugins() if name.partition(":")[0] not in sys.modules]:
            raise ValueError(f"{error}\nthis run was made with plug-ins: add --import {' --import '.join(missing)}") from None
        raise


def main(arguments: list[str] | None = None) -> None:
    """Run a command. A user's mistake gives its message and exit code 2, never a traceback."""
    command: Callable[..., Any] = typer.main.get_command(app)
    try:
        sys.exit(command(args=arguments, standalone_mode=True))
    except ValueError as mistake:
        located = any(problem.where for problem in getattr(mistake, "problems", ()))  # of a recipe
        say(str(mistake) if located else _with_word(str(mistake)))
        sys.exit(MISTAKE)
    except OSError as error:
        say(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        sys.exit(FAILURE)
    except MemoryError as error:
        say(f"error: not enough memory{f' ({error})' if str(error) else ''}: give smaller numbers, or use a larger machine")
        sys.exit(FAILURE)


def _with_word(text: str) -> str:
    return text if "\n" in text or ".yaml:" in text or text.startswith("command line") else f"error: {text}"


if __name__ == "__main__":
    main()
