"""Reads the small JSON files of a model directory, for both serving images: what is missing or broken is a sentence."""

from __future__ import annotations

import os
from pathlib import Path

from windlass_sizing.files import documents

from windlass.errors import ModelError

NAMES_SHOWN = 8


def read_json(path: Path, *, flag: str = "") -> dict[str, object]:
    """The object in a file; ModelError when it is broken.

    A missing file is empty, unless `flag` is given: then it is the file that makes the directory a model, and the flag
    is what names the directory.
    """
    try:
        content = documents.parse(documents.read(path, documents.CONFIG_BYTES_MAX))
    except FileNotFoundError:
        if flag:
            raise ModelError(_missing(path, flag)) from None
        return {}
    except NotADirectoryError:
        raise ModelError(f"{path.parent} is a file; name the model directory that holds it with {flag}") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read as user {os.getuid()}: {error.strerror}; check the volume") from error
    except ValueError as error:
        raise ModelError(f"{path} is broken: {error}; copy the model again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} is broken: it holds no JSON object; copy the model again")
    return content


def check_files(directory: Path) -> None:
    """ModelError for a pipe, a socket or a device among the model's files: its reader would wait for ever."""
    try:
        paths = sorted(directory.iterdir())
    except OSError:
        return  # told where config.json is read
    for path in paths:
        if kind := documents.waits(path):
            raise ModelError(f"{path} is {kind}, not a regular file; copy the model again without it")


def _missing(path: Path, flag: str) -> str:
    directory = path.parent
    if not directory.is_dir():
        return f"model directory {directory} is not there; mount the model, or name its directory with {flag}"
    if path.name == "config.json" and (way := documents.without_config(directory)):
        return f"model directory {directory} has no {path.name}; {way}"
    names = sorted(entry.name for entry in directory.iterdir())
    shown = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
    return f"model directory {directory} has no {path.name}; it has: {shown or 'nothing'}; check the model's path"
