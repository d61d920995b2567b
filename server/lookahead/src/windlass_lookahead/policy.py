"""The speculation policy: how many drafts to plan, to verify and to wait for. Pure: the caller passes all times.

Its numbers, their units and their origins are in `core/policy_config.h`; docs/explanation/speculation.md tells the
rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass_lookahead._core import SpeculationPolicy, policy_defaults

Config = Mapping[str, float]

DEFAULTS: Config = policy_defaults()
"""Every number of the policy by its name."""


def drafts_to_plan(budget: int, most: int, *, is_full: bool) -> int:
    """Drafts that the scheduler plans for a request with this draft budget; a full step plans those worth a place."""
    return min(most, max(0, budget - 1)) if is_full or not budget else most


__all__ = ["DEFAULTS", "Config", "SpeculationPolicy", "drafts_to_plan"]
