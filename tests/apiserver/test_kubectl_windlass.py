"""The plug-in, run by the real kubectl against a real API server. No kubelet runs here: the tests write statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import yaml
from windlass_testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver

NODE = "gpu-node-of-test-kubectl"
PATIENCE_S = 240  # a busy machine starts programs slowly
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
    "max_position_embeddings": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
PROGRAM = "import sys\nfrom windlass_kubectl.{} import main\nsys.exit(main())\n"
# Planted where a report looks; none of them may be in what it writes.
PLANTED = {
    "env": "planted-env-4f1c9a",
    "flag": "planted-flag-77b2e0",
    "url": "planted-url-0d93aa",
    "bearer": "planted-bearer-5be1c4",
    "secret": "planted-secret-e81f06",
}
SINCE = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
FAILED = {
    "ready": "0/1",
    "conditions": [
        {"type": "Ready", "status": "False", "reason": "GpuOutOfMemory", "message": "no room", **SINCE},
        {"type": "Planned", "status": "True", "reason": "Planned", "message": "2 × L20", **SINCE},
    ],
    "plan": {
        "gpus": 2, "tp": 2, "pp": 1, "nodes": 1, "gpuType": "L20", "maxModelLen": 8192, "requiredGib": "50.00",
        "perGPU": {"weightsGib": "20.00", "kvCacheGib": "3.00", "overheadGib": "2.00", "requiredGib": "25.00",
                   "haveGib": "44.50"},
        "because": ["weights 40.00 GiB"],
    },
    "startup": [{"phase": "license", "seconds": "0.2"}, {"phase": "engine", "seconds": "40.1"}],
    "failure": {"reason": "GpuOutOfMemory", "container": "server", "exitCode": 1, "count": 3,
                "excerpt": f"loading\nAuthorization: Bearer {PLANTED['bearer']}\nCUDA out of memory",
                "remedy": "lower spec.engine.maxModelLen"},
    "addresses": [{"name": "cluster", "url": "http://qwen.x.svc:8501/v1"}],
}  # fmt: skip


def a_service(name: str = "qwen", **spec: object) -> dict[str, object]:
    model = {"id": "Qwen2-7B-Instruct", "source": {"pvc": {"claimName": "models", "path": "qwen2-7b"}}}
    return {
        "apiVersion": "serving.windlass.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name},
        "spec": {"model": model, **spec},
    }


@pytest.fixture(scope="session")
def programs(tmp_path_factory) -> Path:
    """The plug-in's programs as an installation puts them on the PATH."""
    folder = tmp_path_factory.mktemp("bin")
    for name, module in (("kubectl-windlass", "__main__"), ("kubectl_complete-windlass", "completion")):
        (folder / name).write_text(f"#!{sys.executable}\n{PROGRAM.format(module)}")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def windlass(apiserver, namespace, programs, tmp_path):
    """Runs `kubectl windlass …` in the test's namespace."""
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "KUBECONFIG": str(apiserver.kubeconfig),
        "PATH": f"{programs}:{apiserver.kubectl_binary.parent}:{os.environ['PATH']}",
    }

    def run(*words: str, stdin: str | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [str(apiserver.kubectl_binary), "windlass", *words, "-n", namespace]
        done = subprocess.run(
            command, env=env, cwd=tmp_path, input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    run.env, run.programs = env, programs
    return run


@pytest.fixture
def served(apiserver, namespace):
    """A service whose status tells of a plan, a failure and an address, with one pod and one event."""
    env = [{"name": "HF_TOKEN", "value": PLANTED["env"]}, {"name": "SEED", "value": "17"}]
    args = ["--api-key", PLANTED["flag"], "--proxy", f"http://me:{PLANTED['url']}@proxy:3128"]
    apiserver.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(a_service(env=env, args=args)))
    patch = json.dumps({"status": FAILED})
    apiserver.kubectl("-n", namespace, "patch", "llm", "qwen", "--subresource=status", "--type=merge", "-p", patch)
    labels = {"serving.windlass.dev/service": "qwen", "app.kubernetes.io/component": "server"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "qwen-1", "labels": labels},
           "spec": {"containers": [{"name": "server", "image": "i", "env": env}]}}  # fmt: skip
    apiserver.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(pod))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "labels": labels},
              "stringData": {"a": f"{PLANTED['secret']}\nsecond"}}  # fmt: skip
    apiserver.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(secret))
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e1"},
        "involvedObject": {"apiVersion": "v1", "kind": "LLMService", "name": "qwen", "namespace": namespace},
        "type": "Warning", "reason": "GpuOutOfMemory", "count": 2, "lastTimestamp": "2026-01-01T00:00:00Z",
        "message": f"the engine said HF_TOKEN={PLANTED['env']}",
    }  # fmt: skip
    apiserver.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(event))
    return "qwen"


