r"""Bases of polynomials in the eigenvalue, and the moments of the block overlaps in them.

A function on L distinct eigenvalues is a polynomial of degree below L, so that the L moments

.. math:: x^{(j)} = \sum_l \varphi_j(s_l)\, x^l, \qquad \deg \varphi_j = j < L, \quad \varphi_0 = 1

contain the same information as the L blocks :math:`x^l` of the plain overlaps x = q, r, t, and multiplication by s
closes in them: :math:`s \varphi_j = \sum_i H_{ji} \varphi_i` on the spectrum. This is the Cayley-Hamilton theorem.

[WR] is Worschech and Rosenow (2024), arXiv:2410.09005.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import polynomial
from scipy.linalg import hessenberg

from ..._base import ArrayLike, Floats, Immutable, check
from ...models import Spectrum, State

__all__ = [
    "Moments", "OrderParameters", "PolynomialBasis", "characteristic_polynomial", "companion_matrix", "jacobi_matrix",
    "order_parameters", "polynomial_basis",
]  # fmt: skip


class OrderParameters(NamedTuple):
    """Order parameters of some levels, as :func:`order_parameters` gives them.

    Attributes
    ----------
    Q, R, T : ndarray, shape (..., K, K), (..., K, M), (..., M, M)
        Q^(j), R^(j), T^(j), with the shape of the levels j in front.
    """

    Q: Any
    R: Any
    T: Any


class Moments(NamedTuple):
    """A state in a basis of :func:`polynomial_basis`: moments of the overlaps, and the other fields of a State.

    Attributes
    ----------
    q, r, t : ndarray, shape (L, K, K), (L, K, M), (L, M, M)
        Moments sum_l phi_j(s_l) x^l of W P_l W^T/N, W P_l W*^T/N, W* P_l W*^T/N.
    T : ndarray, shape (M, M)
        Covariance of the teacher fields.
    v : ndarray, shape (K,)
        Second layer of the student.
    """

    q: Any
    r: Any
    t: Any
    T: Any
    v: Any

    @property
    def m(self) -> None:
        """No overlaps with class means: inputs in classes have no moments here."""
        return


def order_parameters(state: State, order: ArrayLike) -> "OrderParameters":
    r"""Order parameters of any level j, by which Worschech and Rosenow describe the learning.

    .. math:: Q^{(j)} = \frac1N W \Sigma^j W^T = \sum_l s_l^j q^l, \qquad R^{(j)} = \frac1N W \Sigma^j W_*^T, \qquad
              T^{(j)} = \frac1N W_* \Sigma^j W_*^T

    with the plain overlaps; Q, R, T of the library are the level j = 1. Exact. Source: [WR], section 3.

    Parameters
    ----------
    state : State
        State with eigenvalues (``state.on(model)``); the teacher acts on x, and not on directions with s = 0.
    order : int or array_like of int
        Levels j >= 0, of any size.

    Examples
    --------
    >>> import overlaps as ov
    >>> from overlaps.theory import cayley_hamilton
    >>> model = ov.committee_machine(1, 1, eta=0.5, spectrum=ov.power_law(beta=1.0, L=4))
    >>> start = model.random_start(N=400, rng=1, teacher="ideal")
    >>> cayley_hamilton.order_parameters(start, [0, 1, 2]).T.ravel().round(4)
    array([1.    , 1.    , 2.1291])
    """
    check.axes("order", order)
    j = np.asarray(order)
    if j.dtype.kind not in "iu" or np.any(j < 0):
        raise check.refused("order", order, "an integer >= 0, or an array of them.")
    q, r, t = _plain_overlaps(state)
    return OrderParameters(*(np.tensordot(state.s ** j[..., None], x, axes=1) for x in (q, r, t)))


def _plain_overlaps(state):
    blocks = check.state(state, "state").plain  # raises if there are no eigenvalues
    if not state.sees_inputs:
        raise ValueError(
            f"the teacher of {state} depends on more than the inputs (latents, or directions with s = 0), and "
            "moments of the inputs do not contain it; expected T = sum_l tau^l / s_l. Use the spectral basis."
        )
    return blocks


def characteristic_polynomial(s: ArrayLike) -> Floats:
    r"""Coefficients c_0, ..., c_L (ascending, c_L = 1) of the characteristic polynomial of the covariance.

    .. math:: \prod_{l=1}^L (s - s_l) = \sum_{j=0}^L c_j s^j

    so that :math:`x^{(L)} = -\sum_{j<L} c_j x^{(j)}` closes the hierarchy of monomial moments. Exact up to rounding:
    positive roots add terms of one sign, so every coefficient is accurate to rounding. At large L float64 fails not in
    the polynomial but in the moments, which hardly depend on the small eigenvalues. Source: [WR], below Eq. (4), and
    (31).

    Parameters
    ----------
    s : array_like, shape (L,)
        Distinct eigenvalues >= 0.

    Examples
    --------
    >>> from overlaps.theory import cayley_hamilton
    >>> cayley_hamilton.characteristic_polynomial([3.0, 0.5])
    array([ 1.5, -3.5,  1. ])
    """
    return polynomial.polyfromroots(_distinct(s))


def companion_matrix(s: ArrayLike) -> Floats:
    r"""Multiplication by s in the basis 1, s, ..., s^(L-1): ones above the diagonal, -c_j in the last row.

    .. math:: x^{(j+1)} = \sum_i H_{ji} x^{(i)}, \qquad H_{L-1,\,j} = -c_j

    Exact. Source: [WR], Eq. (27), with other signs; eigenvectors (32), (33). Its eigenvalues are s, its eigenvectors
    (1, s_l, s_l^2, ...): a Vandermonde matrix.

    Parameters
    ----------
    s : array_like, shape (L,)
        Distinct eigenvalues >= 0.

    Examples
    --------
    >>> from overlaps.theory import cayley_hamilton
    >>> cayley_hamilton.companion_matrix([3.0, 0.5])
    array([[ 0. ,  1. ],
           [-1.5,  3.5]])
    """
    return polynomial.polycompanion(characteristic_polynomial(s)).T


def jacobi_matrix(s: ArrayLike, p: ArrayLike) -> tuple[Floats, Floats]:
    r"""Multiplication by s in the polynomials orthonormal with respect to p: symmetric and tridiagonal.

    .. math:: s \varphi_j = b_{j+1} \varphi_{j+1} + a_j \varphi_j + b_j \varphi_{j-1}, \qquad
              \sum_l p_l \varphi_i(s_l) \varphi_j(s_l) = \delta_{ij}

    Exact up to rounding of order 1e-16 max(s), at any L: Householder's reduction of diag(s), bordered by sqrt(p), is
    the Lanczos process without its loss of orthogonality. The leading (n, n) block belongs to the Gauss quadrature of p
    with n nodes. Evolving the first n moments with it truncates the hierarchy: an approximation, exact in the moments
    of p of degree below 2n. Overlaps that are not proportional to p_l are not represented well; for a reduced
    description use :func:`overlaps.compress`, block Gauss quadrature of the overlaps themselves. J (L, L), with a on
    the diagonal and b > 0 beside it, has the eigenvalues s; the squared first components of its eigenvectors are p. The
    second result is phi_j(s_l) (L, L), in row j. Source: Golub and Meurant, Matrices, Moments and Quadrature (2010),
    chapter 3.

    Parameters
    ----------
    s : array_like, shape (L,)
        Distinct eigenvalues >= 0.
    p : array_like, shape (L,)
        Weights > 0 with sum one.

    Examples
    --------
    >>> from overlaps.theory import cayley_hamilton
    >>> cayley_hamilton.jacobi_matrix([3.0, 1.0], [0.5, 0.5])[0].round(12)
    array([[2., 1.],
           [1., 2.]])
    """
    s = _distinct(s)
    p = check.array("p", p, s.shape)
    if np.any(p <= 0):
        raise ValueError(
            f"the lowest weight is p = {p.min():g}; expected p > 0, because polynomials orthonormal with respect to p "
            "do not depend on an eigenvalue of weight zero. Use the spectral basis (overlaps.solve)."
        )
    root = np.sqrt(p / p.sum())
    bordered = np.block([[np.zeros((1, 1)), root[None]], [root[:, None], np.diag(s)]])
    reduced, frame = hessenberg(bordered, calc_q=True)
    a, b = np.diag(reduced)[1:], np.diag(reduced, -1)  # b[0] = +-|root| joins the border to phi_0
    signs = np.cumprod(np.sign(b))
    J = np.diag(a) + np.diag(np.abs(b[1:]), 1) + np.diag(np.abs(b[1:]), -1)
    return J, (frame[1:, 1:] * signs).T / root


class PolynomialBasis(Immutable):
    """L polynomials phi_j of degree j on a spectrum; made by :func:`polynomial_basis`.

    Attributes
    ----------
    name : str
        "monomial", "scaled" or "orthonormal".
    s : ndarray, shape (L,)
        Eigenvalues.
    p : ndarray, shape (L,)
        Moments sum_l phi_j(s_l) p_l of the weights.
    values : ndarray, shape (L, L)
        phi_j(s_l) in row j.
    multiplication : ndarray, shape (L, L)
        H with s phi_j = sum_i H_ji phi_i on the spectrum.
    """

    name: str
    s: np.ndarray
    p: np.ndarray
    values: np.ndarray
    multiplication: np.ndarray
    shows = "{0.name}, L={0.s.size}, condition {0.condition:.2g}"

    @property
    def condition(self) -> float:
        """Condition number of the change of basis: the largest factor by which it multiplies relative errors."""
        return float(np.linalg.cond(self.values))

    def sums(self, x: Floats) -> Floats:
        """Moments sum_l phi_j(s_l) x^l of block overlaps x (..., L, a, b)."""
        return np.einsum("jl,...lab->...jab", self.values, x)

    def blocks(self, x: Floats) -> Floats:
        """Blocks x^l of moments (..., L, a, b): the inverse of :meth:`sums`, to about 1e-16 times ``condition``."""
        return np.linalg.solve(self.values, np.asarray(x).reshape(*x.shape[:-2], -1)).reshape(x.shape)

    def moments(self, state: State) -> "Moments":
        """Moments of ``state``, a State; ValueError if its eigenvalues differ or its teacher acts where s = 0."""
        q, r, t = _plain_overlaps(state)
        if not np.array_equal(state.s, self.s):
            raise ValueError(f"the state has {state.L} eigenvalues that are not those of {self}; expected the same.")
        return Moments(self.sums(q), self.sums(r), self.sums(t), state.T, state.v)

    def state(self, moments: "Moments") -> State:
        """State of ``moments``, a Moments: the inverse, which loses log10(condition) digits in float64."""
        q, r, t = (self.blocks(x) for x in moments[:3])
        s = self.s[:, None, None]
        q, t = (q + q.swapaxes(1, 2)) / 2, (t + t.swapaxes(1, 2)) / 2
        return State(q=q, r=s * r, tau=s**2 * t, T=moments.T, v=moments.v, s=self.s)


def polynomial_basis(spectrum: Spectrum, name: str = "orthonormal") -> "PolynomialBasis":
    r"""Polynomials in the eigenvalue, in which the moments of the overlaps form a closed hierarchy.

    ==============  =================================  =====================================
    name            phi_j(s)                           multiplication by s
    ==============  =================================  =====================================
    "monomial"      s^j                                companion matrix
    "scaled"        (s / s_1)^j                        s_1 times the one of the s_l / s_1
    "orthonormal"   sum_l p_l phi_i phi_j = delta_ij   Jacobi matrix, symmetric tridiagonal
    ==============  =================================  =====================================

    Exact. Powers form a Vandermonde matrix, whose condition number grows exponentially with L (scaled or not): 6e10 at
    L = 8 and 2e15 at L = 10 for beta = 1. The orthonormal basis has sqrt(max(p) / min(p)). Source: [WR], section
    3 (monomials); orthonormal hierarchy: here.

    Parameters
    ----------
    spectrum : Spectrum
        Distinct eigenvalues; for "orthonormal" also p > 0.
    name : str
        One of the three.

    Examples
    --------
    >>> import overlaps as ov
    >>> from overlaps.theory import cayley_hamilton
    >>> spectrum = ov.power_law(beta=1.0, L=8)
    >>> cayley_hamilton.polynomial_basis(spectrum)
    PolynomialBasis(orthonormal, L=8, condition 1)
    >>> cayley_hamilton.polynomial_basis(spectrum, "monomial").condition > 1e9
    True
    """
    check.choice("name", name, ("monomial", "scaled", "orthonormal"))
    s, p = _distinct(check.spectrum(spectrum).s), spectrum.p
    if name == "orthonormal":
        H, values = jacobi_matrix(s, p)
    else:
        unit = s.max() if name == "scaled" else 1.0
        H, values = unit * companion_matrix(s / unit), np.vander(s / unit, increasing=True).T
    return PolynomialBasis(name, s, values @ p, np.ascontiguousarray(values), np.ascontiguousarray(H))


def _distinct(s):
    s = check.array("s", s, ("L",))
    values, counts = np.unique(s, return_counts=True)
    if s.size == 0 or values[0] < 0 or np.any(counts > 1):
        worst = f"{values[np.argmax(counts)]:g} occurs {counts.max()} times" if s.size else "it is empty"
        raise ValueError(
            f"s must hold distinct eigenvalues >= 0: the lowest is {values.min(initial=np.inf):g}, and {worst}. "
            "Merge equal ones: their overlaps and weights p add up."
        )
    return s
