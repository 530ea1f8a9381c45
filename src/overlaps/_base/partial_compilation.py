"""Partial compilation: optimise each function once; emit no machine code for functions that only other kernels call.

Numba passes a kernel to LLVM together with the code of all its callees, which LLVM has optimised before.  A function
below ten others is therefore optimised eleven times, which takes a third of LLVM's time.  Here the code of a large
function is not optimised again in its callers (``Library``).

Numba also makes machine code and two entry points of every function, for Python and for pointers.  For a kernel that is
compiled because another one calls it they are not used, and they take a fifth to a quarter of the time.  Such a kernel
is compiled partially, to optimised intermediate code, which its callers need; if Python calls it later,
``lazy_compilation.Kernel`` compiles it completely.
"""

import numba
from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder, Flags
from numba.core.dispatcher import _FunctionCompiler

# Newest version of numba with which this module was tested. Newer versions compile kernels without this module, in 1.7
# times the time and with the same results up to rounding.
MAX_NUMBA_VERSION = (0, 68)
# Lines of intermediate code above which a function is not optimised again in its callers. LLVM inlines functions up to
# about a hundred lines.
MAX_INLINED_LINES = 300
ENTRY_PREFIXES = "_ZN7cpython", "cfunc."  # prefixes of numba's entry points


def supported():
    """Whether this module supports the installed numba."""
    return numba.version_info.short <= MAX_NUMBA_VERSION


class Library(JITCodeLibrary):
    """Code of one kernel and of its callees; large functions are linked after the rest is optimised."""

    large = False
    small = None  # this kernel without its large callees, which callers optimise together with their own code

    def finalize(self):
        """Link and optimise; nothing can be added afterwards."""
        self._codegen._check_llvm_bugs()
        self._raise_if_finalized()
        later = []
        for callee in dict.fromkeys(self._linking_libraries):
            if hasattr(callee, "_reload_init"):  # missing in the oldest numba
                self._reload_init.update(callee._reload_init)
            code, large = getattr(callee, "small", None), getattr(callee, "large", False)
            if large or code is not None:
                later.append(callee)
            if not large:
                self._final_module.link_in(code or callee._get_module_for_linking(), preserve=True)
        self._optimize_final_module()
        functions = [f for f in self._final_module.functions if not f.is_declaration]
        exported = [f for f in functions if f.linkage == binding.Linkage.external]
        own = [f for f in exported if not f.name.startswith(ENTRY_PREFIXES)]
        self.large = any(str(f).count("\n") > MAX_INLINED_LINES for f in own)
        if later and not self.large:
            self.small = self._final_module.clone()
            for f in exported:  # numba's linkage, because several callers may link the same function
                self.small.get_function(f.name).linkage = "linkonce_odr"
        for callee in later:
            self._final_module.link_in(callee._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalize_final_module()


class PartialLibrary(Library):
    """Intermediate code without machine code."""

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self):
        """The data for the cache on the disk."""
        small = self.small and self.small.as_bitcode()
        return self.name, "part", (self._get_module_for_linking().as_bitcode(), small, self.large)


class _CompletePipeline(CompilerBase):
    """Numba's pipeline with another library."""

    library = Library

    def define_pipelines(self):
        self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class _PartialPipeline(_CompletePipeline):
    """Numba's pipeline without machine code."""

    library = PartialLibrary

    def define_pipelines(self):
        flags = self.state.flags
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        return super().define_pipelines()


class _Flags(Flags):
    """Numba's flags with a faster comparison, because they are keys of tables, compared a thousand times a second."""

    __slots__ = ()
    defaults, names = Flags().values(), hash(Flags())

    def __hash__(self):
        return self.names  # equal to numba's hash, that of the names of all flags

    def __eq__(self, other):
        if isinstance(other, Flags):
            return self.defaults | self._values == self.defaults | other._values
        return NotImplemented


class Compiler(_FunctionCompiler):
    """Compiles a kernel, partially or completely."""

    def __init__(self, kernel, partial):
        pipeline = _PartialPipeline if partial else _CompletePipeline
        super().__init__(kernel.py_func, kernel.targetdescr, kernel.targetoptions, kernel.locals, pipeline)

    def _customize_flags(self, flags):
        return _Flags(flags)

    def compile(self, args, return_type):
        """The compile result; a partial one has a plain object in place of the function that Python would call."""
        cres = super().compile(args, return_type)
        if is_partial(cres):
            cres = cres._replace(entry_point=object())
            cres.target_context.insert_user_function(cres.entry_point, cres.fndesc, [cres.library])
        return cres


def is_partial(cres):
    """Whether a compile result is partial."""
    return isinstance(cres.library, PartialLibrary)


_environments: list = []


def bind_constants(cres):
    """Set the addresses of the callees' constants, which their exceptions need, and keep the constants alive."""
    for environment in cres._find_referenced_environments():
        cres.codegen.set_env(environment.env_name, environment)
        _environments.append(environment)


def rebuild(context, libdata, *rest):
    """A partial compile result from the data of the cache on the disk."""
    names = "fndesc environment signature objectmode lifted type_annotation reload_init referenced_envs"
    known = dict(zip(names.split(), rest, strict=True))
    for renew in known["reload_init"]:
        renew()
    library = PartialLibrary(context.codegen(), libdata[0])
    code, small, library.large = libdata[2]
    library._final_module = library._shared_module = binding.parse_bitcode(code)
    library.small = small and binding.parse_bitcode(small)
    library._finalized = True
    known |= {"target_context": context, "typing_context": context.typing_context, "library": library}
    return CompileResult(**dict.fromkeys(CompileResult._fields) | known | {"entry_point": object()})
