"""A user's declarations of a rule: functions, noise and breaks, checked, compiled and tried at random fields."""

import numpy as np
from numba.core.errors import NumbaError

from .._base import check
from .._base.jit import compile_once, made
from ..gaussian.iterated import MOST
from ._rule import BY_TOKENS, flat

PACKAGE = __name__.partition(".")[0] + "."
PROBES = 64  # random fields at which a force is tried before anything else
ARGUMENTS = "force(lam (K,), nu (M,), xi, theta (K,), S (K + M, K + M), F (K,), G (K,)), which fills F and G"
OF_TOKENS = ARGUMENTS.replace("lam (K,), nu (M,)", "lam (T, K), nu (T, M)").replace("F (K,)", "F (T, K)")


def compiled(role, function, signature, expected, tokens=()):
    """A function for its one signature, as compiled code calls it; one of a user sees ``tokens`` = (T, K, M) apart."""
    expected = OF_TOKENS if tokens and role == "force" else expected
    if (getattr(function, "__module__", None) or "").startswith(PACKAGE) and hasattr(function, "compile"):
        compile_once(function, signature)  # of the library, kept on disk
        return function
    wanted = BY_TOKENS[role] if tokens else signature
    kernel = made(getattr(function, "py_func", function), wanted)
    if not hasattr(kernel, "compile"):
        return flat(role, kernel, *tokens) if tokens else kernel
    try:
        compile_once(kernel, wanted)
    except (NumbaError, TypeError, ValueError, NotImplementedError, AttributeError) as error:
        line = next((x.strip() for x in str(error).splitlines() if x.strip()), type(error).__name__)
        raise ValueError(f"numba cannot compile {role} = {function!r}: {line} Expected {expected}.") from None
    if tokens:
        kernel = flat(role, kernel, *tokens)
        compile_once(kernel, signature)
    return kernel


def checked_tokens(tokens, covariance, n, closed):
    """Number T of inputs in a sample, and their covariance (T, T): the identity by default."""
    T = check.count("tokens", tokens)
    if T > 1 and T * n > MOST and not closed:
        raise ValueError(
            f"tokens = {T} with K + M = {n}: T (K + M) = {T * n} fields; expected at most {MOST}. Rewards of any "
            "number of answers are ov.rules.episode, sums over patches ov.rules.patches; for others, others=."
        )
    if covariance is not None and T > 1 and check.axes("token_covariance", covariance) == 3:
        if closed:
            raise ValueError("token_covariance of each eigenspace with a rule in closed form; expected one (T, T).")
        each = check.array("token_covariance", covariance, ("L", T, T))
        return T, np.array([checked_tokens(T, c, n, closed)[1] for c in each])
    c = np.eye(T) if covariance is None else check.array("token_covariance", covariance, (T, T), "Or (L, T, T).")
    if not np.allclose(np.diag(c), 1, rtol=0, atol=check.PSD_TOLERANCE):
        raise ValueError(f"token_covariance has the diagonal {np.diag(c)}; expected ones: Sigma is that of each token.")
    check.symmetric("token_covariance", c)
    check.positive_semidefinite("token_covariance", c, "Expected c_ab = E[x^a . x^b] / N.")
    return T, c


def checked_noise(noise):
    """The noise, checked."""
    if noise is None or (isinstance(noise, str) and noise == "normal"):
        return noise
    if isinstance(noise, tuple | list) and len(noise) == 2:
        values = check.array("noise: values", noise[0], ("m",))
        if callable(noise[1]):
            return values, noise[1]
        chances = check.array("noise: probabilities", noise[1], (len(values),))
        _check_probabilities("noise: probabilities", chances)
        return values, chances
    if all(hasattr(noise, x) for x in ("pdf", "cdf", "ppf", "rvs", "support")):
        return noise
    raise ValueError(
        f"noise = {check.shown(noise)}; expected None, 'normal', (values, probabilities), (values, chance), or a "
        "frozen continuous distribution such as scipy.stats.cauchy(scale=0.5)."
    )


def _check_probabilities(what, p):
    if not (np.all(p >= 0) and abs(np.sum(p) - 1) < 1e-9):
        raise ValueError(f"{what} {p}; expected probabilities >= 0 that sum to 1.")


