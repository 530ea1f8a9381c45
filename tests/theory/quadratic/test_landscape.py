"""Landscape: derivatives against finite differences, stationary points against numerical spectra, flat directions."""

import numpy as np
import pytest

from overlaps.theory import quadratic

N = 12
ALL = [(K, M) for K in range(1, 5) for M in range(1, 5)]


def differences(f, x, step):
    """Central differences of f (any shape) along every entry of x."""
    rows = []
    for i in range(x.size):
        e = np.zeros(x.size)
        e[i] = step
        e = e.reshape(x.shape)
        rows.append((f(x + e) - f(x - e)) / (2 * step))
    return np.array(rows)


def directions(values, vectors):
    return vectors[:, np.abs(values) < 1e-9]


def test_gradient_and_hessian_are_derivatives_of_the_error():
    rng = np.random.default_rng(0)
    W, W_star = rng.standard_normal((3, 5)), rng.standard_normal((2, 5))
    for options in ({}, dict(v=rng.standard_normal(3), v_star=rng.standard_normal(2))):
        g = differences(lambda w: quadratic.eps_g(w, W_star, **options), W, 1e-5)  # noqa: B023
        H = differences(lambda w: quadratic.gradient(w, W_star, **options), W, 1e-5)  # noqa: B023
        scale = np.abs(quadratic.hessian(W, W_star, **options)).max()
        np.testing.assert_allclose(quadratic.gradient(W, W_star, **options).ravel(), g, atol=3e-9 * scale)
        np.testing.assert_allclose(quadratic.hessian(W, W_star, **options), H.reshape(15, 15), atol=3e-9 * scale)


@pytest.mark.parametrize("K, M", ALL)
def test_all_stationary_points(K, M):
    """Vanishing gradient, error and whole spectrum; and only (0, min(K, M)) has no negative direction."""
    minima = []
    for r, s in quadratic.stationary_points(N, K, M):
        W, W_star = quadratic.stationary_point(N, K, M, r, s, rng=10 * r + s)
        assert np.max(np.abs(quadratic.gradient(W, W_star))) < 1e-14
        assert quadratic.eps_g(W, W_star) == pytest.approx(quadratic.stationary_eps_g(K, M, r, s), abs=1e-14)
        found = np.linalg.eigvalsh(quadratic.hessian(W, W_star))
        spectrum = quadratic.stationary_spectrum(N, K, M, r, s)
        values, counts = zip(*spectrum, strict=True)
        assert sum(counts) == K * N and np.all(np.diff(values) > 0)
        np.testing.assert_allclose(found, np.repeat(values, counts), atol=1e-13)  # rounding of a 48 x 48 matrix
        flat = quadratic.flat_directions(N, K, M, r, s)
        assert sum(flat) == dict(spectrum).get(0.0, 0) == np.sum(np.abs(found) < 1e-10)
        if values[0] >= 0:
            minima.append((r, s))
    assert minima == [(0, min(K, M))]


@pytest.mark.slow
def test_points_are_found_by_descent_on_the_gradient_norm_and_nothing_else():
    """Newton-like minimisation of |grad|^2 from random weights lands on listed errors only: the list is complete."""
    from scipy.optimize import least_squares

    n, K, M = 6, 3, 2
    W_star = np.eye(M, n)
    listed = np.array([quadratic.stationary_eps_g(K, M, r, s) for r, s in quadratic.stationary_points(n, K, M)])
    met = set()
    for seed in range(60):
        W = np.random.default_rng(seed).standard_normal((K, n)) * (0.3 + seed % 3)
        fit = least_squares(
            lambda w: quadratic.gradient(w.reshape(K, n), W_star).ravel(),
            W.ravel(),
            jac=lambda w: quadratic.hessian(w.reshape(K, n), W_star),
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
        )
        # a minimum of |grad|^2 with a non-zero gradient is no stationary point; degenerate ones converge slowly
        if np.linalg.norm(fit.fun) < 1e-9:
            error = quadratic.eps_g(fit.x.reshape(K, n), W_star)
            nearest = np.argmin(np.abs(listed - error))
            assert abs(listed[nearest] - error) < 1e-6
            met.add(int(nearest))
    assert len(met) >= 4


