"""How a program calls a service: its addresses, its model names, and commands to copy. Pure."""

from __future__ import annotations

import json
import shlex

from typing_extensions import TypedDict
from windlass_client.values import LLMService

PORT = 8501
QUESTION = "Say hello in one sentence."


class Place(TypedDict):
    """An address where the service answers."""

    name: str
    url: str


class Call(TypedDict):
    """Everything that a program needs to be told."""

    model: str
    models: list[str]
    addresses: list[Place]
    keyed: bool
    keysSecret: str
    curl: str
    python: str
    dify: list[tuple[str, str]]


def call_of(service: LLMService) -> Call:
    """The addresses of the status; before there are any, the one inside the cluster."""
    meta, spec = service.metadata, service.spec
    inside = Place(name="cluster", url=f"http://{meta.name}.{meta.namespace}.svc:{PORT}/v1")
    places = [Place(name=one.name, url=one.url) for one in service.status.addresses if one.url] or [inside]
    best = places[-1]["url"].rstrip("/")
    secret = spec.expose.keys_secret
    adapters = [one.name for one in spec.model.adapters if one.name]
    return Call(
        model=spec.model.id,
        models=[spec.model.id, *adapters],
        addresses=places,
        keyed=bool(secret),
        keysSecret=secret,
        curl=_curl(best, spec.model.id, keyed=bool(secret)),
        python=_python(best, spec.model.id, keyed=bool(secret)),
        dify=_dify(best, service, keyed=bool(secret)),
    )


def _curl(url: str, model: str, *, keyed: bool) -> str:
    body = f'{{"model": {_quoted(model)}, "messages": [{{"role": "user", "content": "{QUESTION}"}}]}}'
    key = '  -H "Authorization: Bearer $API_KEY" \\\n' if keyed else ""
    return (
        f"curl {shlex.quote(url + '/chat/completions')} \\\n"
        f"{key}  -H 'Content-Type: application/json' \\\n"
        f"  -d {shlex.quote(body)}"
    )


def _python(url: str, model: str, *, keyed: bool) -> str:
    key = 'os.environ["API_KEY"]' if keyed else '"none"'
    head = "import os\n\n" if keyed else ""
    return (
        f"{head}from openai import OpenAI\n\n"
        f"client = OpenAI(base_url={_quoted(url)}, api_key={key})\n"
        "answer = client.chat.completions.create(\n"
        f"    model={_quoted(model)},\n"
        f'    messages=[{{"role": "user", "content": "{QUESTION}"}}],\n'
        ")\n"
        "print(answer.choices[0].message.content)\n"
    )


def _dify(url: str, service: LLMService, *, keyed: bool) -> list[tuple[str, str]]:
    """Rows of Dify's form for a provider of type OpenAI-API-compatible."""
    context = service.status.plan.max_model_len if service.status.plan else None
    return [
        ("Model Type", "LLM"),
        ("Model Name", service.spec.model.id),
        ("API Key", f"of Secret {service.spec.expose.keys_secret}" if keyed else ""),
        ("API endpoint URL", url),
        ("Completion mode", "Chat"),
        ("Model context size", str(context or "")),
    ]


def _quoted(text: str) -> str:
    """A string as JSON and Python both read it."""
    return json.dumps(text)
