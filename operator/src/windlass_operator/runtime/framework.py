"""What kopf is told: how it logs in, what it follows, and that it keeps nothing of its own in the cluster.

kopf runs the operator: start and end, signals, login, lists and streams. It gets no state handlers, so it
sets no finalizer and no annotation, and posts no Event. `run.py` calls this module; nothing else knows kopf but
`handlers.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import kopf
import msgspec

from windlass_operator.cluster.rest import HEADERS, Login
from windlass_operator.cluster.streams import SILENCE_S, Stream
from windlass_operator.cluster.wire import OBJECTS_MAX, Wire
from windlass_operator.runtime.handlers import WATCHES

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
IDLE_S = 1.0  # until kopf's worker of a stream that is quiet ends
PAUSE_S = 0.2  # between two streams
STOP_S = 2.0


class NoDiffs(kopf.DiffBaseStorage):
    """Nobody reads kopf's diffs: the handlers only look. Made anew for each event they are 80 % of its price."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:  # noqa: ANN401 - kopf's own
        """Nothing to compare."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> None:
        """Nothing was kept."""

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nothing is kept."""


class NoProgress(kopf.ProgressStorage):
    """No handler has a progress to keep."""

    def fetch(self, *, key: str, body: kopf.Body) -> None:
        """Nothing was kept."""

    def store(self, *, key: str, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:  # noqa: ANN401 - kopf's own
        """Nothing is kept."""

    def purge(self, *, key: str, body: kopf.Body, patch: kopf.Patch) -> None:
        """Nothing is there."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Nothing is touched."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Nothing of it is kopf's."""
        return essence


def settings(*, discover: bool) -> kopf.OperatorSettings:
    """kopf's settings; `discover`: it follows the cluster's CRDs, and begins a kind's stream when it is served."""
    told = kopf.OperatorSettings()
    told.posting.enabled = False
    told.peering.standalone = True
    told.scanning.disabled = not discover
    told.persistence.diffbase_storage = NoDiffs()
    told.persistence.progress_storage = NoProgress()
    told.watching.chunk_size = OBJECTS_MAX
    told.watching.inactivity_timeout = SILENCE_S
    told.watching.reconnect_backoff = PAUSE_S
    told.queueing.idle_timeout = IDLE_S
    told.queueing.exit_timeout = STOP_S
    told.queueing.error_delays = (0.0,)  # a throttled worker skips events, and it has those of a whole stream
    for row in WATCHES:
        if row.labels:
            told.watching.label_selectors[row.kind.names] = row.labels
    return told


def identity(pod_name: str) -> Any:  # noqa: ANN401 - kopf's own type, which it does not export
    """Who kopf takes this process for. It would ask for the user's name, and a container's user has none."""
    return pod_name or "windlass-operator"


def add_login(registry: kopf.OperatorRegistry, login: Login, followed: Mapping[str, Stream]) -> None:
    """kopf's session: our login, and the wire on its way; made anew when the API server refuses the last one."""

    async def log_in(**_: object) -> kopf.AiohttpSession:
        wire = Wire(followed, login.headers, login.renew, {CRDS: _group_alone})
        session = login.session(middlewares=(wire,), headers=HEADERS)
        return kopf.AiohttpSession(server=login.server, aiohttp_session=session)

    kopf.on.login(id="login", registry=registry)(log_in)


class Crd(msgspec.Struct):
    """What kopf reads of a CRD; the rest of one may be megabytes."""

    class Meta(msgspec.Struct):
        """Who it is."""

        name: str
        uid: str
        resourceVersion: str  # noqa: N815 - the API server's spelling

    class Spec(msgspec.Struct):
        """Whose API it defines."""

        group: str

    metadata: Meta
    spec: Spec


def _group_alone(raw: bytes) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(raw, type=Crd))
