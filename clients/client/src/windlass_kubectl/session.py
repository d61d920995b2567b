"""What every command works with: its options, the client, and where its words go."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Self

from windlass_base.kube.access import find_access
from windlass_client.client import AsyncClient

from windlass_kubectl.harmless import harmless
from windlass_kubectl.output import emit
from windlass_kubectl.paint import Paint

FIELD_MANAGER = "kubectl-windlass"


class Session:
    """One run of the plug-in."""

    def __init__(self, options: argparse.Namespace) -> None:
        """AccessError when there is no cluster to talk to."""
        self.options = options
        access = find_access(
            kubeconfig=options.kubeconfig, context=options.context, namespace=options.namespace, env=os.environ
        )
        self.client = AsyncClient(access, field_manager=FIELD_MANAGER)
        self.namespace = access.namespace
        terminal = sys.stdout.isatty()
        self.redraws = self.is_terminal = terminal
        _encode_everything()
        self.paint = Paint(
            colour=terminal and "NO_COLOR" not in os.environ,
            unicode="utf" in (sys.stdout.encoding or "").lower(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()

    @property
    def is_text(self) -> bool:
        """Whether people read the answer."""
        return bool(self.options.output == "text")

    def emit(self, document: Mapping[str, object]) -> None:
        """A document for programs, as json or yaml."""
        print(emit(document, self.options.output), flush=True)

    @staticmethod
    def say(text: str) -> None:
        """Words for people, on standard output; foreign text in them is made harmless."""
        print(harmless(text), flush=True)

    def data(self, text: str, end: str = "\n") -> None:
        """Foreign text that is itself the answer: true to the byte in a pipe, harmless on a terminal."""
        print(harmless(text) if self.is_terminal else text, end=end, flush=True)

    @staticmethod
    def note(text: str) -> None:
        """Words beside the answer, on standard error."""
        print(harmless(text), file=sys.stderr, flush=True)

    @staticmethod
    def now() -> datetime:
        """The clock, for ages."""
        return datetime.now(UTC)

    def kubectl_flags(self, namespace: str | None = None) -> list[str]:
        """The same cluster and namespace, unless another is named, for a kubectl that is started beside."""
        given = (("--kubeconfig", self.options.kubeconfig), ("--context", self.options.context))
        return [*(f"{flag}={value}" for flag, value in given if value), f"--namespace={namespace or self.namespace}"]


def _encode_everything() -> None:
    """Bytes that are no UTF-8 go out as they came; a character that the locale lacks is written as its escape."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="surrogateescape" if "utf" in out.encoding.lower() else "backslashreplace")
