"""Exact arithmetic on expressions: quotients of polynomials over the rationals in symbols and roots of primes.

Each value has a normal form up to a common factor, so equality is decided by multiplying out. Roots p^(a/n) of primes, with
exponents in [0, 1), are linearly independent over the rationals, so different forms are different numbers.
Source: Besicovitch (1940), "On the linear independence of fractional powers of integers".

Work is limited by a count of operations weighted by the length of their numbers, not by a clock: a hard expression raises
TooHard within a fraction of a second, from any thread. This file knows no text and no answers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from treewise.search.types import TreewiseError
from treewise.value.answer_parsing import Node


class TooHard(TreewiseError):
    """The expression is too large to be decided exactly, or outside this algebra, or undefined."""


class Atom(NamedTuple):
    """A prime under a root, or a symbol, or an opaque function value."""

    prime: int
    """0 for symbols and functions."""
    name: str
    opaque: bool = False
    """Whether equal values may have different names, so that different forms need not be different."""


Monomial: TypeAlias = tuple[tuple[Atom, Fraction], ...]
"""Sorted atoms with their exponents, never 0."""

Polynomial: TypeAlias = dict[Monomial, Fraction]
"""Coefficients, never 0."""

_ONE: Monomial = ()
_POSITIVE = ("pi", "e")
_WORK = 5_000
_BITS = 30_000
_LARGEST_FACTORIAL = 2500
_LARGEST_POWER = 40
_TRIALS = 2000
_MOST_ROOT = 12


class Quotient(NamedTuple):
    """`over / under`; `under` is not 0."""

    over: Polynomial
    under: Polynomial

    @property
    def rational(self) -> Fraction | None:
        """The value, when it is a rational number."""
        if set(self.over) | set(self.under) <= {_ONE}:
            return self.over.get(_ONE, Fraction(0)) / self.under[_ONE]
        return None

    @property
    def atoms(self) -> frozenset[Atom]:
        """All atoms in it."""
        return frozenset(atom for side in self for monomial in side for atom, _ in monomial)

    @property
    def symbols(self) -> frozenset[str]:
        """Names of its symbols."""
        return frozenset(atom.name for atom in self.atoms if not atom.prime and not atom.opaque)

    @property
    def degree(self) -> Fraction | None:
        """Total degree, when it is a polynomial in its symbols with exponents that are whole numbers."""
        if set(self.under) != {_ONE}:
            return None
        exponents = [[e for atom, e in monomial if not atom.prime] for monomial in self.over]
        if any(e < 0 or e.denominator > 1 for row in exponents for e in row):
            return None
        return max((sum(row, Fraction(0)) for row in exponents), default=Fraction(0))


class Algebra:
    """Works out expressions within one allowance of work; make a new one for each comparison."""

    def __init__(self) -> None:
        self._left = float(_WORK)

    def evaluate(self, node: Node) -> Quotient:
        """Return the exact value. Raises TooHard."""
        match node.op:
            case "number":
                return _constant(node.value)
            case "symbol":
                return Quotient({((Atom(0, node.name), Fraction(1)),): Fraction(1)}, {_ONE: Fraction(1)})
            case "negate":
                return self._product(_constant(Fraction(-1)), self.evaluate(node.arguments[0]))
            case "add":
                total = self.evaluate(node.arguments[0])
                for argument in node.arguments[1:]:
                    total = self._sum(total, self.evaluate(argument))
                return total
            case "multiply":
                result = self.evaluate(node.arguments[0])
                for argument in node.arguments[1:]:
                    result = self._product(result, self.evaluate(argument))
                return result
            case "invert":
                return self._inverse(self.evaluate(node.arguments[0]))
            case "power":
                return self._power(self.evaluate(node.arguments[0]), self.evaluate(node.arguments[1]))
            case "root":
                return self._indexed_root(self.evaluate(node.arguments[0]), self.evaluate(node.arguments[1]))
            case "factorial":
                return _constant(Fraction(math.factorial(_natural(self.evaluate(node.arguments[0])))))
            case "binomial":
                above, below = (_natural(self.evaluate(argument)) for argument in node.arguments)
                return _constant(Fraction(math.comb(above, below)))
            case _:
                return self._opaque(f"{node.op}_{node.name}", self.evaluate(node.arguments[0]))

    def equal(self, a: Quotient, b: Quotient) -> bool:
        """Return whether both forms are the same. Raises TooHard."""
        return self._times(a.over, b.under) == self._times(b.over, a.under)

    def proportional(self, a: Polynomial, b: Polynomial) -> bool:
        """Return whether one polynomial is a rational multiple, not 0, of the other."""
        if set(a) != set(b) or not a:
            return False
        first = next(iter(a))
        return all(a[m] * b[first] == b[m] * a[first] for m in a)

    def difference(self, a: Quotient, b: Quotient) -> Quotient:
        """Return `a - b`. Raises TooHard."""
        return self._sum(a, self._product(_constant(Fraction(-1)), b))

    def _spend(self, *numbers: Fraction) -> None:
        bits = max((max(n.numerator.bit_length(), n.denominator.bit_length()) for n in numbers), default=0)
        self._left -= 1 + (bits / 2000) ** 2
        if bits > _BITS or self._left < 0:
            raise TooHard("the expression is too large to be worked out exactly")

    def _times(self, a: Polynomial, b: Polynomial) -> Polynomial:
        result: Polynomial = {}
        for first, x in a.items():
            for second, y in b.items():
                self._spend(x, y)
                monomial, factor = _merged(first, second)
                total = result.get(monomial, Fraction(0)) + x * y * factor
                self._spend(total)
                if total:
                    result[monomial] = total
                else:
                    result.pop(monomial, None)
        return result

    def _plus(self, a: Polynomial, b: Polynomial) -> Polynomial:
        result = dict(a)
        for monomial, y in b.items():
            total = result.get(monomial, Fraction(0)) + y
            self._spend(total)
            if total:
                result[monomial] = total
            else:
                result.pop(monomial, None)
        return result

    def _sum(self, a: Quotient, b: Quotient) -> Quotient:
        if a.under == b.under:
            return Quotient(self._plus(a.over, b.over), a.under)
        return Quotient(self._plus(self._times(a.over, b.under), self._times(b.over, a.under)), self._times(a.under, b.under))

    def _product(self, a: Quotient, b: Quotient) -> Quotient:
        return Quotient(self._times(a.over, b.over), self._times(a.under, b.under))

    def _inverse(self, a: Quotient) -> Quotient:
        if not a.over:
            raise TooHard("a division by zero")
        if len(a.over) > 1:
            return Quotient(a.under, a.over)
        [(monomial, coefficient)] = a.over.items()
        turned, factor = _merged(tuple((atom, -e) for atom, e in monomial), _ONE)
        return Quotient(self._times(a.under, {turned: factor / coefficient}), {_ONE: Fraction(1)})

    def _power(self, base: Quotient, exponent: Quotient) -> Quotient:
        n = exponent.rational
        if n is None:
            return self._opaque("power", base, exponent)
        if n.denominator > 1:
            base = self._root(base, n.denominator)
        times = abs(n.numerator)
        if not base.over:
            if n <= 0:
                raise TooHard("zero to a power that is not positive")
            return base
        size = max(max(c.numerator.bit_length(), c.denominator.bit_length()) for side in base for c in side.values())
        several = len(base.over) > 1 or len(base.under) > 1
        if times > (_LARGEST_POWER if several else _BITS) or (size > 1 and size * times > 2 * _BITS):
            raise TooHard("a power is too large to be worked out exactly")
        result = _constant(Fraction(1))
        square = base
        while times:
            if times & 1:
                result = self._product(result, square)
            times >>= 1
            if times:
                square = self._product(square, square)
        return self._inverse(result) if n < 0 else result

    def _indexed_root(self, value: Quotient, index: Quotient) -> Quotient:
        n = index.rational
        if n is None or n.denominator > 1 or n < 2:
            raise TooHard("a root whose index is not a whole number from 2 on")
        return self._root(value, n.numerator)

    def _root(self, value: Quotient, index: int) -> Quotient:
        """The index-th root, real where there is one; a sum under the root stays opaque."""
        if index > _MOST_ROOT:
            raise TooHard(f"a root of index above {_MOST_ROOT}")
        if not value.over:
            return value
        if len(value.over) > 1 or len(value.under) > 1:
            return self._opaque(f"root{index}", value)
        [(above, x)], [(below, y)] = value.over.items(), value.under.items()
        inside, factor = _merged(above, tuple((atom, -e) for atom, e in below))
        coefficient = x / y * factor
        names = {atom.name for atom, _ in inside if not atom.prime} - set(_POSITIVE)
        exponents = [e for atom, e in inside if not atom.prime and atom.name not in _POSITIVE]
        if len(names) > 1 or any(e.numerator % 2 == 0 for e in exponents) or any(atom.opaque for atom, _ in inside):
            return self._opaque(f"root{index}", value)
        sign = _constant(Fraction(1))
        if coefficient < 0:
            if names or (index > 2 and index % 2 == 0):
                return self._opaque(f"root{index}", value)
            imaginary = Quotient({((Atom(0, "i"), Fraction(1)),): Fraction(1)}, {_ONE: Fraction(1)})
            sign = imaginary if index == 2 else _constant(Fraction(-1))
        exponent = Fraction(1, index)
        parts: dict[Atom, Fraction] = {atom: e * exponent for atom, e in inside}
        for number, direction in ((abs(coefficient.numerator), 1), (coefficient.denominator, -1)):
            for prime, times in self._factors(number, index).items():
                atom = Atom(prime, "")
                parts[atom] = parts.get(atom, Fraction(0)) + direction * times * exponent
        monomial, outside = _merged(tuple(sorted(parts.items())), _ONE)
        return self._product(sign, Quotient({monomial: outside}, {_ONE: Fraction(1)}))

    def _factors(self, number: int, index: int) -> dict[int, int]:
        """Prime factors with their exponents. Raises TooHard when a large factor is left that is no full power of `index`."""
        self._spend(Fraction(number))
        factors: dict[int, int] = {}
        prime = 2
        while prime <= _TRIALS and prime * prime <= number:
            while number % prime == 0:
                self._spend(Fraction(number))
                factors[prime] = factors.get(prime, 0) + 1
                number //= prime
            prime += 1
        if number == 1:
            return factors
        if number <= _TRIALS * _TRIALS:
            factors[number] = factors.get(number, 0) + 1
            return factors
        base = math.isqrt(number)
        if base * base == number and base <= _TRIALS * _TRIALS:
            for prime, times in self._factors(base, index).items():
                factors[prime] = factors.get(prime, 0) + 2 * times
            return factors
        raise TooHard("a number under a root is too large to be factored")

    def _opaque(self, name: str, *arguments: Quotient) -> Quotient:
        """A function value known by its argument alone."""
        written = ",".join(f"{_spelled(a.over)}/{_spelled(a.under)}" for a in arguments)
        if len(written) > 2000:
            raise TooHard(f"the argument of {name} is too long")
        return Quotient({((Atom(0, f"{name}({written})", True), Fraction(1)),): Fraction(1)}, {_ONE: Fraction(1)})


def _constant(value: Fraction) -> Quotient:
    return Quotient({_ONE: value} if value else {}, {_ONE: Fraction(1)})


def _natural(value: Quotient) -> int:
    n = value.rational
    if n is None or n.denominator > 1 or not 0 <= n <= _LARGEST_FACTORIAL:
        raise TooHard(f"a factorial or binomial of something other than a whole number up to {_LARGEST_FACTORIAL}")
    return n.numerator


def _merged(a: Monomial, b: Monomial) -> tuple[Monomial, Fraction]:
    """The product of two monomials and the rational factor that leaves roots of primes with exponents in [0, 1)."""
    exponents: dict[Atom, Fraction] = dict(a)
    for atom, e in b:
        exponents[atom] = exponents.get(atom, Fraction(0)) + e
    factor = Fraction(1)
    for atom, e in exponents.items():
        whole = math.floor(e)
        if atom.prime and whole:
            if abs(whole) * atom.prime.bit_length() > _BITS:
                raise TooHard("a power is too large to be worked out exactly")
            factor *= Fraction(atom.prime) ** whole
            exponents[atom] = e - whole
    return tuple(sorted((atom, e) for atom, e in exponents.items() if e)), factor


def _spelled(polynomial: Polynomial) -> str:
    """One spelling for equal polynomials; hexadecimal, since Python limits the length of decimals."""
    terms = []
    for monomial, c in sorted(polynomial.items()):
        factors = "".join(f"[{atom.prime}{atom.name}^{e}]" for atom, e in monomial)
        terms.append(f"{c.numerator:x}:{c.denominator:x}{factors}")
    return "+".join(terms)
