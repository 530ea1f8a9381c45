"""One step of SGD in frame coordinates: fields, activations, and the update that keeps the frame small.

The rows of teachers and students, divided by sqrt(N), lie in a space of M + K dimensions with an orthonormal frame.  In
eigenspace e, ``teachers[e, j, m]`` and ``students[e, j, k]`` are their coordinates along frame vector j. Teachers need
the first M vectors, student k the first M + k + 1.  The coordinate along one more vector, j = M + K, is zero between
steps. An update with an input makes it non-zero, and a rotation of the frame makes it zero again.  Class centroids
count as further teachers here, without second layers.

``x[e, i]`` are the M + K coordinates of row i of a step in the frame, and behind them its length outside the frame;
the update overwrites them.  For a learning rule the T tokens of a sample are T correlated rows.

With several rows i the last entry is their standard deviation c_i outside the frame instead. The fields, hence the
forces F (rows, K), do not depend on the parts outside, y_i = c_i sum_a root_ia z_a with independent normal vectors z_a.
Given F, the sums sum_i F_ik y_i that reach the students therefore are K Gaussian vectors of covariance D^T D with
D = root^T c F = Q U, columns of Q orthonormal: they have the law of U^T (K normal vectors), at any N.  So
n = min(rows, K) vectors, the rows of the triangle ``outside`` (L, n, n), stand for all rows (U = D for rows <= K).
"""

import math

import numpy as np

from .._base.jit import jit
from ._force import update_overlaps
from ._sgd import increments


@jit(no_reference_counting=True)
def fields(teachers, students, root_s, x, nu, lam):
    """nu_m (rows, M) and lambda_k (rows, K) of the rows of a step: sum_e sqrt(s_e) (coordinates of the unit) . x^e."""
    nu[:] = 0.0
    lam[:] = 0.0
    for e in range(students.shape[0]):
        for i in range(nu.shape[0]):
            for j in range(teachers.shape[1]):
                xj = root_s[e] * x[e, i, j]
                for m in range(nu.shape[1]):
                    nu[i, m] += teachers[e, j, m] * xj
            for j in range(students.shape[1] - 1):
                xj = root_s[e] * x[e, i, j]
                for k in range(lam.shape[1]):
                    lam[i, k] += students[e, j, k] * xj


@jit(inline=True)
def _rotate_students(students, j, cos, sin):
    for k in range(students.shape[1]):
        a, b = students[j, k], students[j + 1, k]
        students[j, k] = cos * a + sin * b
        students[j + 1, k] = cos * b - sin * a


@jit(no_reference_counting=True)
def absorb(students, x, M, scale, F):
    """Add scale F x^T to the students (M + K + 1, K) of an eigenspace, then restore M + K vectors and triangular form.

    A rank-one update of a triangular factor by Givens rotations (Golub and Van Loan, Matrix Computations, section 6.5).
    """
    K = students.shape[1]
    # No rotation of the first M frame vectors: the coordinates of the teachers stay constant during the run.
    for j in range(M):
        xj = scale * x[j]
        for k in range(K):
            students[j, k] += F[k] * xj
    # Rotate the frame until the component of x orthogonal to the teachers points along vector M. The matrix of the
    # students becomes Hessenberg.
    for j in range(M + K - 1, M - 1, -1):
        a, b = x[j], x[j + 1]
        r = math.sqrt(a * a + b * b)
        # a block without variance: a / r would be nan
        if r == 0.0:
            continue
        x[j] = r
        _rotate_students(students, j, a / r, b / r)
    xj = scale * x[M]
    for k in range(K):
        students[M, k] += F[k] * xj
    # Restore the triangular form: the coordinates along the last vector become zero.
    for k in range(K):
        a, b = students[M + k, k], students[M + k + 1, k]
        r = math.sqrt(a * a + b * b)
        if r != 0.0:
            _rotate_students(students, M + k, a / r, b / r)
        # Zero up to rounding. Set to zero, because the next call of ``absorb`` assumes it.
        students[M + k + 1, k] = 0.0


@jit(fast=True, no_reference_counting=True)
def triangular_factor(columns, U):
    """Fill U (K, K), upper triangular, U^T U = the Gram matrix of columns (K, n >= K), which are overwritten.

    Modified Gram-Schmidt. U is backward stable also for dependent columns (Bjorck and Paige 1992).
    """
    for k in range(columns.shape[0]):
        square = 0.0
        for i in range(columns.shape[1]):
            square += columns[k, i] * columns[k, i]
        U[k, k] = math.sqrt(square)
        inverse = 1.0 / U[k, k] if square > 0.0 else 0.0
        for i in range(columns.shape[1]):
            columns[k, i] *= inverse
        for later in range(k + 1, columns.shape[0]):
            product = 0.0
            for i in range(columns.shape[1]):
                product += columns[k, i] * columns[later, i]
            U[k, later], U[later, k] = product, 0.0
            for i in range(columns.shape[1]):
                columns[later, i] -= product * columns[k, i]


