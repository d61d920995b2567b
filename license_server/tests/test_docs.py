"""The reference page holds every option, reason and variable that the code has."""

import re
from pathlib import Path
from typing import Any

from windlass_license.cli import command_line
from windlass_license.errors import ReviewError, StandByError, StoreError, UnknownCallerError
from windlass_license.rules.audit import FILTERS
from windlass_license.rules.model import Refusal
from windlass_license.settings import (
    ADMIN_TOKEN_VARIABLE,
    KUBE_LEASE_VARIABLE,
    LEASE_AUTH_VARIABLE,
    PUBLIC_KEYS_VARIABLE,
)

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "license-server.md").read_text()


def test_every_option_is_documented() -> None:
    """An option without a word about it is an option nobody finds."""
    help_ = command_line().format_help()
    (commands,) = [action for action in command_line()._actions if action.choices]
    assert commands.choices
    for name, command in dict(commands.choices).items():
        assert name in help_
        assert name in PAGE
        missing = [flag for flag in re.findall(r"--[a-z-]+", command.format_help()) if flag not in PAGE]
        assert missing in ([], ["--help"])


def test_every_reason_and_variable_is_documented() -> None:
    """What a user meets in an answer or may set is on the page."""
    words = [
        *Refusal,
        StandByError.reason,
        ReviewError.reason,
        UnknownCallerError.reason,
        LEASE_AUTH_VARIABLE,
        StoreError.reason,
        PUBLIC_KEYS_VARIABLE,
        ADMIN_TOKEN_VARIABLE,
        KUBE_LEASE_VARIABLE,
    ]
    assert [word for word in words if f"`{word}`" not in PAGE] == []


def test_every_path_and_audit_filter_is_documented(server: Any) -> None:
    """What can be asked is on the page."""
    paths = [path.partition("{")[0] for path in server.client.get("/openapi.json").json()["paths"]]
    assert [path for path in paths if path not in PAGE] == []
    assert [name for name in (*FILTERS, "limit", "format") if f"`{name}`" not in PAGE] == []
