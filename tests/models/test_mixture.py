"""Inputs in classes: the cluster equations against golden numbers, the committee machine, and bad input."""

from dataclasses import replace

import numpy as np
import pytest

import overlaps as ov
from overlaps.flow.system import System
from overlaps.integrators.dop853 import DOP853

PAIR = np.array([[1.0, -1.0], [-1.0, 1.0]])


def two_clusters(**options):
    """P1: erf units, two classes."""
    learning = {"eta": 0.5, "eta_v": 0.3, "v": [0.6, 0.4]} | options
    model = ov.gaussian_mixture(2, gram=2.25 * PAIR[None], weights=[0.4, 0.6], labels=[1, -1], **learning)
    return model, ov.State.from_overlaps(model, Q=[[0.5, 0.1], [0.1, 0.4]], m=[[0.3, -0.3], [-0.1, 0.1]])


def xor(**options):
    """P2: relu units, XOR."""
    learning = {"eta": 0.3, "eta_v": 0.2, "v": [0.5, 0.4, -0.5, -0.6], "activation": ov.relu} | options
    gram = 6.25 * np.kron(np.eye(2), PAIR)[None]
    model = ov.gaussian_mixture(4, gram=gram, weights=[0.25] * 4, labels=[1, 1, -1, -1], **learning)
    m = np.array([[0.8, 0.1], [-0.6, 0.2], [0.1, 0.7], [0.2, -0.9]])
    return model, ov.State.from_overlaps(model, Q=0.4 * np.eye(4) + 0.1, m=m @ np.kron(np.eye(2), [1, -1]))


CLASSES = {
    "gram": [
        [[0.8, 0.3, -0.2], [0.3, 0.6, 0.1], [-0.2, 0.1, 0.5]],
        [[0.6, -0.1, 0.2], [-0.1, 0.7, 0.0], [0.2, 0.0, 0.9]],
    ],
    "weights": [0.3, 0.5, 0.2],
    "labels": [1, -1, 0.5],
}
LEARNING = {"eta": 0.4, "eta_v": 0.3, "noise": 0.3, "v": [0.6, -0.5], "v_star": [0.7]}
TWO = ov.Spectrum([1.6, 0.4], [0.5, 0.5])


def three_clusters(ratios=((1, 1), (0.5, 1.4), (2, 0.3)), **options):
    """P3: a teacher and labels, three classes of different covariances on two eigenspaces."""
    model = ov.gaussian_mixture(2, 1, **CLASSES, spectrum=TWO, ratios=ratios, **LEARNING, **options)
    blocks = {
        "q": [[[0.3, 0.05], [0.05, 0.25]], [[0.2, 0.02], [0.02, 0.3]]],
        "r": [[[0.1], [-0.05]], [[0.05], [0.1]]],
        "t": [[[0.5]], [[0.45]]],
        "m": [[[0.3, 0.1, -0.2], [-0.1, 0.2, 0.1]], [[0.1, -0.2, 0.1], [0.2, 0.1, 0.2]]],
        "n": [[[0.2, 0.1, -0.3]], [[0.1, 0.2, 0.1]]],
    }
    return model, ov.State.from_blocks(model, **blocks)


def test_two_clusters():
    traj = ov.solve(*two_clusters(), [0, 10, 50], rtol=1e-10)
    assert traj.success and traj.m.shape == (3, 1, 2, 2) and traj.R.shape == (3, 2, 0)
    assert traj.eps_g[1:] == pytest.approx([0.1291461129, 0.1089085910], abs=1e-9)
    assert traj.classification_error()[1:] == pytest.approx([0.0809758786, 0.0727953460], abs=1e-9)
    assert traj.v[1] == pytest.approx([0.8404033421, 0.3789393264], abs=1e-9)
    assert traj.Q[1][np.triu_indices(2)] == pytest.approx([1.1347980109, 0.4170131019, 0.4649752873], abs=1e-9)
    assert traj.mean_fields[1, :, 0] == pytest.approx([1.4644557680, 0.6818850205], abs=1e-9)


