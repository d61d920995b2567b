"""What the model directory says of itself: the context's length, names, number format. Reads two small files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from windlass.engine.startup.model_json import read_json

from windlass_deepspeed.errors import UsageError

LENGTH_KEYS = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "model_max_length")
WITHOUT_LENGTH = 2048  # where config.json names none
DTYPES = ("float16", "bfloat16", "float32")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Facts of the directory; `None` where it says nothing."""

    context: int | None = None
    dtype: str | None = None
    model_id: str | None = None
    conv_template: str | None = None

    def length(self, asked: int | None) -> int:
        """The most tokens of a prompt and its answer; a UsageError when more are asked for than the model has."""
        if asked and self.context and asked > self.context:
            raise UsageError(
                f"--max-model-len {asked} is longer than the model's own {self.context} tokens; set at most "
                f"{self.context}"
            )
        return asked or self.context or WITHOUT_LENGTH


def read(path: str) -> ModelFiles:
    """The facts; ModelError when it is no model."""
    directory = Path(path)
    config = read_json(directory / "config.json", flag="--model-path")
    ours = read_json(directory / "ti_model_config.json")
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
