"""Validation of a user's rule: functions, noise and breaks are checked, compiled and called at random fields."""

import dis
from types import CellType, FunctionType
from typing import NamedTuple

import numpy as np
from numba.core.errors import NumbaError

from .._base import check
from .._base.jit import compile_once, jit_user
from ..gaussian.iterated import MAX_VARIABLES as MAX_FIELDS
from ._rule import TOKEN_SIGNATURES, flat
from .laws import proper


class TrialOptions(NamedTuple):
    """Numbers of the trial calls of a user's functions."""

    probes: int = 64  # random fields at which functions are called
    # Numbers before and behind each array that detect wrong indices of compiled code; indices further away may crash
    # the process.
    guard_size: int = 64
    guard_values: tuple[float, float] = (1.7, -2.3)  # both signs, so that branches differ


class Role(NamedTuple):
    """Arguments of a user's function, and its expected effect and form in error messages."""

    arguments: tuple[str, ...]
    expected: str
    form: str


TRIALS = TrialOptions()
ROLES = {
    "force": Role(
        ("lam", "nu", "xi", "theta", "S", "F", "G"),
        "it to fill F and G",
        "force(lam (K,), nu (M,), xi, theta (K,), S (K + M, K + M), F (K,), G (K,)), which fills F and G",
    ),
    "error": Role(("lam", "nu", "theta"), "a number", "error(lam, nu, theta) -> float"),
    "others": Role(("lam", "nu", "theta"), "a number", "others(lam, nu, theta) -> float"),
    "chance": Role(("nu", "theta", "p"), "it to fill p", "chance(nu, theta, p), which fills p"),
}


def compiled(role, function, signature, tokens=()):
    """A function compiled for its signature; those of users take fields (T, K), (T, M) if ``tokens`` = (T, K, M)."""
    expected = ROLES[role].form
    if tokens and role == "force":
        expected = expected.replace("lam (K,), nu (M,)", "lam (T, K), nu (T, M)").replace("F (K,)", "F (T, K)")
    package = __name__.partition(".")[0] + "."
    if (getattr(function, "__module__", None) or "").startswith(package) and hasattr(function, "compile"):
        compile_once(function, signature)  # a function of the library, whose code is cached on disk
        return function
    user_signature = getattr(TOKEN_SIGNATURES, role) if tokens else signature
    kernel = jit_user(getattr(function, "py_func", function), user_signature)
    if not hasattr(kernel, "compile"):
        return flat(role, kernel, *tokens) if tokens else kernel
    try:
        compile_once(kernel, user_signature)
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
    if T > 1 and T * n > MAX_FIELDS and not closed:
        raise ValueError(
            f"tokens = {T} with K + M = {n}: T (K + M) = {T * n} fields; expected at most {MAX_FIELDS}. Rewards of any "
            "number of answers are ov.rules.episode, sums over patches ov.rules.patches; for others, others=."
        )
    if covariance is not None and T > 1 and check.axes("token_covariance", covariance) == 3:
        if closed:
            raise ValueError("token_covariance of each eigenspace with a rule in closed form; expected one (T, T).")
        each = check.array("token_covariance", covariance, ("L", T, T))
        return T, np.array([checked_tokens(T, c, n, closed)[1] for c in each])
    c = np.eye(T) if covariance is None else check.array("token_covariance", covariance, (T, T), "Or (L, T, T).")
    if not np.allclose(np.diag(c), 1, rtol=0, atol=check.LIMITS.psd_tol):
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
    if not getattr(proper, "py_func", proper)(p):  # in Python, because compiling costs more for a few numbers
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
    """Call the functions of a rule at random fields; return whether the force reads S."""
    force, error, chance = rule.functions
    force, others = rule.token_functions if rule.others is not None else (force, None)
    tried = {"force": (rule.force, force), "error": (rule.error, error), "others": (rule.others, others)}
    tried = {role: (python_form(x), y) for role, (x, y) in tried.items() if x is not None}
    K, n = rule.K, rule.K + rule.M
    tokens = (rule.tokens,) if rule.tokens > 1 and others is None else ()
    rng, largest, reads = np.random.default_rng(20), 0.0, False
    S, other = 0.7 * np.eye(n) + 0.3, (0.5 * np.eye(n) + 0.5) * np.outer(*2 * [rng.uniform(0.6, 1.4, n)])
    for _ in range(TRIALS.probes):
        z, xi = rng.standard_normal((*tokens, n)) @ np.linalg.cholesky(S).T, rng.standard_normal()
        lam, nu, F, G = z[..., :K].copy(), z[..., K:].copy(), np.zeros((*tokens, K)), np.zeros(K)
        theta = np.r_[rng.uniform(0.5, 1.5, K), np.array(rule.numbers, float)]
        if isinstance(rule.noise, tuple):
            values, p = rule.noise
            if callable(p):
                p = trial("chance", python_form(p), chance, nu, theta, np.zeros(len(values)))
                _check_probabilities("noise: chance fills", p)
            xi = values[rng.choice(len(values), p=p / p.sum())]
        outcome = trial("force", *tried["force"], lam, nu, xi, theta, S, F, G)
        reads |= not np.array_equal(outcome, trial("force", *tried["force"], lam, nu, xi, theta, other, F, G))
        errors = [trial(role, *tried[role], lam, nu, theta) for role in ("error", "others") if role in tried]
        if not np.all(np.isfinite(np.concatenate([outcome, *errors]))):
            raise ValueError(
                f"force gives F = {outcome[:-K]}, G = {outcome[-K:]} and error {np.ravel(errors)} at lam = {lam}, "
                f"nu = {nu}, xi = {xi:.4g}; expected finite numbers. The function must fill F and G: F[0] = ..."
            )
        largest = max(largest, np.max(np.abs(outcome)))
    if rule.others is not None:
        largest = rule.others_moments[1]
    if largest == 0:
        raise ValueError(
            f"force fills neither F nor G at {TRIALS.probes} random fields; expected {ROLES['force'].form}."
        )
    if reads and rule.uses_overlaps is False:
        raise ValueError(
            f"uses_overlaps = False, but the force {rule.name!r} reads S: two S give different forces at equal fields. "
            "Expected uses_overlaps=True, or nothing."
        )
    return reads or loads(rule.force, ROLES["force"].arguments.index("S"))


