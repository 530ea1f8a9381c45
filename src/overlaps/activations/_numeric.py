"""The closure by quadrature as one kernel: what ``numeric`` has chosen and tested, in one array behind w.

``parameters`` = (number of parts, their ends, parts): see ``NumericClosure.parameters``.
"""

import numpy as np

from .._base.jit import jit
from ._first_order import assemble, assemble_square
from ._pairs import fill_pairs
from ._quadrature import factor, fill_tables, fill_tensor
from ._sobol import fill_sobol

NO_SQUARE, TENSOR, PAIRS, SOBOL = range(4)
# Growth of a variance since the last test of the rules. Beyond, nothing is known: the kernel answers nan, and the
# integrator turns back.
LEAP = 1.5


def packed(*parts):
    """Arrays as one."""
    flat = [np.ravel(np.asarray(x, dtype=float)) for x in parts]
    ends = 1 + len(flat) + np.cumsum([x.size for x in flat])
    return np.concatenate([[len(flat)], ends, *flat])


@jit(inline=True)
def part(data, i):
    """The i-th of the packed arrays."""
    return data[1 + int(data[0]) if i == 0 else int(data[i]) : int(data[i + 1])]


@jit
def numeric_closure(S, w, K, teacher, eta, eta_v, noise, second_order, A, B, C, dv):
    """Fill A, B, C, dv; return eps_g.  Nan where the rules are not tested, which makes an integrator turn back."""
    n = S.shape[0]
    if w.size == n:
        return np.nan
    w, data = w[:n], w[n:]
    sizes, tested = part(data, 0), part(data, 1)
    for i in range(n):
        if not S[i, i] <= LEAP * tested[i]:
            A[:], B[:], C[:], dv[:] = np.nan, np.nan, np.nan, np.nan
            return np.nan
    f, h, u, p = part(data, 2), part(data, 3), part(data, 8), part(data, 9)
    gg, dd, hh = np.empty((n, n)), np.empty((K, n)), np.empty((K, n))
    fill_tables(S, K, f, h, part(data, 4), part(data, 5), int(sizes[0]), part(data, 6), part(data, 7), gg, dd, hh)
    eps_g = assemble(w, K, gg, dd, hh, eta, eta_v, A, B, dv)
    if second_order:
        square = np.empty((K, K))
        if sizes[1] == TENSOR:
            fill_tensor(S, w, K, f, h, factor(S), u, p, square)
        elif sizes[1] == PAIRS:
            fill_pairs(S, w, K, f, h, u, p, part(data, 10), part(data, 11), int(sizes[2]), sizes[1] == PAIRS, square)
        else:
            fill_sobol(S, w, K, f, h, u.reshape(-1, n), square)
        assemble_square(w, K, square, dd, eta, noise, C)
    return eps_g
