"""The settings that a plan's pod starts with, each with its source, as `windlass run --explain` has them at the start.

A model directory may change them further: its files, its checkpoint and the machine are seen by the server alone. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windlass_sizing.settings.flags import BY_NAME, FLAGS
from windlass_sizing.settings.in_force import Layers, settings_in_force
from windlass_sizing.settings.parse import split
from windlass_sizing.settings.setting import DEFAULT, FLAG, PLAN, Setting

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.args import vllm_flags
from windlass_api.plan.model import Plan
from windlass_api.plan.start import ROWS, Start, start_of


def settings_table(spec: LLMServiceSpec, plan: Plan) -> tuple[Setting, ...]:
    """The rows that something above the default gives; none for a server that is not `windlass run`."""
    start = start_of(spec)
    return tuple(_rows(start, plan)) if start.is_vllm and start.is_ours else ()


def _rows(start: Start, plan: Plan) -> Iterator[Setting]:
    """A planned flag wins over a variable; a user's own flag wins over both."""
    planned = settings_in_force(Layers(split(vllm_flags(start.spec, plan), BY_NAME)), ROWS).rows
    for flag in FLAGS:
        own, written = start.settings.rows.get(flag.name), planned.get(flag.name)
        if written and written.source == FLAG and (own is None or own.source != FLAG):
            is_own = own is not None and own.source != DEFAULT and own.value == written.value
            yield own if own and is_own else replace(written, source=PLAN)
        elif own and own.source != DEFAULT:
            yield own
