"""`windlass bench replay`: the walk, the rows, the files, and what a user sees when something is missing."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pytest
from typer.testing import CliRunner
from windlass.bench import drafters, replay, report, tokens, traces
from windlass.cli.main import app
from windlass.errors import UsageError

KEYS = {
    "drafter",
    "workload",
    "requests",
    "tokens",
    "steps",
    "tokens_per_step",
    "drafted_per_step",
    "acceptance",
    "propose_us_p50",
    "propose_us_p99",
    "update_us_p50",
    "memory_mib",
}


class Scripted(drafters.Nothing):
    """Proposes what it is given, one draft a step."""

    def __init__(self, drafts):
        self.drafts = list(drafts)

    def propose(self):
        return self.drafts.pop(0)


@pytest.fixture
def trace_file(tmp_path):
    words = "the quick brown fox jumps over the lazy dog and runs far away from the big bad wolf".split()
    rows = [
        {
            "id": str(number),
            "workload": "fable",
            "prompt": f"tell {number % 3}",
            "output": " ".join(words[number % 3 :]),
            "group": "g",
        }
        for number in range(6)
    ]
    path = tmp_path / "fable.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(json.dumps(row) for row in rows).encode()))
    return path


def run(*words):
    return CliRunner().invoke(app, ["bench", "replay", *map(str, words)])


def test_a_walk_accepts_the_longest_true_prefix_and_one_token_more():
    """Steps, drafted and accepted tokens of a record of eight, counted by hand."""
    record = [1, 2, 3, 4, 5, 6, 7, 8]
    drafter = Scripted([[2, 3, 9], [], [6, 7, 8, 9]])
    tally = replay.walk(drafter, replay.Request([0], record))
    assert (tally.tokens, tally.steps, tally.drafted, tally.accepted) == (7, 3, 7, 5)


def test_plain_decoding_takes_one_step_a_token(trace_file):
    """The drafter none is the measure of all others."""
    [row, repeats] = report.rows(report.Plan([trace_file], ["none"], "pieces", [6]))
    assert (row.tokens_per_step, row.drafted_per_step, row.requests) == (1.0, 0.0, 6)
    assert (repeats.workload, repeats.requests) == ("fable repeats", 3)


def test_ours_gains_on_repeats(trace_file):
    """The second half of the file is the first again."""
    rows = {row.workload: row for row in report.rows(report.Plan([trace_file], ["both"], "pieces", [16]))}
    assert rows["fable repeats"].tokens_per_step > 5
    assert rows["fable repeats"].acceptance > 0.9


def test_json_has_the_documented_keys(trace_file):
    """One object a drafter and workload."""
    result = run("--traces", trace_file, "--drafter", "both", "--tokenizer", "pieces", "-o", "json")
    rows = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [row["drafter"] for row in rows] == ["both", "both"]
    assert all(set(row) >= KEYS for row in rows)


def test_csv_and_table_have_a_line_a_row(trace_file):
    """All three outputs say the same."""
    words = ("--traces", trace_file, "--drafter", "none", "--drafter", "turbo", "--tokenizer", "pieces")
    parsed = list(csv.DictReader(io.StringIO(run(*words, "-o", "csv").stdout)))
    assert [row["drafter"] for row in parsed] == ["none", "none", "turbo", "turbo"]
    assert run(*words).stdout.splitlines()[0].split() == list(parsed[0])


def test_a_drafter_whose_package_is_not_installed_says_absent(trace_file, monkeypatch):
    """Its row stands in the table without figures."""
    monkeypatch.setattr(drafters, "maker", lambda *_: None)
    [row] = json.loads(run("--traces", trace_file, "--drafter", "suffix", "--tokenizer", "pieces", "-o", "json").stdout)
    assert (row["drafter"], row["tokens_per_step"]) == ("suffix", None)
    assert "absent" in run("--traces", trace_file, "--drafter", "suffix", "--tokenizer", "pieces").stdout


def test_warm_requests_pass_first_unless_their_problem_is_measured(tmp_path, trace_file):
    """A warm file shares no problem with what is measured: neither group nor prompt."""
    measured = traces.read(trace_file)
    other = traces.Trace("w", "fable", "another prompt", measured[0].output, "other group")
    same_prompt = traces.Trace("x", "fable", measured[0].prompt, "x", "third group")
    assert traces.unshared([other, same_prompt, measured[1]], measured) == [other]
    warm = tmp_path / "warm.jsonl"
    warm.write_text(json.dumps({name: getattr(other, name) for name in traces.KEYS}))
    rows = list(report.rows(report.Plan([trace_file], ["both"], "pieces", [16], [warm])))
    cold = next(report.rows(report.Plan([trace_file], ["both"], "pieces", [16])))
    assert rows[0].workload == "fable (warm)"
    assert rows[0].tokens_per_step > cold.tokens_per_step


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "line 1 is not JSON"),
        (b'{"id": "1", "workload": "w", "prompt": 3, "output": "x"}', "line 1 has no text for prompt, group"),
        (b"\x1f\x8bbroken", "cannot be read"),
        (b"", "holds no requests; name one with a JSON line for each"),
        (b" \n\n", "holds no requests"),
    ],
)
def test_a_broken_trace_file_is_named_with_its_line(tmp_path, content, words):
    """The sentence says which file and which line."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words) as caught:
        traces.read(path)
    assert "t.jsonl" in str(caught.value)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--drafter", "best"), "--drafter best is not known; choose of raw, turbo, both"),
        (("--tokenizer", "none.json"), "neither tekken, pieces nor a file"),
        (("--ngram", "4:2"), "must be shortest:longest"),
        (("--lookahead-cache-config-dir", "none"), "does not exist"),
    ],
)
def test_a_wrong_word_is_a_sentence(trace_file, words, sentence):
    """No traceback for a user's slip."""
    result = run("--traces", trace_file, "--tokenizer", "pieces", *words)
    assert isinstance(result.exception, UsageError)
    assert sentence in str(result.exception)


def test_help_loads_neither_numpy_nor_the_core():
    """`windlass --help` stays quick."""
    import subprocess
    import sys

    code = "import sys, windlass.cli.main; print({'numpy', 'windlass_lookahead'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_the_shipped_tokenizer():
    """131,072 ids, the special ones first."""
    ids = tokens.tekken(tokens.shipped())("A train leaves at 9.")
    assert ids
    assert all(1000 <= token < 131_072 for token in ids)
