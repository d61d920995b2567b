"""What the model directory says of itself: the context's length, names, number format. Reads two small files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from windlass_deepspeed.errors import ModelError

LENGTH_KEYS = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "model_max_length")
DTYPES = ("float16", "bfloat16", "float32")
NAMES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Facts of the directory; `None` where it says nothing."""

    context: int | None = None
    dtype: str | None = None
    model_id: str | None = None
    conv_template: str | None = None


def read(path: str) -> ModelFiles:
    """The facts; ModelError when it is no model."""
    directory = Path(path)
    config = _read_json(directory / "config.json", required=True)
    ours = _read_json(directory / "ti_model_config.json", required=False)
    inner = config.get("text_config")
    facts = config | inner if isinstance(inner, dict) else config
    lengths = (facts.get(key) for key in LENGTH_KEYS)
    dtype = facts.get("dtype") or facts.get("torch_dtype")
    return ModelFiles(
        context=next((length for length in lengths if isinstance(length, int) and length > 0), None),
        dtype=dtype if isinstance(dtype, str) and dtype in DTYPES else None,
        model_id=_text(ours.get("model_id")),
        conv_template=_text(ours.get("conv_template_name")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _read_json(path: Path, *, required: bool) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise ModelError(_missing(path.parent)) from None
        return {}
    except OSError as error:
        raise ModelError(f"{path} cannot be read as user {os.getuid()}: {error.strerror}; check the volume") from error
    except ValueError as error:
        raise ModelError(f"{path} is broken: {error}; copy the model again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} is broken: it holds no JSON object; copy the model again")
    return content


def _missing(directory: Path) -> str:
    if not directory.is_dir():
        return f"model directory {directory} is not there; mount the model, or name its directory with --model-path"
    names = sorted(entry.name for entry in directory.iterdir())
    shown = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
    return f"model directory {directory} has no config.json; it has: {shown or 'nothing'}; check the model's path"
