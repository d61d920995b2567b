"""Adapters in the serving image: found and served by name, merged, and what is said when the base is missing."""

import json
import shutil
from pathlib import Path

import httpx
import pytest

MODEL_FILES = (
    "config.json generation_config.json tokenizer.json tokenizer_config.json chat_template.jinja model.safetensors"
)
PROMPTS = ("What does os.path.join do?", "def add(a, b):", "import os")
RUN = "windlass run --dtype float32 --max-model-len 512 --model".split()
CHECKS = "/repo/tests/engine/models/lora_checks.py"


@pytest.fixture(scope="module")
def models(adapter, tmp_path_factory):
    """`whole` holds the demo model and two adapters, `adapter` is one whose base is its neighbour, `lost` has none."""
    folder = tmp_path_factory.mktemp("lora")
    shutil.copytree(adapter / "lora", folder / "lora")
    (folder / "whole/lora").mkdir(parents=True)
    for name in MODEL_FILES.split():
        shutil.copy(Path(__file__).parents[3] / "models/demo" / name, folder / "whole" / name)
    shutil.copytree(folder / "lora", folder / "whole/lora/poet")
    shutil.copytree(folder / "lora", folder / "whole/lora/quiet")
    scaled(folder / "whole/lora/quiet", 1)
    for name, base in (("adapter", "some/whole"), ("lost", "/opt/nowhere/qwen")):
        config = json.loads((folder / "lora/adapter_config.json").read_text())
        shutil.copytree(folder / "lora", folder / name)
        (folder / name / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": base}))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)  # the server is no root
    return folder


def scaled(adapter: Path, alpha: int) -> None:
    """The same matrices with another weight."""
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**config, "lora_alpha": alpha}))


def answers(url: str, model: str | None) -> list[list[int]]:
    """Greedy tokens for each prompt."""
    named = {"model": model} if model else {}
    fields = {"max_tokens": 16, "temperature": 0, "return_token_ids": True, **named}
    found = (httpx.post(f"{url}/v1/completions", json={"prompt": prompt, **fields}, timeout=120) for prompt in PROMPTS)
    return [answer.json()["choices"][0]["token_ids"] for answer in found]


def names(url: str) -> list[str]:
    return [model["id"] for model in httpx.get(f"{url}/v1/models").json()["data"]]


@pytest.fixture(scope="module")
def by_name(engine, models):
    """What each name answers when both adapters are found in the model directory."""
    with engine.serving(*RUN, "/models/whole", mounts={models: "/models:ro"}) as url:
        assert names(url) == ["model", "poet", "quiet"]
        unknown = httpx.post(f"{url}/v1/completions", json={"model": "nobody", "prompt": "x"})
        assert unknown.status_code == 404
        assert "model, poet, quiet" in unknown.json()["error"]["message"]
        return {name: answers(url, name) for name in ("model", "poet", "quiet")}


def test_found_adapters_are_served_by_name(by_name):
    """Each answers otherwise than the base, and than the other."""
    assert by_name["model"] != by_name["poet"]
    assert by_name["poet"] != by_name["quiet"] != by_name["model"]


def test_a_merged_adapter_answers_the_same(engine, models, by_name):
    """Under the model's name and its own; the other adapter is not served."""
    with engine.serving(*RUN, "/models/whole", mounts={models: "/models:ro"}, MERGE_LORA="poet") as url:
        assert names(url) == ["model", "poet"]
        assert answers(url, "model") == answers(url, "poet") == by_name["poet"]


@pytest.mark.long
def test_a_model_directory_that_is_an_adapter(engine, models, by_name):
    """The model's name, and no name at all, mean the adapter; the base keeps a name of its own."""
    with engine.serving(*RUN, "/models/adapter", mounts={models: "/models:ro"}, MODEL_ID="mine") as url:
        assert names(url) == ["whole", "mine"]
        assert answers(url, "mine") == answers(url, None) == by_name["poet"]
        assert answers(url, "whole") == by_name["model"]


def test_a_missing_base_is_reported(engine, models):
    """What is missing, where it was looked for, what to do."""
    found = engine.result(CHECKS, "refusal", "/models/lost", mounts={models: "/models:ro"})
    assert found["code"] == 3
    assert found["said"][0].startswith(
        'windlass: model directory /models/lost is a LoRA adapter of "/opt/nowhere/qwen", and that base model is not '
        "there (looked in /opt/nowhere/qwen, "
    )


def test_we_refuse_what_the_engine_refuses(engine):
    """Each kind of adapter, and the ranks that may be asked for."""
    found = engine.result(CHECKS, "opinions")
    assert found["engine"] == found["ours"]
    assert found["engine ranks"] == found["our ranks"]


@pytest.mark.parametrize("kind", ["whole", "sharded", "moe"])
def test_the_room_is_what_the_engine_allocates(engine, models, tiny, kind):
    """Of Qwen2 (whole), of Llama (sharded) with its embedding and head, and of a mixture of experts: to the byte."""
    folder = models if kind == "whole" else tiny
    found = engine.result(CHECKS, "room", f"/models/{kind}", "2", "16", mounts={folder: "/models:ro"})
    assert found["engine"] == found["ours"]


@pytest.mark.long
def test_merges_are_what_torch_computes(engine, tmp_path):
    """Of one safetensors file, of shards, of torch's own format, and in float32."""
    kinds = ("gqa", "sharded", "bin", "fp32")
    engine.python("/repo/models/tiny/make.py", "/out", *kinds, mounts={tmp_path: "/out"})
    for kind in kinds:
        words = (f"/out/{kind}-adapter", "lora", "--base", f"/out/{kind}")
        engine.python("/repo/models/tiny/make.py", *words, mounts={tmp_path: "/out"})
    assert engine.result(CHECKS, "merges", mounts={tmp_path: "/models:ro"}) == {kind: [] for kind in kinds}