@pytest.fixture
def gpu_node(apiserver):
    labels = {"nvidia.com/gpu.product": "NVIDIA-L20", "nvidia.com/gpu.memory": "46068"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}}
    apiserver.kubectl("apply", "-f", "-", stdin=json.dumps(node))
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [ready]}}
    apiserver.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    yield NODE
    apiserver.kubectl("delete", "node", NODE)


def test_status_of_one_service_says_everything_in_one_tree(windlass, served):
    """What is wrong, why, what to do, and what was planned; no colour in a pipe."""
    text = windlass("status", served).stdout
    assert "\x1b" not in text
    text = " ".join(text.replace("│", "").split())  # long lines are wrapped inside the tree
    for words in (
        "Qwen2-7B-Instruct GpuOutOfMemory 0/1", "✘ Ready GpuOutOfMemory", "no room", "✔ Planned Planned",
        "failure: GpuOutOfMemory in server, exit code 1, 3 times in a row", "CUDA out of memory",
        "what to do: lower spec.engine.maxModelLen", "plan: 2 × L20, TP 2, context 8192",
        "weights 20.00 + KV cache 3.00 + engine 2.00 = 25.00 GiB of 44.50", "start: license 0.2 s, engine 40.1 s",
        "qwen-1 Pending: not ready, no node yet", "cluster: http://qwen.x.svc:8501/v1", "LLMService/qwen",
    ):  # fmt: skip
        assert words in text


def test_status_shows_what_its_reader_may_see(windlass, served, apiserver, namespace):
    """Without the right to list pods and events the service itself is still shown, and what is left out is said."""
    for words in (
        ("create", "serviceaccount", "reader"),
        ("create", "role", "reader", "--verb=get,list", "--resource=llmservices.serving.windlass.dev"),
        ("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:reader"),
    ):
        apiserver.kubectl("-n", namespace, *words)
    token = apiserver.kubectl("-n", namespace, "create", "token", "reader").stdout.strip()
    config = json.loads(apiserver.kubeconfig.read_text())
    file = Path(windlass.env["HOME"]) / "reader"
    file.write_text(json.dumps({**config, "users": [{"name": "admin", "user": {"token": token}}]}))
    done = windlass("status", served, "--kubeconfig", str(file))
    assert "what to do: lower spec.engine.maxModelLen" in done.stdout
    assert "pods are left out" in done.stderr
    assert "events are left out" in done.stderr


def test_status_answers_programs_in_json_and_yaml(windlass, served):
    """The same facts as documents."""
    document = json.loads(windlass("status", served, "-o", "json").stdout)
    assert (document["status"]["plan"]["tp"], document["pods"][0]["name"]) == (2, "qwen-1")
    assert document["events"][0]["reason"] == "GpuOutOfMemory"
    assert yaml.safe_load(windlass("status", "-o", "yaml").stdout)["items"][0]["metadata"]["name"] == served


def test_status_of_all_is_a_table(windlass, served, namespace):
    """One line for each, with its namespace when all are asked for."""
    header, row = windlass("status").stdout.splitlines()
    assert header.split() == ["NAME", "MODEL", "READY", "STATUS", "GPUS", "TP", "CONTEXT", "AGE"]
    assert row.split()[:7] == ["qwen", "Qwen2-7B-Instruct", "0/1", "GpuOutOfMemory", "2", "2", "8192"]
    rows = windlass("status", "-A").stdout.splitlines()[1:]
    assert [namespace, "qwen"] in [line.split()[:2] for line in rows]
    assert "no LLMService" in windlass("status", "-l", "team=nobody").stderr


def test_a_service_that_is_not_there_has_its_own_exit_code(windlass):
    """4 for a script; the sentence for its reader."""
    assert '"nobody" not found' in windlass("status", "nobody", code=4).stderr
    assert '"nobody" not found' in windlass("logs", "nobody", code=4).stderr
    assert "context" in windlass("status", "--context", "other", code=5).stderr


