"""What a policy must know of a Hugging Face model folder before any weight is loaded: vocabulary, context, identity."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from treewise.policy.prompts import begins_with_bos, encode_prompt
from treewise.policy.reasoner import find_model
from treewise.policy.vocabulary import Vocabulary
from treewise.search.types import Ids, InputError, Prompt

_WHOLE = 64 << 20
"""Files up to this many bytes are hashed whole, larger ones by size, first and last part."""
_PART = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A complete model folder, opened."""

    path: Path
    vocabulary: Vocabulary
    add_bos: bool
    """Whether raw prompts begin with a token that the tokenizer does not add by itself."""
    positions: int
    """Most tokens that the model can read, by its configuration."""
    dtype: str
    """Of the stored weights, such as `float32`, or empty when the configuration does not say."""
    weight_bytes: int
    digest: str
    """Hash of configuration, tokenizer and weights, 16 hexadecimal digits."""

    def encode(self, prompt: Prompt) -> Ids:
        """Return the prompt's ids. Raises InputError when it is empty or cannot be expressed."""
        return encode_prompt(prompt, self.vocabulary.tokenizer, add_bos=self.add_bos)


def open_folder(name_or_folder: str | Path) -> ModelFolder:
    """Return the opened folder. Raises ModelNotFound when it is not complete, InputError when a file is unreadable."""
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    path = find_model(name_or_folder)
    try:
        config = AutoConfig.from_pretrained(path, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        generation = GenerationConfig.from_pretrained(path) if (path / "generation_config.json").is_file() else None
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"Model folder {str(path)!r} cannot be read: {error}", "Fetch or save the model anew") from error
    text = config.get_text_config()
    ends: set[int] = set()
    for source in (text, generation):
        eos = getattr(source, "eos_token_id", None)
        ends.update([eos] if isinstance(eos, int) else eos or [])
    weights = sorted(path.glob("*.safetensors")) or sorted(path.glob("pytorch_model*.bin"))
    return ModelFolder(
        path=path,
        vocabulary=Vocabulary(tokenizer, end_ids=ends),
        add_bos=begins_with_bos(tokenizer, model_bos=getattr(text, "bos_token_id", None)),
        positions=int(getattr(text, "max_position_embeddings", 0) or tokenizer.model_max_length),
        dtype=str(getattr(config, "dtype", None) or "").removeprefix("torch."),
        weight_bytes=sum(file.stat().st_size for file in weights),
        digest=_digest([path / "config.json", path / "tokenizer.json", *weights]),
    )


def fingerprint(kind: str, folder: ModelFolder, settings: dict[str, str | int | float | list[str] | bool]) -> str:
    """Return one line that names backend, model, weights and the settings that shape its samples."""
    return f"{kind}:{folder.path.name}:{folder.digest}:" + json.dumps(settings, sort_keys=True, ensure_ascii=False)


def _digest(files: list[Path]) -> str:
    total = blake2b(digest_size=8)
    for file in files:
        if not file.is_file():
            continue
        size = file.stat().st_size
        total.update(f"{file.name}:{size}:".encode())
        with file.open("rb") as stream:
            if size <= _WHOLE:
                total.update(stream.read())
            else:
                total.update(stream.read(_PART))
                stream.seek(size - _PART)
                total.update(stream.read(_PART))
    return total.hexdigest()
