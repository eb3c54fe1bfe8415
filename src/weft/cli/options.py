"""Arguments and options that several commands share, each written once.

A command is a function decorated with [`command`][weft.cli.options.command]. A parameter whose type is an option group (a
dataclass such as `SearchOptions`) is expanded into the options of the group; every command also gets ``--import``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from weft.cli.numbers import note_numbers
from weft.cli.plugins import Plugins, import_plugins

SEARCH_PANEL = "Decoding"

Recipe = Annotated[
    str,
    typer.Argument(metavar="RECIPE", help="A recipe file, a shipped recipe, or a run folder.", show_default=False),
]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[PATH=VALUE]...", help="Override options of the recipe.", show_default=False)
]
RunFolderArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a trained run.", show_default=False)]
_MODELS = "A run folder, the folder of a pretrained model, a GGUF file, or a name: minilm, smollm2."
RunOrModel = Annotated[Path, typer.Argument(metavar="RUN", help=_MODELS, show_default=False)]
Model = Annotated[str, typer.Argument(metavar="MODEL", help=_MODELS, show_default=False)]
InputLines = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="Input, one text per line (default: standard input).", show_default=False)
]
Label = Annotated[
    str | None, typer.Option(metavar="CLASS", help="Class to condition the decoder on, for class-conditional models.")
]
Source = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The source to use, of a run with several sources or a mixture."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]


@dataclass(frozen=True)
class SearchOptions:
    """Decoding options: greedy search, beam search or sampling."""

    beams: Annotated[
        int,
        typer.Option(
            help="Number of beams; 1 = greedy search, 0 = as in the recipe.",
            min=0,
            max=1000,
            rich_help_panel=SEARCH_PANEL,
        ),
    ] = 0
    temperature: Annotated[
        float | None, typer.Option(help="Sample with this softmax temperature.", min=1e-6, rich_help_panel=SEARCH_PANEL)
    ] = None
    top_k: Annotated[
        int | None, typer.Option(help="Sample from the k most probable tokens.", min=1, rich_help_panel=SEARCH_PANEL)
    ] = None
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Nucleus sampling: sample from the smallest set of tokens with this probability mass.",
            min=0,
            max=1,
            rich_help_panel=SEARCH_PANEL,
        ),
    ] = None
    max_length: Annotated[
        int | None,
        typer.Option(help="Maximum number of generated tokens (default: as in the recipe).", min=1, rich_help_panel=SEARCH_PANEL),
    ] = None
    seed: Annotated[int, typer.Option(help="Random seed.", min=0, rich_help_panel=SEARCH_PANEL)] = 0

    def build(self, default: Callable[..., Any], n_best: int = 1) -> Callable[..., Any]:
        """Return a factory of the search these options select.

        Args:
            default: The search of the recipe, used where no option selects another.
            n_best: Number of hypotheses per input that beam search returns.

        Raises ValueError for options that exclude each other.
        """
        from weft.generate import BeamSearch, GreedySearch, Sampling

        if n_best > max(self.beams, 1):
            raise ValueError(f"--n-best {n_best} needs at least as many beams, but --beams is {self.beams}: add --beams {n_best}")
        sampling = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        sampling = {name: value for name, value in sampling.items() if value is not None}
        limit = {} if self.max_length is None else {"max_length": self.max_length}
        if self.beams and sampling:
            raise ValueError("--beams cannot be combined with sampling: use --beams or --temperature/--top-k/--top-p")
        if sampling:
            return functools.partial(Sampling, seed=self.seed, **sampling, **limit)
        if self.beams > 1:
            return functools.partial(BeamSearch, beams=self.beams, n_best=n_best, **limit)
        return functools.partial(GreedySearch if self.beams else default, **limit)


ImportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--import", metavar="MODULE", help="Import a plug-in module, which registers parts, recipes or commands; may be repeated."
    ),
]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a typer command of a function: expand its option groups, add ``--import`` and import the plug-ins before the call."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        if hint is Plugins:
            continue
        if is_dataclass(hint) and isinstance(hint, type):
            groups[parameter.name] = hint
            parameters += _expanded(hint)
        else:
            parameters.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))
    parameters.append(inspect.Parameter("imports", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ImportOption))
    note_numbers(parameters)
    wants_plugins = next((name for name, hint in hints.items() if hint is Plugins), None)

    @functools.wraps(function)
    def run(**values: Any) -> None:
        plugins = import_plugins(values.pop("imports"))
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        if wants_plugins:
            values[wants_plugins] = plugins
        function(**values)

    run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _expanded(group: type[Any]) -> list[inspect.Parameter]:
    """One keyword parameter for each field of an option group."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(group)
    ]
