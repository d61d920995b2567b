"""In the serving image: the longest context that the engine takes for each configuration.

    python print_context_lengths.py

The rows are those of `lib/sizing/tests/data/engine/contexts.json`. Null stands for any length.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROWS = Path(__file__).parents[3] / "lib/sizing/tests/data/engine/contexts.json"
TOO_LONG = 2**29
REFUSAL = re.compile(r"=(?P<derived>[\d.]+) or model_max_length=(?P<named>\w+)")


def longest(config: dict[str, Any]) -> int | None:
    """The limit by the engine's own functions, out of the sentence that refuses far more."""
    from vllm.config.model import _get_and_verify_max_len
    from vllm.transformers_utils.config import get_config, get_hf_text_config
    from vllm.transformers_utils.model_arch_config_convertor import (
        MODEL_ARCH_CONFIG_CONVERTORS,
        ModelArchConfigConvertorBase,
    )

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config))
        whole = get_config(folder, trust_remote_code=False)
    text = get_hf_text_config(whole)
    convertor = MODEL_ARCH_CONFIG_CONVERTORS.get(whole.model_type, ModelArchConfigConvertorBase)(whole, text)
    derived = SimpleNamespace(derived_max_model_len_and_key=convertor.derive_max_model_len_and_key())
    try:
        _get_and_verify_max_len(text, derived, None, TOO_LONG, disable_sliding_window=False, sliding_window=None)
    except ValueError as error:
        found = REFUSAL.search(str(error))
        if found is None:
            raise
        return max(int(float(found["derived"])), 0 if found["named"] == "None" else int(found["named"]))
    return None


def main() -> dict[str, int | None]:
    """The longest context of each row, by its name."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}  # before the engine is imported
    import vllm.config  # noqa: F401  the engine's modules import each other: this one is the way in

    found = {}
    for row in json.loads(ROWS.read_text()):
        print(row["name"], file=sys.stderr, flush=True)
        found[row["name"]] = longest(row["config"])
    return found


if __name__ == "__main__":
    print("RESULT " + json.dumps(main()))