def test_three_clusters_with_covariances_of_their_own():
    traj = ov.solve(*three_clusters(), [0, 1, 10], rtol=1e-10)
    assert traj.eps_g == pytest.approx([0.4140613567, 0.3890794410, 0.2808218134], abs=1e-9)
    assert traj.v[-1] == pytest.approx([0.7594440646, -0.4811501715], abs=1e-9)
    assert traj.R[-1, :, 0] == pytest.approx([0.4263293863, -0.2718781302], abs=1e-9)
    assert traj.Q[-1][np.triu_indices(2)] == pytest.approx([0.6591246065, -0.1259037778, 0.747525359], abs=1e-9)


@pytest.mark.slow
def test_xor():
    traj = ov.solve(*xor(), [0, 1, 5, 20])
    assert traj.eps_g == pytest.approx([0.4573183167, 0.4126065444, 0.2923885740, 0.1856982894], abs=1e-7)
    assert "Estimated error of C" in traj.message


def test_one_class_at_the_origin_is_the_committee_machine():
    learning = LEARNING | {"weight_decay": (0.1, 0.05), "batch_size": 3}
    model = ov.gaussian_mixture(2, 1, gram=np.zeros((2, 1, 1)), weights=[1], labels=[0], spectrum=TWO, **learning)
    machine = ov.committee_machine(2, 1, spectrum=TWO, **learning)
    state = machine.random_start(N=1000, rng=1)
    q, r, t = state.plain
    start = ov.State.from_blocks(model, q=q, r=r, t=t, m=np.zeros((2, 2, 1)), n=np.zeros((2, 1, 1)))
    ours, theirs = (ov.solve(x, s, [0, 2, 10]) for x, s in ((model, start), (machine, state)))
    for name in ("Q", "R", "v", "eps_g"):
        assert np.allclose(getattr(ours, name), getattr(theirs, name), rtol=0, atol=1e-9)
    assert ours.nfev == theirs.nfev  # the same steps: means that vanish cost no accuracy


def test_common_ratios_are_a_scale_of_each_class():
    """A ratio in all blocks alike is one group; as two equal columns, given twice, it is the same flow."""
    ratios = np.array([[1.0], [0.5], [2.0]])
    model, start = three_clusters(ratios)
    assert len(model.groups) == 1 and len(three_clusters()[0].groups) == 2
    nearly = ratios * [1.0, 1.0 + 1e-12]
    one, two = (ov.solve(x, start, [0, 3], rtol=1e-10) for x in (model, replace(model, ratios=nearly)))
    assert len(two.model.groups) == 2
    assert np.allclose(one.q, two.q, rtol=0, atol=1e-9) and np.allclose(one.m, two.m, rtol=0, atol=1e-9)


def five_blocks(**options):
    """Two groups of blocks that alternate, a teacher and labels."""
    gram = np.array([0.8, 0.2, 0.5, 0.1, 0.3])[:, None, None] * CLASSES["gram"][1]
    spectrum = ov.Spectrum([2.0, 1.5, 1.0, 0.5, 0.2], [0.1, 0.3, 0.2, 0.1, 0.3])
    ratios = np.array([[1, 1.3, 1, 1.3, 1], [0.5, 1.4, 0.5, 1.4, 0.5], [2, 0.3, 2, 0.3, 2]])
    model = ov.gaussian_mixture(
        2, 1, **CLASSES | {"gram": gram}, spectrum=spectrum, ratios=ratios, **LEARNING | options, batch_size=3,
        weight_decay=(0.1, 0.2),
    )  # fmt: skip
    return model, model.random_start(N=100, rng=5, student_scale=0.7)


