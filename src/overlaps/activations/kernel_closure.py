"""The closure of a student with closed forms: its kernels, in threads for many students, and in loops over states."""

import numpy as np
from numba import config, types

from .._base.jit import BOOL, CUBE, INT, MATRIX, REAL, VECTOR, compile_once, jit
from .._base.lazy_compilation import is_compiled, is_lazy
from .._base.parallel import in_threads
from ..gaussian.two_point import SIGN
from .bound import CLOSURE, Bound, outputs
from .finite_differences import DERIVATIVES, unknowns

# signature of ``close_all``
CLOSE_ALL = types.void(
    types.FunctionType(CLOSURE), VECTOR, INT, INT, REAL, REAL, REAL, BOOL, CUBE, MATRIX,
    CUBE, CUBE, CUBE, MATRIX, VECTOR,
)  # fmt: skip


@jit
def close_all(closure, parameters, K, teacher, eta, eta_v, noise, second_order, S, w, A, B, C, dv, eps_g):
    """Fill A, B, C, dv, eps_g (n, ...) at S (n, K + M, K + M), w (n, K + M); A (1, K, K) and so on keep the last."""
    for i in range(len(eps_g)):
        j = min(i, len(A) - 1)
        eps_g[i] = closure(S[i], w[i], parameters, K, teacher, eta, eta_v, noise, second_order, A[j], B[j], C[j], dv[j])


class KernelClosure(Bound):
    """The closure of a student with closed forms (``Kernels``) and a teacher that they accept."""

    compiled_loop_from = 20  # evaluations from which a compiled loop is faster than one in Python; empirical
    # Number of students from which threads fill C. With fewer, C takes less than a millisecond, and threads cost more
    # than they save.
    threads_from = 40
    _threads = 1

    def __init__(self, student, teacher, learning):
        super().__init__(student, teacher, learning)
        self.kinked, self.labels = bool(student.kinks), teacher.code == SIGN
        self._kernels, self._kernel = student.closed_forms, student.closed_forms.closure
        self.simd = self._kernels.simd if teacher == student else None
        self._arguments = self._collected()
        if self._kernels.workspace is not None:
            self.parameters = np.zeros(self._kernels.workspace(learning.K + learning.M))
        if self._kernels.chunk is not None and learning.second_order and learning.K >= self.threads_from:
            self._threads = vars(config)["NUMBA_NUM_THREADS"]
        # Kernels are plain functions where numba is disabled.
        if self._threads == 1 and hasattr(self._kernel, "compile"):
            self.compiled = self._kernel

    def change(self, **numbers):
        """Replace numbers of learning."""
        super().change(**numbers)
        self._arguments = self._collected()

    def _collected(self):
        """Arguments of the kernel, stored because collecting them takes a tenth of the time of a small closure."""
        return self.learning.K, self.teacher.code, *self.learning[2:]

    def __call__(self, S, w, A, B, C, dv):
        """Fill A, B, C, dv; return eps_g."""
        K, code, eta, eta_v, noise, second_order = self._arguments
        if self._threads == 1:
            return self._kernel(S, w, self.parameters, K, code, eta, eta_v, noise, second_order, A, B, C, dv)
        eps_g = self._kernel(S, w, self.parameters, K, code, eta, eta_v, noise, False, A, B, C, dv)
        fill, m = self._kernels.chunk, self._threads
        in_threads(lambda i: fill(S, w, K, code, eta, noise, C, i, m), m)
        return eps_g

    def _in_one_loop(self, states):
        """Whether a compiled loop over so many states is available, or worth its compilation."""
        if self.compiled is None or states < self.compiled_loop_from:
            return False
        return not is_lazy() or bool(self.compiled.overloads) or is_compiled(self.compiled, CLOSURE.args)

    def _close_all(self, S, w, values, numbers):
        self._kernel.compile(CLOSURE.args)  # with a return type: numba compiles this separately from calls by Python
        compile_once(close_all, CLOSE_ALL)
        eps_g, S, w = np.empty(len(S)), np.ascontiguousarray(S), np.ascontiguousarray(w)
        close_all(self._kernel, self.parameters, *self._arguments[:2], *numbers, S, w, *values, eps_g)
        return eps_g

    def errors(self, S, w):
        """Eps_g (n,) at S (n, K + M, K + M) and w (n, K + M), in one compiled function."""
        if not self._in_one_loop(len(S)):
            return super().errors(S, w)
        return self._close_all(S, w, outputs(S, self.learning.K, 1), (1.0, 1.0, 0.0, False))

    def values(self, S, w):
        """A, B, C, dv, eps_g (n, ...) at S (n, K + M, K + M) and w (n, K + M), in one compiled function."""
        if not self._in_one_loop(len(S)):
            return super().values(S, w)
        values = outputs(S, self.learning.K, len(S))
        return *values, self._close_all(S, w, values, self._arguments[2:])

    def _exact_derivatives(self, S, w):
        if self._kernels.derivatives is None:
            return super()._exact_derivatives(S, w)
        return self._kernel_derivatives(S, w)

    def _newton_derivatives(self, S, w):
        if self._kernels.derivatives is None:
            return super()._newton_derivatives(S, w)
        S = np.array(S)
        for nearby in (bool(self.no_jacobian_reason(S)), True):
            if nearby:  # derivatives diverge at singular S
                S[np.diag_indices(len(S))] *= 1 + DERIVATIVES.newton_aligned_sine**2
            changes = self._kernel_derivatives(S, w)
            if all(np.all(np.isfinite(x)) for x in changes):
                break
        return changes

    def _kernel_derivatives(self, S, w):
        K, M = self.learning[:2]
        changes = tuple(np.zeros((len(unknowns(K, M)), *shape)) for shape in ((K, K), (K, M), (K, K), (K,)))
        self._kernels.derivatives(S, w, *self._arguments, *changes)
        return changes
