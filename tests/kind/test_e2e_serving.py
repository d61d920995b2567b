"""One service's life on a real cluster: downloaded, refused a license, licensed, serving, scaled, edited, orphaned,
deleted."""

import filecmp
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import openai
import pytest
from windlass_testbed import cluster, deploy
from windlass_testbed.forward import forward

sys.path.insert(0, str(Path(__file__).parent))

import hub_pod
from strangers import Asker

NAME = "chat"
ENDED = ("Succeeded", "Failed")
FILLED = "filled-by-a-download"
QUESTION = "What does os.path.join do?"
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
    """Applied while the license in force names other GPUs; its model is still on a hub."""
    bed.license(OTHER_GPUS)
    hub_pod.start(bed.paths, namespace, bed.images["operator"])
    hub_pod.target(bed.paths, FILLED)
    download = {"hub": "huggingface", "name": hub_pod.MODEL, "endpoint": hub_pod.endpoint(namespace)}
    source = {"pvc": {"claimName": "models", "path": f"{FILLED}/demo"}}
    bed.apply(namespace, NAME, model={"id": "demo", "source": source, "download": download})
    return NAME


@pytest.fixture(scope="module")
def gpus(bed):
    return cluster.gpu_list(bed.paths)


def counter(url, name):
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))


def complete(client, prompt):
    found = client.completions.create(
        model="demo", prompt=prompt, max_tokens=24, temperature=0, extra_body={"return_token_ids": True}
    )
    return found.choices[0].token_ids, found.usage.completion_tokens


def test_a_job_fetches_the_model_and_the_status_counts_its_bytes(bed, namespace, service):
    """Behind rules that refuse every way out; nobody sees the directory before the model is whole."""
    ours = cluster.models_folder(bed.paths) / deploy.MODEL
    there = cluster.models_folder(bed.paths) / FILLED / "demo"
    whole = sum((ours / name).stat().st_size for name in deploy.MODEL_FILES)
    seen, halves = [], []

    def fetched():
        early = there.exists()
        status = bed.get(namespace, "llm", service).get("status", {})
        reason = next((row["reason"] for row in status.get("conditions", ()) if row["type"] == "Ready"), "")
        seen.append((reason, status.get("download", {}).get("bytesDone", 0)))
        halves.extend(
            deploy.MODEL_FILES if early and not all((there / one).exists() for one in deploy.MODEL_FILES) else ()
        )
        return seen[-1][1] == whole

    bed.wait("the model", fetched)
    assert [count for reason, count in seen if reason == "Downloading" and 0 < count < whole], seen
    assert halves == []
    assert filecmp.cmpfiles(ours, there, deploy.MODEL_FILES, shallow=False)[0] == list(deploy.MODEL_FILES)


def test_without_a_license_the_reason_names_the_gpu(bed, namespace, service, gpus):
    ready = bed.reason(namespace, service, "Unlicensed")
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
    assert table[0].split() == ["NAME", "MODEL", "READY", "UP-TO-DATE", "STATUS", "GPUS", "TP", "AGE"]
    assert table[1].split()[:6] == [service, "demo", "1/1", "1", "Running", "1"]


def test_the_plan_shows_what_the_engine_measured(bed, namespace, service):
    """On the CPU the engine tells its KV cache alone."""
    (pod,) = bed.items(namespace, "pods", "-l", "app.kubernetes.io/component=server")
    seen = bed.get(namespace, "llm", service)["status"]["plan"]["measured"]
    said = re.search(r"KV cache size: ([\d,]+) tokens", bed.kubectl("-n", namespace, "logs", pod["metadata"]["name"]))
    assert (seen["pod"], seen["kvTokens"]) == (pod["metadata"]["name"], int(said[1].replace(",", "")))
    assert float(seen["kvCacheGib"]) > 0


