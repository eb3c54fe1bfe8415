"""Recipes as runs: find a recipe file, a run folder's recipe or a shipped recipe, and parse it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.core.registry import option_parameters
from weft.recipe import Problem, RecipeError, apply_overrides, nearest, parse, read_file, resolve
from weft.training.run import Run
from weft.training.run_folder import RunFolder

RECIPES = Path(__file__).parent.parent / "recipes"
"""Folder of the shipped recipes."""
_FOLDERS = [RECIPES]


def read_run(file: str | Path, overrides: Sequence[str] = (), *, files: bool = True) -> Run:
    """Read a run from a recipe. Raises RecipeError with every problem.

    Args:
        file: Recipe file, run folder, or name of a shipped recipe.
        overrides: Assignments ``path=value``, as on the command line.
        files: Whether the files that the recipe names must exist.

    Example:
        >>> read_run("dates", ["learning.steps=7"]).dump()["learning"]["steps"]
        7
    """
    path = find_recipe(file)
    shown = str(file) if path == Path(file) else path.name
    run = read_run_text(read_file(path, shown), shown, path.parent, overrides, files=files)
    run.name = name_of_recipe(path)
    return run


def read_run_text(text: str, shown: str, folder: Path, overrides: Sequence[str] = (), *, files: bool = True) -> Run:
    """Read a run from the text of a recipe. Raises RecipeError with every problem.

    Args:
        text: YAML.
        shown: File name for error messages.
        folder: Folder that relative paths start from.
        overrides: Assignments ``path=value``.
        files: Whether the files that the recipe names must exist.
    """
    root = parse(text, shown)
    apply_overrides(root, overrides)
    return Run.from_tree(resolve(root, option_parameters(Run)), folder, files=files)


def name_of_recipe(path: Path) -> str:
    """Return the stem of a recipe file; for a run folder's own recipe, the name of the folder."""
    own = path.name == "recipe.yaml" and RunFolder(path.parent).log.is_file()
    return path.resolve().parent.name if own else path.stem


def find_recipe(name: str | Path) -> Path:
    """Return the path of a recipe file, of a run folder's own recipe, or of a shipped recipe by name."""
    path = Path(name)
    if path.is_dir() and RunFolder(path).is_run():
        return path / "recipe.yaml"
    if path.exists() or path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        return path
    shipped = shipped_recipes()
    if str(name) in shipped:
        return shipped[str(name)]
    known = ", ".join(shipped)
    raise RecipeError(
        [Problem("", "", f"there is no file or shipped recipe {str(name)!r}{nearest(name, shipped)} (shipped: {known})")]
    )


def shipped_recipes() -> dict[str, Path]:
    """Return the shipped recipes and those of plug-ins: name -> path."""
    return {path.stem: path for folder in _FOLDERS for path in sorted(folder.glob("*.yaml"))}


def register_recipes(folder: Path) -> None:
    """Register the recipes of a plug-in, so that they are found by name. Raises ValueError for a name that is taken.

    Args:
        folder: A folder with files ``NAME.yaml``.
    """
    known = shipped_recipes()
    names = [path.stem for path in sorted(folder.glob("*.yaml")) if folder not in _FOLDERS]
    if not names and folder not in _FOLDERS:
        raise ValueError(f"{folder} has no recipe (*.yaml)")
    if taken := [name for name in names if name in known]:
        raise ValueError(f"{folder / taken[0]}.yaml: the recipe {taken[0]!r} exists ({known[taken[0]]}); choose another name")
    if names:
        _FOLDERS.append(folder)
