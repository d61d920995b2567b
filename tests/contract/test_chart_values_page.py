"""docs/reference/chart-values.md is printed from both charts' values and schemas; WINDLASS_GOLDEN=write rewrites it."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/chart-values.md"
CHARTS = ("windlass", "windlass-license-server")
HEAD = """\
# Chart values

<!-- Printed from charts/: WINDLASS_GOLDEN=write pytest tests/contract/test_chart_values_page.py -->

Every value of both charts. `helm install` refuses a value that is not here, by the chart's `values.schema.json`.
[Install](../how-to/install.md) says which ones a cluster usually sets.
"""
# Values that Kubernetes defines and that the charts pass on as they are.
KUBERNETES = {
    "affinity": "affinity of the chart's pods",
    "annotations": "annotations of the object",
    "interval": "time between two scrapes",
    "labels": "labels of the object",
    "nodeSelector": "node selector of the chart's pods",
    "podAnnotations": "annotations of the chart's pods",
    "podLabels": "labels of the chart's pods",
    "priorityClassName": "priority class of the chart's pods",
    "pullPolicy": "pull policy of the image",
    "repository": "the image, without its tag",
    "resources": "requests and limits of the chart's container",
    "size": "size of the claim",
    "tolerations": "tolerations of the chart's pods",
    "type": "type of the Service",
}
# Values whose comment stands at their neighbour.
BESIDE = {
    "admission.podAnnotations": "the same, of its pods",
    "auth.existingSecretKey": "the key of that Secret",
    "audit.mebibytes": "room for the audit log's records",
    "download.httpsProxy": "proxy of the download Jobs",
    "download.noProxy": "hosts that the download Jobs reach without the proxy",
    "networkPolicy.apiServerPorts": "ports of the API server that the policy opens",
    "serviceAccount.create": "make the service account",
    "tls.certManager.issuerKind": "kind of that issuer",
}


def sentence(words: str) -> str:
    """The words with a capital and a full stop."""
    return f"{words[0].upper()}{words[1:]}." if words else ""


Row = tuple[str, str, str, str]


def comments(text: str) -> dict[int, str]:
    """The comment above each line of a values file, for lines that are not blank; three spaces begin an example."""
    found: dict[int, str] = {}
    above: list[str] = []
    for number, line in enumerate(text.splitlines()):
        words = line.strip()
        if words.startswith("#"):
            above += [] if words.startswith("#   ") else [words.removeprefix("#").strip()]
            continue
        if words:
            found[number] = " ".join(above)
        above = []
    return found


def schema_of(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The part of the schema itself, behind its reference."""
    return root["definitions"][node["$ref"].rsplit("/", 1)[-1]] if "$ref" in node else node


def kind(node: dict[str, Any], root: dict[str, Any]) -> str:
    """A type in words."""
    node = schema_of(node, root)
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if "anyOf" in node or "oneOf" in node:
        return " or ".join(kind(each, root) for each in node.get("anyOf", node.get("oneOf")))
    names = node.get("type", "object")
    named = " or ".join([names] if isinstance(names, str) else names)
    bounds = [f"≥ {node['minimum']}"] if "minimum" in node else []
    bounds += [f"≤ {node['maximum']}"] if "maximum" in node else []
    inner = f" of {kind(node['items'], root)}" if named == "array" and isinstance(node.get("items"), dict) else ""
    return ", ".join([named + inner, *bounds])


def rows(chart: str) -> Iterator[Row]:
    """Each value of a chart: its path, type, default and meaning."""
    folder = ROOT / "charts" / chart
    text = (folder / "values.yaml").read_text(encoding="utf-8")
    schema = json.loads((folder / "values.schema.json").read_text())
    tree = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(tree, yaml.MappingNode)
    yield from _under(tree, schema, schema, comments(text), ("", ""))


def _under(
    tree: yaml.MappingNode, node: dict[str, Any], root: dict[str, Any], said: dict[int, str], above: tuple[str, str]
) -> Iterator[Row]:
    prefix, words_above = above
    beside = ""  # the comment of the lines that stand together
    for key, value in tree.value:
        path = f"{prefix}{key.value}"
        part = node["properties"][key.value]
        words = said.get(key.start_mark.line, "")
        beside = words or (beside if key.start_mark.line - 1 in said else "")
        if isinstance(value, yaml.MappingNode) and "$ref" not in part and "properties" in part:
            yield from _under(value, part, root, said, (f"{path}.", words or words_above))
            continue
        meaning = words or sentence(BESIDE.get(path) or KUBERNETES.get(key.value) or "") or beside or words_above
        shown = json.dumps(yaml.safe_load(yaml.serialize(value)), ensure_ascii=False)
        yield path, kind(part, root), shown, meaning


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for chart in CHARTS:
        parts.append(f"\n## `{chart}`\n\n| value | type | default | meaning |\n| --- | --- | --- | --- |\n")
        for path, type_, default, meaning in rows(chart):
            cells = (f"`{path}`", type_, f"`{default}`", re.sub(r"(?<!`)\b(docs/[\w/-]+\.md)", r"`\1`", meaning))
            parts.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n")
    return "".join(parts)


def test_the_page_is_current() -> None:
    """A value that is added to a chart is in the docs, or this fails."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page())
    assert page() == PAGE.read_text()


@pytest.mark.parametrize("chart", CHARTS)
def test_every_value_says_what_it_is(chart: str) -> None:
    """A value has a comment in values.yaml, or is one that Kubernetes defines."""
    assert [path for path, _, _, meaning in rows(chart) if not meaning] == []


def test_no_word_is_left_over() -> None:
    """The two tables of words name values that the charts have."""
    paths = {path for chart in CHARTS for path, *_ in rows(chart)}
    assert set(BESIDE) <= paths
    assert set(KUBERNETES) <= {path.rsplit(".", 1)[-1] for path in paths}
