"""The words are true: every snippet of README.md, CONTRIBUTING.md and docs/ runs, every link leads somewhere.

What the first word after the fence, and those that follow it, mean:

- ``python``: runs, all blocks of a page in one namespace and one temporary folder. A block that begins with ``# name.py`` is
  written to that file instead, for a plug-in. ``text output`` after it is what it prints.
- ``yaml``: a whole recipe, checked as ``weft check`` does, and written to the file that its first line names (``# name.yaml``).
  ``yaml fragment`` has some of a recipe's keys; they replace those of the recipe ``dates-transformer``, and the whole is checked.
  ``yaml wrong`` must be refused.
- ``console``: lines ``$ weft ...`` run in this process, with tiny sizes; lines below are what they print. ``console untrained``
  does not compare, since a model of tiny size has learned nothing; ``console mistake`` must end with exit code 2. ``torchrun``
  starts processes; what is neither is not run, but what it names must exist.

In expected output, ``...`` stands for anything.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import shutil
import subprocess
import sys
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from weft.cli import app as cli
from weft.core import registry as catalog
from weft.models.zoo.family import FAMILIES
from weft.recipe import RecipeError, to_yaml
from weft.training.dry_run import check
from weft.training.recipes import RECIPES, read_run, shipped_recipes

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [*PAGES, ROOT / "CHANGELOG.md"]
KINDS = {
    "python": [set()],
    "text": [set(), {"output"}],
    "yaml": [set(), {"fragment"}, {"wrong"}],
    "console": [set(), {"untrained"}, {"mistake"}],
}

DATES = [
    "data.train=200",
    "data.valid=20",
    "data.test=40",
    "structure.dim=16",
    "learning.batch_tokens=1000",
    "evaluate.search.max_length=12",
]
ROWS = 3
"""How many of these are about the data."""
BEGUN, RESUMED = 4, 6
"""Steps of a run that a page starts, and of one that it resumes."""


def shown(page: Path) -> str:
    return str(page.relative_to(ROOT))


# --------------------------------------------------------------------------------------------------------------- snippets


@dataclass(frozen=True)
class Snippet:
    """A fenced block: its first line, its language, its content."""

    page: Path
    line: int
    language: str
    options: frozenset[str]
    text: str

    def fail(self, why: str, line: int | None = None) -> None:
        pytest.fail(f"{shown(self.page)}:{line or self.line}: {why}", pytrace=False)


def snippets(page: Path) -> list[Snippet]:
    found: list[Snippet] = []
    opened, start, inner = None, 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if opened is None and line.startswith("```"):
            opened, start, inner = line[3:].split(), number + 1, []
        elif opened is not None and line.rstrip() == "```":
            language, *options = opened or [""]
            found.append(Snippet(page, start, language, frozenset(options), "\n".join(inner) + "\n"))
            opened = None
        elif opened is not None:
            inner.append(line)
    assert opened is None, f"{shown(page)}:{start}: the block is never closed"
    return found


def alike(expected: str, got: str) -> bool:
    """Whether ``got`` is as expected, ``...`` standing for anything. Spaces at line ends do not matter."""
    wanted, there = ("\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (expected, got))
    return re.fullmatch(".*".join(map(re.escape, wanted.split("..."))), there, re.DOTALL) is not None


def shrink(code: str) -> str:
    """Fewer steps and rows: what a page shows may take a minute, a test may not."""
    code = re.sub(r"\bsteps=(\d[\d_]*)", lambda m: f"steps={min(int(m[1]), 2 * BEGUN)}", code)
    return re.sub(r"\btrain=(\d[\d_]*)", lambda m: f"train={min(int(m[1]), 500)}", code)


@dataclass
class Output:
    """What a snippet printed."""

    everything: io.StringIO
    out: io.StringIO


class _Both(io.StringIO):
    """Writes to two streams."""

    def __init__(self, *streams: io.StringIO):
        super().__init__()
        self.streams = streams

    def write(self, s: str) -> int:
        return [stream.write(s) for stream in self.streams][-1]


@contextlib.contextmanager
def captured(given: str = "") -> Iterator[Output]:
    output = Output(io.StringIO(), io.StringIO())
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(_Both(output.everything, output.out)), contextlib.redirect_stderr(output.everything):
            yield output
    finally:
        sys.stdin = before


class PageRunner:
    """Executes all blocks of a page in order, in one folder."""

    def __init__(self, page: Path, folder: Path):
        self.page, self.folder = page, folder
        module = sys.modules["__page__"] = types.ModuleType("__page__")
        self.space: dict[str, Any] = vars(module)
        self.printed = ""

    def read(self) -> None:
        for snippet in snippets(self.page):
            if snippet.language not in KINDS or set(snippet.options) not in KINDS[snippet.language]:
                snippet.fail(f"a block ```{snippet.language} {' '.join(snippet.options)}; known are {', '.join(KINDS)}")
            getattr(self, snippet.language)(snippet)

    def text(self, snippet: Snippet) -> None:
        if "output" in snippet.options and not alike(snippet.text, self.printed):
            snippet.fail(f"the block before it prints\n{self.printed}")

    # ---------------------------------------------------------------------------------------------------------- python

    def python(self, snippet: Snippet) -> None:
        if name := re.match(r"# (\w+\.py)\n", snippet.text):
            (self.folder / name[1]).write_text(snippet.text, encoding="utf-8")
            return
        # empty lines before it, so that a traceback has the page's own line numbers
        code = compile("\n" * (snippet.line - 1) + shrink(snippet.text), shown(self.page), "exec", dont_inherit=True)
        with captured() as output:
            try:
                exec(code, self.space)
            except Exception as error:
                frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == shown(self.page)]
                snippet.fail("".join(traceback.format_exception(error)), frames[-1].lineno if frames else None)
        self.printed = output.out.getvalue()

    # ------------------------------------------------------------------------------------------------------------ yaml

    def yaml(self, snippet: Snippet) -> None:
        name = re.match(r"# ([\w-]+\.yaml)\b", snippet.text)
        file = self.folder / (name[1] if name else f"line-{snippet.line}.yaml")
        file.write_text(snippet.text, encoding="utf-8")
        if "fragment" in snippet.options:
            read = YAML(typ="safe", pure=True).load
            whole = read(RECIPES / "dates-transformer.yaml") | read(snippet.text)
            file.write_text(to_yaml(whole), encoding="utf-8")
        try:
            check(read_run(file.name))
        except RecipeError as error:
            if "wrong" not in snippet.options:
                snippet.fail(f"the recipe is refused\n{error}")
        else:
            if "wrong" in snippet.options:
                snippet.fail("the recipe is accepted, but it should be wrong")

    # --------------------------------------------------------------------------------------------------------- console

    def console(self, snippet: Snippet) -> None:
        if not snippet.text.startswith("$ "):
            snippet.fail("a console begins with a command: $ ...")
        line = snippet.line
        for part in re.split(r"^\$ ", snippet.text, flags=re.MULTILINE)[1:]:
            command, _, expected = re.sub(r"\\\n", "", part).partition("\n")
            self.command(snippet, line, command, expected)
            line += part.count("\n")

    def command(self, snippet: Snippet, line: int, command: str, expected: str) -> None:
        words = shlex.split(command, comments=True)
        given, kept = "", ""
        if words[0] == "echo" and "|" in words:
            given, words = " ".join(words[1 : words.index("|")]) + "\n", words[words.index("|") + 1 :]
        if ">" in words:
            words, kept = words[: words.index(">")], words[-1]
        if words[0] == "torchrun":
            self.torchrun(snippet, line, words)
            return
        if words[0] != "weft":
            if problem := missing(words):
                snippet.fail(problem, line)
            return
        code: int | str = 0
        with captured(given) as output:
            try:
                cli.main(small(words[1:]))
            except SystemExit as end:
                code = end.code or 0
        if kept:
            (self.folder / kept).write_text(output.out.getvalue(), encoding="utf-8")
        got = output.everything.getvalue()
        if code != (2 if "mistake" in snippet.options else 0):
            snippet.fail(f"{command} ends with exit code {code} and prints\n{got}", line)
        if expected.strip() and "untrained" not in snippet.options and not alike(expected, got):
            snippet.fail(f"{command} prints\n{got}", line)

    def torchrun(self, snippet: Snippet, line: int, words: list[str]) -> None:
        """Run a command in several processes, with tiny sizes."""
        at = words.index("weft")
        words = [sys.executable, "-m", "torch.distributed.run", *words[1:at], "weft", *small(words[at + 1 :])]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            snippet.fail(
                f"{shlex.join(words)} ends with exit code {done.returncode} and prints\n{done.stdout}{done.stderr}", line
            )


def small(arguments: list[str]) -> list[str]:
    """A command with tiny sizes added."""
    arguments = [re.sub(r"^learning\.steps=\d+$", f"learning.steps={RESUMED}", a) for a in arguments]
    arguments = [re.sub(r"^(learning\.phases\.\d+\.start)=\d+$", r"\1=1", a) for a in arguments]
    if arguments[0] not in ("train", "demo", "sweep") or {"--resume", "preset=test", "--list"} & set(arguments):
        return arguments
    name = "dates" if arguments[0] == "demo" else arguments[1]
    file = shipped_recipes().get(name, Path(name))
    dates = re.search(r"^data:.*\bdates\b", file.read_text(encoding="utf-8"), re.MULTILINE) if file.is_file() else None
    other = any(a.startswith("data=") for a in arguments)
    steps = [
        f"learning.steps={BEGUN}",
        "learning.epochs=null",
        *(f"stages.{i}.learning.steps={BEGUN}" for i in range(stages_of(file))),
    ]
    return [*arguments, *(DATES[other * ROWS :] if dates else []), *steps]


def stages_of(file: Path) -> int:
    """Number of stages after the first one of a recipe that a page has written."""
    if file in shipped_recipes().values() or not file.is_file():
        return 0
    return len(YAML(typ="safe", pure=True).load(file).get("stages") or [])


def missing(words: list[str]) -> str | None:
    """What a command that is not run names but is not there; None if everything is."""
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    match words:
        case ["make", *rest]:
            unknown = [w for w in rest if "=" not in w and w not in targets]
            return f"the Makefile has no target {unknown[0]}" if unknown else None
        case [".", ".venv/bin/activate"]:
            return None
        case ["hf", "upload", _, folder]:
            return None if Path(folder).is_dir() else f"there is no folder {folder}"
        case [".venv/bin/pre-commit", "install"]:
            return None if (ROOT / ".pre-commit-config.yaml").is_file() else "there is no .pre-commit-config.yaml"
        case [".venv/bin/python", "-m", "pytest", *rest]:
            gone = [w for w in rest if w.startswith("tests") and not (ROOT / w).exists()]
            return f"there is no {gone[0]}" if gone else None
        case [".venv/bin/python", "-m", module, *_]:
            path = ROOT / module.replace(".", "/")
            return None if path.with_suffix(".py").is_file() or path.is_dir() else f"there is no module {module}"
    return f"the test does not know this command: {shlex.join(words)}"


@pytest.fixture
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that looks like a clone; afterwards, the catalog and the model families are as they were."""
    monkeypatch.syspath_prepend(str(ROOT))
    importlib.import_module("benchmarks.gan")  # from its own folder, whatever the working directory is
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # as for Python started there
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    modules, registered, families = set(sys.modules), set(catalog._NAMES), dict(FAMILIES)
    yield tmp_path
    FAMILIES.clear()
    FAMILIES.update(families)
    for factory in set(catalog._NAMES) - registered:
        if factory.__module__.partition(".")[0] != "weft":
            catalog.unregister(factory)
    for name in set(sys.modules) - modules:
        if name == "__page__" or str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_snippets(page: Path, clean: Path) -> None:
    PageRunner(page, clean).read()


