"""Tutorials and README: each command is in CONTRIBUTING's table of what runs in a test, and all show the same service.

`tests/kind/test_e2e_quickstart.py` runs README's quickstart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pydantic
import yaml
from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Plan
from windlass_sizing.files.checkpoint import inspect
from windlass_testbed import demo

from .pages import commands
from .tree import Offence, Tree, line_of

README, FIRST, EXAMPLE = "README.md", "docs/tutorials/first-service.md", "examples/first-service.yaml"
NOTES, DEMO = "charts/windlass/files/first-service.yaml", "examples/quickstart.yaml"
TABLES, TABLE = "CONTRIBUTING.md", "| command | where it runs |"
QUICKSTART_COMMANDS = 6
DEMO_NODE = NodeGpus("node", "NVIDIA-L20", 46068 / 1024, 8, 8)


def table(text: str) -> dict[str, str]:
    """Return the rows of the table: the beginning of a command, and where it runs."""
    rows = text.split(TABLE, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return {row.split("`")[1]: row.split(" | ", 1)[1].rstrip(" |") for row in rows}


def places(tree: Tree) -> Iterator[Offence]:
    """A command of a tutorial has a row in the table of what runs in a test, and a row has a command."""
    contributing = tree.text(TABLES)
    rows = table(contributing)
    for page in tree.matching("docs/tutorials/*.md"):
        text = tree.text(page)
        lines = commands(text)
        if not lines:
            yield Offence(page, 1, "has no command: a tutorial shows what to type")
        for line in lines:
            if not any(row in line for row in rows):
                yield Offence(page, line_of(text, f"$ {line}"), f"has no row in the table of {TABLES}: {line}")
        for row in rows:
            if not any(row in line for line in lines):
                yield Offence(TABLES, line_of(contributing, f"| `{row}`"), f"is a row of no command of {page}")


def table_places(tree: Tree) -> Iterator[Offence]:
    """A row of the table names files that are there, or says that nothing runs the command."""
    contributing = tree.text(TABLES)
    for row, where in table(contributing).items():
        files = re.findall(r"`([\w./-]+\.(?:py|md))`", where)
        place = line_of(contributing, f"| `{row}`")
        if not files and not where.startswith("not run: "):
            yield Offence(TABLES, place, "names no file, and does not begin with `not run: `")
        for file in files:
            if not tree.has(file):
                yield Offence(TABLES, place, f"names {file}, which is not there")


def services(tree: Tree) -> Iterator[Offence]:
    """The resource that a reader saves passes the models that the CRD is made from."""
    for page in tree.matching("docs/tutorials/*.md"):
        text = tree.text(page)
        found = re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)
        if not found:
            yield Offence(page, 1, "shows no service")
        for block in found:
            if (why := _refusal(yaml.safe_load(block))) is not None:
                yield Offence(page, line_of(text, block), f"is no valid LLMService: {why}")


def quickstart(tree: Tree) -> Iterator[Offence]:
    """The tutorial has README's commands in order and the example's service; the charts' notes carry the example."""
    readme, tutorial, example = (tree.text(path) for path in (README, FIRST, EXAMPLE))
    short = commands(readme.split("\n## Quickstart\n", 1)[1].split("\n## ", 1)[0])
    if len(short) != QUICKSTART_COMMANDS:
        yield Offence(README, line_of(readme, "## Quickstart"), f"has {len(short)} commands, not {QUICKSTART_COMMANDS}")
    if [line for line in commands(tutorial) if line in short] != short:
        yield Offence(FIRST, 1, f"has not the commands of {README}'s quickstart, word for word and in order")
    if f"```yaml\n{example.split('---' + chr(10))[1]}```" not in tutorial:
        yield Offence(FIRST, line_of(tutorial, "```yaml"), f"shows another service than {EXAMPLE}")
    if tree.text(NOTES) != example:
        yield Offence(NOTES, 1, f"is another than {EXAMPLE}: run `make charts`")
    claim, service = yaml.safe_load_all(example)
    why = _refusal(service)
    if why is not None:
        yield Offence(EXAMPLE, 1, f"is no valid LLMService: {why}")
        return
    source = LLMService.model_validate(service).spec.model.source.pvc
    name = source.claim_name if source else None
    if (claim["kind"], claim["metadata"]["name"]) != ("PersistentVolumeClaim", name):
        yield Offence(EXAMPLE, 1, f"makes another claim than the service reads, which is {name}")
    if "storageClassName" in claim["spec"]:
        yield Offence(EXAMPLE, line_of(example, "storageClassName"), "names a StorageClass, which clusters differ in")


def plan(tree: Tree) -> Iterator[Offence]:
    """README shows the lines that `make demo` prints of the model in models/demo on the cluster's nodes."""
    service = LLMService.model_validate(yaml.safe_load(tree.text(DEMO)))
    facts = inspect(tree.root / "models", "demo", "PVC models").facts
    found = decide(service.spec, facts, Inventory((DEMO_NODE,))) if facts else None
    lines = demo.plan_lines(found.to_status()) if isinstance(found, Plan) else []
    readme = tree.text(README)
    if not lines:
        yield Offence(DEMO, 1, "has no plan on the demo's nodes")
    elif "\n".join(lines) not in readme:
        missing = next((line for line in lines if line not in readme), lines[0])
        yield Offence(
            README,
            line_of(readme, "\n  plan: ") + 1,
            f"shows another plan than the demo's today, which has the line: {missing}",
        )


def _refusal(document: object) -> str | None:
    try:
        LLMService.model_validate(document)
    except pydantic.ValidationError as error:
        return "; ".join(f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors())
    return None
