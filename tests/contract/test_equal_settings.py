"""Operator → server: the settings by which a pod is planned are those that its server starts with.

Specs of fields, flags in every spelling and variables are made at random. Each row that the spec gives has the same
value on both sides, and a text that the plan cannot read is the sentence with which the server ends.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

from windlass.errors import UsageError
from windlass.launch.model import ModelFiles
from windlass.launch.resolve import RUN, settings_given
from windlass_api.crd.v1alpha1 import EngineSpec, LLMServiceSpec
from windlass_api.plan.args import server_args
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Plan
from windlass_api.plan.settings_table import settings_table
from windlass_api.plan.start import OVERRULED, start_of
from windlass_sizing.engine_flags import record
from windlass_sizing.model.facts import from_config
from windlass_sizing.settings.flags import FLAGS, Effect, Kind
from windlass_sizing.settings.in_force import Settings
from windlass_sizing.settings.setting import FLAG

FACTS = from_config({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632,
    "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072,
})  # fmt: skip
INVENTORY = Inventory((NodeGpus("a", "NVIDIA-L20", 44.99, 8, 8),))
FILES = ModelFiles("/data/model", "llama", 131072, attention_heads=16)
SPECS = 2000
LENGTH = "max-model-len"
TEXTS = {
    Kind.SWITCH: ("true", "false", "1", "0", "yes", "OFF", "maybe"),
    Kind.WHOLE: ("1", "2", "4", "08", "x"),
    Kind.LIMIT: ("-1", "7"),
    Kind.PORT: ("8000",),
    Kind.LENGTH: ("16k", "8192", "auto", "-1", "much"),
    Kind.FRACTION: ("0.5", "0.85", "1.5"),
    Kind.TEXT: ("auto", "/d"),
    Kind.NAMES: ("a,b",),
    Kind.ADAPTERS: ("sql=/d/sql",),
}
OF_ROW = {
    "dtype": ("bfloat16", "float16", "foo"), "quantization": ("fp8", "none"), "cpu-draft-bits": ("4", "3"),
    "worker-num": ("1", "2"), "prefix-offload-mib": ("2048", "1.5"), "max-num-batched-tokens": ("4096", "16384"),
}  # fmt: skip
WRITTEN = ("model", "served-model-name", "shutdown-timeout")  # by every plan, from fields that no variable overrules
DECIDED = (*OVERRULED, "cpu-draft-threads", "api-server-count", "prefix-offload-mib")
"""Rows that the plan chooses and writes as flags."""
ROWS = tuple(flag for flag in FLAGS if flag.effect is not Effect.MISSING and flag.name not in WRITTEN)
ENGINES_OWN = ("--kv-cache-dtype=fp8", "--kv_offloading_size=4", "--block-size=16", "--hf-overrides={}", "-dp=1")
DRAFT = {"source": {"pvc": {"claimName": "d"}}}
FIELDS: dict[str, tuple[object, ...]] = {
    "speculation": (DRAFT, {**DRAFT, "runsOn": "cpu"}, {**DRAFT, "runsOn": "gpu"}),
    "prefixOffload": ({"enabled": True}, {"enabled": True, "memory": "4Gi"}), "prefixCaching": (True, False),
    "lookahead": ({"enabled": True}, {"enabled": True, "speculativeTokens": 3}), "maxConcurrency": (16,),
    "schedulerSteps": (8,), "maxModelLen": (4096,), "tensorParallelSize": (2,), "workers": (2,), "dtype": ("bfloat16",),
    "gpuMemoryUtilizationPercent": (80,), "enforceEager": (True,), "maxNumSeqs": (8,), "quantization": ("fp8",),
    "pipelineParallelSize": (2,), "sequenceParallelSize": (2,), "maxNumBatchedTokens": (4096,), "seed": (7,),
    "kvCacheDtype": ("fp8",), "trustRemoteCode": (False,),
    "ignoreEngineLimits": (True,), "allowedMediaDomains": (["a.example"],),
}  # fmt: skip

VARIABLES = {"convTemplate", "memoryCache"}
"""Fields that reach the server as variables of the pod, by the operator's `manifests/environment.py`."""


def _texts(chance: random.Random, row: Any) -> str:
    return chance.choice(OF_ROW.get(row.name, TEXTS[row.kind]))


def _words(chance: random.Random) -> list[str]:
    words: list[str] = []
    for row in chance.sample(ROWS, chance.choice((0, 0, 1, 2, 3))):
        name = chance.choice((row.name, row.name.replace("-", "_"), *row.aliases))
        text = _texts(chance, row)
        ways = [[f"--{name}={text}"], [f"--{name}", text]]
        if row.kind is Kind.SWITCH:
            ways += [[f"--{name}"], [f"--no-{name}"]]
        words += chance.choice(ways)
    return words + chance.sample(ENGINES_OWN, chance.choice((0, 0, 0, 1, 2)))


