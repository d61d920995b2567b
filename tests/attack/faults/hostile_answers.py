"""What comes back to the operator and may be anything: messages of Jobs, statuses of pods, notes, served facts."""

from __future__ import annotations

import json
import math
from typing import Any

from hostile_specs import JUNK, WORDS
from hypothesis import strategies as st
from windlass_sizing.model.facts import from_config

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
    "max_position_embeddings": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
GOOD = from_config(CONFIG, weights_bytes=988_097_824).to_dict()
BIG = {**GOOD, "params": 72 * 10**9, "weights_bytes": 144 * 10**9, "num_hidden_layers": 80, "num_attention_heads": 64}
PACKED = {**GOOD, "quantization": "gptq", "quantization_bits": 4.0, "counted_bytes": 5 * 10**8}
NUMBERS = (0, -1, 1, True, 1.5, 2**31, 2**63, 10**30, 10**400, math.nan, math.inf, -math.inf, 1e308, "7", "x")
OTHERS: tuple[Any, ...] = (None, [], {}, [1], {"a": 1}, "", "\ud800", "\x00", "a" * 3000, "ünï", False)
DEEP = "[" * 100_000  # deeper than any parser's stack
TIMES = ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-22T00:00:00.5+14:00")
NO_TIMES = ("", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "NaN", "2026-13-45T99:99:99Z", "\x00")
TEXTS = st.sampled_from((
    "", "null", "[]", "{}", "NaN", '"', '{"ok": true', '{"ok": true}', '{"ok": true, "facts": null}',
    DEEP, "{" * 5000, "\x00", "9" * 5000, "é" * 4096,
    '{"ok": true, "facts": {}}', '{"ok": 1, "facts": {"a": 1}}', '{"ok": false}', '{"ok": false, "reason": "\\ud800"}',
    '{"ok": false, "reason": ["x"], "message": {"a": 1}}',
    '{"ok": false, "reason": "PathNotFound", "message": "\\udc00 \\u0000"}',
    '{"ok": false, "reason": "ConfigMissing", "message": 5}', json.dumps({"ok": False, "message": "x" * 100_000}),
    '{"reason": "LicenseRefused", "message": "a\\u0000b", "members": [1, "x", -5, 1e400], "excerpt": [1]}',
    "Traceback (most recent call last):\n  File x\nMemoryError",
    '{"ok": true, "download": {"bytesTotal": NaN}}',
    '{"ok": true, "download": {"bytesTotal": 1e400, "files": "x", "name": ["a"], "commit": 7}}',
))  # fmt: skip


@st.composite
def facts(draw: st.DrawFn) -> dict[str, Any]:
    """Facts of a model with some of them impossible."""
    whole = dict(draw(st.sampled_from((GOOD, BIG, PACKED))))
    for _ in range(draw(st.integers(1, 3))):
        name = draw(
            st.sampled_from(sorted({*GOOD, "window", "num_experts", "latent_kv_dim", "state_bytes", "full_kv_dim"}))
        )
        value = draw(st.sampled_from((*NUMBERS, *NUMBERS, *OTHERS)))
        whole[name] = value
        if draw(st.integers(0, 9)) == 0:
            del whole[name]
    return whole


def messages() -> st.SearchStrategy[str]:
    """The inspect Job's last message: facts that are true, impossible, or no facts at all."""
    good = st.sampled_from((GOOD, GOOD, BIG, PACKED)).map(lambda row: json.dumps({"ok": True, "facts": row}))
    bad = facts().map(lambda row: json.dumps({"ok": True, "facts": row}))
    return st.one_of(good, good, bad, bad, TEXTS)


def _times() -> st.SearchStrategy[str]:
    return st.sampled_from(TIMES)


def _ended() -> st.SearchStrategy[dict[str, Any]]:
    codes = st.sampled_from((0, 1, 2, 3, 4, 7, 100, 125, 126, 137, 255, 256, -1, 2**31 - 1, -(2**31)))
    reasons = st.sampled_from(("Error", "OOMKilled", "Completed", "StartError", "", "ünï", "x" * 300))
    times = st.fixed_dictionaries({}, optional={"startedAt": _times(), "finishedAt": _times()})
    more = {"exitCode": codes, "reason": reasons, "message": TEXTS | st.sampled_from(WORDS)}
    return st.builds(lambda one, two: {**one, **two}, st.fixed_dictionaries(more), times)


def _states() -> st.SearchStrategy[dict[str, Any]]:
    words = st.sampled_from(
        (
            "CrashLoopBackOff",
            "ErrImagePull",
            "ImagePullBackOff",
            "CreateContainerError",
            "ContainerCreating",
            "\x00",
            "",
        )
    )
    waits = st.fixed_dictionaries({"reason": words, "message": st.sampled_from(WORDS)})
    runs = st.fixed_dictionaries({}, optional={"startedAt": _times()})
    return st.one_of(
        waits.map(lambda row: {"waiting": row}), _ended().map(lambda row: {"terminated": row}),
        runs.map(lambda row: {"running": row}), st.just({}),
    )  # fmt: skip


def _containers() -> st.SearchStrategy[list[dict[str, Any]]]:
    row = st.fixed_dictionaries(
        {"name": st.sampled_from(("server", "server", "inspect", "x" * 63, "ünï", "")), "image": st.sampled_from(WORDS),
         "imageID": st.just(""), "ready": st.booleans(), "restartCount": st.sampled_from((0, 1, 3, 2**31 - 1)),
         "state": _states()},
        optional={"lastState": _states(), "started": st.booleans()},
    )  # fmt: skip
    return st.lists(row, max_size=3)