@jit(no_reference_counting=True)
def absorb_rows(students, x, outside, root, M, scale, F, work):
    """``absorb`` for all rows x (rows, M + K + 1) of a step at once, with the ``root`` (T, T) of its tokens."""
    (rows, K), T, n, (D, U, stacked) = F.shape, len(root), len(outside), work
    for i in range(rows):
        first = i - i % T
        for k in range(K):
            D[k, i] = 0.0
            for token in range(i, first + T):  # the root is lower triangular
                D[k, i] += scale * root[token - first, i - first] * x[token, M + K] * F[token, k]
            for j in range(M + K):
                students[j, k] += scale * F[i, k] * x[i, j]
    if rows > n:
        triangular_factor(D, U)
    for k in range(K):
        for j in range(K):
            stacked[k, j] = students[M + j, k]
        for j in range(n):
            stacked[k, K + j] = 0.0
            for i in range(j, n):
                stacked[k, K + j] += (U[i, k] if rows > n else D[k, i]) * outside[i, j]
    triangular_factor(stacked, U)
    for k in range(K):
        for j in range(K):
            students[M + j, k] = U[j, k]


@jit
def work_arrays(rows, K, n):
    """The work arrays D, U and stacked of :func:`absorb_rows`, for n outer vectors."""
    return np.empty((K, rows)), np.empty((K, K)), np.empty((K, K + n))


@jit(no_reference_counting=True)
def update(students, root_s, x, outside, roots, M, F, decay, work):
    """w_k <- decay w_k + sum_i F_ik x_i / sqrt(N) in every eigenspace; the argument F is divided by b N.

    x (L, rows, M + K + 1) and ``outside`` (L, n, n) are those of the step; ``roots`` is (L, T, T), or (1, T, T) for all
    eigenspaces.
    """
    for e in range(students.shape[0]):
        # skip a loop over all students, because most runs have no weight decay
        if decay != 1.0:
            for j in range(students.shape[1]):
                for k in range(students.shape[2]):
                    students[e, j, k] *= decay
        if len(F) == 1:
            absorb(students[e], x[e, 0], M, root_s[e], F[0])
        else:
            absorb_rows(students[e], x[e], outside[e], roots[e % len(roots)], M, root_s[e], F, work)


@jit(no_reference_counting=True)
def restore_norm(students, k, norm):
    """Scale student k back to this squared norm, summed over the eigenspaces."""
    square = 0.0
    for e in range(students.shape[0]):
        for j in range(students.shape[1]):
            square += students[e, j, k] ** 2
    factor = math.sqrt(norm / square)
    for e in range(students.shape[0]):
        for j in range(students.shape[1]):
            students[e, j, k] *= factor


@jit
def run(teachers, students, v, root_s, v_star, student, teacher, rates, norms, N, inputs, noise, first, last):
    """Steps first, ..., last - 1 of the drawn chunk (inputs, noise); students and v change in place.

    ``inputs`` are the arrays x, outside and roots of :func:`update`, the first two with an axis of steps. Row i of
    ``rates`` (steps, 4) holds eta, eta_v and their products with the weight decay at step first + i; ``norms`` (K,) are
    the squared norms to which students are scaled, or (0,) without this constraint. ``noise`` has a row for each step
    and an entry for each sample.
    """
    x, outside, roots = inputs
    rows, batch, K = x.shape[2], noise.shape[1], v.size
    nu, lam, F, dv = np.empty((rows, v_star.size)), np.empty((rows, K)), np.empty((rows, K)), np.empty((batch, K))
    work = work_arrays(rows, K, outside.shape[2])
    for t in range(first, last):
        row = rates[t - first]
        eta, eta_v, decay, decay_v = row[0] / (batch * N), row[1] / (batch * N), 1 - row[2] / N, 1 - row[3] / N
        fields(teachers, students, root_s, x[t], nu, lam)
        update_overlaps(student, teachers, students)
        increments(lam, nu, v, v_star, student, teacher, noise[t], eta, eta_v, F, dv)
        for k in range(K):
            v[k] *= decay_v
            for i in range(batch):
                v[k] += dv[i, k]
        update(students, root_s, x[t], outside[t], roots, teachers.shape[1], F, decay, work)
        for k in range(norms.size):
            restore_norm(students, k, norms[k])
