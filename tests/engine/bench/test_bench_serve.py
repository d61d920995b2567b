"""`windlass bench serve` in the serving image: vLLM's own parser, client and counters, against the demo model."""

import csv
import io
import json

import pytest
from windlass_client.bench_archive import Archive
from windlass_testbed import daemon

from ..api.own_commands import FLAGS

SERVE = ("windlass", "bench", "serve", "--tokenizer", "/data/model", "--num-prompts", "6", "--output-len", "8")
SERVE += ("--token", FLAGS[1])


def test_vllm_reads_every_word(engine):
    """An option that a release renames fails here by its name."""
    found = engine.result("/repo/tests/engine/bench/parse_bench.py")
    assert found == {
        "commands": 62,
        "datasets": ["custom", "prefix_repetition", "random", "sharegpt", "timed_trace"],
        "metadata": ["gpu=H100", "note=a b"],
        "seed": 3,
        "saved": ["/out", "result.json", 10],
    }


def test_a_sweep_of_random_prompts(engine, short):
    """Client and engine count the same tokens, and the tables hold what vLLM wrote."""
    container = engine.container(short)
    words = ("--input-len", "24", "--concurrency", "1,3", "--metadata", "place=gate", "--output-dir", "/tmp/sweep")
    daemon.docker(engine.paths, "exec", container, *SERVE, *words)

    def read(name):
        return daemon.docker(engine.paths, "exec", container, "cat", f"/tmp/sweep/{name}")

    rows = list(csv.DictReader(io.StringIO(read("summary.csv"))))
    assert [(row["Maximum concurrency"], row["Successful requests"]) for row in rows] == [("1", "6"), ("3", "6")]
    for row in rows:
        result = json.loads(read(f"{row['Folder']}/result.json"))
        counted = json.loads(read(f"{row['Folder']}/counters.json"))
        assert (result["place"], result["completed"], result["total_output_tokens"]) == ("gate", 6, 48)
        assert counted["generation_tokens"] == 48
        assert 0 <= counted["prefix_hits"] < counted["prefix_queries"]
        assert counted["prompt_tokens"] >= result["total_input_tokens"]  # the engine has the template's tokens too
        assert float(row["P99 TTFT (ms)"]) == pytest.approx(result["p99_ttft_ms"])
        assert min(result[f"{which}_{name}_ms"] for which in ("mean", "p99") for name in ("ttft", "itl", "e2el")) > 0
    assert read("report.html").count("<circle") == 12


def test_the_folder_is_printed_for_whoever_reads_the_log(engine, short):
    """With the key of a file, as a Job has it; the last line has the sum of what was printed."""
    container = engine.container(short)
    key = f"printf '# ours\\n{FLAGS[1]}\\n' > /tmp/keys"
    daemon.docker(engine.paths, "exec", container, "sh", "-c", key)
    serve = (*SERVE[: SERVE.index("--token")], "--token-file", "/tmp/keys", "--print-archive", "--input-len", "24")
    said = daemon.docker(engine.paths, "exec", container, *serve, "--output-dir", "/tmp/printed")
    archive = Archive()
    rest = [line for line in said.splitlines() if not archive.take(line)]
    assert not any(FLAGS[1] in line for line in rest)
    files = archive.files()
    assert json.loads(files["01-open/result.json"])["completed"] == 6
    assert b"<html" in files["report.html"]


def test_sharegpt_and_the_completions_route(engine, short, tmp_path):
    """A file of conversations is sent once, though it is shorter than what was asked for."""
    talk = [{"value": "how do I list the files of a folder in a shell"}, {"value": "write ls and press the enter key"}]
    path = tmp_path / "talks.json"
    path.write_text(json.dumps([{"conversations": talk}] * 3))
    path.chmod(0o644)
    container = engine.container(short)
    daemon.docker(engine.paths, "cp", str(path), f"{container}:/tmp/talks.json")
    data = ("--dataset", "sharegpt", "--dataset-path", "/tmp/talks.json", "--api", "completions")
    daemon.docker(engine.paths, "exec", container, *SERVE, *data, "--output-dir", "/tmp/talks")
    result = json.loads(daemon.docker(engine.paths, "exec", container, "cat", "/tmp/talks/01-open/result.json"))
    assert (result["completed"], result["failed"], result["backend"]) == (3, 0, "openai")


def test_json_lines_without_pandas(engine, short, tmp_path):
    """The image has none; vLLM's client reads the lines by our reader, and their own lengths are asked for."""
    container = engine.container(short)
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"What is {n}?", "output_tokens": 2 + n}) + "\n" for n in range(4)))
    path.chmod(0o644)
    daemon.docker(engine.paths, "cp", str(path), f"{container}:/tmp/q.jsonl")
    data = ("--dataset", "jsonl", "--dataset-path", "/tmp/q.jsonl", "--ignore-eos")
    asked = ("windlass", "bench", "serve", "--tokenizer", "/data/model", "--token", FLAGS[1])
    daemon.docker(engine.paths, "exec", container, *asked, *data, "--output-dir", "/tmp/lines")
    result = json.loads(daemon.docker(engine.paths, "exec", container, "cat", "/tmp/lines/01-open/result.json"))
    assert (result["completed"], result["failed"], result["total_output_tokens"]) == (4, 0, 2 + 3 + 4 + 5)
