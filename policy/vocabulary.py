"""Token ids and their texts: one Hugging Face tokenizer as the policies need it.

Texts of a running solution are decoded in a small sliding window, so that characters split over tokens come out whole and
the cost of a token does not grow with the solution. It knows no model and no prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from treewise.policy.steps import StepRules
from treewise.search.types import Ids, StepGrammar

_MEMO = 1 << 16
"""Windows whose text is remembered."""
_PENDING = 8
"""Tokens that may wait for the rest of a character; a character has at most 4 bytes, what waits longer is not text."""
_BROKEN = "\ufffd"
"""What a decoder puts for bytes that are no character (yet)."""


class Vocabulary:
    """Decoding and special tokens of one tokenizer."""

    def __init__(self, tokenizer: Any, *, end_ids: Iterable[int] = ()) -> None:
        """Wrap a Hugging Face tokenizer; `end_ids` are ends of sequence that the model's own configuration adds."""
        self.tokenizer = tokenizer
        own = () if tokenizer.eos_token_id is None else (int(tokenizer.eos_token_id),)
        self.end_ids = frozenset({*own, *end_ids})
        """Tokens that end a sequence."""
        self.size = len(tokenizer)
        """Number of tokens, added ones included."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._decode: Callable[[list[int]], str] = backend.decode if backend is not None else self._slow_decode
        self._texts: dict[Ids, str] = {}

    def _slow_decode(self, ids: list[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens left out, nothing cleaned up."""
        return self._decode(list(ids))

    def window(self, ids: Ids) -> str:
        """Return the text of a few ids, from memory where it was asked before."""
        text = self._texts.get(ids)
        if text is None:
            if len(self._texts) >= _MEMO:
                self._texts.clear()
            text = self._texts[ids] = self._decode(list(ids))
        return text

    def stream(self, before: Sequence[int] = ()) -> TextStream:
        """Return a reader for tokens that follow `before`."""
        return TextStream(self, before)

    def special_ids(self, texts: Iterable[str]) -> frozenset[int]:
        """Return the ids of those texts that are special tokens, which decoding leaves out."""
        wanted = set(texts)
        added = self.tokenizer.added_tokens_decoder
        return frozenset(int(i) for i, token in added.items() if token.special and token.content in wanted)

    def rules(self, grammar: StepGrammar) -> StepRules:
        """Return the grammar made ready for this vocabulary. Raises InputError when the grammar is unusable."""
        return StepRules.of(
            grammar,
            end_ids=self.end_ids | self.special_ids(grammar.stop_texts),
            separator_ids=self.special_ids(grammar.separators),
        )

    def completing_ids(self, texts: Sequence[str]) -> frozenset[int]:
        """Return every token that can be the one which completes one of `texts`, special tokens of that text included.

        A token can complete a text if it holds it whole or begins with a rest of it. A token of broken bytes may complete
        any text whose last character is not ASCII.
        """
        found = set(self.special_ids(texts))
        rests = tuple({text[i:] for text in texts for i in range(1, len(text))})
        broken_counts = any(not text[-1].isascii() for text in texts)
        for token, forms in enumerate(self._token_texts()):
            for text in forms:
                whole = any(t in text for t in texts)
                if whole or (rests and text.startswith(rests)) or (broken_counts and _BROKEN in text):
                    found.add(token)
        return frozenset(found)

    def _token_texts(self) -> list[set[str]]:
        """The texts of every token, alone and after a letter, where some decoders put a space."""
        letter = self.tokenizer.encode("a", add_special_tokens=False)[-1:]
        lead = self.decode(letter)
        after = [self.decode([*letter, i]) for i in range(self.size)]
        return [{self.decode([i]), text[len(lead) :] if text.startswith(lead) else text} for i, text in enumerate(after)]


class TextStream:
    """Turns tokens into the text that each completes, in amortised constant time."""

    def __init__(self, vocabulary: Vocabulary, before: Sequence[int]) -> None:
        self._vocabulary = vocabulary
        self._begin_after(before)

    def _begin_after(self, before: Sequence[int]) -> None:
        self._window: Ids = tuple(before[-_PENDING:])
        self._read = len(self._window)
        self._prefix = self._vocabulary.window(self._window) if self._window else ""

    def peek(self, tokens: Sequence[int]) -> tuple[str, str] | None:
        """Return the text that all but the last of `tokens` would complete, and the last one's; None where a character stays
        open, so that they have to be pushed one by one. Nothing is taken."""
        whole = self._vocabulary.decode((*self._window, *tokens))
        before = self._vocabulary.decode((*self._window, *tokens[:-1]))
        if before.endswith(_BROKEN) or whole.endswith(_BROKEN):
            return None
        return before[len(self._prefix) :], whole[len(before) :]

    def skip(self, tokens: Sequence[int]) -> None:
        """Take the tokens of a `peek`."""
        self._begin_after((*self._window, *tokens))

    def push(self, token: int) -> str:
        """Return the text that this token completes; empty while a character is still open, and for special tokens."""
        self._window = (*self._window, token)
        text = self._vocabulary.window(self._window)
        pending = len(self._window) - self._read
        if pending <= _PENDING and (len(text) <= len(self._prefix) or text.endswith(_BROKEN)):
            return ""
        piece = text[len(self._prefix) :]
        self._window = self._window[self._read :]
        self._read = len(self._window)
        self._prefix = self._vocabulary.window(self._window)
        return piece
