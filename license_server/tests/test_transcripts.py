"""HTTP dialogues kept as text: `> request`, `< status body`; `…` stands for anything, `<lease>` is the last lease's id.

UPLOAD FIELD=FILE [TOKEN] sends one of FILES as curl -F does; LEASE UID GPU… asks for GPUs.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from windlass_license.license_file import codec

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.fixture
def files(
    a_license: Callable[..., Any], signing_key: Ed25519PrivateKey, foreign_key: Ed25519PrivateKey
) -> dict[str, bytes]:
    """The files that a transcript may upload."""
    good = codec.sign(a_license(2, limit=1), signing_key)
    return {
        "good": good,
        "empty": b"",
        "truncated": good[:300],
        "tampered": good.replace(b"Concurrent GPUs: 1", b"Concurrent GPUs: 9"),
        "foreign": codec.sign(a_license(), foreign_key),
        "expired": codec.sign(a_license(days=-1), signing_key),
        "picture": b"\x89PNG\r\n\x1a\n",
        "oversized": good + b" " * (16 * 2**20 + 65 * 1024),
    }


def dialogue(text: str) -> Iterator[tuple[str, str]]:
    """The pairs of a transcript: what is sent, what comes back."""
    for block in re.split(r"^> ", text, flags=re.MULTILINE)[1:]:
        request, _, answer = block.partition("\n")
        yield request, "\n".join(line.removeprefix("< ") for line in answer.rstrip("\n").split("\n"))


def send(bed: Any, request: str, files: dict[str, bytes]) -> Any:
    """Carry out one line of a transcript."""
    verb, *words = request.split()
    if verb == "UPLOAD":
        field, _, name = words[0].partition("=")
        headers = {"Authorization": f"Bearer {words[1]}"} if len(words) > 1 else {}
        return bed.client.post("/ls", files={field: ("license.dat", files[name])}, headers=headers)
    if verb == "LEASE":
        holder = {"namespace": "demo", "pod": f"pod-{words[0]}", "uid": words[0], "service": "qwen"}
        return bed.client.post("/v1/leases", json={"gpus": words[1:], "holder": holder})
    return bed.client.request(verb, words[0])


def matches(expected: str, actual: str) -> bool:
    """Compare literally, but for `…`; the example URL in a sentence holds one too, which is harmless."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), actual, re.DOTALL) is not None


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, a_server: Callable[..., Any], files: dict[str, bytes]) -> None:
    """The server answers as it is written."""
    text = path.read_text()
    token = re.match(r"# token: (\S+)", text)
    bed, lease = a_server(admin_token=token[1] if token else None), "none"
    for request, expected in dialogue(text):
        reply = send(bed, request.replace("<lease>", lease), files)
        if reply.headers.get("content-type") == "application/json":
            lease = json.loads(reply.text).get("lease", lease)
        actual = f"{reply.status_code} {reply.text}".strip()
        wanted = expected.replace('"<lease>"', f'"{lease}"')
        assert matches(wanted, actual), f"> {request}\nexpected {wanted}\nactual   {actual}"
