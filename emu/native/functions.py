"""Kernels as native functions, many of them in one piece of compiled code.

`hook` makes one at a time, and each takes milliseconds to load. A table of a hundred is loaded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from corebraid.base.compiled import intrinsic, ir, real, types


class Native(NamedTuple):
    """A kernel, an `@njit` function that raises nothing and allocates nothing, and the Numba signature of the
    C function that it is to be. caller: the kernel has one more argument, the address (uint64) in the caller
    to which it returns. since: the least revision that it is of. before: what those of before have, if it is
    not the other function. prelude: the kernel returns nothing, and the other function follows. original: one
    more argument, the address (uint64) of the function whose place it takes. beside: more arguments, the
    addresses (uint64) of ours in the places of other functions, which stand before it in the table.
    constants: more arguments (int64), the last ones."""

    kernel: Any
    signature: Any
    caller: bool = False
    since: int = 1
    before: Native | None = None
    prelude: bool = False
    original: bool = False
    beside: tuple[str, ...] = ()
    constants: tuple[int, ...] = ()


class Unless(NamedTuple):
    """The function called `other` is called instead, with the same arguments and to return to the same
    caller, unless the byte at argument number `argument` plus `offset` is at least `Native.since`."""

    other: str
    argument: int
    offset: int


def native_table(functions: Sequence[tuple[Native, Unless | None]]) -> Callable[[Any], None]:
    """A kernel function that puts the addresses of `functions` into the words from an address (uint64) on.

    None: the function is called whatever is set; it is no prelude.
    """

    @intrinsic
    def put(typing_context: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            words = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
            for number, (function, unless) in enumerate(functions):
                made = _c_function(context, builder.module, function, unless)
                at = builder.gep(words, [ir.Constant(ir.IntType(64), number)])
                builder.store(builder.ptrtoint(made, ir.IntType(64)), at)
            return context.get_dummy_value()

        return types.void(types.uint64), generate

    return put


def calling(signature: Any) -> Callable[..., Any]:
    """A kernel function that calls the C function of this Numba signature at an address (uint64), its first
    argument."""

    @intrinsic
    def call(typing_context: Any, function: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
            target = builder.inttoptr(given[0], _c_type(context, signature).as_pointer())
            value = builder.call(target, [builder.extract_value(given[1], k) for k in range(count)])
            return context.get_dummy_value() if real(signature).return_type == types.void.real else value

        count = len(signature.args)
        made = real(signature)
        return made.return_type(types.uint64.real, types.Tuple.real(made.args)), generate

    return call


def native_switches(signatures: Sequence[Any]) -> Callable[[Any, Any], None]:
    """A kernel function that puts, from two addresses (uint64) on, the addresses of C functions of these
    Numba signatures, and those of the words in which each finds where to go on, with the same arguments and
    to return to the same caller."""

    @intrinsic
    def put(typing_context: Any, place: Any, targets: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            words = [builder.inttoptr(argument, ir.IntType(64).as_pointer()) for argument in arguments]
            for number, signature in enumerate(signatures):
                target = ir.GlobalVariable(builder.module, ir.IntType(64), f"target_{number}")
                target.initializer, target.linkage = ir.Constant(ir.IntType(64), 0), "internal"
                for where, what in zip(
                    words, (_switch(context, builder.module, signature, target), target), strict=True
                ):
                    at = builder.gep(where, [ir.Constant(ir.IntType(64), number)])
                    builder.store(builder.ptrtoint(what, ir.IntType(64)), at)
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64), generate

    return put


def _switch(context: Any, module: Any, signature: Any, target: Any) -> Any:
    """A function that goes on where `target` says."""
    function = ir.Function(module, _c_type(context, signature), name=f"switch_{target.name}")
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    there = builder.inttoptr(builder.load(target), function.type)
    value = builder.call(there, function.args, tail="musttail")
    if real(signature).return_type == types.void.real:
        builder.ret_void()
    else:
        builder.ret(value)
    return function


def _c_type(context: Any, signature: Any) -> Any:
    signature = real(signature)
    nothing = signature.return_type == types.void.real
    result = ir.VoidType() if nothing else context.get_value_type(signature.return_type)
    return ir.FunctionType(result, [context.get_value_type(kind) for kind in signature.args])


def _c_function(context: Any, module: Any, native: Native, unless: Unless | None) -> Any:
    """A function with C's calling convention around a compiled kernel."""
    own = real(native.signature)
    kinds = own.args + (types.uint64.real,) * (native.caller + native.original + len(native.beside))
    kinds += (types.int64.real,) * len(native.constants)
    signature = (types.void.real if native.prelude else own.return_type)(*kinds)
    native.kernel.linked.compile(signature)
    compiled = native.kernel.linked.overloads[kinds]
    context.active_code_library.add_linking_library(compiled.library)
    name = module.get_unique_name(f"our_{unless.other}" if unless else "ours")
    function = ir.Function(module, _c_type(context, native.signature), name)
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    if unless is not None:
        _other_unless(context, builder, function, unless, native)
    given = [*function.args, *([_caller(builder)] if native.caller else [])]
    if native.original:
        assert unless is not None
        given.append(builder.ptrtoint(_other(module, function, unless), ir.IntType(64)))
    given += [builder.ptrtoint(module.globals[f"our_{name}"], ir.IntType(64)) for name in native.beside]
    given += [ir.Constant(ir.IntType(64), number) for number in native.constants]
    _, value = context.call_internal_no_propagate(builder, compiled.fndesc, signature, given)
    if native.original or native.constants:
        _keep_call(builder, compiled.fndesc.mangled_name)
    if native.prelude:
        assert unless is not None
        _go_on_to(builder, function, _other(module, function, unless))
    elif own.return_type == types.void.real:
        builder.ret_void()
    else:
        builder.ret(value)
    return function


def _keep_call(builder: Any, name: str) -> None:
    """The call of a kernel is not replaced by the kernel: many functions share it, and each would be as long
    to load as all of them."""
    for instruction in builder.block.instructions:
        if isinstance(instruction, ir.CallInstr) and instruction.callee.name == name:
            instruction.attributes.add("noinline")


def _other(module: Any, function: Any, unless: Unless) -> Any:
    return module.globals.get(unless.other) or ir.Function(module, function.ftype, unless.other)


def _go_on_to(builder: Any, function: Any, other: Any) -> None:
    value = builder.call(other, function.args, tail="musttail")
    if isinstance(function.ftype.return_type, ir.VoidType):
        builder.ret_void()
    else:
        builder.ret(value)


def _other_unless(context: Any, builder: Any, function: Any, unless: Unless, native: Native) -> None:
    """Goes on only where the byte is at least `Native.since`."""
    module = builder.module
    place = builder.add(function.args[unless.argument], ir.Constant(ir.IntType(64), unless.offset))
    chosen = builder.load(builder.inttoptr(place, ir.IntType(8).as_pointer()), align=1)
    since = ir.Constant(ir.IntType(8), native.since)
    with builder.if_then(builder.icmp_unsigned("<", chosen, since), likely=False):
        before = native.before
        other = _c_function(context, module, before, unless) if before else _other(module, function, unless)
        _go_on_to(builder, function, other)


def _caller(builder: Any) -> Any:
    """Where the function returns to."""
    kind = ir.FunctionType(ir.IntType(8).as_pointer(), [ir.IntType(32)])
    ask = builder.module.globals.get("llvm.returnaddress") or ir.Function(
        builder.module, kind, "llvm.returnaddress"
    )
    return builder.ptrtoint(builder.call(ask, [ir.Constant(ir.IntType(32), 0)]), ir.IntType(64))
