"""What belongs to no single service: cards, licenses, benchmarks."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from typing_extensions import TypedDict
from windlass_api.objects.claims import FIELDS
from windlass_base.kube.errors import ForbiddenError
from windlass_base.kube.rest import Api
from windlass_client import paths, watching
from windlass_client.bench_job import Wanted

from windlass_console.cluster import benchmarks, licensing
from windlass_console.cluster.benchmarks import Bench
from windlass_console.cluster.licensing import Licenses
from windlass_console.http.asking import InNamespace, Name, Namespace, The, Who, the_console
from windlass_console.views import capacity as cards
from windlass_console.views.capacity import Capacity

router = APIRouter(prefix="/api", tags=["cluster"])
AdminToken = Annotated[str, Header(alias="X-License-Token", max_length=4096, pattern=r"^[!-~]*$")]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|[EPTGMk]i?)?$", max_length=16)]
Count = Annotated[int, Field(ge=1, le=100_000)]

BYTES = {"type": "string", "format": "binary"}
FILE = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": BYTES}}}}


class Uploaded(TypedDict):
    """What the license server answered."""

    message: str


class BenchRequest(BaseModel):
    """A sweep over numbers of requests at a time."""

    model_config = ConfigDict(extra="forbid")

    dataset: Literal["random", "demo"] = "random"
    concurrency: list[Annotated[int, Field(ge=1, le=4096)]] = Field(min_length=1, max_length=16)
    prompts: Count | None = None
    input_tokens: Count | None = Field(None, alias="inputTokens")
    output_tokens: Count | None = Field(None, alias="outputTokens")
    minutes: int = Field(30, ge=1, le=1440)
    cpu: Quantity = "1"
    memory: Quantity = "4Gi"
    tokenizer: str = Field("", max_length=1024)
    key_from_secret: str = Field("", alias="keyFromSecret", max_length=512, pattern=r"^[a-z0-9.-]*(/[A-Za-z0-9._-]+)?$")

    def wanted(self) -> Wanted:
        """What the Job is made from."""
        counts = {"num-prompts": self.prompts, "input-len": self.input_tokens, "output-len": self.output_tokens}
        words = benchmarks.words(self.dataset, self.concurrency, counts)
        return Wanted(words, self.key_from_secret, self.tokenizer, self.cpu, self.memory, self.minutes)


class Benches(TypedDict):
    """Newest first."""

    items: list[Bench]


@router.get("/capacity")
async def capacity(who: Who) -> Capacity:
    """Nodes, their cards, who holds them, and what would fit."""
    api = who.identity.client.api
    nodes = (await watching.listing(api, watching.Collection(paths.NODES, "nodes"))).rows
    return await run_in_threadpool(cards.capacity, nodes, await _pods(api))


@router.get("/licenses")
async def licenses(who: Who, console: The) -> Licenses:
    """License servers and what each has in force."""
    return await licensing.licenses(who.identity.client.api, datetime.now(UTC), console.settings.license_addresses)


@router.post("/licenses/{namespace}/{name}", openapi_extra=FILE)
async def upload(
    who: Who,
    namespace: Namespace,
    name: Name,
    request: Request,
    filename: Annotated[str, Query(max_length=256)] = "license.dat",
    token: AdminToken = "",
) -> Uploaded:
    """Put a license file in force; the body is the file."""
    given = licensing.Upload(await request.body(), token, filename, the_console(request).settings.license_addresses)
    return Uploaded(message=await licensing.upload(who.identity.client.api, namespace, name, given))


@router.get("/benchmarks")
async def list_benchmarks(who: Who, namespace: InNamespace) -> Benches:
    """The benchmarks that the cluster still has."""
    return Benches(items=await benchmarks.benchmarks(who.identity.client.api, namespace))


@router.post("/benchmarks/{namespace}/{name}", status_code=201)
async def start_benchmark(who: Who, namespace: Namespace, name: Name, asked: BenchRequest) -> Bench:
    """Start one beside the service."""
    return await benchmarks.start(who.identity.client, namespace, name, asked.wanted())


@router.get("/benchmarks/{namespace}/{name}")
async def read_benchmark(who: Who, namespace: Namespace, name: Name) -> Bench:
    """One, with its progress and its results."""
    return await benchmarks.benchmark(who.identity.client.api, namespace, name)


@router.delete("/benchmarks/{namespace}/{name}", status_code=204)
async def delete_benchmark(who: Who, namespace: Namespace, name: Name) -> None:
    """End it."""
    await benchmarks.delete(who.identity.client.api, namespace, name)


async def _pods(api: Api) -> list[dict[str, Any]] | None:
    """All pods that have a node; None where the user may not list them."""
    with suppress(ForbiddenError):
        where = watching.Collection(paths.PODS_EVERYWHERE, "pods", {"fieldSelector": FIELDS})
        return (await watching.listing(api, where)).rows
    return None