def pod_statuses() -> st.SearchStrategy[dict[str, Any]]:
    """A pod's status that the API server takes, whatever a kubelet would never say."""
    condition = st.fixed_dictionaries(
        {"type": st.sampled_from(("Ready", "PodScheduled", "DisruptionTarget", "Initialized", "x/y")),
         "status": st.sampled_from(("True", "False", "Unknown"))},
        optional={"reason": st.sampled_from(("Unschedulable", "SchedulerError", "PreemptionByScheduler", "x")),
                  "message": st.sampled_from((*WORDS, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")),
                  "lastTransitionTime": _times()},
    )  # fmt: skip
    return st.fixed_dictionaries(
        {"phase": st.sampled_from(("Pending", "Running", "Running", "Succeeded", "Failed", "Unknown"))},
        optional={
            "conditions": st.lists(condition, max_size=4, unique_by=lambda row: row["type"]),
            "containerStatuses": _containers(), "initContainerStatuses": _containers(), "startTime": _times(),
            "reason": st.sampled_from(("Evicted", "NodeLost", "OutOfcpu", "UnexpectedAdmissionError", "ünï", "")),
            "message": st.sampled_from(WORDS) | TEXTS,
        },
    )  # fmt: skip


def deployment_statuses() -> st.SearchStrategy[dict[str, Any]]:
    """A Deployment's status in numbers that do not go together."""
    number = st.sampled_from((0, 1, 2, 1000, 2**31 - 1))
    condition = st.fixed_dictionaries(
        {"type": st.sampled_from(("ReplicaFailure", "Progressing", "Available")),
         "status": st.sampled_from(("True", "False")),
         "reason": st.sampled_from(("FailedCreate", "ProgressDeadlineExceeded", "ünï")),
         "message": st.sampled_from(WORDS)}
    )  # fmt: skip
    conditions = st.lists(condition, max_size=2, unique_by=lambda row: row["type"])
    return st.builds(
        lambda seen, count, ready, rows: {
            "observedGeneration": seen, "replicas": count, "updatedReplicas": count, "readyReplicas": min(count, ready),
            "conditions": rows,
        }, st.integers(0, 3), number, number, conditions,
    )  # fmt: skip


def notes() -> st.SearchStrategy[dict[str, Any]]:
    """What someone wrote over the operator's own notes on the Job and the Service."""
    said = TEXTS.filter(lambda text: len(text) < 50_000) | facts().map(
        lambda row: json.dumps({"ok": True, "facts": row})
    )
    job = st.fixed_dictionaries(
        {"serving.windlass.dev/inspect-result": said},
        optional={"serving.windlass.dev/inspect-finished": st.sampled_from((*TIMES, *NO_TIMES))},
    )
    parts = st.sampled_from(
        ("gpus", "tp", "nodes", "cpu", "memory", "because", "weights_gib", "group", "max_model_len")
    )
    plans = st.dictionaries(parts, st.sampled_from((*NUMBERS, *OTHERS)), max_size=3)
    held = st.fixed_dictionaries({"reason": st.sampled_from(("EngineFailed", "x")), "count": st.sampled_from(NUMBERS),
                                  "exit_code": st.sampled_from(NUMBERS), "message": JUNK, "since": JUNK})  # fmt: skip
    service = st.fixed_dictionaries({}, optional={"plan": plans, "held": held, "text": said, "finding": job})
    both: dict[str, st.SearchStrategy[Any]] = {"job": job, "service": service}
    return st.fixed_dictionaries({}, optional=both)


SERVED: tuple[bytes, ...] = (
    b"", b"null", b"[]", b"{}", b'{"version": 1}', b'{"version": 1, "phase": "ready"}',
    b"[" * 60_000, b"{" * 3000, b"\xff\xfe",
    b'{"version": 1, "phases": [{"phase": "x", "seconds": 1e308}, {"phase": "y", "seconds": NaN}]}',
    b'{"version": 1, "phases": [{"phase": "x", "seconds": ' + b"9" * 400 + b"}]}",
    b'{"version": 1, "phases": [1, [], {"phase": {}}]}',
    b'{"version": 1, "phase": "\\ud800", "license": {"state": "granted", "message": "\\ud800"}}',
    b'{"version": 1, "license": {"state": "granted", "expires": "0001-01-01T00:00:00+14:00"}}',
    b'{"version": 1, "license": {"state": "granted", "expires": "9999-12-31T23:59:59-14:00"}}',
    b'{"version": 1, "license": {"state": "refused", "reason": "\\u0000", "message": "a\\u0000b"}}',
    b'{"version": 1, "engine": {"kvTokens": ' + b"9" * 4000 + b', "weightsGiB": 1e-320, "kvGiB": true}}',
    b'{"version": 1, "engine": {"kvTokens": true, "weightsGiB": NaN, "kvGiB": 1e308}}',
    b'{"version": 1e400, "phase": ["x"]}', b'{"version": 1, "phase": "' + b"x" * 60_000 + b'"}', b"x" * 10_000_000,
    b'{"version": 1, "phases": [' + b",".join(b'{"phase": "p%d", "seconds": 1}' % index for index in range(40)) + b"]}",
    b'{"version": 1, "download": {"bytesTotal": 1e308, "bytesDone": "x", "remainingSeconds": -1}}',
)  # fmt: skip
