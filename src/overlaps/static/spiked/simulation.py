"""Experiments for comparison with the theory of one giant gradient step: the network, and its model at finite size."""

import math
from concurrent.futures import Executor
from functools import partial
from typing import Any, Literal

import numpy as np

from ..._base import ArrayLike, Function, Immutable, Rng, bar, check, warn
from ..._base.parallel import run_all, worded
from .draws import DRAWS, Setup, Step, network_draw
from .letters import checked_fractions, law_of, letters_of_law
from .losses import CLASSIFIER_ERRORS, LOSSES, LossName
from .model import Spiked

__all__ = ["OneStepRuns", "simulate_one_step", "simulate_srf"]


class OneStepRuns(Immutable):
    """Independent draws of a one-step experiment; made by :func:`simulate_one_step` and :func:`simulate_srf`.

    Attributes
    ----------
    d, p : int
        Input dimension and width.
    alpha, lam : ndarray, shape (...)
        Samples of the readout over d (as realised, n/d) and ridge penalty: one number each, or arrays.
    mse, train : ndarray, shape (draws, ...)
        Test error E[(y - yhat)^2] on fresh samples, and training error (1/n) sum (y - yhat)^2.
    m, theta, psi, q1, q2 : ndarray, shape (draws, ...)
        Order parameters of the trained readout, sums over all neurons.
    r, gamma, c : ndarray, shape (draws, blocks), (draws,), (draws, blocks)
        Norm of the spike, its overlap with the target's direction, mean squared norm of the rest of a row: measured on
        the network, given in the model. The spike is the mean change of the rows of a block; with a continuous law of
        the readout it is t_i times one vector, and r and c belong to t = 1.
    wrong, train_wrong, test_loss, train_loss : ndarray, shape (draws, ...), or None
        With ``loss=``: fractions of wrong signs, and mean losses, on fresh and on training samples. The labels y are
        sign(target) then, in ``mse`` and ``train`` too.
    srf : OneStepRuns or None
        The model with the measured spike and c on the same initial rows and data (``paired=True``).
    success, message : bool, str
        Whether all draws were finished, and their number or the reason.
    """

    d: int
    p: int
    alpha: np.ndarray
    lam: np.ndarray
    mse: np.ndarray
    train: np.ndarray
    m: np.ndarray
    theta: np.ndarray
    psi: np.ndarray
    q1: np.ndarray
    q2: np.ndarray
    r: np.ndarray
    gamma: np.ndarray
    c: np.ndarray
    wrong: np.ndarray | None = None
    train_wrong: np.ndarray | None = None
    test_loss: np.ndarray | None = None
    train_loss: np.ndarray | None = None
    srf: "OneStepRuns | None" = None
    success: bool = True
    message: str = ""

    def mean(self, name="mse"):
        """Mean over draws of one of the arrays; nan if a draw is lost."""
        return getattr(self, name).mean(axis=0)

    def error(self, name="mse"):
        """Standard error of that mean (nan with a single draw)."""
        values = getattr(self, name)
        if len(values) < 2:
            return np.full_like(values[0], np.nan)
        return values.std(axis=0, ddof=1) / math.sqrt(len(values))

    def __len__(self):
        return len(self.mse)

    def __repr__(self):
        points = "" if self.mse.ndim == 1 else f", {self.mse[0].size} points"
        return f"OneStepRuns(d={self.d}, p={self.p}, {len(self)} draws{points}, mse={np.mean(self.mse):.4g})"


