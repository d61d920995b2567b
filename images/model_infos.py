"""Describes every model class of the engine once, while an image is built:  model_infos.py FOLDER

vLLM asks each model class what it can do before it starts a model. It asks in a second Python, which imports torch and
vLLM again: about ten seconds of processor. It keeps the answer under `$VLLM_CACHE_ROOT/modelinfos`, which is empty in a
new pod. This program fills FOLDER/modelinfos instead, in the engine's own format: one file a class, with the hash of
its module. The engine reads an entry only where that hash is its module's, so a stale entry costs time and no truth.

A class that cannot be imported here, for want of a GPU or of a package, is named and left to the start.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def describe(model: Any) -> None:
    """Write the engine's entry of one class; raises what its import raises."""
    from vllm.model_executor.models import registry
    from vllm.utils.hashing import safe_hash

    module = Path(registry.__file__).with_name(f"{model.module_name.rsplit('.', 1)[-1]}.py")
    info = registry._ModelInfo.from_model_cls(model.load_model_cls())
    model._save_modelinfo_to_cache(info, safe_hash(module.read_bytes(), usedforsecurity=False).hexdigest())


def main() -> None:
    """Fill the folder, and fail when fewer than nine of ten classes could be described."""
    os.environ["VLLM_CACHE_ROOT"] = sys.argv[1]
    from vllm.model_executor.models.registry import ModelRegistry

    models, failed = ModelRegistry.models, {}
    for name, model in models.items():
        try:
            describe(model)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    for name, reason in failed.items():
        print(f"  {name} is described when it starts: {reason[:160]}")
    written = len(list(Path(sys.argv[1], "modelinfos").glob("*.json")))
    print(f"described {len(models) - len(failed)} of {len(models)} model names in {written} files")
    if len(failed) * 10 > len(models):
        raise SystemExit(f"{len(failed)} of {len(models)} model classes of the engine cannot be described")


if __name__ == "__main__":
    main()
