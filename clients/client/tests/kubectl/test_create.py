"""`kubectl windlass create`: what it writes for each address, and how it follows the service."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from types import SimpleNamespace

import httpx2
import pytest
import yaml
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_base.kube.errors import ClientError
from windlass_client import AsyncClient, token_access
from windlass_kubectl import create
from windlass_kubectl.errors import WrongOptionError
from windlass_kubectl.output import emit
from windlass_kubectl.parser import parser

HUB = "hf://Qwen/Qwen2.5-7B-Instruct"


class Unending(httpx2.AsyncByteStream):
    """The body of a watch that goes on until its reader leaves."""

    def __init__(self, text: str) -> None:
        self.text, self.is_closed = text, False

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield self.text.encode()
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.is_closed = True


class Server:
    """An API server that keeps what is created and shows the service's conditions one after the other."""

    def __init__(self, *conditions: tuple[str, str, str], is_claim_there: bool = False) -> None:
        self.conditions, self.is_claim_there = conditions, is_claim_there
        self.created: list[tuple[str, bool]] = []
        self.watches: list[Unending] = []
        self.refusal: httpx2.Response | None = None

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            return self._create(request)
        rows = [self._service(number, *one) for number, one in enumerate(self.conditions, 1)]
        if "watch" not in request.url.params:
            return httpx2.Response(200, json={"metadata": {"resourceVersion": "1"}, "items": rows[:1]})
        if not rows[1:]:
            await asyncio.Event().wait()  # nothing changes
        lines = [json.dumps({"type": "MODIFIED", "object": row}) for row in rows[1:]]
        self.watches.append(Unending("".join(f"{line}\n" for line in lines)))
        return httpx2.Response(200, stream=self.watches[-1])

    def _create(self, request: httpx2.Request) -> httpx2.Response:
        document = json.loads(request.content)
        if self.refusal is not None:
            return self.refusal
        is_claim = document["kind"] == "PersistentVolumeClaim"
        self.created.append((document["kind"], "dryRun" in request.url.params))
        if is_claim and self.is_claim_there:
            return httpx2.Response(409, json={"kind": "Status", "reason": "AlreadyExists", "message": "there"})
        return httpx2.Response(201, json=document)

    def _service(self, version: int, status: str, reason: str, message: str) -> dict[str, object]:
        meta = {"name": "qwen", "namespace": "team", "uid": "u", "resourceVersion": str(version), "generation": 1}
        row = {"type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": 1}
        row["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        spec = {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}}
        return {"metadata": meta, "spec": spec, "status": {"observedGeneration": 1, "conditions": [row]}}


def a_session(server: Server, *words: str) -> SimpleNamespace:
    """A session that keeps its words: `texts` on standard output, `notes` on standard error."""
    options = parser().parse_args(["create", "qwen", *words])
    create.prepare(options)
    client = AsyncClient(token_access("https://api", "t", namespace="team"), transport=httpx2.MockTransport(server))
    texts, notes = list[str](), list[str]()
    session = SimpleNamespace(client=client, namespace="team", options=options, is_text=options.output == "text")
    session.texts, session.notes, session.say, session.data, session.note = (
        texts,
        notes,
        texts.append,
        texts.append,
        notes.append,
    )
    session.emit = lambda document: texts.append(emit(document, options.output))
    return session


@pytest.mark.parametrize(
    ("words", "model"),
    [
        (
            (HUB,),
            {
                "id": "Qwen2.5-7B-Instruct",
                "source": {"pvc": {"claimName": "qwen-model", "path": "qwen2.5-7b-instruct"}},
                "download": {"hub": "huggingface", "name": "Qwen/Qwen2.5-7B-Instruct", "fsGroup": 10001},
            },
        ),
        (
            ("ms://qwen/Qwen2-7B@v1.0",),
            {
                "id": "Qwen2-7B",
                "source": {"pvc": {"claimName": "qwen-model", "path": "qwen2-7b"}},
                "download": {"hub": "modelscope", "name": "qwen/Qwen2-7B", "fsGroup": 10001, "revision": "v1.0"},
            },
        ),
        (
            ("pvc://models/team/qwen2-7b",),
            {"id": "qwen2-7b", "source": {"pvc": {"claimName": "models", "path": "team/qwen2-7b"}}},
        ),
        (("pvc://models",), {"id": "qwen", "source": {"pvc": {"claimName": "models"}}}),
    ],
    ids=["hugging face", "modelscope with a revision", "path of a claim", "whole claim"],
)  # fmt: skip
async def test_each_address_becomes_a_valid_service(words: tuple[str, ...], model: dict[str, object]) -> None:
    """As --dry-run prints it; the claim stands first, and only where a hub is asked."""
    server = Server()
    session = a_session(server, "--model", *words, "--dry-run")
    assert await create.run(session) == 0
    *claims, service = yaml.safe_load_all("\n".join(session.texts))
    assert service["spec"] == {"model": model}
    LLMServiceSpec.model_validate(service["spec"])
    assert [one["metadata"]["name"] for one in claims] == (["qwen-model"] if "download" in model else [])
    assert server.created == [("LLMService", True)]


async def test_options_of_claim_and_service() -> None:
    """As JSON one list."""
    words = ("--size", "9Gi", "--storage-class", "fast", "--access-mode", "ReadWriteMany", "--gpus", "0")
    session = a_session(Server(), "--model", HUB, *words, "--max-model-len", "4096", "--dry-run", "-o", "json")
    await create.run(session)
    claim, service = json.loads(session.texts[0])["items"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "9Gi"}},
        "storageClassName": "fast",
    }
    assert (service["spec"]["engine"], service["spec"]["resources"]) == ({"maxModelLen": 4096}, {"gpus": 0})
    LLMServiceSpec.model_validate(service["spec"])


