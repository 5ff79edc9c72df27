"""Where a step ends. Expected splits are written out by hand, or come from a plain re-reading of the whole text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treewise.policy.steps import StepRules, StepSplitter
from treewise.search.types import Finish, InputError, StepGrammar

END = 0
BLANK = StepGrammar(separators=("\n\n",))


def split(grammar: StepGrammar, pieces: list[str], *, before: str = "") -> tuple[list[str], Finish | None]:
    """Texts of the steps and what the last token said; the piece `<end>` is the end-of-sequence token."""
    splitter = StepSplitter(StepRules.of(grammar, end_ids=frozenset({END})), before=before)
    steps, current, finish = [], "", None
    for piece in pieces:
        token, text = (END, "") if piece == "<end>" else (1, piece)
        current += text
        finish = splitter.push(token, text)
        if finish is not None:
            steps.append(current)
            current = ""
            if finish is Finish.END:
                break
    return [*steps, current] if current else steps, finish


def test_newline_ends_a_step_and_its_token_stays_whole() -> None:
    """S11, T61: a token that holds more than the separator is not cut."""
    assert split(StepGrammar(), ["a", " b", ".\n", "c\nd", "e"])[0] == ["a b.\n", "c\nd", "e"]


def test_separator_merged_with_its_neighbours() -> None:
    """T61: '.\\n\\n' is one token in Qwen-style vocabularies."""
    assert split(BLANK, ["a", ".\n\n", "b", "\n", "c", "?\n\n\n", "d"])[0] == ["a.\n\n", "b\nc?\n\n\n", "d"]


def test_separator_over_two_and_three_tokens() -> None:
    assert split(BLANK, ["a", ".\n", "\n", "b"])[0] == ["a.\n\n", "b"]
    assert split(StepGrammar(separators=("<s>",)), ["a", "<", "s", ">", "b"])[0] == ["a<s>", "b"]


def test_single_newline_does_not_end_a_step_of_several_lines() -> None:
    """S23: a step of several lines is kept when the separator is a blank line."""
    assert split(BLANK, ["line 1\n", "line 2\n", "line 3", "\n\n", "next"])[0] == ["line 1\nline 2\nline 3\n\n", "next"]


def test_minimum_lines_counts_lines_with_text_only() -> None:
    """S23"""
    grammar = StepGrammar(minimum_lines=2)
    assert split(grammar, ["a", "\n", "\n", " \n", "b", "\n", "c\n", "d\n"])[0] == ["a\n\n \nb\n", "c\nd\n"]


def test_blank_lines_before_a_step_belong_to_it() -> None:
    assert split(StepGrammar(), ["\n", " \n", "a", "\n", "\n", "\n", "b\n"])[0] == ["\n \na\n", "\n\nb\n"]


def test_separator_with_text_of_its_own_needs_text_before_it() -> None:
    assert split(StepGrammar(separators=(".",)), [".", "a", ".", " ", "b."])[0] == [".a.", " b."]


def test_empty_box_in_the_middle_of_a_step_is_no_stop() -> None:
    """S41: 'we will put it in \\boxed{}' goes on."""
    steps, finish = split(StepGrammar(), ["we put it in ", "\\boxed", "{}", " later", "\n", "and"])
    assert steps == ["we put it in \\boxed{} later\n", "and"]
    assert finish is None


@pytest.mark.parametrize(
    "pieces",
    [
        ["\\boxed{", "1", "\n", "2", "}", "\n"],
        ["\\bo", "xed", "{1\n2", "}\n"],
        ["\\boxed{\\frac{1}\n", "{2}}", "\n"],
        ["\\boxed{\\{1\n,2\\}}", "\n"],
        ["\\boxed{\\left\\{1\n,2\\right.}", "\n"],
    ],
)
def test_no_step_ends_in_an_open_box(pieces: list[str]) -> None:
    """S41"""
    assert split(StepGrammar(), [*pieces, "next"])[0] == ["".join(pieces), "next"]


@pytest.mark.parametrize(
    "pieces",
    [
        ["```python\n", "x = 1\n", "```", "\n"],
        ["``", "`py\n", "x\n", "`", "``\n"],
        ["see:\n```\nx\n", "y\n```\n"],
        ["````\n", "a\n", "````\n"],
        ["```\n", "print('\\boxed{')\n", "```\n"],
    ],
)
def test_no_step_ends_in_a_code_fence(pieces: list[str]) -> None:
    assert split(StepGrammar(), [*pieces, "next"])[0] == ["".join(pieces), "next"]


def test_fence_opened_by_the_token_that_holds_the_separator() -> None:
    assert split(StepGrammar(), ["a", "\n```", "\nb\n", "```", "\n", "c"])[0] == ["a\n```\nb\n```\n", "c"]


def test_guards_can_be_turned_off() -> None:
    grammar = StepGrammar(guard_fences=False)
    assert split(grammar, ["```\n", "x\n", "\\boxed{\n"])[0] == ["```\n", "x\n", "\\boxed{\n"]


def test_braces_and_single_ticks_outside_guards_change_nothing() -> None:
    assert split(StepGrammar(), ["{ `a` } {", "\n", "`` b\n"])[0] == ["{ `a` } {\n", "`` b\n"]


def test_end_of_sequence_inside_a_step() -> None:
    """S41: the path ends there, whatever the step's text."""
    assert split(StepGrammar(), ["a\n", "b", "<end>", "c\n"]) == (["a\n", "b"], Finish.END)
    assert split(StepGrammar(), ["```\n", "b", "<end>"]) == (["```\nb"], Finish.END)


