"""One service's life on a real cluster: refused a license, licensed, serving, scaled, edited, orphaned, deleted."""

import json
import time
import urllib.request

import openai
import pytest
from windlass_testbed.forward import forward

NAME = "chat"
OTHER_GPUS = "GPU 0: NVIDIA L20 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
PROMPTS = ["def add(a, b):", "The capital of France is", "import os\nos.path.join("]
JOIN = (
    "Join one or more path segments intelligently. The return value is the concatenation of path and all members of "
    "*paths, with exactly one directory separator following each non-empty part, except the last."
)
OWNED_KINDS = "deployments,replicasets,pods,services,endpoints,endpointslices,jobs,configmaps,secrets"

# Run in the server's own image, beside the service: vLLM's offline interface with the service's settings.
OFFLINE = """
import json, sys
from vllm import LLM, SamplingParams
if __name__ == "__main__":
    prompts, dtype, length = json.loads(sys.argv[1])
    llm = LLM("/data/model", dtype=dtype, max_model_len=length, trust_remote_code=True, enforce_eager=True)
    done = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=24))
    print("RESULT" + json.dumps([list(row.outputs[0].token_ids) for row in done]))
"""


@pytest.fixture(scope="module")
def service(bed, namespace):
    """The service is applied while the license in force names other GPUs."""
    bed.license(OTHER_GPUS)
    bed.apply(namespace, NAME)
    return NAME


@pytest.fixture(scope="module")
def gpus(bed):
    from windlass_testbed import cluster

    return cluster.gpu_list(bed.paths)


def counter(url, name):
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))


def complete(client, prompt):
    found = client.completions.create(
        model="demo", prompt=prompt, max_tokens=24, temperature=0, extra_body={"return_token_ids": True}
    )
    return found.choices[0].token_ids, found.usage.completion_tokens


def test_without_a_license_the_reason_names_the_gpu(bed, namespace, service, gpus):
    ready = bed.reason(namespace, service, "Unlicensed", timeout_s=120)
    given = [line for line in gpus.splitlines() if line.split("UUID: ")[1].rstrip(")") in ready["message"]]
    assert ready["status"] == "False"
    assert given, ready["message"]
    assert bed.condition(namespace, service, "Licensed")["status"] == "False"


def test_the_plan_stood_before_any_gpu_was_taken(bed, namespace, service):
    plan = bed.get(namespace, "llm", service)["status"]["plan"]
    planned = bed.condition(namespace, service, "Planned")["lastTransitionTime"]
    pod = bed.items(namespace, "pods", "-l", "app.kubernetes.io/component=server")[0]
    assert plan["gpus"] == 1
    assert planned <= pod["metadata"]["creationTimestamp"]


def test_the_right_license_heals_the_service_without_touching_it(bed, namespace, service, gpus):
    bed.license(gpus)
    bed.ready(namespace, service)
    restarts = [
        status["restartCount"]
        for pod in bed.items(namespace, "pods", "-l", "app.kubernetes.io/component=server")
        for status in pod["status"]["containerStatuses"]
    ]
    assert restarts == [0]


def test_the_columns_tell_the_service_at_a_glance(bed, namespace, service):
    table = bed.kubectl("-n", namespace, "get", "llm").splitlines()
    assert table[0].split() == ["NAME", "MODEL", "READY", "STATUS", "GPUS", "TP", "AGE"]
    assert table[1].split()[:5] == [service, "demo", "1/1", "Running", "1"]


def test_an_openai_client_streams_an_answer(bed, namespace, service):
    with forward(bed.paths, namespace, f"svc/{service}", 8501) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=120)
        question = [{"role": "user", "content": "What does os.path.join do?"}]
        stream = client.chat.completions.create(
            model="demo", messages=question, max_tokens=80, temperature=0, stream=True
        )
        pieces = [
            chunk.choices[0].delta.content for chunk in stream if chunk.choices and chunk.choices[0].delta.content
        ]
        client.close()
    assert len(pieces) > 1
    assert "".join(pieces) == JOIN


def test_a_pod_of_the_cluster_reaches_the_service_by_name(bed, namespace, service):
    script = (
        "import urllib.request as u;"
        f"print(u.urlopen('http://{service}.{namespace}.svc.cluster.local:8501/v1/models', timeout=20).read().decode())"
    )
    answer = bed.kubectl("-n", namespace, "exec", f"deploy/{service}", "--", "python3", "-c", script)
    assert json.loads(answer)["data"][0]["id"] == "demo"


def test_the_answer_is_the_models_own(bed, namespace, service):
    """Greedy tokens through the Service equal vLLM's offline ones, and the engine counted just these tokens."""
    with forward(bed.paths, namespace, f"svc/{service}", 8501) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=120)
        before = counter(url, "vllm:generation_tokens_total")
        served = [complete(client, prompt) for prompt in PROMPTS]
        grown = counter(url, "vllm:generation_tokens_total") - before
        client.close()
    assert grown == sum(usage for _, usage in served)
    assert [tokens for tokens, _ in served] == offline(bed, namespace, service)


