"""Draws: a spec, what is wrong with it on purpose, how it is changed afterwards, and what comes back from the cluster.

Run as a program it prints a draw a line, by count and seed. A program of its own because hypothesis also draws from
the constants of the modules that happen to be loaded: only so the same seed always gives the same draws.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from typing import Any

from hostile_answers import SERVED, deployment_statuses, messages, notes, pod_statuses
from hostile_mends import mended
from hostile_specs import Spec, spec_schema, values
from hostile_wrongs import wrong
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

WRONG_PERCENT = 25
EDITED_PERCENT = 30
WRONG_EDIT_PERCENT = 15
ANSWERED_PERCENT = 85
HANDFUL = 100
ALWAYS = ("model",)
RETRY = "serving.windlass.dev/retry"


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """A spec that keeps every rule: the model, and a few other parts."""
    parts = spec_schema()["properties"]
    names = draw(st.lists(st.sampled_from(sorted(set(parts) - set(ALWAYS))), max_size=4, unique=True))
    spec = {name: draw(section(name)) for name in (*ALWAYS, *names)}
    return mended(copy.deepcopy(spec))


def section(name: str) -> st.SearchStrategy[Any]:
    """One part of a spec; of the model exactly one source, and most often one that can be looked at."""
    return model() if name == "model" else values(spec_schema()["properties"][name])


@st.composite
def model(draw: st.DrawFn) -> Spec:
    """spec.model."""
    parts = spec_schema()["properties"]["model"]["properties"]
    kinds = parts["source"]["properties"]
    kind = draw(st.sampled_from(("pvc", "pvc", "pvc", "nfs", "nfs", *sorted(kinds))))
    more = draw(st.lists(st.sampled_from(("download", "adapters", "")), max_size=1))
    rows = {name: draw(values(parts[name])) for name in more if name}
    plain = kind == "pvc" and draw(st.booleans())
    source = {"claimName": "models", "path": "demo"} if plain else draw(values(kinds[kind]))
    return {"id": draw(values(parts["id"])), "source": {kind: source}, **rows}


@st.composite
def edits(draw: st.DrawFn, spec: Spec) -> dict[str, Any]:
    """A change of an accepted spec: one of its parts anew, its model moved, stopped, brought back, tried again."""
    now = copy.deepcopy(spec)
    kind = draw(st.sampled_from(("section", "section", "model", "suspend", "replicas", "retry", "bare")))
    if kind == "section":
        name = draw(st.sampled_from(sorted(spec_schema()["properties"])))
        now[name] = draw(section(name))
    elif kind == "model":
        now["model"] = draw(model())
    elif kind == "suspend":
        now["suspend"] = not now.get("suspend", False)
    elif kind == "replicas":
        now["replicas"] = draw(st.sampled_from((0, 1, 2, 1000)))
    elif kind == "bare":
        now = {"model": now["model"]}
    note = {RETRY: draw(st.text(max_size=20))} if kind == "retry" else None
    return {"spec": mended(now), "note": note, "wrong": None}


@st.composite
def rightful(draw: st.DrawFn) -> dict[str, Any]:
    """A draw that the API server takes, as JSON; now and then one of its changes is refused."""
    spec, changes = draw(specs()), []
    last = spec
    for _ in range(draw(st.integers(1, 3)) if _happens(draw, EDITED_PERCENT) else 0):
        one = draw(edits(last))
        if _happens(draw, WRONG_EDIT_PERCENT):
            one["spec"], why = draw(wrong(one["spec"]))
            one["wrong"] = why.to_dict()
        else:
            last = one["spec"]
        changes.append(one)
    back = draw(answers()) if _happens(draw, ANSWERED_PERCENT) else {}
    return {"spec": spec, "wrong": None, "edits": changes, **back}


@st.composite
def wrongful(draw: st.DrawFn) -> dict[str, Any]:
    """A draw that breaks one rule."""
    spec, told = draw(wrong(draw(specs())))
    return {"spec": spec, "wrong": told.to_dict(), "edits": []}


def _happens(draw: st.DrawFn, percent: int) -> bool:
    return (draw(st.integers(0, 99)) * 61 + 17) % 100 < percent  # small numbers are drawn more often


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    """What comes back."""
    return {
        "message": draw(messages()),
        "exit_code": draw(st.sampled_from((0, 0, 0, 0, 1, 137))),
        "pods": draw(st.lists(pod_statuses(), max_size=2)),
        "served": draw(st.integers(0, len(SERVED) - 1)),
        "deployment": draw(deployment_statuses()),
        "annotations": draw(notes()) if draw(st.integers(0, 3)) == 0 else {},
    }


def take(strategy: st.SearchStrategy[Any], count: int, seed_: int) -> list[dict[str, Any]]:
    """Draw `count` times."""
    rows: list[dict[str, Any]] = []

    @seed(seed_)
    @settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(strategy)
    def one(row: dict[str, Any]) -> None:
        rows.append(row)

    one()
    return rows[:count]


def draws(count: int, seed_: int) -> Iterator[dict[str, Any]]:
    """As many draws, in handfuls of which a fixed share is wrong."""
    for start in range(0, count, HANDFUL):
        size = min(HANDFUL, count - start)
        bad = size * WRONG_PERCENT // 100
        seeds = (seed_ * 1_000_003 + 2 * start, seed_ * 1_000_003 + 2 * start + 1)
        yield from take(rightful(), size - bad, seeds[0])
        yield from take(wrongful(), bad, seeds[1])


if __name__ == "__main__":
    for row in draws(int(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps(row), flush=True)