def test_stop_text_ends_the_solution_at_its_token() -> None:
    """S11: the model goes on with a question of its own."""
    grammar = StepGrammar(stop_texts=("\nQuestion:",))
    assert split(grammar, ["a", "\n", "Quest", "ion", ": and", " more"]) == (["a\n", "Question: and"], Finish.END)
    assert split(grammar, ["a\nQuestion:", "x"]) == (["a\nQuestion:"], Finish.END)
    assert split(grammar, ["a\n", "Questions\n"])[1] is Finish.SEPARATOR


def test_stop_text_that_began_before_this_request() -> None:
    grammar = StepGrammar(stop_texts=("\nQuestion:",))
    assert split(grammar, ["Question:", "x"], before="a\n") == (["Question:"], Finish.END)
    assert split(grammar, ["Question:", "\n"], before="a") == (["Question:\n"], Finish.SEPARATOR)


def test_special_token_as_separator() -> None:
    """T61: a token whose text a decoder leaves out."""
    splitter = StepSplitter(StepRules.of(StepGrammar(separators=("<step>",)), separator_ids=frozenset({7})))
    assert [splitter.push(i, text) for i, text in ((7, ""), (1, "a"), (7, ""), (7, ""), (1, " b"), (7, ""))] == [
        None, None, Finish.SEPARATOR, None, None, Finish.SEPARATOR,
    ]  # fmt: skip


def test_without_separators_only_the_end_ends_a_step() -> None:
    assert split(StepGrammar(separators=()), ["a\n", "\n", "b", "<end>"]) == (["a\n\nb"], Finish.END)


def test_chinese_separators() -> None:
    grammar = StepGrammar(separators=("。", "；"))
    assert split(grammar, ["设", "x=1", "。", "则", "", "y；z", "完"])[0] == ["设x=1。", "则y；z", "完"]


@pytest.mark.parametrize("bad", [{"separators": ("\n", "")}, {"stop_texts": ("",)}, {"minimum_lines": 0}])
def test_unusable_grammar_is_refused(bad: dict[str, tuple[str, ...] | int]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        StepRules.of(StepGrammar(**bad))  # type: ignore[arg-type]


PIECES = st.lists(st.sampled_from(["a", " ", "\n", "\n\n", "b\n", ".\n\n", "\nc", "x y"]), max_size=30)


@given(PIECES)
def test_any_cut_into_tokens_gives_steps_that_join_to_the_text(pieces: list[str]) -> None:
    assert "".join(split(StepGrammar(), pieces)[0]) == "".join(pieces)


@given(PIECES)
def test_blank_line_boundaries_agree_with_a_search_in_the_step(pieces: list[str]) -> None:
    """Oracle: a step ends with the first token after which its text holds text and then a blank line."""
    expected, current = [], ""
    for piece in pieces:
        current += piece
        if re.search(r"\S\s*\n\n", current):
            expected.append(current)
            current = ""
    assert split(BLANK, pieces)[0] == ([*expected, current] if current else expected)


def test_cost_of_a_token_does_not_grow_with_the_step() -> None:
    """The splitter keeps a bounded memory of what it read."""
    splitter = StepSplitter(StepRules.of(StepGrammar(separators=("<end of step>",), stop_texts=("abc",))))
    for _ in range(5000):
        splitter.push(1, "{a\n")
    kept = [value for value in vars(splitter).values() if isinstance(value, str)]
    assert max(map(len, kept)) <= len("<end of step>")
