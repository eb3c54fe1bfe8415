"""Hooks of MkDocs: add the generated pages and their navigation, and adapt the written pages to the site."""

from __future__ import annotations

import functools
import posixpath
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from ruamel.yaml import YAML
from tools.docs import api_pages, catalog_pages, command_pages, figures, recipe_pages
from tools.docs.formulas import latex_to_mathml
from tools.docs.markdown import code
from tools.docs.markdown import page as page_of
from tools.docs.package import ROOT, recipes

COPIED = {"CHANGELOG.md": "about/changelog.md", "CONTRIBUTING.md": "about/contributing.md"}
"""Pages at the top of the repository and where they are in the site."""
CITING = "about/citing.md"
FENCE = re.compile(r"^(\s*```\w+)[ \t]+\S.*$", re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
MATH = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


@functools.cache
def generated() -> dict[str, str]:
    """Every generated file by its path in the site's sources."""
    sources = (catalog_pages.pages(), figures.files(), recipe_pages.pages(), command_pages.pages(), api_pages.pages())
    return {path: text for source in sources for path, text in source}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the sections of the navigation whose pages are generated."""
    filled = {"catalog": _catalog_nav(), "api": _api_nav(), "cli": _command_nav(), "recipes": _recipe_nav()}
    assert config.nav is not None
    config.nav = _fill(config.nav, filled)
    return config


def _fill(nav: Any, filled: dict[str, list[Any]]) -> Any:
    """The navigation with each ``generated: NAME`` replaced by the pages of that name."""
    if isinstance(nav, list):
        return [_fill(item, filled) for item in nav]
    if isinstance(nav, dict):
        return {title: _section(value, filled) for title, value in nav.items()}
    return nav


def _section(value: Any, filled: dict[str, list[Any]]) -> Any:
    name = str(value).removeprefix("generated:")
    return filled[name] if name != str(value) else _fill(value, filled)


def _catalog_nav() -> list[Any]:
    folder = catalog_pages.FOLDER
    sections = [{title: [{s.name: f"{folder}/{s.name}.md"} for s in slots]} for title, slots in catalog_pages.groups().items()]
    return [f"{folder}/index.md", *sections]


def _recipe_nav() -> list[Any]:
    folder = recipe_pages.FOLDER
    return [f"{folder}/index.md", *({recipe.name: f"{folder}/{recipe.name}.md"} for recipe in recipes())]


def _command_nav() -> list[Any]:
    folder = command_pages.FOLDER
    return [f"{folder}/index.md", *({f"weft {n}": f"{folder}/{n}.md"} for n, _ in command_pages.commands() if " " not in n)]


def _api_nav() -> list[Any]:
    def below(module: Any) -> list[Any]:
        found: list[Any] = [api_pages.path_of(module)]
        for inner in api_pages.inner(module):
            path = api_pages.path_of(inner)
            found.append({inner.name: below(inner) if path.endswith("index.md") else path})
        return found

    return below(api_pages.root())


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and those at the top of the repository."""
    for path, text in generated().items():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, CITING, content=citing((ROOT / "CITATION.cff").read_text(encoding="utf-8"))))
    for name, path in COPIED.items():
        files.append(File.generated(config, path, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def citing(text: str) -> str:
    """The page on citing, from the citation file."""
    cited = YAML(typ="safe", pure=True).load(text)
    authors = " and ".join(f"{{{author['name']}}}" for author in cited["authors"])
    year = str(cited["date-released"])[:4]
    entry = {"title": cited["title"], "author": authors, "version": cited["version"], "year": year}
    fields = "\n".join(f"  {name:8}= {{{value}}}," for name, value in entry.items())
    source = "`CITATION.cff` at the top of the repository has the same information for GitHub, Zenodo and reference managers."
    return page_of("# Citing weft", cited["message"], code(f"@software{{weft,\n{fields}\n}}", "bibtex"), source)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Drop the words after a fence's language that are meant for the tests, and lead links to where pages are in the site."""
    path = page.file.src_uri
    if path.startswith("reference/api/"):
        return markdown
    source = next((name for name, target in COPIED.items() if target == path), f"docs/{path}")
    fixed = FENCE.sub(r"\1", markdown)
    return LINK.sub(lambda match: f"{match[1]}{_moved(match[2], source, path)}{match[3]}", fixed)


def _moved(link: str, source: str, path: str) -> str:
    """A link of a file of the repository as a link of its page in the site."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    if target.startswith("docs/"):
        inside = target.removeprefix("docs/")
    elif target in COPIED:
        inside = COPIED[target]
    else:
        return link
    return posixpath.relpath(inside, posixpath.dirname(path) or ".")


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draw LaTeX formulas of written pages as MathML."""
    return MATH.sub(lambda match: latex_to_mathml(match[2].strip(), block=match[1] == "div"), html)
