"""The lists of parts (SBOM) in the images that the cluster runs beside the serving image."""

import pytest
from windlass_testbed.parts_lists import LIST, parts_list


@pytest.mark.parametrize(("name", "parts_min"), [("operator", 20), ("license-server", 10), ("console", 10)])
def test_every_distribution_is_listed(bed, name, parts_min):
    found = parts_list(bed.paths, name)
    assert (found.label, found.format, found.unlisted) == (LIST, "CycloneDX", ())
    assert found.parts >= parts_min
