"""Activations: validation of user functions, exact families, mixtures, and what is refused."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from helpers import few, workspace
from scipy.special import expit

from overlaps import activations as act
from overlaps.activations._erf import erf_closure
from overlaps.activations._numeric import SOBOL, sobol_square
from overlaps.activations._quadratic import linear_closure, quadratic_closure
from overlaps.activations._relu import relu_closure
from overlaps.activations.bound import LearningNumbers
from overlaps.activations.numeric import find_kink
from overlaps.activations.sums import MixtureClosure, ScaledSum, fit_erf_mixture
from overlaps.flow.binding import bind_numeric
from overlaps.gaussian.quadrature import sobol
from overlaps.gaussian.two_point import ERF, LINEAR, QUADRATIC, RELU

ETA, ETA_V, NOISE = 0.5, 1.0, 0.25


def random_state(K, M, seed):
    """Covariance S of the fields and signed weights w."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(K + M, 3 * (K + M)))
    return X @ X.T / X.shape[1], np.concatenate([rng.uniform(0.5, 1.5, K), -rng.uniform(0.5, 1.5, M)])


def evaluate(f, S, w, K):
    n = len(w)
    A, B, C, dv = np.zeros((K, K)), np.zeros((K, n - K)), np.zeros((K, K)), np.zeros(K)
    eps_g = f(S, w, A, B, C, dv)
    return {"A": A, "B": B, "C": C, "dv": dv, "eps_g": eps_g}


def numeric(student, teacher, S, w, K, second_order=True):
    learning = LearningNumbers(K, len(w) - K, ETA, ETA_V, NOISE, second_order)
    return evaluate(bind_numeric(student, teacher, learning), S, w, K)


def closed(kernel, teacher, S, w, K):
    def bound(S, w, A, B, C, dv):
        return kernel(S, w, workspace(S), K, teacher, ETA, ETA_V, NOISE, True, A, B, C, dv)

    return evaluate(bound, S, w, K)


def assert_same(found, expected, atol, keys=("A", "B", "C", "dv", "eps_g")):
    for key in keys:
        np.testing.assert_allclose(found[key], expected[key], rtol=0, atol=atol, err_msg=key)


# user functions ------------------------------------------------------------------------------------------------------


def softplus(x):
    return np.logaddexp(0.0, x)


def softplus_d2g(x):
    return expit(x) * expit(-x)


def hard_tanh(x):
    return np.clip(x, -1.0, 1.0)


def hard_tanh_dg(x):
    return np.where(np.abs(x) < 1, 1.0, 0.0)


def step(x):
    return np.where(x > 0.3, 1.0, 0.0)


def tanh_dg(x):
    return 1 / np.cosh(x) ** 2


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def elu_dg(x):
    return np.where(x > 0, 1.0, np.exp(np.minimum(x, 0)))


def test_from_function_is_a_record():
    activation = act.Activation.from_function(softplus, expit, softplus_d2g)
    assert repr(activation) == "softplus"
    assert activation(np.zeros(2)) == pytest.approx(np.log(2))
    assert repr(act.Activation.from_function(softplus, expit, name="sp")) == "sp"