def test_status_watches(windlass, served, apiserver, namespace):
    """A line for each change, until interrupted."""
    command = [str(apiserver.kubectl_binary), "windlass", "status", "-w", "-n", namespace]
    with subprocess.Popen(command, env=windlass.env, stdout=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(200, process.kill)
        watchdog.start()
        try:
            assert process.stdout.readline().split()[0] == "EVENT"
            assert process.stdout.readline().split()[:2] == ["ADDED", "qwen"]
            apiserver.kubectl("-n", namespace, "scale", "llm/qwen", "--replicas=2")
            assert process.stdout.readline().split()[:2] == ["MODIFIED", "qwen"]
        finally:
            watchdog.cancel()
            process.terminate()


def test_plan_shows_what_would_happen_and_applies_nothing(windlass, gpu_node, tmp_path, apiserver, namespace):
    """From a file and a model directory; 3 when nothing fits; the API server's own rules are asked too."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "service.yaml").write_text(yaml.safe_dump_all([{"kind": "ConfigMap"}, a_service()]))
    text = windlass("plan", "-f", "service.yaml", "--model", "model").stdout
    for words in ("qwen: fits", "Qwen2ForCausalLM", f"{gpu_node}: 8 × NVIDIA-L20, 8 free", "plan: 1 × L20, TP 1"):
        assert words in text
    done = windlass("plan", "-f", "-", "--model", "model", "-o", "json", stdin=json.dumps(a_service()))
    assert json.loads(done.stdout)["plan"]["maxModelLen"] == 8192

    far = a_service(resources={"gpuType": "H100"})
    done = windlass("plan", "-f", "-", "--model", "model", stdin=json.dumps(far), code=3)
    assert "nothing fits" in done.stdout
    assert "correct spec.resources.gpuType" in done.stdout
    wrong = a_service(engine={"quantization": "ifq_nf4", "dtype": "bfloat16"})
    done = windlass("plan", "-f", "-", "--model", "model", stdin=json.dumps(wrong), code=1)
    assert "ifq_nf4 runs in float16 only" in done.stderr
    misspelt = {**a_service(), "spec": {**a_service()["spec"], "replica": 2}}
    refused = windlass("plan", "-f", "-", "--model", "model", stdin=json.dumps(misspelt), code=1).stderr
    assert "spec.replica: there is no such field; did you mean replicas?" in refused
    assert "try again" not in refused
    assert "give its directory or config.json" in windlass("plan", "-f", "service.yaml", code=3).stderr
    assert "holds no LLMService" in windlass("plan", "-f", "-", stdin="kind: Pod", code=1).stderr
    assert "is not YAML" in windlass("plan", "-f", "-", stdin="a: [", code=1).stderr
    windlass("plan", code=2)
    assert apiserver.get("llm", "-n", namespace)["items"] == []


def test_a_report_holds_everything_but_secrets(windlass, served, tmp_path):
    """Planted secrets are in no file: not under their names, not in logs and events, not in the Secret."""
    said = windlass("report", served).stdout
    archive = tmp_path / "windlass-report-qwen.tar.gz"
    assert "windlass-report-qwen.tar.gz" in said
    assert archive.stat().st_mode & 0o077 == 0
    with tarfile.open(archive) as bundle:
        files = {Path(name).name: bundle.extractfile(name).read().decode() for name in bundle.getnames()}
    assert {"service.yaml", "pods.yaml", "events.yaml", "versions.yaml", "status.txt"} <= files.keys()
    text = "\n".join(files.values())
    assert "CUDA out of memory" in text
    assert "HF_TOKEN" in text
    assert "'17'" in files["service.yaml"]
    assert "kind: Secret" not in text
    document = windlass("report", served, "-o", "json").stdout
    for shown in (text, document, windlass("report", served, "--out", "-").stdout):
        assert [name for name, value in PLANTED.items() if value in shown] == []
    assert json.loads(document)["versions"]["kubernetes"].startswith("v1.")


def test_completion_by_kubectl_itself(windlass, served, apiserver, namespace, programs):
    """kubectl asks our program and hands its answer to the shell."""
    done = subprocess.run(
        [str(apiserver.kubectl_binary), "__complete", "windlass", "status", "-n", namespace, "q"],
        env=windlass.env, capture_output=True, text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.stdout.splitlines()[0] == "qwen\tQwen2-7B-Instruct"
    done = subprocess.run(
        [str(apiserver.kubectl_binary), "__complete", "windlass", ""],
        env=windlass.env, capture_output=True, text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    words = [line.split("\t")[0] for line in done.stdout.splitlines()[:-1]]
    assert words == ["create", "status", "plan", "logs", "chat", "bench", "usage", "report", "license", "completion"]


class _Engine(BaseHTTPRequestHandler):
    """Streams two pieces to whoever has the key; keeps what was asked."""

    asked: ClassVar[list[dict]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != f"Bearer {PLANTED['secret']}":
            self.send_response(401)
            self.end_headers()
            return
        self.asked.append(body)
        self.send_response(200)
        self.end_headers()
        pieces = [{"choices": [{"delta": {"content": text}}]} for text in ("I am ", "a test.")]
        pieces += [{"choices": [{"delta": {}, "finish_reason": "stop"}]},
                   {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}}]  # fmt: skip
        for piece in (*map(json.dumps, pieces), "[DONE]"):
            self.wfile.write(f"data: {piece}\n\n".encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def engine():
    """A server that speaks enough of the API to be talked to."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Engine)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def forwarder(tmp_path, engine, apiserver, windlass):
    """A kubectl whose port-forward ends at the engine: there is no kubelet here that could."""
    program = tmp_path / "forward" / "kubectl"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport os, pathlib, sys, time\n"
        f"pathlib.Path({str(tmp_path / 'words')!r}).write_text(' '.join(sys.argv[1:]))\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        f"print('Forwarding from 127.0.0.1:{engine} -> 8501', flush=True)\ntime.sleep(60)\n"
    )
    program.chmod(0o755)
    windlass.env["PATH"] = f"{program.parent}:{windlass.env['PATH']}"
    return tmp_path


