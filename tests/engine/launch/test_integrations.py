"""The record of places where our plug-ins enter the engine, against the engine of the image."""

from typing import Any

from windlass.engine.integrations.release import record


def test_the_record_holds_every_method_of_the_engine_that_we_replace(engine: Any) -> None:
    """And as the engine has it: `python -m windlass.engine.integrations.release FOLDER RELEASE` writes it anew."""
    found = engine.result("/repo/tests/engine/launch/engine_places.py")
    known = record().places
    assert {place: text for place, text in found.items() if known.get(place) != text} == {}
    assert len(found) > 150