@pytest.mark.parametrize(
    "activation",
    [
        act.erf,
        act.tanh,
        act.leaky_relu(0.1),
        act.absolute,
        act.polynomial([0, 1, 2]),
        act.Activation.from_function(softplus, expit),
    ],
    ids=repr,
)
def test_activations_and_bound_closures_pickle(activation):
    copy = pickle.loads(pickle.dumps(activation))
    assert copy == activation
    assert "\n" not in repr(copy)
    S, w = random_state(1, 1, 0)
    f = bind_numeric(activation, act.polynomial([0, 1, 1]), LearningNumbers(1, 1, ETA, ETA_V, NOISE, False))
    assert evaluate(pickle.loads(pickle.dumps(f)), S, w, 1)["eps_g"] == evaluate(f, S, w, 1)["eps_g"]
    assert "\n" not in repr(f)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((softplus, 3.0), "dg = 3.0"),
        ((softplus, np.tanh), "dg is not its derivative"),
        ((softplus, lambda x: 1.01 * expit(x)), "dg is not its derivative"),
        ((softplus, expit, expit), "d2g is not its derivative"),
        ((step, np.zeros_like), "g jumps"),
        ((lambda x: float(x), expit), "np.vectorize"),
        ((np.ravel, np.ones_like), "same shape"),
        ((lambda x: 3.0, np.zeros_like), "same shape"),
        ((lambda x: np.where(x > 8, np.inf, x), np.ones_like), "finite"),
        ((act.relu.g, act.relu.dg, np.zeros_like), "ov.relu, ov.leaky_relu"),
        ((lambda x: np.tanh(x) + 0.1j * x, tanh_dg), "g has complex values"),
        ((np.tanh, lambda x: tanh_dg(x) + 0j), "dg has complex values"),
    ],
)
def test_wrong_functions_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        act.Activation.from_function(*arguments)


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="second_order"):
        act.Activation.from_function(softplus, expit, second_order="exact")
    with pytest.raises(ValueError, match="tolerance"):
        act.Activation.from_function(softplus, expit, tolerance=0.0)
    with pytest.raises(ValueError, match="slope"):
        act.leaky_relu("steep")
    for coefficients in ([], [np.nan], [[1.0]], "x"):
        with pytest.raises(ValueError, match="coefficients"):
            act.polynomial(coefficients)


@pytest.mark.parametrize(
    ("g", "dg", "where"), [(act.relu.g, act.relu.dg, 0.0), (hard_tanh, hard_tanh_dg, 1.0), (np.abs, np.sign, 0.0)]
)
def test_kinked_functions_are_refused_with_the_exact_family_named(g, dg, where):
    activation = act.Activation.from_function(g, dg, name="kinked")
    for pair in ((activation, act.erf), (act.erf, activation)):
        for second_order in (True, False):
            with pytest.raises(ValueError, match=r"kinked has a kink at x = .*ov\.relu, ov\.leaky_relu"):
                bind_numeric(*pair, LearningNumbers(1, 1, ETA, ETA_V, NOISE, second_order))
    assert abs(find_kink(dg)) == pytest.approx(where, abs=1e-9)


def test_steep_smooth_functions_are_not_called_kinked():
    for dg in (expit, tanh_dg, act.erf.dg, lambda x: expit(500 * x), np.ones_like, np.zeros_like):
        assert find_kink(dg) is None


def test_a_jump_of_the_second_derivative_is_refused_by_the_self_check():
    # elu has a continuous slope, so it is no kink, but the midpoint rule converges like 1/n^2 only
    activation = act.Activation.from_function(elu, elu_dg)
    f = bind_numeric(activation, act.erf, LearningNumbers(1, 1, ETA, ETA_V, NOISE, False))
    S, w = random_state(1, 1, 0)
    with pytest.raises(ValueError, match="do not converge: with 512 nodes"):
        f.check(S, w)


def test_too_large_variances_are_refused_at_the_first_call_and_nan_later():
    activation = act.Activation.from_function(np.tanh, tanh_dg)
    wide = np.array([[1e4, 3e3], [3e3, 1e4]])
    S, w = random_state(1, 1, 0)
    f = bind_numeric(activation, activation, LearningNumbers(1, 1, ETA, ETA_V, NOISE, False))
    with pytest.raises(ValueError, match="too large variances"):
        evaluate(f, wide, w, 1)
    assert np.isfinite(evaluate(f, S, w, 1)["eps_g"])
    # an integrator may try such a state: nan makes it reject the step, and the reason is kept
    assert all(np.all(np.isnan(value)) for key, value in evaluate(f, wide, w, 1).items() if key != "C")
    assert "too large variances" in f.message
    assert np.isfinite(evaluate(f, S, w, 1)["eps_g"])
    assert np.isnan(evaluate(f, np.full((2, 2), np.nan), w, 1)["eps_g"])


def test_student_of_zero_norm_needs_a_second_derivative():
    S, w = np.diag([0.0, 1.0]), np.array([1.0, -1.0])
    with pytest.raises(ValueError, match="zero norm"):
        numeric(act.Activation.from_function(softplus, expit), act.erf, S, w, 1)
    result = numeric(act.Activation.from_function(softplus, expit, softplus_d2g), act.erf, S, w, 1, False)
    # g = log 2, g' = 1/2, g'' = 1/4 at 0:  A = -eta v (v g'^2 + g'' v g)
    assert result["A"][0, 0] == pytest.approx(-ETA * (0.25 + 0.25 * np.log(2)), abs=1e-14)


