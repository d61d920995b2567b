"""Hostile specs at a real API server: each is refused with a sentence, or what is stored is bounded and rendered well.

The user has the rights of the role `edit` alone. `WINDLASS_ATTACK_SPECS=10000` draws that many; the gate a few hundred.
What is accepted goes through the operator's own parsing, judging and rendering: a sentence, or pods that keep their
promises.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import httpx2
import pytest
from admission_draws import MODEL
from admission_invariants import ingress_complaints, pod_complaints
from admission_specs import characters, depth_of, draw, nested, places, spec_schema
from windlass_operator.errors import UserError
from windlass_operator.manifests.pod import PodShape, pod_template
from windlass_operator.manifests.route import ingress
from windlass_operator.reconcile.desired_state import must_be_allowed, parse_service
from windlass_operator.settings import Settings

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(3600)]
SPECS = int(os.environ.get("WINDLASS_ATTACK_SPECS", "200"))
SEED = int(os.environ.get("WINDLASS_ATTACK_SEED", "7"))
SETTINGS = Settings("windlass/server", "1", "windlass/operator:1")
SHAPE = PodShape("windlass/server:1", ("run",), "1", "4Gi", "1Gi", command=("windlass",), gpus=1)
SERVICES = "/apis/serving.windlass.dev/v1alpha1/namespaces/attack/llmservices"
DEPTH_MAX = 24  # of a stored object: 14 of ours, the rest metadata.managedFields
CHARACTERS_MAX = 131_072
SHOWN = 12
ATTEMPTS = 4
BUSY = (httpx2.codes.GATEWAY_TIMEOUT, httpx2.codes.TOO_MANY_REQUESTS)  # after the API server's own 34 seconds


def body_of(spec: str, name: str = "a") -> str:
    head = f'{{"apiVersion":"serving.windlass.dev/v1alpha1","kind":"LLMService","metadata":{{"name":"{name}"}}'
    return f'{head},"spec":{spec}}}'


def create(http: httpx2.Client, spec: str, **params: str) -> httpx2.Response:
    """A dry run; an API server that has no time on this machine is asked again."""
    asked = {"dryRun": "All", **params}
    for _ in range(ATTEMPTS):
        answer = http.post(SERVICES, content=body_of(spec), params=asked, headers={"Content-Type": "application/json"})
        if answer.status_code not in BUSY:
            break
    return answer


def complaints(answer: httpx2.Response) -> list[str]:
    """What is wrong with how a spec was taken or refused."""
    if answer.status_code >= httpx2.codes.BAD_REQUEST:
        return _refusal(answer)
    if depth_of(answer.text) > DEPTH_MAX:
        return [f"a depth above {DEPTH_MAX} is stored"]
    stored = answer.json()
    if characters(stored["spec"]) > CHARACTERS_MAX:
        return [f"more than {CHARACTERS_MAX} characters are stored"]
    return _rendered(stored)


def _refusal(answer: httpx2.Response) -> list[str]:
    words = str(answer.json().get("message") or "")
    if answer.status_code >= httpx2.codes.INTERNAL_SERVER_ERROR:
        return [f"HTTP {answer.status_code}: {words[:80]}"]
    return [] if words else [f"HTTP {answer.status_code} without a word"]


def _rendered(stored: dict[str, Any]) -> list[str]:
    try:
        service = parse_service(stored)
        must_be_allowed(service, SETTINGS)
    except UserError as error:
        return [] if str(error) else ["a refusal without a word"]
    bare = parse_service({**stored, "spec": {**stored["spec"], "podTemplate": {}}})
    pod, plain = (pod_template(one, SHAPE)["spec"] for one in (service, bare))
    found = pod_complaints(pod, MODEL, plain) if service.spec.model.source.pvc else []
    wish = service.spec.expose.ingress
    return [*found, *(ingress_complaints(ingress(service, wish)) if wish else ())]


def test_every_spec_is_refused_with_a_sentence_or_rendered_well(attacked: httpx2.Client) -> None:
    rng, found, taken = random.Random(SEED), Counter[str](), 0  # noqa: S311 - draws, no secrets
    spots, slowest = list(places(spec_schema())), 0.0
    for _ in range(SPECS):
        begun = time.monotonic()
        answer = create(attacked, draw(rng, spots), fieldValidation=rng.choice(("Strict", "Warn", "Ignore")))
        slowest = max(slowest, time.monotonic() - begun)
        taken += answer.status_code < httpx2.codes.BAD_REQUEST
        found.update(set(complaints(answer)))
    rows = "\n".join(f"{count:7} {text}" for text, count in found.most_common(SHOWN))
    told = f"{SPECS} drawn, {taken} taken, slowest {slowest:.2f} s, {found.total()} complaints\n{rows}"
    print(told)
    assert not found, told
    assert taken > SPECS // 20, told


DEEP = f'{{"affinity":{nested("o", 985)}}}'
SOURCE = '"model":{"id":"m","source":{"pvc":{"claimName":"models","path":"m"}}}'


def with_piece(piece: str) -> str:
    return f'{{{SOURCE},"podTemplate":{{"spec":{piece}}}}}'


def test_depth_ends_at_the_api_server(attacked: httpx2.Client) -> None:
    """985 levels below affinity: refused where unknown fields are, and cut where they are not."""
    refused = create(attacked, with_piece(DEEP), fieldValidation="Strict")
    assert refused.status_code == httpx2.codes.BAD_REQUEST
    assert 'unknown field "spec.podTemplate.spec.affinity.nodeAffinity.nodeAffinity"' in refused.json()["message"]
    cut = create(attacked, with_piece(DEEP), fieldValidation="Ignore")
    assert cut.status_code == httpx2.codes.CREATED
    assert depth_of(cut.text) <= DEPTH_MAX


def test_server_side_apply_keeps_no_depth_either(attacked: httpx2.Client) -> None:
    """Another way in, with a decoder of its own."""
    asked = {"fieldManager": "a", "dryRun": "All", "force": "true"}
    kind = {"Content-Type": "application/apply-patch+yaml"}
    answer = attacked.patch(f"{SERVICES}/a", content=body_of(with_piece(DEEP)), params=asked, headers=kind)
    assert answer.status_code >= httpx2.codes.BAD_REQUEST or depth_of(answer.text) <= DEPTH_MAX
    assert "field not declared in schema" in answer.json()["message"]


TOO_LARGE = {
    "an unknown field of 1.25 MiB": with_piece(json.dumps({"x": "a" * 1_250_000})),
    "a known text of 1.25 MiB": with_piece(json.dumps({"hostname": "a" * 1_250_000})),
    "a list of 20,000 texts": with_piece(json.dumps({"hostAliases": [{"ip": "::1", "hostnames": ["a"] * 20_000}]})),
    "many arguments": f'{{{SOURCE},"args":{json.dumps(["a" * 16_000] * 60)}}}',
    "many variables": f'{{{SOURCE},"env":{json.dumps([{"name": f"A{n}", "value": "a" * 30_000} for n in range(40)])}}}',
    "labels with long keys": f'{{{SOURCE},"podTemplate":{{"labels":{{"{"a" * 900_000}":"b"}}}}}}',
    "containers full of rows": with_piece(
        json.dumps({"containers": [{"name": f"a{n}", "args": ["a" * 15_000] * 10} for n in range(8)]})
    ),
}


@pytest.mark.parametrize("spec", TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_size_ends_at_the_api_server(attacked: httpx2.Client, spec: str) -> None:
    """Refused in words, or what is stored is small."""
    answer = create(attacked, spec, fieldValidation="Ignore")
    if answer.status_code >= httpx2.codes.BAD_REQUEST:
        assert answer.status_code == httpx2.codes.UNPROCESSABLE_CONTENT
        assert any(words in answer.text for words in ("Too long", "Too many", "must have at most"))
    else:
        assert characters(answer.json()["spec"]) < 10_000


def test_the_largest_spec_is_taken(attacked: httpx2.Client) -> None:
    """118,000 characters in 488 rows: the API server does not refuse the rule that adds them up as too costly."""
    rows = [{"name": f"v{n}", "configMap": {"name": "a" * 200, "items": [{"key": "k" * 100, "path": "p" * 100}] * 8}}
            for n in range(32)]  # fmt: skip
    spec = (
        f'{{{SOURCE},"args":{json.dumps(["a" * 300] * 200)},"podTemplate":{{"spec":{json.dumps({"volumes": rows})}}}}}'
    )
    begun = time.monotonic()
    answer = create(attacked, spec, fieldValidation="Strict")
    took_s = time.monotonic() - begun
    assert answer.status_code == httpx2.codes.CREATED, answer.text[:300]
    assert characters(answer.json()["spec"]) > 110_000
    print(f"\nthe largest spec: {took_s:.2f} s")


def test_an_editor_cannot_write_the_status(attacked: httpx2.Client) -> None:
    """Not on create, where it is dropped, and not by the subresource, which is forbidden."""
    body = body_of(f"{{{SOURCE}}}")[:-1] + ',"status":{"ready":"9/9"}}'
    made = attacked.post(SERVICES, content=body, headers={"Content-Type": "application/json"})
    assert made.status_code == httpx2.codes.CREATED
    try:
        assert "status" not in made.json()
        patch = {"status": {"ready": "9/9"}}
        kind = {"Content-Type": "application/merge-patch+json"}
        plain = attacked.patch(f"{SERVICES}/a", content=json.dumps(patch), headers=kind)
        assert "status" not in plain.json()
        forbidden = attacked.patch(f"{SERVICES}/a/status", content=json.dumps(patch), headers=kind)
        assert forbidden.status_code == httpx2.codes.FORBIDDEN
    finally:
        attacked.delete(f"{SERVICES}/a")
