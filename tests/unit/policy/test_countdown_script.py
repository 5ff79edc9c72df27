"""The Countdown policy without a model: all legal steps and no others, evenly, in text that the task reads."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations

import pytest

from treewise.policy.countdown_script import (
    countdown_policy,
    decode_words,
    encode_words,
    legal_steps,
    numbers_left,
    random_steps,
)
from treewise.search.types import Finish, InputError, Path, PolicyError, Problem, Standing
from treewise.value.countdown import BrokenRule, combine
from treewise.value.countdown_task import CountdownTask

PROBLEM = Problem("a", "numbers 8 3 5 target 29", (8, 3, 5), 29)
PROMPT = encode_words("numbers 8 3 5 target 29\n")


@pytest.mark.parametrize("numbers", [[3, 8], [8, 3, 5], [150, 60], [4, 4, 0], [6, 2, 2, 200]])
def test_legal_steps_are_those_of_the_rules(numbers: list[int]) -> None:
    wanted = set()
    for a, b in permutations(numbers, 2):
        for symbol in "+-*/" if a >= b else "":
            try:
                wanted.add((a, symbol, b, combine(a, symbol, b)))
            except BrokenRule:
                continue
    found = [line.split() for line in legal_steps(numbers)]
    assert {(int(w[0]), w[1], int(w[2]), int(w[4])) for w in found} == wanted
    for words in found:
        left = Counter(numbers) - Counter([int(words[0]), int(words[2])]) + Counter([int(words[4])])
        assert Counter(map(int, words[6:])) == left


@pytest.mark.parametrize("seed", range(20))
def test_every_path_keeps_the_tasks_rules_to_its_end(seed: int) -> None:
    steps = random_steps(PROMPT, seed)
    ids, ends, texts = PROMPT, [], []
    for step in steps:
        ids += step.ids
        ends.append(len(ids))
        texts.append(step.text)
        path = Path(PROBLEM, ids, tuple(ends), len(PROMPT), tuple(texts), step.finish)
        judgement = CountdownTask().judge(path)
        if step.finish is Finish.SEPARATOR:
            assert judgement.standing is Standing.OPEN
    assert decode_words(ids) == decode_words(PROMPT) + "".join(texts)
    assert (len(steps), steps[-1].finish) == (2, Finish.END)
    assert judgement.standing is Standing.FINISHED or judgement.reason.startswith("reaches ")


def test_log_probabilities_are_those_of_an_even_draw() -> None:
    first = random_steps(PROMPT, 0)[0]
    assert math.exp(sum(first.logprobs)) == pytest.approx(1 / len(legal_steps([8, 3, 5])))
    drawn = Counter(random_steps(PROMPT, seed)[0].text for seed in range(2000))
    assert len(drawn) == len(legal_steps([8, 3, 5]))
    assert max(drawn.values()) < 2 * min(drawn.values())


def test_a_path_goes_on_from_where_it_is() -> None:
    ids = PROMPT + encode_words("8 * 3 = 24 left 5 24\n")
    (step,) = random_steps(ids, 3)
    assert numbers_left("8 * 3 = 24 left 5 24\n") == [5, 24]
    assert step.text.split()[0] == "24"


def test_foreign_text_is_refused() -> None:
    with pytest.raises(InputError, match="no token for 'hello'"):
        encode_words("hello 3")
    with pytest.raises(InputError, match="no token for '201'"):
        encode_words("numbers 201")
    with pytest.raises(PolicyError, match="cannot go on"):
        random_steps(encode_words("8 * 3\n"), 0)


def test_the_context_is_the_one_given() -> None:
    assert countdown_policy(context_length=33).context_length == 33
