"""The tables of annotations: what passes, what an administrator adds, and that the how-to names every key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from windlass_operator.manifests.allowed import INGRESS_ANNOTATIONS, POD_ANNOTATIONS, refused

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "expose.md"
STEERING = (
    "nginx.org/server-snippets",
    "haproxy-ingress.github.io/config-backend",
    "nginx.ingress.kubernetes.io/auth-url",
    "nginx.ingress.kubernetes.io/proxy-read-timeout ",
    "NGINX.INGRESS.KUBERNETES.IO/proxy-read-timeout",
    "proxy-read-timeout",
    "*",
    "",
)


@pytest.mark.parametrize("key", STEERING)
def test_a_key_that_no_row_names_is_refused(key):
    """By exact text: no prefix, no other case."""
    assert refused([key], INGRESS_ANNOTATIONS) == key
    assert not INGRESS_ANNOTATIONS.permits(key)


def test_an_administrator_adds_keys_and_domains():
    key = "konghq.com/plugins"
    assert refused([key], INGRESS_ANNOTATIONS, ["konghq.com/strip-path"]) == key
    assert refused([key], INGRESS_ANNOTATIONS, [key]) == ""
    assert refused([key], INGRESS_ANNOTATIONS, ["konghq.com/*"]) == ""


def test_a_domain_is_judged_with_all_below_it():
    """And no domain that only ends alike."""
    assert refused(["a.b.k8s.io/c"], POD_ANNOTATIONS) == "a.b.k8s.io/c"
    assert refused(["notk8s.io/c", "k8s.io.example/c", "plain"], POD_ANNOTATIONS) == "k8s.io.example/c"
    assert refused(["notk8s.io/c", "plain"], POD_ANNOTATIONS) == ""


def test_the_how_to_names_every_key_of_the_table():
    """A row a prefix, its keys behind it; neither has more than the other."""
    told = set()
    for line in PAGE.read_text().splitlines():
        if found := re.fullmatch(r"\| `([a-z.0-9-]+/)` \| (.*) \|", line):
            told |= {found[1] + name for name in re.findall(r"`([^`]+)`", found[2])}
    assert told == set(INGRESS_ANNOTATIONS.allowed)