def trial(role, form, compiled, *given):
    """Arrays that a function fills, or its value, at these arguments; refused if it reads or writes anything else.

    Compiled code does not check indices. The Python form does, and compiled code gets arrays between guards, which it
    must not change and on which its results must not depend.
    """
    names, filled_names = ROLES[role].arguments, {"F", "G", "p"}
    expected = ", ".join(f"{name} {x.shape}" for name, x in zip(names, given, strict=True) if np.ndim(x))
    try:
        form(*(x.copy() if np.ndim(x) else x for x in given))
    except IndexError as error:
        raise ValueError(f"{role} has an index beyond its arrays: {error}. Expected {expected}.") from None
    except Exception:  # Python may fail where compiled code does not, as in math.exp(1000); the guards suffice then
        pass
    results = []
    for fill in (TRIALS.guard_values[0], *TRIALS.guard_values):
        guarded = [_between_guards(name, x, fill) for name, x in zip(names, given, strict=True)]
        value = compiled(*(x for x, _ in guarded))
        for name, before, (x, padded) in zip(names, given, guarded, strict=True):
            if not np.all(padded[: TRIALS.guard_size] == fill) or not np.all(padded[-TRIALS.guard_size :] == fill):
                raise ValueError(f"{role} writes beyond {name}. Expected {expected}.")
            if name not in filled_names and not np.array_equal(np.ravel(x), np.ravel(before)):
                raise ValueError(
                    f"{role} changes {name}; expected {ROLES[role].expected}. Copy first: x = {name}.copy()."
                )
        filled = [x for name, (x, _) in zip(names, guarded, strict=True) if name in filled_names]
        results.append(np.concatenate(filled) if filled else np.array([value]))
    causes = "draws random numbers, or counts its calls", "reads beyond its arrays"
    for result, cause in zip(results[1:], causes, strict=True):
        if not np.array_equal(results[0], result, equal_nan=True):
            raise ValueError(
                f"{role} gives {results[0]}, then {result} at equal arguments: it {cause}. Expected {expected}, and "
                "randomness in noise= only."
            )
    return results[0]


