"""Data sets beside random ones: turns of conversations, traces, the demo's questions, ramps, lines without pandas."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from windlass.bench.serving import command, files, line_reader, load, prompts, talks
from windlass.bench.serving.load import Api, DataSet, Load, Point, Ramp
from windlass.errors import UsageError

from .samples import LOAD

TALKS = [
    {"conversations": [{"from": role, "value": f"{name}{turn}"} for turn, role in enumerate(("human", "gpt") * 2)]}
    for name in "abc"
]
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


@pytest.fixture
def asked(tmp_path: Path) -> Load:
    """Three conversations of two turns, and a model directory with a chat template."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/tokenizer.json").write_text("{}")
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": {}}))
    (tmp_path / "talks.json").write_text(json.dumps(TALKS))
    whole = replace(LOAD, tokenizer=str(tmp_path / "model"), dataset_path=str(tmp_path / "talks.json"))
    return replace(whole, dataset=DataSet.MULTI_TURN, api=Api.COMPLETIONS, output_len=7)


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def test_messages_hold_the_messages_before(asked: Load, tmp_path: Path) -> None:
    """Two conversations at once: their first turns, their second ones, then the next two; as many as were asked for."""
    one = prompts.part(replace(asked, num_prompts=5), tmp_path / "out", 0, 1, 2)
    rows = [json.loads(line) for line in Path(one.dataset_path or "").read_text().splitlines()]
    assert [row["prompt"] for row in rows] == [
        "<user>a0<assistant>",
        "<user>b0<assistant>",
        "<user>a0<assistant>a1<user>a2<assistant>",
        "<user>b0<assistant>b1<user>b2<assistant>",
        "<user>c0<assistant>",
    ]
    assert {row["output_tokens"] for row in rows} == {7}
    words = command.argv(one, Point("01", 0), "/out")
    assert (after(words, "--dataset-name"), "--disable-shuffle" in words) == ("custom", True)
    assert "--skip-chat-template" in words  # it is rendered already


def test_runs_of_a_sweep_share_no_conversation(asked: Load, tmp_path: Path) -> None:
    """Each of three runs has one; a fourth would have none."""
    parts = [prompts.part(asked, tmp_path / str(at), at, 3, 1) for at in range(3)]
    texts = [Path(part.dataset_path or "").read_text() for part in parts]
    assert [[name for name in "abc" if f"<user>{name}0" in text] for text in texts] == [["a"], ["b"], ["c"]]
    with pytest.raises(UsageError, match="holds 3 conversations for 4 runs"):
        [prompts.part(asked, tmp_path / "x", at, 4, 1) for at in range(4)]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([("human", "q"), ("gpt", "a")], 2),
        ([("human", "q"), ("gpt", "a"), ("human", "q")], 3),
        ([("system", "s"), ("human", "q"), ("gpt", "a")], 0),
        ([("human", "q"), ("human", "q")], 0),
        ([("human", "q"), ("gpt", "a"), ("gpt", "a")], 2),
        ([], 0),
    ],
)
def test_messages(turns: list[tuple[str, str]], expected: int) -> None:
    """Turns alternate from the user's on; what comes after a turn that does not is left out."""
    found = talks.messages({"conversations": [{"from": role, "value": text} for role, text in turns]})
    assert len(found) == expected


def test_no_template(asked: Load, tmp_path: Path) -> None:
    """One sentence instead of prompts that the model was never trained on."""
    (tmp_path / "model/tokenizer_config.json").write_text("{}")
    with pytest.raises(UsageError, match="has no chat template, which --dataset multi-turn renders"):
        prompts.part(asked, tmp_path / "out", 0, 1, None)


GOOD = {"timestamp": 5, "input_length": 700, "output_length": 8, "hash_ids": [1, 2]}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["{"], "line 1: no JSON"),
        ([json.dumps(GOOD | {"timestamp": "now"})], "line 1: it needs the numbers timestamp, input_length"),
        ([json.dumps(GOOD | {"hash_ids": 3})], "line 1: no hash_ids"),
        ([json.dumps(GOOD), json.dumps(GOOD | {"timestamp": 4})], "line 2: its timestamp is before the line above"),
        ([], "is empty"),
    ],
)
def test_bad_traces(tmp_path: Path, lines: list[str], said: str) -> None:
    """The line, and what to write."""
    with pytest.raises(UsageError) as refused:
        files.check_trace(tmp_path / "t.jsonl", lines)
    assert said in str(refused.value)


