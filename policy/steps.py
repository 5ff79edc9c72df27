"""Where a step ends: reads a solution token by token, as ids with the text that each completes, and says when to stop.

Splitting is on token boundaries: the token that completes a separator belongs to the step whole, even where it holds more
text. It knows no tokenizer and no model; `vocabulary.py` gives the texts and the ids that stand for special tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from treewise.search.types import Finish, InputError, StepGrammar

_BOX = "\\boxed"
_FENCE = 3
"""Back-ticks in a row that open or close a code fence."""


@dataclass(frozen=True, slots=True)
class StepRules:
    """A `StepGrammar` made ready for one vocabulary; made once, shared by all splitters."""

    grammar: StepGrammar
    end_ids: frozenset[int]
    """Tokens that end the solution: end of sequence, and stop texts that are special tokens."""
    separator_ids: frozenset[int]
    """Special tokens that are separators; their text is invisible to a decoder that skips special tokens."""
    special: re.Pattern[str]
    """Finds a character that can end a separator or open or close a guard."""
    last_characters: frozenset[str]
    """The last characters of the separators."""
    memory: int
    """Characters of a step to keep for separators and guards that began in earlier tokens."""
    stop_memory: int
    """Characters to keep for stop texts, over step boundaries."""

    @classmethod
    def of(
        cls, grammar: StepGrammar, *, end_ids: frozenset[int] = frozenset(), separator_ids: frozenset[int] = frozenset()
    ) -> StepRules:
        """Return the rules of a grammar. Raises InputError when a separator is empty or `minimum_lines` is below 1."""
        for name, texts in (("separators", grammar.separators), ("stop_texts", grammar.stop_texts)):
            if "" in texts:
                raise InputError(f"{name} of the step grammar holds an empty text: {texts!r}", "Remove it")
        if grammar.minimum_lines < 1:
            raise InputError(f"minimum_lines of the step grammar is {grammar.minimum_lines}", "Give 1 or more")
        lasts = {text[-1] for text in grammar.separators}
        watched = lasts | {"\n"} | (set("`{}\\") if grammar.guard_fences else set())
        return cls(
            grammar=grammar,
            end_ids=end_ids,
            separator_ids=separator_ids,
            special=re.compile("[" + "".join(map(re.escape, sorted(watched))) + "]"),
            last_characters=frozenset(lasts),
            memory=max(len(_BOX) + 2, *(len(text) for text in grammar.separators), 0),
            stop_memory=max((len(text) - 1 for text in grammar.stop_texts), default=0),
        )


class StepSplitter:
    """Reads one solution. After a step ended with a separator the next token begins a new step.

    >>> splitter = StepSplitter(StepRules.of(StepGrammar()))
    >>> [splitter.push(i, text) for i, text in enumerate(["\\n", "so x", " = 1", ".\\n", "\\n"])]
    [None, None, None, <Finish.SEPARATOR: 'separator'>, None]
    """

    def __init__(self, rules: StepRules, *, before: str = "") -> None:
        """Begin after the text `before`, which is read for stop texts that it may begin and for nothing else."""
        self._rules = rules
        memory = rules.stop_memory
        self._stop_tail = before[-memory:] if memory else ""
        self._begin_step()

    def _begin_step(self) -> None:
        self._recent = ""
        self._length = 0
        self._first = -1
        self._lines = 0
        self._line_has_content = False
        self._ticks = 0
        self._in_fence = False
        self._depth = 0

    def pass_over(self, text: str) -> bool:
        """Read text that holds no end of a step or solution; return False, and read nothing, when it may hold one.

        No stop texts are looked for.
        """
        if self._rules.special.search(text) is None:
            self._read_plain(text)
            return True
        before = vars(self).copy()
        if self._read_watched(text):
            vars(self).update(before)
            return False
        return True

    def push(self, token: int, piece: str) -> Finish | None:
        """Return SEPARATOR or END when this token is the last of a step or of the solution, else None.

        `piece` is the text that the token completes: empty while a character is still split over tokens.
        """
        rules = self._rules
        if token in rules.end_ids:
            return Finish.END
        if token in rules.separator_ids and self._counts(self._length) and not self._guarded:
            self._begin_step()
            return Finish.SEPARATOR
        if not piece:
            return None
        if rules.grammar.stop_texts and self._completes_stop_text(piece):
            return Finish.END
        if rules.special.search(piece) is None:
            self._read_plain(piece)
            return None
        if self._read_watched(piece) and not self._guarded:
            self._begin_step()
            return Finish.SEPARATOR
        return None

    @property
    def _guarded(self) -> bool:
        return self._in_fence or self._depth > 0

    def _counts(self, start: int) -> bool:
        """Whether a separator that starts at character `start` of the step ends it: the step has enough before it."""
        return 0 <= self._first < start and self._lines + self._line_has_content >= self._rules.grammar.minimum_lines

    def _completes_stop_text(self, piece: str) -> bool:
        seen = self._stop_tail + piece
        if any(text in seen for text in self._rules.grammar.stop_texts):
            return True
        memory = self._rules.stop_memory
        self._stop_tail = seen[-memory:] if memory else ""
        return False

    def _read_plain(self, piece: str) -> None:
        stripped = piece.lstrip()
        if stripped:
            if self._first < 0:
                self._first = self._length + len(piece) - len(stripped)
            self._line_has_content = True
        self._ticks = 0
        self._length += len(piece)
        self._recent = (self._recent + piece)[-self._rules.memory :]

    def _read_watched(self, piece: str) -> bool:
        """Read character by character; return whether a separator that counts was completed outside the guards."""
        rules, found = self._rules, False
        for character in piece:
            if rules.grammar.guard_fences:
                self._guard(character)
            if character == "\n":
                self._lines += self._line_has_content
                self._line_has_content = False
            elif not character.isspace():
                self._line_has_content = True
                if self._first < 0:
                    self._first = self._length
            self._length += 1
            self._recent = (self._recent + character)[-rules.memory :]
            if character in rules.last_characters and not found and not self._guarded:
                found = any(
                    self._recent.endswith(text) and self._counts(self._length - len(text)) for text in rules.grammar.separators
                )
        return found

    def _guard(self, character: str) -> None:
        """Follow code fences and the braces of an open box; `self._recent` ends just before `character`."""
        if character == "`":
            self._ticks += 1
            if self._ticks == _FENCE:
                self._in_fence = not self._in_fence
            return
        self._ticks = 0
        if self._in_fence:
            return
        if character == "{":
            if self._depth > 0 and not self._escaped():
                self._depth += 1
            elif self._depth == 0 and self._recent.endswith(_BOX):
                self._depth = 1
        elif character == "}" and self._depth > 0 and not self._escaped():
            self._depth -= 1

    def _escaped(self) -> bool:
        """Whether an odd number of back-slashes stands just before the current character."""
        return (len(self._recent) - len(self._recent.rstrip("\\"))) % 2 == 1
