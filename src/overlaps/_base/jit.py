"""The one place where compilation policy is decided.

``error_model="numpy"``: a division by zero gives inf or nan, as in NumPy, and the loops stay free of branches.
``cache=True``: a kernel compiles once per machine.  numba refuses to decorate when no cache folder is writable;
then the kernel is compiled again in each process instead.
``bare=True`` is for kernels that make no arrays: numba then counts no references, which costs a kernel that hands on
ten arrays 0.1 us, as much as the arithmetic of small networks.  Room that such a kernel needs belongs to its caller.
Kernels fill arrays entry by entry (``flow.copy``): with ``y[:] = x`` numba compiles the text of an error about unequal
shapes, which takes seconds, in every process that compiles one.
``fast=True`` allows fused multiply-adds and reordered sums but keeps nan and inf: a diverging run must show itself.
``nogil=True``: simulators may run in threads.
"""

from numba import njit

from . import compiling as compiling  # says when it takes long

FAST = {"contract", "arcp", "nsz", "reassoc"}


def jit(function=None, *, fast=False, inline=False, bare=False):
    """Compile a module-level function with the options above."""
    if function is None:
        return lambda f: jit(f, fast=fast, inline=inline, bare=bare)
    options = {
        "error_model": "numpy",
        "fastmath": FAST if fast else False,
        "nogil": True,
        "inline": "always" if inline else "never",
        "_nrt": not bare,
    }
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # "cannot cache function ...: no locator available"
        return njit(**options)(function)


def cache_folder(kernel):
    """Folder where numba keeps a compiled kernel, or None where it found none that can be written."""
    stats = getattr(kernel, "stats", None)  # without compilation kernels are plain functions
    return None if stats is None else stats.cache_path
