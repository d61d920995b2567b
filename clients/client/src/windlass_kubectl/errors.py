"""What the plug-in itself refuses; every other failure is a `windlass_base.kube.errors.ClientError` of the client's."""

from __future__ import annotations

from windlass_base.kube.errors import ClientError


class WrongOptionError(ClientError):
    """An option of the command line is wrong: exit code 2. The command's `prepare` finds it before any login."""
