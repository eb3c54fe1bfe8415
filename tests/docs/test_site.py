"""The documentation site: everything public is documented, generated pages are right, and coverage finds what is missing."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import griffe
import pytest
from ruamel.yaml import YAML

import weft

pytest.importorskip("mkdocs", reason="the extra 'docs' is not installed")
pytest.importorskip("latex2mathml", reason="the extra 'docs' is not installed")

from tools.docs import api_pages, catalog_pages, command_pages, coverage, figures, hooks, recipe_pages
from tools.docs.docstrings import rewritten
from tools.docs.formulas import is_formula, mathml, pieces, to_latex
from tools.docs.markdown import docstring, prose
from tools.docs.one_line import example
from tools.docs.package import ROOT, Slot, catalog, problems_of, recipes

PLANTED = '''
from dataclasses import dataclass
from typing import NamedTuple

@dataclass
class Row:
    """A row.

    Args:
        new: It.
        old: It.
    """

    new: int = 0

    def get(self, at):
        """Get.

        Args:
            at: Where.
            by: How.
        """

class Pair(NamedTuple):
    """A pair.

    Args:
        left: It.
        right: It.
    """

    left: int
'''
PARTS = [part for slot in catalog() for part in slot.parts]


# ----------------------------------------------------------------------------------------------------------------- coverage


def test_every_exported_name_is_documented() -> None:
    assert not coverage.of_modules(api_pages.modules(), hooks.generated())


def test_described_arguments_exist() -> None:
    assert not coverage.of_arguments(api_pages.modules())


def test_every_part_and_option_is_documented() -> None:
    assert not coverage.of_catalog(catalog(), catalog_pages.FOLDER, hooks.generated())


def test_every_command_and_parameter_is_documented() -> None:
    assert not coverage.of_commands(command_pages.commands(), command_pages.FOLDER, hooks.generated())


def test_coverage_finds_an_exported_name_without_docstring(tmp_path: Path) -> None:
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "__init__.py").write_text(
        '"""A package."""\nfrom planted.inner import bare, told\n__all__ = ["bare", "gone", "told"]\n'
    )
    (tmp_path / "planted" / "inner.py").write_text('"""A module."""\ndef bare(): ...\ndef told():\n    """Do it."""\n')
    root = griffe.load("planted", search_paths=[str(tmp_path)], resolve_aliases=True)
    assert isinstance(root, griffe.Module)
    found = coverage.of_modules(api_pages.modules(root), dict(api_pages.pages(root)) | {"reference/api/index.md": ""})
    assert found == [
        "planted.inner.bare: in __all__ of planted, but without a docstring",
        "planted: __all__ has 'gone', but the module does not define it",
    ]
    assert "planted.inner: the module has no page" in coverage.of_modules(api_pages.modules(root), {})


def test_coverage_finds_an_argument_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    root = griffe.load("planted", search_paths=[str(tmp_path)])
    assert isinstance(root, griffe.Module)
    assert coverage.of_arguments([root]) == [
        "planted.Row: describes the argument 'old', which it does not have",
        "planted.Row.get: describes the argument 'by', which it does not have",
        "planted.Pair: describes the argument 'right', which it does not have",
    ]


def test_coverage_finds_a_part_without_entry_or_description() -> None:
    part = next(part for part in PARTS if part.options)
    bare = SimpleNamespace(**{**vars(part), "options": [SimpleNamespace(name="bare", text="")]})
    slot = Slot(part.slot, "", "", (), "", (bare,))  # type: ignore[arg-type]
    title = f"{part.slot} {part.name}"
    assert coverage.of_catalog([slot], "x", {}) == [
        f"{part.slot}: the slot has no docstring",
        f"{title}: no entry in the page of the slot",
        f"{title}: option 'bare' is not described",
    ]


def test_coverage_finds_a_command_without_help() -> None:
    command = SimpleNamespace(help="", params=[SimpleNamespace(name="x", help=None, opts=["--x"])])
    assert coverage.of_commands([("planted", command)], "x", {}) == [
        "weft planted: no help",
        "weft planted: no entry in the pages of the command line",
        "weft planted: --x has no help",
    ]


def test_the_build_counts_warnings() -> None:
    """MkDocs ignores --strict with --quiet: the warnings are dropped before they are counted."""
    (command,) = [line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "mkdocs build" in line]
    assert "--strict" in command
    assert "--quiet" not in command and " -q" not in command


# ---------------------------------------------------------------------------------------------------------------- catalog


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.slot}-{part.name}")
def test_one_line_recipe_is_valid(part) -> None:
    shown = example(part)
    assert shown is not None, "no option accepts this slot"
    use, line = shown
    assert part.name in line
    assert problems_of(use.option, line) == []


def test_a_wrong_line_is_refused() -> None:
    use, line = example(next(part for part in PARTS if part.options)) or (None, "")
    assert use is not None
    assert problems_of(use.option, line.replace("type: ", "type: no-such-"))


def test_every_slot_is_in_a_named_group() -> None:
    assert "More" not in catalog_pages.groups()
    assert {slot.name for slots in catalog_pages.groups().values() for slot in slots} == {slot.name for slot in catalog()}


def test_figures_belong_to_parts_that_exist() -> None:
    assert set(figures.SLOTS) <= {slot.name for slot in catalog()}
    assert set(figures.PARTS) <= {(part.slot, part.name) for part in PARTS}
    shown = [name for entries in (*figures.SLOTS.values(), *figures.PARTS.values()) for name, _ in entries]
    assert sorted(shown) == sorted(figures.FIGURES)


def test_figures_are_svg_and_the_same_each_time() -> None:
    first, second = dict(figures.files()), dict(figures.files())
    assert first == second
    for text in first.values():
        assert ElementTree.fromstring(text).tag.endswith("svg")


# ---------------------------------------------------------------------------------------------------------------- formulas


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("y = x / sqrt(mean(x^2) + eps)", r"y = \frac{x}{\sqrt{\mathrm{mean}(x^{2}) + \epsilon}}"),
        ("c_t = f_t c_t-1 + i_t g_t", r"c_{t} = f_{t}\,c_{t-1} + i_{t}\,g_{t}"),
        ("y = W2 f(W1 x)", r"y = W_{2}\,f(W_{1}\,x)"),
        ("a / b / c", "a / b / c"),  # a fraction of three would have to choose
        ("a / b c", r"a / b\,c"),  # does c stand below, or beside?
        ("p(y | x) = |x|", r"p(y  \mid  x) = \lvert x\rvert"),
        ("exact_match = sum_i x_i", r"\mathrm{exact\_match} = \sum_{i}\,x_{i}"),
        ("x ~ N(0, 1)", r"x  \sim  N(0,\ 1)"),
    ],
)
def test_formula_to_latex(text: str, latex: str) -> None:
    assert to_latex(text) == latex


def test_formulas_are_told_from_prose() -> None:
    assert is_formula("y = norm(x + dropout(f(x)))")
    assert is_formula("max(x, 0)", bare=True)
    assert not is_formula("max(x, 0)")
    assert not is_formula("The state before the first token is zero.")
    assert not is_formula("loss = the number of texts that are left")
    found = pieces("loss = - sum_t log p(x_t), with t over all tokens; the count is their number.", first=True)
    assert [piece.formula for piece in found] == [True, False]
    assert found[1].text == "with t over all tokens; the count is their number."


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.slot}-{part.name}")
def test_formulas_of_the_catalog_are_well_formed(part) -> None:
    for number, paragraph in enumerate(part.body.split("\n\n")):
        for piece in pieces(paragraph, first=number == 0):
            if piece.formula:
                ElementTree.fromstring(mathml(piece.text))


def test_docstrings_become_markdown() -> None:
    text = rewritten("Sum * of _x_.\n\ny = a + b\n\nSee ``a*b``.\n\nArgs:\n    x: It.\n\nExample:\n    >>> 1\n    1\n")
    assert text.startswith(r"Sum \* of \_x\_.")
    assert '<div class="formula"><math' in text
    assert "See ``a*b``." in text
    assert "\nExamples:\n" in text
    assert prose("`a_b` a_b") == r"`a_b` a\_b"
    assert docstring("Text:\n>>> 1 + 1\n2") == "Text:\n\n```pycon\n>>> 1 + 1\n2\n```"


# ------------------------------------------------------------------------------------------------------------- recipes, pages


def test_results_are_those_of_shipped_recipes() -> None:
    measured = recipe_pages.results()
    shown = [recipe.name for recipe in recipes() if recipe.name in measured]
    assert len(shown) >= 5, "docs/about/benchmarks.md has tables whose first cell names a recipe"
    for name in shown:
        assert measured[name][0].row[1] in hooks.generated()[f"{recipe_pages.FOLDER}/{name}.md"]


def test_a_recipe_whose_result_is_told_in_prose_links_to_it() -> None:
    (link,) = recipe_pages.mentioned("translate-small")
    assert link == "[Translation](../../about/benchmarks.md#translation)"
    assert link in hooks.generated()[f"{recipe_pages.FOLDER}/translate-small.md"]
    assert not recipe_pages.mentioned("transl")


@pytest.mark.parametrize("recipe", [recipe.name for recipe in recipes()])
def test_gallery_shows_the_architecture(recipe: str) -> None:
    made = hooks.generated()
    assert ElementTree.fromstring(made[f"{recipe_pages.FOLDER}/images/{recipe}.svg"]).tag.endswith("svg")
    assert f"(images/{recipe}.svg)" in made[f"{recipe_pages.FOLDER}/{recipe}.md"]
    assert f"(images/{recipe}.svg)" in made[f"{recipe_pages.FOLDER}/index.md"]


def test_citation_names_the_present_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = YAML(typ="safe", pure=True).load(text)
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "version", "date-released", "license"} <= set(cited)
    assert str(cited["version"]) == weft.__version__
    assert f"version = {{{weft.__version__}}}" in hooks.citing(text)


def test_pages_of_the_repository_are_adapted_to_the_site() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="concepts/recipe.md"))
    text = "```console untrained\n$ weft\n```\n[a](../../CHANGELOG.md) [b](data.md#x) [c](https://x.org/a)\n"
    shown = hooks.on_page_markdown(text, page, None, None)  # type: ignore[arg-type]
    assert shown == "```console\n$ weft\n```\n[a](../about/changelog.md) [b](data.md#x) [c](https://x.org/a)\n"
    page.file.src_uri = "about/contributing.md"
    shown = hooks.on_page_markdown("[a](docs/concepts/data.md#x) [b](CHANGELOG.md)", page, None, None)  # type: ignore[arg-type]
    assert shown == "[a](../concepts/data.md#x) [b](changelog.md)"
    shown = hooks.on_page_content('<span class="arithmatex">\\(x^2\\)</span>', page, None, None)  # type: ignore[arg-type]
    assert shown.startswith("<math") and "<msup>" in shown
