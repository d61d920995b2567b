"""Prometheus' own parser reads every query of every dashboard, and a pod's method reaches the series of its engine."""

import json
import subprocess
from pathlib import Path

import yaml
from windlass_testbed import prometheus
from windlass_testbed.cases import every_case
from windlass_testbed.paths import paths

BOARDS = sorted((Path(__file__).resolve().parents[2] / "charts/windlass/files/dashboards").glob("*.json"))
PODS = {"10.0.0.1:8501": ("chat", "none", 30), "10.0.0.2:8501": ("small", "ifq", 60)}
"""By instance: the LLMService, the method of its weights, tokens in a scrape of 15 s."""


def queries(board: Path) -> list[str]:
    """With all services chosen."""
    panels = json.loads(board.read_text())["panels"]
    return [target["expr"].replace("$service", ".*") for panel in panels for target in panel["targets"]]


def promtool(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = prometheus.ensure(paths()) / "promtool"
    return subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_there_are_five() -> None:
    assert [board.stem for board in BOARDS] == ["licenses", "lookahead", "operator", "quantization", "services"]


@every_case("board", BOARDS)
def test_every_query_is_one(board: Path, tmp_path: Path) -> None:
    """As rules, which promtool parses."""
    rows = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries(board))]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rows}]}))
    done = promtool(tmp_path, "check", "rules", "rules.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rows)} rules found" in done.stdout


def test_tokens_are_counted_by_method(tmp_path: Path) -> None:
    """The engine's path and ours are scraped apart; what joins them is the instance."""
    (query,) = [one for one in queries(BOARDS[3]) if "vllm:generation_tokens_total" in one]
    given = []
    for instance, (service, method, tokens) in PODS.items():
        common = f'instance="{instance}",serving_windlass_dev_service="{service}"'
        engine = f'vllm:generation_tokens_total{{{common},metrics_path="/metrics"}}'
        info = f'windlass_quantization_info{{{common},metrics_path="/windlass/metrics",method="{method}"}}'
        given += [{"series": engine, "values": f"0+{tokens}x20"}, {"series": info, "values": "1x20"}]
    wanted = [{"labels": f'{{method="{method}"}}', "value": tokens / 15} for _, method, tokens in PODS.values()]
    case = {"interval": "15s", "input_series": given}
    case["promql_expr_test"] = [{"expr": query, "eval_time": "4m", "exp_samples": wanted}]
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"tests": [case]}))
    done = promtool(tmp_path, "test", "rules", "test.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
