"""`kubectl windlass logs`."""

from __future__ import annotations

import json

import yaml

from windlass_operator.client.values import LogLine
from windlass_operator.kubectl.parser import OK
from windlass_operator.kubectl.session import Session


async def run(session: Session) -> int:
    """Lines as they come; with several pods each begins with its pod's name."""
    options = session.options
    await session.client.get(options.name)  # a misspelt name is told as such, not as a service without pods
    pods = await session.client.pods(options.name)
    several = (len(pods) > 1 or options.follow) and not options.pod
    lines = session.client.logs(
        options.name, pod=options.pod, follow=options.follow, previous=options.previous, tail_lines=options.tail
    )
    async for line in lines:
        session.say(_told(line, options.output, several))
    return OK.code


def _told(line: LogLine, output: str, several: bool) -> str:
    """A line for people, or one JSON object, or one YAML document."""
    if output == "text":
        return f"{line.pod}: {line.text}" if several else line.text
    document = {"pod": line.pod, "container": line.container, "line": line.text}
    if output == "json":
        return json.dumps(document, ensure_ascii=False)
    return "---\n" + str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True)).rstrip()