# the rule of C -------------------------------------------------------------------------------------------------------


def test_tensor_rule_needs_few_fields_and_mixture_a_sigmoid():
    S, w = random_state(3, 2, 0)
    tensor = act.Activation.from_function(softplus, expit, second_order="tensor")
    with pytest.raises(ValueError, match=r"K \+ M = 5.*at most 4.*gradient_flow=True"):
        bind_numeric(tensor, tensor, LearningNumbers(3, 2, ETA, ETA_V, NOISE, True)).check(S, w)
    mixture = act.Activation.from_function(softplus, expit, second_order="mixture")
    with pytest.raises(ValueError, match=r"odd sigmoid.*gradient_flow=True"):
        bind_numeric(mixture, mixture, LearningNumbers(3, 2, ETA, ETA_V, NOISE, True))


@few("method", ["sobol", "pairs"], quick=1)
def test_inaccurate_C_is_refused_unless_the_tolerance_is_raised(method):
    S, w = random_state(3, 3, 1)
    for tolerance, accepted in ((1e-9, False), (1.0, True)):
        g = act.Activation.from_function(np.tanh, tanh_dg, second_order=method, tolerance=tolerance)
        f = bind_numeric(g, g, LearningNumbers(3, 3, ETA, ETA_V, NOISE, True))
        if accepted:
            assert 0 < f.error if evaluate(f, S, w, 3) else False
        else:
            with pytest.raises(ValueError, match=r"Raise tolerance=.*gradient_flow=True"):
                f.check(S, w)


@pytest.mark.parametrize(("K", "method"), [(1, "tensor"), (2, "pairs"), (3, "mixture")])
def test_automatic_rule(K, method):
    tanh = act.Activation.from_function(np.tanh, tanh_dg)
    f = bind_numeric(tanh, tanh, LearningNumbers(K, K, ETA, ETA_V, NOISE, True))
    S, w = random_state(K, K, K)
    found = evaluate(f, S, w, K)
    assert f.method == method
    # four error functions are within 1e-5 of tanh
    assert_same(found, numeric(act.tanh, act.tanh, S, w, K), atol=5e-5)


@pytest.mark.parametrize("teacher", [act.relu, act.linear, act.quadratic, act.erf], ids=repr)
@pytest.mark.parametrize("K", [1, 3])
def test_user_student_with_a_closed_form_teacher(teacher, K):
    user = act.Activation.from_function(act.erf.g, act.erf.dg, act.erf.d2g, name="user")
    S, w = random_state(K, 2, 4)
    f = bind_numeric(user, teacher, LearningNumbers(K, 2, ETA, ETA_V, NOISE, True))
    found, expected = evaluate(f, S, w, K), closed(erf_closure, teacher.code, S, w, K)
    assert_same(found, expected, atol=1e-11, keys=("A", "B", "dv", "eps_g"))
    error = np.abs(found["C"] - expected["C"]).max()
    # Sobol points for the kink of relu: standard error of four scrambles; 1e-6 is the goal of the other rules
    assert error < 5 * f.error + 1e-12
    assert error < (1e-2 if teacher is act.relu else 2e-6) * np.abs(expected["C"]).max()


@pytest.mark.parametrize("K", [1, 2])
def test_closed_form_student_with_a_user_teacher(K):
    user = act.Activation.from_function(act.erf.g, act.erf.dg, name="user")
    for student, kernel in ((act.erf, erf_closure), (act.relu, relu_closure), (act.quadratic, quadratic_closure)):
        S, w = random_state(K, 2, 6)
        f = bind_numeric(student, user, LearningNumbers(K, 2, ETA, ETA_V, NOISE, True))
        found, expected = evaluate(f, S, w, K), closed(kernel, ERF, S, w, K)
        assert_same(found, expected, atol=1e-11, keys=("A", "B", "dv", "eps_g"))
        error = np.abs(found["C"] - expected["C"]).max()
        assert error < 5 * f.error + 1e-12
        assert error < 1e-2 * np.abs(expected["C"]).max()


