"""The limits on file length, function length and class names that ``make lint`` enforces."""

from __future__ import annotations

from pathlib import Path

from tools import limits

LINE = "    x = 1\n"


def found(folder: Path, exceptions: dict[str, str] | None = None, **files: str) -> list[str]:
    for name, text in files.items():
        file = folder / "src" / "package" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return list(limits.problems(folder, exceptions or {}))


def test_a_file_of_exactly_500_lines_is_allowed_and_one_more_is_not(tmp_path: Path) -> None:
    assert found(tmp_path, short="x = 1\n" * 500, long="x = 1\n" * 501) == [
        "src/package/long.py: 501 lines; at most 500 are allowed: split the module"
    ]


def test_a_function_of_exactly_60_lines_is_allowed_and_one_more_is_not(tmp_path: Path) -> None:
    text = f"def short():\n{LINE * 59}\n\nclass A:\n    def long(self):\n{('    ' + LINE) * 60}"
    (message,) = found(tmp_path, module=text)
    assert message.startswith("src/package/module.py:64: long has 61 lines; at most 60 are allowed")


def test_two_classes_of_one_name_are_a_problem_also_in_one_file(tmp_path: Path) -> None:
    messages = found(tmp_path, a="class Step: pass\n", b="class Step: pass\nclass Other: pass\n")
    assert messages == ["src/package/b.py:1: class Step is also defined in src/package/a.py:1: rename one of them"]


def test_files_of_inner_packages_are_checked(tmp_path: Path) -> None:
    assert len(found(tmp_path, **{"one": "x = 1\n", "inner/deep/two": "x = 1\n" * 501})) == 1


def test_an_exception_covers_only_what_it_names(tmp_path: Path) -> None:
    long = f"def f():\n{LINE * 60}def g():\n{LINE * 60}"
    (message,) = found(tmp_path, {"src/package/module.py:f": "one formula"}, module=long)
    assert ": g has 61 lines" in message


def test_there_are_at_most_five_exceptions_and_the_design_page_lists_each() -> None:
    design = (limits.ROOT / "docs" / "design.md").read_text()
    assert len(limits.EXCEPTIONS) <= 5
    assert all(f"`{name}`" in design for name in limits.EXCEPTIONS)
