"""Compilation of kernels: each function is optimised once, and a part of other kernels never becomes machine code.

Numba gives LLVM a kernel together with the code of all that it calls, which LLVM optimised before; so a function that
lies below ten others is optimised eleven times, a third of the time that LLVM takes.  The code of a large function
stays as it is, wherever it is called (``Library``).

Numba makes of every function also machine code and two entries, for Python and for pointers.  Of a kernel that is
compiled because another one calls it nobody uses them, and they take a fifth to a quarter of the time.  A part is
optimised intermediate code, which is all that a caller needs; when Python does call such a kernel,
``lazy_compilation.Kernel`` compiles it whole.
"""

import numba
from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder, Flags
from numba.core.dispatcher import _FunctionCompiler

# Newest numba whose inner workings are known here. Up to it, kernels are compiled as this module says; above, as numba
# does it, which takes 1.7 times as long and gives the same numbers to rounding, until the tests have passed and this is
# raised.
NEWEST = (0, 68)
# Lines of intermediate code of a function. Below, LLVM may put it into what calls it, so both are optimised together;
# above, it never does: it stops at about a hundred.
LARGE = 300
ENTRIES = "_ZN7cpython", "cfunc."  # names of functions that numba adds, for calls from Python and by pointers


def supported():
    """Whether numba is one whose kernels can be compiled as this module does it."""
    return numba.version_info.short <= NEWEST


class Library(JITCodeLibrary):
    """Code of one kernel and of all that it calls; large functions are linked when the rest is optimised."""

    large = False
    small = None  # this kernel without the large functions that it calls, for callers to optimise with their own code

    def finalize(self):
        """Link and optimise; nothing can be added any more."""
        self._codegen._check_llvm_bugs()
        self._raise_if_finalized()
        later = []
        for callee in dict.fromkeys(self._linking_libraries):
            if hasattr(callee, "_reload_init"):  # not in the oldest numba
                self._reload_init.update(callee._reload_init)
            code, large = getattr(callee, "small", None), getattr(callee, "large", False)
            if large or code is not None:
                later.append(callee)
            if not large:
                self._final_module.link_in(code or callee._get_module_for_linking(), preserve=True)
        self._optimize_final_module()
        functions = [f for f in self._final_module.functions if not f.is_declaration]
        exported = [f for f in functions if f.linkage == binding.Linkage.external]
        self.large = any(str(f).count("\n") > LARGE for f in exported if not f.name.startswith(ENTRIES))
        if later and not self.large:
            self.small = self._final_module.clone()
            for f in exported:  # as numba does it: callers bring such a function along once, or not at all
                self.small.get_function(f.name).linkage = "linkonce_odr"
        for callee in later:
            self._final_module.link_in(callee._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalize_final_module()


class Part(Library):
    """Intermediate code that the engine never sees."""

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self):
        """What the disk keeps."""
        small = self.small and self.small.as_bitcode()
        return self.name, "part", (self._get_module_for_linking().as_bitcode(), small, self.large)


class _Whole(CompilerBase):
    """Numba's, but for the library."""

    library = Library

    def define_pipelines(self):
        self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class _Part(_Whole):
    """Numba's, up to where machine code would be made."""

    library = Part

    def define_pipelines(self):
        flags = self.state.flags
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        return super().define_pipelines()


class _Flags(Flags):
    """Numba's, compared without getters: as keys of its tables they are compared a thousand times a second."""

    __slots__ = ()
    defaults, names = Flags().values(), hash(Flags())

    def __hash__(self):
        return self.names  # numba's hash is that of the names of all flags

    def __eq__(self, other):
        if isinstance(other, Flags):
            return self.defaults | self._values == self.defaults | other._values
        return NotImplemented


class Compiler(_FunctionCompiler):
    """Compiles a kernel, as a part or whole."""

    def __init__(self, kernel, part):
        pipeline = _Part if part else _Whole
        super().__init__(kernel.py_func, kernel.targetdescr, kernel.targetoptions, kernel.locals, pipeline)

    def _customize_flags(self, flags):
        return _Flags(flags)

    def compile(self, args, return_type):
        """The compile result; callers find a part by an object in place of the function that Python would call."""
        cres = super().compile(args, return_type)
        if is_partial(cres):
            cres = cres._replace(entry_point=object())
            cres.target_context.insert_user_function(cres.entry_point, cres.fndesc, [cres.library])
        return cres


def is_partial(cres):
    """Whether a compile result is one."""
    return isinstance(cres.library, Part)


_environments: list = []


def bind_constants(cres):
    """Tell machine code where constants of its parts are, for exceptions that they raise, and keep these alive."""
    for environment in cres._find_referenced_environments():
        cres.codegen.set_env(environment.env_name, environment)
        _environments.append(environment)


def rebuild(context, libdata, *rest):
    """A part from what the disk kept of it."""
    names = "fndesc environment signature objectmode lifted type_annotation reload_init referenced_envs"
    known = dict(zip(names.split(), rest, strict=True))
    for renew in known["reload_init"]:
        renew()
    library = Part(context.codegen(), libdata[0])
    code, small, library.large = libdata[2]
    library._final_module = library._shared_module = binding.parse_bitcode(code)
    library.small = small and binding.parse_bitcode(small)
    library._finalized = True
    known |= {"target_context": context, "typing_context": context.typing_context, "library": library}
    return CompileResult(**dict.fromkeys(CompileResult._fields) | known | {"entry_point": object()})
