"""Which pod a token belongs to, by a real API server, with the rights that the license server's chart gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from windlass_base.kube.service_account import KubeApi
from windlass_license.cluster.callers import Callers
from windlass_license.cluster.identity import AUDIENCE
from windlass_license.errors import ReviewError, UnknownCallerError

pytestmark = pytest.mark.apiserver

NAME = "windlass-license-server"
RULES = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
]


def role(namespace: str, rules: list[dict[str, list[str]]]) -> dict[str, object]:
    """The chart's ClusterRole."""
    name = {"name": f"{NAME}-{namespace}"}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": name, "rules": rules}


@pytest.fixture
def api(apiserver, namespace: str, tmp_path: Path) -> Iterator[KubeApi]:
    """A client that is the chart's service account."""
    apiserver.kubectl("create", "serviceaccount", NAME, "-n", namespace)
    assert apiserver.apply(role(namespace, RULES)).returncode == 0
    full, account = f"{NAME}-{namespace}", f"--serviceaccount={namespace}:{NAME}"
    apiserver.kubectl("create", "clusterrolebinding", full, f"--clusterrole={full}", account)
    (tmp_path / "token").write_text(apiserver.kubectl("create", "token", NAME, "-n", namespace).stdout)
    with closing(KubeApi(apiserver.url, tmp_path / "token", apiserver.ca_file)) as api:
        yield api


@pytest.fixture
def pod(apiserver, namespace: str) -> str:
    """A pod that requests two GPUs; no kubelet is there, and none is needed."""
    apiserver.kubectl("create", "serviceaccount", "serving", "-n", namespace)
    container = {"name": "server", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    spec = {"serviceAccountName": "serving", "containers": [container]}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "qwen-0"}, "spec": spec}
    assert apiserver.apply(made, "-n", namespace).returncode == 0
    return str(apiserver.get("pod", "qwen-0", "-n", namespace)["metadata"]["uid"])


def token(apiserver, namespace: str, uid: str, audience: str = AUDIENCE) -> str:
    """What the kubelet would project into the pod."""
    bound = ["--bound-object-kind=Pod", "--bound-object-name=qwen-0", f"--bound-object-uid={uid}"] if uid else []
    words = ["create", "token", "serving", "-n", namespace, f"--audience={audience}", *bound]
    return f"Bearer {apiserver.kubectl(*words).stdout.strip()}"


async def test_the_pod_of_a_token(api: KubeApi, apiserver, namespace: str, pod: str) -> None:
    """Namespace, name, uid and GPUs are Kubernetes' own."""
    callers = Callers(api)
    caller = await callers.identify(token(apiserver, namespace, pod), "10.0.0.1")
    assert (caller.namespace, caller.pod, caller.uid, caller.gpus) == (namespace, "qwen-0", pod, 2)
    callers.close()


async def test_other_tokens_are_refused(api: KubeApi, apiserver, namespace: str, pod: str) -> None:
    """Of another audience, of no pod, with another signature, and after the pod is gone."""
    callers = Callers(api)
    shown = token(apiserver, namespace, pod)
    refused = {
        token(apiserver, namespace, pod, "https://kubernetes.default.svc"): "another audience",
        token(apiserver, namespace, ""): "belongs to no pod",
        f"{shown[:-8]}AAAAAAAA": "the API server refuses the token",
    }
    for one, said in refused.items():
        with pytest.raises(UnknownCallerError, match=said):
            await callers.identify(one, "10.0.0.1")
    apiserver.kubectl("delete", "pod", "qwen-0", "-n", namespace, "--force", "--grace-period=0")
    with pytest.raises(UnknownCallerError):
        await callers.identify(shown, "10.0.0.2")
    callers.close()


async def test_a_missing_right_is_named(apiserver, namespace: str, tmp_path: Path, pod: str) -> None:
    """A service account without the ClusterRole cannot review: 503, and the sentence names what is forbidden."""
    apiserver.kubectl("create", "serviceaccount", "bare", "-n", namespace)
    (tmp_path / "bare").write_text(apiserver.kubectl("create", "token", "bare", "-n", namespace).stdout)
    with closing(KubeApi(apiserver.url, tmp_path / "bare", apiserver.ca_file)) as api:
        callers = Callers(api)
        with pytest.raises(ReviewError, match="tokenreviews"):
            await callers.identify(token(apiserver, namespace, pod), "10.0.0.1")
        callers.close()


def test_the_role_is_the_chart_s() -> None:
    """What is tested here is what the chart installs."""
    chart = Path(__file__).resolve().parents[2] / "charts" / NAME / "templates" / "service-account.yaml"
    text = "\n".join(line for line in chart.read_text().splitlines() if "{{" not in line)
    objects = [one for one in yaml.safe_load_all(text) if one and one.get("kind") == "ClusterRole"]
    assert [row["rules"] for row in objects] == [RULES]