def simulate_one_step(
    student: Function,
    target: Function,
    *,
    eta_tilde: float,
    alpha0: float,
    beta: float,
    alpha: ArrayLike,
    lam: ArrayLike,
    d: int,
    rng: Rng,
    draws: int = 5,
    scaling: Literal["d", "p"] = "d",
    noise: float = 0.0,
    readout: ArrayLike = (1.0,),
    fractions: ArrayLike | None = None,
    rows: Literal["sphere", "gaussian", "orthonormal"] = "sphere",
    paired: bool = False,
    loss: LossName | None = None,
    test: int | None = None,
    progress: bool = False,
    executor: Executor | None = None,
) -> "OneStepRuns":
    r"""Two-layer networks of finite size: one giant gradient step, then ridge regression of the readout.

    .. math::
        w_i &\mathrel{+}= \tau t_i\, \frac{1}{n_0} \sum_{\mu \le n_0} (y_\mu - f(x_\mu))\, \sigma'(w_i \cdot x_\mu)\,
              x_\mu, \qquad f(x) = \frac1p \sum_i t_i\, \sigma(w_i \cdot x), \\
        \hat a &= {\rm argmin}_a \sum_{\mu \le n} \Big(y_\mu - \frac{1}{\sqrt p} \sum_i a_i\, \sigma(w_i \cdot x_\mu)
              \Big)^2 + \lambda |a|^2 \quad \mbox{on fresh samples.}

    *Exact* at finite size; nothing is approximated (with ``alpha0=inf``: Hermite orders up to five in the overlaps of
    rows, which are 1/sqrt(d)). The theory of :class:`SpikedRandomFeatures` describes this network within 10 % in the
    settings tested (alpha0 >= 1), better if c - 1 is small, worse for large steps on few samples. The theory includes
    r, gamma and c but not the neuron-dependent features of size 1/sqrt(d) of the gradient; an example of the gallery,
    ``plot_spiked_finite_batch``, includes them. Source: Cui et al. (2024), arXiv:2402.04980.

    Parameters
    ----------
    student, target : callable
        sigma and sigma_star, vectorised.
    eta_tilde, scaling : float, {"d", "p"}
        Learning rate eta = eta_tilde d (then tau = eta_tilde / beta), or eta_tilde p (then tau = eta_tilde).
    alpha0 : float
        Samples of the step over d, n0/d; ``inf`` takes the population gradient.
    beta : float
        Width over dimension, p/d.
    alpha, lam : float or array_like
        Samples n/d and penalties of the readout, broadcast against each other; all points use nested sets of samples.
    d : int
        Input dimension.
    rng : int or numpy.random.Generator
        Seed or generator; draw i uses its i-th spawned child, for any number of draws and workers.
    draws : int
        Independent draws of rows, direction and data.
    noise : float
        Standard deviation of the label noise, in the step, the readout and the test.
    readout, fractions : sequence of float, shape (blocks,)
        Initial readout a_i = t_b / sqrt(p), and the fractions of the neurons with these values (equal by default). Or
        a continuous law, as in :meth:`SpikedRandomFeatures.after_one_step`: the t_i are its p quantiles.
    rows : {"sphere", "gaussian", "orthonormal"}
        Initial rows: uniform on the unit sphere, N(0, 1/d) entries, or orthonormal (p <= d).
    paired : bool
        Also train the spiked random features that have the measured spike and bulk norm, on the same rows and data.
    loss : {"square", "logistic", "hinge"}, optional
        Train a classifier, as in :meth:`SpikedRandomFeatures.solve`: labels are sign(target) in the readout and the
        test, while the step uses the target itself. Solved by Newton's method, the hinge smoothed over 1e-3.
    test : int, optional
        Samples of the test error; 10 d by default.
    progress : bool
        Show a progress bar.
    executor : concurrent.futures.Executor, optional
        Draws are submitted to it; results do not depend on it. Draws that are lost (Ctrl-C, an exception, a dead
        worker) are nan, with a warning, a sentence in ``message`` and ``success=False``; the others are returned.

    Raises
    ------
    ValueError
        An argument out of range, orthonormal rows with p > d.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.static.simulate_one_step(
    ...     np.tanh, np.sin, eta_tilde=2.0, alpha0=2.0, beta=1.0, alpha=[0.5, 1.0], lam=0.1, d=60, rng=1
    ... ).mse.shape
    (5, 2)
    """
    check.choice("scaling", scaling, ("d", "p"), "The rate is eta_tilde d or eta_tilde p.")
    check.flag("paired", paired)
    check.choice("rows", rows, DRAWS.initial_rows)
    beta = check.number("beta", beta, above=0)
    eta_tilde = check.number("eta_tilde", eta_tilde, above=0)
    if check.axes("alpha0", alpha0) or alpha0 != math.inf:
        check.number("alpha0", alpha0, above=0, hint="alpha0=math.inf takes the population gradient.")
    elif rows == "gaussian":
        raise ValueError("alpha0 = inf with rows='gaussian'; expected unit rows. Try rows='sphere', or a large alpha0.")
    law = law_of(readout)
    if law is None:
        t = check.array("readout", readout, ("blocks",), "At least one letter, such as (1.0,).", filled=True)
    fractions = checked_fractions("readout", 1 if law else t.size, fractions)
    setup, shape = _setup(student, target, noise, d, beta, rows, alpha, lam, fractions, test, loss)
    n0 = 0 if alpha0 == math.inf else max(1, round(alpha0 * setup.d))
    t = t[setup.letter] if law is None else letters_of_law(law, setup.p)
    step = Step(n0, eta_tilde / beta if scaling == "d" else eta_tilde, t, law is not None)
    return _runs(partial(network_draw, setup, step, paired), setup, shape, rng, draws, progress, executor)


