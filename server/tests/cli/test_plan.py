"""`windlass plan`: what it answers for a directory or a config.json, and how it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner
from windlass.cli import plan
from windlass.cli.main import app
from windlass.errors import ModelError, UsageError, WindlassError

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
QWEN_72B = {
    **LLAMA_8B,
    "model_type": "qwen2",
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
}
KEYS = {
    *(
        "params",
        "weightsGib",
        "kvCacheGib",
        "requiredGib",
        "seedRequiredGib",
        "gpus",
        "tp",
        "pp",
        "nodes",
        "maxModelLen",
    ),
    *("alternatives", "advice", "because", "requestsAtOnce"),
}


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return written(tmp_path, LLAMA_8B)


def written(directory: Path, config: dict) -> Path:
    file = directory / "config.json"
    file.write_text(json.dumps(config))
    return file


def ask(*words: object) -> tuple[int, dict]:
    result = CliRunner().invoke(app, ["plan", *map(str, words), "-o", "json"])
    return result.exit_code, json.loads(result.stdout)


def refusal(*words: object, kind: type[WindlassError] = UsageError) -> str:
    result = CliRunner().invoke(app, ["plan", *map(str, words)])
    assert type(result.exception) is kind
    return str(result.exception)


def test_a_plan_has_every_key(llama):
    """The keys of `status.plan`, with numbers."""
    code, answer = ask(llama)
    assert code == 0
    assert set(answer) >= KEYS
    assert (answer["params"], answer["gpus"], answer["tp"], answer["maxModelLen"]) == (8_030_261_248, 1, 1, 8192)


def test_a_directory_is_as_good_as_its_file(llama):
    """Weights and tokenizer need not be there yet."""
    assert ask(llama.parent) == ask(llama)


def test_the_documents_examples(llama, tmp_path):
    """35.56 and 171.11 GiB, with the fewest cards that both figures allow."""
    code, answer = ask(llama, "--max-model-len", 131072, "--gpu-memory-gib", 24)
    assert (code, answer["seedRequiredGib"], answer["gpus"]) == (0, 35.56, 2)
    code, answer = ask(written(tmp_path, QWEN_72B), "--max-model-len", 32768, "--gpu-memory-gib", 48)
    assert (code, answer["seedRequiredGib"], answer["gpus"]) == (0, 171.11, 4)


def test_nothing_fits_is_an_answer_too(llama):
    """Exit 3, and the object holds the reason and the remedies in the documents' order, with figures."""
    code, answer = ask(llama, "--gpu-memory-gib", 4, "--gpus-available", 1)
    assert code == 3
    assert answer["error"].startswith("nothing fits; the nearest is 1 × 4 GiB GPU")
    assert [line.partition(":")[0] for line in answer["advice"]] == [
        "more or larger GPUs",
        "--quantization ifq",
        "--max-model-len 2048",
        "--gpu-memory-utilization 0.95",
        "--enforce-eager",
    ]
    assert answer["because"]


def test_real_bytes_win(llama):
    """An index tells the weights although no shard is there."""
    total = {"metadata": {"total_size": 16 * 2**30}, "weight_map": {}}
    (llama.parent / "model.safetensors.index.json").write_text(json.dumps(total))
    assert ask(llama.parent)[1]["weightsGib"] == 16.0


