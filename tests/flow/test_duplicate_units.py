"""Equal students: what a single unit with their summed second layer does, however long and with every integrator."""

import dataclasses

import numpy as np
import pytest

import overlaps as ov
from overlaps.models.start import duplicate_units

SPECTRUM = ov.Spectrum([2.0, 0.9, 0.3], [0.2, 0.5, 0.3])


def doubled(activation, sign=1.0, parity=1.0, M=2, spectrum=SPECTRUM, **options):
    """Two equal students, up to a sign, beside M teachers; and the one student that they are together."""
    rng = np.random.default_rng(5)
    w = rng.standard_normal((spectrum.L, 1 + M, 9)) / 3 / np.sqrt(spectrum.L)
    v, eta, eta_v = 0.7, 0.1, options.pop("eta_v", 0.0)
    common = dict(activation=activation, spectrum=spectrum, v_star=rng.uniform(0.5, 1.5, M), **options)
    two = ov.committee_machine(2, M, v=[v, v * parity], eta=eta, eta_v=eta_v, **common)
    one = ov.committee_machine(1, M, v=[2 * v], eta=eta / 2, eta_v=2 * eta_v, **common)
    pair = np.concatenate([w[:, :1], sign * w[:, :1], w[:, 1:]], axis=1)
    starts = []
    for model, x in ((two, pair), (one, w)):
        joint, K = x @ x.swapaxes(1, 2), model.K
        starts.append(ov.State.from_blocks(model, q=joint[:, :K, :K], r=joint[:, :K, K:], t=joint[:, K:, K:]))
    return (two, starts[0]), (one, starts[1])


PAIRS = {
    "quadratic flow": (ov.quadratic, 1.0, 1.0, dict(gradient_flow=True, teacher_activation=ov.quadratic)),
    "quadratic, opposite": (ov.quadratic, -1.0, 1.0, dict(noise=0.2)),
    "erf, opposite, trained": (ov.erf, -1.0, -1.0, dict(eta_v=0.3, batch_size=3)),
    "tanh of quadratic": (ov.tanh, 1.0, 1.0, dict(teacher_activation=ov.quadratic)),
    "sphere": (ov.erf, 1.0, 1.0, dict(constraint="sphere")),
    "relu": (ov.relu, 1.0, 1.0, dict(teacher_activation=ov.quadratic)),
}
CASES = [*((name, "DOP853") for name in PAIRS), *((name, "structured") for name in list(PAIRS)[:4]), ("relu", "RK45")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), CASES)
def test_equal_students_learn_as_one(name, method):
    """The flow leaves equal students equal, but amplifies what rounding adds: they parted, or lost positivity.

    Both runs keep rtol = 1e-8, which plateaus multiply by up to a hundred.
    """
    activation, sign, parity, options = PAIRS[name]
    two, one = doubled(activation, sign, parity, **options)
    alpha = [3.0, 200.0]
    pair, single = (ov.solve(*problem, alpha, method=method) for problem in (two, one))
    assert pair.success and "Equal students stay equal: [0, 1]." in pair.message
    np.testing.assert_allclose(pair.eps_g, single.eps_g, rtol=1e-6)
    np.testing.assert_allclose(pair.R[:, :1], single.R, rtol=0, atol=1e-6 * np.abs(single.R).max())
    np.testing.assert_allclose(pair.v[:, 0] + parity * pair.v[:, 1], single.v[:, 0], rtol=1e-6)
    assert np.array_equal(pair.Q[:, 0, 0], pair.Q[:, 1, 1]) and np.array_equal(pair.R[:, 1], sign * pair.R[:, 0])


def test_runs_that_go_on_and_batches_keep_them_equal():
    (model, start), _ = doubled(ov.quadratic, gradient_flow=True)
    pair = ov.solve(model, start, [1.0, 50.0])
    assert "stay equal" in ov.solve(model, pair[-1], [51.0]).message
    batch = ov.solve_many(model, [start, start], [1.0, 50.0])
    assert np.array_equal(batch[1].Q, pair.Q)


def test_they_part_without_the_average():
    """What the test above is for: the difference of equal students grows at this setting."""
    (model, start), (one, single) = doubled(ov.quadratic, gradient_flow=True)
    apart = dataclasses.replace(start, q=start.q * (1 + 1e-9 * np.eye(2)))
    assert duplicate_units(model, apart) is None
    apart, together = ov.solve(model, apart, [200.0]), ov.solve(one, single, [200.0])
    assert apart.eps_g[-1] < 0.9 * together.eps_g[-1]


def test_which_units_are_duplicates():
    """Equal weights to rounding, equal second layers, and signs that the activation does not see."""
    rng = np.random.default_rng(2)
    W, W_star = rng.standard_normal((5, 12)), rng.standard_normal((2, 12))
    W[2], W[3], W[4] = -W[0], W[1], W[0]

    def found(activation, v):
        model = ov.committee_machine(5, 2, activation=activation, v=v, eta=0.1)
        start = ov.State.from_weights(model, W=W, W_star=W_star)
        kinds = duplicate_units(model, start)
        if kinds is None:
            return None
        equal = kinds.equalised(model, start)  # the same state, up to rounding
        for name in ("q", "r", "v"):
            np.testing.assert_allclose(getattr(equal, name), getattr(start, name), rtol=1e-13)
        return kinds.first.tolist()

    assert found(ov.quadratic, [1, 2, 1, 2, 1]) == [0, 1, 0, 1, 0]
    assert found(ov.erf, [1, 2, -1, 2, 1]) == [0, 1, 0, 1, 0]
    assert found(ov.erf, [1, 2, 1, 2, 1]) == [0, 1, 2, 1, 0]
    assert found(ov.relu, [1, 2, 1, 2, 1]) == [0, 1, 2, 1, 0]
    assert found(ov.polynomial([0.5, 1.0]), [1, 2, 1, 3, 4]) is None
    assert found(ov.linear, [1, 2, -1, 3, 4]) == [0, 1, 0, 3, 4]
    W[3] *= 1 + 1e-14
    assert found(ov.relu, [1, 2, 3, 2, 4]) is None