def test_gradient_flow_leaves_C_alone():
    S, w = random_state(2, 2, 0)
    for student in (act.tanh, act.absolute, act.polynomial([0, 1, 1]), act.Activation.from_function(softplus, expit)):
        assert np.all(numeric(student, student, S, w, 2, second_order=False)["C"] == 0)


# exact families ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "M"), [(1, 1), (2, 3), (4, 2)])
def test_polynomials_of_low_degree_are_linear_and_quadratic(K, M):
    S, w = random_state(K, M, 2)
    square, line = act.polynomial([0, 0, 1]), act.polynomial([0.0, 1.0])
    # sums of 1e2 terms of size 10, rounding 1e-13
    assert_same(numeric(square, square, S, w, K), closed(quadratic_closure, QUADRATIC, S, w, K), atol=1e-12)
    assert_same(numeric(line, act.quadratic, S, w, K), closed(linear_closure, QUADRATIC, S, w, K), atol=1e-12)
    assert_same(numeric(act.linear, line, S, w, K), closed(linear_closure, LINEAR, S, w, K), atol=1e-13)


def test_hermite_cubic_has_wick_moments():
    # For unit variances He_3 is orthogonal to all but its own kind: E[He_3(a) He_3(b)] = 6 rho^3, E[g' g'] = 18 rho^2,
    # E[g''(a) g(b)] = 6 E[a He_3(b)] = 0.
    rho, v, u = 0.3, 1.2, 0.7
    S, w = np.array([[1.0, rho], [rho, 1.0]]), np.array([v, -u])
    cubic = act.polynomial([0, -3, 0, 1])
    found = numeric(cubic, cubic, S, w, 1)
    assert found["eps_g"] == pytest.approx(3 * (v * v + u * u - 2 * v * u * rho**3), rel=1e-13)
    assert found["A"][0, 0] == pytest.approx(-ETA * v * v * 18, rel=1e-13)
    assert found["B"][0, 0] == pytest.approx(ETA * v * u * 18 * rho**2, rel=1e-13)
    # C by the recursion E[z_i f] = sum_j S_ij E[d_j f] on the monomials of g'(a)^2 Delta^2
    from numpy.polynomial import polynomial as poly

    g, dg = np.array([0, -3, 0, 1.0]), np.array([-3, 0, 3.0])
    dg2 = poly.polymul(dg, dg)
    total = 0.0
    for amplitude, pa, pb in (
        (v * v, poly.polymul(dg2, poly.polymul(g, g)), [1.0]),
        (-2 * v * u, poly.polymul(dg2, g), g),
        (u * u, dg2, poly.polymul(g, g)),
    ):
        total += amplitude * sum(
            ca * cb * wick(i, j, rho) for i, ca in enumerate(pa) for j, cb in enumerate(pb) if ca and cb
        )
    expected = ETA**2 * v * v * (total + NOISE**2 * 18)
    assert found["C"][0, 0] == pytest.approx(expected, rel=1e-12)


def wick(i, j, rho):
    """E[a^i b^j] of unit fields with correlation rho, by Stein's lemma."""
    if i == 0 and j == 0:
        return 1.0
    if i == 0:
        return (j - 1) * wick(0, j - 2, rho) if j > 1 else 0.0
    return (wick(i - 2, j, rho) * (i - 1) if i > 1 else 0.0) + (rho * j * wick(i - 1, j - 1, rho) if j else 0.0)


def test_polynomial_C_against_sampling():
    K, S, w = 2, *random_state(2, 2, 8)
    cubic, mixed = act.polynomial([0.1, 0.5, 0.2, 0.1]), act.polynomial([0.0, 1.0, -0.3])
    found = numeric(cubic, mixed, S, w, K)["C"]
    z = np.random.default_rng(0).normal(size=(400_000, 4)) @ np.linalg.cholesky(S).T
    delta = cubic(z[:, :K]) @ w[:K] + mixed(z[:, K:]) @ w[K:]
    F = ETA * w[:K] * cubic.dg(z[:, :K])
    samples = np.einsum("pk,pl,p->pkl", F, F, delta**2 + NOISE**2)
    standard_error = samples.std(axis=0) / np.sqrt(len(z))
    assert np.max(np.abs(samples.mean(axis=0) - found) / standard_error) < 5