def test_settings_beside_the_config_are_read(llama):
    """hf_quant_config.json halves the weights."""
    plain = ask(llama)[1]["weightsGib"]
    (llama.parent / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')
    answer = ask(llama)[1]
    assert answer["quantization"] == "modelopt"
    assert answer["weightsGib"] < plain * 0.6


def test_a_group_of_nodes(tmp_path):
    """Two nodes of four cards take what one cannot: TP over all of them, as the documents say."""
    code, answer = ask(
        written(tmp_path, QWEN_72B), *("--gpu", "A10", "--gpus-per-node", 4, "--nodes", 2, "--max-model-len", 4096)
    )
    assert (code, answer["nodes"], answer["tp"], answer["pp"], answer["gpus"]) == (0, 2, 8, 1, 8)


def test_a_tp_that_is_asked_for_is_kept(llama):
    assert ask(llama, "--tensor-parallel-size", 4)[1]["tp"] == 4


@pytest.mark.parametrize("form", ["table", "yaml"])
def test_other_forms(llama, form):
    """The table is for people, YAML says what JSON says."""
    result = CliRunner().invoke(app, ["plan", str(llama), "-o", form])
    assert result.exit_code == 0
    if form == "yaml":
        assert yaml.safe_load(result.stdout) == ask(llama)[1]
    else:
        assert "1 × L20" in result.stdout
        totals = [line for line in result.stdout.splitlines() if "GiB in all" in line]
        assert [line.split()[0] for line in totals] == ["needed"]
        assert f"{ask(llama)[1]['requestsAtOnce']} requests of 8192 tokens fit in the KV cache at once" in result.stdout
        assert "rule of thumb" not in result.stdout
        assert "advice:" not in result.stdout


NAMES = {
    "family": ("A100", ["A100-40G"]),
    "label": ("NVIDIA-A100-SXM4-80GB", ["A100-80G"]),
    "node's label": ("nvidia.com/gpu.product=NVIDIA-L20", ["L20"]),
    "slice": ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", ["A100-80G-MIG-3g.40gb"]),
    "slice's resource": ("nvidia.com/mig-3g.40gb", ["MIG-3g.40gb"]),
}


@pytest.mark.parametrize(("name", "taken"), NAMES.values(), ids=NAMES.keys())
def test_a_card_is_named_in_every_way(llama, name, taken):
    """As a short name, a family, a node's label or a slice."""
    answer = ask(llama, "--gpu", name)[1]
    assert [answer["gpuType"]] == taken


def test_a_slice_is_taken_alone(llama):
    """A model that one slice does not hold is not spread over several."""
    code, answer = ask(llama, "--gpu", "1g.10gb", "--gpus-available", 7)
    assert (code, answer["gpus"]) == (3, 1)
    assert answer["advice"][0].startswith("a larger slice or a whole GPU")


REFUSALS = {
    "another maker's": (["--gpu", "MI300X"], '"MI300X" is an accelerator of AMD'),
    "a vGPU": (["--gpu", "NVIDIA-A10-4Q"], '--gpu "NVIDIA-A10-4Q" is not known'),
    "card": (["--gpu", "Z9"], '--gpu "Z9" is not known'),
    "card twice": (["--gpu", "L20", "--gpu-memory-gib", "48"], "say the same thing twice"),
    "heads": (["--tensor-parallel-size", "3"], "does not split the model's 32 heads"),
    "too many cards": (["-tp", "4", "--gpus-available", "2"], "--tensor-parallel-size 4 is more than the cards"),
    "context": (["--max-model-len", "131073"], "longer than the model's own 131072 tokens"),
    "method": (["-q", "zip"], '--quantization is "zip", which is no method'),
    "method and dtype": (["-q", "ifq_nf4", "--dtype", "bfloat16"], "runs with float16 only"),
    "card without code": (["--gpu", "V100-32G"], "V100-32G has 7.0, and the engine is vLLM 0.32.0, whose code begins"),
    "method and card": (["-q", "fp8", "--gpu", "T4"], "needs compute capability 8.9, and T4 has 7.5"),
    "dtype": (["--dtype", "int3"], '--dtype "int3" is not known'),
}


@pytest.mark.parametrize(("words", "said"), REFUSALS.values(), ids=REFUSALS.keys())
def test_bad_input_is_one_sentence(llama, words, said):
    """Exit 2, what is wrong and what to do."""
    sentence = refusal(llama, *words)
    assert said in sentence
    assert "\n" not in sentence


def test_a_model_that_is_not_there_ends_as_run_does():
    """Exit 3, one sentence."""
    assert refusal("nope", kind=ModelError) == "nope is not there; name a model directory or its config.json"


BROKEN = {
    "no JSON": ("{", "cannot be read as JSON"),
    "no object": ("[]", "is not a JSON object"),
    "no sizes": ('{"model_type": "llama"}', "does not say hidden_size"),
    "no heads": (json.dumps({**LLAMA_8B, "num_attention_heads": None}), "does not say num_attention_heads"),
    "uncounted": (json.dumps({**LLAMA_8B, "model_type": "rwkv"}), "cannot be counted"),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_config_is_reported(tmp_path, text, said):
    """Never a traceback."""
    (tmp_path / "config.json").write_text(text)
    assert said in refusal(tmp_path, kind=ModelError)


def test_quantization_is_not_put_on_twice(tmp_path):
    """A GPTQ model is served as it is; its own method may be named."""
    config = {**LLAMA_8B, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
    file = written(tmp_path, config)
    assert "is gptq already" in refusal(file, "-q", "ifq")
    assert ask(file, "-q", "gptq")[0] == 0


def test_experts_are_not_for_our_methods(tmp_path):
    """ifq leaves mixtures of experts to fp8, in the refusal and in the advice."""
    mixture = {**LLAMA_8B, "model_type": "mixtral", "num_local_experts": 8}
    file = written(tmp_path, mixture)
    assert "take fp8" in refusal(file, "-q", "ifq")
    advice = ask(file, "--gpus-available", 1)[1]["advice"]
    assert any(line.startswith("--quantization fp8") for line in advice)


def test_this_machines_cards_are_taken(llama, monkeypatch):
    """Without --gpu, the cards that are here."""
    monkeypatch.setattr(plan, "_of_this_machine", lambda: ["A10", "A10"])
    answer = ask(llama)[1]
    assert (answer["gpuType"], answer["gpus"]) == ("A10", 1)


def test_it_loads_no_engine(llama):
    """Neither torch nor vLLM: they are what would make it slow; `make bench-cli` prints the seconds."""
    program = (
        "import sys; sys.argv = ['windlass', *sys.argv[1:]]\nfrom windlass.cli.main import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'torch', 'vllm', 'transformers'} & set(sys.modules); sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", program, "plan", str(llama)], check=True, capture_output=True)


def test_an_engine_limit_can_be_set_aside(tmp_path):
    """As `run` and the resource do; standard error says which limit."""
    unknown = {**LLAMA_8B, "quantization_config": {"quant_method": "nobody"}}
    file = written(tmp_path, unknown)
    assert "nobody" in refusal(file)
    result = CliRunner().invoke(app, ["plan", str(file), "--ignore-engine-limits", "-o", "json"])
    assert (result.exit_code, json.loads(result.stdout)["fits"]) == (0, True)
    assert "--ignore-engine-limits sets aside: the checkpoint is quantized by nobody" in result.stderr
