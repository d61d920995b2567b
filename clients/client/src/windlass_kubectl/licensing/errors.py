"""What `kubectl windlass license` cannot do; the text is one sentence with what to do next."""

from __future__ import annotations

from windlass_base.kube.errors import ClientError


class LicensingError(ClientError):
    """A step of licensing failed; what was done before it stays, and the same command goes on from there."""