@pytest.mark.parametrize(("K", "M"), [(1, 1), (2, 1), (3, 3)])
def test_leaky_relu_between_relu_and_linear(K, M):
    S, w = random_state(K, M, 5)
    flat, full = act.leaky_relu(0.0), act.leaky_relu(1.0)
    # rounding of orthant probabilities and of sums of 1e2 terms
    assert_same(numeric(flat, flat, S, w, K), closed(relu_closure, RELU, S, w, K), atol=1e-13)
    assert_same(numeric(full, full, S, w, K), closed(linear_closure, LINEAR, S, w, K), atol=1e-13)
    assert_same(numeric(flat, full, S, w, K), closed(relu_closure, LINEAR, S, w, K), atol=1e-13)


@pytest.mark.parametrize("teacher", [act.quadratic, act.erf, act.relu], ids=repr)
@pytest.mark.parametrize("slope", [0.3, -1.0, 1.0])
def test_opposite_relu_fields_of_the_expansion(teacher, slope):
    # x = relu(x) - relu(-x) as two relu units with exactly opposite fields, whose orthant probabilities are known to
    # some 1e-8: another way to the same numbers
    K, S, w = 4, *random_state(4, 4, 4)
    student = act.leaky_relu(slope)
    f = MixtureClosure(student.mixture, ScaledSum(teacher.code), LearningNumbers(K, 4, ETA, ETA_V, NOISE, True))
    expected, found = evaluate(f, S, w, K), numeric(student, teacher, S, w, K)
    assert_same(found, expected, atol=1e-12, keys=("A", "B", "dv", "eps_g"))
    assert np.abs(found["C"] - expected["C"]).max() < 1e-6 * np.abs(expected["C"]).max()
    if slope == 1.0:  # no kink is left
        assert_same(found, closed(linear_closure, teacher.code, S, w, K), atol=1e-12)


@pytest.mark.parametrize(("K", "M"), [(1, 1), (2, 2)])
def test_absolute_value(K, M):
    S, w = random_state(K, M, 7)
    found = numeric(act.absolute, act.absolute, S, w, K)
    sigma = np.sqrt(np.diag(S))
    rho = S / np.outer(sigma, sigma)
    # E|a b| = (2/pi) sigma_a sigma_b (sqrt(1 - rho^2) + rho asin rho)
    arcsin = np.arcsin(np.clip(rho, -1, 1))
    gg = 2 / np.pi * np.outer(sigma, sigma) * (np.sqrt(np.maximum(1 - rho**2, 0)) + rho * arcsin)
    np.fill_diagonal(gg, np.diag(S))
    assert found["eps_g"] == pytest.approx(0.5 * w @ gg @ w, rel=1e-12)
    np.testing.assert_allclose(found["B"], -ETA * np.outer(w[:K], w[K:]) * 2 / np.pi * arcsin[:K, K:], atol=1e-14)
    # g'^2 = 1, so C_kk = eta^2 v_k^2 E[Delta^2]
    np.testing.assert_allclose(np.diag(found["C"]), ETA**2 * w[:K] ** 2 * (2 * found["eps_g"] + NOISE**2), rtol=1e-12)
    square = np.mean(
        [sobol_square(S, w, K, act.absolute, act.absolute, sobol(K + M, SOBOL.log2_points, seed)) for seed in range(8)],
        axis=0,
    )
    noise = NOISE**2 * 2 / np.pi * arcsin[:K, :K]
    # 2^16 Sobol points on a discontinuous integrand: relative error 1e-3 (gaussian-integrals.md, section 7: relu 3e-4)
    C = ETA**2 * np.outer(w[:K], w[:K]) * (square + noise)
    np.testing.assert_allclose(found["C"], C, rtol=0, atol=2e-3 * np.abs(C).max())


def test_piecewise_linear_student_of_zero_norm_is_refused():
    S, w = np.diag([0.0, 1.0]), np.array([1.0, -1.0])
    for student, teacher in ((act.absolute, act.relu), (act.leaky_relu(0.1), act.erf)):
        with pytest.raises(ValueError, match="zero norm"):
            bind_numeric(student, teacher, LearningNumbers(1, 1, ETA, ETA_V, NOISE, True)).check(S, w)
    without_kink = act.leaky_relu(1.0)
    bind_numeric(without_kink, act.relu, LearningNumbers(1, 1, ETA, ETA_V, NOISE, True)).check(S, w)


