"""More of our quantization methods in real vLLM on a CPU: other checkpoints, adapters, two ranks, and the server."""

import json
import shutil
from pathlib import Path

import httpx
import pytest

from .test_quantization import BITS, DEMO, difference, load, smooth

__all__ = ["smooth"]  # a fixture
pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]
SHARDED = ("ifq", "ifq_nf4", "fp8", "smoothquant")
ANSWER = "Join one or more path segments intelligently."
QUESTION = [{"role": "user", "content": "What does os.path.join do?"}]
TWO = ("float16", "tp=2", "VLLM_CPU_OMP_THREADS_BIND=0|1", "GLOO_SOCKET_IFNAME=lo", "VLLM_HOST_IP=127.0.0.1")


@pytest.fixture(scope="module")
def found(engine, smooth, tiny, tmp_path_factory):
    """Every run of this module on one rank."""
    out = tmp_path_factory.mktemp("adapter")
    engine.python(
        "/repo/models/tiny/make.py", "/out", "lora", "--base", "/demo", mounts={out: "/out", DEMO: "/demo:ro"}
    )
    runs = {method: ("/model", method) for method in ("none", *SHARDED)}
    runs |= {f"{method} of float16": ("/model", method, "float16", "as=float16") for method in ("fp8", *BITS)}
    runs |= {
        f"{method} with an adapter": ("/model", method, "float16", "adapter=/lora") for method in ("none", *SHARDED)
    }
    runs |= {f"{method} in .bin": ("/tiny/bin", method) for method in ("fp8", *BITS)}
    runs |= {f"{method}, untied": ("/tiny/untied", method) for method in BITS}
    runs |= {
        f"{method}, head left": ("/tiny/untied", method, "float16", "VLLM_ALLOW_QUANT_LM_HEAD=0") for method in BITS
    }
    return load(engine, runs, {smooth[0]: "/model:ro", tiny: "/tiny:ro", out / "lora": "/lora:ro"}, 2200)[0]


@pytest.mark.parametrize("method", ["fp8", *BITS])
def test_a_float16_checkpoint_gives_the_same(found, method):
    """bfloat16 fits into float16 where the demo's weights lie, so that what is held is the same to the bit."""
    stored = found[f"{method} of float16"]
    assert stored["answer"] == found[method]["answer"]
    digests = [{name: layer["digest"] for name, layer in one["layers"].items()} for one in (stored, found[method])]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("method", SHARDED)
def test_an_adapter_on_top(found, method):
    """A LoRA adapter moves a quantized base as it moves the plain one."""
    plain, moved = found["none with an adapter"], found[f"{method} with an adapter"]
    assert difference(plain, found["none"]) > 3 * difference(plain, moved)


@pytest.mark.parametrize("method", BITS)
def test_an_untied_head_is_int8_and_can_be_left_alone(found, method):
    assert found[f"{method}, untied"]["layers"]["lm_head"]["bits"] == 8
    assert "lm_head" not in found[f"{method}, head left"]["layers"]
    assert "lm_head" not in found[method]["layers"]  # the demo model's head is tied


@pytest.mark.parametrize("method", ["fp8", *BITS])
def test_a_bin_checkpoint_is_quantized_as_well(found, method):
    assert len(found[f"{method} in .bin"]["tokens"]) == 3
    assert bool(found[f"{method} in .bin"]["layers"]) == (method in BITS)


@pytest.mark.parametrize("method", SHARDED)
def test_two_ranks_hold_what_one_holds(engine, smooth, found, method):
    """Each quantizes its own part, whose scales are those of the whole; the answer stays."""
    runs = {"both": ("/model", method, *TWO)}
    both = load(engine, runs, {smooth[0]: "/model:ro"})[0]["both"]
    assert len(both["ranks"]) == 2
    assert both["answer"].startswith(ANSWER)
    assert difference(both, found[method]) < 0.05
    for name, layer in both["layers"].items():
        whole = found[method]["layers"][name]
        across = name.endswith(("o_proj", "down_proj"))
        assert (layer["rows"], layer["columns"]) == (whole["rows"] // (2 - across), whole["columns"] // (1 + across))
        if not across:
            assert layer["scales"] == whole["scales"]  # of the first rows


@pytest.fixture(scope="module")
def served(engine, smooth, tmp_path_factory):
    """Start the command with a method and ask it over HTTP; the model directory and the one of kept weights."""
    model, kept = tmp_path_factory.mktemp("model"), tmp_path_factory.mktemp("kept")
    for file in (file for file in smooth[0].iterdir() if file.is_file()):
        Path(shutil.copy(file, model)).chmod(0o644)  # the server is no root
    model.chmod(0o755)
    kept.chmod(0o777)

    def answer(method):
        words = f"windlass run --model /models/demo --quantization {method} --max-model-len 256".split()
        body = {"model": "demo", "messages": QUESTION, "max_tokens": 24, "temperature": 0}
        with engine.serving(
            *words,
            "--served-model-name",
            "demo",
            mounts={model: "/models/demo:ro", kept: "/kept"},
            WINDLASS_QUANTIZED_CACHE="/kept",
        ) as url:
            reply = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=300).raise_for_status()
        return reply.json()["choices"][0]["message"]["content"]

    return answer, model, kept


@pytest.mark.parametrize("method", ["none", "fp8", "smoothquant", "auto"])
def test_the_server_answers_with_every_method(served, method):
    answer, _, kept = served
    assert answer(method).startswith(ANSWER)
    assert not [*kept.glob(f"*-{method}-*")]  # nothing of these is kept


@pytest.mark.parametrize("method", BITS)
def test_the_server_keeps_and_reads_and_notices(served, method):
    """First start, second start, a damaged file, a checkpoint that has changed: each answers the same."""
    answer, model, kept = served
    first = answer(method)
    assert first.startswith(ANSWER)
    (file,) = kept.glob(f"*-{method}-*.safetensors")
    record = file.with_suffix(".json")
    held, written = file.read_bytes(), record.stat().st_mtime_ns
    assert answer(method) == first
    assert record.stat().st_mtime_ns == written  # it was read, else it had been made again
    file.write_bytes(held[:-6] + b"damage")
    assert answer(method) == first
    assert file.read_bytes() == held
    config = model / "config.json"
    config.write_text(config.read_text() + " ")
    assert answer(method) == first
    assert json.loads(record.read_text())["source"]["files"]["config.json"][0] == config.stat().st_size
