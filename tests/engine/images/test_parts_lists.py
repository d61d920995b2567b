"""The lists of parts (SBOM) in the serving images."""

import pytest
from windlass_testbed.parts_lists import LIST, parts_list


@pytest.mark.parametrize("name", ["server-cpu", "deepspeed"])
def test_every_distribution_is_listed(engine, name):
    found = parts_list(engine.paths, name)
    assert (found.label, found.format, found.unlisted) == (LIST, "CycloneDX", ())
    assert found.parts >= 100
