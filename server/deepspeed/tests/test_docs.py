"""The reference page says what the tables say, and the Dockerfiles what the page says."""

import re
from pathlib import Path

import pytest
from windlass_deepspeed.api.wire import ChatBody
from windlass_deepspeed.cli import help_row
from windlass_deepspeed.flags import FLAGS, Flag
from windlass_deepspeed.templates import TEMPLATES, Template
from windlass_testbed.cases import every_case

REPOSITORY = Path(__file__).parents[3]
PAGE = (REPOSITORY / "docs" / "reference" / "deepspeed.md").read_text()
IMAGES = REPOSITORY / "images" / "deepspeed"


@every_case("flag", FLAGS)
def test_flags(flag: Flag) -> None:
    """A row of the page for each row of the table, word for word."""
    name, variable, default, meaning = (cell if cell != "-" else "–" for cell in help_row(flag))
    quoted = (f"`{cell}`" if cell != "–" else cell for cell in (name, variable))
    assert f"| {' | '.join(quoted)} | {default} | {meaning} |" in PAGE


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_templates(template: Template) -> None:
    """Names, words and stop tokens."""
    stops = ", ".join(str(token) for token in template.stop_ids) or "–"
    assert f"| `{template.name}` | {' and '.join(template.words) or '–'} | {stops} |" in PAGE


def test_fields() -> None:
    """Every field of a request is on the page."""
    for name in ChatBody.model_fields.keys() - {"n"}:
        assert f"`{name}" in PAGE


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.gpu"])
def test_dockerfiles(name: str) -> None:
    """Not root, labels, our command, the port; downloads are locked, copied files exist, the CA bundle is a secret."""
    text = re.sub(r"\\\n\s*", " ", (IMAGES / name).read_text())
    last = text[text.rindex("\nFROM ") :]
    for line in ("USER 10001:10001", "EXPOSE 8501 8502", 'ENTRYPOINT ["windlass-deepspeed"]', 'CMD ["run"]'):
        assert f"\n{line}\n" in last
    assert "org.opencontainers.image.title=" in last
    for line in text.splitlines():
        if line.startswith("COPY "):
            *sources, _ = line.split()[1:]
            assert all((REPOSITORY / source).exists() for source in sources)
        if re.search(r"pip\S* (install|wheel)", line) and "--no-index" not in line:
            assert "--require-hashes" in line
            assert "--mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt,required=false" in line


def test_lock_is_what_the_package_says() -> None:
    """DeepSpeed's version is one; the lock holds hashes and no address."""
    lock = (IMAGES / "requirements.lock").read_text()
    project = (REPOSITORY / "server/deepspeed/pyproject.toml").read_text()
    version = re.search(r"^deepspeed==(\S+)", lock, re.MULTILINE)
    assert version
    assert f'"deepspeed=={version[1]}"' in project
    assert "--hash=sha256:" in lock
    assert "://" not in lock
