"""Interpolation of latent codes, and parsing of linear combinations."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from weft.systems.latent_text.arithmetic import interpolate_latents, parse_terms


def test_linear_and_spherical_interpolation_of_latent_codes():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 7))
    for tau in (0, 0.3, 1):
        np.testing.assert_allclose(interpolate_latents(a, b, tau), (1 - tau) * a + tau * b)
        for other in (3 * a, a, 0 * a, -a):  # collinear: linear
            np.testing.assert_allclose(
                interpolate_latents(a, other, tau, "spherical"), interpolate_latents(a, other, tau), atol=1e-6
            )
    for method in ("linear", "spherical"):
        assert np.array_equal(interpolate_latents(a, b, 0, method), a) and np.array_equal(interpolate_latents(a, b, 1, method), b)
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    points = [interpolate_latents(a, b, tau, "spherical") for tau in np.linspace(0, 1, 5)]
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1)  # on the sphere, at equal angles
    cosines = [p @ q for p, q in pairwise(points)]
    np.testing.assert_allclose(cosines, np.cos(np.arccos(a @ b) / 4))
    with pytest.raises(ValueError, match="method must be linear or spherical, not 'round'"):
        interpolate_latents(a, b, 0.5, "round")  # pyright: ignore[reportArgumentType]


def test_terms_are_parsed_from_words():
    assert parse_terms(["a b", "-", "2", "c", "+", ".5", "d"]) == [(1, "a b"), (-2, "c"), (0.5, "d")]
    assert parse_terms(["-", "a", "+", "3"]) == [(-1, "a"), (1, "3")]  # a number at the end is a text
    assert parse_terms(["-0.5", "a", "+", "-2", "b", "-.5", "c", "-", "-1e1", "d"]) == [
        (-0.5, "a"),
        (-2, "b"),
        (-0.5, "c"),
        (10, "d"),
    ]
    assert parse_terms(["-", "a", "+", "-3"]) == [(-1, "a"), (1, "-3")]
    for words, message in (
        (["a", "0.5", "b"], "no sign between 'a' and '0.5'"),
        (["a", "-0.5"], "no sign between 'a' and '-0.5'"),
        (["a", "b"], "no sign between 'a' and 'b'"),
        (["a", "+"], "no text after '\\+'"),
        (["a", "-", "+", "b"], "no text after '-'"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_terms(words)
