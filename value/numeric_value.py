"""Works out an expression in floating point, with symbols set to given values. Used to tell different answers apart, never to
show them equal. This file knows no text and no answers."""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping

from treewise.value.answer_parsing import Node

_KNOWN = {"pi": complex(math.pi), "e": complex(math.e), "i": 1j}
_LARGEST_FACTORIAL = 170


def numeric_value(node: Node, symbols: Mapping[str, complex]) -> complex | None:
    """Return the value, or None when it is undefined, overflows, or has an unknown symbol or function."""
    try:
        value = _value(node, symbols)
    except (OverflowError, ZeroDivisionError, ValueError, KeyError):
        return None
    return value if cmath.isfinite(value) else None


def free_symbols(node: Node) -> frozenset[str]:
    """Return the names of the symbols in an expression other than pi, e and i."""
    if node.op == "symbol":
        return frozenset({node.name} - set(_KNOWN))
    return frozenset().union(*(free_symbols(argument) for argument in node.arguments))


def _value(node: Node, symbols: Mapping[str, complex]) -> complex:
    if node.op == "number":
        return complex(node.value)
    if node.op == "symbol":
        return _KNOWN[node.name] if node.name in _KNOWN else symbols[node.name]
    values = [_value(argument, symbols) for argument in node.arguments]
    first = values[0]
    match node.op:
        case "negate":
            return -first
        case "add":
            return sum(values)
        case "multiply":
            return math.prod(values)
        case "invert":
            return 1 / first
        case "power":
            if abs(values[1]) > 5000:
                raise OverflowError(f"power {values[1]}")
            return first ** values[1]
        case "root":
            odd = values[1].imag == 0 and values[1].real % 2 == 1
            if odd and first.imag == 0 and first.real < 0:
                return -((-first) ** (1 / values[1]))
            return first ** (1 / values[1])
        case "factorial":
            n = first.real
            if first.imag or n < 0 or n != int(n) or n > _LARGEST_FACTORIAL:
                raise ValueError(f"factorial of {first}")
            return complex(math.factorial(int(n)))
        case "ln":
            return cmath.log(first)
        case "log":
            return cmath.log(first, float(node.name)) if node.name else cmath.log10(first)
        case "exp":
            return cmath.exp(first)
        case "sin" | "cos" | "tan" | "sinh" | "cosh" | "tanh":
            return complex(getattr(cmath, node.op)(first))
        case "arcsin" | "arccos" | "arctan":
            return complex(getattr(cmath, "a" + node.op.removeprefix("arc"))(first))
        case _:
            raise KeyError(node.op)
