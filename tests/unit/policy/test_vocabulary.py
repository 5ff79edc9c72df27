"""Texts of running solutions, over real tokenizers made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from treewise.policy.samples import Sample
from treewise.policy.vocabulary import Vocabulary
from treewise.search.types import Finish, StepGrammar, StepRequest


@pytest.fixture(scope="module")
def byte_vocabulary(byte_model: Path) -> Vocabulary:
    return Vocabulary(AutoTokenizer.from_pretrained(byte_model))


def sentencepiece_like() -> Vocabulary:
    """Metaspace with byte fall-back, as Llama 2 and Gemma write text: a leading blank is lost when decoded alone."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "▁so", "▁x", ".", "▁"]
    core = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [], unk_token="<unk>", byte_fallback=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Vocabulary(PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>"))


def read(vocabulary: Vocabulary, ids: list[int]) -> str:
    stream = vocabulary.stream()
    return "".join(stream.push(i) for i in ids)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_stream_gives_the_text_whatever_the_characters(byte_vocabulary: Vocabulary, text: str) -> None:
    """T14: characters of 2 to 4 bytes are split over tokens here, since the vocabulary merges only ASCII."""
    ids = byte_vocabulary.tokenizer.encode(text, add_special_tokens=False)
    if "\ufffd" not in text:
        assert read(byte_vocabulary, ids) == text


def test_chinese_character_comes_whole_with_its_last_byte(byte_vocabulary: Vocabulary) -> None:
    ids = byte_vocabulary.tokenizer.encode("设。", add_special_tokens=False)
    stream = byte_vocabulary.stream()
    assert [stream.push(i) for i in ids] == ["", "", "设", "", "", "。"]


def test_bytes_that_are_no_text_do_not_hide_what_follows(byte_vocabulary: Vocabulary) -> None:
    tokenizer = byte_vocabulary.tokenizer
    (bad,) = set(tokenizer.encode("设", add_special_tokens=False)[:1])
    text = read(byte_vocabulary, [bad] * 50 + tokenizer.encode("a\n", add_special_tokens=False))
    assert text.endswith("a\n")


def test_stream_keeps_a_blank_that_decoding_alone_loses() -> None:
    vocabulary = sentencepiece_like()
    so, x = vocabulary.tokenizer.convert_tokens_to_ids(["▁so", "▁x"])
    stream = vocabulary.stream((so,))
    assert stream.push(x) == " x"
    assert vocabulary.decode((x,)) == "x"


def test_byte_fallback_newline_completes_a_separator() -> None:
    """S11: the newline of such vocabularies is a byte token."""
    vocabulary = sentencepiece_like()
    newline = vocabulary.tokenizer.convert_tokens_to_ids("<0x0A>")
    assert vocabulary.completing_ids(["\n"]) == {newline}


def test_blank_at_the_end_of_a_separator_is_found_in_tokens_that_lose_it_when_alone() -> None:
    vocabulary = sentencepiece_like()
    so, blank = vocabulary.tokenizer.convert_tokens_to_ids(["▁so", "▁"])
    assert {so, blank} <= vocabulary.completing_ids([". "])


def test_completing_ids_are_all_tokens_that_hold_or_continue_the_text(byte_vocabulary: Vocabulary) -> None:
    """T61: every vocabulary item with the separator inside, and every rest of a separator begun before."""
    found = byte_vocabulary.completing_ids(["\n\n"])
    texts = {i: byte_vocabulary.decode((i,)) for i in range(byte_vocabulary.size)}
    assert found == {i for i, text in texts.items() if "\n\n" in text or text.startswith("\n")}
    assert any(text.startswith(".\n\n") for i, text in texts.items() if i in found), "the vocabulary has no merged separator"


def test_completing_ids_of_a_separator_whose_bytes_are_split(byte_vocabulary: Vocabulary) -> None:
    last = byte_vocabulary.tokenizer.encode("。", add_special_tokens=False)[-1]
    assert last in byte_vocabulary.completing_ids(["。"])


def sample(vocabulary: Vocabulary, grammar: StepGrammar, ids: list[int], *, steps: int | None = None, limit: int = 99) -> Sample:
    taken = Sample(vocabulary, vocabulary.rules(grammar), StepRequest((5,), 1, (0,), limit, steps))
    for token in ids:
        if taken.add(token, -0.5):
            break
    return taken


def encode(vocabulary: Vocabulary, text: str) -> list[int]:
    ids: list[int] = vocabulary.tokenizer.encode(text, add_special_tokens=False)
    return ids


def test_sample_keeps_ids_as_they_came_and_special_separators(byte_vocabulary: Vocabulary) -> None:
    """T14: the ids of the steps are the ids of the stream; a special token ends a step without text."""
    ids = encode(byte_vocabulary, "so x.<step>设y.<step>\n\nso<eos>")
    taken = sample(byte_vocabulary, StepGrammar(separators=("<step>",)), ids)
    assert [i for step in taken.steps for i in step.ids] == ids
    assert [step.text for step in taken.steps] == ["so x.", "设y.", "\n\nso"]
    assert [step.finish for step in taken.steps] == [Finish.SEPARATOR, Finish.SEPARATOR, Finish.END]


def test_special_token_as_stop_text(byte_vocabulary: Vocabulary) -> None:
    taken = sample(byte_vocabulary, StepGrammar(stop_texts=("<step>",)), encode(byte_vocabulary, "so<step>x"))
    assert [(step.text, step.finish) for step in taken.steps] == [("so", Finish.END)]


def test_stop_text_begun_in_the_path_before(byte_vocabulary: Vocabulary) -> None:
    """S11"""
    grammar = StepGrammar(stop_texts=("\nQ:",))
    prompt, path = encode(byte_vocabulary, "\n"), encode(byte_vocabulary, "so\n")
    rules = byte_vocabulary.rules(grammar)
    going = Sample(byte_vocabulary, rules, StepRequest((*prompt, *path), len(prompt), (0,), 9))
    assert [going.add(i, 0.0) for i in encode(byte_vocabulary, "Q:")] == [False, True]
    assert going.steps[-1].finish is Finish.END
    fresh = Sample(byte_vocabulary, rules, StepRequest(tuple(prompt), len(prompt), (0,), 9))
    assert not any(fresh.add(i, 0.0) for i in encode(byte_vocabulary, "Q:")), "the prompt's own newline is no part of it"


def test_limits_of_a_sample(byte_vocabulary: Vocabulary) -> None:
    ids = encode(byte_vocabulary, "a\nb\ncd")
    assert [s.text for s in sample(byte_vocabulary, StepGrammar(), ids, steps=2).steps] == ["a\n", "b\n"]
    cut = sample(byte_vocabulary, StepGrammar(), ids, limit=5)
    assert [(s.text, s.finish) for s in cut.steps][-1] == ("c", Finish.LENGTH)
    exact = sample(byte_vocabulary, StepGrammar(), ids, limit=4)
    assert [(s.text, s.finish) for s in exact.steps][-1] == ("b\n", Finish.SEPARATOR)


@pytest.mark.parametrize(("text", "expected"), [("ab", [("ab", Finish.END)]), ("a\n", [("a\n", Finish.END)])])
def test_backend_that_stops_by_itself_ends_the_path(byte_vocabulary: Vocabulary, text: str, expected: list[Any]) -> None:
    """S41: finish_reason 'stop' without a stop token."""
    taken = sample(byte_vocabulary, StepGrammar(), encode(byte_vocabulary, text))
    taken.end(Finish.END)
    assert [(step.text, step.finish) for step in taken.steps] == expected


def test_sample_without_a_token_is_an_error_step(byte_vocabulary: Vocabulary) -> None:
    taken = sample(byte_vocabulary, StepGrammar(), [])
    taken.end(Finish.ERROR)
    assert [(step.ids, step.finish) for step in taken.steps] == [((), Finish.ERROR)]
