"""The state-space layer against its recurrence, and against an impulse response computed by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from weft.blocks import StateSpace
from weft.blocks.recurrent.state_space import DIRECT, convolve
from weft.core.masks import Causal, Full, Latest
from weft.core.seq import Seq


def recurrence(module, x_BTD):
    """The formula, one position after the other."""
    a_DM = -module.log_decay.exp() + 1j * module.frequency
    turn_DM = torch.exp(module.log_step.exp()[:, None] * a_DM)
    readout_DM = module.readout[..., 0] + 1j * module.readout[..., 1]
    h_BDM, found = torch.zeros(x_BTD.shape[0], *a_DM.shape, dtype=a_DM.dtype), []
    for x_BD in x_BTD.unbind(1):
        h_BDM = turn_DM * h_BDM + (turn_DM - 1) / a_DM * x_BD[..., None]
        found.append(2 * (readout_DM * h_BDM).sum(-1).real + module.skip * x_BD)
    a, b = module.out(module.activation(torch.stack(found, 1))).chunk(2, -1)
    return a * b.sigmoid(), h_BDM


@pytest.mark.parametrize("length", [1, 2, DIRECT, DIRECT + 1, 200])
def test_output_and_state_equal_the_recurrence(length):
    module = StateSpace(4, modes=3).double()
    x_BTD = torch.randn(2, length, 4, dtype=torch.float64)
    want, modes = recurrence(module, x_BTD)
    mixed = module(Seq(x_BTD), Causal())
    torch.testing.assert_close(mixed.hidden.data, want)
    torch.testing.assert_close(mixed.state.mode_BDM, modes)


@pytest.mark.parametrize("edges", [(0, 130, 131, 132), (0, 3, 100, 132)])
def test_pieces_after_a_state_equal_one_pass(edges):
    module = StateSpace(4, modes=3).double()
    x_BTD, past, got = torch.randn(2, 132, 4, dtype=torch.float64), None, []
    for a, b in pairwise(edges):
        mixed = module(Seq(x_BTD[:, a:b]), Causal() if b - a > 1 else Latest(), None, past)
        past = mixed.state
        got.append(mixed.hidden.data)
    torch.testing.assert_close(torch.cat(got, 1), recurrence(module, x_BTD)[0])


def test_the_impulse_response_of_one_real_mode_by_hand():
    """A = -1, step = log 2, C = 1/2: the state halves at each position, and an input adds (1 - 1/2) of itself."""
    module = StateSpace(1, modes=1).double()
    with torch.no_grad():
        for parameter, value in (("log_step", math.log(math.log(2))), ("log_decay", 0.0), ("frequency", 0.0), ("skip", 0.0)):
            getattr(module, parameter).fill_(value)
        module.readout.copy_(torch.tensor([[[0.5, 0.0]]]))
    impulse = torch.zeros(1, 100, 1, dtype=torch.float64)
    impulse[0, 1] = 1.0
    s_BTD, state = module.scan(impulse, Seq(impulse), None)
    want = [0.0, *(0.5**t for t in range(1, 100))]
    torch.testing.assert_close(s_BTD[0, :, 0].tolist(), want, atol=1e-14, rtol=1e-9)
    assert state.mode_BDM[0, 0, 0].real.item() == pytest.approx(0.5**99, rel=1e-9)


def test_gradients_equal_those_of_the_recurrence():
    module = StateSpace(3, modes=2).double()
    x_BTD = torch.randn(1, 90, 3, dtype=torch.float64)
    outputs = (module(Seq(x_BTD), Causal()).hidden.data, recurrence(module, x_BTD)[0])
    got, want = (torch.autograd.grad(y.square().sum(), list(module.parameters())) for y in outputs)
    torch.testing.assert_close(got, want)


def test_padding_of_a_long_batch_changes_neither_outputs_nor_states():
    module = StateSpace(4, modes=3).double()
    x_BTD = torch.randn(2, 150, 4, dtype=torch.float64)
    mask = torch.ones(2, 150, dtype=torch.bool)
    mask[0, 110:], mask[1, :50] = False, False
    mixed = module(Seq(x_BTD.masked_fill(~mask[..., None], 1e4), mask), Causal())
    for row, part in enumerate((slice(0, 110), slice(50, 150))):
        want, modes = recurrence(module, x_BTD[row : row + 1, part])
        torch.testing.assert_close(mixed.hidden.data[row, part], want[0])
        torch.testing.assert_close(mixed.state.mode_BDM[row], modes[0])


def test_both_convolutions_agree():
    u_BDT, kernel_DT = torch.randn(2, 3, DIRECT, dtype=torch.float64), torch.randn(3, DIRECT, dtype=torch.float64)
    long = convolve(F.pad(u_BDT, (0, 1)), F.pad(kernel_DT, (0, 1)))[..., :-1]
    torch.testing.assert_close(convolve(u_BDT, kernel_DT), long)


def test_a_full_mask_and_reversed_step_sizes_are_refused():
    with pytest.raises(ValueError, match="StateSpace does not support the mask Full; supported: Causal"):
        StateSpace(4)(Seq(torch.ones(1, 2, 4)), Full())
    with pytest.raises(ValueError, match=r"min_step is 0\.5, but must be at most max_step, which is 0\.1"):
        StateSpace(4, min_step=0.5)
