"""Non-uniform readout: blocks of neurons with spikes of their own."""

import math

import numpy as np
import pytest
from helpers import agrees, few
from oracles import ridge_draw

from overlaps.static import SpikedRandomFeatures
from overlaps.static.spiked import ridge as _ridge
from overlaps.static.spiked.blocks import Eigenvalues, independent, orthonormal, rows_of
from overlaps.static.spiked.draws import initial_rows
from overlaps.static.spiked.letters import merged_letters

ROWS = "iid", "orthonormal"
BULK = (0.0, 0.6, 0.9, 2.5)


def response_of(rows, c, beta, lam, fractions):
    law = {"iid": independent(beta), "orthonormal": orthonormal, "bulk": Eigenvalues(np.array(BULK))}[rows]
    return rows_of(law, c, beta, lam, fractions)


def two_blocks(gamma=0.9, beta=1.0, rows="iid", fractions=(0.4, 0.6), **options):
    return SpikedRandomFeatures(
        np.tanh, np.sin, r=(0.7, 2.5), c=(1.0, 1.6), fractions=fractions, gamma=gamma, beta=beta, rows=rows, **options
    )


GOLDEN = {
    ("iid", 1.0): (0.08834893543, 0.02727327363, 0.164196024, 0.718340284, 0.00602494878, -0.0182859899,
                   0.127214447, 0.290972116, 4.65654533, 7.27669601),
    ("orthonormal", 0.6): (0.09095951601, 0.04300830417, 0.219519699, 0.690414277, 0.00136301568, -0.00818235890,
                           0.103572901, 0.248585377, 1.30878181, 2.20775578),
}  # fmt: skip


@pytest.mark.parametrize("rows, beta", GOLDEN)
def test_golden_values(rows, beta):
    solution = two_blocks(beta=beta, rows=rows).solve(alpha=2, lam=0.02)
    g = solution.V2 / np.array([0.4, 0.6])
    found = [solution.mse, solution.train, *solution.m, *solution.theta, *solution.psi, *g]
    # nine digits are given
    assert np.allclose(found, GOLDEN[rows, beta], rtol=5e-9, atol=0)
    assert np.allclose(found[:2], GOLDEN[rows, beta][:2], rtol=2e-10)
    assert solution.converged and solution.iterations <= 8
    assert solution.V1.shape == solution.q1.shape == (2, 2) and solution.q2.shape == (2,)


def plain_iteration(rows, r, c, rho, gamma, alpha, beta, lam):
    """V1, g and psi by iterating the printed equations, on a trapezoid grid of its own."""
    k = 0.08 * np.arange(-120, 121)
    w = np.exp(-(k**2) / 2) / np.sum(np.exp(-(k**2) / 2))
    x = np.tanh(r[:, None, None] * k[:, None] + np.sqrt(c)[:, None, None] * k)
    mu0, mu1 = x @ w, x @ (w * k) / np.sqrt(c)[:, None]
    mu2 = x**2 @ w - mu0**2 - c[:, None] * mu1**2
    h1 = np.sin(gamma * k[:, None] + math.sqrt(1 - gamma**2) * k) @ (w * k)
    kappa, one, g = alpha / beta, np.eye(r.size), np.ones(r.size) / lam
    V1 = np.diag(rho * c * g)
    for _ in range(300):
        den = 1 / (1 + np.einsum("bk,ck,bc->k", mu1, mu1, V1) + (rho * g) @ mu2)
        Vh1, Vh2 = kappa * (mu1 * w * den) @ mu1.T, kappa * mu2 @ (w * den)
        if rows == "iid":
            Gam = np.diag(beta * rho * c * g)
            g = 1 / (lam + Vh2 + c * np.diag(Vh1 @ np.linalg.inv(one + Gam @ Vh1)))
            Gam = np.diag(beta * rho * c * g)
            V1 = np.linalg.inv(one + Gam @ Vh1) @ Gam / beta
        else:
            g = 1 / (lam + Vh2 + c * np.diag(Vh1))
            V1 = np.diag(rho * c * g)
    return V1, g, beta * V1 @ (kappa * mu1 @ (w * h1 * den))


