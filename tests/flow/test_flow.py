"""Identities of the one right-hand side."""

import dataclasses

import numpy as np
import pytest
from helpers import few
from oracles import right_hand_side

import overlaps as ov
from overlaps.flow._flow import mix
from overlaps.flow.jacobian import jacobian
from overlaps.flow.mixed import MixedSystem
from overlaps.flow.system import System
from overlaps.integrators._steps import largest


@pytest.fixture(params=["erf", "linear", "quadratic", "relu", "tanh", "absolute"])
def activation(request):
    """Every family of closures: the identities do not depend on how the integrals are done."""
    return getattr(ov, request.param)


def velocity(model, state):
    """(dq, dr, dv) of the compiled flow."""
    system = System(model, state.on(model))
    dy = system.rhs(0.0, system.pack(state))
    return system.unpack(dy)


def setting(activation, rng, **options):
    spectrum = ov.Spectrum([2.0, 0.5, 0.0], [0.25, 0.5, 0.25])
    options = dict(spectrum=spectrum, eta=0.4, eta_v=0.2, noise=0.3, weight_decay=(0.1, 0.3)) | options
    model = ov.committee_machine(3, 2, activation=activation, v=[1, 0.7, -0.4], **options)
    return model, model.random_start(N=48, rng=rng)


