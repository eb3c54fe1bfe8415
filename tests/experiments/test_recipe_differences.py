"""Options that differ between recipes."""

from __future__ import annotations

from weft.experiments.recipe_differences import recipe_differences


def test_files_lists_mappings_and_missing_values_are_compared() -> None:
    file = {"path": "/data/a.txt", "sha256": "0123456789abcdef" * 4}
    other = {"path": "/data/a.txt", "sha256": "f" * 64}
    a = {"x": file, "list": [1, 2], "parts": [{"type": "p"}, {"type": "q"}], "none": None, "one": 1, "same": file, "e": {}}
    b = {"x": other, "list": [1, 3], "parts": [{"type": "p"}], "none": 0, "one": 1.0, "same": file, "e": []}
    assert recipe_differences([a, b]) == {
        "x": ["/data/a.txt (01234567)", "/data/a.txt (ffffffff)"],
        "list": [[1, 2], [1, 3]],
        "parts.1.type": ["q", None],
        "none": [None, 0],
        "one": [1, 1.0],
        "e": [{}, []],
    }
    assert recipe_differences([a, a, a]) == {}
    assert recipe_differences([a, a, b])["list"] == [[1, 2], [1, 2], [1, 3]]
