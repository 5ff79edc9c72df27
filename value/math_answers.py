"""Checks a mathematical answer against a reference: correct, incorrect, or undecided with the reason.

A plain checker: exact rational, root and polynomial arithmetic, lists, intervals, matrices and simple equations. It never
calls an answer correct that it has not shown to be equal, and it uses no clock, signal or process, so it works from any
thread; hard inputs run into its limits of length, depth and work and are undecided.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from treewise.search.types import Verdict, VerdictKind
from treewise.value.answer_extraction import final_answer
from treewise.value.answer_forms import Equation, Form, Group, Matrix, Row, Text, Value, read_forms, unit_name
from treewise.value.answer_parsing import Node
from treewise.value.answer_text import plain
from treewise.value.exact_algebra import Algebra, Quotient, TooHard
from treewise.value.numeric_value import free_symbols, numeric_value

_CORRECT, _INCORRECT, _UNDECIDED = VerdictKind.CORRECT, VerdictKind.INCORRECT, VerdictKind.UNDECIDED
_SAMPLES = (1.3717, 2.2361, 0.6180)
_CLOSE = 1e-9
_HUNDRED = Fraction(100)
_CHOICE = re.compile(r"\(?([A-Ja-j])\)?[.)]?")
_UNIT_LETTERS = frozenset("mgshlLJNWVKCFA")
_OPPOSITES = ({"yes", "no"}, {"true", "false"}, {"even", "odd"}, {"increasing", "decreasing"})
_RATIO = re.compile(r"(\d{1,9}) ?: ?(\d{1,9})")
_LAST_CLAIM = re.compile(r"\b(?:is|equals|are|total of)\s+(\S(?:[^.\n]|\.(?=\d)){0,80})\.?\s*$|=\s*([^=\n]{1,80}?)\.?\s*$")
_LONGEST_QUOTE = 60


def check_response(reference: str, response: str) -> Verdict:
    """Return the verdict on a response: a bare answer, or a solution that states one by a box, `####` or "answer is".

    The reference may be a GSM8K solution that ends in `#### 42`. Never raises.
    """
    answer = final_answer(response)
    stated = final_answer(reference)
    gold = stated.text if stated is not None else reference
    if answer is not None:
        return check_answer(gold, answer.text)
    if "\\boxed" in response or "\\fbox" in response:
        return Verdict(_UNDECIDED, "the response has a box that is empty or not closed, and no other final answer")
    verdict = check_answer(gold, response)
    if verdict.kind is _UNDECIDED and (claim := _LAST_CLAIM.search(response[-200:])) is not None:
        return check_answer(gold, claim.group(1) or claim.group(2))
    return verdict


def check_answer(reference: str, answer: str) -> Verdict:
    """Return the verdict on a bare answer. Never raises.

    >>> check_answer("1/2", "0.50").kind
    <VerdictKind.CORRECT: 'correct'>
    """
    gold, given = plain(reference), plain(answer)
    if not gold:
        return Verdict(_UNDECIDED, "the reference is empty")
    if not given:
        return Verdict(_UNDECIDED, "the answer is empty")
    if gold.replace(" ", "") == given.replace(" ", ""):
        return Verdict(_CORRECT, "same text")
    choice = re.fullmatch("[A-J]", gold.strip("()"))
    if choice is not None and (picked := _CHOICE.fullmatch(given)) is not None:
        same = picked.group(1).upper() == choice.group()
        return Verdict(_CORRECT if same else _INCORRECT, f"choice {picked.group(1).upper()} for {choice.group()}")
    verdicts = [_compare(a, b) for a in read_forms(reference) for b in read_forms(answer)]
    for kind in (_CORRECT, _UNDECIDED):
        for verdict in verdicts:
            if verdict.kind is kind:
                return verdict
    return verdicts[0]


def tidy(answer: str) -> str:
    """Return an answer without dressing, plain numbers in one spelling, so that equal answers vote together.

    >>> tidy("$18.00"), tidy("12,000"), tidy("007.50")
    ('18', '12000', '7.5')
    """
    text = plain(answer)
    digits = text.replace(",", "") if re.fullmatch(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?", text) else text
    number = re.fullmatch(r"(-?)0*(\d+)(?:\.(\d*?)0*)?", digits)
    if number is None:
        return text
    sign, whole, decimals = number.groups()
    value = whole + (f".{decimals}" if decimals else "")
    return value if value == "0" else sign + value


def _compare(gold: Form, given: Form) -> Verdict:
    """The verdict on two forms."""
    match gold, given:
        case Text(), _:
            return _texts(gold, given)
        case _, Text():
            return Verdict(_UNDECIDED, f"{given.text[:_LONGEST_QUOTE]!r} cannot be read: {given.why}")
        case Value(), Value():
            return _values(gold, given)
        case Equation(), Equation():
            return _equations(gold, given)
        case Equation(left=Node(op="symbol")), Value():
            return _values(Value(gold.right, ""), given)
        case Value(), Equation(left=Node(op="symbol")):
            return _values(gold, Value(given.right, ""))
        case Matrix(), Matrix():
            shapes = [[len(row) for row in m.rows] for m in (gold, given)]
            if shapes[0] != shapes[1]:
                return Verdict(_INCORRECT, "matrices of different shapes")
            return _all([_compare(a, b) for p, q in zip(gold.rows, given.rows, strict=True) for a, b in zip(p, q, strict=True)])
        case Row(), Row():
            if len(gold.items) != len(given.items):
                return Verdict(_INCORRECT, f"{len(given.items)} items for {len(gold.items)}")
            inside = _all([_compare(a, b) for a, b in zip(gold.items, given.items, strict=True)])
            if inside.kind is _INCORRECT or (gold.opening, gold.closing) == (given.opening, given.closing):
                return inside
            return Verdict(_INCORRECT, f"brackets {given.opening}{given.closing} for {gold.opening}{gold.closing}")
        case Group(), Group():
            return _groups(gold.items, given.items)
        case (Group(items=a), Row(items=b)) | (Row(items=a), Group(items=b)):
            if _groups(a, b).kind is not _INCORRECT:
                return Verdict(_UNDECIDED, "an ordered answer against one without order")
            return Verdict(_INCORRECT, "different items")
        case (Value(), Group(items=[only])) | (Group(items=[only]), Value()):
            return _compare(only, given if isinstance(given, Value) else gold)
        case (Value(), Group() as several) | (Group() as several, Value()) if _has_statements(several):
            return Verdict(_UNDECIDED, "a value against several statements")
        case (Equation(), _) | (_, Equation()):
            return Verdict(_UNDECIDED, "an equation against something else")
        case _:
            return Verdict(_INCORRECT, f"a {type(given).__name__.lower()} for a {type(gold).__name__.lower()}")


def _has_statements(group: Group) -> bool:
    """Whether items are more than values of one name: equations, or texts that may say anything."""
    bare = _without_names(group.items)
    return bare is None or any(isinstance(item, Equation | Text) for item in bare)


def _texts(gold: Text, given: Form) -> Verdict:
    """A reference that is not read as mathematics: the same words are the same, opposite words differ, ratios are worked out."""
    if not isinstance(given, Text):
        return Verdict(_UNDECIDED, f"the reference {gold.text[:_LONGEST_QUOTE]!r} cannot be read: {gold.why}")
    a, b = (" ".join(form.text.casefold().replace("-", " ").split()) for form in (gold, given))
    if a.isascii() and re.fullmatch("[a-z ]+", a) and a == b:
        return Verdict(_CORRECT, "same words")
    if any({a, b} == pair for pair in _OPPOSITES):
        return Verdict(_INCORRECT, f"{b} for {a}")
    ratios = [_RATIO.fullmatch(t) for t in (a, b)]
    if ratios[0] is not None and ratios[1] is not None:
        (p, q), (r, s) = (tuple(int(g) for g in ratio.groups()) for ratio in ratios if ratio is not None)
        if p * s != q * r:
            return Verdict(_INCORRECT, f"{b} for {a}")
    return Verdict(_UNDECIDED, f"{b[:_LONGEST_QUOTE]!r} and {a[:_LONGEST_QUOTE]!r} cannot be compared: {gold.why}")


def _values(gold: Value, given: Value) -> Verdict:
    percent = [form.unit == "%" for form in (gold, given)]
    verdict = _nodes(gold.node, given.node)
    if percent[0] != percent[1] and not (gold.unit and given.unit):
        return _percents(verdict, ratio=gold if percent[0] else given, other=given if percent[0] else gold)
    names = [unit_name(form.unit) for form in (gold, given)]
    if names[0] and names[1] and names[0] != names[1]:
        return Verdict(_UNDECIDED, f"the units {given.unit!r} and {gold.unit!r} are not compared")
    return verdict


def _percents(verdict: Verdict, *, ratio: Value, other: Value) -> Verdict:
    """A percentage against a bare number: the same number counts, the same ratio is undecided."""
    if verdict.kind is not _INCORRECT:
        return verdict
    hundredth = Node("multiply", (ratio.node, Node("invert", (Node("number", value=_HUNDRED),))))
    if _nodes(hundredth, other.node).kind is _INCORRECT:
        return verdict
    return Verdict(_UNDECIDED, "a percentage against the same ratio without the sign")


def _nodes(gold: Node, given: Node) -> Verdict:
    """Equal by exact forms, different by exact forms or by a floating-point value; anything else is undecided."""
    algebra = Algebra()
    why = "equal at sample points, not shown equal"
    separable = False
    try:
        a, b = algebra.evaluate(gold), algebra.evaluate(given)
        if algebra.equal(a, b):
            return Verdict(_CORRECT, "equal")
        separable = not any(atom.opaque or atom.name == "i" for atom in a.atoms | b.atoms)
        if _looks_like_unit(a, b) or _looks_like_unit(b, a):
            return Verdict(_UNDECIDED, "a single letter may be a unit")
    except TooHard as hard:
        why = str(hard)
    if separable or _differ(gold, given):
        return Verdict(_INCORRECT, "different values")
    return Verdict(_UNDECIDED, why)


def _looks_like_unit(a: Quotient, b: Quotient) -> bool:
    return len(a.over) == 1 and a.degree == 1 and len(a.symbols) == 1 and a.symbols <= _UNIT_LETTERS and not b.symbols


def _differ(gold: Node, given: Node) -> bool:
    """Whether both are defined and clearly different at a sample point with positive symbols."""
    names = sorted(free_symbols(gold) | free_symbols(given))
    for shift in range(len(_SAMPLES)):
        point = {name: complex(_SAMPLES[(i + shift) % len(_SAMPLES)] + 0.1 * (i + shift)) for i, name in enumerate(names)}
        a, b = numeric_value(gold, point), numeric_value(given, point)
        if a is not None and b is not None and abs(a - b) > _CLOSE * max(abs(a), abs(b), 1e-300):
            return True
    return False


def _equations(gold: Equation, given: Equation) -> Verdict:
    """Same left symbol: the right sides decide. Else one side minus the other must be a multiple, or differ and be linear."""
    if gold.left == given.left and gold.left.op == "symbol":
        return _nodes(gold.right, given.right)
    algebra = Algebra()
    try:
        a, b = (algebra.difference(algebra.evaluate(e.left), algebra.evaluate(e.right)) for e in (gold, given))
        if algebra.proportional(a.over, b.over) and algebra.proportional(a.under, b.under):
            return Verdict(_CORRECT, "the same equation")
    except TooHard as hard:
        return Verdict(_UNDECIDED, str(hard))
    if a.degree is not None and b.degree is not None and max(a.degree, b.degree) <= 1:
        return Verdict(_INCORRECT, "different linear equations")
    return Verdict(_UNDECIDED, "different equations that may have the same solutions")


def _groups(gold: Sequence[Form], given: Sequence[Form]) -> Verdict:
    """Each item has exactly one partner, in any order. A pair that is undecided leaves a mismatch undecided."""
    if len(gold) > 50 or len(given) > 50:
        return Verdict(_UNDECIDED, "a list of more than 50 items")
    bare = [_without_names(items) for items in (gold, given)]
    if (bare[0] is None) != (bare[1] is None):
        return Verdict(_UNDECIDED, "named values against values without names")
    golds, givens = (list(b if b is not None else items) for b, items in zip(bare, (gold, given), strict=True))
    unsure = False
    for item in golds:
        kinds = [_compare(item, other).kind for other in givens]
        if _CORRECT in kinds:
            givens.pop(kinds.index(_CORRECT))
        elif _UNDECIDED in kinds:
            unsure = True
        else:
            return Verdict(_INCORRECT, "an item is missing")
    if unsure:
        return Verdict(_UNDECIDED, "items that cannot be compared")
    return Verdict(_INCORRECT, "too many items") if givens else Verdict(_CORRECT, "the same items")


def _without_names(items: Sequence[Form]) -> list[Form] | None:
    """The items, with one common name `x = ` taken off; None when they name different symbols."""
    names = {item.left.name for item in items if isinstance(item, Equation) and item.left.op == "symbol"}
    if len(names) > 1:
        return None
    return [Value(i.right, "") if isinstance(i, Equation) and i.left.op == "symbol" else i for i in items]


def _all(verdicts: Sequence[Verdict]) -> Verdict:
    """Correct when all are; incorrect when one is."""
    for kind in (_INCORRECT, _UNDECIDED):
        for verdict in verdicts:
            if verdict.kind is kind:
                return verdict
    return Verdict(_CORRECT, "equal item by item")
