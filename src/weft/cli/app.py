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
from weft.cli.commands.generate import generate
from weft.cli.commands.inspect import inspect
from weft.cli.commands.new import new
from weft.cli.commands.predict import predict
from weft.cli.commands.prompt import prompt
from weft.cli.commands.show import show
from weft.cli.commands.train import train
from weft.cli.console import FAILURE, INTERRUPTED, USAGE_ERROR, message, print_result
from weft.cli.numbers import check_numbers
from weft.cli.plugins import BUILT_IN, import_command_modules, import_plugins, requested_modules
from weft.cli.plugins import COMMANDS as PLUGIN_COMMANDS
from weft.core.printable import printable

COMMANDS: dict[str, list[Callable[..., None]]] = {
    "Train": [demo, new, show, baseline, check, train, sweep],
    "Use a trained model": [generate, predict, embed, prompt, convert],
    "Evaluate and inspect": [evaluate, errors, compare, inspect],
    "Catalog": [catalog, recipes, schema],
}
"""Commands by help panel; plug-ins add theirs."""


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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command, among those of the modules of ``--import`` too."""
        if args and args[0] not in self.commands:
            import_plugins(requested_modules(args))
            self.add_plugin_commands()
        return super().resolve_command(ctx, args)

    def add_plugin_commands(self) -> None:
        """Add the commands that were registered after weft started."""
        late = typer.Typer()
        for one in PLUGIN_COMMANDS.values():
            if one.name not in self.commands:
                one.add_to(late)
        if late.registered_commands or late.registered_groups:
            self.commands.update(typer.main.get_group(late).commands)

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
        BUILT_IN.add(_function.__name__)
for _problem in import_command_modules():
    message(f"warning: {_problem}")
for _command in PLUGIN_COMMANDS.values():
    _command.add_to(app)


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
