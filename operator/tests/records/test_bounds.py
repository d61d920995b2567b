"""Bounds of the numbers that are read of objects: a tenant writes them, and the operator counts with them."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

import msgspec
from windlass_operator import records
from windlass_operator.records.base import Part


def parts(shape: type[Part] = Part) -> Iterator[type[Part]]:
    for one in shape.__subclasses__():
        yield one
        yield from parts(one)


def test_every_integer_of_a_record_has_bounds():
    """Of every class of every module of the package."""
    for module in pkgutil.iter_modules(records.__path__):
        import_module(f"{records.__name__}.{module.name}")  # which makes its classes known
    unbounded = []
    for part in set(parts()):
        info = msgspec.inspect.type_info(part)
        assert isinstance(info, msgspec.inspect.StructType)
        numbers = [row for row in info.fields if isinstance(row.type, msgspec.inspect.IntType)]
        unbounded += [f"{part}.{row.name}" for row in numbers if row.type.ge is None or row.type.le is None]
    assert unbounded == []
