r"""Late times of perfectly learnable erf networks on any spectrum: relaxation, error, critical learning rate, noise.

K = M students have found their teachers, orthonormal in every block (t^l = p_l identity, mean eigenvalue one). By
permutation symmetry four deviations per block are left, (r, g, q, c)_l: diagonal and off-diagonal entries of
:math:`r^l - t^l` and :math:`q^l - t^l`. Defaults are those of ``committee_machine(..., normalised=True)``,
v = v* = 1/sqrt(M); other equal weights act as a learning rate M v^2 eta. w stands for sqrt(3). :func:`matrices` and
:func:`first_order` explain the parameters that functions share; results at several times have the shape of alpha.

References
----------
Worschech and Rosenow (2024), arXiv:2410.09005, called [WR] below.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigvals
from scipy.optimize import linear_sum_assignment

from .._base import ArrayLike, Floats, check, public_dir
from ..models import Spectrum, State, isotropic
from .linear.flow import decay_sum, exponent

__all__ = [
    "Matrices", "Window", "critical_eta", "differences", "exponent", "first_order", "generator", "local_slope",
    "matrices", "noise_floor", "relaxation_rates", "second_order", "windows",
]  # fmt: skip
__dir__ = public_dir(__name__)

W = np.sqrt(3.0)  # w of the formulas


class Matrices(NamedTuple):
    """Coefficients of the linear equations of late times; made by :func:`matrices`.

    Attributes
    ----------
    a : float
        Unit of the rates.
    G, H, F : ndarray, shape (4, 4)
        Relaxation of a block, coupling of the blocks, noise of SGD.
    """

    a: float
    G: np.ndarray
    H: np.ndarray
    F: np.ndarray


class Window(NamedTuple):
    """Range of times in which a group of modes decays as a power law; made by :func:`windows`.

    Attributes
    ----------
    start, end : float
        When the modes of the largest and of the smallest eigenvalue decay.
    """

    start: float
    end: float


class LearnedPairs(NamedTuple):
    """K = M students at their teachers: width, learning rate, and the equivalent one at v = v* = 1/sqrt(M)."""

    M: int
    eta: float
    effective: float  # M v^2 eta

    @classmethod
    def checked(cls, M, eta, v=None, v_star=None, least=1):
        """From arguments of public functions."""
        M, eta = check.count("M", M, least), check.number("eta", eta, above=0)
        v = M**-0.5 if v is None else check.number("v", v, above=0)
        v_star = M**-0.5 if v_star is None else check.number("v_star", v_star, above=0)
        if abs(v - v_star) > 1e-12 * v_star:
            raise ValueError(
                f"v = {v:g} and v_star = {v_star:g}; expected equal output weights: the task is learnable."
            )
        return cls(M, eta, eta * M * v**2)

    @property
    def unit(self):
        """Unit a of the rates."""
        return 2 * self.effective / (W * np.pi * self.M)

    @property
    def relaxation(self):
        """Relaxation (2, 2) of the differences (x, y) in units of a s_l."""
        return np.array([[2, (self.M - 1) * W], [W, 2 + (self.M - 2) * W]])

    @property
    def response(self):
        """Response (2, 2) of the diagonal and off-diagonal entries of C to the differences (x, y), over eta^2."""
        M = self.M
        f1, f2 = 1 / np.sqrt(5) + (M - 1) / 3, (M - 1) / np.sqrt(2) + (M - 1) * (M - 2) / (2 * W)
        f3, f4 = 1 / np.sqrt(2) + (M - 2) / (2 * W), 2 / 3 + 2 * (M - 2) / W + (M - 2) * (M - 3) / 4
        return 4 / (np.pi * M) ** 2 * np.array([[f1, f2], [f3, f4]])

    @property
    def groups(self):
        """Rates of u and d of :func:`first_order`, over s_l."""
        return self.unit * (2 + (self.M - 1) * W), self.unit * (2 - W)

    def stationary(self, noise):
        """Stationary differences (X, Y) under label noise, summed over the blocks."""
        M, eta, effective = self
        noise, critical = check.number("noise", noise, least=0), critical_eta(M)
        if effective >= critical:
            limit = critical * eta / effective
            raise ValueError(
                f"eta = {eta:g} is not below critical_eta = {limit:.6g}, where perfect learning is unstable."
            )
        n = min(M, 2)  # one student has no partner
        source = 2 * effective**2 * noise**2 * eta / (np.pi * M * effective) * np.array([1 / W, 0.5])
        balance = self.unit * self.relaxation - effective**2 * self.response
        x, y = np.append(np.linalg.solve(balance[:n, :n], source[:n]), 0.0)[:2]
        return x, y

    def modes(self, spectrum, x=None, y=None, X=0.0, Y=0.0):
        """(rates, amplitudes) of the 2 L exponentials of eps_1, with x - p X and y - p Y at the start."""
        (s, p), M = _mean_one(spectrum), self.M
        x = p if x is None else check.array("x", x, s.shape)
        y = np.zeros_like(s) if y is None else check.array("y", y, s.shape)
        x, y = x - p * X, y - p * Y
        common = (2 * W + 3 * (M - 1)) * s * (x + (M - 1) * y)
        single = (M - 1) * (2 * W - 3) * s * (x - y)
        rates = np.concatenate([g * s for g in self.groups])
        return rates, self.effective / self.eta / (6 * np.pi * M) * np.concatenate([common, single])


# linear equations -----------------------------------------------------------------------------------------------------


def matrices(M: int, *, eta: float, v: float | None = None, v_star: float | None = None) -> "Matrices":
    r"""Coefficients of the linearised equations.

    .. math:: \frac{d}{d\alpha} \begin{pmatrix} r\\ g\\ q\\ c \end{pmatrix}_l = -a s_l G
       \begin{pmatrix} r\\ g\\ q\\ c \end{pmatrix}_l + s_l p_l (a H + F) \sum_j s_j
       \begin{pmatrix} r\\ g\\ q\\ c \end{pmatrix}_j, \qquad a = \frac{2\eta}{\sqrt3\,\pi M}

    F is the noise of SGD, of second order in eta; without it the equations are the gradient flow. Exact (linearisation
    at student = teacher); for general M derived here. Source: [WR] (16), (118) with the matrices (119) and (120), which
    are printed for M = 2, the entries of F permuted.

    Parameters
    ----------
    M : int
        Number of students and of teachers, >= 2.
    eta : float
        Learning rate.
    v, v_star : float, optional
        Output weights of all students and all teachers, equal to each other; 1/sqrt(M) by default.

    Examples
    --------
    >>> from overlaps.theory import late_time
    >>> a, G, H, F = late_time.matrices(2, eta=0.25)
    >>> G[:2, :2].round(3)
    array([[1.   , 0.866],
           [0.866, 1.   ]])
    """
    M, _, eta = pairs = LearnedPairs.checked(M, eta, v, v_star, least=2)
    n, S, X, zero = M - 1, pairs.relaxation, eta**2 * pairs.response, np.zeros((2, 2))
    G, F = np.block([[S / 2, zero], [-S, S]]), np.block([[zero, zero], [-2 * X, X]])
    H = np.array([[-1 / 3, -n * W / 4, 1 / 2, n * W / 4], [0.0, 0.0, W / 8, 0.0]])
    return Matrices(pairs.unit, G, np.vstack([H, 2 * H]), F)


def generator(
    spectrum: Spectrum, M: int, *, eta: float, v: float | None = None, v_star: float | None = None,
    gradient_flow: bool = False,
) -> Floats:  # fmt: skip
    """Matrix (4 L, 4 L) of the linear equations of :func:`matrices`, blocks (r, g, q, c)_1, (r, g, q, c)_2, ...

    Its eigenvalues are those of ``ov.linearise`` at student = teacher in the permutation-symmetric sector. Exact, as
    :func:`matrices`.

    Parameters
    ----------
    spectrum, M, eta, v, v_star
        As in :func:`first_order`.
    gradient_flow : bool
        Leave out F.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> J = ov.theory.late_time.generator(ov.power_law(beta=1.0, L=3), 2, eta=0.25)
    >>> bool(np.linalg.eigvals(J).real.max() < 0)
    True
    """
    s, p = _mean_one(spectrum)
    a, G, H, F = matrices(M, eta=eta, v=v, v_star=v_star)
    coupling = a * H + (0.0 if check.flag("gradient_flow", gradient_flow) else F)
    return np.kron(np.outer(s * p, s), coupling) - a * np.kron(np.diag(s), G)


def relaxation_rates(M: int) -> Floats:
    """Eigenvalues of G, in closed form: 1 - w/2, 1 + (M - 1) w/2 (of r), 2 - w, 2 + (M - 1) w (of q - 2 r).

    Exact; [WR] have 2 + w for every M, and swap the labels of the groups between (17) and (122).

    Parameters
    ----------
    M
        As in :func:`matrices`.

    Examples
    --------
    >>> from overlaps.theory import late_time
    >>> late_time.relaxation_rates(2).round(4)
    array([0.134 , 1.866 , 0.2679, 3.7321])
    """
    M = check.count("M", M, least=2)
    one = np.array([1 - W / 2, 1 + (M - 1) * W / 2])
    return np.concatenate([one, 2 * one])


def critical_eta(M: int, *, v: float | None = None, v_star: float | None = None) -> float:
    r"""Largest learning rate at which perfect learning is stable.

    .. math:: \det\Big[ a \begin{pmatrix} 2 & (M-1)w \\ w & 2+(M-2)w \end{pmatrix}
       - \frac{4\eta^2}{\pi^2M^2} \begin{pmatrix} f_1 & f_2 \\ f_3 & f_4 \end{pmatrix} \Big] = 0

    with the noise :math:`f_i` of the matrix F of :func:`matrices`. Exact for N -> infinity and the same for
    every spectrum of mean one: pi sqrt(5/3) for M = 1, pi sqrt(3) for M -> infinity; derived here. At finite N it
    is smaller where the largest eigenvalue is not small against N.

    Parameters
    ----------
    M, v, v_star
        As in :func:`matrices`; also M = 1. With v = v* = 1 the result is M times smaller.

    Examples
    --------
    >>> from overlaps.theory import late_time
    >>> [round(late_time.critical_eta(M), 6) for M in (1, 2, 5)]
    [4.055779, 4.613655, 5.082242]
    """
    M, _, scale = LearnedPairs.checked(M, 1.0, v, v_star)
    n, one = min(M, 2), LearnedPairs(M, 1.0, 1.0)  # one student has no partner
    roots = eigvals(one.unit * one.relaxation[:n, :n], one.response[:n, :n])
    roots = roots.real[(np.abs(roots.imag) < 1e-9 * np.abs(roots)) & (roots.real > 0)]
    return float(roots.min() / scale)


def noise_floor(M: int, *, eta: float, noise: float, v: float | None = None, v_star: float | None = None) -> float:
    r"""Error that label noise leaves when everything is learned, K = M.

    .. math:: \epsilon_\infty = \frac{M v^2}{6\pi M} \big[(2w + 3(M-1))(X + (M-1)Y) + (M-1)(2w-3)(X - Y)\big],
       \quad \Big[ a \begin{pmatrix} 2 & (M-1)w \\ w & 2+(M-2)w \end{pmatrix}
       - \frac{4\eta^2}{\pi^2M^2} \begin{pmatrix} f_1 & f_2 \\ f_3 & f_4 \end{pmatrix} \Big]
       \begin{pmatrix} X\\ Y \end{pmatrix} = \frac{2\eta^2\sigma^2}{\pi M v^2 M}
       \begin{pmatrix} 1/w\\ 1/2 \end{pmatrix}

    with X = sum_l s_l x_l, Y = sum_l s_l y_l, the f_i of :func:`matrices` and eta for v = 1/sqrt(M); for small eta
    eta sigma^2 M v^2/(2 pi sqrt 3). Exact to first order in sigma^2, at any eta and for every spectrum of mean one;
    derived here. The spectrum drops out for any activation, K and M: a fixed point with s_l > 0 and invertible A has
    :math:`r^l = -A^{-1}Bt^l` (plain) and :math:`Aq^l + q^lA + Br^{lT} + r^lB^T + p_lC = 0`; summed with s_l these are
    the isotropic equations with T = sum_l s_l t^l and <s> C in place of C. So every fixed point depends on the spectrum
    through T and <s> alone; rates of escape and of approach do not. With K > M superfluous students matter: see "Late
    times" on the page Power-law spectra. Source: Goldt et al. (2020), arXiv:1906.08632, for isotropic inputs and small
    eta.

    Parameters
    ----------
    M, eta, v, v_star
        As in :func:`matrices`; also M = 1, and eta < :func:`critical_eta`, where the floor diverges (``ValueError``).
    noise : float
        Standard deviation of the label noise.

    Examples
    --------
    >>> from overlaps.theory import late_time
    >>> [round(late_time.noise_floor(M, eta=0.5, noise=0.1), 10) for M in (2, 3)]
    [0.0005148714, 0.0005118533]
    """
    pairs = LearnedPairs.checked(M, eta, v, v_star)
    x, y = pairs.stationary(noise)
    return float(pairs.modes(isotropic(), [x], [y])[1].sum())


# errors ---------------------------------------------------------------------------------------------------------------


def differences(state: State) -> tuple[Floats, Floats]:
    """Block overlaps of W - W*, their mean diagonal and off-diagonal entries (x_l, y_l), each (L,).

    Students are put into the order of the teachers that they overlap with most. Modes not learned have x = p, y = 0.

    Parameters
    ----------
    state : State
        K = M, bound to a model (``traj[-1]``).

    Examples
    --------
    >>> import overlaps as ov
    >>> model = ov.committee_machine(2, 2, eta=0.1, spectrum=ov.power_law(beta=1.0, L=4))
    >>> start = model.random_start(N=400, rng=1, teacher="ideal", student_scale=0.0)
    >>> ov.theory.late_time.differences(start)
    (array([0.25, 0.25, 0.25, 0.25]), array([0., 0., 0., 0.]))
    """
    if check.state(state, "state").K != state.M or state.s is None:
        raise ValueError(f"{state}; expected K = M and a state with eigenvalues (state.on(model)).")
    if not state.sees_inputs:
        raise ValueError(f"the teacher of {state} does not act on x; expected T = sum_l tau^l / s_l. Try ov.solve.")
    M = state.M
    order = linear_sum_assignment(state.R.T, maximize=True)[1]
    q, r, t = state.plain
    q, r = q[:, order][:, :, order], r[:, order]
    m = q - r - r.swapaxes(1, 2) + t
    x = np.trace(m, axis1=1, axis2=2) / M
    return x, (m.sum(axis=(1, 2)) / M - x) / (M - 1) if M > 1 else np.zeros_like(x)


def first_order(
    alpha: ArrayLike, spectrum: Spectrum, M: int, *, eta: float, x: ArrayLike | None = None,
    y: ArrayLike | None = None, noise: float = 0.0, v: float | None = None, v_star: float | None = None,
) -> Floats:  # fmt: skip
    r"""Error of the differences (x, y) in closed form, without the squares of R - T.

    .. math:: \epsilon_1(\alpha) = \frac{M v^2}{6\pi M} \sum_l s_l \Big[ (2w + 3(M-1))\, u_l\,
       e^{-a(2+(M-1)w)s_l\alpha} + (M-1)(2w-3)\, d_l\, e^{-a(2-w)s_l\alpha} \Big]

    with u = x + (M-1) y and d = x - y at alpha = 0. With label noise x_l = p_l X, y_l = p_l Y are stationary: they are
    subtracted from x and y, and :func:`noise_floor` is added, so that the floor is approached as every error decays.
    Exact for the linearised gradient flow of x and y, [WR] (17), (121), (122); the noise F of :func:`matrices` slows
    the decay by a fraction of the order of eta/:func:`critical_eta`, and turns it into growth above. As an estimate of
    eps_g it is *heuristic*, good for many eigenvalues: x and y are squares of w - w*, and squares of R - T are equally
    large. These contribute to eps_g (:func:`second_order`), and they drive x and y, which therefore decay more slowly
    late; exponents are not affected. The page Power-law spectra has eps_1/eps_g.

    Parameters
    ----------
    alpha : array_like
        Times since the state with (x, y).
    spectrum : Spectrum
        Eigenvalues of mean one, with their weights.
    M, eta, v, v_star
        As in :func:`matrices`.
    x, y : array_like, shape (L,), optional
        Differences (:func:`differences`); by default unlearned modes, x = p and y = 0.
    noise : float
        Standard deviation of the label noise.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> late = ov.theory.late_time.first_order([0.0, 1e2, 1e3], ov.power_law(beta=1.0, L=64), 2, eta=0.25)
    >>> bool(np.all(np.diff(late) < 0))
    True
    """
    pairs = LearnedPairs.checked(M, eta, v, v_star)
    noise = check.number("noise", noise, least=0)
    X, Y = pairs.stationary(noise) if noise else (0.0, 0.0)
    rates, amplitudes = pairs.modes(spectrum, x, y, X, Y)
    decay = decay_sum(rates, amplitudes, check.times("alpha", alpha))
    return np.asarray(decay) + (noise_floor(M, eta=eta, noise=noise, v=v, v_star=v_star) if noise else 0.0)


def local_slope(
    alpha: ArrayLike, spectrum: Spectrum, M: int, *, eta: float, x: ArrayLike | None = None,
    y: ArrayLike | None = None, v: float | None = None, v_star: float | None = None,
) -> Floats:  # fmt: skip
    r"""Logarithmic derivative :math:`d\ln\epsilon_1/d\ln\alpha` of :func:`first_order`, exact for the closed form.

    Close to -beta/(1 + beta) inside the :func:`windows` of a power-law spectrum; steeper between them, where the modes
    that all students share are learned before their differences.

    Parameters
    ----------
    alpha, spectrum, M, eta, x, y, v, v_star
        As in :func:`first_order`; alpha > 0.

    Examples
    --------
    >>> import overlaps as ov
    >>> spectrum = ov.power_law(beta=1.0, L=10**5)
    >>> fast, slow = ov.theory.late_time.windows(spectrum, 2, eta=0.25)
    >>> ov.theory.late_time.local_slope([slow.start * 1e3, fast.end], spectrum, 2, eta=0.25).round(2)
    array([-0.5 , -1.21])
    """
    rates, amplitudes = LearnedPairs.checked(M, eta, v, v_star).modes(spectrum, x, y)
    alpha = check.times("alpha", alpha)
    if not np.all(np.isfinite(alpha)):
        raise ValueError("alpha contains inf; expected finite times: the slope of a decaying exponential has no limit.")
    slowest = rates[amplitudes != 0].min(initial=np.inf)  # a common factor: not all terms underflow
    terms = amplitudes * np.exp(-np.multiply.outer(alpha, np.maximum(rates - slowest, 0.0)))
    return -alpha * (terms @ rates) / terms.sum(axis=-1)


def second_order(
    Q: ArrayLike, R: ArrayLike, T: ArrayLike, *, v: float | None = None, v_star: float | None = None
) -> Floats:
    r"""Leading order of eps_g near student = teacher, for students in the order of their teachers.

    .. math:: \epsilon_2 = \frac{v^2}{\pi} \sum_{jk} \frac{m_{jk} - \rho_j^T (1+T)^{-1} \rho_k}{\sqrt{\det(1+T)}},
       \qquad m = Q - R - R^T + T, \quad \rho = R - T

    where pair (j, k) restricts :math:`\rho_j, \rho_k` and 1 + T to the teachers j and k; a pair (j, j) means two equal
    fields, 1 + 2 T_jj and 2 rho_jj^2/(1 + 2 T_jj). Asymptotic: leading order in w - w* for any covariances, with
    relative corrections of the order of ``|w - w*|``. Derived here; it completes [WR] (121).

    Parameters
    ----------
    Q, R, T : array_like, shape (..., M, M), (..., M, M), (M, M)
        Overlaps, e.g. of a trajectory.
    v, v_star
        As in :func:`matrices`.

    Examples
    --------
    >>> import numpy as np, overlaps as ov
    >>> ov.theory.late_time.second_order(1.02 * np.eye(2), 1.01 * np.eye(2), np.eye(2)).round(8)
    np.float64(-1.225e-05)
    """
    Q, R = (check.array(name, a, (..., "M", "M")) for name, a in (("Q", Q), ("R", R)))
    T = check.array("T", T, ("M", "M"))
    M = T.shape[-1] if T.ndim else 0
    if T.shape != (M, M) or Q.shape[-2:] != (M, M) or R.shape != Q.shape or M == 0:
        raise ValueError(f"Q, R, T have shapes {Q.shape}, {R.shape}, {T.shape}; expected (..., M, M) twice and (M, M).")
    M, _, scale = LearnedPairs.checked(M, 1.0, v, v_star)
    m, rho = Q - R - R.swapaxes(-1, -2) + T, R - T
    total = np.zeros(Q.shape[:-2])
    for j in range(M):
        total += (m[..., j, j] - 2 * rho[..., j, j] ** 2 / (1 + 2 * T[j, j])) / np.sqrt(1 + 2 * T[j, j])
        for k in range(j):
            pair = [j, k]
            S = np.eye(2) + T[np.ix_(pair, pair)]
            shift = np.einsum("...a,ab,...b->...", rho[..., j, pair], np.linalg.inv(S), rho[..., k, pair])
            total += 2 * (m[..., j, k] - shift) / np.sqrt(np.linalg.det(S))
    return scale / (np.pi * M) * total


# power laws -----------------------------------------------------------------------------------------------------------


def windows(spectrum: Spectrum, M: int, *, eta: float, v: float | None = None, v_star: float | None = None) -> Any:
    """Times between the decay of the largest and of the smallest eigenvalue, for u and d of :func:`first_order`.

    The power law holds well inside, from 1/(a g s_1) to about a thirtieth of 1/(a g s_L), with g = 2 + (M - 1) w for u
    (what all students share) and 2 - w for d (their differences), which lags behind. Heuristic: the ends of asymptotic
    power laws. First the window of u, then of d.

    Parameters
    ----------
    spectrum, M, eta, v, v_star
        As in :func:`first_order`.

    Examples
    --------
    >>> import overlaps as ov
    >>> u, d = ov.theory.late_time.windows(ov.power_law(beta=1.0, L=512), 2, eta=0.25)
    >>> round(d.start / u.start, 2), round(d.end / d.start)
    (13.93, 262144)
    """
    s, _ = _mean_one(spectrum)
    s = s[s > 0]
    groups = LearnedPairs.checked(M, eta, v, v_star).groups
    common, single = (Window(float(1 / (g * s.max())), float(1 / (g * s.min()))) for g in groups)
    return common, single


def _mean_one(spectrum):
    if abs(check.spectrum(spectrum).mean - 1) > 1e-9:
        raise ValueError(f"the spectrum has mean {spectrum.mean:.6g}; expected 1, so that T is the identity.")
    return spectrum.s, spectrum.p
