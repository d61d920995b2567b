"""Runs inside the serving image: loads models with our methods and prints, as a line of JSON, what each run found.

Usage: load_quantized.py RUN [and RUN …]     RUN is MODEL METHOD [DTYPE [NAME=VALUE …]]; METHOD `none` loads it
unquantized. `as` float16 stores the checkpoint so first, `adapter` is a LoRA adapter to answer with, `tp` the number of
processes, `compiled` anything where torch.compile and graphs are to be used, `share` of the card's memory, `spoil` what
becomes of the kept weights before (`damage`, `foreign`); other names are variables. What is refused is printed as such.
The engine is imported once, and every run is a fork of that.
"""

import itertools
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

PROMPTS = ["def add(a, b):", "The sea was calm and", "import json\n"]
VARIABLES = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # several processes are asked with a function of ours
    "OMP_NUM_THREADS": "1",  # on cores that others use too, threads of so small a model spin while they wait
    "TORCHDYNAMO_DISABLE": "1",  # log-probabilities are compiled at first use, and the image has no compiler
    "WINDLASS_ENGINE": "cpu",
    "WINDLASS_LICENSE_REQUIRED": "false",
    "WINDLASS_QUANTIZED_CACHE": "off",
}
KV_BYTES = 1 << 28
"""A card's others start and end beside it, so that it cannot measure what is left; a CPU clears a GiB for 1.5 s."""
QUESTION = [{"role": "user", "content": "What does os.path.join do?"}]


def stored_as(model: str, dtype: str) -> str:
    """A copy of a model directory whose weights are stored in another dtype."""
    import torch
    from safetensors.torch import load_file, save_file

    folder = Path(tempfile.mkdtemp())
    for file in Path(model).iterdir():
        if file.suffix != ".safetensors" and file.is_file():
            shutil.copy(file, folder)
    kind = getattr(torch, dtype)
    tensors = {name: tensor.to(kind) for name, tensor in load_file(Path(model, "model.safetensors")).items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": dtype, "torch_dtype": dtype}))
    return str(folder)


def spoil(kept: Path, how: str) -> None:
    """Flip bytes of what is kept, or put there what was kept of another model."""
    (file,) = kept.glob("*.safetensors")
    if how == "damage":
        with file.open("r+b") as opened:
            opened.seek(-100, os.SEEK_END)
            opened.write(b"damage")
        return
    record = file.with_suffix(".json")
    told = json.loads(record.read_bytes())
    told["source"]["files"]["model.safetensors"][0] += 1
    record.write_text(json.dumps(told))


def one(model: str, method: str, dtype: str = "float16", *said: str) -> dict[str, object]:
    """Greedy tokens, the prompts' log probabilities, an answer, and what each layer of the first rank holds."""
    words = dict(word.split("=", 1) for word in said)
    known = ("as", "adapter", "tp", "spoil", "compiled", "share")
    stored, adapter, tp, spoiled, compiled, share = (words.pop(name, "") for name in known)
    os.environ |= words
    if compiled:
        del os.environ["TORCHDYNAMO_DISABLE"]
    if spoiled:
        spoil(Path(words["WINDLASS_QUANTIZED_CACHE"]), spoiled)
    model = stored_as(model, stored) if stored else model
    from vllm import LLM, SamplingParams
    from vllm.lora.request import LoRARequest
    from windlass.errors import UsageError
    from windlass.offline import engine_options

    settings = {"dtype": dtype, "max_model_len": 256, "quantization": method, "enable_lora": bool(adapter)}
    try:
        options = engine_options(model, settings, os.environ)
        options |= {"gpu_memory_utilization": float(share or 0.2), "max_lora_rank": 16}
        if share or os.environ["WINDLASS_ENGINE"] == "cpu":
            options["kv_cache_memory_bytes"] = KV_BYTES
        options |= {"tensor_parallel_size": int(tp or 1)}
        options |= {"distributed_executor_backend": "mp" if tp else "uni", "enforce_eager": not compiled}
        if tp:  # a sum over cards with its norm is a library that is built at the first start, for minutes
            options["compilation_config"] = {"pass_config": {"fuse_allreduce_rms": False}}
        engine = LLM(**options)
    except (ValueError, UsageError) as refusal:
        return {"refused": str(refusal)}
    lora = LoRARequest("adapter", 1, adapter) if adapter else None
    greedy = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, prompt_logprobs=0)
    outputs = engine.generate(PROMPTS, greedy, use_tqdm=False, lora_request=lora)
    answer = engine.chat(QUESTION, SamplingParams(temperature=0, max_tokens=60), use_tqdm=False)
    report: dict[str, object] = {
        "tokens": [list(output.outputs[0].token_ids) for output in outputs],
        "logprobs": [
            next(iter(found.values())).logprob for output in outputs for found in output.prompt_logprobs if found
        ],
        "answer": answer[0].outputs[0].text,
        "dtype": str(engine.llm_engine.model_config.dtype),
        "engine_method": engine.llm_engine.model_config.quantization,
    }
    return report | {"ranks": engine.apply_model(held)} | engine.apply_model(held)[0]


