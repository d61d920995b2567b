"""The election inside a cluster: a Lease (`windlass_base.kube.lease`), asked for on the thread of `activation`."""

import logging
from collections.abc import Callable

from windlass_base.kube.lease import Lease, LeaseName, LeaseReply, LeaseTimes, Steps, boot_time
from windlass_base.kube.service_account import KubeApi, KubeError

log = logging.getLogger("windlass_license")
TIMES = LeaseTimes(duration_s=15, deadline_s=10.0, renew_s=2.0, watch_s=2.0, request_s=5.0)
"""The same as Kubernetes' own leader election; a request ends within KubeApi's five seconds."""


class KubeLease:
    """One replica's Lease."""

    def __init__(
        self, api: KubeApi, name: LeaseName, times: LeaseTimes = TIMES, clock: Callable[[], float] = boot_time
    ) -> None:
        self._api, self._name = api, name
        self._lease = Lease(name, times, clock)
        self.period_s = times.renew_s
        self.valid, self.holder = self._lease.holds, self._lease.holder

    def attempt(self) -> bool:
        """Take or renew the Lease; a server that does not answer leaves things as they are until the deadline."""
        try:
            self._run(self._lease.attempt())
        except KubeError as error:
            log.warning("cannot take or renew the Lease %s/%s: %s", self._name.namespace, self._name.name, error)
        return self.valid()

    def release(self) -> None:
        """Empty the Lease, so that the next replica need not wait; only when it is ours."""
        try:
            self._run(self._lease.release())
        except KubeError as error:
            log.warning("the Lease was not released, it runs out by itself: %s", error)

    def _run(self, steps: Steps) -> None:
        try:
            request = next(steps)
            while True:
                request = steps.send(LeaseReply(*self._api.call(request.method, request.path, request.body)))
        except StopIteration:
            return