@pytest.mark.parametrize("rows, beta", GOLDEN)
def test_against_plain_iteration(rows, beta):
    rho = np.array([0.4, 0.6])
    V1, g, psi = plain_iteration(rows, np.array([0.7, 2.5]), np.array([1, 1.6]), rho, 0.9, 2.0, beta, 0.02)
    solution = two_blocks(beta=beta, rows=rows).solve(alpha=2, lam=0.02)
    # the iteration has converged to rounding; both grids are good to 1e-13
    assert np.allclose(solution.V1, V1, rtol=1e-11, atol=1e-14)
    assert np.allclose(solution.V2, rho * g, rtol=1e-11) and np.allclose(solution.psi, psi, rtol=1e-11)


TABLE = [  # rows, gamma, beta, alpha, mse, train: to the digits given
    ("iid", 0.9, 1.0, 0.6, 0.12397, 0.00552),
    ("iid", 0.9, 1.0, 2.0, 0.08676, 0.02717),
    ("iid", 1.0, 1.5, 0.6, 0.01907, 0.00172),
    ("iid", 1.0, 1.5, 2.0, 0.01475, 0.00483),
    ("orthonormal", 1.0, 1.0, 0.6, 0.02307, 0.00203),
    ("orthonormal", 1.0, 1.0, 2.0, 0.01347, 0.00637),
    ("orthonormal", 0.9, 0.6, 0.6, 0.15469, 0.01099),
    ("orthonormal", 0.9, 0.6, 2.0, 0.08979, 0.04314),
]


@pytest.mark.parametrize("rows, gamma, beta, alpha, mse, train", TABLE)
def test_table_of_two_equal_blocks(rows, gamma, beta, alpha, mse, train):
    solution = two_blocks(gamma, beta, rows, fractions=None).solve(alpha=alpha, lam=0.02)
    assert abs(solution.mse - mse) < 6e-6 and abs(solution.train - train) < 6e-6


NUMBERS = ("mse", "train", "m", "theta", "psi", "q1", "q2", "V1", "V2")


@pytest.mark.parametrize("alpha, beta, lam", [(1.3, 0.8, 0.05), (0.5, 2.0, 1.0), (2.0, 1.0, 1e-4), (1.0, 1.0, 1e-3)])
def test_one_block_is_the_core(alpha, beta, lam):
    """The resolvent by its own fixed point against the Marchenko-Pastur law in closed form."""
    options = {"gamma": 0.9, "beta": beta, "noise": 0.1}
    core = SpikedRandomFeatures(np.tanh, np.sin, r=1.2, c=1.1, **options).solve(alpha=alpha, lam=lam)
    block = SpikedRandomFeatures(np.tanh, np.sin, r=[1.2], c=[1.1], **options).solve(alpha=alpha, lam=lam)
    for name in NUMBERS:  # rounding is amplified by the distance to the interpolation peak, at most 1e3 here
        assert np.allclose(np.ravel(getattr(block, name)), getattr(core, name), rtol=1e-12, atol=1e-15), name


def test_orthonormal_rows_of_one_block():
    """At beta -> 0 the rows of any model are orthogonal; at beta = 1 they differ."""
    options = {"r": 1.2, "c": 1.1, "gamma": 0.9}
    errors = {}
    for beta in (1e-5, 1.0):
        alpha = 3 * beta
        errors[beta] = [
            SpikedRandomFeatures(np.tanh, np.sin, beta=beta, rows=rows, **options).solve(alpha=alpha, lam=0.05)
            for rows in ROWS
        ]
    iid, orthonormal = errors[1e-5]
    assert isinstance(orthonormal.m, float) and orthonormal.mse == pytest.approx(iid.mse, rel=1e-4)
    assert abs(errors[1.0][0].mse / errors[1.0][1].mse - 1) > 1e-3


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("alpha, lam", [(0.6, 0.1), (2.0, 0.02), (0.7, 1e-5)])
def test_the_minimum_of_the_objective_has_slope_q2(rows, alpha, lam):
    # d/dlam min_a [sum (y - yhat)^2 + lam |a|^2] = |a|^2; q2 comes from the derivatives of the resolvent
    here = two_blocks(beta=0.7, rows=rows, noise=0.1)

    def objective(x):
        solution = here.solve(alpha=alpha, lam=math.exp(x))
        return alpha / 0.7 * solution.train + math.exp(x) * solution.q2.sum()

    x, h = math.log(lam), 2e-3
    slope = (8 * (objective(x + h) - objective(x - h)) - objective(x + 2 * h) + objective(x - 2 * h)) / (12 * h)
    # fourth-order differences: h^4 and rounding 1e-15 / h
    assert slope / lam == pytest.approx(here.solve(alpha=alpha, lam=lam).q2.sum(), rel=2e-8)