def test_a_trace_keeps_its_times(tmp_path: Path) -> None:
    """Mooncake's milliseconds and blocks; twice as fast as recorded; full answers."""
    files.check_trace(tmp_path / "t.jsonl", [json.dumps(GOOD), json.dumps(GOOD)])
    one = replace(LOAD, dataset=DataSet.TRACE, dataset_path="t.jsonl", api=Api.COMPLETIONS, trace_speed=2.0)
    load.check(one)
    words = command.argv(one, Point("01", 0), "/out")
    assert after(words, "--timed-trace-sec-multiplier") == "0.0005"
    assert after(words, "--timed-trace-chunk-hash-size") == "512"
    assert words.count("--ignore-eos") == 1
    assert after(command.warmup(replace(one, warmup=3), Point("01", 0)), "--dataset-name") == "random"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dataset": DataSet.TRACE, "dataset_path": "t"}, "give --api completions with it"),
        ({"dataset": DataSet.MULTI_TURN, "dataset_path": "t"}, "give --api completions with it"),
        ({"dataset": DataSet.DEMO, "dataset_path": "t"}, "--dataset demo reads no file"),
        ({"dataset": DataSet.TRACE, "dataset_path": "t", "api": Api.COMPLETIONS, "request_rate": 2.0}, "its own times"),
        ({"ramp": Ramp("linear", 1, 2), "request_rate": 2.0}, "give one of them"),
        ({"trace_speed": 2.0}, "--trace-speed is of --dataset trace"),
    ],
)
def test_what_does_not_go_together(changed: dict[str, object], said: str) -> None:
    """One sentence for each pair of words."""
    with pytest.raises(UsageError) as refused:
        load.check(replace(LOAD, **changed))  # type: ignore[arg-type]
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, None), ("linear:1:20", Ramp("linear", 1, 20)), ("exponential:2:9", Ramp("exponential", 2, 9))],
)
def test_ramp(text: str | None, expected: Ramp | None) -> None:
    """Two shapes and two rates."""
    assert load.ramp(text) == expected


@pytest.mark.parametrize("text", ["linear", "linear:0:3", "linear:3:3", "steep:1:2", "linear:1:2.5"])
def test_bad_ramps(text: str) -> None:
    """vLLM wants whole rates that rise."""
    with pytest.raises(UsageError, match="as linear:1:20"):
        load.ramp(text)


def test_a_ramps_words() -> None:
    """A ramp stands in the rate's place; a warm-up has none."""
    one = replace(LOAD, ramp=Ramp("linear", 1, 20), warmup=2)
    words = command.argv(one, Point("01", 0, 8), "/out")
    assert (after(words, "--ramp-up-end-rps"), "--request-rate" in words, after(words, "--max-concurrency")) == (
        "20",
        False,
        "8",
    )
    assert "--ramp-up-strategy" not in command.warmup(one, Point("01", 0, 8))


def test_the_demos_questions(asked: Load) -> None:
    """300 unlike ones are part of the package, and vLLM's client gets them as JSON lines."""
    one = prompts.known(replace(asked, dataset=DataSet.DEMO, dataset_path=None, output_len=None))
    files.check(one)
    lines = Path(one.dataset_path or "").read_text().splitlines()
    assert (len(lines), len(set(lines))) == (300, 300)
    assert after(command.argv(one, Point("01", 0), "/out"), "--dataset-name") == "custom"


def test_lines_without_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What vLLM asks of pandas, and nothing is put in the place of a pandas that is there."""
    path = tmp_path / "q.jsonl"
    path.write_text('{"prompt": "a", "output_tokens": 3}\n\n{"prompt": "b"}\n')
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    datasets = ModuleType("datasets")
    monkeypatch.setitem(sys.modules, "datasets", datasets)
    line_reader.stand_in("datasets")
    found = datasets.pd.read_json(path_or_buf=str(path), lines=True)
    assert "prompt" in found.columns
    assert [row.to_dict() for _, row in found.iterrows()] == [{"prompt": "a", "output_tokens": 3}, {"prompt": "b"}]
    with pytest.raises(ValueError, match="JSON lines only"):
        datasets.pd.read_json(str(path), False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    other = ModuleType("datasets")
    monkeypatch.setitem(sys.modules, "datasets", other)
    line_reader.stand_in("datasets")
    assert not hasattr(other, "pd")
