"""The links of pages as the site has them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tools.docs import links

BINARY = (
    "benchmarks/front/results/2026-11-28-split.json.gz",
    "benchmarks/quantization/results/2026-11-28-h100-second-of-serving.png",
)


def test_the_site_rewrites_only_what_leaves_the_docs() -> None:
    """A file of the repository becomes a page under repository/; a page of docs/ stays where it is."""
    text = "[a](../how-to/license.md#renew) [b](../../charts/windlass/values.yaml) [c](../../benchmarks/lookahead)\n"
    assert links.rewritten("docs/reference/x.md", text) == (
        "[a](../how-to/license.md#renew) [b](../repository/charts/windlass/values.yaml.md) "
        "[c](../repository/benchmarks/lookahead/README.md)\n"
    )


def test_packed_rows_and_pictures_are_copied() -> None:
    """A page of the site shows text; another file would end its build."""
    placed = {name: links.placed(name) for name in ("README.md", "Makefile", *BINARY)}
    assert placed["Makefile"] == "repository/Makefile.md"
    assert all(placed[name] == f"repository/{name}" for name in ("README.md", *BINARY))