@pytest.mark.parametrize("rows", [*ROWS, "bulk"])
def test_derivatives_of_the_response(rng, rows):
    """dv/dVh and dT/dVh against differences, along all packed directions."""
    B, lam = 3, 0.3
    c, fractions = np.array([1.0, 1.5, 2.0]), np.array([0.5, 0.3, 0.2])
    packing = _ridge.BlockPairs(B)
    A = rng.standard_normal((B, B + 2)) / 2
    Vh = packing.pack(A @ A.T, rng.uniform(0.1, 1.0, B))
    response = response_of(rows, c, 0.8, lam, fractions)
    here, h = response(Vh), 1e-5
    for j in range(Vh.size):
        up, down = (response(Vh + sign * h * np.eye(Vh.size)[j]) for sign in (1, -1))
        scale = max(np.max(np.abs(here.D)), 1.0)
        assert np.allclose(here.D[:, j], (up.v - down.v) / (2 * h), atol=1e-8 * scale), j  # h^2 and 1e-16 / h
        assert np.allclose(here.dT[j], (up.T - down.T) / (2 * h), atol=1e-8 * max(np.max(np.abs(here.dT)), 1.0)), j


@few("rows, p", [("iid", 1200), ("iid", 500), ("orthonormal", 500), ("bulk", 800)], quick=1)
def test_response_is_the_trace_of_a_resolvent(rng, rows, p):
    """The traces V2 and V1 of an actual matrix lam + diag(Vh2) + sum_bc Vh1_bc B_b B_c^T."""
    d, lam, B = 1000, 0.3, 2
    c, fractions = np.array([1.0, 1.6]), np.array([0.4, 0.6])
    packing = _ridge.BlockPairs(B)
    Vh1, Vh2 = np.array([[0.8, 0.5], [0.5, 1.1]]), np.array([0.2, 0.5])
    W = rng.standard_normal((p, d))
    W = np.linalg.qr(W.T)[0].T if rows == "orthonormal" else W / np.linalg.norm(W, axis=1, keepdims=True)
    W = initial_rows(np.array(BULK), p, d, rng) if rows == "bulk" else W
    block = np.repeat([0, 1], [round(0.4 * p), p - round(0.4 * p)])
    W *= np.sqrt(c[block])[:, None]
    omega = W @ W.T
    G = np.linalg.inv(lam * np.eye(p) + np.diag(Vh2[block]) + Vh1[np.ix_(block, block)] * omega)
    V2 = np.array([np.sum(np.diag(G)[block == b]) for b in (0, 1)]) / p
    ends = np.eye(2)[block]
    V1 = ends.T @ (omega * G) @ ends / p
    found = response_of(rows, c, p / d, lam, fractions)(packing.pack(Vh1, Vh2))
    matrix, vector = packing.unpack(found.v)
    # self-averaging: traces fluctuate by 1/d
    assert np.allclose(vector, V2, rtol=4e-3) and np.allclose(matrix, V1, rtol=8e-3, atol=2e-3)


# letters --------------------------------------------------------------------------------------------------------------


def test_letters_are_merged_up_to_sign():
    t, fractions = merged_letters((1.0, -0.5, -1.0, 0.5, 2.0), (0.1, 0.2, 0.3, 0.15, 0.25))
    assert np.allclose(t, [0.5, 1, 2]) and np.allclose(fractions, [0.35, 0.4, 0.25])
    step = {"eta_tilde": 1.5, "alpha0": 2.0, "beta": 1.0}
    after = SpikedRandomFeatures.after_one_step
    signs = after(np.tanh, np.sin, readout=(1, -1), fractions=(0.3, 0.7), **step)
    uniform = after(np.tanh, np.sin, **step)
    assert np.ndim(signs.r) == 0 and signs.solve(alpha=1, lam=0.1) == uniform.solve(alpha=1, lam=0.1)
    many = after(np.tanh, np.sin, readout=(-0.5, 1.5, 0.5), **step)
    assert np.allclose(many.r, np.array([0.5, 1.5]) * uniform.r) and np.allclose(many.fractions, [2 / 3, 1 / 3])
    assert np.allclose(many.c, 1 + np.array([0.25, 2.25]) * (uniform.c - 1)) and many.gamma == uniform.gamma
    merged = after(np.tanh, np.sin, readout=(0.5, 1.5), fractions=(2 / 3, 1 / 3), **step)
    assert many.solve(alpha=1, lam=0.1).mse == merged.solve(alpha=1, lam=0.1).mse
    doubled = after(np.tanh, np.sin, readout=(2.0,), **step)
    assert doubled.r == pytest.approx(2 * uniform.r) and doubled.c == pytest.approx(1 + 4 * (uniform.c - 1))


