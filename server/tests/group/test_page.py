"""docs/reference/groups.md is printed from the group's tables; WINDLASS_GOLDEN=write rewrites it."""

import os
from pathlib import Path

from windlass.group import connection, contract
from windlass.group.contract import EXITS, VARIABLES, Exit, Variable
from windlass.group.follower import CONNECT_S_MAX, RETRY_S
from windlass.group.ray_cluster import START_S_MAX
from windlass.supervisor import silence
from windlass.supervisor.board import READY_PATH
from windlass.supervisor.supervise import GROUP_STOP_S_MAX

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "groups.md"
HEAD = """\
# Groups: one model over several machines

<!-- Printed from contract.py: WINDLASS_GOLDEN=write pytest server/tests/group/test_page.py -->

A group serves a model that is too big for one machine. Each member is a container with the same image and the same
start command; the environment says its place. Member 0 is the head: it serves the API. The others are followers: they
have no API, only the facts port. The group starts as one and ends as one.

## What a member is told

| variable | meaning | default |
| --- | --- | --- |
"""
AFTER_VARIABLES = """
`WINDLASS_GROUP_HEAD` and `WINDLASS_GROUP_SIZE` make a member; without both a machine serves alone. An impossible value
ends the start with exit code 2 and a sentence. The variables hold for `windlass run`, `vllm serve` and
`python3 -m vllm.entrypoints.openai.api_server` alike. The group sets `--nnodes` and its companions, and refuses them
when they are given by hand. On machines with several networks `VLLM_HOST_IP` says which address is this member's.

| | the head's engine gets | a follower runs | on CPUs |
| --- | --- | --- | --- |
| `ray` | `--distributed-executor-backend ray` | `ray start --address=… --block` | refused by the engine |
| `native` | `--nnodes … --node-rank 0 --master-addr … --master-port …` | `vllm serve … --headless` | works |

`--tensor-parallel-size` is all cards of the group, or all cards ÷ `--pipeline-parallel-size`. A member on CPUs counts
as one card, and has no stages. The group keeps values of yours that fit. TP × PP is at most the cards of the group.
With `native` each member takes an equal share. `--worker-num` and a group exclude each other.

A StatefulSet fits: its pods' names end with their index. Its pods must start at the same time
(`podManagementPolicy: Parallel`). DNS must name the head before it is ready (`publishNotReadyAddresses`).

All ports between the members have to be open: the engine and Ray open more of them as they need. These ports
authenticate nobody, so keep others out with a network policy. The operator makes one for its groups.

Before a pod ends, its `preStop` hook runs `python3 -m windlass.group.leave SECONDS`. The head waits until no client
sends it new requests, then finishes its answers. These answers need the followers' cards. A follower therefore stays
until the head has gone, at most SECONDS + 20 s.

## How it starts

1. Each member opens its facts port. The head opens the port where members meet, and followers connect to it. They try
   again every {retry:g} s until it answers; a try lasts at most {connect:g} s.
2. Each member asks for the license of its own GPUs. This may take any time: a connected member does not time out.
3. When all members are connected and ready, the head sends *go*, and all engines start. With `ray` the head starts Ray
   before it sends *go*, and followers join it. The head's engine starts when Ray itself counts all members.
4. When the head's API has answered its [first chat](startup.md#the-first-chat), the head tells the followers, and
   their phase is `serving` too. `GET {ready}` on the facts port then answers 200, and 503 before. On the head it asks
   the API each time. So one probe fits all members.

Members of two revisions (`WINDLASS_GROUP_REVISION`) never make a group. A member that meets a head of another revision
waits outside and comes again. Pods that replace others one by one therefore never mix with them.

Before *go* a member may leave and come again. After *go* the group is one: when a member ends, all end, and Kubernetes
starts all again. While members are missing, the facts port shows the phase `group` and the missing members:

```json
"group": {{"head": "qwen-0.qwen", "size": 4, "index": 0, "engine": "ray", "waitingFor": [2],
          "message": "waits for member 2 of 4 to come"}}
```

## How it ends

A member keeps its connection to the head as long as it lives, and says why it goes. vLLM's own group needs this: it
does not notice a lost member while there are no requests. Without this connection a head whose follower was killed
answered `/health` with 200 while no client asked. A follower whose head was killed waited on.

A member that failed exits with its own code. Every other member exits with the code that names the failed one. The
container's termination message has the sentence, and the indices as `members`.

| exit code | reason | who failed | meaning |
| --- | --- | --- | --- |
"""
TIMES_HEAD = """
When member 2 runs out of memory it ends with 137, and all others end with 102.

## Time-outs

| what | limit | variable |
| --- | --- | --- |
"""
TIMES = (
    ("members wait for each other, from the moment when one is missing", "{timeout} s", contract.TIMEOUT.name),
    ("a member is silent; a live member sends {beats} heartbeats in this time", "{lost} s", contract.LOST_AFTER.name),
    ("the engine has not answered and says nothing new", "{start} s", silence.VARIABLE),
    ("Ray's part on the head starts", "{ray:g} s", ""),
    ("an engine that lost its group ends by itself, then it is killed", "{stop:g} s", ""),
)  # fmt: skip
TAIL = """
`WINDLASS_START_TIMEOUT` holds for servers without a group too. An engine that does not answer yet has time as long as
its log says something new. Another time, process or level does not make a line new. A big model names each file that it
loads; an engine that hangs repeats one complaint. In a group the head's engine counts. 0 means no limit.
"""


def variable_row(one: Variable) -> str:
    return f"| `{one.name}` | {one.meaning} | {one.default or '–'} |\n"


def exit_row(one: Exit) -> str:
    reason = f"`{one.reason}`" if one.reason else "–"
    return f"| {one.code} | {reason} | {one.failed} | {one.meaning} |\n"


def page() -> str:
    """The reference page."""
    figures = {
        "timeout": contract.TIMEOUT.default,
        "lost": contract.LOST_AFTER.default,
        "beats": connection.BEATS_PER_SILENCE,
        "start": silence.DEFAULT_S,
        "ray": START_S_MAX,
        "stop": GROUP_STOP_S_MAX,
    }
    times = [
        f"| {what.format(**figures)} | {limit.format(**figures)} | {f'`{variable}`' if variable else '–'} |\n"
        for what, limit, variable in TIMES
    ]
    return "".join(
        (
            HEAD,
            *map(variable_row, VARIABLES),
            AFTER_VARIABLES.format(retry=RETRY_S, connect=CONNECT_S_MAX, ready=READY_PATH),
            *map(exit_row, EXITS),
            TIMES_HEAD,
            *times,
            TAIL,
        )
    )


def test_page_is_current() -> None:
    """The docs say what the tables say; WINDLASS_GOLDEN=write rewrites the page."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_variable_is_read() -> None:
    """A row of the table that nobody reads would be a promise."""
    source = "".join(path.read_text() for path in Path(contract.__file__).parent.glob("plan.py"))
    names = {name for name, value in vars(contract).items() if isinstance(value, Variable)}
    assert len(names) == len(VARIABLES)
    assert [name for name in sorted(names) if f"contract.{name}" not in source] == []