def test_special_cases_of_the_paper():
    """Tabula rasa, plateau, zero error, all aligned: eigenvalues of the risk (twice ours) and multiplicities."""
    K, M = 4, 2

    def paper(r, s):
        return [(pytest.approx(2 * x, abs=1e-14), n) for x, n in quadratic.stationary_spectrum(N, K, M, r, s)]

    assert paper(0, 0) == [(-4 / K * (1 + 2 / M), K * M), (-4 / K, K * (N - M))]
    assert paper(K, 0) == [
        (-8 / (K * M), K * M),
        (0.0, K * (N - M - K) + K * (K - 1) // 2),
        (16 / (K * (K + 2)), K * (K - 1) // 2 + K - 1),
        (8 / K, 1),
    ]
    assert paper(0, M) == [
        (0.0, (N - M) * (K - M) + M * (K - M) + M * (M - 1) // 2),
        (8 / (K * M), M * (N - M)),
        (16 / (K * M), M * (M + 1) // 2 - 1),
        (8 * (2 + M) / (K * M), 1),
    ]
    aligned = quadratic.stationary_spectrum(N, K, M, 0, 1)
    counts = [sum(n for x, n in aligned if np.sign(x) == sign) for sign in (-1, 0, 1)]
    assert counts == [(N - 1) * (K - 1), K + M - 2, N - M + 1]
    assert quadratic.stationary_eps_g(2, 3, 0, 2) == pytest.approx((1 - 2 / 3) / 3 * 5 / 4)  # K < M


@pytest.mark.parametrize("K, M", [(3, 2), (4, 2), (3, 3), (4, 1)])
def test_manifold_and_flat_directions_of_solutions(K, M):
    rng = np.random.default_rng(1)
    W, W_star = quadratic.stationary_point(N, K, M, 0, M, rng=rng)
    generators = [np.outer(a, b) - np.outer(b, a) for i, a in enumerate(np.eye(K)) for b in np.eye(K)[:i]]
    tangent = np.array([(X @ W).ravel() for X in generators]).T
    rank = np.linalg.matrix_rank(tangent)
    flat = quadratic.flat_directions(N, K, M, 0, M)
    assert rank == flat.rotations == quadratic.solution_dimension(N, K, M)
    assert flat == (K * M - M * (M + 1) // 2, 0, (N - M) * (K - M))
    null = directions(*np.linalg.eigh(quadratic.hessian(W, W_star)))
    rest = null - tangent @ np.linalg.lstsq(tangent, null, rcond=None)[0]
    # flat, but not tangent: the error grows as the fourth power of the distance
    U, sizes, _ = np.linalg.svd(rest)
    assert np.sum(sizes > 1e-8) == flat.overparametrisation
    if K > M:
        step = (U[:, : flat.overparametrisation] @ rng.standard_normal(flat.overparametrisation)).reshape(K, N)
        errors = [quadratic.eps_g(W + x * step, W_star) for x in (0.05, 0.1)]
        assert errors[1] / errors[0] == pytest.approx(16, rel=1e-6) and errors[0] > 1e-8


def solution(N, v, W_star, v_star, rng):
    """Zero-error weights with as many cancelling pairs of students as there are, and the place of these columns."""
    m = np.linalg.matrix_rank(W_star)
    frame = np.linalg.svd(W_star)[2]  # the teachers' space first
    form = frame[:m] @ (W_star.T * v_star @ W_star) @ frame[:m].T
    W, free = np.zeros((len(v), N)), list(range(len(v)))
    values, directions = np.linalg.eigh(form)
    for x, direction in zip(values, directions.T, strict=True):
        unit = next(k for k in free if v[k] * x > 0)
        free.remove(unit)
        W[unit] = np.sqrt(x / v[unit]) * direction @ frame[:m]
    plus, minus = ([k for k in free if s * v[k] > 0] for s in (1, -1))
    pairs = list(zip(plus, minus, strict=False))[: N - m]
    for i, j in pairs:
        direction = rng.standard_normal(N - m) @ frame[m:]
        W[i], W[j] = direction / np.sqrt(abs(v[i])), direction / np.sqrt(abs(v[j]))
    return W, frame[m:], len(pairs)


@pytest.mark.parametrize(
    ("N", "v", "v_star", "rank"),
    [
        (7, [1.0, 0.4, 2.0, 0.7], [0.5, 1.5], 2),  # unequal, one sign
        (7, [1.0, 0.4, 2.0, 0.7], [0.5, 1.5, 1.0], 2),  # dependent teachers
        (7, [1.0, 0.4, 2.0, -0.7], [0.5, 1.5], 2),
        (7, [1.0, -0.4, 2.0, -0.7, 1.2], [0.5], 1),
        (7, [1.0, -0.4, 2.0, -0.7, 1.2, 0.3, 1.1], [0.5, -1.0], 2),
        (3, [1.0, -0.4, 2.0, -0.7, -1.2], [0.5], 1),
    ],
)
def test_dimension_of_solutions_for_any_teacher_overlaps_and_second_layers(N, v, v_star, rank):
    """Rank of explicit tangents: rotations that keep diag(v), and weights of the pairs that cancel."""
    rng = np.random.default_rng(4)
    v, v_star = np.array(v), np.array(v_star)
    K, M = len(v), len(v_star)
    W_star = rng.standard_normal((M, rank)) @ rng.standard_normal((rank, N))
    W, outside, k = solution(N, v, W_star, v_star, rng)
    assert quadratic.eps_g(W, W_star, v=v, v_star=v_star) < 1e-25
    left = [np.outer(a, b) - np.outer(b, a) for i, a in enumerate(np.eye(K)) for b in np.eye(K)[:i]]
    tangent = [(X @ W / v[:, None]).ravel() for X in left]
    pairs = np.linalg.svd(W @ outside.T)[0][:, :k]  # the isotropic space
    tangent += [np.outer(a, b).ravel() for a in pairs.T for b in outside]
    found = quadratic.solution_dimension(N, K, M, v=v, v_star=v_star, T=W_star @ W_star.T)
    assert found == quadratic.solution_dimension(N, K, M, v=v, v_star=v_star, T=1e-12 * W_star @ W_star.T)  # any unit
    assert np.linalg.matrix_rank(np.array(tangent), tol=1e-9) == found
    # flat to second order is more, unless all students are used
    null = np.sum(np.abs(np.linalg.eigvalsh(quadratic.hessian(W, W_star, v=v, v_star=v_star))) < 1e-9)
    assert null - found == (K - rank - 2 * k) * (N - rank - k)
    if rank == M:
        assert found == quadratic.solution_dimension(N, K, M, v=v, v_star=v_star)


def test_mixed_saddle_choices_are_exact_symmetries():
    K, M, r, s = 4, 3, 1, 2
    W, W_star = quadratic.stationary_point(N, K, M, r, s, rng=3)
    flat = quadratic.flat_directions(N, K, M, r, s)
    frame = np.vstack([W_star, np.linalg.svd(W_star)[2][M:]])  # teacher's space, then the rest
    turns = [
        np.outer(a, b) - np.outer(b, a) for part in (frame[:M], frame[M:]) for i, a in enumerate(part) for b in part[:i]
    ]
    left = [np.outer(a, b) - np.outer(b, a) for i, a in enumerate(np.eye(K)) for b in np.eye(K)[:i]]
    tangent = np.array([(W @ X).ravel() for X in turns] + [(X @ W).ravel() for X in left])
    assert np.linalg.matrix_rank(tangent) == flat.rotations + flat.choices and flat.overparametrisation == 0


@pytest.mark.parametrize("n, K", [(5, 1), (5, 3), (5, 5), (3, 6)])
def test_degrees_of_freedom_are_the_rank_of_the_map(n, K):
    W = np.random.default_rng(2).standard_normal((K, n))
    rows = differences(lambda w: (w.T @ w)[np.triu_indices(n)], W, 1e-4)
    assert np.linalg.matrix_rank(rows, tol=1e-6) == quadratic.degrees_of_freedom(n, K)


def test_coordinate_axes_without_a_generator():
    W, W_star = quadratic.stationary_point(6, 3, 2, 1, 1)
    assert np.count_nonzero(W) == 2 and np.array_equal(W_star, np.eye(2, 6))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: quadratic.stationary_point(12, 2, 2, 2, 1), r"\(r, s\) = \(2, 1\) is no stationary point"),
        (lambda: quadratic.stationary_point(12, 4, 2, 1, 2), "r = 0 if s = M"),
        (lambda: quadratic.stationary_spectrum(12, 4, 2, 0, 3), "s <= M"),
        (lambda: quadratic.stationary_spectrum(4, 4, 2, 3, 0), "r <= N - M"),
        (lambda: quadratic.stationary_eps_g(2, 2, -1, 0), "r = -1; expected an integer >= 0"),
        (lambda: quadratic.flat_directions(12, 4, 2, 5, 0), "no stationary point"),
        (lambda: quadratic.stationary_points(2, 2, 3), "N = 2 < M = 3"),
        (lambda: quadratic.solution_dimension(12, 2, 3), "no zero-error solution exists"),
        (lambda: quadratic.solution_dimension(12, 3, 2, v_star=[1, -1]), "no zero-error solution exists"),
        (lambda: quadratic.solution_dimension(2, 4, 3, v=[1, 1, -1, -1], v_star=[1, 1, -1]), "expected T"),
        (lambda: quadratic.solution_dimension(12, 3, 2, v=[1, 0, 1]), "expected no zeros"),
        (lambda: quadratic.eps_g(np.ones((2, 3)), np.ones((1, 4))), "W_star has shape"),
        (lambda: quadratic.hessian(np.ones(3), np.ones((1, 3))), "W has shape"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