def _between_guards(name, x, fill):
    """(An argument of compiled code, the array with guards around it); only S keeps its two dimensions."""
    size = TRIALS.guard_size
    padded = np.full(np.size(x) + 2 * size, fill)
    if not np.ndim(x):
        return x, padded
    padded[size:-size] = x.ravel()
    inner = padded[size:-size]
    return inner.reshape(x.shape) if name == "S" else inner, padded


def python_form(function, known=None):
    """The Python form of a function and of the compiled functions that it calls, in which indices are checked."""
    known = {} if known is None else known
    f = getattr(function, "py_func", function)
    if not isinstance(f, FunctionType) or f in known:
        return known.get(f, function)

    def plain(x):
        return python_form(x, known) if hasattr(x, "py_func") else x

    cells = tuple(CellType() for _ in f.__closure__ or ())
    names = {name: f.__globals__[name] for name in f.__code__.co_names if name in f.__globals__}
    known[f] = FunctionType(f.__code__, dict(f.__globals__), f.__name__, f.__defaults__, cells)
    known[f].__globals__.update({name: plain(x) for name, x in names.items()})
    for cell, before in zip(cells, f.__closure__ or (), strict=True):
        cell.cell_contents = plain(before.cell_contents)
    return known[f]


def loads(function, number):
    """Whether the code of a function uses its argument of this number."""
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    if code is None or code.co_argcount <= number:
        return False
    name = code.co_varnames[number]
    used = (x.argval if isinstance(x.argval, tuple) else (x.argval,) for x in dis.get_instructions(code))
    return any(name in several for several in used)


def uses_theta(rule):
    """Whether the force, the error or the probabilities of a rule depend on theta, or the force changes theta."""
    force, error, chance = rule.functions
    rng, K, M, numbers = np.random.default_rng(20), rule.K, rule.M, np.array(rule.numbers, float)
    for _ in range(TRIALS.probes):
        lam, nu, xi, S = rng.standard_normal(K), rng.standard_normal(M), rng.standard_normal(), np.eye(K + M)
        if isinstance(rule.noise, tuple):
            xi = rng.choice(rule.noise[0])
        outcomes: list[list[float]] = []
        for theta in (np.r_[np.zeros(K), numbers], np.r_[rng.uniform(0.5, 1.5, K), numbers]):
            F, G, p = np.zeros(K), np.zeros(K), np.zeros(len(rule.noise[0]) if isinstance(rule.noise, tuple) else 0)
            force(lam, nu, xi, theta, S, F, G)
            chance(nu, theta, p)
            outcomes.append([*F, *p, error(lam, nu, theta)])
        if np.any(G) or not np.array_equal(outcomes[0], outcomes[1], equal_nan=True):
            return True
    return False


def check_others(rule):
    """(Whether ``others`` is 0 or 1 at random fields, largest force there); refused if more moments are needed."""
    force, others = rule.token_functions
    rng, K, M, answers, curvature, largest = np.random.default_rng(20), rule.K, rule.M, set(), 0.0, 0.0
    theta, S = np.r_[rng.uniform(0.5, 1.5, K), np.array(rule.numbers, float)], np.eye(K + M)
    for _ in range(TRIALS.probes):
        lam, nu, forces = rng.standard_normal(K), rng.standard_normal(M), np.zeros((4, 2 * K))
        answers.add(others(lam, nu, theta))
        for FG, xi in zip(forces, (-1.0, 0.5, 2.0, rule.tokens - 1.0), strict=True):  # the first three equidistant
            force(lam, nu, xi, theta, S, FG[:K], FG[K:])
        largest = max(largest, np.max(np.abs(forces)))
        curvature = max(curvature, np.max(np.abs(forces[0] - 2 * forces[1] + forces[2])))
    if not answers <= {0.0, 1.0} and not curvature <= 1e-9 * largest:
        raise ValueError(
            f"others gives {max(answers):.4g}, and the force is not linear in xi, its sum over the other tokens: "
            f"second differences are {curvature:.1g}. Expected 0 or 1, or a linear force, which needs two moments only."
        )
    return answers <= {0.0, 1.0}, largest
