"""Step 5: the limits of the key, the account of what a request uses, and its trace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from windlass.api.steps.request import Request
from windlass.api.tracing import Traces
from windlass.front.intake import announced_bytes
from windlass.front.usage.account import Accounts


class Limits:
    """Begins the account of a request; refuses one over a limit of its key (429)."""

    def __init__(self, accounts: Accounts, environment: Mapping[str, str]) -> None:
        """`accounts` hold the totals; the environment says whether requests are traced."""
        self._accounts, self._traces = accounts, Traces(environment)

    async def __call__(self, request: Request, proceed: Callable[[Request], Awaitable[None]]) -> None:
        """Proceed with an account, and end it when the answer is over."""
        with self._traces.request(request.scope, request.path, request.key.name) as request.scope:
            account = await self._accounts.begin(request.key, announced_bytes(request.scope))
            request.account, request.answer.headers = account, account.headers
            try:
                await proceed(request)
            finally:
                account.end()
