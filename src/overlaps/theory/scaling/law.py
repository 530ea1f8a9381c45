"""One linear scaling problem: its numbers, and as methods what is known of it."""

from .closed import _Closed
from .exact import _Exact

__all__ = ["Law"]


class Law(_Exact, _Closed):
    r"""Scaling law of a linear student: capacity and source exponent, size, learning rate, noise.

    .. math:: s_l = s_1 l^{-(1+\beta)}, \quad p_l = \frac1L, \quad \langle s\rangle = 1, \qquad
       m_l(0) = t_l + \sigma_J^2 p_l, \quad t_l \propto l^{-2\delta}, \quad \sum_l s_l t_l = 1

    Methods say what is exact and what is asymptotic; N -> infinity at fixed alpha = steps / N unless N is named.
    ``N_l`` is everywhere the number of leading eigenvalues whose directions are trained, L by default. Worschech and
    Rosenow (2024), arXiv:2410.09005, Eq. (1), for the spectrum; the source is derived here.

    Parameters
    ----------
    beta : float
        Exponent of the spectrum, > 0.
    source : float
        Exponent delta of the teacher's coefficients along the eigenvectors; beta + 2 delta > 0. 0 is a teacher that
        does not know the inputs (Worschech and Rosenow), positive ones are easier.
    L : int
        Number of eigenvalues.
    eta : float
        Learning rate of SGD (effective one, see :func:`overlaps.theory.linear.reduce`).
    noise : float
        Standard deviation sigma of the label noise.
    student_scale : float
        Standard deviation sigma_J of the initial weights, 0 by default: random students are a component with
        source = 0, which takes over late whenever the source is positive.
    batch_size : int
        Samples in one step. Only eta/B and B alpha enter: at a fixed number of samples a batch changes nothing but the
        noise of the step.

    Raises
    ------
    ValueError
        A parameter out of range, by name.

    Examples
    --------
    >>> import overlaps as ov
    >>> law = ov.theory.scaling.Law(1.0, 0.3, L=64, eta=0.5, noise=0.1)
    >>> law.error([0, 0.1, 1, 10]).round(7)
    array([0.5      , 0.1013844, 0.0173547, 0.0037767])
    >>> law.exponents.time, round(law.exponents.compute, 4)
    (0.8, 0.5333)
    """
