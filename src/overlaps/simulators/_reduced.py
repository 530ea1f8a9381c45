"""One step of SGD in frame coordinates: fields, activations, and the update that keeps the frame small.

The rows of teachers and students, divided by sqrt(N), lie in a space of M + K dimensions with an orthonormal frame.  In
eigenspace e, ``teachers[e, j, m]`` and ``students[e, j, k]`` are their coordinates along frame vector j. Teachers need
the first M vectors, student k the first M + k + 1.  The coordinate along one more vector, j = M + K, is zero between
steps. An update with an input makes it non-zero, and a rotation of the frame makes it zero again.  Class centroids
count as further teachers here, without second layers.

``x[t, e, i]`` are the coordinates of sample i of step t: M + K in the frame, then row i of the triangle (b, b) that
represents the components of the b samples outside the frame.  The update overwrites them.  For a learning rule the T
tokens of a sample are T correlated rows, and b below is the number of rows.
"""

import math

import numpy as np

from .._base.jit import jit
from ._force import update_overlaps
from ._sgd import increments


@jit(no_reference_counting=True)
def fields(teachers, students, root_s, x, t, nu, lam):
    """nu_m (b, M) and lambda_k (b, K) of the samples of step t: sum_e sqrt(s_e) (coordinates of the unit) . x^e."""
    nu[:] = 0.0
    lam[:] = 0.0
    for e in range(students.shape[0]):
        for i in range(nu.shape[0]):
            for j in range(teachers.shape[1]):
                xj = root_s[e] * x[t, e, i, j]
                for m in range(nu.shape[1]):
                    nu[i, m] += teachers[e, j, m] * xj
            for j in range(students.shape[1] - 1):
                xj = root_s[e] * x[t, e, i, j]
                for k in range(lam.shape[1]):
                    lam[i, k] += students[e, j, k] * xj


@jit(inline=True)
def _rotate_students(students, e, j, cos, sin):
    for k in range(students.shape[2]):
        a, b = students[e, j, k], students[e, j + 1, k]
        students[e, j, k] = cos * a + sin * b
        students[e, j + 1, k] = cos * b - sin * a


@jit(inline=True)
def _rotate_later_samples(x, t, e, i, j, cos, sin):
    # rotate frame vectors j, j + 1 for the samples after i too, because ``absorb`` takes them next
    for later in range(i + 1, x.shape[2]):
        a, b = x[t, e, later, j], x[t, e, later, j + 1]
        x[t, e, later, j] = cos * a + sin * b
        x[t, e, later, j + 1] = cos * b - sin * a


@jit(no_reference_counting=True)
def absorb(students, x, t, e, i, M, scale, F):
    """Add scale F_i x_i^T to the students in eigenspace e, then restore M + K frame vectors and triangular form.

    A rank-one update of a triangular factor by Givens rotations (Golub and Van Loan, Matrix Computations, section 6.5).
    """
    K = students.shape[2]
    end = M + K
    # No rotation of the first M frame vectors: the coordinates of the teachers stay constant during the run.
    for j in range(M):
        xj = scale * x[t, e, i, j]
        for k in range(K):
            students[e, j, k] += F[i, k] * xj
    # Rotate the frame until the component of x_i orthogonal to the teachers points along vector M. The matrix of the
    # students becomes Hessenberg.
    for j in range(end + i - 1, M - 1, -1):
        a, b = x[t, e, i, j], x[t, e, i, j + 1]
        r = math.sqrt(a * a + b * b)
        # a block without variance: a / r would be nan
        if r == 0.0:
            continue
        x[t, e, i, j] = r
        _rotate_later_samples(x, t, e, i, j, a / r, b / r)
        # outside the frame, j >= end, students have no coordinates
        if j < end:
            _rotate_students(students, e, j, a / r, b / r)
    xj = scale * x[t, e, i, M]
    for k in range(K):
        students[e, M, k] += F[i, k] * xj
    # Restore the triangular form: the coordinates along vector ``end`` become zero.
    for k in range(K):
        a, b = students[e, M + k, k], students[e, M + k + 1, k]
        r = math.sqrt(a * a + b * b)
        if r != 0.0:
            _rotate_students(students, e, M + k, a / r, b / r)
            _rotate_later_samples(x, t, e, i, M + k, a / r, b / r)
        # Zero up to rounding. Set to zero, because the next call of ``absorb`` assumes it.
        students[e, M + k + 1, k] = 0.0


@jit(no_reference_counting=True)
def update(students, root_s, x, t, M, F, decay):
    """w_k <- decay w_k + sum_i F_ik x_i / sqrt(N) in every eigenspace; the argument F is divided by b N."""
    for e in range(students.shape[0]):
        # skip a loop over all students, because most runs have no weight decay
        if decay != 1.0:
            for j in range(students.shape[1]):
                for k in range(students.shape[2]):
                    students[e, j, k] *= decay
        for i in range(F.shape[0]):
            absorb(students, x, t, e, i, M, root_s[e], F)


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
def run(teachers, students, v, root_s, v_star, student, teacher, rates, norms, N, x, noise, first, last):
    """Steps first, ..., last - 1 of the drawn chunk (x, noise); students and v change in place.

    Row i of ``rates`` (steps, 4) holds eta, eta_v and their products with the weight decay at step first + i; ``norms``
    (K,) are the squared norms to which students are scaled, or (0,) without this constraint. ``noise`` has a row for
    each step and an entry for each sample.
    """
    rows, batch, K = x.shape[2], noise.shape[1], v.size
    nu, lam, F, dv = np.empty((rows, v_star.size)), np.empty((rows, K)), np.empty((rows, K)), np.empty((batch, K))
    for t in range(first, last):
        row = rates[t - first]
        eta, eta_v, decay, decay_v = row[0] / (batch * N), row[1] / (batch * N), 1 - row[2] / N, 1 - row[3] / N
        fields(teachers, students, root_s, x, t, nu, lam)
        update_overlaps(student, teachers, students)
        increments(lam, nu, v, v_star, student, teacher, noise[t], eta, eta_v, F, dv)
        for k in range(K):
            v[k] *= decay_v
            for i in range(batch):
                v[k] += dv[i, k]
        update(students, root_s, x, t, teachers.shape[1], F, decay)
        for k in range(norms.size):
            restore_norm(students, k, norms[k])
