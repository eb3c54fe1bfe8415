"""The benchmark of layer types: counted path lengths, measurements that resume, tables."""

from __future__ import annotations

import pytest

from benchmarks import mixers, results


@pytest.mark.parametrize("name", mixers.TYPES)
def test_the_counted_path_length_is_that_of_the_formula(name):
    assert mixers.path_length(name) == mixers.TYPES[name].small_path


def test_measurements_resume_and_stop_before_they_need_too_much_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(mixers, "TYPES", {"convolution": mixers.TYPES["convolution"]})
    known = {"convolution": {"16": {"seconds": 1.0, "megabytes": 900.0}}}
    results.record(mixers.RESULT, known)
    found = mixers.measured(lengths=(16, 32, 64, 128))["convolution"]
    assert found["16"] == {"seconds": 1.0, "megabytes": 900.0}, "a recorded measurement is not repeated"
    assert found["32"]["seconds"] > 0 and found["32"]["megabytes"] >= 0
    assert results.recorded(mixers.RESULT) == {"convolution": found}
    found["32"]["megabytes"] = 1001.0
    results.record(mixers.RESULT, {"convolution": {"32": found["32"]}})
    later = mixers.measured(lengths=(32, 64, 128))["convolution"]
    assert later["64"] is None and later["128"] is None, "4 times 1001 MB are too much"


def test_tables_leave_out_what_was_not_measured():
    row = {str(n): {"seconds": n / 1e6, "megabytes": n / 1e3} for n in mixers.LENGTHS[:-1]} | {str(mixers.LENGTHS[-1]): None}
    tables = mixers.tables(dict.fromkeys(mixers.TYPES, row))
    assert tables["cost by length"][2].endswith("| 8 ms, 8 MB |  | 2.0x |")
    assert "| recurrent | O(n d²) | O(n) | O(n) | 64 |" in tables["layer types"]
