"""Pages that a stranger reads once: no sentence is longer than 25 words. Tables and code are left out."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS_MAX = 25
# Pages that were rewritten in plain words; a page joins when it is.
PAGES = (
    *("README.md", "docs/index.md", "docs/tutorials/first-service.md", "docs/explanation/least-power.md"),
    *(
        f"docs/reference/{name}.md"
        for name in (
            "startup",
            "load",
            "serving-speed",
            "lookahead",
            "quantization",
            "groups",
            "scale",
            "endurance",
            "faults",
        )
    ),
    *(f"docs/adr/{name}.md" for name in ("0021-lookahead-integrations", "0030-kernels-are-launched-by-the-driver")),
    *(f"docs/adr/{name}.md" for name in ("0051-quantized-weights-are-streamed", "0053-the-operator-is-packages")),
    *("docs/explanation/speculation.md", "docs/adr/0054-one-speculation-policy.md"),
    *(
        f"docs/adr/{name}.md"
        for name in (
            "0006-license-file",
            "0012-workers-in-one-container",
            "0022-quantized-weights-on-disk",
            "0032-signed-answers",
            "0038-parsers-by-the-checkpoints-marks",
            "0043-host-memory-in-parts",
            "0049-what-a-release-is",
            "0023-groups-of-pods",
            "0031-leases-belong-to-pods",
            "0033-each-object-is-its-own-failure-domain",
            "0041-one-decision-on-quantization",
            "0047-kopf-runs-the-operator",
            "0050-license-in-one-step",
            "0013-license-durability",
            "0014-lookahead-core",
            "0015-quantization-plug-in",
            "0018-download",
            "0055-one-replica-decides-limits",
        )
    ),
    *("docs/how-to/benchmark.md", "docs/adr/0061-vllms-client-drives-benchmarks.md"),
    *("docs/adr/0071-benchmarks-take-turns.md", "docs/explanation/predicting-speed.md", "docs/how-to/cluster.md"),
    *("docs/adr/0020-leader-election.md", "docs/adr/0076-the-gate-counts-what-waits.md"),
)
# Folders whose names are the field's terms, and the words of ours that came before them.
FOLDERS = (
    *("server/lookahead", "server/src/windlass/lookahead", "server/tests/lookahead", "benchmarks/lookahead"),
    *(f"server/src/windlass/{name}" for name in ("chat_page", "group", "sampling", "usage")),
    *(f"server/src/windlass/quantization/{name}" for name in ("fp8", "gptq", "kernels")),
    *("base/src", "api/src/windlass_api/crd", "operator/src/windlass_operator/inspection", "tests/testbed/src"),
    *(f"license_server/src/windlass_license/{name}" for name in ("election", "rules", "storage")),
    *(f"sizing/src/windlass_sizing/{name}" for name in ("placement", "quantization")),
    *("console/src", "tests/console", "tests/browser"),
)
OLD_WORDS = frozenset(
    "answered door doors foresight hope hopes hopeless pace played promise promised promises promising rang rung said"
    " told truth truths turns".split()
)
SOURCES = tuple(
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".pyi", ".h", ".cc", ".cu", ".js"} and not {"build", "vendor"} & set(path.parts)
)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TEXT = re.compile(r"""(?s)\"\"\".*?\"\"\"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])*'|//[^\n]*|#[^\n]*""")
JS_CODE = re.compile(r"""(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[`{}]|[^`{}"'/]+|.""")
JS_TEMPLATE = re.compile(r"(?s)\\.|`|\$\{|[^`$\\]+|.")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ")


def paragraphs(text: str) -> list[str]:
    """Paragraphs and items of lists, each in one line; link targets are left out."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if not line.strip() or line.startswith(("|", "#", "<!--")) or ITEM.match(line):
            found.append([])
        if line.strip() and not line.startswith(("|", "#", "<!--", "    windlass")):
            found[-1].append(ITEM.sub("", line).strip())
    return [re.sub(r"\]\([^)]*\)", "]", " ".join(lines)) for lines in found if lines]


def sentences(paragraph: str) -> list[str]:
    """A sentence ends with a full stop, or a colon before a list."""
    return re.split(r"(?<=[.!?])\**\s+(?=[vA-Z`*\[\"(…0-9])", paragraph)


def length(sentence: str) -> int:
    """Its words; figures are none."""
    return len(re.findall(r"\S*[A-Za-z]\S*", sentence))


@pytest.mark.parametrize("page", PAGES)
def test_a_sentence_has_at_most_25_words(page: str) -> None:
    """A longer one says more than one thing; make it two, or a list."""
    text = (ROOT / page).read_text(encoding="utf-8")
    every = [one for paragraph in paragraphs(text) for one in sentences(paragraph)]
    assert [one for one in every if length(one) > WORDS_MAX] == []


def words_of(name: str) -> set[str]:
    """The words of a name in snake case or camel case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def old_words(source: str) -> set[str]:
    """Names with a word that was replaced; comments and strings hold prose, not names."""
    return {name for name in NAME.findall(TEXT.sub(" ", source)) if words_of(name) & OLD_WORDS}


def js_code(source: str) -> str:
    """A module without its comments, strings and the text of its templates; `${…}` in a template is code."""
    kept, depths, at, in_template = [], list[int](), 0, False
    while at < len(source):
        found = (JS_TEMPLATE if in_template else JS_CODE).match(source, at)
        assert found
        token, at = found[0], found.end()
        if token == "`":
            in_template = not in_template
        elif in_template and token == "${":
            depths, in_template = [*depths, 0], False
        elif not in_template and token == "}" and depths and depths[-1] == 0:
            depths, in_template = depths[:-1], True
        elif not in_template and token in ("{", "}") and depths:
            depths[-1] += 1 if token == "{" else -1
        elif not in_template and not token.startswith(("//", "/*", '"', "'")):
            kept.append(token)
    return re.sub(r"\bPromise\b", "", " ".join(kept))  # the language's own


def old_words_of(path: Path) -> set[str]:
    """Names with a word that was replaced, the file's own among them."""
    source = path.read_text(encoding="utf-8")
    return old_words(js_code(source) if path.suffix == ".js" else source) | (words_of(path.stem) & OLD_WORDS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_are_the_fields_terms(path: Path) -> None:
    """CONTRIBUTING and docs/explanation/speculation.md have the terms."""
    assert old_words_of(path) == set()


def test_an_old_word_in_a_name_is_seen() -> None:
    """In any case, and not in prose."""
    source = 'int was_told = kPromises; // told\nclass Pace { "rung" } # said\nspaced = untold\n'
    assert old_words(source) == {"was_told", "kPromises", "Pace"}


def test_an_old_word_in_a_template_is_seen() -> None:
    """In the code of a template, however deep; not in its text, a comment or a string."""
    source = "html`told ${turns.map((one) => `said ${one.pace} {`)} hope`; // rang\nconst a = { b: 'truth', played };"
    assert old_words(js_code(source)) == {"turns", "pace", "played"}


def test_a_long_sentence_is_seen() -> None:
    """The check sees one in a list and one over two lines, and leaves tables and code alone."""
    long = "word " * WORDS_MAX
    text = f"- {long}end.\n\n{long}\nend. Short one.\n\n| {long}end |\n\n```\n{long}end\n```\n"
    found = [one for paragraph in paragraphs(text) for one in sentences(paragraph) if length(one) > WORDS_MAX]
    assert len(found) == 2
