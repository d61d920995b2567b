"""The record of places where our plug-ins enter the engine, against the engine of this image."""

from windlass.doctor import engine
from windlass.doctor.integrations import points, signatures


def test_the_record_holds_every_method_of_the_engine_that_we_replace() -> None:
    """And has it as the engine does; what one engine lacks, as kernels of another device, is not compared."""
    folder = engine.installed()
    assert folder is not None
    found = signatures(points(engine.sources()), engine.reader(folder))
    known = engine.record().places
    assert {place: text for place, text in found.items() if known.get(place) != text} == {}
    assert len(found) > 150
