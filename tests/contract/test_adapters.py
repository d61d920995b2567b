"""Operator → server: a rendered service of adapters, on real directories: inspected, planned, found and accepted.

Both sides look at the same files: the inspect Job's program at the volume's root, `windlass run` at the mounts.
"""

from __future__ import annotations

import json
import pickle
import shutil
import sys
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "kind"))

import tiny_adapter
from spec_changes import INVENTORY, SETTINGS
from windlass.launch import probe
from windlass.launch.model import LaunchPlan, Machine
from windlass.launch.resolve import RUN, looked_for, resolve
from windlass.license.model import Gpu
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Plan
from windlass_operator.inspection.job import read_beside
from windlass_operator.manifests.inspect_job import inspect_job
from windlass_operator.manifests.pod import pod_template
from windlass_operator.reconcile.desired_state import parse_service, pod_shape
from windlass_sizing.files.checkpoint import inspect
from windlass_testbed.deploy import MODEL_FILES

DEMO = Path(__file__).parents[2] / "models" / "demo"
NODE = Machine("cuda", (Gpu("GPU-0", "NVIDIA L20"),))
SOURCE = {"pvc": {"claimName": "models", "path": "loras/sql"}}


@pytest.fixture
def volumes(tmp_path: Path) -> dict[str, Path]:
    """Two claims: `models` with the demo model and an adapter of it, `loras` with another adapter."""
    models, loras = tmp_path / "models", tmp_path / "loras"
    base = models / "Qwen" / "demo-7B"
    base.mkdir(parents=True)
    for name in MODEL_FILES:
        shutil.copyfile(DEMO / name, base / name)
    tiny_adapter.make(models / "loras/sql", base, "Qwen/demo-7B")
    tiny_adapter.make(loras / "poet", base, "Qwen/demo-7B")
    return {"models": models, "loras": loras}


def rendered(volumes: dict[str, Path], model: dict[str, Any], engine: dict[str, Any] | None = None) -> dict[str, Any]:
    """The serving pod that the operator makes after its Job has looked at the real files."""
    spec = {"model": {"id": "chat", "source": SOURCE, **model}, "engine": engine or {}}
    service = parse_service({"metadata": {"name": "s", "namespace": "a", "uid": "u"}, "spec": spec})
    job = inspect_job(service, "i", "Never")["spec"]["template"]["spec"]
    words = dict(word.partition("=")[::2] for word in job["containers"][0]["args"] if "=" in word)
    roots = _places(job, volumes)
    text = words.get("--beside", "")
    for mounted, place in sorted(roots.items(), reverse=True):
        text = text.replace(f'"{mounted}"', f'"{place}"')
    beside = read_beside(text, merge="--merge" in job["containers"][0]["args"])
    report = inspect(roots["/data/volume"], words["--path"], words["--source"], beside)
    assert report.facts is not None, report.message
    plan = decide(service.spec, report.facts, INVENTORY)
    assert isinstance(plan, Plan), plan
    return pod_template(service, pod_shape(service, plan, SETTINGS))["spec"]


def _places(pod: dict[str, Any], volumes: dict[str, Path]) -> dict[str, Path]:
    """Mounts of the models as directories of this machine."""
    claims = {row["name"]: row.get("persistentVolumeClaim", {}).get("claimName") for row in pod["volumes"]}
    mounts = pod["containers"][0]["volumeMounts"]
    return {
        row["mountPath"]: volumes[claims[row["name"]]] / row.get("subPath", "")
        for row in mounts
        if claims[row["name"]] in volumes
    }


def started(pod: dict[str, Any], volumes: dict[str, Path], root: Path) -> LaunchPlan:
    """What `windlass run` makes of the pod's command and variables, with the mounts laid out below `root`."""
    for mounted, place in _places(pod, volumes).items():
        path = root / mounted.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(place)
    container = pod["containers"][0]
    words = [word.replace("/data/", f"{root}/data/") for word in container["args"][1:]]
    env = {row["name"]: row["value"].replace("/data/", f"{root}/data/") for row in container["env"] if "value" in row}
    return resolve(tuple(words), env, probe.look(looked_for(tuple(words), env, RUN)), NODE)


def test_an_adapter_is_served_by_the_services_name(volumes, tmp_path):
    """The base is found by its name on the volume, mounted, and goes by its own name."""
    plan = started(rendered(volumes, {}), volumes, tmp_path / "pod")
    assert plan.model_path == f"{tmp_path}/pod/data/base/demo-7B"
    assert plan.value("served-model-name") == ("demo-7B",)
    assert plan.value("lora-modules") == (f"chat={tmp_path}/pod/data/model",)
    assert (plan.value("max-lora-rank"), plan.value("max-loras")) == (8, 1)


def test_an_adapter_is_merged(volumes, tmp_path):
    """The engine starts from a directory that holds the result; no room is kept for adapters."""
    pod = rendered(volumes, {"merge": True})
    plan = started(pod, volumes, tmp_path / "pod")
    assert "/merged/" in plan.model_path
    assert plan.value("served-model-name") == ("chat",)


