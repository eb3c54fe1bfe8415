"""The command line. Nothing heavy is imported before a command needs it, so ``weft --help`` is fast."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer
import typer.core

from weft.cli.commands.baseline import baseline
from weft.cli.commands.catalog import catalog, recipes, schema
from weft.cli.commands.check import check
from weft.cli.commands.convert import convert
from weft.cli.commands.demo import demo
from weft.cli.commands.embed import embed
from weft.cli.commands.evaluate import errors, evaluate
from weft.cli.commands.experiments import compare, sweep
from weft.cli.commands.generate import generate, transfer
from weft.cli.commands.inspect import inspect
from weft.cli.commands.latent import latent
from weft.cli.commands.new import new
from weft.cli.commands.predict import predict
from weft.cli.commands.prompt import prompt
from weft.cli.commands.train import train
from weft.cli.console import FAILURE, INTERRUPTED, USAGE_ERROR, message, print_result
from weft.cli.numbers import check_numbers
from weft.core.printable import printable

COMMANDS: dict[str, list[Callable[..., None]]] = {
    "Train": [demo, new, baseline, check, train, sweep],
    "Use a trained model": [generate, predict, embed, prompt, transfer, convert],
    "Evaluate and inspect": [evaluate, errors, compare, inspect],
    "Catalog": [catalog, recipes, schema],
}
"""Every command by help panel; the group ``latent`` is added to the second one."""


@contextlib.contextmanager
def _printable_usage_errors() -> Iterator[None]:
    """An argument may be a file name that a shell has completed."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "message"):  # a usage error of click
            error.message = printable(str(error.message))  # pyright: ignore[reportAttributeAccessIssue]
        raise


class WeftGroup(typer.core.TyperGroup):
    """Command group that exits quietly on a closed pipe and reports Ctrl-C."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        try:
            with _printable_usage_errors():
                return super().make_context(*arguments, **options)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            with _printable_usage_errors():
                return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python reports an error when it flushes at exit
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            message("interrupted")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="weft",
    cls=WeftGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Compose Transformers from four exchangeable parts: data, structure, objective and learning.",
)
for _panel, _functions in COMMANDS.items():
    for _function in _functions:
        app.command(rich_help_panel=_panel)(_function)
app.add_typer(latent, name="latent", rich_help_panel="Use a trained model")


def _print_version(requested: bool) -> None:
    if requested:
        from weft import __version__

        print_result(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run a command. A user error prints its message and exits with code 2, without a traceback."""
    run: Any = typer.main.get_command(app)
    try:
        check_numbers(sys.argv[1:] if arguments is None else arguments)
        sys.exit(run(args=arguments, standalone_mode=True))
    except ValueError as error:
        located = any(problem.where for problem in getattr(error, "problems", ()))  # of a recipe
        message(str(error) if located else _prefixed(str(error)))
        sys.exit(USAGE_ERROR)
    except OSError as error:
        message(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        sys.exit(FAILURE)
    except MemoryError as error:
        details = f" ({error})" if str(error) else ""
        message(
            f"error: out of memory{details}; lower the batch size (learning.batch_tokens or learning.batch_size) or the model "
            "size, or use more memory"
        )
        sys.exit(FAILURE)


def _prefixed(text: str) -> str:
    """Prefix ``error:``, unless the message starts with a location or has several lines."""
    return text if "\n" in text or ".yaml:" in text or text.startswith("command line") else f"error: {text}"


if __name__ == "__main__":
    main()
