"""What the client raises beside the errors of every request (`windlass_base.kube.errors`).

ClientError
├── NoLogsError          the container has not started yet, or has no earlier run
└── NoFactsError         a plan preview has nothing to plan from
"""

from __future__ import annotations

from windlass_base.kube.errors import ClientError


class NoLogsError(ClientError):
    """There is no log to read yet."""


class NoFactsError(ClientError):
    """Nothing is known of the model, so nothing can be planned."""
