"""Decides which adapters are served under which name, or which one is merged. Pure: facts and wishes in, a plan out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from windlass_sizing.model.lora_config import engine_rank
from windlass_sizing.placement import words

from windlass.engine.adapters.model import FOUND, ONLY, Adapter, AdapterPlan, Adapters, Merge, Want
from windlass.errors import ModelError, UsageError

LAYOUT = 1
"""Raised when a merged directory is written otherwise: older ones are then made again."""


def decide(adapters: Adapters, want: Want) -> AdapterPlan:
    """The plan; UsageError for what was said wrongly, ModelError for an adapter that the model cannot do without."""
    if want.merge:
        return _merged(adapters, want)
    if want.enabled is False:
        return _none(adapters)
    found, notes = _usable(adapters)
    own = _own(adapters, want)
    for adapter in adapters.given:
        _check(adapter, UsageError)
    _check_names(adapters.given, found, want.served)
    served = (*own, *adapters.given, *found)
    return AdapterPlan(
        served=served,
        base_names=_base_names(want, served) if own else (),
        lead=tuple(adapter.name for adapter in own),
        rank=_rank(served, want.max_rank),
        notes=(*adapters.notes, *notes, *(line for one in _once(served) for line in words.ignored(one.ignored))),
    )


def _once(served: tuple[Adapter, ...]) -> tuple[Adapter, ...]:
    """Adapters by directory: the model's own has all of its names."""
    return tuple({adapter.path: adapter for adapter in served}.values())


def _none(adapters: Adapters) -> AdapterPlan:
    if adapters.own:
        told = "is an adapter itself; leave --enable-lora out, or name a complete model with --model"
        raise UsageError(f"--enable-lora false, and model directory {adapters.own.path} {told}")
    if adapters.given:
        raise UsageError(
            f'--enable-lora false, and --lora-modules names "{adapters.given[0].name}"; leave one of them out'
        )
    return AdapterPlan(notes=adapters.notes)


def _usable(adapters: Adapters) -> tuple[tuple[Adapter, ...], list[str]]:
    """Those of the model directory that nobody named otherwise, and a sentence for each that is left out."""
    paths = {adapter.path for adapter in adapters.given}
    names = {adapter.name: adapter for adapter in adapters.given}
    usable, notes = [], []
    for adapter in adapters.found:
        if adapter.path in paths:
            continue
        if adapter.problem:
            notes.append(f"{_called(adapter)} is not served: it {adapter.problem}")
        elif adapter.name in names:
            notes.append(f"{_called(adapter)} is not served: --lora-modules gives its name to another")
        else:
            usable.append(adapter)
    return tuple(usable), notes


def _own(adapters: Adapters, want: Want) -> tuple[Adapter, ...]:
    """The model directory's own adapter under each of the model's names."""
    if adapters.own is None:
        return ()
    _check(adapters.own, ModelError)
    return tuple(replace(adapters.own, name=name) for name in want.served)


def _base_names(want: Want, served: tuple[Adapter, ...]) -> tuple[str, ...]:
    """The base without its adapter goes by its directory's name: the model's names are the adapter's."""
    name, taken = PurePosixPath(want.base).name or "base", {adapter.name for adapter in served}
    while name in taken:
        name += "-base"
    return (name,)


def _check(adapter: Adapter, error: type[ModelError | UsageError]) -> None:
    if adapter.problem:
        raise error(f"{_called(adapter)} {adapter.problem}")


def _called(adapter: Adapter) -> str:
    return f'adapter "{adapter.name}" ({adapter.path})'


def _check_names(given: tuple[Adapter, ...], found: tuple[Adapter, ...], served: tuple[str, ...]) -> None:
    for adapter in (*given, *found):
        if adapter.name in served:
            how = "with --lora-modules" if adapter.origin == FOUND else "in --lora-modules"
            raise UsageError(
                f"{_called(adapter)} has the model's own name; "
                f"give it another {how}, or the model with --served-model-name"
            )
    if twice := _twice(given):
        raise UsageError(
            f'--lora-modules names "{twice[0].name}" twice ({twice[0].path}, {twice[1].path}); '
            "give one of them another name"
        )
    if twice := _twice(found):
        raise UsageError(
            f'two adapters of the model directory are called "{twice[0].name}" ({twice[0].path}, {twice[1].path}); '
            f"name them with --lora-modules, as {twice[0].name}={twice[0].path} {twice[1].name}-2={twice[1].path}"
        )


def _twice(adapters: Iterable[Adapter]) -> tuple[Adapter, Adapter] | None:
    seen: dict[str, Adapter] = {}
    for adapter in adapters:
        if adapter.name in seen:
            return seen[adapter.name], adapter
        seen[adapter.name] = adapter
    return None


def _rank(served: tuple[Adapter, ...], most: int | None) -> int:
    if not served:
        return most or 0
    largest = max(served, key=lambda adapter: adapter.rank)
    if most is None:
        return engine_rank(largest.rank)
    if most < largest.rank:
        raise UsageError(
            f"--max-lora-rank {most} is less than the rank {largest.rank} of {_called(largest)}; "
            f"set {engine_rank(largest.rank)}, or leave it out"
        )
    return most


def _merged(adapters: Adapters, want: Want) -> AdapterPlan:
    """One adapter becomes part of the weights; others were trained on weights that are then no longer there."""
    adapter = _chosen(adapters, want)
    if adapter.merge_problem:
        raise UsageError(f"{_called(adapter)} cannot be merged: it {adapter.merge_problem}")
    if want.quantization:
        raise UsageError(
            f"{_called(adapter)} cannot be merged: the base's weights are quantized ({want.quantization}); "
            "leave --merge-lora out and serve it by name"
        )
    if others := [given.name for given in adapters.given if given.path != adapter.path]:
        raise UsageError(
            f'--merge-lora {adapter.name} changes the weights that adapter "{others[0]}" was trained on; '
            f"leave {others[0]} out of --lora-modules, or serve all of them by name"
        )
    left = [found.name for found in adapters.found if found.path != adapter.path]
    note = f"{', '.join(left)} not served beside the merged {adapter.name}: trained on the base's own weights"
    names = () if adapter is adapters.own or adapter.name in want.served else (*want.served, adapter.name)
    merge = Merge(want.base, adapter, adapters.shards, f"{want.cache}/merged/{_key(adapters, adapter, want.base)}")
    return AdapterPlan(base_names=names, merge=merge, notes=(*adapters.notes, *([note] if left else ())))


def _chosen(adapters: Adapters, want: Want) -> Adapter:
    own, name = (adapters.own,) if adapters.own else (), want.merge
    known: dict[str, Adapter] = {adapter.path: adapter for adapter in (*adapters.found, *adapters.given, *own)}
    fitting = [adapter for adapter in known.values() if _means(name, adapter, own, want.served)]
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(sorted({adapter.name for adapter in known.values()})) or "none"
    if fitting:
        places = ", ".join(adapter.path for adapter in fitting)
        raise UsageError(f"--merge-lora {name} means several adapters ({places}); name one, there are: {there}")
    raise UsageError(f"--merge-lora {name} names no adapter; there are: {there}")


def _means(name: str, adapter: Adapter, own: tuple[Adapter, ...], served: tuple[str, ...]) -> bool:
    return name in (ONLY, adapter.name) or (adapter in own and name in served)


def _key(adapters: Adapters, adapter: Adapter, base: str) -> str:
    shards = [(shard.name, shard.size, shard.mtime_ns) for shard in adapters.shards]
    identity = json.dumps([LAYOUT, base, shards, adapter.digest])
    return hashlib.sha256(identity.encode()).hexdigest()[:24]