@pytest.mark.parametrize("is_claim_there", [False, True])
async def test_the_service_is_made_behind_its_claim_and_followed(is_claim_there: bool) -> None:
    """After a rehearsal, so that a refused service leaves no claim; a claim that is there stays."""
    rows = (
        ("False", "Downloading", "1 of 8 GiB"),
        ("False", "Downloading", "1 of 8 GiB"),
        ("True", "Running", "1 of 1 answer"),
    )
    server = Server(*rows, is_claim_there=is_claim_there)
    session = a_session(server, "--model", HUB)
    assert await create.run(session) == 0
    assert server.created == [("LLMService", True), ("PersistentVolumeClaim", False), ("LLMService", False)]
    claim = "is there already and stays as it is" if is_claim_there else "created"
    assert session.texts == ["llmservice team/qwen created"]
    assert session.notes == [
        f"persistentvolumeclaim team/qwen-model {claim}",
        "Downloading: 1 of 8 GiB",
        "Running: 1 of 1 answer",
        'ask it: kubectl windlass chat qwen "What are you?"',
    ]
    assert [one.is_closed for one in server.watches] == [True]  # by then: asyncio complains of one left open


@pytest.mark.parametrize(
    ("code", "reason", "message", "words"),
    [
        (
            409,
            "AlreadyExists",
            'llmservices.serving.windlass.dev "qwen" already exists',
            'llmservice team/qwen: llmservices.serving.windlass.dev "qwen" already exists; take another name, change '
            "it with kubectl edit llm qwen, or look at it with kubectl windlass status qwen",
        ),
        (
            404,
            "NotFound",
            'namespaces "team" not found',
            'llmservice team/qwen: namespaces "team" not found; kubectl create namespace team, or name another with -n',
        ),
        (404, "NotFound", "the server could not find the requested resource", "llmservice team/qwen: the server could"),
    ],
    ids=["name taken", "no namespace", "no such kind"],
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["made", "rehearsed"])
async def test_a_refused_service_says_what_to_do(
    code: int, reason: str, message: str, words: str, more: tuple[str, ...]
) -> None:
    server = Server()
    server.refusal = httpx2.Response(code, json={"kind": "Status", "reason": reason, "message": message})
    with pytest.raises(ClientError) as refused:
        await create.run(a_session(server, "--model", HUB, *more))
    assert str(refused.value).startswith(words)
    assert server.created == []


async def test_a_service_that_is_not_ready_in_time_goes_on() -> None:
    """Exit code 1, and a sentence."""
    session = a_session(Server(("False", "Downloading", "")), "--model", HUB, "--timeout-s", "0")
    assert await create.run(session) == 1
    assert session.notes[-1] == "not ready after 0 s; kubectl windlass status qwen says more, and the service goes on"


@pytest.mark.parametrize(
    "address", ["Qwen/Qwen2", "hf://Qwen", "hf://a/b/c", "hf:///b", "s3://a/b", "pvc://", "hf://a/@v"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    options = parser().parse_args(["create", "qwen", "--model", address])
    with pytest.raises(WrongOptionError, match=r"is no address of a model; write .*hf://OWNER/NAME or ms://"):
        create.prepare(options)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("qwen", "--model", "Qwen/Qwen2.5-7B"), "write hf://Qwen/Qwen2.5-7B;"),
        (("qwen", "--model", "ms:qwen/Qwen2@v1"), "write ms://qwen/Qwen2@v1;"),
        (("qwen", "--model", HUB, "--size", "50GB"), "--size 50GB is no size of a claim; write a number with a unit"),
        (("Qwen_2.5-7B", "--model", HUB), "write qwen-2-5-7b"),
        (("7b-", "--model", HUB), "write b"),
        (("a" * 51, "--model", HUB), f"write {'a' * 50}"),
    ],
    ids=["no scheme", "no slashes", "unit", "letters", "ends", "too long"],
)
def test_a_near_miss_is_answered_with_what_to_write(words: tuple[str, ...], remedy: str) -> None:
    """Before a login, so that the sentence is ours."""
    options = parser().parse_args(["create", *words])
    with pytest.raises(WrongOptionError, match=re.escape(remedy)):
        create.prepare(options)


def test_options_of_a_new_claim_are_refused_for_a_claim_that_is_there() -> None:
    options = parser().parse_args(["create", "qwen", "--model", "pvc://models/a", "--size", "1Gi"])
    with pytest.raises(WrongOptionError, match="leave them out for the claim of pvc://"):
        create.prepare(options)
