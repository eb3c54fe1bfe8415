"""Weight averaging: formulas, data types, and a state that continues bit for bit."""

from __future__ import annotations

import pytest
import torch

from weft.core.registry import CATALOG
from weft.learning.averaging import EMA, average
from weft.learning.checkpoint import read_tensors, write_tensors


def weights(seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return {
        "a.weight": torch.randn(3, 4, generator=generator).to(dtype),
        "a.bias": torch.randn((), generator=generator).to(dtype),
        "steps": torch.tensor(seed),
        "mask": torch.tensor([seed % 2 == 0]),
    }


def test_is_in_the_catalog():
    assert CATALOG[EMA] == {"ema": EMA}


@pytest.mark.parametrize("warmup", [False, True])
def test_ema_equals_its_formula(warmup):
    ema = EMA(decay=0.8, warmup=warmup)
    ema.update(weights(0))
    expected = weights(0)["a.weight"].double()
    for t in range(60):
        ema.update(weights(t + 1))
        decay = min(0.8, (1 + t) / (10 + t)) if warmup else 0.8
        expected = decay * expected + (1 - decay) * weights(t + 1)["a.weight"].double()
        torch.testing.assert_close(ema.tensors()["a.weight"].double(), expected, rtol=1e-5, atol=1e-6)
    assert ema.tensors()["steps"] == 60 and ema.tensors()["mask"].tolist() == [True]
    assert {name: tensor.dtype for name, tensor in ema.tensors().items()} == {n: w.dtype for n, w in weights(0).items()}


def test_ema_neither_changes_nor_aliases_the_weights():
    given = {"w": torch.nn.Parameter(torch.ones(2))}
    ema = EMA(decay=0.5)
    ema.update(given)
    with torch.no_grad():
        given["w"].fill_(3)
    ema.update(given)
    assert given["w"].tolist() == [3, 3] and ema.tensors()["w"].tolist() == [2, 2]
    ema.tensors()["w"].fill_(9)
    ema.state_dict()["average/w"].fill_(9)
    assert ema.tensors()["w"].tolist() == [2, 2] and not ema.tensors()["w"].requires_grad


def test_small_updates_are_not_rounded_away_in_half_precision():
    ema = EMA(decay=0.999)
    ema.update({"w": torch.zeros(1, dtype=torch.bfloat16)})
    for _ in range(2000):
        ema.update({"w": torch.ones(1, dtype=torch.bfloat16)})
    result = ema.tensors()["w"]
    assert result.dtype == torch.bfloat16
    assert result.item() == pytest.approx(1 - 0.999**2000, abs=0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("stop", [0, 1, 7])
def test_ema_restored_from_a_file_continues_bit_for_bit(tmp_path, stop, dtype):
    straight, first, second = (EMA(decay=0.9, warmup=True) for _ in range(3))
    for t in range(12):
        straight.update(weights(t, dtype))
        if t < stop:
            first.update(weights(t, dtype))
    write_tensors(tmp_path / "ema.safetensors", first.state_dict())
    second.load_state_dict(read_tensors(tmp_path / "ema.safetensors"))
    if stop:
        assert {n: t.dtype for n, t in second.tensors().items()} == {n: w.dtype for n, w in weights(0, dtype).items()}
    for t in range(stop, 12):
        second.update(weights(t, dtype))
    assert second.updates == straight.updates == 11
    for name, tensor in straight.state_dict().items():
        assert torch.equal(second.state_dict()[name], tensor), name


def test_ema_of_other_weights_is_refused():
    ema = EMA()
    ema.update({"a": torch.ones(2), "b": torch.ones(1)})
    with pytest.raises(ValueError, match=r"missing \['b'\], unexpected \['c'\]"):
        ema.update({"a": torch.ones(2), "c": torch.ones(1)})
    with pytest.raises(ValueError, match=r"a: the weights of this update has shape \(3,\), but the average has \(2,\)"):
        ema.update({"a": torch.ones(3), "b": torch.ones(1)})
    other = EMA()
    other.update({"a": torch.ones(2)})
    with pytest.raises(ValueError, match=r"the stored average and the current one have different names"):
        ema.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="not the state of a moving average"):
        ema.load_state_dict({"a": torch.ones(2)})
    with pytest.raises(ValueError, match=r"between 0 and 1, not 1\.5"):
        EMA(decay=1.5)


def test_average_is_the_mean_in_double_precision():
    states = [weights(seed) for seed in range(5)]
    mean = average(states)
    for name in ("a.weight", "a.bias"):
        expected = torch.stack([s[name].double() for s in states]).mean(0).float()
        torch.testing.assert_close(mean[name], expected, rtol=1e-7, atol=1e-8)
        assert mean[name].dtype == torch.float32
    assert mean["steps"] == 4 and mean["mask"].tolist() == [True]
    # in float32 or bfloat16 the ones would be lost
    assert average([{"w": torch.tensor([1e8])}, {"w": torch.tensor([1.0])}, {"w": torch.tensor([-1e8])}])[
        "w"
    ].item() == pytest.approx(1 / 3)
    bf16 = [{"w": torch.tensor([256.0], dtype=torch.bfloat16)}] + [{"w": torch.tensor([1.0], dtype=torch.bfloat16)}] * 255
    assert average(bf16)["w"].dtype == torch.bfloat16 and average(bf16)["w"].item() == pytest.approx(511 / 256, abs=0.01)


def test_average_of_one_state_is_a_copy():
    state = weights(3)
    mean = average([state])
    assert all(torch.equal(mean[name], state[name]) for name in state)
    for tensor in mean.values():
        tensor.zero_()
    assert all(torch.equal(state[name], weights(3)[name]) for name in state)


def test_average_refuses_different_names_and_shapes():
    with pytest.raises(ValueError, match="no weights to average"):
        average([])
    with pytest.raises(ValueError, match=r"state 1 of the 2 to average and the last .* missing \['b'\], unexpected \[\]"):
        average([{"a": torch.ones(1)}, {"a": torch.ones(1), "b": torch.ones(1)}])
    with pytest.raises(ValueError, match=r"a: state 2 of the 3 .* has shape \(1,\), but the last has \(2,\)"):
        average([{"a": torch.ones(2)}, {"a": torch.ones(1)}, {"a": torch.ones(2)}])