def test_flow_is_the_matrix_equation(activation, rng):
    """With few blocks, which go one after the other, and with more, which go together."""
    six = ov.Spectrum([2.0, 1.1, 0.8, 0.5, 0.2, 0.0], [1 / 6, 1 / 6, 1 / 4, 1 / 8, 1 / 6, 1 / 8])
    for options in [{}, {"batch_size": 4}, {"gradient_flow": True}, {"spectrum": six}]:
        model, state = setting(activation, rng, **options)
        c = ov.closure(model, state.Q, state.R, state.T, v=state.v)
        dq, dr, dv = velocity(model, state)
        expected_q, expected_r = right_hand_side(model, c, state.q, state.r, state.tau)
        # same numbers in another order of summation
        np.testing.assert_allclose(dq, expected_q, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(dr, expected_r, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(dv, c.dv - model.eta_v * model.weight_decay[1] * state.v, rtol=1e-12)


@pytest.mark.parametrize("constraint", [None, "sphere"])
def test_jacobian_is_the_derivative_of_the_flow(constraint, rng):
    """Differences of second order, on spheres, too; eigenvalues whose mean is not 1, batches, two layers."""
    spectrum = ov.Spectrum([2.1, 0.4], [0.7, 0.3])  # mean 1.59
    options = dict(spectrum=spectrum, eta=0.7, eta_v=0.3, noise=0.4, batch_size=3, constraint=constraint)
    model = ov.committee_machine(3, 2, v=[1.3, 0.7, -0.4], v_star=[0.8, 0.6], **options)
    start = model.random_start(N=300, rng=rng)
    system = System(model, start)
    y, h = system.pack(start), 1e-6
    J = jacobian(system, y)
    rows = [(system.rhs(0.0, y + h * e) - system.rhs(0.0, y - h * e)) / (2 * h) for e in np.eye(y.size)]
    np.testing.assert_allclose(J, np.transpose(rows), rtol=0, atol=1e-8)  # rounding 1e-16 / h


def test_slopes_of_mixed_tasks_are_the_gradients_of_their_mean_error(rng):
    """By the fields' covariance and by both heads, of tasks with rates of their own."""
    options = [dict(eta=0.6, eta_v=0.3, v_star=[0.9, 0.2], noise=0.3), dict(eta=1.7, eta_v=0.8, v_star=[-0.4, 0.7])]
    tasks = [ov.committee_machine(2, 2, v=[0.7, 0.4], **x) for x in options]
    mixed = ov.Mixed(tasks, [0.3, 0.7], heads=[[0.7, 0.4], [0.3, -0.5]])
    system, h = MixedSystem(mixed, mixed.enter(tasks[0].random_start(N=30, rng=rng))), 1e-5
    system.close(system.pack(system.start))
    S, w = system.S.copy(), system.w.copy()

    def error(dS, dv):
        arrays = (np.zeros(x) for x in ((2, 2), (2, 2), (2, 2), 4))
        return system.closure(S + dS + dS.T, w + np.append(dv, np.zeros(len(w) - 4)), *arrays)

    (*matrices, layer), still = system.closure.slopes, (np.zeros((4, 4)), np.zeros(4))
    A, B = (sum(x) for x in zip(*matrices, strict=True))
    for k in range(4):
        found = (error(still[0], h * np.eye(4)[k]) - error(still[0], -h * np.eye(4)[k])) / (2 * h)
        assert found == pytest.approx(-layer[k], abs=1e-9)  # h^2, and rounding over h
        for j in range(2):
            dS = h * np.outer(np.eye(4)[j], np.eye(4)[k])  # and its transpose
            found = (error(dS, still[1]) - error(-dS, still[1])) / (2 * h)
            assert found == pytest.approx(-np.hstack([A, B])[j, k], abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("L", [1, 3])
def test_flow_of_many_units_is_the_matrix_equation(L, rng):
    """From 20 students on rows of blocks are mixed as a whole; unequal numbers, as rows and columns differ."""
    spectrum = ov.Spectrum(np.linspace(0.4, 1.6, L) if L > 1 else [1.3])
    options = dict(eta=0.4, noise=0.3, weight_decay=(0.1, 0.0), v=rng.uniform(0.3, 1.0, 23))
    model = ov.committee_machine(23, 5, spectrum=spectrum, **options)
    state = model.random_start(N=60, rng=rng)
    c = ov.closure(model, state.Q, state.R, state.T)
    expected = right_hand_side(model, c, state.q, state.r, state.tau)
    # sums of up to 56 products in another order
    for found, wanted in zip(velocity(model, state), expected, strict=False):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


def test_splitting_a_block_changes_nothing(activation, rng):
    """An eigenvalue of weight 1/2 is two equal eigenvalues of weight 1/4 each."""
    joined = ov.committee_machine(2, 2, activation=activation, eta=0.4, spectrum=ov.Spectrum([2.0, 0.5], [0.5, 0.5]))
    split = dataclasses.replace(joined, spectrum=ov.Spectrum([2.0, 2.0, 0.5], [0.25, 0.25, 0.5]))
    fine = split.random_start(N=40, rng=rng)
    q, r, t = (np.stack([x[0] + x[1], x[2]]) for x in fine.plain)
    coarse = ov.State.from_blocks(joined, q=q, r=r, t=t)
    a, b = velocity(split, fine), velocity(joined, coarse)
    for x, y in zip(a[:2], b[:2], strict=True):
        np.testing.assert_allclose(np.stack([x[0] + x[1], x[2]]), y, rtol=1e-11, atol=1e-13)


def test_permuting_units_commutes_with_the_flow(activation, rng):
    model, state = setting(activation, rng)
    k, m = [1, 2, 0], [1, 0]
    other = dataclasses.replace(model, v=model.v[k], v_star=model.v_star[m])
    moved = ov.State(
        q=state.q[:, k][:, :, k],
        r=state.r[:, k][:, :, m],
        tau=state.tau[:, m][:, :, m],
        T=state.T[np.ix_(m, m)],
        v=state.v[k],
    )
    (q, r, v), (q2, r2, v2) = velocity(model, state), velocity(other, moved)
    np.testing.assert_allclose(q[:, k][:, :, k], q2, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(r[:, k][:, :, m], r2, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(v[k], v2, rtol=1e-11, atol=1e-13)


def test_student_equal_to_teacher_is_a_fixed_point(activation, rng):
    model = ov.committee_machine(2, 2, activation=activation, eta=0.5, eta_v=0.5, spectrum=ov.power_law(beta=0.5, L=3))
    t = model.random_start(N=60, rng=rng).plain[2]
    state = ov.State.from_blocks(model, q=t, r=t, t=t)
    for x in velocity(model, state):
        np.testing.assert_allclose(x, 0, atol=1e-12)  # sums of order-one terms


def test_halving_eta_quarters_the_second_order_term(activation, rng):
    def noise_term(eta):
        model, state = setting(activation, np.random.default_rng(1), eta=eta, weight_decay=0.0)
        flow = dataclasses.replace(model, gradient_flow=True)
        return velocity(model, state)[0] - velocity(flow, state)[0]

    np.testing.assert_allclose(noise_term(0.2), noise_term(0.4) / 4, rtol=1e-10, atol=1e-14)
    model, state = setting(activation, np.random.default_rng(1), weight_decay=0.0)
    small = dataclasses.replace(model, batch_size=5)
    flow = dataclasses.replace(model, gradient_flow=True)
    full = velocity(model, state)[0] - velocity(flow, state)[0]
    np.testing.assert_allclose(velocity(small, state)[0] - velocity(flow, state)[0], full / 5, rtol=1e-10, atol=1e-14)


def test_isotropic_scale_is_absorbed_in_the_weights(rng):
    """Inputs of variance s with overlaps W W^T/N = q see the fields of isotropic inputs with Q = s q."""
    wide = ov.committee_machine(2, 2, eta=0.4, spectrum=ov.Spectrum([4.0]))
    state = wide.random_start(N=50, rng=rng)
    q, r, t = state.plain
    unit = dataclasses.replace(wide, spectrum=ov.isotropic(), eta=0.4 * 4)
    same = ov.State.from_overlaps(unit, Q=4 * q[0], R=4 * r[0], T=4 * t[0])
    dq, dr, _ = velocity(wide, state)
    dQ, dR, _ = velocity(unit, same)
    # w sqrt(s) obeys isotropic SGD with eta s
    np.testing.assert_allclose(4 * dq, dQ, rtol=1e-12)
    np.testing.assert_allclose(dr, dR, rtol=1e-12)


def test_packing_is_reversible(activation, rng):
    model, state = setting(activation, rng)
    system = System(model, state)
    assert system.state(system.pack(state)) == state
    assert system.pack(state).size == 3 * (3 * 2 + 6) + 3
    fixed = dataclasses.replace(model, eta_v=0.0)
    assert System(fixed, state).pack(state).size == 3 * (3 * 2 + 6)


def test_random_joint_overlaps_stay_positive_along_the_flow(activation, rng):
    """[q^l r^l; r^lT tau^l] is a Gram matrix all along."""
    model, state = setting(activation, rng, eta=0.1, weight_decay=0.0, noise=0.0)
    traj = ov.solve(model, state, np.linspace(0, 5, 6))
    for i in range(len(traj)):
        s = traj[i]
        joint = np.concatenate(
            [np.concatenate([s.q, s.r], axis=2), np.concatenate([s.r.swapaxes(1, 2), s.tau], axis=2)], axis=1
        )
        assert np.linalg.eigvalsh(joint).min() > -1e-8


@few("activation", ["erf", "linear", "quadratic", "relu", "tanh", "absolute"], indirect=True)
def test_one_step_of_sgd_has_this_mean(activation, rng):
    """Mean change of the overlaps in one step of SGD on N = 400, every term including O(eta^2), noise and decay."""
    N, samples = 400, 40_000
    model = ov.committee_machine(
        2, 1, activation=activation, v=[1, 0.6], eta=0.6, eta_v=0.5, noise=0.3, weight_decay=(0.4, 0.2)
    )
    W, W_star = rng.standard_normal((2, N)), rng.standard_normal((1, N))
    W += 0.5 * W_star
    state = ov.State.from_weights(model, W=W, W_star=W_star)
    x = rng.standard_normal((samples, N))
    lam, nu = x @ W.T / np.sqrt(N), x @ W_star.T / np.sqrt(N)
    delta = activation.g(lam) @ model.v - activation.g(nu) @ model.v_star - 0.3 * rng.standard_normal(samples)
    F = -0.6 * model.v * activation.dg(lam) * delta[:, None]
    shrink = 1 - 0.6 * 0.4 / N
    norm = np.sum(x**2, axis=1) / N
    dQ = N * (shrink**2 - 1) * state.Q + shrink * (F[:, :, None] * lam[:, None] + lam[:, :, None] * F[:, None])
    dQ += F[:, :, None] * F[:, None] * norm[:, None, None]
    dR = N * (shrink - 1) * state.R + F[:, :, None] * nu[:, None]
    dv = -0.5 * activation.g(lam) * delta[:, None] - 0.5 * 0.2 * model.v
    for got, drawn in zip(velocity(model, state), (dQ[:, None], dR[:, None], dv), strict=True):
        error = drawn.std(axis=0) / np.sqrt(samples)
        # five standard errors, plus the 1/N terms that the limit drops
        assert np.all(np.abs(got - drawn.mean(axis=0)) < 5 * error + 10 / N * np.abs(got).max())


@pytest.mark.parametrize("n", range(10))
def test_loops_over_several_entries_at_once_reach_the_last_ones(n):
    """Rows four at a time, and the largest entry by four chains: for every number of them, wherever it stands."""
    rng = np.random.default_rng(n)
    x, c, out = rng.normal(size=40), rng.normal(size=n), rng.normal(size=3)
    at = 4 * rng.permutation(9)[:n].astype(np.int64)
    expected = out + sum((factor * x[first : first + 3] for factor, first in zip(c, at, strict=True)), np.zeros(3))
    mix(c, x, at, out)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-14)
    for place in range(n):
        for value, answer in ((-7.5, 7.5), (np.nan, np.inf), (-np.inf, np.inf)):
            y = np.where(np.arange(n) == place, value, c / 2)
            with np.errstate(invalid="ignore"):  # 0 inf, of which NumPy warns where nothing is compiled
                assert largest(y) == answer