def windlass(bed, namespace, *words, behind=()):
    """`kubectl windlass …`, as a user with our environment on the PATH has it."""
    ways = os.pathsep.join([str(bed.paths.bin), str(Path(sys.executable).parent), os.environ["PATH"]])
    where = ["--kubeconfig", bed.paths.kubeconfig, "--namespace", namespace]
    done = subprocess.run(
        [bed.paths.bin / "kubectl", "windlass", *words, *where, *behind],
        env={**os.environ, "PATH": ways}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_kubectl_windlass_prints_what_the_pod_wrote(bed, namespace, service):
    """The kubelet's own log, and its last lines alone."""
    whole = bed.kubectl("-n", namespace, "logs", f"deploy/{service}").splitlines()
    said = windlass(bed, namespace, "logs", service).stdout.splitlines()
    assert len(whole) > 10
    assert said[: len(whole)] == whole
    assert len(windlass(bed, namespace, "logs", service, "--tail=3").stdout.splitlines()) == 3


def test_kubectl_windlass_chats_through_a_forwarded_port(bed, namespace, service):
    """As text, and for programs."""
    words = ("chat", service, QUESTION, "--temperature=0", "--max-tokens=80")
    said = windlass(bed, namespace, *words)
    assert said.stdout.strip() == JOIN
    assert "tokens, first after" in said.stderr
    told = json.loads(windlass(bed, namespace, *words, "-o", "json").stdout)
    assert (told["text"], told["finishReason"]) == (JOIN, "stop")
    assert told["completionTokens"] > 10


def test_kubectl_windlass_benches_by_a_job_that_goes(bed, namespace, service, tmp_path):
    """Behind rules that refuse every way out of the cluster; the folder is whole, and no pod of it is left."""
    load = ("--", "--concurrency", "1,3", "--num-prompts", "6", "--input-len", "24", "--output-len", "8")
    out = tmp_path / "out"
    words = ("bench", service, "-o", "json", "--cpu", "100m", "--out", str(out))
    found = json.loads(windlass(bed, namespace, *words, behind=load).stdout)
    assert [(row["Maximum concurrency"], row["Successful requests"]) for row in found["runs"]] == [
        ("1", "6"),
        ("3", "6"),
    ]
    result = json.loads((out / "02-concurrency-3/result.json").read_text())
    assert (result["completed"], result["total_output_tokens"]) == (6, 48)
    assert (out / "report.html").read_text().count("<circle") == 12
    bed.wait(
        "the Job's end", lambda: not bed.items(namespace, "jobs,pods", "-l", "app.kubernetes.io/name=windlass-bench")
    )


def test_an_openai_client_streams_an_answer(bed, namespace, service):
    with forward(bed.paths, namespace, f"svc/{service}", 8501) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=120)
        question = [{"role": "user", "content": QUESTION}]
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
        f"print(u.urlopen('http://{service}.{namespace}.svc.cluster.local:8501/v1/models', timeout=60).read().decode())"
    )
    answer = bed.kubectl("-n", namespace, "exec", f"deploy/{service}", "--", "python3", "-c", script)
    assert json.loads(answer)["data"][0]["id"] == "demo"


def test_a_pod_that_serves_alone_listens_for_its_declared_ports_only(bed, namespace, service):
    """No policy is needed for it: what the engine's processes say to each other stays on loopback."""
    pod = bed.items(namespace, "pods", "-l", "app.kubernetes.io/component=server")[0]["metadata"]["name"]
    assert {8501, 8502} == Asker(bed.paths, namespace, pod).listening()


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
    volumes = [volume for volume in spec["volumes"] if "projected" not in volume]  # tokens of the service's pod
    kept = {volume["name"] for volume in volumes}
    arguments = json.dumps([PROMPTS, plan["dtype"], plan["maxModelLen"]])
    container = {
        "name": "offline",
        "image": container["image"],
        "command": ["python3", "-c", OFFLINE, arguments],
        "env": [{"name": "HOME", "value": "/cache"}, {"name": "VLLM_ENABLE_V1_MULTIPROCESSING", "value": "0"}],
        "volumeMounts": [mount for mount in container["volumeMounts"] if mount["name"] in kept],
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
            "volumes": volumes,
            "containers": [container],
        },
    }
    bed.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(body))
    bed.wait("the offline run", lambda: bed.get(namespace, "pod", "offline")["status"]["phase"] in ENDED)
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


def heals(bed, namespace, name, healed, kind):
    bed.wait(f"the healing of {kind} {name}", lambda: healed(bed.get(namespace, kind, name)))


def test_the_operator_killed_comes_back_and_heals_what_was_done_meanwhile(bed, namespace, service):
    bed.kubectl("-n", "windlass-system", "scale", "deployment", "--all", "--replicas=0")
    bed.kubectl("-n", "windlass-system", "wait", "--for=delete", "pod", "--all", "--timeout=600s")
    bed.kubectl("-n", namespace, "delete", "service", service)
    bed.kubectl("-n", "windlass-system", "scale", "deployment", "--all", "--replicas=1")
    bed.wait("the Service", lambda: service in bed.kubectl("-n", namespace, "get", "services", "-o", "name"))
    bed.ready(namespace, service)


def test_kubectl_scale_makes_a_second_replica(bed, namespace, service):
    bed.kubectl("-n", namespace, "scale", "llm", service, "--replicas=2")
    bed.wait("two replicas", lambda: bed.get(namespace, "llm", service)["status"].get("readyReplicas") == 2)
    assert "2/2" in bed.kubectl("-n", namespace, "get", "llm", service)


def test_deleting_the_service_leaves_nothing(bed, namespace, service):
    uid = bed.get(namespace, "llm", service)["metadata"]["uid"]
    bed.kubectl("-n", namespace, "delete", "llm", "--all", "--timeout=600s")
    bed.wait("the end of all that it owned", lambda: not left_over(bed, namespace, service, uid))


def left_over(bed, namespace, service, uid):
    found = bed.items(namespace, OWNED_KINDS)
    return [
        f"{item['kind']}/{item['metadata']['name']}"
        for item in found
        if item["metadata"].get("labels", {}).get("serving.windlass.dev/service") == service
        or any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", []))
        or item["metadata"]["name"].startswith(f"{service}-")
    ]
