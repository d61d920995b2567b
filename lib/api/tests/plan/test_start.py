"""The settings in force: how the text of a flag or a variable is read, and what cannot be read."""

from __future__ import annotations

import pytest
from windlass_api.plan.args import server_args
from windlass_api.plan.start import Start, start_of

from .test_decide import a_spec, planned, refused

MIB = "--prefix-offload-mib"
OFFLOADED = ["--enable-prefix-cache-offload", MIB, "10240"]


def in_force(**parts: object) -> Start:
    return start_of(a_spec(**parts))


def variable(name: str, value: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value}]


@pytest.mark.parametrize(("text", "tokens"), [("32K", 32768), ("32k", 32000), ("32768", 32768)])
def test_a_context_may_have_a_unit(text, tokens):
    """In the flag and in the variable; the plan is that of the whole number."""
    by_flag, by_variable = planned(args=["--max-model-len", text]), planned(env=variable("MAX_MODEL_LEN", text))
    assert by_flag.max_model_len == by_variable.max_model_len == tokens
    assert by_flag.per_gpu_gib == planned(engine={"maxModelLen": tokens}).per_gpu_gib


@pytest.mark.parametrize("text", ["auto", "-1", "0", "many"])
def test_a_context_that_is_no_number_is_left_out(text):
    """The engine chooses what fits, or the server refuses the word."""
    assert planned(args=["--max-model-len", text]).max_model_len == 8192
    assert in_force(args=["--max-model-len", text], engine={"maxModelLen": 512}).max_model_len == 512


@pytest.mark.parametrize("text", ["0", "0.001", "inf", "nan", "-0.5", "1.5", "most"])
def test_a_share_that_no_gpu_has_is_left_out(text):
    """The server refuses it; the planner divides by no zero."""
    plain = planned()
    for more in ({"args": ["--gpu-memory-utilization", text]}, {"env": variable("GPU_MEMORY_UTILIZATION", text)}):
        plan = planned(**more)
        assert (plan.gpu_memory_utilization_percent, plan.per_gpu_gib) == (90, plain.per_gpu_gib)
    assert planned(args=["--gpu-memory-utilization", "1"]).gpu_memory_utilization_percent == 100


@pytest.mark.parametrize(
    ("words", "split"), [(["--tp", "2"], (2, 1)), (["--pp=2"], (1, 2)), (["--tp", "2", "--pp", "2"], (2, 2))]
)
def test_the_short_names_of_a_split_count(words, split):
    """The server takes them with two dashes, too."""
    plan = planned(args=words)
    assert (plan.tp, plan.pp) == split


@pytest.mark.parametrize(
    ("field", "more", "workers"),
    [
        (4, {"env": variable("WORKER_NUM", "2")}, 2),
        (4, {"env": variable("WORKER_NUM", "1")}, 1),
        (1, {"env": variable("WORKER_NUM", "2")}, 2),
        (4, {"args": ["--worker-num", "2"]}, 2),
        (2, {}, 2),
    ],
)
def test_as_many_engines_are_started_as_planned(field, more, workers):
    """A flag made of the field would win over the variable that decided."""
    spec = {"engine": {"workers": field}, **more}
    plan = planned(**spec)
    assert (plan.gpus, plan.workers) == (workers, workers)
    words = server_args(a_spec(**spec), plan)
    said = {words[at + 1] for at, word in enumerate(words) if word == "--worker-num"}
    assert said == ({str(workers)} if workers > 1 else set())


def test_deepspeed_starts_as_many_as_planned():
    """By its own flags."""
    spec = {"engine": {"workers": 4}, "env": variable("WORKER_NUM", "2"), "image": {"family": "deepspeed"}}
    words = server_args(a_spec(**spec), planned(**spec))
    assert words[words.index("--worker-num") + 1] == "2"


def test_limits_that_a_variable_keeps_are_not_ignored():
    """The flag of the field would win over it."""
    spec = {"engine": {"ignoreEngineLimits": True}, "env": variable("IGNORE_ENGINE_LIMITS", "false")}
    assert "--ignore-engine-limits" not in server_args(a_spec(**spec), planned(**spec))
    del spec["env"]
    assert "--ignore-engine-limits" in server_args(a_spec(**spec), planned(**spec))


def test_the_engines_in_force_share_the_offloaded_prefixes():
    """All engines of a pod share the size, however their number is said."""
    field = planned(engine={"workers": 2}, args=OFFLOADED)
    flag = planned(args=["--worker-num", "2", *OFFLOADED])
    fewer = planned(engine={"workers": 4}, args=["--worker-num", "1", *OFFLOADED])
    assert (flag.shm, flag.memory) == (field.shm, field.memory)
    assert fewer.shm == planned(args=OFFLOADED).shm


@pytest.mark.parametrize(
    "more",
    [
        {"args": ["--hf-overrides", "{}"]}, {"args": ["--hf_overrides={}"]}, {"args": ["--hf-over", "{}"]},
        {"args": ["--hf-overrides.rope_parameters.factor", "4"]},
        {"env": variable("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")},
    ],
)  # fmt: skip
def test_a_context_may_be_stretched(more):
    """As the server takes it; a checkpoint's own length counts else."""
    long = {"engine": {"maxModelLen": 200_000}}
    assert planned(**long, **more).max_model_len == 200_000
    assert refused(**long).reason == "ContextTooLong"
    assert refused(**long, env=variable("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0")).reason == "ContextTooLong"
    assert refused(**long, image={"family": "deepspeed"}, **more).reason == "ContextTooLong"


def test_beside_a_context_that_the_engine_chooses_the_variables_is_planned():
    """The plan needs a number, and the variable has one."""
    more = {"args": ["--max-model-len", "auto"], "env": variable("MAX_MODEL_LEN", "4K")}
    assert (planned(**more).max_model_len, in_force(**more).max_model_len) == (4096, 4096)


def test_a_beginning_of_several_flags_is_none():
    """The server refuses it, and names them; the plan does not guess."""
    assert in_force(args=["--max-num", "7"]).settings.rows == in_force().settings.rows


def test_deepspeeds_flags_are_its_own():
    """vLLM's record says nothing of them."""
    assert in_force(args=["--max-mod", "512"], image={"family": "deepspeed"}).max_model_len is None
    assert in_force(args=["--max-mod", "512"]).max_model_len == 512


def test_text_that_the_server_refuses_counts_no_layer():
    """The next one is planned; the server's sentences are kept with the settings."""
    spec = a_spec(args=["--tp", "two"], env=variable("TP", "4"))
    sentence = "which is no whole number; write it as digits, as 2"
    assert start_of(spec).settings.problems == (f'--tensor-parallel-size is "two", {sentence}',)
    assert in_force(args=["--tp", "two"], env=variable("TP", "4")).settings.count("tensor-parallel-size") == 4


def test_a_list_of_adapters_too_deep_to_read_ends_no_plan():
    """The server refuses it, as any text that is no list of adapters."""
    assert (
        planned(args=["--lora-modules", "[" * 9000]) == planned(env=variable("LORA_MODULES", "[" * 9000)) == planned()
    )
