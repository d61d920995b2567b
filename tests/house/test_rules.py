"""The rules of the house (`python -m tools.house`): each finds the offences that are seeded here, and nothing else."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from grimp import ImportGraph

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tools.house import __main__ as house
from tools.house import cycles
from tools.house.tree import ROOT, Offence, Tree

WHOLE = Tree.of()


@dataclass(frozen=True)
class Seed:
    """A rule, edits of files (a new text, or a part and its replacement), and how each offence begins."""

    rule: str
    edits: dict[str, str | tuple[str, str]]
    offences: tuple[str, ...]
    is_alone: bool = False
    """Whether the rule sees the edited files only."""


LONG = "word " * 25
CLOCKS = """\
SHORT_S = 1.5
LONG_S = 90
async def test_it():
    time.sleep(0.2)
    await asyncio.sleep(0.05)
    sleep(PAUSE_S)
    assert time.monotonic() - began < 5
    assert time.perf_counter() < end
    took = time.monotonic() - began
    assert took < 5
    await asyncio.wait_for(done.wait(), 5)
    await asyncio.wait_for(done.wait(), timeout=SHORT_S)
    thread.join(10)
    socket.create_connection(place, 5)
    httpx.get(url, timeout=2.5)
    async with asyncio.timeout(20): pass

async def test_sound_places():
    await asyncio.sleep(0)
    time.sleep(0.2)  # clock: the disk is slow, and nothing is decided by it
    await asyncio.wait_for(
        done.wait(), 5  # clock: nobody sets it
    )
    assert lease.renewed_at - began_at < 5
    other = time.monotonic() - began
    print(other)
    await asyncio.wait_for(done.wait(), 60)
    assert ', '.join(names) == 'a, b'
    httpx.get(url, timeout=LONG_S)
    assert process.wait() == 0
