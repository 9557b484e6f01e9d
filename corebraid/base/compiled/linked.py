"""Kernels to other kernels: LLVM code that is linked into theirs.

Numba makes of each function that a compiled one calls what Python calls, what C calls, and machine code of
both: almost half of the time that compiling takes. Nobody but the caller's own code needs any of it. What is
given to other functions here is a dispatcher of its own, beside the one that Python calls; what it makes is
never run where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature

_ENVIRONMENT = "_ZN08NumbaEnv"


class _LinkedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code that is never made machine code by itself."""

    def _optimize_final_module(self) -> None:
        """Only what makes it short: who links it has all of it made faster once more."""
        codegen = self._codegen
        manager, builder = codegen._module_pass_manager(
            loop_vectorize=codegen._loopvect, slp_vectorize=False, opt=codegen._opt_level, cost="cheap"
        )
        manager.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _LinkedPipeline(Compiler):  # type: ignore[misc]
    def compile_extra(self, func: Callable[..., Any]) -> Any:
        self.state.library = _LinkedLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


class _Entry:
    """By which Numba tells functions apart: elsewhere, what is called."""


def _registered(result: CompileResult) -> CompileResult:
    """So that a call of it is found."""
    made = result._replace(entry_point=_Entry())
    made.target_context.insert_user_function(made.entry_point, made.fndesc, [made.library])
    return made


class _LinkedCompiler(_FunctionCompiler):  # type: ignore[misc]
    def _customize_flags(self, flags: Flags) -> Flags:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        return flags

    def _compile_core(self, args: tuple[Any, ...], return_type: Any) -> CompileResult:
        return _registered(super()._compile_core(args, return_type))


class _LinkedCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    """In files of their own beside what Numba keeps of the same function."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"linked-{super().get_filename_base(fullname, abiflags)}"

    def reduce(self, result: CompileResult) -> tuple[Any, ...]:
        """What `rebuild` takes."""
        environments = tuple(result._find_referenced_environments())
        bitcode = result.library.serialize_using_bitcode()
        result.fndesc.typemap = result.fndesc.calltypes = None
        annotation, kept = str(result.type_annotation), result.fndesc
        return (
            bitcode,
            kept,
            result.environment,
            result.signature,
            annotation,
            result.reload_init,
            environments,
        )

    def rebuild(self, context: Any, payload: tuple[Any, ...]) -> CompileResult:
        """What `reduce` was given."""
        bitcode, description, environment, signature, annotation, reload_init, environments = payload
        for reload in reload_init:
            reload()
        return CompileResult(
            target_context=context, typing_context=context.typing_context, signature=signature,
            library=_LinkedLibrary._unserialize(_Codegen(context.codegen()), bitcode), objectmode=False,
            environment=environment, entry_point=_Entry(), fndesc=description, type_annotation=annotation,
            lifted=(), typing_error=None, call_helper=None, metadata=None, reload_init=reload_init,
            referenced_envs=environments,
        )  # fmt: skip


class _Codegen:
    """Numba's, which makes libraries of this module's kind."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def create_library(self, name: str) -> _LinkedLibrary:
        """An empty one."""
        return _LinkedLibrary(self._codegen, name)


class _LinkedCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _LinkedCacheImpl


class _Dispatcher(CPUDispatcher):  # type: ignore[misc]
    _pipeline: ClassVar[type[Compiler]] = Compiler

    @classmethod
    def of(cls, function: Callable[..., Any], options: dict[str, Any]) -> Self | Callable[..., Any]:
        """`numba.njit(**options)` of a function, as this kind of dispatcher; where Numba is not to compile,
        the function."""
        if config.DISABLE_JIT:
            return function
        given = {"boundscheck": None, **options, "nopython": True}
        cached = given.pop("cache", False)
        made = cls(function, targetoptions=given, pipeline_class=cls._pipeline)
        if cached:
            made.enable_caching()
        return made


class LinkedDispatcher(_Dispatcher):
    """What other kernels see."""

    _pipeline = _LinkedPipeline

    def __init__(self, function: Callable[..., Any], **given: Any) -> None:
        super().__init__(function, **given)
        self._compiler = _LinkedCompiler(
            function, self.targetdescr, self.targetoptions, self.locals, self._pipeline
        )

    def enable_caching(self) -> None:
        """In files of their own."""
        self._cache = _LinkedCache(self.py_func)

    @property
    def is_compiling(self) -> bool:
        """Never to Numba, which then refuses a function that calls itself: its code is found by a name that
        code which is linked does not have."""
        return False

    def compile(self, signature: Any) -> Any:
        """What is called, made or made before."""
        made = self.overloads.get(normalize_signature(signature)[0])
        return made.entry_point if made is not None else super().compile(signature)

    def add_overload(self, result: CompileResult) -> None:
        """Nobody calls it from Python."""
        self.overloads[tuple(result.signature.args)] = result


class CalledDispatcher(_Dispatcher):
    """What Python sees."""

    def add_overload(self, result: CompileResult) -> None:
        """Functions that were linked into it then have all that they ask for."""
        super().add_overload(result)
        set_environments(result.library)


def set_environments(library: Any) -> None:
    """What functions that were linked into a library ask Numba for: elsewhere set where they are compiled."""
    for symbol in library._final_module.global_variables:
        if symbol.name.startswith(_ENVIRONMENT) and not symbol.is_declaration:
            environment = lookup_environment(symbol.name)
            if environment is not None:
                library.codegen.set_env(symbol.name, environment)
