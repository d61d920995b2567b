"""What a hub's refusal means: an answer's status and headers become a sentence for the user, or another try.

Pure. What a hub says of itself stands in `X-Error-Code` (Hugging Face) or in the body's `Message` (ModelScope).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass_base.untrusted_json import UnusableJsonError, json_of

from windlass_download.errors import DownloadError, Retry, UserError
from windlass_download.wanted import Wanted, printable

RETRY_AFTER_MAX_S = 120.0
TRANSIENT = frozenset({408, 416, 421, 423, 425, 429})
SAYS_WHY = ("Message", "message", "error", "detail")


class HubTrouble(Retry):
    """The hub, or the way to it, fails now; `after_s` is its own wish, 0 when it has none."""


class FileChanged(Retry):
    """A file is not, or no more, the one that the hub listed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the hub sends {what} of a file that it listed otherwise", 0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a refusal is judged by."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    own: bool  # whether the endpoint itself answered, not a host that it redirected to


def refusal(answer: Answer, wanted: Wanted, has_token: bool) -> DownloadError:
    """The error of an answer that is neither a success nor a redirect."""
    status = answer.status
    if status == 416:
        return FileChanged("no such range")
    if not answer.own or status >= 500 or status in TRANSIENT:
        place = wanted.endpoint if answer.own else "the host that the hub redirects to"
        return HubTrouble(f"{place} answers {status}", _retry_after(answer.headers))
    if status in (401, 403):
        return UserError("DownloadUnauthorized", _unauthorized(answer, wanted, has_token))
    if status == 404:
        return UserError("DownloadNotFound", _not_found(answer, wanted, has_token))
    return UserError("HubAnswerBroken", f"{wanted.endpoint} answers {status} for {wanted.words}{_hub_message(answer)}")


def _unauthorized(answer: Answer, wanted: Wanted, has_token: bool) -> str:
    code = answer.headers.get("x-error-code", "")
    if code == "GatedRepo":
        todo = "accept its terms on the hub with the account of the token"
        return f"{wanted.name} is gated on {wanted.endpoint}: {todo}" + (
            "" if has_token else ", and name the token in spec.model.download.tokenSecret"
        )
    if not has_token:
        return (
            f"{wanted.endpoint} wants a token for {wanted.name}, which is private, gated or does not exist: "
            "check spec.model.download.name, and name a Secret in spec.model.download.tokenSecret"
        )
    return (
        f"{wanted.endpoint} refuses the token for {wanted.name} ({answer.status}{_hub_message(answer)}): "
        "check the token in spec.model.download.tokenSecret and what its account may read"
    )


def _not_found(answer: Answer, wanted: Wanted, has_token: bool) -> str:
    code = answer.headers.get("x-error-code", "")
    if code == "RevisionNotFound":
        return f"{wanted.endpoint} has no revision {wanted.revision} of {wanted.name}; correct or drop it"
    hidden = "" if has_token else ", or it is private and needs spec.model.download.tokenSecret"
    return (
        f"{wanted.endpoint} does not have {wanted.name} at revision {wanted.revision}{hidden}{_hub_message(answer)}; "
        "correct name, revision or endpoint in spec.model.download"
    )


def _hub_message(answer: Answer) -> str:
    """The hub's own words, bounded, with a space before them; empty when it has none."""
    words = answer.headers.get("x-error-message", "")
    if not words:
        try:
            body = json_of(answer.body)
        except UnusableJsonError:
            body = None
        said = [body.get(key) for key in SAYS_WHY] if isinstance(body, Mapping) else []
        words = next((one for one in said if isinstance(one, str) and one), "")
    return f' "{printable(words)}"' if words else ""


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds; a date is not worth a clock, the usual back-off does."""
    text = headers.get("retry-after", "")
    return min(float(text), RETRY_AFTER_MAX_S) if text.isdecimal() else 0.0
