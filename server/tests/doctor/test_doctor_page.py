"""docs/how-to/doctor.md lists the checks that there are."""

from pathlib import Path

from windlass.doctor.checks import CHECKS

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "doctor.md"


def test_page_lists_every_check() -> None:
    """Names and questions stand in the table in the order in which they are asked."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    assert [[check.name, check.about] for check in CHECKS] == [row for row in rows if row[0] != "---"]
