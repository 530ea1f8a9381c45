"""Kernels as parts of the kernels that call them: optimised intermediate code, which is all that a caller needs.

Numba makes of every function also machine code and two entries, for Python and for pointers.  Of a kernel that is
compiled because another one calls it nobody uses them, and they take a third of the time.  A part goes without; when
Python does call such a kernel, ``tiers.Kernel`` compiles it whole.
"""

import numba
from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.dispatcher import _FunctionCompiler

# Newest numba whose inner workings are known here. Up to it, kernels are compiled as parts; above, all are compiled
# whole, which takes a third longer and gives the same numbers, until the tests have passed and this is raised.
NEWEST = (0, 68)


def supported():
    """Whether numba is one whose kernels can be compiled as parts."""
    return numba.version_info.short <= NEWEST


class Part(JITCodeLibrary):
    """Intermediate code that the engine never sees."""

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self):
        """What the disk keeps."""
        return self.name, "part", self._get_module_for_linking().as_bitcode()


class _Pipeline(CompilerBase):
    """Numba's, up to where machine code would be made."""

    def define_pipelines(self):
        flags, name = self.state.flags, self.state.func_id.func_qualname
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        self.state.library = Part(self.state.targetctx.codegen(), name)
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class Compiler(_FunctionCompiler):
    """Compiles a kernel as a part."""

    def __init__(self, kernel):
        super().__init__(kernel.py_func, kernel.targetdescr, kernel.targetoptions, kernel.locals, _Pipeline)

    def compile(self, args, return_type):
        """The compile result; callers find it by an object in place of the function that Python would call."""
        cres = super().compile(args, return_type)._replace(entry_point=object())
        cres.target_context.insert_user_function(cres.entry_point, cres.fndesc, [cres.library])
        return cres


def is_part(cres):
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
    library._final_module = library._shared_module = binding.parse_bitcode(libdata[2])
    library._finalized = True
    known |= {"target_context": context, "typing_context": context.typing_context, "library": library}
    return CompileResult(**dict.fromkeys(CompileResult._fields) | known | {"entry_point": object()})
