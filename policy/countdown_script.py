"""A policy for Countdown without a model: random legal steps, for trying the program and for tests.

It draws evenly from all legal steps on the numbers that are left, by the request's seed, and solves nothing on purpose. It
knows Countdown's text format, not the task; latency, limits and faults are `ScriptedPolicy`'s.
"""

from __future__ import annotations

import math
import re
from random import Random

from treewise.policy.scripted import ScriptedPolicy
from treewise.search.types import Finish, Ids, InputError, PolicyError, Step

LARGEST = 200
"""No number on the way is larger."""

WORDS = ("\n", "numbers", "target", "left", "=", "+", "-", "*", "/")
"""Ids above those of the numbers, which are their own ids."""

NEWLINE = LARGEST + 1
END = NEWLINE + len(WORDS)
"""End of sequence, the last id."""

CONTEXT = 1024
"""Default tokens of prompt and solution together."""


def countdown_policy(*, context_length: int | None = None) -> ScriptedPolicy:
    """Return a policy that plays random legal steps."""
    return ScriptedPolicy(
        random_steps,
        encode=encode_words,
        decode=decode_words,
        vocabulary_size=END + 1,
        context_length=CONTEXT if context_length is None else context_length,
        record=False,
    )


def random_steps(ids: Ids, seed: int) -> tuple[Step, ...]:
    """Return a whole solution's steps from the end of prompt and path on. Raises PolicyError when that is no Countdown path."""
    random, numbers, steps = Random(seed), numbers_left(decode_words(ids)), []
    while len(numbers) > 1:
        choices = legal_steps(numbers)
        line = choices[random.randrange(len(choices))]
        numbers = numbers_left(line)
        last = len(numbers) == 1
        step_ids = (*encode_words(line), END if last else NEWLINE)
        logprobs = (-math.log(len(choices)), *(0.0 for _ in step_ids[1:]))
        steps.append(Step(step_ids, logprobs, decode_words(step_ids), Finish.END if last else Finish.SEPARATOR))
    return tuple(steps)


def legal_steps(numbers: list[int]) -> list[str]:
    """Return the lines of all legal steps from the numbers left, in a fixed order, without repetition.

    >>> legal_steps([3, 8])[:2]
    ['8 + 3 = 11 left 11', '8 - 3 = 5 left 5']
    """
    lines: dict[str, None] = {}
    for i, first in enumerate(numbers):
        for j, second in enumerate(numbers):
            if i == j or first < second:
                continue
            rest = [n for k, n in enumerate(numbers) if k not in (i, j)]
            for sign, result in _results(first, second):
                left = " ".join(map(str, [*rest, result]))
                lines[f"{first} {sign} {second} = {result} left {left}"] = None
    return list(lines)


def numbers_left(text: str) -> list[int]:
    """Return the numbers that prompt and steps leave. Raises PolicyError when the text is no Countdown solution.

    >>> numbers_left("numbers 8 3 5 target 29\\n8 * 3 = 24 left 5 24\\n")
    [5, 24]
    """
    last = text.strip().rpartition("\n")[2].strip()
    found = re.search(r"left((?: \d+)+)$", last) or re.match(r"numbers((?: \d+)+) target \d+$", last)
    if found is None:
        raise PolicyError(f"policy 'scripted' cannot go on from {last[:80]!r}", "it only does Countdown")
    return [int(word) for word in found[1].split()]


def encode_words(text: str) -> Ids:
    """Return one id a word or line break. Raises InputError for other words.

    >>> decode_words(encode_words("8 * 3 = 24\\n"))
    '8 * 3 = 24 \\n'
    """
    return tuple(_word_id(word) for word in re.findall(r"\n|[^\s]+", text))


def decode_words(ids: Ids) -> str:
    """Return the text of ids, a space after every word; the end of sequence has no text. Texts of parts add up."""
    return "".join("" if i == END else "\n" if i == NEWLINE else f"{i if i <= LARGEST else WORDS[i - NEWLINE]} " for i in ids)


def _word_id(word: str) -> int:
    if word in WORDS:
        return NEWLINE + WORDS.index(word)
    if word.isdecimal() and word.isascii() and int(word) <= LARGEST:
        return int(word)
    raise InputError(
        f"policy 'scripted' has no token for {word[:40]!r}", f"it knows the numbers 0 to {LARGEST} and Countdown's words"
    )


def _results(first: int, second: int) -> list[tuple[str, int]]:
    results = [("+", first + second), ("-", first - second), ("*", first * second)]
    if second and first % second == 0:
        results.append(("/", first // second))
    return [(sign, result) for sign, result in results if result <= LARGEST]
