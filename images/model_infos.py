"""Describes every model class of the engine once, while an image is built:  model_infos.py FOLDER

vLLM asks each model class what it can do before it starts a model. It asks in a second Python, which imports torch and
vLLM again: about ten seconds of processor. It keeps the answer under `$VLLM_CACHE_ROOT/modelinfos`, which is empty in a
new pod. This program lets the engine fill FOLDER/modelinfos instead, all in this process. Each entry has the hash of
its class's source, and the engine reads none whose hash is another: a stale entry costs time and no truth.

A class that cannot be imported here, for want of a GPU or of a package, is named and left to the start.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Fill the folder, and fail when fewer than four of five classes could be described."""
    os.environ["VLLM_CACHE_ROOT"] = sys.argv[1]
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda ask: ask()
    models, failed = registry.ModelRegistry.models, {}
    for name, model in models.items():
        try:
            model.inspect_model_cls()
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    for name, reason in failed.items():
        print(f"  {name} is described when it starts: {reason[:160]}")
    written = list(Path(sys.argv[1], "modelinfos").glob("*.json"))
    for path in written:
        path.chmod(0o644)  # the engine writes for its own user alone, and a pod's user is another
    print(f"described {len(models) - len(failed)} of {len(models)} model names in {len(written)} files")
    if len(failed) * 5 > len(models):
        raise SystemExit(f"{len(failed)} of {len(models)} model classes of the engine cannot be described")


if __name__ == "__main__":
    main()
