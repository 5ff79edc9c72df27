"""From a `Prompt` to token ids, once per problem: chat template with a begun answer, or raw text for base models.

The prefill is written behind the generation prompt before encoding, so that an instruct model goes on with it instead of
starting again. Steps are later appended as ids; nothing is rendered or tokenised twice, so the ids of a prompt are always
a prefix of what the model sees. It knows no search and no step.
"""

from __future__ import annotations

from typing import Any

from treewise.search.types import Ids, InputError, Prompt


def begins_with_bos(tokenizer: Any, *, model_bos: int | None) -> bool:
    """Return whether raw text must be given a begin-of-sequence token that the tokenizer does not add by itself.

    That is so when tokenizer and model agree on such a token, it is not also the end of sequence (GPT-2), and the
    tokenizer's own configuration does not say otherwise.
    """
    bos = tokenizer.bos_token_id
    if bos is None or bos == tokenizer.eos_token_id or bos != model_bos:
        return False
    return bool(tokenizer.init_kwargs.get("add_bos_token", True))


def encode_prompt(prompt: Prompt, tokenizer: Any, *, add_bos: bool) -> Ids:
    """Return the prompt's ids, with the chat template where the tokenizer has one and the prompt has turns.

    Raises InputError when the prompt is empty, is no valid Unicode, or has words that the tokenizer cannot express.
    """
    chat = bool(tokenizer.chat_template) and bool(prompt.messages)
    asked = "".join(message.content for message in prompt.messages) if chat else prompt.raw
    if not asked.strip():
        raise InputError("The prompt is empty", "Give the problem a text")
    _check_unicode(asked + prompt.prefill)
    if chat:
        turns = [{"role": message.role, "content": message.content} for message in prompt.messages]
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True) + prompt.prefill
        ids = tuple(tokenizer.encode(text, add_special_tokens=False))
    else:
        text = prompt.raw + prompt.prefill
        ids = tuple(tokenizer.encode(text, add_special_tokens=True))
        if add_bos and ids[:1] != (tokenizer.bos_token_id,):
            ids = (tokenizer.bos_token_id, *ids)
        if tokenizer.eos_token_id is not None and ids[-1:] == (tokenizer.eos_token_id,):
            ids = ids[:-1]  # some tokenizers close every text, but the solution goes on from here
    _check_known(ids, text, tokenizer)
    if not ids:
        raise InputError(f"The prompt {text!r} has no tokens", "Give the problem a text that the model can read")
    return ids


def _check_unicode(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"The prompt holds {text[error.start]!r} at character {error.start}, which is no Unicode text",
            "Repair the encoding of the problem",
        ) from error


def _check_known(ids: Ids, text: str, tokenizer: Any) -> None:
    """Refuse a text of which the tokenizer drops words: the model would be asked something else."""
    unknown = tokenizer.unk_token_id
    if unknown is None or unknown not in ids or tokenizer.unk_token in text:
        return
    lost = [word for word in text.split() if unknown in tokenizer.encode(word, add_special_tokens=False)]
    raise InputError(
        f"The model's vocabulary has no token for {', '.join(map(repr, lost[:5])) or repr(text)}",
        "Leave it out, or use a model that can read it",
    )