def test_a_silent_letter_and_no_step():
    step = {"eta_tilde": 1.5, "beta": 1.0, "readout": (0.0, 1.0)}
    silent = SpikedRandomFeatures.after_one_step(np.tanh, np.sin, alpha0=2.0, **step)
    solution = silent.solve(alpha=1.0, lam=0.1)
    assert silent.r[0] == 0 and solution.converged and solution.m[0] == 0 and solution.m[1] > 0
    nothing = SpikedRandomFeatures.after_one_step(np.tanh, np.sin, alpha0=0, **step)
    assert (nothing.r, nothing.c) == (0.0, 1.0)


@pytest.mark.parametrize("rows", ROWS)
def test_order_of_blocks_and_scale(rows):
    one = two_blocks(beta=0.8, rows=rows).solve(alpha=1.3, lam=0.05)
    turned = SpikedRandomFeatures(
        np.tanh, np.sin, r=(2.5, 0.7), c=(1.6, 1.0), fractions=(0.6, 0.4), gamma=0.9, beta=0.8, rows=rows
    ).solve(alpha=1.3, lam=0.05)
    assert turned.mse == pytest.approx(one.mse, rel=1e-11) and np.allclose(turned.m, one.m[::-1], rtol=1e-9)
    assert np.allclose(turned.V1, one.V1[::-1, ::-1], rtol=1e-11)
    options = {"r": (0.7, 2.5), "c": (1.0, 1.6), "fractions": (0.4, 0.6), "gamma": 0.9, "beta": 0.8, "rows": rows}
    scaled = SpikedRandomFeatures(lambda x: 3 * np.tanh(x), np.sin, **options).solve(alpha=1.3, lam=0.45)
    assert np.allclose([scaled.mse, scaled.train], [one.mse, one.train], rtol=1e-11)


def test_strong_ridge_and_learned_function():
    here = two_blocks(noise=0.1)
    table = here.coefficients
    basis, root = table.mu0.T, np.sqrt(table.weight)
    fitted = basis @ np.linalg.lstsq(basis * root[:, None], table.h * root, rcond=None)[0]
    upper = table.weight @ (table.hh - table.h**2) + table.weight @ (table.h - fitted) ** 2 + 0.01
    solution = here.solve(alpha=2.0, lam=1e8)
    assert solution.mse == pytest.approx(upper, rel=1e-7)
    assert np.allclose(solution.C(table.k), fitted, atol=1e-6)
    assert here.optimal_lam(0.5).mse < upper


def test_blocks_of_a_linear_student():
    """All mu0 are multiples of k, fixed in their sum only: how the spike is distributed does not matter."""
    straight = {"gamma": 0.9, "beta": 0.8, "c": (1.1, 1.1 + 1e-9)}
    two = SpikedRandomFeatures(lambda x: 1.0 * x, np.sin, r=(0.8, 1.7), **straight).solve(alpha=1.3, lam=0.05)
    one = SpikedRandomFeatures(lambda x: 1.0 * x, np.sin, r=1.2, c=1.1, gamma=0.9, beta=0.8).solve(alpha=1.3, lam=0.05)
    assert two.mse == pytest.approx(one.mse, rel=1e-7) and two.train == pytest.approx(one.train, rel=1e-7)


@pytest.mark.parametrize("r, c", [((1.0, 2.0), (0.6, 1.5))])
def test_rounding_between_dependent_blocks_is_reported(r, c):
    """Two blocks of a linear student at tiny lam: V1 has entries 1e5 that cancel, and q loses all digits."""
    two = SpikedRandomFeatures(lambda x: 1.0 * x, np.sin, r=r, c=c, gamma=0.9, beta=1000.0)
    spoilt = two.solve(alpha=999.0, lam=5.5e-6, iterations=20)
    assert not spoilt.converged and np.isnan(spoilt.mse) and np.all(np.isnan(spoilt.q2))
    good = two.solve(alpha=999.0, lam=1.0, iterations=20)
    assert good.converged and good.mse > two.bounds().lower and np.all(good.q2 > 0)


