"""The change log: fragments by kind and issue, earlier versions below."""

import pytest
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.release.changelog import assembled, fragments

FRAGMENTS = {
    "9.changed.md": "Nine changed.\n",
    "10.added.md": "Ten came.\n\n- And more of ten.\n",
    "2.added.md": "Two came.",
}
SECTION = """## 0.2.0 (2026-11-24)

### Added

- Two came. (#2)
- Ten came. (#10)
- And more of ten. (#10)

### Changed

- Nine changed. (#9)
"""


def test_fragments_become_a_section_a_kind_in_the_order_of_issues():
    """A line is a sentence of its own."""
    assert assembled("0.2.0", "2026-11-24", FRAGMENTS) == f"# Changelog\n\n{SECTION}"


def test_earlier_versions_follow():
    """Under one title."""
    earlier = "# Changelog\n\n## 0.1.0 (2026-01-01)\n\n### Added\n\n- One. (#1)\n"
    text = assembled("0.2.0", "2026-11-24", FRAGMENTS, earlier)
    assert text == f"# Changelog\n\n{SECTION}\n## 0.1.0 (2026-01-01)\n\n### Added\n\n- One. (#1)\n"


@pytest.mark.parametrize("name", ["added.md", "3.new.md", "3.added.txt", "x3.added.md"])
def test_a_fragment_of_another_name_is_named(name):
    """It would be left out in silence."""
    with pytest.raises(BedError, match=r"is no fragment: name it ISSUE\.KIND\.md"):
        assembled("0.2.0", "2026-11-24", {name: "Text."})


def test_the_repositorys_own_fragments_are_all_taken():
    """Every line of every file."""
    texts = fragments(REPOSITORY / "changelog.d")
    lines = [line for text in texts.values() for line in text.splitlines() if line.strip()]
    assert assembled("1.0.0", "2026-11-24", texts).count("\n- ") == len(lines)