def test_absolute_values_of_opposite_fields_are_equal():
    # |z| = |-z|: a student exactly opposite to its teacher has learned everything
    S, w = np.array([[0.8, -0.8], [-0.8, 0.8]]), np.array([1.0, -1.0])
    f = bind_numeric(act.absolute, act.absolute, LearningNumbers(1, 1, ETA, ETA_V, 0.0, True))
    found = evaluate(f, S, w, 1)
    assert found["eps_g"] == pytest.approx(0, abs=1e-15)
    assert found["C"][0, 0] == pytest.approx(0, abs=1e-15)
    assert found["dv"][0] == pytest.approx(0, abs=1e-15)


def test_mixture_of_tanh():
    x = np.linspace(-20, 20, 4001)
    mixture = act.tanh.mixture
    fit = sum(a * act.erf(b * x) for a, b in zip(mixture.amplitudes, mixture.scales, strict=True))
    # the sup error that the record states, and that gaussian-integrals.md gives for four terms (1.0e-5)
    assert np.abs(fit - np.tanh(x)).max() == pytest.approx(mixture.error, rel=1e-2)
    assert mixture.error < 1.1e-5
    # the stored numbers are those of the fit; six terms are better
    assert fit_erf_mixture(np.tanh).scales == pytest.approx(mixture.scales, rel=1e-4)
    assert fit_erf_mixture(np.tanh, J=6).error < 3e-7


def test_only_odd_sigmoids_are_fitted():
    for g in (softplus, np.cos, np.sin, np.zeros_like, act.linear.g):
        assert fit_erf_mixture(g) is None
    # a scaled and stretched tanh has the same relative error
    assert fit_erf_mixture(lambda x: -3 * np.tanh(x / 4)).error == pytest.approx(3e-5, rel=0.1)


def test_single_component_mixture_is_the_kernel():
    K, S, w = 2, *random_state(2, 2, 9)
    scaled = act.Activation("erf(2x)", None, None, mixture=ScaledSum(ERF, (1.5,), (2.0,)))
    found = numeric(scaled, act.relu, S, w, K)
    # g(x) = 1.5 erf(2x / sqrt 2): the same physics with doubled student fields; dF/dlambda = 2 dF'/d(2 lambda)
    stretch = np.array([2.0, 2.0, 1.0, 1.0])
    expected = closed(erf_closure, RELU, S * np.outer(stretch, stretch), w * [1.5, 1.5, 1.0, 1.0], K)
    expected["A"], expected["B"], expected["C"] = 4 * expected["A"], 2 * expected["B"], 4 * expected["C"]
    expected["dv"] = 1.5 * expected["dv"]
    assert_same(found, expected, atol=1e-14)


def test_tanh_follows_its_teacher_down():
    S, w = np.array([[1.0, 1 - 1e-10], [1 - 1e-10, 1.0]]), np.array([1.0, -1.0])
    f = bind_numeric(act.tanh, act.tanh, LearningNumbers(1, 1, 1.0, 1.0, 0.0, True))
    found = evaluate(f, S, w, 1)
    x = np.linspace(-9, 9, 4001)
    p = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    slope2, slope4 = p @ act.tanh.dg(x) ** 2, p @ act.tanh.dg(x) ** 4
    # Delta = g'(z) (a - b) to first order: eps_g = E[g'^2] E(a - b)^2 / 2, C = E[g'^4] E(a - b)^2, E(a - b)^2 = 2e-10;
    # the slopes of the mixture are within 1e-4, rounding of the arcsines 1e-16 / 1e-10
    assert found["eps_g"] == pytest.approx(slope2 * 1e-10, rel=1e-4)
    assert found["C"][0, 0] == pytest.approx(slope4 * 2e-10, rel=1e-4)


def test_user_options_can_replace_the_mixture():
    direct = replace(act.tanh, mixture=None, second_order="pairs")
    K, S, w = 2, *random_state(2, 1, 3)
    found, mixture = numeric(direct, direct, S, w, K), numeric(act.tanh, act.tanh, S, w, K)
    assert_same(found, mixture, atol=5e-5)
    assert np.any(found["A"] != mixture["A"])