def test_velocities_where_variances_differ_by_eigenspace():
    """The equations of the page, class by class, with the closure of each class."""
    model, start = five_blocks()
    rho, s, p, (kappa, kappa_v) = model.ratios, model.spectrum.s, model.spectrum.p, model.weight_decay
    dq, dr, dm, dv = -2 * start.q, -start.r, -start.m, -model.eta_v * kappa_v * start.v
    dq, dr, dm = (model.eta * kappa * x for x in (dq, dr, dm))
    for c, (pi, label) in enumerate(zip(model.weights, model.labels, strict=True)):
        Q, R = np.einsum("l,lij->ij", s * rho[c], start.q), np.einsum("l,lij->ij", rho[c], start.r)
        T = np.einsum("l,lij->ij", rho[c] / s, start.tau)
        means = np.append(start.m.sum(axis=0)[:, c], start.nu[:, c])
        one = ov.closure(model, Q, R, T, v=start.v, means=means, label=label)
        dv = dv + pi * one.dv
        for l in range(s.size):
            a, b = rho[c, l] * s[l] * one.A, rho[c, l] * one.B
            half = np.outer(one.f, start.m[l, :, c]) + a @ start.q[l] + b @ start.r[l].T
            dq[l] += pi * (half + half.T + rho[c, l] * s[l] * p[l] * one.C / model.batch_size)
            dr[l] += pi * (np.outer(one.f, start.h[l, :, c]) + a @ start.r[l] + b @ start.tau[l])
            dm[l] += pi * (np.outer(one.f, model.gram[l, c]) + a @ start.m[l] + b @ start.h[l])
    system = System(model, start)
    found = system.packing.unpack(system.rhs(0.0, system.pack(start)))
    for value, expected in zip(found, (dq, np.concatenate([dr, dm], axis=-1), dv), strict=True):
        assert np.allclose(value, expected, rtol=0, atol=1e-13)


def test_a_group_without_weights_is_no_lost_student():
    """No student has weights in the first eigenspace, whose variances differ: they do not matter."""
    q, m = [np.zeros((2, 2)), [[0.6, 0.1], [0.1, 0.5]]], [np.zeros((2, 2)), [[0.3, -0.3], [-0.1, 0.1]]]
    ends = []
    for ratios in ([[1, 1], [3, 2]], [[1, 1], [2, 2]]):
        model = ov.gaussian_mixture(
            2, gram=np.array([0 * PAIR, PAIR]), weights=[0.4, 0.6], labels=[1, -1], spectrum=TWO, ratios=ratios,
            activation=ov.relu, eta=0.5, v=[0.6, -0.4], gradient_flow=True,
        )  # fmt: skip
        traj = ov.solve(model, ov.State.from_blocks(model, q=q, m=m), [0.0, 3.0])
        assert traj.success
        ends.append([*traj.Q[-1].ravel(), traj.eps_g[-1]])
    assert np.allclose(*ends, rtol=1e-9, atol=0)


@pytest.mark.parametrize("make", [three_clusters, five_blocks])
def test_variances_that_differ_by_eigenspace_step_in_compiled_code(make, monkeypatch):
    """With the steps that the same method makes in Python, under a schedule, too: sums in another order."""

    class InPython(DOP853):
        """A subclass may do anything in a step: it is never made in compiled code."""

    calls, model_start, schedule = [], make(), ov.Schedule.power(0.5, scale=2.0)
    rhs = System.rhs
    monkeypatch.setattr(System, "rhs", lambda self, alpha, y: calls.append(1) or rhs(self, alpha, y))
    for options in ({}, {"schedule": schedule}):
        calls.clear()
        fast = ov.solve(*model_start, [0, 5], **options)
        assert not calls and fast.nfev > 60  # no evaluation in Python; steps of twelve evaluations
        slow = ov.solve(*model_start, [0, 5], method=InPython, **options)
        assert len(calls) == slow.nfev and abs(fast.nfev - slow.nfev) <= 12
        for name in ("q", "r", "m", "v", "eps_g"):
            assert np.allclose(getattr(fast, name), getattr(slow, name), rtol=0, atol=1e-10)


