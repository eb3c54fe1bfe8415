"""Text that is not a recipe: invalid YAML, hostile YAML, unreadable files."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
import warnings
from pathlib import Path

import pytest

from weft.recipe import Problem, RecipeError, parse, read_file
from weft.recipe.text import MAX_BYTES, parse_value
from weft.recipe.tree import MAX_DEPTH, MAX_NODES, MAX_PROBLEMS
from weft.training.recipes import read_run, read_run_text


def syntax_errors(text: str) -> list[str]:
    """The syntax errors of a text."""
    try:
        return [str(p) for p in parse(text, "r.yaml").problems]
    except RecipeError as error:
        return str(error).splitlines()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r.yaml:1: the recipe is empty"),
        ("# nothing\n\n", "r.yaml:1: the recipe is empty"),
        ("dates", "r.yaml:1: a recipe is a mapping: `key: value` lines at its top level"),
        ("- a\n- b\n", "r.yaml:1: a recipe is a mapping: `key: value` lines at its top level"),
        ("null", "r.yaml:1: a recipe is a mapping: `key: value` lines at its top level"),
        ("a: 1\n---\nb: 2\n", "r.yaml:3: a recipe is one YAML document, but a second one starts here"),
        ("a:\n\tb: 1\n", "r.yaml:2: a tab in the indentation: YAML requires spaces"),
        ("a:\n  b: 1\n  \tc: 1\n", "r.yaml:3: a tab in the indentation: YAML requires spaces"),
        ("a: 1\nb:\t2\nc: `x`", "r.yaml:2: not valid YAML: a tab where YAML requires spaces"),
        ("a: 1\nb 2\nc: 3\n", "r.yaml:2: not valid YAML: a `key: value` has no colon"),
        ("a:\n  - b 1\n    c: 2\n", "r.yaml:2: not valid YAML: a `key: value` has no colon"),
        ("a: 1\n   b: 2\n", "r.yaml:2: not valid YAML: an unexpected colon, or a line that is indented too far"),
        (
            "a:\n    b: 1\n  c: 2\n",
            "r.yaml:3: not valid YAML: this line is indented unlike the others of its block, which starts at line 1",
        ),
        ("a: 1\nb: {c: ${a}}\n", "r.yaml:2: not valid YAML: a ${...} inside of {...} must be in quotes"),
        ('a: 1\nb: "x\nc: 3\n', "r.yaml:2: not valid YAML: the quote that opens here is not closed"),
        ("a: 1\nb: {x: 1\nc: 3\n", "r.yaml:2: not valid YAML: the { that opens here is not closed"),
        ("a:\n  b: {  # all\n  # note\n  c:\n    d: 1\n", "r.yaml:2: not valid YAML: the { that opens here is not closed"),
        ("a: 1\nb: [1, 2\n", "r.yaml:2: not valid YAML: the [ that opens here is not closed"),
        ("a: 1\nb: [1, # ]\n  {c: 2},\n", "r.yaml:2: not valid YAML: the [ that opens here is not closed"),
        ("a: 1\nb: [1,\n  {\n\n", "r.yaml:3: not valid YAML: the { that opens here is not closed"),
        ("a: @b\n", "r.yaml:1: not valid YAML: a value cannot start with @; put it in quotes"),
        ("a: 1\nb: *c\n", "r.yaml:2: not valid YAML: found undefined alias 'c'"),
        ("a: 1\nb: \x01\n", "r.yaml:2: not valid YAML: the character #x0001 is not allowed in a text file"),
        ("%YAML 1.1\n---\na: yes\n", "r.yaml:1: a recipe is YAML 1.2, not 1.1"),
        ("a: 1\na: 2\n", "r.yaml:2: a: duplicate key 'a' (first: r.yaml:1)"),
        ("a: {b: 1, b: 2}\n", "r.yaml:1: a.b: duplicate key 'b' (first: r.yaml:1)"),
        ("a: 1\n: 2\n", "r.yaml:2: the key before the colon is missing"),
        ("a: {[x]: 2}\n", "r.yaml:1: a: a key must be a scalar"),
        ("? {x: 1}\n: 2\n", "r.yaml:1: a key must be a scalar"),
        (
            "a: &a {x: 1}\nb: {<<: *a}\n",
            "r.yaml:2: b.<<: merging (<<) is not part of a recipe; ${a.b} copies the value at a.b",
        ),
        ("a: !foo 1\n", "r.yaml:1: a: cannot read '1' as !foo; a recipe has plain values only"),
        ("a: !!int x\n", "r.yaml:1: a: cannot read 'x' as !!int; a recipe has plain values only"),
        ("a: !!bool maybe\n", "r.yaml:1: a: cannot read 'maybe' as !!bool; a recipe has plain values only"),
        ("a: !!null x\n", "r.yaml:1: a: cannot read 'x' as !!null; a recipe has plain values only"),
        ("a: !!set {x}\n", "r.yaml:1: a: the tag !!set is not supported; a recipe has plain values only"),
        ('a: "\\ud800"\n', "r.yaml:1: a: '\\ud800' is not valid Unicode: an unpaired surrogate"),
        ("a: &a [*a]\n", "r.yaml:1: a.0: an anchor that contains itself"),
        ("a: &a {b: {c: *a}}\n", "r.yaml:1: a.b.c: an anchor that contains itself"),
    ],
)
def test_syntax_errors_are_located_at_their_cause(text: str, message: str) -> None:
    assert syntax_errors(text) == [message]


def test_every_tab_in_the_indentation_is_reported() -> None:
    assert [line.split(": ")[0] for line in syntax_errors("a:\n\tb: 1\n\tc: 2\n")] == ["r.yaml:2", "r.yaml:3"]


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch hacked']",
        "!!python/object/new:subprocess.Popen [[touch, hacked]]",
        "!!python/name:os.system",
        "!!python/module:antigravity",
        "!!python/tuple [1, 2]",
        "!!binary aGk=",
        "!!js/function 'x'",
    ],
)
def test_tags_execute_no_code(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = syntax_errors(f"a: 1\nb:\n  c: {value}\n")
    assert line.startswith("r.yaml:3: b.c: ")
    assert "a recipe has plain values only" in line
    assert not list(tmp_path.iterdir())


def test_tagged_keys_are_errors() -> None:
    assert syntax_errors("!!python/name:os.system a: 1\n")[0].startswith(
        "r.yaml:1: a: cannot read 'a' as !!python/name:os.system"
    )


def test_exponential_aliases_are_bounded() -> None:
    names = "abcdefghi"
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for before, name in itertools.pairwise(names):
        bomb += f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    (line,) = syntax_errors(bomb)
    assert line.endswith(f"more than {MAX_NODES:,} values once anchors are written out")


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 500 + "]" * 500,
        "a: " + "[" * 1000,
        "a: " + "{b: " * 3000 + "1" + "}" * 3000,
        "a:\n  " + "- " * 3000 + "b",
        "".join("  " * i + "a:\n" for i in range(300)),
        "a: &x0 1\n" + "".join(f"b{i}: &x{i + 1} [*x{i}]\n" for i in range(100)),
    ],
)
def test_deep_nesting_is_an_error(text: str) -> None:
    (line,) = syntax_errors(text)
    assert line.endswith(f"nested more than {MAX_DEPTH} levels deep")


def test_nesting_up_to_the_limit_is_allowed() -> None:
    depth = MAX_DEPTH - 1
    assert parse("a: " + "[" * (depth - 1) + "]" * (depth - 1), "r.yaml").problems == []


def test_long_values_are_shortened_in_messages(errors_of, small: str) -> None:
    assert all(len(line) < 400 for line in syntax_errors("? " + "k" * 10_000 + "\n: 1\n"))
    assert all(len(line) < 400 for line in syntax_errors("seed: " + "9" * 10_000 + "\n"))
    assert all(len(line) < 400 for line in errors_of(small.replace("seed: 1", "seed: " + "x" * 10_000)))
    assert all(len(line) < 800 for line in errors_of(small.replace("type: seq2seq", "type: " + "x" * 10_000)))  # known names too


def test_the_number_of_messages_is_bounded(errors_of, small: str) -> None:
    lines = errors_of(small + "".join(f"strange-{i}: 1\n" for i in range(500)))
    assert len(lines) == MAX_PROBLEMS + 1
    assert lines[-1] == f"and {500 - MAX_PROBLEMS} more"


def test_a_repeated_long_message_is_abbreviated() -> None:
    long, short = "there is none of them " * 9, "is none"
    problems = [Problem("r.yaml:3", "a.b", long), Problem("r.yaml:1", "c", long), Problem("r.yaml:2", "d", short)]
    problems += [Problem("r.yaml:4", "e", short), Problem("command line", "f", long + "!"), Problem("r.yaml:5", "c", long)]
    error = RecipeError(problems)
    assert str(error).splitlines() == [
        f"command line: f: {long}!",
        f"r.yaml:1: c: {long}",
        "r.yaml:2: d: is none",
        "r.yaml:3: a.b: the same as c (r.yaml:1)",
        "r.yaml:4: e: is none",
        "r.yaml:5: c: the same as c (r.yaml:1)",
    ]
    assert sorted(map(str, error.problems)) == sorted(map(str, problems)), "each is whole for who asks"
    assert str(RecipeError([Problem("", "a", long), Problem("", "b", long)])) == f"a: {long}\nb: the same as a"


def test_anchors_are_copied(read, small: str) -> None:
    text = small.replace("{type: transformer, layers: 1}", "&t {type: transformer, layers: 1}").replace(
        "decoder: transformer", "decoder: *t"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(text).dump()["structure"]["decoder"]["layers"] == 1
        read(text.replace("dim: 16", "dim: &t 16"))  # an anchor may be set again


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("+12", 12),
        ("012", 12),
        ("0o17", 15),
        ("0x1F", 31),
        ("1e3", 1000.0),
        ("1.5e-3", 0.0015),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        (".INF", float("inf")),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("on", "on"),
        ("null", None),
        ("~", None),
        ("", None),
        ("2020-01-01", "2020-01-01"),
        ("12:30", "12:30"),
        ("=", "="),
        ("<<", "<<"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("1.2.3", "1.2.3"),
        ("höhe", "höhe"),
        ('"\\u0000"', "\0"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    found = parse(f"a: {text}\n", "r.yaml").value["a"].value
    assert (found, type(found)) == (value, type(value))


def test_keys_are_strings() -> None:
    assert list(parse("1: a\ntrue: b\nnull: c\n1.5: d\n'e f': g\n", "r.yaml").value) == ["1", "true", "null", "1.5", "e f"]


def test_equal_keys_in_different_notations_are_duplicates() -> None:
    assert syntax_errors('1: a\n"1": b\n') == ["r.yaml:2: 1: duplicate key '1' (first: r.yaml:1)"]


def test_a_value_on_the_line_after_its_key_is_located_there(errors_of, small: str) -> None:
    assert errors_of(small.replace("decoder: transformer", "decoder:\n    type transformer"))[0].startswith(
        "r.yaml:8: structure.decoder: no Decoder named 'type transformer'"
    )


# ---------------------------------------------------------------------------------------------------------------- files


def refused(file: Path) -> str:
    with pytest.raises(RecipeError) as caught:
        read_file(file, "r.yaml")
    return str(caught.value)


def test_unreadable_files_are_errors(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.yaml") == "r.yaml: there is no such file"
    assert refused(tmp_path) == "r.yaml: is a folder, not a recipe file"
    (tmp_path / "latin").write_bytes(b"a: 1\nb: \xfc\n")
    assert refused(tmp_path / "latin") == "r.yaml:2: not valid UTF-8 (byte 8)"
    (tmp_path / "wide").write_bytes("a: 1\n".encode("utf-16"))
    assert refused(tmp_path / "wide") == "r.yaml:1: not valid UTF-8 (byte 0)"
    (tmp_path / "huge").write_bytes(b"#" * (MAX_BYTES + 1))
    assert refused(tmp_path / "huge") == f"r.yaml: is too large: a recipe has at most {MAX_BYTES:,} bytes"
    assert "cannot be read" in refused(tmp_path / ("x" * 300))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_an_endless_file_is_too_large() -> None:
    assert "too large" in refused(Path("/dev/zero"))


def test_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path, small: str, errors_of) -> None:
    (tmp_path / "r.yaml").write_bytes(b"\xef\xbb\xbf" + small.replace("\n", "\r\n").encode())
    assert read_run(tmp_path / "r.yaml").dump()["structure"]["dim"] == 16
    for end in ("\r\n", "\r"):
        mutated = small.replace("dim: 16", "dmi: 16").replace("\n", end)
        assert errors_of(mutated)[0].startswith("r.yaml:5: structure.dmi: ")


def test_messages_show_the_file_name_as_given(tmp_path: Path, small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text(small.replace("dim", "dmi"), encoding="utf-8")
    with pytest.raises(RecipeError, match=r"^bad.yaml:5: structure.dmi: "):
        read_run("bad.yaml")
    with pytest.raises(RecipeError, match=r"^none.yaml: there is no such file$"):
        read_run("none.yaml")
    with pytest.raises(RecipeError, match=r"^there is no file or shipped recipe 'date'; did you mean 'dates'\? \(shipped: "):
        read_run("date")


@pytest.mark.parametrize("text", ["1_000", "1_0.5", "-1_000", "0x1_0", "1_0e3"])
def test_numbers_have_plain_digits(text: str) -> None:
    with pytest.raises(RecipeError, match=f"{text}' has underscores; write a number in plain digits: {text.replace('_', '')}"):
        parse_value(text, "a.b")


def test_digits_of_other_scripts_are_text() -> None:
    assert parse_value("１２", "a").value == "１２"
    assert [parse_value(text, "a").value for text in ("12", "-5", "1e3", ".5", "0x1F", "0o17")] == [12, -5, 1000.0, 0.5, 31, 15]


def test_a_pipe_is_read_and_an_unconnected_one_is_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "r.yaml")
    assert read_file(tmp_path / "r.yaml") == ""
    with subprocess.Popen(["sh", "-c", f"exec 3<>'{tmp_path}/r.yaml'; printf 'seed: 1' >&3; sleep 1"]) as process:
        while (found := read_file(tmp_path / "r.yaml")) == "" and process.poll() is None:
            time.sleep(0.01)
    assert found == "seed: 1"


def test_of_a_key_that_is_there_twice_only_that_is_reported(tmp_path: Path) -> None:
    text = "seed: 1\nstructure: 7\nstructure: {type: seq2seq, dim: 8}\nlearning: {steps: '${structure.dim}'}\n"
    with pytest.raises(RecipeError) as refused:
        read_run_text(text, "r.yaml", tmp_path)
    assert [str(problem) for problem in refused.value.problems if "structure" in str(problem)] == [
        "r.yaml:3: structure: duplicate key 'structure' (first: r.yaml:2)"
    ]


def test_a_line_without_a_colon_is_named_although_the_next_one_fails(tmp_path: Path) -> None:
    text = "structure:\n  dim: 8\n  with:\n    a.b mix  # no colon\n    c.d: 1\n"
    with pytest.raises(RecipeError, match=r"r\.yaml:4: .*has no colon"):
        read_run_text(text, "r.yaml", tmp_path)
