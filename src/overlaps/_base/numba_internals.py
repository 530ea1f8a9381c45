"""All that this package uses of numba beyond its documentation, behind one check, ``why_unsupported``.

Where numba lacks a name or has changed a signature, numba alone compiles the kernels, in each process, and nothing is
kept on the disk: results agree up to rounding.  ``Kernel`` is numba's dispatcher with a cache, ``Library`` its
container of machine code with calls that stay inside, ``pack`` and ``unpack`` make the contents of a file.
"""

import pickle
from contextlib import nullcontext
from functools import cache
from threading import RLock
from types import SimpleNamespace

import numba
from llvmlite import binding
from numba import njit, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.extending import is_jitted

from .signatures import interrupts

try:
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompileResult
    from numba.core.compiler_lock import global_compiler_lock as lock  # the lock of all compilation by numba
    from numba.core.runtime import rtsys
    from numba.core.serialize import dumps

    failure = None
except ImportError as error:
    JITCodeLibrary, lock, failure = object, RLock(), error  # type: ignore[misc,assignment]


def lacks(error):
    """The reason for which nothing is kept on the disk."""
    return f"numba {numba.__version__} is not as expected ({type(error).__name__}: {error})"


def _sample(x):
    return x


_sample.__module__ = "sample"  # not counted as a kernel of this package
sample = njit(_sample)
NumbaDispatcher = type(sample) if is_jitted(sample) else object  # with NUMBA_DISABLE_JIT it is a plain function
for name in ("_cache", "_type", "targetoptions", "targetctx") if is_jitted(sample) else ():
    if not hasattr(sample, name):
        failure = AttributeError(name)
# unknown if no name is missing, until a kernel has been compiled, written and read
tried = SimpleNamespace(fault=failure and lacks(failure))


def why_unsupported():
    """What this numba lacks for the cache, in a few words; "" if nothing.  It is tried once in a process."""
    with lock:
        if tried.fault is None:
            tried.fault = ""
            try:
                kernel, args = njit(pipeline_class=Pipeline, **counting(False))(_sample), (types.float64,)
                kernel.compile(args)
                unpack(kernel, pack(kernel.overloads[args])).entry_point(0.5)
            except Exception as error:  # whatever another numba raises
                tried.fault = lacks(error)
        return tried.fault


class Library(JITCodeLibrary):
    """Machine code of one kernel that calls its own copies of the functions below it.

    Numba gives the copies weak symbols: of all that a process compiles or loads, the linker takes the first.  They
    differ in the last digits, because each was optimised together with its callers, so results would depend on what
    came first.
    """

    def _finalize_final_module(self):
        if not tried.fault:
            self._finalized = True  # its code for callers is complete, in which equal functions are merged
            bitcode = self._get_module_for_linking().as_bitcode()
            self._shared_module = binding.parse_bitcode(bitcode)  # as processes have it that read it from a file
            for function in self._final_module.functions:
                if function.linkage == binding.Linkage.linkonce_odr and not function.is_declaration:
                    function.linkage = binding.Linkage.internal
        super()._finalize_final_module()


subroutines: dict = {}  # compiled helpers of numba, such as integer powers, by the options of the kernels around them


class Pipeline(CompilerBase):
    """Numba's pipeline with ``Library``, and with helpers that have the options of the kernel.

    Numba compiles a helper once, with the options of the first kernel that needs it: fast sums or not would depend on
    what came first.
    """

    def define_pipelines(self):
        if not why_unsupported():
            self.state.targetctx.cached_internal_func = subroutines.setdefault(self.state.flags.copy(), {})
            self.state.library = Library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class Kernel(NumbaDispatcher):
    """Numba's dispatcher with a cache, if one is set by ``set_cache``."""

    cache = None

    def compile(self, sig):
        """Code for a signature; no other process compiles it meanwhile.

        Ctrl-C waits for the end of this kernel, because between LLVM and the Python around it, it would end the
        process.
        """
        with lock, interrupts(wait=True, kernel=True):
            in_memory = self.cache is None or tuple(getattr(sig, "args", sig)) in self.overloads
            with nullcontext() if in_memory else self.cache.locked(sig):
                return super().compile(sig)

    @property
    def _numba_type_(self):
        """The type of this kernel, which numba makes anew, with its text, each time that the kernel is an argument."""
        return self._type

    def get_call_template(self, args, *rest):
        """Numba's template for a kernel that calls this one; constants and variables share one compiled form."""
        return super().get_call_template(tuple(map(types.unliteral, args)), *rest)

    def get_compile_result(self, sig):
        """Machine code for a signature, stored, because callers pass the same object each time.

        Numba looks up a kernel that is passed as a function twice at each call, which takes longer than the steps of a
        short run.
        """
        stored = vars(self).setdefault("_compile_results", {})
        if id(sig) not in stored:
            compiled = super().get_compile_result(sig)
            compiled.library.get_pointer_to_function = cache(compiled.library.get_pointer_to_function)
            stored[id(sig)] = compiled, sig  # sig stays alive, so that no other object gets its id
        return stored[id(sig)][0]


def set_cache(kernel, its_cache):
    """Make numba read and write the machine code of a kernel by methods of ``its_cache``, as those of its own cache."""
    kernel.cache = kernel._cache = its_cache


def counting(counts):
    """Options of ``njit`` for kernels whose references numba counts, or does not count."""
    known = is_jitted(sample) and hasattr(sample.targetdescr.options, "_nrt")
    return {"_nrt": counts} if known else {}


def options(kernel):
    """Options of ``njit`` with which a kernel was made."""
    return getattr(kernel, "targetoptions", {})


def processor(kernel):
    """Description of the processor for which kernels are compiled; None if nothing can be kept."""
    try:
        return None if tried.fault else kernel.targetctx.codegen().magic_tuple()
    except (AttributeError, TypeError) as error:
        tried.fault = lacks(error)
        return None


def pack(result):
    """Bytes of machine code, or None if it holds addresses of this process."""
    return None if result.library.has_dynamic_globals else dumps(result._reduce())


def unpack(kernel, data):
    """Machine code from its bytes.

    It needs numba's allocator and nothing else: what numba registers for compilation, and imports for that purpose,
    SciPy's linear algebra among it, takes a third of the time of a first curve.  The compiler sees to it by itself.
    """
    rtsys.initialize(kernel.targetctx)
    return CompileResult._rebuild(kernel.targetctx, *pickle.loads(data))
