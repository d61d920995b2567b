"""Tests of many cases in one item: each case is tried, and all that fail are named at once.

An item costs its collection in each worker and a report. A loop over fields, models or files is one item therefore.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Check = Callable[..., None]
SHOWN_CHARS = 100
HANG_S, HANG_CASE_S = 300, 5
"""Seconds that end a hang: those of any item, and more for each case."""


def every_case(names: str, cases: Iterable[Any], ids: Iterable[object] = ()) -> Callable[[Check], Check]:
    """Call a test with each case, in one item; `names` are the arguments that a case fills.

    A failing case is named by its id, or by its values where `ids` are none. Cases share the fixtures, so a test that
    changes one, or skips, is parametrized by pytest. One above another gives each case of both, as with pytest's.
    """
    words = re.findall(r"\w+", names)
    filled = [dict(zip(words, row if len(words) > 1 else [row], strict=True)) for row in cases]
    labels = list(map(str, ids)) or list(map(_shown, filled))
    if not filled:
        raise ValueError(f"no case for {', '.join(words)}: the test would test nothing")

    def decorated(check: Check) -> Check:
        import pytest  # of the tests' environment; the rest of the package works without it

        if inspect.iscoroutinefunction(check):
            raise TypeError(f"{check.__name__} is a coroutine function: parametrize it by pytest")

        @functools.wraps(check)
        def test(**fixtures: object) -> None:
            failures = [(label, _failure(check, fixtures | case)) for label, case in zip(labels, filled, strict=True)]
            errors = [(label, error) for label, error in failures if error is not None]
            if errors:
                texts = [f"{label}: {_where(check, error)}{error}" for label, error in errors]
                raise AssertionError(f"{len(errors)} of {len(filled)} cases:\n" + "\n".join(texts)) from errors[0][1]

        signature = inspect.signature(check)
        kept = [one for name, one in signature.parameters.items() if name not in words]
        test.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]  # pytest reads it
        return pytest.mark.timeout(HANG_S + HANG_CASE_S * len(filled))(test)

    return decorated


def _failure(check: Check, arguments: Mapping[str, Any]) -> BaseException | None:
    from _pytest.outcomes import Failed  # imported here as pytest is

    try:
        check(**arguments)
    except (Exception, Failed) as error:
        return error
    return None


def _where(check: Check, error: BaseException) -> str:
    """Return the line of the test in which a case failed, and the kind of an error that is no failed assertion."""
    file, line, trace = inspect.unwrap(check).__code__.co_filename, 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"line {line}: " + ("" if isinstance(error, AssertionError) else f"{type(error).__name__}: ")


def _shown(case: Mapping[str, Any]) -> str:
    texts = {name: repr(value) for name, value in case.items()}
    return ", ".join(f"{name}={text[:SHOWN_CHARS]}{'…' * (len(text) > SHOWN_CHARS)}" for name, text in texts.items())
