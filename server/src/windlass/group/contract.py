"""What the operator tells each member of a group, and the exit codes that tell which member failed: the only tables.

`plan` reads the variables, `windlass doctor` knows the same names, docs/reference/groups.md prints both tables. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.errors import (
    EngineStalledError,
    FirstChatError,
    GroupIncompleteError,
    MemberLostError,
    RayError,
    StartTimeoutError,
)

NATIVE, RAY = "native", "ray"
ENGINES = (RAY, NATIVE)


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable; `default` is what holds when it is not set."""

    name: str
    meaning: str
    default: str = ""


HEAD = Variable("WINDLASS_GROUP_HEAD", "host name or address of the head, the same for all members")
SIZE = Variable("WINDLASS_GROUP_SIZE", "members of the group, the head among them; 1 is no group", "1")
INDEX = Variable("WINDLASS_GROUP_INDEX", "this member, 0 is the head; without it the number that ends the host name")
ENGINE = Variable("WINDLASS_GROUP_ENGINE", "`ray`, or `native`: vLLM's own; Ray on GPUs, vLLM's own on CPUs")
TIMEOUT = Variable("WINDLASS_GROUP_TIMEOUT", "seconds that members wait for each other; 0 is for ever", "1800")
LOST_AFTER = Variable("WINDLASS_GROUP_LOST_AFTER", "seconds of silence after which a member counts as lost", "60")
PORT = Variable("WINDLASS_GROUP_PORT", "port of the head where members meet", "8503")
ENGINE_PORT = Variable("WINDLASS_GROUP_ENGINE_PORT", "port of the head for the engines, with `native`", "29501")
RAY_PORT = Variable("WINDLASS_GROUP_RAY_PORT", "port of the head for Ray, with `ray`", "6379")
REVISION = Variable("WINDLASS_GROUP_REVISION", "any text; only members that were told the same one make a group")
VARIABLES = (HEAD, SIZE, INDEX, ENGINE, TIMEOUT, LOST_AFTER, PORT, ENGINE_PORT, RAY_PORT, REVISION)

HOST_IP = "VLLM_HOST_IP"
"""The engine's own variable: the address of this member, on machines that have several."""
RAY_ADDRESS = "RAY_ADDRESS"
"""Ray's own variable; the head's engine is told its cluster by it."""


@dataclass(frozen=True, slots=True)
class Exit:
    """One exit code of a member: which member failed, and why."""

    code: str
    reason: str
    failed: str
    meaning: str


EXITS = (
    Exit("the engine's", "EngineFailed", "this one", "its engine ended by itself; also 2, 3 and 4 as without a group"),
    Exit(str(StartTimeoutError.exit_code), StartTimeoutError.reason, "this one",
         "its engine neither answered nor said anything new for `WINDLASS_START_TIMEOUT` seconds"),
    Exit(str(FirstChatError.exit_code), FirstChatError.reason, "the head",
         "its engine is up and does not answer the [first chat](startup.md#the-first-chat)"),
    Exit(str(EngineStalledError.exit_code), EngineStalledError.reason, "the head",
         "the engine held requests and [ended no step](startup.md#an-engine-that-hangs)"),
    Exit(str(GroupIncompleteError.exit_code), GroupIncompleteError.reason, "those named in `members`",
         f"they did not come in the time of `{TIMEOUT.name}`"),
    Exit(str(RayError.exit_code), RayError.reason, "this one", "its part of the Ray cluster did not start, or ended"),
    Exit(f"{MemberLostError.first_code} + index", MemberLostError.reason, "the member of that index, 0 is the head",
         f"it went; this one ended with it. From index {MemberLostError.index_max} on the code stays "
         f"{MemberLostError.first_code + MemberLostError.index_max}, and `members` has the index"),
    Exit("0", "", "none", "it was told to stop"),
)  # fmt: skip
