"""Names and digests of pushed images."""

import pytest
from windlass_testbed import push
from windlass_testbed.errors import BedError


@pytest.mark.parametrize("registry", ["", "https://registry.example.com", "registry.example.com/team/", " a"])
def test_what_is_no_registry_is_refused(registry: str) -> None:
    with pytest.raises(BedError, match=r"^REGISTRY is .*; name a registry and a path without a scheme"):
        push.check(registry)


def test_an_image_has_the_name_that_the_charts_ask_for() -> None:
    push.check("127.0.0.1:5000/team")
    assert push.target("127.0.0.1:5000/team", "operator", "0.2.0") == "127.0.0.1:5000/team/windlass/operator:0.2.0"


def test_the_digest_is_that_of_the_last_line() -> None:
    """Layers have none of their own in the output."""
    output = "0a1b2c: Pushed\nlatest: digest: sha256:12ab size: 1234\n"
    assert push.digest(output) == "sha256:12ab"
    with pytest.raises(BedError, match="no digest"):
        push.digest("0a1b2c: Pushed")
