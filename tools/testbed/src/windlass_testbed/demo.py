"""`make demo`: from a bare machine to a streamed answer of a real vLLM pod, with the seconds of each phase."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from windlass_testbed import cluster, daemon, deploy, licensing, machine, registry
from windlass_testbed.cluster import kubectl
from windlass_testbed.errors import BedError
from windlass_testbed.forward import forward
from windlass_testbed.licensing import LicenseServer
from windlass_testbed.paths import REPOSITORY, Paths
from windlass_testbed.process import phase, say, succeeds

SERVICE = "demo"
RESTARTED = "serving.windlass.dev/restartedAt"
NAMESPACE = "default"
QUESTION = "What does os.path.join do?"
READY_TIMEOUT_S = 600
OPERATOR = ("-l", "app.kubernetes.io/name=windlass-operator")
INSTALLED = "jsonpath={.items[?(@.spec.replicas>0)].metadata.creationTimestamp}"  # when today's operator came

NEXT = """
Try next (after `eval "$(make env)"`):
  kubectl get llm                        the service at a glance
  kubectl windlass status demo           its plan, conditions, pods and events
  kubectl windlass chat demo             talk to it
  kubectl explain llmservice.spec        every field, with defaults
  kubectl scale llm demo --replicas=2    a second replica
  kubectl windlass create second --model pvc://models/demo    another service of the same model
  make demo-delete                       delete the service, the charts and the cluster
The console (docs/how-to/run-console.md), then http://localhost:8080:
  helm upgrade windlass charts/windlass -n windlass-system --reset-then-reuse-values --set console.enabled=true
  kubectl -n windlass-system port-forward service/windlass-console 8080:80
"""


def run_demo(paths: Paths) -> None:
    """Set everything up, serve the demo's model, and ask it one question."""
    started = time.monotonic()
    machine.ensure_packages()
    cluster.check(paths)
    deployed = deploy.bring_up(paths)
    with phase("charts"):
        deploy.install_charts(paths, deployed)
    serve(paths)
    say(f"\nFrom nothing to an answer: {time.monotonic() - started:.0f} s")
    say(NEXT)


def serve(paths: Paths) -> None:
    """With the charts installed: license the GPUs, serve the demo's model and ask it one question."""
    with phase("license"):
        license_gpus(paths)
    with phase("model"):
        deploy.make_model(paths)
        deploy.models_volume(paths, NAMESPACE)
    with phase("service"):
        kubectl(paths, "apply", "-f", "-", stdin=with_todays_pods(paths))
        show_plan(paths)
        wait_ready(paths)
    with phase("answer"):
        ask(paths, QUESTION)


def with_todays_pods(paths: Paths) -> str:
    """Return the demo's service, restarted when today's operator came: its upgrade alone replaces no pod."""
    came = kubectl(paths, "-n", deploy.SYSTEM_NAMESPACE, "get", "replicaset", *OPERATOR, "-o", INSTALLED)
    file, annotation = str(REPOSITORY / "examples/quickstart.yaml"), f"{RESTARTED}={max(came.split(), default='')}"
    return kubectl(paths, "annotate", "--local", "-f", file, annotation, "-o", "json")


def license_gpus(paths: Paths) -> None:
    """Issue a license for every GPU of the cluster and upload it."""
    gpus = cluster.gpu_list(paths)
    file = licensing.issue(paths, gpus, paths.run / "license-demo.dat")
    answer = LicenseServer(paths, deploy.LICENSE_NAMESPACE).upload(file)
    say(f"  {len(gpus.splitlines())} GPUs: {answer.strip().splitlines()[0]}")


def service(paths: Paths) -> dict[str, Any]:
    """Return the demo's service as it is stored."""
    found: dict[str, Any] = json.loads(kubectl(paths, "-n", NAMESPACE, "get", "llm", SERVICE, "-o", "json"))
    return found


def show_plan(paths: Paths) -> None:
    """Wait for the plan, which stands before any GPU is taken, and print it."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        plan = service(paths).get("status", {}).get("plan")
        if isinstance(plan, dict):
            say("\n".join(plan_lines(plan)))
            return
        time.sleep(1)
    raise BedError(f"no plan within {READY_TIMEOUT_S} s: kubectl describe llm {SERVICE}")


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return the plan of a status for people: the choice, then each reason."""
    gpus = f"{plan.get('gpus')} × {plan.get('gpuType') or 'GPU'}"
    choice = f"  plan: {gpus}, TP {plan.get('tp')}, context {plan.get('maxModelLen')}, {plan.get('requiredGib')} GiB"
    return [choice, *(f"        {reason}" for reason in plan.get("because", []))]


def wait_ready(paths: Paths) -> None:
    """Wait for Ready with a live line that tells the reason and the message."""
    started, last = time.monotonic(), ""
    while time.monotonic() - started < READY_TIMEOUT_S:
        ready = ready_condition(service(paths))
        line = f"{ready.get('reason', 'Pending')}: {ready.get('message', '')}"
        if line != last:
            say(f"  {time.monotonic() - started:4.0f} s  {line[:200]}")
            last = line
        if ready.get("status") == "True":
            return
        time.sleep(1)
    raise BedError(f"{SERVICE} was not ready within {READY_TIMEOUT_S} s ({last}): kubectl describe llm {SERVICE}")


def ready_condition(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a service's Ready condition; a True one of an earlier spec is Unknown, as `kubectl wait` takes it."""
    rows = found.get("status", {}).get("conditions", [])
    ready: dict[str, Any] = next((row for row in rows if row["type"] == "Ready"), {})
    is_of_it = ready.get("observedGeneration") == found["metadata"]["generation"]
    return ready if is_of_it or ready.get("status") != "True" else {**ready, "status": "Unknown"}


def ask(paths: Paths, question: str) -> None:
    """Ask one question through the Service's OpenAI API and stream the answer to the terminal."""
    with forward(paths, NAMESPACE, f"svc/{SERVICE}", 8501) as url:
        say(f"  {question}")
        chat(url, question, "--max-tokens", "64", "--temperature", "0")


def chat(url: str, *words: str) -> None:
    """Run our chat client against a base URL, on this terminal."""
    command = [str(Path(sys.executable).parent / "windlass"), "chat", "--server", url, *words]
    if subprocess.run(command, check=False).returncode:
        raise BedError(f"the chat client failed; the service answers at {url}/v1 while `make chat` runs.")


def talk(paths: Paths) -> None:
    """Open an interactive chat with the demo's service."""
    with forward(paths, NAMESPACE, f"svc/{SERVICE}", 8501) as url:
        chat(url)


def delete(paths: Paths) -> None:
    """Delete the demo: service, charts, cluster, engine; caches stay for the next time."""
    if not daemon.answers(paths):
        return
    if succeeds([paths.bin / "kubectl", "--kubeconfig", paths.kubeconfig, "--request-timeout=5s", "get", "llm", "-A"]):
        with suppress(BedError):  # a broken cluster is deleted all the same: that is the way out of it
            kubectl(paths, "delete", "llm", "--all", "--all-namespaces", "--ignore-not-found", "--timeout=60s")
    cluster.delete(paths)
    registry.stop(paths)
    daemon.stop(paths)