@pytest.mark.parametrize("alpha, beta", [(1.0, 1.0), (5.0, 5.0), (2.0, 0.5), (0.5, 3.0)])
def test_four_blocks_converge(alpha, beta):
    blocks = {"r": (0.3, 0.7, 1.5, 2.5), "c": (1, 1.2, 1.6, 2), "fractions": (0.3, 0.2, 0.2, 0.3)}
    here = SpikedRandomFeatures(np.tanh, np.sin, gamma=0.9, beta=beta, **blocks)
    for lam in (1.0, 1e-2, 1e-4, 1e-6, 1e-8):
        solution = here.solve(alpha=alpha, lam=lam)
        assert solution.converged and solution.iterations <= 25
        assert np.all(np.linalg.eigvalsh(solution.V1) > 0) and np.all(np.linalg.eigvalsh(solution.q1) > 0)


def test_bad_blocks():
    for options, message in (
        ({"r": (0.7, 0.7), "c": 1.0}, "equal blocks"),
        ({"r": (0.7, -0.7), "c": 1.0}, "equal blocks up to a sign"),
        ({"r": (0.7, 1.0), "fractions": (0.5, 0.6)}, "fractions"),
        ({"r": (0.7, 1.0), "fractions": (1.0,)}, "fractions"),
        ({"r": (0.7, 1.0), "fractions": (1.5, -0.5)}, "fractions"),
        ({"r": (0.7, 1.0), "c": (1.0, 1.0, 1.0)}, "c has shape"),
        ({"r": (0.7, 1.0), "c": (1.0, 0.0)}, "variances"),
        ({"r": (), "c": 1.0}, "at least one block"),
        ({"r": 1.0, "c": (1.0, 2.0)}, "r has shape"),
    ):
        with pytest.raises(ValueError, match=message):
            SpikedRandomFeatures(np.tanh, np.sin, gamma=0.9, beta=1.0, **options)
    with pytest.raises(ValueError, match="readout"):
        SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=1, alpha0=1, beta=1, readout=1.0)
    with pytest.raises(ValueError, match="fractions"):
        SpikedRandomFeatures.after_one_step(
            np.tanh, np.sin, eta_tilde=1, alpha0=1, beta=1, readout=(1, 2), fractions=(0.1, 0.2)
        )


# finite size ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows, gamma, beta, alpha", [("iid", 0.9, 1.0, 2.0), ("iid", 1.0, 1.5, 0.6), ("orthonormal", 0.9, 0.6, 2.0)]
)
def test_explicit_ridge_regression(rng, rows, gamma, beta, alpha):
    d, p = 500, round(500 * beta)
    block = np.repeat([0, 1], [round(0.4 * p), p - round(0.4 * p)])
    r, c = np.array([0.7, 2.5])[block], np.array([1.0, 1.6])[block]
    options = {"r": r, "c": c, "gamma": gamma, "alpha": alpha, "lam": 0.02, "d": d}
    test, train = [], []
    for _ in range(10):
        W = np.linalg.qr(rng.standard_normal((d, p)))[0].T if rows == "orthonormal" else None
        mse, fit, *_ = ridge_draw(rng, np.tanh, np.sin, rows=W, **options)
        test.append(mse)
        train.append(fit)
    solution = two_blocks(gamma, beta, rows).solve(alpha=alpha, lam=0.02, d=d)
    assert agrees(test, solution.mse), (np.mean(test), solution.mse)
    assert agrees(train, solution.train, share=0.06), (np.mean(train), solution.train)


# rows of given eigenvalues --------------------------------------------------------------------------------------------

ONE = {"r": 1.2, "c": 1.1, "gamma": 0.9}
POINT = {"alpha": 1.5, "lam": 0.05}


def given(bulk, beta=0.8):
    return SpikedRandomFeatures(np.tanh, np.sin, beta=beta, bulk=bulk, **ONE)