def test_methods_agree():
    model, start = three_clusters([[1.0], [0.5], [2.0]])
    runs = [ov.solve(model, start, [0, 5], rtol=1e-9, method=method) for method in ("DOP853", "structured", "LSODA")]
    for run in runs[1:]:
        assert np.allclose(run.m, runs[0].m, rtol=0, atol=1e-6) and np.allclose(run.v, runs[0].v, rtol=0, atol=1e-6)


def test_records_are_starts():
    model, start = three_clusters()
    traj = ov.solve(model, start, [0, 1, 2])
    again = ov.solve(model, traj[1], [1, 2])
    assert np.allclose(again.m[-1], traj.m[-1], rtol=0, atol=1e-7)
    assert np.allclose(traj.at(1.5).m, ov.solve(model, start, [1.5]).m[0], rtol=0, atol=1e-7)


def test_from_weights():
    rng = np.random.default_rng(3)
    N, means = 40, rng.standard_normal((3, 40)) / 6
    model = ov.gaussian_mixture(2, 1, means=means, weights=[0.3, 0.3, 0.4], labels=[0, 1, -1], spectrum=TWO, eta=0.4)
    W, W_star = rng.standard_normal((2, N)), rng.standard_normal((1, N))
    state = ov.State.from_weights(model, W=W, W_star=W_star)
    assert np.allclose(state.m.sum(axis=0), W @ means.T / np.sqrt(N))
    assert np.allclose(state.nu, W_star @ means.T / np.sqrt(N))
    assert np.allclose(
        state.h, [s * W_star[:, b] @ means[:, b].T / np.sqrt(N) for s, b in zip(TWO.s, HALVES, strict=True)]
    )
    assert np.allclose(model.gram.sum(axis=0), means @ means.T)


HALVES = slice(0, 20), slice(20, 40)


@pytest.mark.slow
def test_random_starts_have_the_law_of_weights():
    """Means and variances of overlaps with the centroids, against explicit weights."""
    rng, N, runs = np.random.default_rng(4), 40, 300
    means = rng.standard_normal((3, N)) / 3
    model = ov.gaussian_mixture(
        2, 1, means=means, weights=[0.3, 0.3, 0.4], labels=[0, 1, -1], spectrum=TWO, eta=0.4, v_star=[0.7]
    )
    drawn = [model.random_start(N=N, rng=rng, student_scale=0.5) for _ in range(runs)]
    given = [
        ov.State.from_weights(model, W=0.5 * rng.standard_normal((2, N)), W_star=rng.standard_normal((1, N)))
        for _ in range(runs)
    ]
    for name in ("q", "r", "m", "h", "tau"):
        one, other = (np.array([getattr(state, name) for state in states]) for states in (drawn, given))
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / runs)
        assert np.all(np.abs(one.mean(axis=0) - other.mean(axis=0)) < 5 * error)
        ratio = one.var(axis=0) / other.var(axis=0)  # of two variances: 1 +- 2 / sqrt(runs), 5 of these
        assert np.all(np.abs(np.log(ratio)) < 10 / np.sqrt(runs))


def test_mean_of_random_starts_near_the_number_of_classes():
    """E q^l = sigma^2 p_l and E t^l = p_l where the class means take up most of the dimensions."""
    rng, scale, p = np.random.default_rng(9), 0.7, np.array([0.5, 0.5])[:, None, None]
    means = np.random.default_rng(8).standard_normal((3, 8)) / 3
    model = ov.gaussian_mixture(
        2, 1, means=means, weights=[0.3, 0.3, 0.4], labels=[0.2, 1, -1], eta=0.05, v_star=[0.7],
        spectrum=ov.Spectrum([1.5, 0.4], [0.5, 0.5]),
    )  # fmt: skip
    drawn = [model.random_start(N=8, rng=rng, student_scale=scale) for _ in range(300)]
    for values, mean in (
        (np.array([state.q for state in drawn]), scale**2 * p * np.eye(2)),
        (np.array([state.tau for state in drawn]), p * np.array([1.5, 0.4])[:, None, None] ** 2),
    ):
        assert np.all(np.abs(values.mean(axis=0) - mean) < 4.5 * values.std(axis=0) / np.sqrt(300))