def _spec(chance: random.Random) -> dict[str, Any]:
    named = [row for row in ROWS if row.variables]
    variables = {
        chance.choice(row.variables): _texts(chance, row) for row in chance.sample(named, chance.choice((0, 0, 1, 2)))
    }
    fields = chance.sample(sorted(FIELDS), chance.choice((0, 1, 2, 3)))
    return {
        "model": {"id": "m", "source": {"pvc": {"claimName": "c"}}},
        "engine": {name: chance.choice(FIELDS[name]) for name in fields},
        "command": ["run", *_words(chance)] if chance.random() < 0.2 else [],
        "args": _words(chance),
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": {"gpus": 0} if chance.random() < 0.1 else {},
    }


def _planned(number: int) -> tuple[LLMServiceSpec, Plan] | None:
    """The spec of a number with its plan; None where the plan or the CRD refuses it."""
    try:
        spec = LLMServiceSpec.model_validate(_spec(random.Random(number)))  # noqa: S311  chance makes specs, not secrets
    except ValueError:
        return None
    plan = decide(spec, FACTS, INVENTORY)
    return (spec, plan) if isinstance(plan, Plan) else None


PLANNED = tuple(found for number in range(SPECS) if (found := _planned(number)) is not None)


def _differences(spec: LLMServiceSpec, plan: Plan) -> list[str]:
    """The rows in which plan and server are not of one mind."""
    settings = start_of(spec).settings
    environment = {one.name: one.value or "" for one in spec.env}
    try:
        server = settings_given(server_args(spec, plan), environment, FILES, RUN)
    except UsageError as error:
        what = str(error).partition(" is ")[2]  # the server may name a flag where its variable is meant
        known = what in {one.partition(" is ")[2] for one in settings.problems} or "choose one of" in what
        return [] if known else [f"the server refuses: {error}"]
    if unread := [one for one in settings.problems if not one.startswith("variable ")]:
        return [f"the server takes it, and the plan has {unread[0]}"]  # a variable may be overruled by a planned flag
    given = {name: setting.value for name, setting in settings.rows.items() if settings.is_given(name)}
    if settings.source(LENGTH) != FLAG and not settings.whole(LENGTH):
        given.pop(LENGTH, None)  # a variable may leave the length to the engine, and the plan writes a number
    found = [f"{name} {value} {server.value(name)}" for name, value in given.items() if server.value(name) != value]
    alone = [name for name in server.rows if server.is_given(name) and name not in (*given, *WRITTEN, *DECIDED)]
    return [*found, *(f"{name} is the server's alone" for name in alone), *_engine_differences(spec, settings, server)]


def _engine_differences(spec: LLMServiceSpec, settings: Settings, server: Settings) -> list[str]:
    """The same of the counts that the plan reckons with, and of the engine's own words."""
    counts = ((name, settings.count(name), server.count(name)) for name in OVERRULED)
    found = [
        f"{name} {planned} {started}"
        for name, planned, started in counts
        if None not in (planned, started) and planned != started
    ]
    count = len(settings.engine_words)
    words = server.engine_words[len(server.engine_words) - count :]
    return found if tuple(map(record().in_full, words)) == settings.engine_words else [*found, f"words {words}"]


def test_plan_and_server_hold_equal_settings() -> None:
    """Over generated specs, of which the greater part is planned."""
    assert len(PLANNED) > SPECS / 2
    found = {str(spec): differing for spec, plan in PLANNED if (differing := _differences(spec, plan))}
    assert found == {}


def test_the_printed_settings_are_those_of_the_start() -> None:
    """Each row that the server is given, with its value; no other."""
    found = []
    for spec, plan in PLANNED:
        environment = {one.name: one.value or "" for one in spec.env}
        with suppress(UsageError):
            server = settings_given(server_args(spec, plan), environment, FILES, RUN)
            started = {name: setting.value for name, setting in server.rows.items() if server.is_given(name)}
            if (printed := {row.name: row.value for row in settings_table(spec, plan)}) != started:
                found.append((spec.args, spec.env, printed.items() ^ started.items()))
    assert found == []


def test_most_rows_and_fields_are_compared() -> None:
    """Else the test above tests nothing."""
    each = [start_of(spec).settings for spec, _ in PLANNED]
    readable = [settings for settings in each if not settings.problems]
    assert len(readable) > SPECS / 4
    assert {row.name for row in ROWS} <= {name for one in readable for name in one.rows if one.is_given(name)}
    assert any(one.problems for one in each)
    assert FIELDS.keys() | VARIABLES == {field.alias or name for name, field in EngineSpec.model_fields.items()}
