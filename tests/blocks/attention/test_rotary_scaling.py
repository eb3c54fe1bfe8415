"""Scaled rotary frequencies are those of transformers, with the properties that the papers claim."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from weft.blocks import LinearScaling, Llama3Scaling, MultiHeadAttention, NTKScaling, RotaryPosition, YaRNScaling
from weft.blocks.embedding.position import frequencies
from weft.core.contracts import RotaryScaling

SIZE = 32
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512}
YARN = {"factor": 4.0, "original_max_position_embeddings": 256}
CASES: list[tuple[dict[str, Any], RotaryScaling]] = [
    ({"rope_type": "linear", "factor": 3.0}, LinearScaling(factor=3.0)),
    ({"rope_type": "llama3", **LLAMA3}, Llama3Scaling(factor=8.0, length=512)),
    ({"rope_type": "yarn", **YARN}, YaRNScaling(factor=4.0, length=256)),
    ({"rope_type": "yarn", **YARN, "beta_fast": 8.0, "beta_slow": 2.0}, YaRNScaling(factor=4.0, length=256, fast=8.0, slow=2.0)),
    ({"rope_type": "yarn", **YARN, "attention_factor": 0.7}, YaRNScaling(factor=4.0, length=256, amplitude=0.7)),
    ({"rope_type": "yarn", **YARN, "factor": 0.5}, YaRNScaling(factor=0.5, length=256)),
]


@pytest.mark.parametrize("base", [100.0, 10_000.0, 5e5])
@pytest.mark.parametrize(("theirs", "ours"), CASES, ids=[case[0]["rope_type"] + str(i) for i, case in enumerate(CASES)])
def test_the_frequencies_are_those_of_transformers(theirs: dict[str, Any], ours: RotaryScaling, base: float) -> None:
    config = LlamaConfig(hidden_size=2 * SIZE, num_attention_heads=1, rope_parameters={"rope_theta": base, **theirs})
    expected, amplitude = ROPE_INIT_FUNCTIONS[theirs["rope_type"]](config)
    torch.testing.assert_close(ours.scale(frequencies(SIZE, base, expected.device), base), expected, rtol=1e-5, atol=0)
    assert ours.amplitude == pytest.approx(amplitude)


def test_ntk_keeps_the_highest_frequency_and_divides_the_lowest() -> None:
    plain = frequencies(SIZE, 1e4, torch.device("cpu"))
    ratio = NTKScaling(factor=4.0).scale(plain, 1e4) / plain
    assert ratio[0] == 1 and ratio[-1].item() == pytest.approx(0.25) and (ratio.diff() < 0).all()
    stretched = 1e4 * 4 ** (2 * SIZE / (2 * SIZE - 2))
    torch.testing.assert_close(NTKScaling(factor=4.0).scale(plain, 1e4), frequencies(SIZE, stretched, plain.device))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (partial(Llama3Scaling, low=4.0), "high is 4, but must be larger than low, which is 4"),
        (partial(YaRNScaling, fast=1.0), "fast is 1, but must be larger than slow, which is 1"),
    ],
)
def test_limits_in_the_wrong_order_are_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_a_scaled_rotation_is_that_of_other_positions() -> None:
    x = torch.randn(2, 3, 4, 8)
    at, scaling = torch.arange(4).expand(2, 4), partial(LinearScaling, factor=2.0)
    torch.testing.assert_close(RotaryPosition(8, scaling=scaling).rotate(x, 2 * at), RotaryPosition(8).rotate(x, at))
    yarn = partial(YaRNScaling, factor=math.e, length=10**6, amplitude=None)
    norms = RotaryPosition(8, scaling=yarn).rotate(x, at).norm(dim=-1) / x.norm(dim=-1)
    torch.testing.assert_close(norms, torch.full_like(norms, 1.1))


@pytest.mark.parametrize(("fraction", "rotated"), [(0.0, 0), (0.2, 0), (0.5, 4), (0.7, 4), (1.0, 8)])
def test_only_the_first_features_are_rotated(fraction: float, rotated: int) -> None:
    x, at = torch.randn(2, 3, 4, 8), torch.arange(4).expand(2, 4)
    found = RotaryPosition(8, fraction=fraction).rotate(x, at)
    assert found[..., rotated:].equal(x[..., rotated:])
    torch.testing.assert_close(found[..., :rotated], RotaryPosition(8).rotate(x[..., :rotated], at))


@pytest.mark.parametrize(("bias", "out", "expected"), [(True, None, "yes"), (True, False, "qkv"), (False, True, "out")])
def test_the_output_projection_has_a_bias_of_its_own_choice(bias: bool, out: bool | None, expected: str) -> None:
    module = MultiHeadAttention(8, heads=2, bias=bias, out_bias=out)
    found = {name.split(".")[0] for name, _ in module.named_parameters() if name.endswith(".bias")}
    assert found == {"yes": {"query", "key", "value", "out"}, "qkv": {"query", "key", "value"}, "out": {"out"}}[expected]


@pytest.mark.parametrize("base", [1.0, 0.5])
def test_yarn_needs_frequencies_that_decrease(base: float) -> None:
    position = RotaryPosition(8, base=base, scaling=partial(YaRNScaling, factor=2.0))
    with pytest.raises(ValueError, match=f"the base of the positions must be above 1, not {base:g}"):
        position.rotate(torch.ones(1, 1, 2, 4), torch.zeros(1, 2))
