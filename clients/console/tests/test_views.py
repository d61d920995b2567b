"""What pages show, as functions of values: rows, metrics, cards, changes, how to call."""

from __future__ import annotations

import json

import pytest
from windlass_client.values import service_of
from windlass_console.views.call import call_of
from windlass_console.views.capacity import capacity, usual_models
from windlass_console.views.change import edit, merge_patch
from windlass_console.views.metrics import BUCKETS_MAX, reduced
from windlass_console.views.row import row_of


def a_service(ready: str = "", reason: str = "", **spec: object):
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": "m", "lastTransitionTime": "t"}
    return service_of(
        {
            "metadata": {"name": "qwen", "namespace": "team-a"},
            "spec": {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, **spec},
            "status": {"conditions": [condition] if ready else [], "plan": {"gpus": 2, "tp": 2, "gpuType": "L20"}},
        }
    )


@pytest.mark.parametrize(
    ("service", "state"),
    [
        (a_service(), "wait"),
        (a_service("True", "Running"), "good"),
        (a_service("Unknown", "Running"), "wait"),
        (a_service("False", "Starting"), "wait"),
        (a_service("False", "CrashLoop"), "bad"),
        (a_service("False", "InsufficientGpus"), "bad"),
        (a_service("False", "Suspended", suspend=True), "off"),
        (a_service("False", "ScaledToZero", replicas=0), "off"),
    ],
    ids=["new", "serves", "unknown", "starts", "crashes", "no room", "suspended", "none wanted"],
)
def test_a_row_says_in_a_word_how_a_service_is(service, state):
    row = row_of(service)
    assert (row["state"], row["gpus"], row["gpuType"], row["pp"]) == (state, 2, "L20", None)


def test_metrics_of_an_engine_that_has_few():
    """Null for what it does not have; a bucket without a number, a line that is none and NaN are passed over."""
    text = "vllm:num_requests_running NaN\nvllm:kv_cache_usage_perc 7\nnonsense\nx{le=} y\n"
    text += 'vllm:time_to_first_token_seconds_bucket{le="x"} 1\n'
    found = reduced(text)
    assert (found["running"], found["kvUse"], found["ttftBuckets"], found["accepted"]) == (None, 1.0, None, None)


def test_only_samples_of_the_engines_are_read():
    """Not a line of another program, nor what follows a separator of Unicode's inside a line."""
    text = "python_gc 1\n# vllm:num_requests_running 7\nx\u2028vllm:num_requests_running 5\nvllm:num_requests_running 2"
    assert reduced(text)["running"] == 2


def test_metrics_of_a_hostile_pod_stay_small():
    rows = "".join(f'vllm:time_to_first_token_seconds_bucket{{le="{n}"}} 1\n' for n in range(10_000))
    assert len(reduced(rows)["ttftBuckets"] or ()) == BUCKETS_MAX


def a_node(name: str, cards: int = 8, **spec: object) -> dict[str, object]:
    labels = {"nvidia.com/gpu.product": "NVIDIA-L20", "nvidia.com/gpu.memory": "46068"}
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"nvidia.com/gpu": str(cards), "cpu": "64", "memory": "512Gi"},
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def a_pod(name: str, node: str, gpus: int, service: str = "") -> dict[str, object]:
    labels = {"serving.windlass.dev/service": service} if service else {}
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "metadata": {"name": name, "namespace": "team-a", "labels": labels},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


def test_who_holds_which_cards():
    """A cordoned node is shown with its cards and counts for no free ones."""
    nodes = [a_node("n2", unschedulable=True), a_node("n1"), {"metadata": {"name": "cpu"}, "status": {}}]
    pods = [a_pod("a", "n1", 2, "qwen"), a_pod("b", "n1", 1), a_pod("c", "n2", 8)]
    found = capacity(nodes, pods)
    first, second = found["nodes"]
    assert (first["name"], first["memoryGiB"], first["cards"][0]["free"]) == ("n1", 512.0, 5)
    assert [(one["service"], one["pod"], one["gpus"]) for one in first["cards"][0]["holders"]] == [
        ("qwen", "a", 2),
        ("", "b", 1),
    ]
    assert (second["why"], second["cards"][0]["free"]) == ("it is cordoned", 0)
    (product,) = found["products"]
    assert (product["product"], product["allocatable"], product["free"], product["largestFree"]) == (
        "NVIDIA-L20",
        8,
        5,
        5,
    )


def test_what_would_fit_on_what_is_free():
    """The operator's own decision: all sizes on eight cards, none on none, fewer on one."""
    whole = capacity([a_node("n1")], [])["fits"]
    assert [one["model"] for one in whole if one["fits"]] == [name for name, _ in usual_models()]
    one = capacity([a_node("n1")], [a_pod("a", "n1", 7)])["fits"]
    assert [row["model"] for row in one if row["fits"]] == ["Qwen2.5-0.5B", "Qwen2.5-7B", "Qwen2.5-14B"]
    none = capacity([a_node("n1")], [a_pod("a", "n1", 8)])["fits"]
    assert not any(row["fits"] for row in none)
    assert all(row["message"] for row in none)


def test_without_the_right_to_list_pods_every_card_counts_as_free():
    found = capacity([a_node("n1")], None)
    assert (found["holdersKnown"], found["products"][0]["free"]) == (False, 8)


def test_the_usual_models_are_of_their_sizes():
    assert [facts.params_text for _, facts in usual_models()] == ["0.49 B", "7.62 B", "14.77 B", "32.76 B", "72.71 B"]


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": None}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
        ({"a": {"b": 1}}, {"a": 1}, {"a": 1}),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": 1}, {"a": True}, {"a": True}),
    ],
    ids=str,
)
def test_a_merge_patch_makes_one_document_of_the_other(old, new, change):
    assert json.dumps(merge_patch(old, new), sort_keys=True) == json.dumps(change, sort_keys=True)


def test_an_edit_leaves_what_the_document_does_not_have():
    stored = {"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}, "spec": {"x": 1}}
    assert edit(stored, {"spec": {"x": 2}}) == {"spec": {"x": 2}}
    wanted = {"metadata": {"labels": {}, "uid": "u"}, "spec": {"x": 1}}
    assert edit(stored, wanted) == {"spec": {}, "metadata": {"labels": {"a": None}}}


def test_how_to_call_a_service_with_and_without_keys():
    open_ = call_of(a_service("True", "Running"))
    assert open_["addresses"] == [{"name": "cluster", "url": "http://qwen.team-a.svc:8501/v1"}]
    assert ("Authorization" in open_["curl"], open_["keyed"]) == (False, False)
    keyed = call_of(a_service(expose={"apiKeysSecretRef": {"name": "keys"}}))
    assert 'api_key=os.environ["API_KEY"]' in keyed["python"]
    compile(keyed["python"], "shown", "exec")
    assert dict(keyed["dify"])["API endpoint URL"] == "http://qwen.team-a.svc:8501/v1"