def test_files(tmp_path):
    model, start = three_clusters()
    traj = ov.solve(model, start, [0, 1])
    for result in (traj, start):
        ov.save(result, tmp_path / "x.npz")
        assert ov.load(tmp_path / "x.npz") == result


def test_where_it_stops():
    """The end of a trajectory is near a fixed point, and stable."""
    model, start = two_clusters(eta_v=0.0, weight_decay=0.1)
    end = ov.solve(model, start, [100.0])[-1]
    rest = ov.fixed_point(model, end)
    assert rest.converged and np.allclose(rest.state.m, end.m, rtol=0, atol=1e-3)
    modes = ov.linearise(model, rest.state)
    assert modes.unstable == 0 and modes.dm.shape == (7, 1, 2, 2)


@pytest.mark.slow
def test_where_the_noise_of_classes_of_other_variances_diverges():
    """A linear unit: errors in q^l grow where eta p_l sum_c pi_c rho_cl rho_ck s_k / 2 rho_l has the eigenvalue 1."""
    pi, rho, s = np.array([0.3, 0.7]), np.array([[1.0, 1.0], [0.5, 2.0]]), TWO.s
    model = ov.gaussian_mixture(
        1, gram=[0.6 * PAIR, 0.4 * PAIR], weights=pi, labels=[1, -1], activation=ov.linear, spectrum=TWO, ratios=rho,
        eta=0.5,
    )  # fmt: skip
    start = ov.State.from_blocks(model, q=[[[0.3]], [[0.3]]], m=[[[0.1, -0.1]], [[0.1, -0.1]]])
    rest = ov.fixed_point(model, ov.solve(model, start, [150.0])[-1])
    growth = (TWO.p / (2 * pi @ rho))[:, None] * np.einsum("c,cl,ck->lk", pi, rho, rho) * s
    found = ov.critical_eta(model, rest.state)
    assert rest.converged and found.kind == "infinity" and found.mode.dm.shape == (1, 2, 1, 2)
    assert found == pytest.approx(1 / np.linalg.eigvals(growth).max(), rel=1e-6)


BAD = {
    "weights": (dict(weights=[0.5, 0.4]), "weights = .*sum is 1"),
    "lengths": (dict(labels=[1, -1, 1]), "labels has shape"),
    "ratios": (dict(ratios=[[1.0], [-1.0]]), "ratios = .*>= 0"),
    "gram": (dict(gram=[[[1.0, 2.0], [2.0, 1.0]]]), "gram.* is not positive semi-definite"),
    "nan": (dict(labels=[1, np.nan]), "labels contains nan"),
    "neither": (dict(gram=None), "neither"),
    "both": (dict(means=np.ones((2, 4))), "both"),
}


@pytest.mark.parametrize("change, match", BAD.values(), ids=BAD)
def test_bad_models(change, match):
    options = {"gram": PAIR[None], "weights": [0.5, 0.5], "labels": [1, -1], "eta": 0.1} | change
    with pytest.raises(ValueError, match=match):
        ov.gaussian_mixture(2, **options)


def test_groups_have_a_linearisation_by_differences():
    """Of one group, in two halves, that of the structured Jacobian."""
    ratios = np.array([[1.0], [0.5], [2.0]])
    model, start = three_clusters(ratios)
    halves = replace(model, ratios=ratios * [1.0, 1.0 + 1e-12])
    one, two = (ov.linearise(x, start).eigenvalues for x in (model, halves))
    assert np.allclose(np.sort_complex(one), np.sort_complex(two), rtol=0, atol=1e-7)