def test_given_rows_of_the_known_laws():
    """Ones are orthonormal rows; the eigenvalues of one large matrix are independent rows, up to its size."""
    for beta in (0.4, 1.0):
        orthonormal = SpikedRandomFeatures(np.tanh, np.sin, beta=beta, rows="orthonormal", **ONE).solve(**POINT)
        found = given(np.ones(3), beta).solve(**POINT)
        for name in ("mse", "train", "m", "theta", "psi", "q1", "q2", "V1", "V2"):
            assert getattr(found, name) == pytest.approx(getattr(orthonormal, name), rel=1e-9)
    rows = initial_rows("sphere", 480, 600, np.random.default_rng(0))
    independent = SpikedRandomFeatures(np.tanh, np.sin, beta=0.8, **ONE).solve(**POINT)
    found = given(np.maximum(np.linalg.eigvalsh(rows @ rows.T), 0)).solve(**POINT)
    for name in ("mse", "theta", "q1", "V1"):
        assert getattr(found, name) == pytest.approx(getattr(independent, name), rel=5 / 600)  # 1/d


def test_given_rows_of_several_blocks():
    """Of the known laws: ones, and the eigenvalues of one large matrix up to its size."""
    point = {"alpha": 2.0, "lam": 0.02}
    expected, found = (
        two_blocks(beta=0.6, rows="orthonormal").solve(**point),
        two_blocks(beta=0.6, bulk=(1.0,)).solve(**point),
    )
    for name in NUMBERS:
        assert np.allclose(getattr(found, name), getattr(expected, name), rtol=1e-8, atol=1e-12), name
    rows = initial_rows("sphere", 480, 600, np.random.default_rng(0))
    values = np.maximum(np.linalg.eigvalsh(rows @ rows.T), 0)
    expected, found = two_blocks(beta=0.8).solve(**point), two_blocks(beta=0.8, bulk=values).solve(**point)
    for name in ("mse", "train", "m", "q2", "V1"):
        assert np.allclose(getattr(found, name), getattr(expected, name), rtol=5 / 600), name
    with pytest.raises(ValueError, match="several blocks"):
        two_blocks(bulk=(0.5, 1.5)).spectrum(alpha=1.0)


@pytest.mark.parametrize("d, draws", [(100, 30), pytest.param(300, 12, marks=pytest.mark.slow)])
def test_given_rows_of_several_blocks_against_draws(d, draws):
    """4 standard errors, and 3 % for terms of order 1/d; independent rows are 10 % away."""
    model = two_blocks(beta=0.8, bulk=(0.0, 0.0, 3.0))
    point = {"alpha": 1.5, "lam": 0.05}
    theory, runs = model.solve(**point, d=d), model.simulate(**point, d=d, rng=1, draws=draws)
    for name in ("mse", "train", "q2"):
        expected = np.sum(getattr(theory, name))
        assert abs(runs.mean(name) - expected) < 4 * runs.error(name) + 0.03 * expected, name
    assert abs(two_blocks(beta=0.8).solve(**point).train / model.solve(**point).train - 1) > 0.1


@pytest.mark.parametrize("d, draws", [(100, 30), pytest.param(300, 12, marks=pytest.mark.slow)])
@few("bulk, beta", [((0.2, 1.8), 0.8), ((0.0, 0.5, 2.5), 1.5)], quick=1)
def test_given_rows_against_draws(bulk, beta, d, draws):
    """4 standard errors and 3 % for terms of order 1/d; neither kind of rows that is known is as close."""
    model = given(bulk, beta)
    theory, runs = model.solve(**POINT, d=d), model.simulate(**POINT, d=d, rng=1, draws=draws)
    for name in ("mse", "train", "q2", "psi"):
        expected = getattr(theory, name)
        assert abs(runs.mean(name) - expected) < 4 * runs.error(name) + 0.03 * expected, name


def test_rows_of_given_eigenvalues():
    rows = initial_rows(np.array([0.2, 1.8]), 80, 100, np.random.default_rng(1))
    assert np.allclose(np.sum(rows**2, axis=1), 1, rtol=1e-10)
    assert np.allclose(np.linalg.eigvalsh(rows @ rows.T), np.repeat([0.2, 1.8], 40), rtol=1e-10)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"bulk": (0.5, 0.5)}, "of mean 1"),
        ({"bulk": (-1.0, 3.0)}, "eigenvalues >= 0"),
        ({"bulk": ()}, "bulk = "),
        ({"bulk": (1.0, 1.0), "beta": 1.5}, "at most the fraction"),
        ({"bulk": (1.0,), "rows": "orthonormal"}, "one of the two"),
        ({"bulk": (1.0,), "r": (1.0, 1.0)}, "equal blocks"),
    ],
)
def test_eigenvalues_that_cannot_be(options, text):
    with pytest.raises(ValueError, match=text):
        SpikedRandomFeatures(np.tanh, np.sin, **{**ONE, "beta": 0.8, **options})