def offline(bed, namespace, service):
    plan = bed.get(namespace, "llm", service)["status"]["plan"]
    pod = bed.items(namespace, "pods", "-l", "app.kubernetes.io/component=server")[0]
    spec = pod["spec"]
    container = spec["containers"][0]
    arguments = json.dumps([PROMPTS, plan["dtype"], plan["maxModelLen"]])
    container = {
        "name": "offline",
        "image": container["image"],
        "command": ["python3", "-c", OFFLINE, arguments],
        "env": [{"name": "HOME", "value": "/cache"}, {"name": "VLLM_ENABLE_V1_MULTIPROCESSING", "value": "0"}],
        "volumeMounts": [m for m in container["volumeMounts"] if "serviceaccount" not in m["mountPath"]],
        "securityContext": container["securityContext"],
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "offline"},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": spec["securityContext"],
            "volumes": [v for v in spec["volumes"] if "projected" not in v],
            "containers": [container],
        },
    }
    bed.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(body))
    deadline = time.monotonic() + 300
    while (phase := bed.get(namespace, "pod", "offline")["status"]["phase"]) not in {"Succeeded", "Failed"}:
        assert time.monotonic() < deadline, f"the offline run is still {phase}"
        time.sleep(1)
    log = bed.kubectl("-n", namespace, "logs", "offline")
    bed.kubectl("-n", namespace, "delete", "pod", "offline")
    line = next((line for line in log.splitlines() if line.startswith("RESULT")), None)
    assert line, log[-3000:]
    return json.loads(line.removeprefix("RESULT"))


def test_an_edit_of_an_owned_deployment_is_healed_and_foreign_fields_are_kept(bed, namespace, service):
    def args():
        return bed.get(namespace, "deployment", service)["spec"]["template"]["spec"]["containers"][0]["args"]

    wanted = args()
    edit = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--enforce-eager"}]
    bed.kubectl("-n", namespace, "annotate", "deployment", service, "someone/else=kept")
    bed.kubectl("-n", namespace, "patch", "deployment", service, "--type=json", "-p", json.dumps(edit))
    heals(bed, namespace, service, lambda found: args() == wanted, "deployment")
    assert bed.get(namespace, "deployment", service)["metadata"]["annotations"]["someone/else"] == "kept"
    edit = [{"op": "replace", "path": "/spec/ports/0/port", "value": 9999}]
    bed.kubectl("-n", namespace, "patch", "service", service, "--type=json", "-p", json.dumps(edit))
    heals(bed, namespace, service, lambda found: found["spec"]["ports"][0]["port"] == 8501, "service")
    bed.ready(namespace, service)


def heals(bed, namespace, name, healed, kind, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while not healed(bed.get(namespace, kind, name)):
        assert time.monotonic() < deadline, f"{kind} {name} was not healed in {timeout_s} s"
        time.sleep(0.5)


def test_the_operator_killed_comes_back_and_heals_what_was_done_meanwhile(bed, namespace, service):
    bed.kubectl("-n", "windlass-system", "scale", "deployment", "--all", "--replicas=0")
    bed.kubectl("-n", "windlass-system", "wait", "--for=delete", "pod", "--all", "--timeout=60s")
    bed.kubectl("-n", namespace, "delete", "service", service)
    bed.kubectl("-n", "windlass-system", "scale", "deployment", "--all", "--replicas=1")
    deadline = time.monotonic() + 60
    while service not in bed.kubectl("-n", namespace, "get", "services", "-o", "name"):
        assert time.monotonic() < deadline, "the Service did not come back"
        time.sleep(0.5)
    bed.ready(namespace, service)


def test_kubectl_scale_makes_a_second_replica(bed, namespace, service):
    bed.kubectl("-n", namespace, "scale", "llm", service, "--replicas=2")
    deadline = time.monotonic() + 300
    while bed.get(namespace, "llm", service)["status"].get("readyReplicas") != 2:
        assert time.monotonic() < deadline, bed.kubectl("-n", namespace, "describe", "llm", service)
        time.sleep(1)
    assert "2/2" in bed.kubectl("-n", namespace, "get", "llm", service)


def test_deleting_the_service_leaves_nothing(bed, namespace, service):
    uid = bed.get(namespace, "llm", service)["metadata"]["uid"]
    bed.kubectl("-n", namespace, "delete", "llm", "--all", "--timeout=30s")
    deadline = time.monotonic() + 120
    while left := left_over(bed, namespace, service, uid):
        assert time.monotonic() < deadline, left
        time.sleep(1)


def left_over(bed, namespace, service, uid):
    found = bed.items(namespace, OWNED_KINDS)
    return [
        f"{item['kind']}/{item['metadata']['name']}"
        for item in found
        if item["metadata"].get("labels", {}).get("serving.windlass.dev/service") == service
        or any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", []))
        or item["metadata"]["name"].startswith(f"{service}-")
    ]
