"""Draws a dashboard of the chart with matplotlib, by its own queries and a Prometheus: a picture for the docs.

Grafana draws the same panels in its own looks; it is no Debian package, and its front end is a build of its own. Run as
`uv run --no-project --with matplotlib tools/docs/draw_dashboard.py services http://127.0.0.1:9090 OUT.png [MINUTES]`.
"""

import json
import re
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

DASHBOARDS = Path(__file__).resolve().parents[2] / "charts/windlass/files/dashboards"
COLUMNS = 24
"""Of Grafana's grid."""
STEPS = 120
UNITS = {"bytes": "bytes", "s": "s", "percentunit": "share", "ops": "a second", "reqps": "a second", "d": "days"}


def ask(prometheus: str, query: str, minutes: float) -> list[dict[str, Any]]:
    """The series of a query over the last minutes, any service chosen."""
    end = time.time()
    words = {"query": query.replace("$service", ".*"), "start": end - 60 * minutes, "end": end,
             "step": 60 * minutes / STEPS}  # fmt: skip
    url = f"{prometheus}/api/v1/query_range?{urllib.parse.urlencode(words)}"
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=30) as answer:
        return list(json.loads(answer.read())["data"]["result"])


def legend(text: str, labels: dict[str, str]) -> str:
    """Grafana's `{{label}}`, filled in."""
    return re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), text)


def draw(axes: Axes, panel: dict[str, Any], prometheus: str, minutes: float) -> int:
    """One panel; how many series it has."""
    count = 0
    for target in panel["targets"]:
        for row in ask(prometheus, target["expr"], minutes):
            points = [(float(at), float(value)) for at, value in row["values"]]
            ages = [(at - time.time()) / 60 for at, _ in points]
            axes.plot(ages, [value for _, value in points], label=legend(target["legendFormat"], row["metric"]), lw=1.4)
            count += 1
    unit = UNITS.get(panel["fieldConfig"]["defaults"].get("unit", ""), "")
    axes.set_title(panel["title"] + (f" ({unit})" if unit else ""), loc="left", fontsize=9)
    axes.set_xlim(-minutes, 0)
    axes.set_ylim(0, 1.25 * max(axes.get_ylim()[1], 1e-6))
    axes.grid(alpha=0.3)
    axes.tick_params(labelsize=7)
    if count:
        axes.legend(fontsize=6, loc="upper left", ncols=2, framealpha=0.6)
    else:
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color="gray")
    return count


def main(name: str, prometheus: str, out: str, minutes: str = "10") -> None:
    """Draw every panel at its place, and say which have no data."""
    mpl.use("Agg")
    board = json.loads((DASHBOARDS / f"{name}.json").read_text())
    panels = board["panels"]
    rows = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in panels)
    figure = plt.figure(figsize=(14, rows / 3.4), layout="constrained")
    grid = figure.add_gridspec(rows, COLUMNS)
    empty = []
    for panel in panels:
        place = panel["gridPos"]
        axes = figure.add_subplot(grid[place["y"] : place["y"] + place["h"], place["x"] : place["x"] + place["w"]])
        if not draw(axes, panel, prometheus, float(minutes)):
            empty.append(panel["title"])
    figure.suptitle(board["title"], x=0.01, ha="left", fontsize=12, weight="bold")
    figure.supxlabel("minutes; drawn by matplotlib from the dashboard's queries", fontsize=8)
    figure.savefig(out, dpi=90)
    print(json.dumps({"dashboard": name, "panels": len(panels), "empty": empty}))


if __name__ == "__main__":
    main(*sys.argv[1:])
