"""Model folders: complete or refused with the part that is missing; never the network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from treewise.policy.model_folder import open_folder
from treewise.policy.reasoner import embedded_model, find_model
from treewise.search.types import InputError, ModelNotFound


@pytest.fixture
def copy(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


@pytest.mark.parametrize(
    ("removed", "named"), [("config.json", "config.json"), ("model.safetensors", "weights"), ("tokenizer.json", "tokenizer")]
)
def test_missing_part_is_named(copy: Path, removed: str, named: str) -> None:
    """S35: a checkpoint without a part is refused before anything is loaded."""
    (copy / removed).unlink()
    with pytest.raises(ModelNotFound, match=f"lacks {named}"):
        open_folder(copy)


def test_broken_configuration_is_refused(copy: Path) -> None:
    (copy / "config.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        open_folder(copy)


def test_absent_folder_and_file(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="does not exist"):
        find_model(tmp_path / "none")
    with pytest.raises(ModelNotFound, match="does not exist"):
        find_model("./none")
    (tmp_path / "file").touch()
    with pytest.raises(ModelNotFound, match="is a file"):
        find_model(tmp_path / "file")


def test_name_that_is_not_cached_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the environment allows the network, none is used."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("asked the network"))
    with pytest.raises(ModelNotFound, match="hf download owner/model-that-is-not-here"):
        find_model("owner/model-that-is-not-here")


def test_cached_name_is_found(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    snapshot = cache / "models--owner--tiny" / "snapshots" / "abc"
    shutil.copytree(tiny_model, snapshot)
    (cache / "models--owner--tiny" / "refs").mkdir()
    (cache / "models--owner--tiny" / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    assert find_model("owner/tiny") == snapshot


def test_every_end_of_sequence_of_the_model_counts(copy: Path) -> None:
    """S41: instruct models end with either of two tokens; the second is named in generation_config.json only."""
    file = copy / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eos_token_id": [2, 9]}))
    assert open_folder(copy).vocabulary.end_ids == {2, 9}


def test_digest_changes_with_one_weight_byte(copy: Path) -> None:
    before = open_folder(copy).digest
    file = copy / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert open_folder(copy).digest != before


def test_embedded_model_is_complete() -> None:
    assert open_folder(embedded_model()).positions >= 128
