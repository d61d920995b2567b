"""The server's command line, and which settings are in force."""

from __future__ import annotations

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.args import container_command, engine_variables, server_args
from windlass_api.plan.model import Plan
from windlass_api.plan.start import start_of

PLAN = Plan(
    gpus=2, tp=2, pp=1, nodes=1, gpu_type="L20", max_model_len=8192, dtype="float16", quantization=None,
    gpu_memory_utilization_percent=90, enforce_eager=False, weights_gib=1, kv_gib=1, required_gib=2,
    seed_required_gib=2, cpu="1", memory="4Gi", shm="1Gi",
)  # fmt: skip
PLANNED = (
    "--model", "/data/model", "--served-model-name", "m", "--tensor-parallel-size", "2", "--max-model-len", "8192",
    "--dtype", "float16", "--gpu-memory-utilization", "0.90", "--shutdown-timeout", "60",
)  # fmt: skip


def a_spec(**parts) -> LLMServiceSpec:
    return LLMServiceSpec.model_validate({"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, **parts})


def plan(**changes) -> Plan:
    import dataclasses

    return dataclasses.replace(PLAN, **changes)


def test_the_plan_becomes_flags_and_the_users_own_come_last():
    """The last flag wins in the server."""
    assert server_args(a_spec(), PLAN) == PLANNED
    assert server_args(a_spec(command=["run", "--seed", "1"], args=["--dtype", "auto"]), PLAN) == (
        *PLANNED, "--seed", "1", "--dtype", "auto",
    )  # fmt: skip


def test_optional_flags_appear_when_they_say_something():
    """Quantization, eager mode, pipeline."""
    flags = server_args(a_spec(), plan(quantization="fp8", enforce_eager=True, pp=2))
    assert flags[len(PLANNED) :] == ("--pipeline-parallel-size", "2", "--quantization", "fp8", "--enforce-eager")


def test_a_long_context_is_read_in_the_steps_that_were_planned():
    """Unless the user says how long a step is, or that no prompt is split, or the CPU serves."""
    long, step = plan(max_model_len=32768), ("--max-num-batched-tokens", "8192")
    assert server_args(a_spec(), long)[len(PLANNED) :] == step
    assert server_args(a_spec(engine={"maxNumBatchedTokens": 16384}), long)[len(PLANNED) :] == (step[0], "16384")
    for words in (
        ["--no-enable-chunked-prefill"],
        ["--enable-chunked-prefill", "false"],
        ["--enable-chunked-prefill=0"],
    ):
        assert step[1] not in server_args(a_spec(args=words), long)
    assert server_args(a_spec(args=["--enable-chunked-prefill", "--seed", "1"]), long)[len(PLANNED) :][:2] == step
    assert step[0] not in server_args(a_spec(), plan(max_model_len=32768, gpus=0, tp=1))


def test_the_engine_section_becomes_flags():
    """What was not asked for is left to the server."""
    flags = server_args(
        a_spec(
            engine={
                "lookahead": {"enabled": True, "speculativeTokens": 4},
                "workers": 2,
                "maxConcurrency": 16,
                "maxNumSeqs": 8,
                "maxNumBatchedTokens": 4096,
                "prefixCaching": False,
                "kvCacheDtype": "fp8",
                "trustRemoteCode": False,
                "seed": 7,
            },
            deployment={"drainSeconds": 9},
        ),
        plan(workers=2),
    )
    assert flags == (
        *PLANNED[:-1], "9", "--worker-num", "2", "--limit-worker-concurrency", "16", "--max-num-seqs", "8",
        "--max-num-batched-tokens", "4096", "--kv-cache-dtype", "fp8", "--seed", "7", "--no-enable-prefix-caching",
        "--no-trust-remote-code", "--use-lookahead", "--num-speculative-tokens", "4",
    )  # fmt: skip


def test_hosts_of_media_and_a_prefix_become_flags():
    """Two lists of one word each: the server's own way to name several hosts."""
    spec = a_spec(engine={"allowedMediaDomains": ["a.example", "*.b.example"]}, expose={"path": "/qwen"})
    assert server_args(spec, PLAN)[len(PLANNED) :] == (
        *("--allowed-media-domains", "a.example,*.b.example"),
        *("--root-path", "/qwen"),
    )


def test_the_second_image_has_its_own_flags():
    """windlass-deepspeed knows no shares of memory."""
    command, args = container_command(
        a_spec(image={"family": "deepspeed"}, engine={"seed": 1, "maxConcurrency": 4, "maxNumSeqs": 2, "workers": 2}),
        plan(workers=2),
    )
    assert command == ("windlass-deepspeed",)
    assert args == (
        "run", "--model-path", "/data/model", "--num-gpus", "2", "--dtype", "float16",
        "--worker-num", "2", "--limit-worker-concurrency", "4", "--max-batch-size", "2", "--seed", "1",
    )  # fmt: skip


def test_deepspeed_gets_its_context_as_a_variable():
    """A pinned image of before `--max-model-len` refuses the flag, and passes over the variable."""
    spec = a_spec(image={"family": "deepspeed", "version": "0.1.0"})
    assert engine_variables(spec, PLAN) == (("MAX_MODEL_LEN", str(PLAN.max_model_len)),)
    assert "--max-model-len" not in server_args(spec, PLAN)


def test_a_command_of_the_users_own_stands_as_it_is():
    """`run` is ours; anything else replaces the whole command."""
    assert container_command(a_spec(), PLAN) == (("windlass",), ("run", *PLANNED))
    assert container_command(a_spec(command=["vllm", "serve"], args=["x"]), PLAN) == (("vllm", "serve"), ("x",))


def test_flags_win_over_variables_and_both_over_the_engine_section():
    """As the server itself reads them."""
    env = [
        {"name": "MAX_MODEL_LEN", "value": "4096"},
        {"name": "DTYPE", "value": "auto"},
        {"name": "OTHER", "value": "1"},
    ]
    spec = a_spec(
        engine={"maxModelLen": 1024, "enforceEager": False},
        env=env,
        command=["run", "--enforce-eager", "--gpu_memory_utilization=0.95"],
        args=["--dtype", "bfloat16", "-tp", "4", "-q=fp8"],
    )
    settings = start_of(spec).settings
    assert (settings.count("max-model-len"), settings.text("dtype"), settings.value("enforce-eager")) == (
        4096, "bfloat16", True,
    )  # fmt: skip
    assert (settings.percent("gpu-memory-utilization"), settings.count("tensor-parallel-size")) == (95, 4)
    assert settings.text("quantization") == "fp8"


def test_text_that_cannot_be_read_is_left_to_the_server():
    """It refuses with a sentence of its own; the plan goes by what it can read."""
    spec = a_spec(args=["--max-model-len", "many", "--dtype"])
    assert start_of(spec).settings.rows == start_of(a_spec()).settings.rows
