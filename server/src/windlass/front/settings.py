"""What the guard is told, as one JSON document in the variable WINDLASS_API.

The launcher makes it (`ApiSettings(…).to_json()`), the guard reads it (`ApiSettings.from_json`). Keys are never in it:
they come from WINDLASS_API_KEYS or from the file that it names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from windlass.errors import UsageError
from windlass.front.scan import JsonLimits

SETTINGS_VARIABLE = "WINDLASS_API"
KEYS_VARIABLE = "WINDLASS_API_KEYS"
DOMAIN = re.compile(r"(\*\.)?([a-z0-9]([a-z0-9_-]*[a-z0-9])?\.)*[a-z]([a-z0-9-]*[a-z0-9])?", re.IGNORECASE)
"""A name; its last label begins with a letter, so no IP address is one."""
PATH = re.compile(r"(/[A-Za-z0-9._-]+)+")


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The guard's settings; a wrong one is refused with a sentence when it is made."""

    served_names: tuple[str, ...] = ()
    """Names of the model; the first one is meant when a request names none."""
    lora_names: tuple[str, ...] = ()
    """Adapters that the engine starts with; those loaded later are seen while it runs."""
    metrics_closed: bool = False
    max_body_bytes: int = 32 * 1024**2
    max_json_bytes: int = 8 * 1024**2
    """What a body may hold besides media in base64."""
    max_json_values: int = 262_144
    """Numbers, strings, lists and objects of a body."""
    max_json_depth: int = 64
    max_image_pixels: int = 256 * 1024**2
    """Pixels that the images inside a body may declare together: 768 MiB as the engine decodes them."""
    max_bodies_bytes: int = 256 * 1024**2
    """What all bodies that are being read or answered hold together; four of the largest at least, and two for each of
    several API processes."""
    allowed_hosts: tuple[str, ...] = ()
    """What the header Host may name, as `llm.example.com` or `*.example.com`; empty: anything."""
    opened_routes: tuple[str, ...] = ()
    """Closed or unknown paths of the engine that every key may use."""
    image_domains: tuple[str, ...] = ()
    """Hosts that media is fetched from, as `images.example.com` or `*.example.com`; empty: `data:` URLs only."""
    concurrency: int = 128
    """Requests that the engine works on at a time."""
    queue: int = 512
    """Requests that wait for one of those places."""
    processes: int = 1
    """API processes behind the port, which share all of these bounds."""
    extra_stop_ids: tuple[int, ...] = ()
    keys_file: str = ""
    generation_fields: tuple[str, ...] = ()
    """Fields that the model's generation_config.json sets: for them our default stays out."""
    quantization: str = "none"
    """The method of the model's weights, for metrics."""
    no_repeat_missing: str = ""
    """Why the engine has no `no_repeat_ngram_size`, as the end of a sentence; empty when it has."""

    def __post_init__(self) -> None:
        for name, (is_right, words) in _CHECKS.items():
            value = getattr(self, name)
            if not is_right(value):
                shown = json.dumps(value, default=repr)
                raise UsageError(f'field "{name}" of variable {SETTINGS_VARIABLE} is {shown}; write {words}')

    @property
    def json_limits(self) -> JsonLimits:
        """What a JSON body may hold."""
        return JsonLimits(self.max_json_bytes, self.max_json_values, self.max_json_depth)

    @property
    def bodies_bytes(self) -> int:
        """What all bodies of one API process may hold together: its part of the bound, which has room for two."""
        return max(self.max_bodies_bytes, 4 * self.max_body_bytes, 2 * self.processes * self.max_body_bytes) // (
            self.processes
        )

    def to_json(self) -> str:
        """The document for the variable."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ApiSettings:
        """Read the document; nothing at all means the defaults."""
        document = _object(text) if text.strip() else {}
        known = {field.name for field in fields(cls)}
        if unknown := sorted(document.keys() - known):
            raise UsageError(f'variable {SETTINGS_VARIABLE} has an unknown field "{unknown[0]}"; drop it')
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
        }
        return cls(**values)


def _object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise UsageError(f"variable {SETTINGS_VARIABLE} is not JSON: {error}; write one JSON object") from None
    if not isinstance(document, dict):
        raise UsageError(f"variable {SETTINGS_VARIABLE} is not a JSON object; write one")
    return document


def _names(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) and name for name in value)


def _domains(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) and DOMAIN.fullmatch(name) for name in value)


def _paths(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(path, str) and PATH.fullmatch(path) for path in value)


def _ids(value: object) -> bool:
    return isinstance(value, tuple) and all(_whole(number, 0) for number in value)


def _whole(value: object, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


_CHECKS: dict[str, tuple[Callable[[object], bool], str]] = {
    "served_names": (_names, "a list of names"),
    "lora_names": (_names, "a list of names"),
    "metrics_closed": (lambda value: isinstance(value, bool), "true or false"),
    "max_body_bytes": (lambda value: _whole(value, 1), "a whole number of at least 1"),
    "max_json_bytes": (lambda value: _whole(value, 1), "a whole number of at least 1"),
    "max_json_values": (lambda value: _whole(value, 1024), "a whole number of at least 1024"),
    "max_json_depth": (
        lambda value: _whole(value, 8) and _whole(256 - int(str(value)), 0),
        "a whole number from 8 to 256",
    ),
    "max_image_pixels": (lambda value: _whole(value, 1), "a whole number of at least 1"),
    "max_bodies_bytes": (lambda value: _whole(value, 1), "a whole number of at least 1"),
    "allowed_hosts": (_domains, "a list of host names, as llm.example.com or *.example.com"),
    "opened_routes": (_paths, "a list of paths, as /v1/load_lora_adapter"),
    "image_domains": (_domains, "a list of host names, as images.example.com or *.example.com"),
    "concurrency": (lambda value: _whole(value, 1), "a whole number of at least 1"),
    "queue": (lambda value: _whole(value, 0), "a whole number of at least 0"),
    "processes": (lambda value: _whole(value, 1), "a whole number of at least 1"),
    "extra_stop_ids": (_ids, "a list of token ids"),
    "keys_file": (lambda value: isinstance(value, str), "a path"),
    "generation_fields": (_names, "a list of field names"),
    "quantization": (lambda value: isinstance(value, str), "the name of a method"),
    "no_repeat_missing": (lambda value: isinstance(value, str), "why no_repeat_ngram_size is not there"),
}