def test_an_adapter_of_another_volume_is_served_beside_a_model(volumes, tmp_path):
    """Under its own name, from its own mount."""
    adapters = [{"name": "poet", "source": {"pvc": {"claimName": "loras", "path": "poet"}}}]
    model = {"source": {"pvc": {"claimName": "models", "path": "Qwen/demo-7B"}}, "adapters": adapters}
    plan = started(rendered(volumes, model), volumes, tmp_path / "pod")
    assert plan.value("served-model-name") == ("chat",)
    assert plan.value("lora-modules") == (f"poet={tmp_path}/pod/data/adapters/0",)


def test_a_draft_model_reaches_the_engine(volumes, tmp_path):
    """As the engine's own speculative config, with the place where it is mounted."""
    source = {"pvc": {"claimName": "models", "path": "Qwen/demo-7B"}}
    engine = {"speculation": {"source": source, "tokens": 3}, "dtype": "float32"}
    plan = started(rendered(volumes, {"source": source}, engine), volumes, tmp_path / "pod")
    config = json.loads(plan.engine_args[plan.engine_args.index("--speculative-config") + 1])
    files = {"method": "draft_model", "model": f"{tmp_path}/pod/data/draft", "num_speculative_tokens": 3}
    assert config == {**files, "enable_adaptive_verification": True}


TENSORS = {
    "lm_head.weight": False,
    "lm_head.lora_A.weight": False,
    "model.embed_tokens.lora_embedding_A": False,
    "model.embed_tokens.token_adapter.trainable_tokens_delta": False,
    "model.layers.0.self_attn.q_proj.lora_A.weight": True,
}


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
@pytest.mark.parametrize(("tensor", "is_taken"), TENSORS.items(), ids=TENSORS.keys())
def test_tensors_are_judged_alike(volumes: dict[str, Path], tensor: str, is_taken: bool, suffix: str) -> None:
    """By inspection and by the server, of a base whose class offers neither embedding nor head."""
    place = volumes["models"] / "loras/sql"
    (place / "adapter_model.safetensors").unlink()
    _write(place / f"adapter_model.{suffix}", f"base_model.model.{tensor}")
    report = inspect(volumes["models"], "loras/sql", "pvc/models")
    (own,) = (probe.look(looked_for(("--model", str(place)), {})).adapters.own,)
    assert own is not None
    assert (report.ok, not own.problem or "does not fit" in own.problem) == (is_taken, is_taken)
    assert is_taken or own.problem.removeprefix("the adapter ") in report.message


VISION = {"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "out_hidden_size": 64}


@pytest.mark.parametrize(
    ("architecture", "model_type", "is_taken"),
    [
        ("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", False),
        ("Qwen3VLForConditionalGeneration", "qwen3_vl", True),
    ],
)
def test_heads_of_multimodal_bases_are_judged_alike(
    volumes: dict[str, Path], architecture: str, model_type: str, is_taken: bool
) -> None:
    """By what the base's language model offers to adapters; a tower's tensors are taken, and not served."""
    place, file = volumes["models"] / "loras/sql", volumes["models"] / "Qwen/demo-7B/config.json"
    more = {"architectures": [architecture], "model_type": model_type, "vision_config": VISION}
    file.write_text(json.dumps(json.loads(file.read_text()) | more))
    for tensor, is_fine in {"lm_head.lora_A.weight": is_taken, "visual.blocks.0.attn.qkv.lora_A.weight": True}.items():
        _write(place / "adapter_model.safetensors", f"base_model.model.{tensor}")
        report = inspect(volumes["models"], "loras/sql", "pvc/models")
        (own,) = (probe.look(looked_for(("--model", str(place)), {})).adapters.own,)
        assert own is not None
        assert (report.ok, not own.problem or "does not fit" in own.problem) == (is_fine, is_fine), report.message


def test_pickles_are_judged_alike(volumes: dict[str, Path]) -> None:
    """A file with more than tensors in it, and one that is cut off."""
    place = volumes["models"] / "loras/sql"
    (place / "adapter_model.safetensors").unlink()
    file = place / "adapter_model.bin"
    _write(file, "x.lora_A.weight", date(2026, 1, 1))
    for words in ("holds more than tensors (adapter_model.bin: datetime.date)", "adapter_model.bin is not whole"):
        report = inspect(volumes["models"], "loras/sql", "pvc/models")
        (own,) = (probe.look(looked_for(("--model", str(place)), {})).adapters.own,)
        assert own is not None
        assert words in report.message
        assert words in own.problem
        file.write_bytes(file.read_bytes()[:-30])


def _write(file: Path, tensor: str, value: object = 1) -> None:
    """An adapter's file with one tensor, as safetensors or torch writes it."""
    if file.suffix == ".bin":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps({tensor: value}, protocol=2))
        return
    header = json.dumps({tensor: {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}})
    file.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(64))
