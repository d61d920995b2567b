"""docs/reference/troubleshooting.md is what the table of reasons says; `WINDLASS_GOLDEN=write` rewrites it."""

from __future__ import annotations

import os
from pathlib import Path

from windlass_operator.status import reasons

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "troubleshooting.md"
HEAD = """# Troubleshooting

Every reason that `kubectl get llm` shows as STATUS, that a condition or `status.failure` names, and that an Event
carries. It is generated from `operator/src/windlass_operator/status/reasons.py`; there are no others.

The message of the condition says what was found, and names the pod, file, claim or Secret.
`kubectl windlass status NAME` shows it with pods and Events, `kubectl describe llm NAME` with Events.
`status.failure.excerpt` holds the last lines of the container.

A crash that only a change can mend is tried three times; then the service has no pods and holds no GPU, and its message
begins with "stopped after 2 restarts". A replica over several nodes is given up after `spec.deployment.maxRestarts`.
Change the spec, or after a repair outside it:

```console
$ kubectl annotate llm NAME serving.windlass.dev/retry=$(date +%s) --overwrite
```

"""


def page() -> str:
    """The whole page."""
    return HEAD + "\n".join(
        (*_table("Trouble", reasons.WARNING), "", *_table("On the way, or well", reasons.NORMAL), "")
    )


def _table(title: str, severity: str) -> list[str]:
    rows = [row for row in reasons.ROWS if row.severity == severity]
    head = [
        f"## {title}",
        "",
        "| reason | what it means | what to do | tried again by itself |",
        "| --- | --- | --- | --- |",
    ]
    return [*head, *(f"| `{r.word}` | {r.meaning} | {r.remedy} | {'yes' if r.retryable else 'no'} |" for r in rows)]


def test_the_page_is_current():
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "run `make golden`"
