"""Fetches the small files of a model on a hub that a plan needs, so that it can be planned before it is downloaded.

The configuration, the quantization settings beside it, and the index that tells the bytes of the weights. The protocols
are those of the operator's downloads.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from windlass_sizing.files.checkpoint import SIDE_QUANTIZATION
from windlass_sizing.files.documents import INDEX_BYTES_MAX

from windlass.errors import ModelError, UsageError

if TYPE_CHECKING:
    import httpx

TOKEN = "WINDLASS_HUB_TOKEN"  # noqa: S105 - a variable's name
NAME = re.compile(r"[A-Za-z0-9._-]{1,96}(/[A-Za-z0-9._-]{1,96})?")
CONFIG, INDEX = "config.json", "model.safetensors.index.json"
FILES = (CONFIG, *SIDE_QUANTIZATION, INDEX)
TIMEOUT_S = 20.0
FILE_S = 120.0
"""For a whole file; the time-out bounds each step of it."""
NOT_THERE, NOT_ALLOWED = (404, 410), (401, 403)


class HubName(StrEnum):
    """The hubs that a model can be named on."""

    HUGGINGFACE = "huggingface"
    MODELSCOPE = "modelscope"


@dataclass(frozen=True, slots=True)
class Hub:
    """Where a hub is and how it spells a file's address."""

    endpoint: str
    revision: str
    url: str
    cookie: bool = False  # its older servers read the token from a cookie, newer ones from the header


HUBS = {
    HubName.HUGGINGFACE: Hub("https://huggingface.co", "main", "{endpoint}/{name}/resolve/{revision}/{file}"),
    HubName.MODELSCOPE: Hub(
        "https://www.modelscope.cn",
        "master",
        "{endpoint}/api/v1/models/{name}/repo?Revision={revision}&FilePath={file}",
        cookie=True,
    ),
}


@dataclass(frozen=True, slots=True)
class OnHub:
    """A model on a hub."""

    hub: HubName
    name: str
    revision: str = ""
    endpoint: str = ""

    def url(self, file: str) -> str:
        """The address of one of its files."""
        hub = HUBS[self.hub]
        revision = quote(self.revision or hub.revision, safe="")
        return hub.url.format(endpoint=self._endpoint, name=self.name, revision=revision, file=file)

    @property
    def _endpoint(self) -> str:
        return (self.endpoint or HUBS[self.hub].endpoint).rstrip("/")

    def credentials(self, token: str) -> dict[str, str]:
        """The headers that show a token; none without one."""
        if not token:
            return {}
        cookie = {"Cookie": f"m_session_id={token}"} if HUBS[self.hub].cookie else {}
        return {"Authorization": f"Bearer {token}", **cookie}

    @property
    def words(self) -> str:
        """The model as sentences name it."""
        return f"{self.name} at {self.revision or HUBS[self.hub].revision} on {self._endpoint}"


def named(hub: HubName, name: str, revision: str, endpoint: str) -> OnHub:
    """The model of these words; UsageError where they can be none."""
    if not NAME.fullmatch(name) or ".." in name:
        raise UsageError(f'"{name}" is no model on a hub; write OWNER/NAME, as qwen/Qwen2-7B-Instruct')
    if endpoint and not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", endpoint):
        raise UsageError(f'--endpoint "{endpoint}" is no base URL; write it as https://hub.example')
    return OnHub(hub, name, revision, endpoint)


def fetch(model: OnHub, directory: Path, environment: Mapping[str, str]) -> None:
    """Put the files that the hub has into the directory; ModelError when there is no configuration to be had."""
    import httpx

    headers = model.credentials(environment.get(TOKEN, "").strip())
    try:
        with httpx.Client(headers=headers, timeout=TIMEOUT_S, follow_redirects=True, max_redirects=5) as http:
            for file in FILES:
                content = _content(http, model, file)
                if content is not None:
                    (directory / file).write_bytes(content)
                elif file == CONFIG:
                    raise ModelError(f"{model.words} has no {CONFIG}; correct the name or the revision")
    except httpx.HTTPError as error:
        why = str(error) or type(error).__name__
        raise ModelError(f"{model.words} cannot be read: {why}; name a hub that answers by --endpoint") from error


def _content(http: httpx.Client, model: OnHub, file: str) -> bytes | None:
    """The whole file; None where the hub has none of this name."""
    with http.stream("GET", model.url(file)) as answer:
        if answer.status_code in NOT_THERE:
            return None
        if answer.status_code in NOT_ALLOWED:
            raise ModelError(
                f"{model.words} is not there, or not open to this token; correct the name, or set {TOKEN} to one that "
                "may read it"
            )
        answer.raise_for_status()
        content, end_s = bytearray(), time.monotonic() + FILE_S
        for piece in answer.iter_bytes():
            content += piece
            if time.monotonic() > end_s:
                raise ModelError(f"{file} of {model.words} takes longer than {FILE_S:.0f} s; name a faster hub")
            if len(content) > INDEX_BYTES_MAX:
                raise ModelError(f"{file} of {model.words} is larger than {INDEX_BYTES_MAX >> 20} MiB; it is not read")
        return bytes(content)
