"""Checks that every policy makes before it starts a request, so that a bad one is refused with its reason."""

from __future__ import annotations

from treewise.search.types import ContextOverflow, InputError, StepRequest

_SEEDS = 1 << 63


def check_request(request: StepRequest, *, context_length: int, vocabulary_size: int) -> None:
    """Return if the request can be served.

    Raises ContextOverflow when ids and `max_tokens` do not fit the context, InputError when a field is out of range.
    """
    length = len(request.ids)
    if not 1 <= request.prompt_length <= length:
        raise InputError(
            f"prompt_length is {request.prompt_length} for {length} ids", "Give 1 to the number of ids; a prompt is never empty"
        )
    if not request.seeds or not all(0 <= seed < _SEEDS for seed in request.seeds):
        raise InputError(f"seeds are {request.seeds}", "Give at least one, each in [0, 2**63)")
    if request.max_tokens < 1:
        raise InputError(f"max_tokens is {request.max_tokens}", "Give 1 or more")
    if request.steps is not None and request.steps < 1:
        raise InputError(f"steps is {request.steps}", "Give 1 or more, or None to run on to the end")
    if min(request.ids) < 0 or max(request.ids) >= vocabulary_size:
        worst = next(i for i in request.ids if not 0 <= i < vocabulary_size)
        raise InputError(f"token id {worst} is outside the vocabulary of {vocabulary_size}", "Encode with this policy's encode")
    if length + request.max_tokens > context_length:
        raise ContextOverflow(
            f"{length} tokens of prompt and path plus {request.max_tokens} new ones exceed the context of {context_length}",
            "Shorten the problem, lower the tokens a step, or use a model with a longer context",
        )
