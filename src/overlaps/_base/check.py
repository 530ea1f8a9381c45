"""Checks of user input.  Each message states the value that was given, what was expected and what to try."""

import numbers
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from .immutable import Immutable


class Limits(NamedTuple):
    """Numbers that separate accepted input from refused input."""

    # Variance of a student, relative to the teachers', below which its direction is undefined.
    zero_norm: float = 1e-12
    # Largest magnitude of numbers that users pass: squares of larger ones overflow in the middle of a run.
    max_magnitude: float = 1e150
    max_integer: int = 2**63 - 1  # largest integer of an array
    # Allowed negative eigenvalues, relative to the trace: overlaps printed with eight digits pass; a wrong sign or a
    # transpose fails.
    psd_tol: float = 1e-8
    # Asymmetry relative to the largest entry up to which the message suggests single precision as its cause.
    single_precision_tol: float = 1e-5


LIMITS = Limits()


def shown(value):
    """The given argument, in one line of at most 100 characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # for example, an integer of more than 4300 digits has no text
        text = f"a {type(value).__name__}"
    return text if len(text) <= 100 else text[:97] + "..."


def refused(name, value, expected, after=""):
    """The error with the name of an argument, its value, a remark ``after`` it, and what is expected."""
    return ValueError(f"{name} = {shown(value)}{after}; expected {expected}")


def see(page, section):
    """Last sentence of a message: a page of docs/ and one of its sections; a test checks that they exist."""
    return f" More: docs/{page}.md, '{section}'."


def scalar(value):
    """The number in an array without axes, of NumPy or another library; other values as they are."""
    is_scalar = getattr(value, "ndim", None) == 0 and hasattr(value, "item") and not np.ma.is_masked(value)
    return value.item() if is_scalar and not isinstance(value, np.generic) else value


def _is(value, cls):
    """Whether a value is a number of a class of ``numbers``; truth values and time spans are excluded."""
    return isinstance(value, cls) and not isinstance(value, bool | np.timedelta64)


def count(name, value, least=1):
    """An integer >= least that fits into an array."""
    value = scalar(value)
    if not _is(value, numbers.Integral) or value < least:
        raise refused(name, value, f"an integer >= {least}.")
    if value > LIMITS.max_integer:
        raise refused(name, value, f"an integer below 2^63 = {float(LIMITS.max_integer):.2g}.")
    return int(value)


def number(name, value, *, above=-np.inf, least=-np.inf, most=np.inf, below=LIMITS.max_magnitude, hint=""):
    """A finite real number > ``above``, >= ``least``, <= ``most``, and of magnitude < ``below``."""
    value = scalar(value)
    try:
        result = float(value) if _is(value, numbers.Real) else np.nan
    except OverflowError:  # an integer or a fraction may be larger than any float
        result = np.inf
    if not (abs(result) < below and result > above and least <= result <= most):
        bounds = {">": above, ">=": least, "<=": most}
        bound = " and".join(f" {sign} {x}" for sign, x in bounds.items() if np.isfinite(x))
        bound += f" and of size below {below:g}" if abs(result) >= below and np.isfinite(result) else ""
        raise refused(name, value, f"a finite number{bound}.{' ' + hint if hint else ''}")
    return result


def index(name, value, n):
    """An integer index into n items; negative ones count from the end."""
    value = scalar(value)
    if not _is(value, numbers.Integral):
        raise TypeError(f"{name} = {shown(value)}; expected an integer: one record at a time. Arrays take slices.")
    if not -n <= value < n:
        raise IndexError(f"{name} = {value}; expected an integer from {-n} to {n - 1}.")
    return range(n)[int(value)]


def kind(name, value, cls, example):
    """An object of the given class."""
    if not isinstance(value, cls):
        cls = cls if isinstance(cls, type) else tuple
        article = "an" if cls.__name__[0] in "AEIOU" else "a"
        raise refused(name, value, f"{article} {cls.__name__} such as {example}.")
    return value


EXAMPLES = {
    "Model": "ov.committee_machine(2, 2, eta=0.5)",
    "State": "model.random_start(N=1000, rng=1)",
    "Spectrum": "ov.power_law(beta=1.0, L=100)",
    "SpikedRandomFeatures": "ov.static.SpikedRandomFeatures(f, h, r=1, gamma=1, beta=1)",
}


def record(name, value, cls, example=None):
    """An ``Immutable`` of the class of this name; by name, because the modules of these classes import this one."""
    return kind(name, value, Immutable.kinds[cls], example or EXAMPLES[cls])


def model(value, name="model"):
    """A Model."""
    return record(name, value, "Model")


def state(value, name="start", example=None):
    """A State."""
    return record(name, value, "State", example)


def spectrum(value, name="spectrum"):
    """A Spectrum."""
    return record(name, value, "Spectrum")


def choice(name, value, known, hint=""):
    """One of some names."""
    if not isinstance(value, str) or value not in known:
        names = [repr(x) for x in known]
        expected = " or ".join(names) if len(names) < 3 else f"one of {', '.join(names)}"
        raise refused(name, value, f"{expected}.{' ' + hint if hint else ''}")
    return value


def flag(name, value):
    """A truth value; text and numbers are refused."""
    value = scalar(value)
    if not isinstance(value, bool | np.bool_):
        raise refused(name, value, "True or False.")
    return bool(value)


def executor(value):
    """None or a :class:`concurrent.futures.Executor`."""
    if value is not None and not isinstance(value, Executor):
        raise ValueError(
            f"executor = {shown(value)}; expected a concurrent.futures.Executor such as ProcessPoolExecutor(4); from a "
            "Dask client: client.get_executor()."
        )
    return value


def generator(rng, name="rng"):
    """A numpy Generator: the one given, or one from a seed."""
    try:
        if isinstance(rng, bool | np.random.RandomState):  # NumPy accepts both, but the latter cannot spawn
            raise TypeError(f"it is a {type(rng).__name__}")
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} = {shown(rng)}; expected a seed (an integer >= 0) or a Generator: {error}.") from None


def floats(name, value, expected="real numbers"):
    """A new float array of real numbers; NumPy alone would drop masks and imaginary parts, and convert text."""
    try:
        raw = np.asarray(value)
        entries = raw.ravel() if raw.dtype.kind == "O" else ()  # for example, integers that NumPy has no type for
        if raw.dtype.kind not in "biufO" or not all(_is(x, numbers.Real) for x in entries):
            raise TypeError
        result = np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} = {shown(value)} is not an array of real numbers; expected {expected}.") from None
    if np.ma.is_masked(value):
        raise ValueError(
            f"{name} has {np.ma.count_masked(value)} masked entries; expected numbers everywhere. Leave them out, or "
            f"fill them with {name}.filled(...)."
        )
    return result


def axes(name, value):
    """Number of axes of a value, 0 for numbers; nested lists must have equal rows."""
    try:
        return np.ndim(value)
    except ValueError:
        raise ValueError(f"{name} = {shown(value)} is ragged; expected a number, or rows of equal length.") from None


def array(name, value, shape, hint="", *, finite=True, filled=False):
    """A float array of the given shape (names of sizes, numbers, leading ...), copied and read-only.

    With ``filled`` it has entries; they are finite, unless ``finite=False``, where nan marks times that a run did not
    reach.
    """
    hint = f" {hint}" if hint else ""
    leading = shape[:1] == (...,)  # any number of leading axes
    expected = "(" + ", ".join("..." if n is ... else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"
    result = floats(name, value, f"shape {expected}")
    sizes = shape[1:] if leading else shape
    given = result.shape[result.ndim - len(sizes) :] if leading and result.ndim >= len(sizes) else result.shape
    if len(given) != len(sizes) or any(isinstance(n, int) and n != m for n, m in zip(sizes, given, strict=True)):
        raise ValueError(f"{name} has shape {result.shape}; expected {expected}.{hint}")
    if filled and not result.size:
        raise ValueError(f"{name} has shape {result.shape}, no entries; expected {expected}.{hint}")
    if finite and not np.all(np.abs(result) < LIMITS.max_magnitude):
        has_infinite = not np.all(np.isfinite(result))
        wrong = "nan or inf" if has_infinite else "numbers that have no square"
        expected = "finite numbers" + ("" if has_infinite else f" of size below {LIMITS.max_magnitude:g}")
        raise ValueError(f"{name} contains {wrong}; expected {expected}.{hint}")
    result.setflags(write=False)
    return result


def times(name, value, below=LIMITS.max_magnitude):
    """Times >= 0 of any shape; inf is allowed."""
    result = floats(name, value, f"{name} >= 0")
    if not np.all(result >= 0):
        raise ValueError(f"{name} contains negative numbers or nan; expected {name} >= 0.")
    if np.any((result >= below) & np.isfinite(result)):
        raise ValueError(
            f"{name} contains {np.max(result[np.isfinite(result)]):g}; expected less than {below:g}, or inf."
        )
    return result


def symmetric(name, value):
    """Matrices (..., n, n) equal to their transpose up to rounding."""
    gap, size = np.max(np.abs(value - np.swapaxes(value, -1, -2)), initial=0.0), np.max(np.abs(value), initial=0.0)
    if gap > LIMITS.psd_tol * max(size, 1e-300):
        cure = f" Rounded to float32? Average it with its transpose, ({name} + {name}.T) / 2."
        raise ValueError(
            f"{name} is not symmetric (largest difference {gap:.3g}); expected {name}_kj = {name}_jk."
            + (cure if gap <= LIMITS.single_precision_tol * size else "")
        )


def positive_definite(value):
    """Whether matrices (..., n, n) have a Cholesky decomposition, which costs less than their eigenvalues."""
    try:
        np.linalg.cholesky(value)
    except np.linalg.LinAlgError:
        return False
    return True


def positive_semidefinite(name, value, hint):
    """Matrices (..., n, n) without eigenvalue below -1e-8 times the trace."""
    if positive_definite(value):
        return
    lowest = np.linalg.eigvalsh(value)[..., 0]
    trace = np.trace(value, axis1=-2, axis2=-1)
    worst = np.argmax(LIMITS.psd_tol * -trace - lowest)
    if np.ravel(lowest)[worst] < -LIMITS.psd_tol * np.ravel(trace)[worst]:
        where = f" (block {worst})" if np.size(lowest) > 1 else ""
        raise ValueError(
            f"{name}{where} is not positive semi-definite: its lowest eigenvalue is {np.ravel(lowest)[worst]:.3g}. "
            f"{hint}"
        )
