"""`kubectl windlass logs`."""

from __future__ import annotations

from windlass_api.names import SERVER
from windlass_client.logs import LogQuery, read
from windlass_client.values import LogLine

from windlass_kubectl.named_service import named_service, not_ready
from windlass_kubectl.output import as_json, as_yaml
from windlass_kubectl.parser import OK
from windlass_kubectl.session import Session


async def run(session: Session) -> int:
    """Lines as they come; with several pods each begins with its pod's name."""
    options = session.options
    service = await named_service(session, options.name)  # a misspelt name is no service without pods
    pods = await session.client.pods_at_work(options.name)
    if not options.pod and all(pod.container != SERVER for pod in pods) and (reason := not_ready(service)):
        session.note(f"no serving pods; {reason}")
    several = (len(pods) > 1 or options.follow) and not options.pod
    ask = LogQuery(
        session.namespace,
        options.name,
        options.pod,
        options.follow,
        options.previous,
        options.tail,
        container=next((pod.container for pod in pods if pod.name == options.pod), SERVER),
        raw=True,
    )
    lines = read(session.client.api, ask, session.client.pods_at_work)
    async for line in lines:
        _show(session, line, several)
    return OK.code


def _show(session: Session, line: LogLine, several: bool) -> None:
    """A line for people, or one JSON object, or one YAML document."""
    if session.is_text:
        text = line.text.removesuffix("\r") if session.is_terminal else line.text
        session.data(f"{line.pod}: {text}" if several else text, end="" if line.goes_on and not several else "\n")
        return
    said = line.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    document = {"pod": line.pod, "container": line.container, "line": said}
    session.say(as_json(document) if session.options.output == "json" else f"---\n{as_yaml(document).rstrip()}")