# ------------------------------------------------------------------------------------------------- faults in pages are found


MINIMAL = (
    "data: dates\nstructure: {type: seq2seq, encoder: transformer}\nobjective: next-token\nlearning: {type: gradient, steps: 3}\n"
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nprint(1)\n```\n```text output\n2\n```\n", "page.md:5"),
        ("# Title\n\n```python\n\n1 / 0\n```\n", "page.md:5: .*ZeroDivisionError"),
        ("```python\nx = 1\n```\n```python\nassert x == 2\n```\n", "page.md:5"),
        ("```yaml fragment\nlearning: {type: gradient, stepz: 3}\n```\n", "stepz"),
        ("```yaml\nseed: 1\n```\n", "needs 'data'"),
        (f"```yaml wrong\n{MINIMAL}```\n", "should be wrong"),
        ("```console\n$ weft catalog norm nothing\n```\n", "exit code 2"),
        ("```console mistake\n$ weft --version\n```\n", "exit code 0"),
        ("```console\n$ weft --version\nnever\n```\n", "weft --version prints"),
        ("```console\n$ weft --version\n...\n$ weft nothing\n```\n", "page.md:4"),
        ("```console\n$ make nothing\n```\n", "no target nothing"),
        ("```console\n$ rm -r x\n```\n", "does not know"),
        ("```bash\n$ weft --version\n```\n", "known are"),
    ],
)
def test_faults_in_a_page_are_found(text: str, complaint: str, clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "Makefile", clean)
    monkeypatch.setattr(sys.modules[__name__], "ROOT", clean)
    page = clean / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match=f"(?s){complaint}"):
        PageRunner(page, clean).read()


def test_alike() -> None:
    assert alike("a ... c\n...\nz", "a b c  \n1\n2\nz\n")
    assert not alike("a ... c", "a b d")
    assert not alike("a", "a\nb")


# ------------------------------------------------------------------------------------------------------------------ links


def prose(page: Path) -> str:
    """The page without its code."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", LINKED, ids=shown)
def test_links(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        target_path, _, anchor = link.partition("#")
        if target_path.startswith(("http://", "https://")):
            continue
        target = (page.parent / target_path).resolve() if target_path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken, f"{shown(page)} links to what is not there"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert not [page for page in pages if page != "index.md" and f"({page})" not in index]


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert not [page for page in pages if not re.search(rf"[ :]{re.escape(page)}$", navigation, re.MULTILINE)]


def test_architecture_figure_of_the_readme_is_current(tmp_path: Path) -> None:
    """To update it: weft check dates --figure docs/images/dates-architecture.svg"""
    with captured(), contextlib.suppress(SystemExit):
        cli.main(["check", "dates", "--figure", str(tmp_path / "dates.svg")])
    assert (tmp_path / "dates.svg").read_text() == (ROOT / "docs" / "images" / "dates-architecture.svg").read_text()


def test_readme_names_the_two_commands() -> None:
    commands = "".join(s.text for s in snippets(ROOT / "README.md") if s.language == "console")
    assert "$ make demo\n" in commands
    assert "$ make test\n" in commands


# ------------------------------------------------------------------------------------------------- the repository stands alone

# in pieces, or this file would be the first to be found
FOREIGN = (
    "/wo" + "rk/",
    "../sha" + "red",
    "/ro" + "ot/",
    "py" + "pi.org",
    "python" + "hosted",
    "DESIGN" + ".md",
    "MISSION" + ".md",
)


def test_no_file_names_an_absolute_path() -> None:
    """No machine's paths, no hosts of packages, no documents that are not here."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    found = []
    for name in filter(None, listed.stdout.decode().split("\0")):
        file = ROOT / name
        if file.suffix == ".png" or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        found += [f"{name}: {word}" for word in FOREIGN if word in text]
    assert not found
