"""Where models are: the embedded Countdown model, a local folder, or the local Hugging Face cache. Never the network."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from treewise.search.types import ModelNotFound

EMBEDDED = "countdown"
"""Name of the model that ships with the package."""
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")


def embedded_model() -> Path:
    """Return the folder of the embedded Countdown model. Raises ModelNotFound when the installation lacks a part of it."""
    return check_folder(Path(str(files("treewise.policy"))) / "embedded" / EMBEDDED)


def find_model(name_or_folder: str | Path) -> Path:
    """Return a complete model folder for a path, `countdown`, or the name of a model that is already in the local cache.

    Raises ModelNotFound, which says what is missing and how to get it.
    """
    text = str(name_or_folder)
    if text == EMBEDDED:
        return embedded_model()
    folder = Path(name_or_folder).expanduser()
    if folder.is_dir():
        return check_folder(folder)
    if folder.exists():
        raise ModelNotFound(f"Model {text!r} is a file", "Name the folder that holds config.json, weights and tokenizer")
    if isinstance(name_or_folder, Path) or text.startswith((".", "/", "~")) or text.count("/") != 1:
        raise ModelNotFound(
            f"Model folder {text!r} does not exist", f"Name an existing folder, {EMBEDDED!r}, or a cached model as owner/name"
        )
    return check_folder(_cached(text))


def check_folder(folder: Path) -> Path:
    """Return the folder if it holds a configuration, weights and a tokenizer. Raises ModelNotFound naming what is missing."""
    if not folder.is_dir():
        raise ModelNotFound(f"Model folder {str(folder)!r} does not exist", "Install the package anew, or name another model")
    missing = []
    if not (folder / "config.json").is_file():
        missing.append("config.json")
    if not any(next(folder.glob(pattern), None) for pattern in _WEIGHTS):
        missing.append("weights (*.safetensors)")
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        missing.append("tokenizer (tokenizer.json)")
    if missing:
        raise ModelNotFound(
            f"Model folder {str(folder)!r} lacks {' and '.join(missing)}",
            "Copy the missing files of the same model into it; save_pretrained of model and tokenizer writes all of them",
        )
    return folder


def _cached(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        raise ModelNotFound(
            f"Model {name!r} is neither a local folder nor in the local Hugging Face cache",
            f"Fetch it once where there is a network with `hf download {name}`, or copy its folder here and name that",
        ) from error
