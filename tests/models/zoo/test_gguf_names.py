"""Metadata of GGUF files, which may have any values."""

from __future__ import annotations

import warnings

import pytest

from weft.models.zoo.gguf_names import Metadata


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e300, 1e300, True, "x"])
def test_a_real_must_be_a_float32(value: object) -> None:
    with warnings.catch_warnings(), pytest.raises(ValueError, match=r"metadata 'llama\.eps' is .*, but must be a number"):
        warnings.simplefilter("error")
        Metadata({"llama.eps": value}, "llama").real("eps")


def test_a_real_is_the_shortest_decimal_number_of_its_float32() -> None:
    assert Metadata({"llama.eps": 9.999999747378752e-06}, "llama").real("eps") == 1e-5