def checked_breaks(breaks, n, continuous):
    """Planes (m, n + 1), or (m, n + 2) where the noise is continuous."""
    width = n + 1 + continuous
    if breaks is None or (check.axes("breaks", breaks) and np.size(breaks) == 0):
        return np.zeros((0, width))
    expected = f"rows (c, t) of length {n + 1}" + (f", or (c, c_xi, t) of length {n + 2}" if continuous else "")
    planes = np.asarray(breaks)
    if planes.ndim != 2 or planes.shape[1] not in {n + 1, width}:
        raise ValueError(f"breaks has shape {planes.shape}; expected {expected}: planes c . (lam, nu) = t.")
    planes = check.array("breaks", breaks, planes.shape)
    if planes.shape[1] < width:
        planes = np.insert(planes, n, 0.0, axis=1)
    if len(planes) > 8:
        raise ValueError(f"breaks has {len(planes)} rows; expected at most 8 planes.")
    for i, row in enumerate(planes):
        if not np.any(row[:-1]):
            raise ValueError(f"breaks[{i}] = {row} has no coefficients; expected {expected}.")
    return planes


def probe(rule):
    """Try the functions of a rule at random fields."""
    force, error, chance = rule.functions
    rng, T, K, n = np.random.default_rng(20), rule.tokens, rule.K, rule.K + rule.M
    S, theta = 0.7 * np.eye(n) + 0.3, np.r_[rng.uniform(0.5, 1.5, K), np.array(rule.numbers, float)]
    largest, root = 0.0, np.linalg.cholesky(S)
    for _ in range(PROBES):
        z, F, G = root @ rng.standard_normal((n, T)), np.zeros(T * K), np.zeros(K)
        lam, nu, xi = z[:K].T.ravel(), z[K:].T.ravel(), rng.standard_normal()
        if isinstance(rule.noise, tuple):
            values, p = rule.noise
            if callable(p):
                p = np.zeros(len(values))
                chance(nu, theta, p)
                _check_probabilities("noise: chance fills", p)
            xi = values[rng.choice(len(values), p=p / p.sum())]
        force(lam, nu, xi, theta, S, F, G)
        outcome = np.array([*F, *G, error(lam, nu, theta)])
        if not np.all(np.isfinite(outcome)):
            raise ValueError(
                f"force gives F = {F}, G = {G} and error {outcome[-1]:g} at lam = {lam}, nu = {nu}, xi = {xi:.4g}; "
                "expected finite numbers. F and G are to be filled: F[0] = ..."
            )
        largest = max(largest, np.max(np.abs(outcome[:-1])))
    if rule.others is not None:
        largest = rule.sees[1]
    if largest == 0:
        raise ValueError(f"force fills neither F nor G at {PROBES} random fields; expected {ARGUMENTS}.")


def sees(rule):
    """(Whether ``others`` is 0 or 1 at random fields, largest force there); refused where more moments are needed."""
    force, others = rule.alone
    rng, K, M, answers, bent, largest = np.random.default_rng(20), rule.K, rule.M, set(), 0.0, 0.0
    theta, S = np.r_[rng.uniform(0.5, 1.5, K), np.array(rule.numbers, float)], np.eye(K + M)
    for _ in range(PROBES):
        lam, nu, parts = rng.standard_normal(K), rng.standard_normal(M), np.zeros((4, 2 * K))
        answers.add(others(lam, nu, theta))
        for part, xi in zip(parts, (-1.0, 0.5, 2.0, rule.tokens - 1.0), strict=True):  # three equally far apart
            force(lam, nu, xi, theta, S, part[:K], part[K:])
        largest = max(largest, np.max(np.abs(parts)))
        bent = max(bent, np.max(np.abs(parts[0] - 2 * parts[1] + parts[2])))
    if not answers <= {0.0, 1.0} and not bent <= 1e-9 * largest:
        raise ValueError(
            f"others gives {max(answers):.4g}, and the force is not linear in xi, its sum over the other tokens: "
            f"second differences are {bent:.1g}. Expected 0 or 1, or a linear force, whose averages need two moments."
        )
    return answers <= {0.0, 1.0}, largest
