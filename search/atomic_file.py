"""Files that appear whole or not at all: temporary file, fsync, rename, fsync of the folder.

This file knows nothing of what is written. A reader sees the old content or the new content, also after kill -9 or a
power cut; a killed writer may leave a hidden `.NAME.*.tmp` beside the target, which nothing reads.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from treewise.search.types import InputError


@contextmanager
def atomic_file(path: str | Path) -> Iterator[IO[bytes]]:
    """Yield a binary file whose content replaces `path` when the block ends without an exception.

    Raises:
        InputError: the folder or file cannot be written, or the disk is full; the old content of `path` is kept.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    renamed = False
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        renamed = True
        _sync_folder(target.parent)
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror or error}", "choose a folder that exists, is writable and has space"
        ) from error
    finally:
        if not renamed and temporary.exists():
            temporary.unlink()


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