def simulate_srf(
    model: Any,
    *,
    alpha: float | ArrayLike,
    lam: float | ArrayLike,
    d: int,
    rng: Rng,
    draws: int = 5,
    rows: Literal["sphere", "gaussian", "orthonormal"] | None = None,
    loss: LossName | None = None,
    test: int | None = None,
    progress: bool = False,
    executor: Executor | None = None,
) -> "OneStepRuns":
    r"""Spiked random features at finite size: rows r v + sqrt(c) w0, ridge regression of the readout.

    *Exact* at finite size. Draws scatter, and their mean differs from the theory by O(1/d): m^2 E[c mu1^2 + mu2^2]/p
    and more. With blocks that is the sum over b of m_b^2 E[c_b mu1_b^2 + mu2_b^2]/(rho_b p). Blocks of similar spikes,
    whose mu0 are almost proportional, have m_b of order ten and opposite signs; the limit is then reached only if the
    sum is small against the error (d > 10^4 in bad cases). ``rows="gaussian"`` with r > 0 is not described by the
    theory, because fluctuating norms of rows act as one more feature (:func:`gaussian_rows`).

    Parameters
    ----------
    model : SpikedRandomFeatures or SpikedSubspace
        Functions, r, gamma, c, beta, noise, bias, blocks and kap. With several directions ``theta`` and ``psi`` are
        overlaps along the first of them.
    rows : {"sphere", "gaussian", "orthonormal"}, optional
        The model's own by default. The same seed gives the same data with any rows.
    alpha, lam, d, rng, draws, loss, test, progress, executor
        As in :func:`simulate_one_step`.

    Raises
    ------
    ValueError
        An argument out of range, orthonormal rows with p > d.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> model = ov.static.SpikedRandomFeatures(np.tanh, np.sin, r=1.2, gamma=0.9, c=1.1, beta=1.0)
    >>> ov.static.simulate_srf(model, alpha=1.0, lam=0.1, d=60, rng=1).mse.shape
    (5,)
    """
    if not isinstance(model, Spiked):
        check.record("model", model, "SpikedRandomFeatures")
    fractions = model.block_fractions if model.law is None else np.ones(1)
    default = "orthonormal" if model.rows == "orthonormal" else "sphere"
    rows = default if rows is None else check.choice("rows", rows, DRAWS.initial_rows)
    if model.bulk is not None:
        rows = model.bulk
    functions = model.student, model.target
    setup, shape = _setup(*functions, model.noise, d, model.beta, rows, alpha, lam, fractions, test, loss)
    setup = setup._replace(bias=model.bias, offset=np.resize(model.offset, fractions.shape)[setup.letter])
    return _runs(model._draw(setup), setup, shape, rng, draws, progress, executor)