"""
CLOCK_LINES = (
    *((line, "pause: wait for an event") for line in (4, 5, 6)),
    *((line, "measurement: decide on simulated time") for line in (7, 8, 10)),
    *((line, "short limit: let the limit end a hang only") for line in (11, 12, 13, 14, 15, 16)),
)
CONSOLE = "clients/console/src/windlass_console/pages"
FIRST, HOW_TO, FEATURES = "docs/tutorials/first-service.md", "docs/how-to/seed.md", "tools/docs/features.yaml"
SEEDS = (
    Seed("length", {"a.py": "a = 1\n" * 401, "b.go": "\n" * 400}, ("a.py:401: has 401 lines, at most 400",), True),
    Seed("file-names", {"x/utils.py": "", "x/idea.py": ""}, ("x/utils.py:1: has a name that says nothing",), True),
    Seed("rooms", {"router/main.py": ""}, ("router:1: has no README.md", "router:1: is not in the table of folders")),
    Seed("locks", {"requirements.lock": "a\n--index-url x\n"}, ("requirements.lock:2: names an index",), True),
    Seed("targets", {"Makefile": "a: ## help\nb:\n"}, ("Makefile:2: b has no description",), True),
    Seed(
        "dropped-files",
        {"Makefile": "a:\n\tpytest tests/a $(call long,tests/a/b.py) tests/ab\n"},
        ("Makefile:2: gives pytest tests/a/b.py and a folder around it",),
        True,
    ),
    Seed(
        "merges",
        {"page.md": f"a\n{'<' * 7} HEAD\none\n{'=' * 7}\n{'>' * 7} other\n"},
        ("page.md:2: is a mark of a merge", "page.md:5: is a mark of a merge"),
        True,
    ),
    Seed("size", {"data.json": "a" * 32_000_000}, ("data.json:1: is the largest of a tree of 32000000 bytes",), True),
    Seed(
        "links",
        {
            "there.md": "# A `word`, and more\n",
            "page.md": "[1](there.md) [2](there.md#a-word-and-more) [3](https://example.com) `[4](code.md)`\n"
            "```\n[5](block.md)\n```\n[6](gone.md)\n[7](there.md#gone)\n",
        },
        ("page.md:5: links to gone.md, which is not there", "page.md:6: links to there.md#gone, a heading that is not"),
        True,
    ),
    Seed("sections", {"docs/new/page.md": ""}, ("docs/new/page.md:1: is in a folder without a tab: add new",)),
    Seed(
        "prompts",
        {"page.md": "```\n$ a\n```\n```console\n$ b\n```\n```\n$HOME\n```\n$ c\n"},
        ("page.md:2: is a prompt in a block of text",),
        True,
    ),
    Seed("how-to-kinds", {HOW_TO: "Do:\n```sh\n$ a\n```\n"}, (f"{HOW_TO}:2: is a block of `sh`",)),
    Seed("how-to-marks", {HOW_TO: "<!-- later -->\n```console\n$ a\n```\n"}, (f"{HOW_TO}:2: does not say where",)),
    Seed("how-to-marks", {HOW_TO: "<!-- not run: it asks -->\n```console\na\n```\n"}, (f"{HOW_TO}:2: is a console",)),
    Seed("how-to-marks", {HOW_TO: "<!-- run: a test -->\n```console\n$ a\n```\n"}, (f"{HOW_TO}:2: names no file",)),
    Seed(
        "how-to-marks",
        {HOW_TO: "<!-- run: `tests/gone.py`, `make demo`, `make nothing` -->\n```console\n$ a\n```\n"},
        (f"{HOW_TO}:2: says that `make nothing` runs it", f"{HOW_TO}:2: says that tests/gone.py runs it"),
    ),
    Seed(
        "how-to-runs",
        {HOW_TO: "<!-- run: `tests/conftest.py` -->\n```console\n$ kubectl reticulate -f a # spread\n$ b\n```\n"},
        (f"{HOW_TO}:2: is said to run in tests/conftest.py, which knows no word of: kubectl reticulate -f a",),
    ),
    Seed(
        "how-to-runs",
        {HOW_TO: "<!-- run: `tests/conftest.py` takes it word for word -->\n```console\n$ spread\n```\n"},
        (f"{HOW_TO}:2: is said to run word for word, and tests/conftest.py does not name seed.md",),
    ),
    Seed("tutorials", {FIRST: ("$ helm install windlass c", "$ helm pull c")}, ("CONTRIBUTING.md:", f"{FIRST}:")),
    Seed("tutorial-places", {"CONTRIBUTING.md": ("| not run: the tests", "| nowhere: the")}, ("CONTRIBUTING.md:",)),
    Seed("tutorial-places", {"CONTRIBUTING.md": ("| `tests/kind/test_e2e_q", "| `gone/test_e2e_q")}, ("CONTRIBUTING",)),
    Seed("tutorial-services", {FIRST: ("hub: huggingface", "hub: nowhere")}, (f"{FIRST}:",)),
    Seed("quickstart", {FIRST: ("$ helm install windlass c", "$ helm pull c")}, (f"{FIRST}:1: has not the commands",)),
    Seed("quickstart", {FIRST: ("name: first\n", "name: other\n")}, (f"{FIRST}:",)),
    Seed("quickstart", {"charts/windlass/files/first-service.yaml": "a: b\n"}, ("charts/windlass/files/first-serv",)),
    Seed("demo-plan", {"README.md": ("plan: 1 ×", "plan: 2 ×")}, ("README.md:",)),
    Seed("features-page", {"docs/reference/features.md": ("done", "over")}, ("docs/reference/features.md:",)),
    Seed(
        "features",
        {FEATURES: ("    - operator/src/windlass_operator/manifests/service.py\n", "    - operator/gone.py\n")},
        (f"{FEATURES}:4: O1 names operator/gone.py, which is not there",),
    ),
    Seed(
        "features", {FEATURES: ("- id: O1\n", "- id: O99\n")}, (f"{FEATURES}:1: has 0 rows O1", f"{FEATURES}:1: has 1")
    ),
    Seed("features", {FEATURES: ("  state: done", "  state: soon")}, (f"{FEATURES}:4: O1 is soon",)),
    Seed(
        "decision-index",
        {"docs/adr/0001-again.md": "# Again\n", "docs/adr/0009-left.md": "# Left\n"},
        (
            "docs/adr/0001-again.md:1: has no row",
            "docs/adr/0001-shared-sizing-package.md:1: has the number of 0001-a",
            "docs/adr/0009-left.md:1: has no row",
            "docs/adr/0009-left.md:1: has the number of a decision that left",
        ),
    ),
    Seed(
        "sentences",
        {"docs/index.md": f"- {LONG}end.\n\nline\n{LONG}\nend. Short.\n\n| {LONG}end |\n\n```\n{LONG}end\n```\n"},
        ("docs/index.md:1: has 26 words", "docs/index.md:3: has 27 words"),
    ),
    Seed(
        "names",
        {
            "server/lookahead/pace.cc": 'int was_told = kPromises; // told\nclass Race { "rung" } # said\nspaced = x\n',
            f"{CONSOLE}/a.js": "html`told ${turns.map((one) => `said ${one.pace} {`)} hope`; // rang\n"
            "const a = { b: 'truth', played };\n",
        },
        (
            f"{CONSOLE}/a.js:1: pace has an old word",
            f"{CONSOLE}/a.js:1: turns has an old word",
            f"{CONSOLE}/a.js:2: played has an old word",
            "server/lookahead/pace.cc:1: has an old word of ours in its name: pace",
            "server/lookahead/pace.cc:1: kPromises has an old word",
            "server/lookahead/pace.cc:1: was_told has an old word",
        ),
        True,
    ),
    Seed(
        "console-exports",
        {
            f"{CONSOLE}/a.js": "export const used = 1;\nexport function unused() {}\nexport class Later {}\n",
            f"{CONSOLE}/b.js": 'import { used } from "./a.js";\n'
            'const page = () => import("./a.js").then((module) => module.Later);\n',
        },
        (f"{CONSOLE}/a.js:2: unused is exported, and no module imports it",),
        True,
    ),
    Seed(
        "console-texts",
        {
            f"{CONSOLE}/b.js": 't("a.shown");\ntOr(`reason.${used}`);\n',
            f"{CONSOLE}/text/en.js": '{\n  "a.shown": "",\n  "a.hidden": "",\n  "reason.X": "",\n}',
        },
        (f"{CONSOLE}/text/en.js:3: a.hidden is shown by no page",),
        True,
    ),
    Seed(
        "listeners",
        {
            "server/src/windlass/new.py": "a = 1\nasyncio.start_server(a)\n",
            "clients/console/src/windlass_console/serve.py": "",
        },
        (
            "clients/console/src/windlass_console/serve.py:1: opens no listening",
            "server/src/windlass/new.py:2: opens a listen",
        ),
    ),
    Seed(
        "loops",
        {"operator/src/windlass_operator/new.py": "\nfor a in range(3):\n  for b in range(a, 2): pass\n"},
        ("operator/src/windlass_operator/new.py:3: counts up to a number",),
    ),
    Seed("wall-clock", {"tests/test_x.py": CLOCKS}, tuple(f"tests/test_x.py:{n}: {k}" for n, k in CLOCK_LINES), True),
    Seed(
        "wall-clock",
        {
            "tests/attack/license/floods.py": "a = 1\n",
            "tests/kind/run_x.py": "time.sleep(3)\n",
            "tools/testbed/src/a.py": "time.sleep(3)\n",
            "server/tests/conftest.py": "time.sleep(3)\n",
        },
        ("server/tests/conftest.py:1: pause", "tests/attack/license/floods.py:1: has no such place any more"),
        True,
    ),
)


def seeded(seed: Seed) -> Tree:
    texts = {
        path: edit if isinstance(edit, str) else WHOLE.text(path).replace(*edit, 1) for path, edit in seed.edits.items()
    }
    return Tree(ROOT, tuple(sorted(texts if seed.is_alone else {*WHOLE.paths, *texts})), texts)


def test_each_rule_finds_seeded_offences() -> None:
    """By file, line and the beginning of the sentence."""
    wrong = []
    for seed in SEEDS:
        found = sorted(map(str, house.RULES[seed.rule](seeded(seed))))
        fits = [text.startswith(begin) for text, begin in zip(found, sorted(seed.offences), strict=False)]
        if len(found) != len(seed.offences) or not all(fits):
            wrong.append(f"{seed.rule}: {seed.offences} is found as {found}")
    assert not wrong, "\n".join(wrong)
    assert {seed.rule for seed in SEEDS} == house.RULES.keys() - {"cycles"}


def test_a_ring_is_seen() -> None:
    """Two modules that import each other are one ring; one that imports them is none."""
    graph = ImportGraph()
    for importer, imported in (("a", "b"), ("b", "a"), ("c", "a")):
        graph.add_import(importer=importer, imported=imported)
    assert cycles.rings(graph) == [{"a", "b"}]


def test_every_offence_is_printed_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of files and lines, of all rules; the program ends with 1, without any with 0."""
    rules = {"a": lambda _: [Offence("b.md", 2, "is wrong")], "b": lambda _: [Offence("a.md", 10, "is long")]}
    monkeypatch.setattr(house, "RULES", {**rules, "none": lambda _: []})
    assert (house.main([]), house.main(["none"])) == (1, 0)
    assert capsys.readouterr().out == "a.md:10: is long\nb.md:2: is wrong\n"
