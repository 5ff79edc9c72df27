"""Samples taken in chunks, as an engine gives them that stops where a step may end: the same steps as token by token."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from treewise.policy.samples import Sample
from treewise.policy.vocabulary import Vocabulary
from treewise.search.types import Finish, Step, StepGrammar, StepRequest

GRAMMARS = [
    StepGrammar(),
    StepGrammar(guard_fences=False),
    StepGrammar(separators=("\n\n",), minimum_lines=2),
    StepGrammar(separators=("。", "<step>", "b\n")),
]
PIECES = ["a", "so x", ".", "\n", "\n\n", "b\n", " ", "```", "\\boxed{", "{", "}", "设", "。", "<step>", "\\"]


@pytest.fixture(scope="module")
def vocabulary(byte_model: Path) -> Vocabulary:
    return Vocabulary(AutoTokenizer.from_pretrained(byte_model))


def outcome(sample: Sample) -> tuple[tuple[Step, ...], bool, list[int]]:
    return sample.steps, sample.done, sample.ids


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda grammar: repr(grammar.separators))
@given(
    pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=40),
    prompt=st.text(st.sampled_from("a\n设`"), min_size=1, max_size=4),
    steps=st.integers(1, 4),
    limit=st.integers(1, 200),
    ends=st.booleans(),
)
def test_chunks_give_the_steps_of_single_tokens(
    vocabulary: Vocabulary, grammar: StepGrammar, pieces: list[str], prompt: str, steps: int, limit: int, ends: bool
) -> None:
    """Chunks end at tokens that can complete a separator or end the solution, and at the limit."""
    encode = vocabulary.tokenizer.encode
    before = tuple(encode(prompt, add_special_tokens=False))
    ids = [i for piece in pieces for i in encode(piece, add_special_tokens=False)]
    ids = [*ids, *vocabulary.end_ids][: limit if ends else min(limit, len(ids))]
    rules = vocabulary.rules(grammar)
    request = StepRequest(before, len(before), (0,), limit, steps)
    single, chunked = Sample(vocabulary, rules, request), Sample(vocabulary, rules, request)
    for number, token in enumerate(ids):
        if single.add(token, -float(number)):
            break
    stops = vocabulary.completing_ids(grammar.separators) | vocabulary.end_ids
    start = 0
    for end in range(1, len(ids) + 1):
        if (ids[end - 1] in stops or end == len(ids)) and not chunked.done:
            chunked.add_chunk(ids[start:end], [-float(n) for n in range(start, end)], only_last=True)
            start = end
    assert outcome(chunked) == outcome(single)


def test_a_chunk_that_holds_the_end_of_a_step_is_split_there(vocabulary: Vocabulary) -> None:
    """What the backend says is a hint: steps end where the text says."""
    encode = vocabulary.tokenizer.encode
    ids = [i for piece in ("so x", "\n", "```a```", "\n", "a") for i in encode(piece, add_special_tokens=False)]
    sample = Sample(vocabulary, vocabulary.rules(StepGrammar()), StepRequest((5,), 1, (0,), 50, 2))
    sample.add_chunk(ids[:-4], [-1.0] * (len(ids) - 4), only_last=True)  # up to the inside of the fence
    sample.add_chunk(ids[-4:], [-1.0] * 4, only_last=True)
    assert [step.text for step in sample.steps] == ["so x\n", "```a```\n"]
    assert [step.finish for step in sample.steps] == [Finish.SEPARATOR] * 2
    assert sample.done


def test_a_chunk_leaves_the_context_that_the_next_token_is_read_in() -> None:
    """A token that begins with a blank loses it when it is decoded alone, and the separator with it."""
    words = ["<unk>", "</s>", "▁so", "▁x", "."]
    core = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [], unk_token="<unk>"))
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    vocabulary = Vocabulary(PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>"))
    rules = vocabulary.rules(StepGrammar(separators=(" x",)))
    sample = Sample(vocabulary, rules, StepRequest((1,), 1, (0,), 50, None))
    sample.add_chunk([2, 4, 4], [-1.0] * 3, only_last=True)
    sample.add_chunk([3], [-1.0], only_last=True)
    assert [step.ids for step in sample.steps] == [(2, 4, 4, 3)]


def test_stop_texts_count_in_chunks_that_are_looked_through(vocabulary: Vocabulary) -> None:
    encode = vocabulary.tokenizer.encode
    ids = [i for piece in ("a", "a", "so x") for i in encode(piece, add_special_tokens=False)]
    rules = vocabulary.rules(StepGrammar(stop_texts=("aa",)))
    sample = Sample(vocabulary, rules, StepRequest((5,), 1, (0,), 50, None))
    sample.add_chunk(ids, [-1.0] * len(ids), only_last=False)
    assert [(step.text, step.finish) for step in sample.steps] == [("aa", Finish.END)]
