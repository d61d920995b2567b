"""In the serving image: which model classes the engine describes by itself, after our descriptions are in place."""

import json
import os
import stat
import tempfile


def main() -> None:
    """Print the number of files, of names, and the names that need a second Python."""
    os.environ["VLLM_CACHE_ROOT"] = tempfile.mkdtemp()
    from windlass.engine.startup import model_infos

    placed = model_infos.place(os.environ)
    from vllm.model_executor.models import registry

    def refuse(_: object) -> None:
        raise RuntimeError("a second Python")

    registry._run_in_subprocess = refuse
    models = registry.ModelRegistry.models
    missing = [name for name, model in models.items() if registry._try_inspect_model_cls(name, model) is None]
    closed = [path.name for path in model_infos.SHIPPED.glob("*.json") if not path.stat().st_mode & stat.S_IROTH]
    print("RESULT " + json.dumps({"placed": placed, "missing": missing, "names": len(models), "closed": closed}))


if __name__ == "__main__":
    main()