def test_chat_streams_through_a_port_forward_and_ends_it(windlass, served, forwarder, namespace):
    """One question, with the key of a Secret; afterwards the port-forward is gone."""
    done = windlass("chat", served, "What are you?", "--key-from-secret", "keys")
    assert done.stdout == "I am a test.\n"
    assert "3 tokens" in done.stderr
    words = (forwarder / "words").read_text().split()
    assert words[:2] == ["port-forward", "--address=127.0.0.1"]
    assert words[-3:] == [f"--namespace={namespace}", "service/qwen", ":8501"]
    assert _Engine.asked[-1]["model"] == "Qwen2-7B-Instruct"
    pid = int((forwarder / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the port-forward")


def test_a_talk_that_is_ended_from_outside_leaves_no_port_forward(windlass, served, forwarder, apiserver, namespace):
    """SIGTERM to the plug-in ends kubectl's port-forward too."""
    command = [str(windlass.programs / "kubectl-windlass"), "chat", served, "-n", namespace]
    with subprocess.Popen(command, env=windlass.env, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        watchdog = threading.Timer(200, process.kill)
        watchdog.start()
        try:
            assert b"talking with" in process.stderr.readline()
            process.terminate()
            process.wait(60)
        finally:
            watchdog.cancel()
            process.kill()
    assert process.returncode == 130
    assert not Path(f"/proc/{(forwarder / 'pid').read_text()}").exists()


def test_chat_answers_programs_and_says_what_a_refusal_means(windlass, served, engine):
    """-o json is one document; without the key one sentence says where to get it."""
    address = ("--address", f"http://127.0.0.1:{engine}")
    done = windlass("chat", served, "-", "--token", PLANTED["secret"], "-o", "json", *address, stdin="Hello")
    answer = json.loads(done.stdout)
    assert (answer["text"], answer["completionTokens"], answer["finishReason"]) == ("I am a test.", 3, "stop")
    assert "give --token" in windlass("chat", served, "Hello", *address, code=1).stderr
    gone = windlass("chat", served, "Hello", "--address", "http://127.0.0.1:9", code=5)
    assert "does not answer" in gone.stderr


def test_chat_keeps_the_conversation(windlass, served, engine):
    """What was said before goes along; an empty line ends it."""
    done = windlass("chat", served, "--token", PLANTED["secret"], "--address", f"http://127.0.0.1:{engine}",
                    "--system", "Be brief.", stdin="Hello\nAgain\n\n")  # fmt: skip
    assert done.stdout.count("I am a test.") == 2
    assert [row["role"] for row in _Engine.asked[-1]["messages"]] == ["system", "user", "assistant", "user"]


def test_logs_say_why_there_are_none(windlass, served):
    """A pod without a node has written nothing."""
    assert "have written nothing yet" in windlass("logs", served, code=1).stderr
