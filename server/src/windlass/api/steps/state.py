"""State that outlives a request: each part belongs to one step, and the census counts them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.front.budget import Budget, Shares
from windlass.front.gate import Gate
from windlass.front.keys import KeyFile, KeyRing
from windlass.front.limits.limiter import Limiter
from windlass.front.limits.replicas import Replicas
from windlass.front.limits.settings import replicas
from windlass.front.outbox import UNREAD_BYTES_MAX, Stock
from windlass.front.processes.member import Link, SharedGate, SharedLimits
from windlass.front.settings import KEYS_VARIABLE, SETTINGS_VARIABLE, ApiSettings
from windlass.front.usage import journal
from windlass.front.usage.account import Accounts


@dataclass(slots=True)
class State:
    """Parts of one API process; places and limits are the owner's where there are several processes."""

    settings: ApiSettings
    link: Link | None
    """The connection to the owner of several processes; None for a single process."""
    keys: KeyRing
    replicas: Replicas | SharedLimits
    accounts: Accounts
    gate: Gate | SharedGate
    bodies: Budget
    stock: Stock
    refused: Counter[int] = field(default_factory=Counter)
    """Refusals by HTTP status."""
    open_sockets: int = 0

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> State:
        """Read settings and keys; a wrong setting stops the server from answering at all."""
        settings = ApiSettings.from_json(environment.get(SETTINGS_VARIABLE, ""))
        link = Link.of(environment)
        file = KeyFile(settings.keys_file) if settings.keys_file else None
        keys = KeyRing(environment.get(KEYS_VARIABLE, ""), file)
        limits = SharedLimits(link) if link else replicas(environment, keys)
        return cls(
            settings,
            link,
            keys,
            limits,
            Accounts(Limiter(limits), journal.Journals(journal.root(environment))),
            SharedGate(link) if link else Gate(settings.concurrency, settings.queue),
            Budget(settings.bodies_bytes),
            Stock(Shares(UNREAD_BYTES_MAX // settings.processes)),
        )
