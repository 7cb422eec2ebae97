"""The hash of a kernel: of its code and everything that is compiled together with it.

A kernel takes the code of the kernels it calls, the intrinsics it uses and the constants it names
into its own machine code, so all of them belong to its identity, however many files away. File
names, times, line numbers, comments and docstrings do not: installers change the first, and none
of them changes the machine code.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic


def fingerprint(kernel: Dispatcher) -> str:
    """Hash of a kernel and, transitively, of everything it refers to.

    Raises
    ------
    TypeError
        If the kernel refers to something whose content this module cannot tell.
    """
    found: set[Any] = set()
    waiting = [kernel]
    while waiting:
        function = waiting.pop()
        if function not in found:
            found.add(function)
            waiting += _describe(function)[1]
    descriptions = sorted(_describe(function)[0] for function in found)
    return hashlib.sha256(repr(descriptions).encode()).hexdigest()


@cache
def _describe(function: Any) -> tuple[str, tuple[Any, ...]]:
    """A function's own content, and the functions it refers to: these are described by name."""
    options: Mapping[str, Any] = {}
    plain = function
    if isinstance(function, Dispatcher):
        plain, options = function.py_func, function.targetoptions
    elif isinstance(function, _Intrinsic):
        plain = function._defn
    cells = [cell.cell_contents for cell in plain.__closure__ or ()]
    named = {
        name: plain.__globals__[name]
        for name in sorted(set(_names(plain.__code__)))
        if name in plain.__globals__
    }
    references: list[Any] = []
    content = (
        _name(plain),
        sorted((name, repr(value)) for name, value in options.items()),
        _code(plain.__code__, plain.__doc__, references),
        [_value(value, references) for value in (plain.__defaults__, plain.__kwdefaults__, *cells)],
        [(name, _value(value, references)) for name, value in named.items()],
    )
    return repr(content), tuple(references)


def _name(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _names(code: CodeType) -> Iterator[str]:
    """Names that the code and the functions defined in it look up, attributes among them."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _code(code: CodeType, docstring: str | None, references: list[Any]) -> object:
    constants = code.co_consts
    if constants and constants[0] == docstring:
        constants = constants[1:]
    variables = (code.co_varnames, code.co_freevars, code.co_cellvars)
    shape = (code.co_argcount, code.co_kwonlyargcount, code.co_flags)
    values = [_value(constant, references) for constant in constants]
    return code.co_code, code.co_names, variables, shape, values


def _value(value: Any, references: list[Any]) -> object:
    """Return a value's content, in a form whose `repr` is the same in every process."""
    if isinstance(value, (Dispatcher, _Intrinsic, FunctionType)):
        references.append(value)
        return _name(value)
    if isinstance(value, CodeType):
        return _code(value, None, references)
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [_value(item, references) for item in value]
    if is_dataclass(value) and not isinstance(value, type):  # such as an entry of the criteria
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, dict):
        return [(name, _value(item, references)) for name, item in sorted(value.items())]
    for kind, describe in _LEAVES.items():
        if isinstance(value, kind):
            return describe(value)
    raise TypeError(f"a kernel refers to {value!r}, which its fingerprint cannot cover")


def _module(module: ModuleType) -> str:
    if module.__name__.startswith("fedforest"):
        raise TypeError(f"a kernel refers to {module.__name__} as a whole; import names from it")
    return module.__name__  # of numba, numpy and Python, whose versions count


# What values without parts are described by.
_LEAVES: dict[Any, Callable[[Any], object]] = {
    frozenset: lambda items: sorted(map(repr, items)),
    np.ndarray: lambda array: (array.dtype.str, array.shape, array.tobytes()),
    type: lambda kind: (_name(kind), getattr(kind, "_fields", ())),
    ModuleType: _module,
    (BuiltinFunctionType, np.ufunc): lambda function: function.__name__,
    (int, float, complex, str, bytes, type(None), type(...), np.generic, np.dtype): lambda plain: (
        type(plain).__name__,
        repr(plain),
    ),
    (types.Type, ir.Type, ir.Constant): repr,
}
