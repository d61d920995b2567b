"""What the operator's chart says after its installation: README's next commands, in their order, ready to be copied."""

import re
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/windlass"
NOTES_OBJECT = 'kind: Notes\nnotes: {{ tpl (.Files.Get "notes.txt") . | quote }}\n'
REGISTRY = {"global": {"repository": "registry.example.com/team"}}
Notes = Callable[[dict[str, Any]], str]


@pytest.fixture
def notes(helm: Callable[..., Any], tmp_path: Path) -> Notes:
    """The notes for these values; helm shows them only of an installation, so they become an object."""
    chart = copytree(CHART, tmp_path / "chart")
    (chart / "templates/NOTES.txt").rename(chart / "notes.txt")
    (chart / "templates/notes.yaml").write_text(NOTES_OBJECT)

    def render(values: dict[str, Any]) -> str:
        words = ("template", "windlass", str(chart), "--show-only", "templates/notes.yaml")
        done = helm(*words, values=values)
        assert done.returncode == 0, done.stderr
        return str(yaml.safe_load(done.stdout)["notes"])

    return render


def test_the_notes_lead_on_as_the_readme_does(notes: Notes) -> None:
    """After the chart's own installation come the readme's other commands; the example stands there itself."""
    section = (ROOT / "README.md").read_text().split("\n## Quickstart\n", 1)[1].split("\n## ", 1)[0]
    _, *rest = re.findall(r"^\$ (.*)$", section, re.M)
    said = re.findall(r"^ {0,2}((?:helm|kubectl) .*)$", notes(REGISTRY), re.M)
    assert [line.replace("-f - <<'EOF'", "-f examples/first-service.yaml") for line in said] == rest


def test_the_example_can_be_copied_out_of_the_notes(notes: Notes) -> None:
    """Its lines and the end of it begin at the margin, where a shell looks for them."""
    example = (ROOT / "examples/first-service.yaml").read_text()
    assert f"<<'EOF'\n{example}EOF\n" in notes({})


def test_the_notes_name_the_namespace_that_is_watched(notes: Notes) -> None:
    """The first one, in each command about the service."""
    said = notes({"watchNamespaces": ["team-a", "team-b"]})
    assert [
        line for line in said.splitlines() if "first" in line and "kubectl" in line and "-n team-a" not in line
    ] == []
    assert "kubectl apply -n team-a -f -" in said
    assert " -n " not in "".join(line for line in notes({}).splitlines() if "llm/first" in line)
