"""Interpolation between latent codes, and terms of linear combinations. P latent dimensions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

MAX_SCALE = 1_000_000
Interpolation = Literal["linear", "spherical"]


class InterpolationStep(NamedTuple):
    """A text decoded between two others: the interpolation coefficient, and the text."""

    tau: float
    text: str


def interpolate_latents(a_P: np.ndarray, b_P: np.ndarray, tau: float, method: Interpolation = "linear") -> np.ndarray:
    """Interpolate between two latent codes; the result is exactly ``a_P`` at 0 and ``b_P`` at 1.

    linear: z = (1 - tau) a + tau b;  spherical: z = (sin((1 - tau) w) a + sin(tau w) b) / sin w, w the angle between a and b

    Spherical interpolation falls back to linear for collinear vectors.

    Shoemake 1985 (slerp); for latent spaces: White 2016, https://arxiv.org/abs/1609.04468

    Args:
        a_P: Latent code at tau = 0.
        b_P: Latent code at tau = 1.
        tau: Interpolation coefficient.
        method: linear or spherical.

    Example:
        >>> interpolate_latents(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.5, "spherical").round(4).tolist()
        [0.7071, 0.7071]
    """
    if method not in ("linear", "spherical"):
        raise ValueError(f"method must be linear or spherical, not {method!r}")
    a, b = np.asarray(a_P, np.float64), np.asarray(b_P, np.float64)
    first, second = 1 - tau, tau
    norms = np.linalg.norm(a) * np.linalg.norm(b)
    angle = np.arccos(np.clip(a @ b / norms, -1, 1)) if method == "spherical" and norms > 0 else 0.0
    if np.sin(angle) > 1e-6:
        first, second = np.sin((1 - tau) * angle) / np.sin(angle), np.sin(tau * angle) / np.sin(angle)
    return (first * a + second * b).astype(np.asarray(a_P).dtype)


def check_scale(scale: float) -> float:
    """Return the scale. Raises ValueError if it is not finite, or so large that float32 may overflow."""
    if not abs(scale) <= MAX_SCALE:
        raise ValueError(f"scale must be between -{MAX_SCALE:,} and {MAX_SCALE:,}, not {scale:g}")
    return scale


def parse_terms(words: Sequence[str]) -> list[tuple[float, str]]:
    """Parse a linear combination of texts from command-line words: texts with + or - between them, and optional factors.

    Args:
        words: Texts, signs and factors, each a word of its own; a factor may carry the sign.

    Example:
        >>> parse_terms(["good food", "-", "0.5", "food", "+", "staff"])
        [(1.0, 'good food'), (-0.5, 'food'), (1.0, 'staff')]
        >>> parse_terms(["-0.5", "food", "+2", "staff"])
        [(-0.5, 'food'), (2.0, 'staff')]
    """
    terms: list[tuple[float, str]] = []
    rest = list(words)
    while rest:
        sign, scale = 1.0, 1.0
        if rest[0] in ("+", "-"):
            sign = -1.0 if rest.pop(0) == "-" else 1.0
        elif terms and not (rest[0][0:1] in ("+", "-") and _starts_with_factor(rest)):
            raise ValueError(f"no sign between {terms[-1][1]!r} and {rest[0]!r}; put + or - between them, as a word of its own")
        if _starts_with_factor(rest):
            scale = float(rest.pop(0))
        if not rest or rest[0] in ("+", "-"):
            raise ValueError(f"no text after {words[len(words) - len(rest) - 1]!r}; put a text after every sign")
        terms.append((sign * scale, rest.pop(0)))
    return terms


def _starts_with_factor(words: Sequence[str]) -> bool:
    """Whether the first word is a number before a text."""
    numeric = len(words) > 1 and re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", words[0])
    return bool(numeric) and words[1] not in ("+", "-")