def test_bad_states():
    model, start = two_clusters()
    with pytest.raises(ValueError, match="overlaps of real vectors|positive semi-definite"):
        ov.State.from_overlaps(model, Q=[[0.01, 0], [0, 0.01]], m=[[1.0, -1.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match="m "):
        ov.State.from_overlaps(model, Q=np.eye(2))
    machine = ov.committee_machine(2, 1, eta=0.1)
    with pytest.raises(ValueError, match="made by ov.gaussian_mixture"):
        ov.State.from_overlaps(machine, Q=np.eye(2), R=np.zeros((2, 1)), T=[[1.0]], m=np.zeros((2, 2)))
    means = ov.gaussian_mixture(1, means=np.ones((1, 10)), weights=[1], labels=[1], eta=0.1)
    with pytest.raises(ValueError, match="N = 20"):
        means.random_start(N=20, rng=1)
    with pytest.raises(ValueError, match="does not support inputs in classes"):
        ov.hessian(model, start)
    with pytest.raises(ValueError, match="blocks=False"):
        ov.solve(model, start, [0, 1], blocks=False)
    with pytest.raises(
        ValueError, match="'structured' does not support classes whose variances differ between eigenspaces"
    ):
        ov.solve(*three_clusters(), [0, 1], method="structured")
    with pytest.raises(ValueError, match="a teacher of latents with classes whose variances differ"):
        replace(three_clusters()[0], latent=True)


def test_compression_keeps_the_centroids():
    """Sixty eigenvalues on fewer nodes, with a teacher, centroids and classes of other variances."""
    rng = np.random.default_rng(6)
    spectrum = ov.power_law(beta=1.0, L=60)
    means = rng.standard_normal((2, 240)) / 12 + 0.05
    model = ov.gaussian_mixture(
        2, 1, means=means, weights=[0.3, 0.7], labels=[1, -1], spectrum=spectrum, ratios=[[1.0], [0.5]], v=[0.6, -0.5],
        v_star=[0.7], eta=0.3, noise=0.2,
    )  # fmt: skip
    start = model.random_start(N=240, rng=7)
    whole, error = ov.solve(model, start, [0, 2, 10], rtol=1e-9), {}
    for nodes in (35, 53):
        small, begin = ov.compress(model, start, nodes)
        assert small.spectrum.L <= nodes and np.allclose(begin.m.sum(axis=0), start.m.sum(axis=0), rtol=0, atol=1e-10)
        quick = ov.solve(small, begin, [0, 2, 10], rtol=1e-9)
        gaps = [getattr(whole, name) - getattr(quick, name) for name in ("Q", "R", "mean_fields", "v", "eps_g")]
        error[nodes] = max(np.max(np.abs(gap)) for gap in gaps)
    assert error[35] < 2e-3 and error[53] < error[35] / 10  # six and nine functions of the spectrum: exponentially
    with pytest.raises(
        ValueError, match="compress does not support classes whose variances differ between eigenspaces"
    ):
        ov.compress(*three_clusters(), 8)


def test_class_means_are_seen_in_the_basis_of_the_covariance(rng):
    """Sums over the eigenspaces, with their eigenvalues and without: mu Sigma mu^T and mu mu^T."""
    mu, X = rng.standard_normal((2, 5)), rng.standard_normal((5, 7))
    spectrum = ov.Spectrum.from_covariance(X @ X.T)
    model = ov.gaussian_mixture(1, means=mu, spectrum=spectrum, weights=[0.3, 0.7], labels=[1, -1], eta=0.2)
    np.testing.assert_allclose(np.tensordot(spectrum.s, model.gram, 1), mu @ X @ X.T @ mu.T, rtol=1e-12)
    np.testing.assert_allclose(model.gram.sum(axis=0), mu @ mu.T, rtol=1e-12)