def _setup(student, target, noise, d, beta, rows, alpha, lam, fractions, test, loss):
    for name, f in (("student", student), ("target", target)):
        if not callable(f):
            raise check.refused(name, f, "a vectorised function such as np.tanh or ov.erf.")
    d = check.count("d", d, least=2)
    p = max(1, round(beta * d))
    if isinstance(rows, str) and rows == "orthonormal" and p > d:
        raise ValueError(f"p = {p} orthonormal rows in d = {d} dimensions; expected beta <= 1. Try rows='sphere'.")
    alpha, lam = _positive("alpha", alpha), _positive("lam", lam)
    try:
        alpha, lam = np.broadcast_arrays(alpha, lam)
    except ValueError:
        raise ValueError(
            f"alpha has shape {np.shape(alpha)}, lam has shape {np.shape(lam)}; expected shapes that broadcast."
        ) from None
    n = tuple(max(1, check.count("alpha d", round(x * d), least=0)) for x in alpha.ravel().tolist())
    letter = _letters(fractions, p)
    noise = check.number("noise", noise, least=0, hint="noise is a standard deviation.")
    test = 10 * d if test is None else check.count("test", test)
    if loss is not None:
        check.choice("loss", loss, LOSSES, "Without loss= the readout is ridge regression.")
        if noise:
            raise check.refused("noise", noise, "0: labels are sign(target).", after=f" with loss={loss!r}")
    sizes = d, p, rows, n, tuple(lam.ravel().tolist()), test, letter
    return Setup(student, target, noise, *sizes, loss=loss), alpha.shape


def _positive(name, value):
    """One or more finite numbers > 0, in any shape."""
    values = check.floats(name, value, "finite numbers > 0")
    if values.size == 0 or not np.all((values > 0) & (values < check.LIMITS.max_magnitude)):
        raise check.refused(name, value, f"finite numbers > 0 and below {check.LIMITS.max_magnitude:g}, at least one.")
    return values


def _letters(fractions, p):
    """Block of each of p neurons; neurons of a block are consecutive."""
    ends = np.rint(np.cumsum(fractions) * p).astype(int)
    if np.any(np.diff(ends, prepend=0) == 0):
        raise ValueError(f"fractions = {fractions} leave a block of p = {p} neurons empty; try a larger d.")
    return np.searchsorted(ends, np.arange(p), side="right")


def _runs(draw, setup, shape, rng, draws, progress, executor):
    check.executor(executor)
    children = check.generator(rng).spawn(check.count("draws", draws))
    jobs = {i: partial(draw, child=child) for i, child in enumerate(children)}
    with bar(progress, len(jobs), "draws") as tick:
        outcomes, errors = run_all(jobs, executor, tick, needed=True)
    message = f"{len(jobs)} draws finished."
    if len(outcomes) < len(jobs):
        message = worded(f"{len(outcomes)} of {len(jobs)} draws finished", errors, lambda i: f"is draw {i}")
        warn(message + " The others are nan." + check.see("spiked", "Errors"))
    ended = len(outcomes) == len(jobs), message
    lost = [  # nan in the shape of a finished draw
        draw and {name: np.full_like(value, np.nan, dtype=float) for name, value in draw.items()}
        for draw in next(iter(outcomes.values()))
    ]
    network, partners = zip(*(outcomes.get(i, lost) for i in jobs), strict=True)
    srf = None if partners[0] is None else _result(partners, setup, shape, None, *ended)
    return _result(network, setup, shape, srf, *ended)


def _result(draws, setup, shape, srf, success, message):
    arrays: dict[str, Any] = {name: np.array([draw[name] for draw in draws]) for name in draws[0]}
    # fields with a value at each point (alpha, lam)
    for name in ("mse", "train", "m", "theta", "psi", "q1", "q2", *(CLASSIFIER_ERRORS if setup.loss else ())):
        arrays[name] = arrays[name].reshape(len(draws), *shape)
    alpha = np.array(setup.n, dtype=float).reshape(shape) / setup.d
    known: dict[str, Any] = {"d": setup.d, "p": setup.p, "alpha": alpha, "lam": np.reshape(setup.lam, shape)}
    return OneStepRuns(**known, **arrays, srf=srf, success=success, message=message)