def held(network: object) -> dict[str, object]:
    """What the layers of one rank hold."""
    import hashlib

    from windlass.engine.quantization import layout, nf4
    from windlass.engine.quantization.linear import QuantizedLinear

    layers: dict[str, object] = {}
    was_kept = False
    for name, layer in network.named_modules():  # type: ignore[attr-defined]  # torch is not imported here
        if not isinstance(getattr(layer, "quant_method", None), QuantizedLinear):
            continue
        packed, bits = layer.quant_method.packed(layer), layer.quant_method.bits
        was_kept = not layer.quant_method.uses_meta_device
        codes, scales = layout.codes(packed, bits)
        layers[name] = {
            "bits": bits,
            "rows": layer.output_size_per_partition,
            "columns": layer.input_size_per_partition,
            "bytes": packed.qweight.nbytes + packed.scales.nbytes,
            "codes": sorted(set(codes.flatten().tolist())) if bits == 4 else [],
            "scales": [round(float(scale), 8) for scale in scales.flatten()[:64].float()],
            "digest": hashlib.sha256(
                b"".join(part.cpu().numpy().tobytes() for part in (packed.qweight, packed.scales))
            ).hexdigest(),
            "parameters": sorted(dict(layer.named_parameters())),
        }
    parameters = list(network.parameters())  # type: ignore[attr-defined]
    return {
        "layers": layers,
        "bytes": sum(parameter.nbytes for parameter in parameters),
        "codebook": nf4.values().tolist(),
        "was_kept": was_kept,
    }


def forked(run: list[str]) -> object:
    """One run in a process of its own."""
    end, start = os.pipe()
    child = os.fork()
    if not child:
        os.close(end)
        with os.fdopen(start, "w") as opened:
            json.dump(one(*run), opened)
        sys.stdout.flush()
        os._exit(0)
    os.close(start)
    with os.fdopen(end) as opened:
        found = opened.read()
    if status := os.waitpid(child, 0)[1]:
        sys.exit(f"{' '.join(run)} ended with status {status}")
    print("ran", *run, file=sys.stderr)
    return json.loads(found)


def main(words: list[str]) -> dict[str, object]:
    """What each run found, and the methods that the engine knows."""
    os.environ |= VARIABLES
    os.environ.pop("VLLM_CPU_KVCACHE_SPACE", None)  # a size in GiB, which would count before ours
    from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS
    from windlass.engine.quantization.plugin import register

    register()
    runs = [list(run) for is_run, run in itertools.groupby(words, lambda word: word != "and") if is_run]
    return {"methods": [*QUANTIZATION_METHODS], "runs": [forked(run) for run in runs]}


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(sys.argv[1:])))
