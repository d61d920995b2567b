"""Runs inside the serving image: the engine's own opinion of adapters, and merges against torch; one line of JSON."""

import json
import os
import subprocess
import sys
import typing
from dataclasses import replace
from pathlib import Path

MODELS = Path("/models")
PLAIN = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "bias": "none"}
KINDS = {
    "plain": {},
    "rslora": {"use_rslora": True},
    "classifier": {"modules_to_save": ["score"]},
    **{start: {"init_lora_weights": start} for start in ("gaussian", "eva", "orthogonal", "mica", "lora_ga")},
    **{start: {"init_lora_weights": start} for start in ("pissa", "olora", "loftq", "corda")},
    "dora": {"use_dora": True},
    "qalora": {"use_qalora": True},
    "bdlora": {"use_bdlora": {"x": 1}},
    "alora": {"alora_invocation_tokens": [1]},
    "replication": {"layer_replication": [[0, 2]]},
    "lora-bias": {"lora_bias": True},
    "modules": {"modules_to_save": ["lm_head"]},
    "bias": {"bias": "all"},
    "rank": {"r": 513},
    "rank-pattern": {"rank_pattern": {"q_proj": 600}},
}


def opinions() -> dict[str, object]:
    """For each kind of adapter: whether the engine and whether we refuse it; and the ranks that each knows."""
    from vllm.config.lora import LoRAConfig, MaxLoRARanks
    from vllm.lora.peft_helper import PEFTHelper
    from windlass_sizing.model import lora_config as config

    def is_refused(said: dict[str, object]) -> bool:
        try:
            PEFTHelper.from_dict(said).validate_legal(LoRAConfig(max_lora_rank=512))
        except ValueError:
            return True
        return False

    kinds = {name: {**PLAIN, **more} for name, more in KINDS.items()}
    return {
        "engine": {name: is_refused(said) for name, said in kinds.items()},
        "ours": {name: bool(config.problems(said)[0]) for name, said in kinds.items()},
        "engine ranks": list(typing.get_args(MaxLoRARanks)),
        "our ranks": list(config.RANKS),
    }


def merges() -> dict[str, list[str]]:
    """For each base: what of the merged checkpoint differs from torch's own sum, by name."""
    return {base.name: _differences(base) for base in sorted(MODELS.iterdir()) if (base / "config.json").is_file()}


def _differences(base: Path) -> list[str]:
    import torch
    from windlass.engine.adapters import cache
    from windlass.engine.adapters.model import Asked, Want
    from windlass.engine.adapters.plan import decide
    from windlass.engine.adapters.read import look
    from windlass_sizing.settings.lora_modules import Given

    adapter = MODELS / f"{base.name}-adapter" / "lora"
    asked = Asked(str(base), given=(Given("x", str(adapter)),), merge="x")
    adapters, where = look(asked)
    plan = decide(adapters, Want(("m",), where, merge="x", cache="/tmp/merged")).merge
    cache.ensure(replace(plan, target=f"/tmp/merged/{base.name}"), print)
    before, after, halves = _tensors(base), _tensors(Path(f"/tmp/merged/{base.name}")), _tensors(adapter)
    said = json.loads((adapter / "adapter_config.json").read_text())
    found = sorted(before.keys() ^ after.keys())
    for name in before.keys() & after.keys():
        stem = f"base_model.model.{name.removesuffix('.weight')}.lora_"
        wanted = before[name]
        if f"{stem}A.weight" in halves:
            product = halves[f"{stem}B.weight"].double() @ halves[f"{stem}A.weight"].double()
            wanted = (wanted.double() + said["lora_alpha"] / said["r"] * product).to(wanted.dtype)
            if torch.equal(before[name], after[name]):
                found.append(f"{name} is unchanged")
        spacing = torch.finfo(wanted.dtype).eps
        if after[name].dtype != wanted.dtype or not torch.allclose(
            after[name].double(), wanted.double(), rtol=spacing, atol=1e-6
        ):
            found.append(name)
    return found


def _tensors(folder: Path) -> dict[str, object]:
    import torch
    from safetensors.torch import load_file

    found: dict[str, object] = {}
    for file in sorted(folder.glob("*.safetensors")):
        found |= load_file(file)
    if not found:
        for file in sorted(folder.glob("*.bin")):
            found |= torch.load(file, weights_only=True)
    return found


def refusal(model: str) -> dict[str, object]:
    """How `windlass run` ends for a model directory."""
    environment = {**os.environ, "WINDLASS_LICENSE_REQUIRED": "false"}
    command = [sys.executable, "-m", "windlass.cli.main", "run", "--model", model]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    return {"code": done.returncode, "said": done.stderr.strip().splitlines()[-1:]}


def room(base: str, slots: str, rank: str) -> dict[str, int]:
    """Bytes that the engine allocates for adapters of a model, and those that we count."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM
    from windlass_sizing.model.lora import width_of

    lora = {"enable_lora": True, "max_loras": int(slots), "max_lora_rank": int(rank)}
    engine = LLM(base, dtype="float32", max_model_len=256, enforce_eager=True, **lora)
    found = width_of(json.loads((Path(base) / "config.json").read_text()))
    ours = int(slots) * int(rank) * (found.whole + found.split) * 4
    return {"engine": sum(engine.apply_model(_places)), "ours": ours}


def _places(model: object) -> int:
    """The bytes of all places in the model, each tensor once."""
    names = ("lora_a_stacked", "lora_b_stacked", "w13_lora_a_stacked", "w13_lora_b_stacked", "w2_lora_a_stacked")
    tensors: dict[int, int] = {}
    for module in model.modules():
        for name in (*names, "w2_lora_b_stacked"):
            held = getattr(module, name, ())
            for tensor in held if isinstance(held, list | tuple) else (held,):
                tensors[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return sum(tensors.values())


if __name__ == "__main__":
    jobs = {"room": room, "opinions": opinions, "merges": merges, "refusal": refusal}
    print("RESULT " + json.dumps(jobs[sys.argv[1]](*sys.argv[2:])))
