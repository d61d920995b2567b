"""A container that has ended: its exit code, the kubelet's word, what the server said and what it printed → one reason.

Pure. The server's last words are its termination message (one line of JSON); any other text is the end of its log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass_base.untrusted_json import parsed

from windlass_operator.records.pods import ContainerStatus, Pod, Terminated
from windlass_operator.status import reasons
from windlass_operator.status.failure import EXCERPT_MAX, SENTENCE_MAX, Failure, cut
from windlass_operator.status.signatures import of_text

OWN_CONTAINERS = ("server", "inspect", "download")
STARTED_REASONS = {"StartError": "CommandNotFound", "ContainerCannotRun": "CommandNotFound", "OOMKilled": "OutOfMemory"}
SAID_REASONS = {"LicenseRefused": "Unlicensed", "EngineFailed": "EngineFailed", "Failed": "EngineFailed"}
EXIT_REASONS = {
    2: "BadFlag",
    3: "ModelMissing",
    4: "Unlicensed",
    5: "StartTimeout",
    6: "GroupIncomplete",
    7: "RayFailed",
    8: "FirstChatFailed",
    9: "EngineStalled",
    126: "CommandNotFound",  # by a shell's custom
    127: "CommandNotFound",
}
SIGNALS = {
    134: "SIGABRT, by itself",
    135: "SIGBUS, as when /dev/shm is full",
    137: "SIGKILL, mostly for want of memory",
    139: "SIGSEGV",
}
"""128 and the signal; the node's runtime does not always know of the kernel's kill."""
MEMBER_LOST_FIRST, MEMBER_LOST_MAX = 100, 125  # exit code 100 + the index of the member; a shell uses 126 and 127
VAGUE = ("EngineFailed", "CrashLoop", "ModelMissing", "BadFlag", "CommandNotFound")
"""Words that an exact line of the log may replace."""


@dataclass(frozen=True, slots=True)
class LastWords:
    """What an ended container left: the server's reason, its sentence, the members that failed, the end of the log."""

    text: str = ""
    reason: str = ""
    excerpt: str = ""
    members: tuple[int, ...] = ()
    said: bool = field(default=False)


def last_words(text: str) -> LastWords:
    """The server's own line of JSON, else the bare text."""
    data = parsed(text)
    if not isinstance(data, Mapping):
        return LastWords(text.strip(), excerpt=text.strip()[-EXCERPT_MAX:])
    members = data.get("members")
    whole = [one for one in members if isinstance(one, int)] if isinstance(members, list) else []
    message, excerpt = str(data.get("message") or "").strip(), str(data.get("excerpt") or "").strip()
    return LastWords(
        message, str(data.get("reason") or ""), (excerpt or message)[-EXCERPT_MAX:], tuple(whole), said=True
    )


def ended(container: ContainerStatus) -> Terminated | None:
    """How the container ended, now or before its restart; None when it has not, or was told to and did."""
    last = container.state.terminated or container.last_state.terminated
    if not last:
        return None
    again = container.waits_for == "CrashLoopBackOff"
    return last if last.exit_code or last.reason == "OOMKilled" or again else None


def crash(pod: Pod, container: ContainerStatus, last: Terminated, init: bool) -> Failure:
    """The failure of one ended container."""
    name, code = container.name, last.exit_code
    words = last_words(last.message)
    count, own = max(1, container.restart_count), name in OWN_CONTAINERS
    reason, line = _reason(words, last, count, own)
    if not own and reason in VAGUE:
        reason = "InitContainerFailed" if init else "SidecarFailed"
    where = f"container {name} of pod {pod.name} ended with exit code {code}"
    return Failure(reason, f"{where}{_why(last)}{_sentence(words, line)}", name, code, words.excerpt, count)


def _why(last: Terminated) -> str:
    """The kubelet's own word where it says more than the code, else the signal's."""
    word = last.reason if last.reason not in ("", "Error", "Completed") else SIGNALS.get(last.exit_code, "")
    return f" ({word})" if word else ""


def _sentence(words: LastWords, line: str) -> str:
    """The sentence; the telling line in front of it when the cut would lose it."""
    text = cut(words.text)
    if line and " ".join(line.split()) not in text:
        text = f"{cut(line, SENTENCE_MAX // 2)} … {cut(words.text, SENTENCE_MAX // 2)}"
    return f": {text}" if text else ""


def _reason(words: LastWords, last: Terminated, count: int, own: bool) -> tuple[str, str]:
    """What the kubelet knows, then what the server said, then the exit code, then what the text holds; and its line.

    An exit code has a meaning in our own containers alone; another program may end with any.
    """
    text = f"{words.text}\n{words.excerpt}" if words.said else words.text
    found = of_text(text)
    code, word = last.exit_code, STARTED_REASONS.get(last.reason)
    if word:
        return ("WrongArchitecture", "") if found and found[0] == "WrongArchitecture" else (word, "")
    vague = "CrashLoop" if count > 1 else "EngineFailed"
    said = reasons.known(SAID_REASONS.get(words.reason, words.reason), vague) if words.reason else None
    by_code = _by_code(code, vague) if own else vague
    reason = vague if said == "EngineFailed" else said or by_code
    if found and (reason in ("EngineFailed", "CrashLoop") or (not words.said and reason in VAGUE)):
        return found
    return reason, ""


def _by_code(code: int, vague: str) -> str:
    return "MemberLost" if MEMBER_LOST_FIRST <= code <= MEMBER_LOST_MAX else EXIT_REASONS.get(code, vague)


def members_lost(failure: Failure, text: str) -> tuple[int, ...]:
    """The indices of the members that went first, as a member that ended with them tells."""
    words = last_words(text)
    if words.members:
        return words.members
    code = failure.exit_code or 0
    return (code - MEMBER_LOST_FIRST,) if MEMBER_LOST_FIRST <= code <= MEMBER_LOST_MAX else ()
