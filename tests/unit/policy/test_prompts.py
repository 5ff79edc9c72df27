"""Prompts: what the model is given, checked against the template's own output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from treewise.policy.model_folder import open_folder
from treewise.policy.prompts import begins_with_bos, encode_prompt
from treewise.search.types import InputError, Message, Prompt
from treewise.training.pretrain import build_tokenizer

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]"
    "{{ m['content'].split('</think>')[-1] if m['role'] == 'assistant' else m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
"""Like Qwen3's it rewrites earlier answers, so that rendering a begun answer as a turn would not be a prefix."""
TURNS = (Message("system", "think"), Message("user", "so x"))


@pytest.fixture
def chat(byte_model: Path) -> Any:
    """Adds a begin-of-sequence token to whatever it encodes, as Llama 3's does; the template writes one too."""
    tokenizer = AutoTokenizer.from_pretrained(byte_model)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", tokenizer.bos_token_id)]
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def test_chat_goes_on_with_the_assistants_turn(chat: Any) -> None:
    """S67: the begun answer stands behind the generation prompt, nothing closes it."""
    ids = encode_prompt(Prompt(TURNS, "raw", prefill="Step 1:"), chat, add_bos=True)
    assert chat.decode(ids) == "<bos>[system]think\n[user]so x\n[assistant]Step 1:"


def test_chat_begins_once_with_bos(chat: Any) -> None:
    ids = encode_prompt(Prompt(TURNS, "raw"), chat, add_bos=True)
    assert ids.count(chat.bos_token_id) == 1


def test_prompt_is_a_prefix_whatever_the_answer_holds(chat: Any) -> None:
    """T62: an answer with a thinking block is not rendered again, so the template cannot rewrite it."""
    plain = encode_prompt(Prompt(TURNS, "raw"), chat, add_bos=True)
    thinking = encode_prompt(Prompt(TURNS, "raw", prefill="<think>a</think>b"), chat, add_bos=True)
    assert thinking[: len(plain)] == plain
    assert chat.decode(thinking[len(plain) :]) == "<think>a</think>b"


def test_raw_text_where_there_is_no_template(byte_model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(byte_model)
    ids = encode_prompt(Prompt(TURNS, "so x", prefill=".\n"), tokenizer, add_bos=False)
    assert tokenizer.decode(ids) == "so x.\n"


def test_raw_text_where_there_are_no_turns(chat: Any) -> None:
    assert chat.decode(encode_prompt(Prompt((), "so x"), chat, add_bos=False)) == "<bos>so x"
    assert chat.decode(encode_prompt(Prompt((), "so x"), chat, add_bos=True)) == "<bos>so x"


def test_countdown_prompt_begins_with_bos(tiny_model: Path) -> None:
    """The tokenizer does not add it, the model was trained with it."""
    folder = open_folder(tiny_model)
    words = ["<bos>", "numbers", "22", "16", "target", "25", "\n"]
    expected = tuple(folder.vocabulary.tokenizer.convert_tokens_to_ids(words))
    assert folder.encode(Prompt((), "numbers 22 16 target 25\n")) == expected


@pytest.mark.parametrize(
    ("bos", "eos", "settings", "model_bos", "expected"),
    [
        (1, 2, {}, 1, True),
        (None, 2, {}, 1, False),  # Qwen: the model names one, the tokenizer has none
        (2, 2, {}, 2, False),  # GPT-2: the same token ends a text
        (1, 2, {"add_bos_token": False}, 1, False),  # Phi-3 says no
        (1, 2, {}, None, False),
    ],
)
def test_when_bos_is_wanted(bos: int | None, eos: int, settings: dict[str, Any], model_bos: int | None, expected: bool) -> None:
    class Tokenizer:
        bos_token_id = bos
        eos_token_id = eos
        init_kwargs = settings

    assert begins_with_bos(Tokenizer(), model_bos=model_bos) is expected


@pytest.mark.parametrize("text", ["", "  ", "\n\t "])
def test_empty_prompt_is_refused(text: str, chat: Any) -> None:
    for prompt in (Prompt((), text), Prompt((Message("user", text),), "raw")):
        with pytest.raises(InputError, match="empty"):
            encode_prompt(prompt, chat, add_bos=True)


def test_text_that_is_no_unicode_is_refused(chat: Any) -> None:
    with pytest.raises(InputError, match="character 2"):
        encode_prompt(Prompt((), "so\ud800"), chat, add_bos=True)


def test_words_outside_the_vocabulary_are_named() -> None:
    with pytest.raises(InputError, match="'201'"):
        encode_prompt(Prompt((), "numbers 201 3 target 25\n"), build_tokenizer(), add_bos=True)
