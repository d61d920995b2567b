"""The files of a benchmark; data sets are checked before anything starts."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from windlass.bench.serving import plots
from windlass.bench.serving.load import DataSet, Load
from windlass.bench.serving.page import CHARTS, Chart, as_page, at_once
from windlass.bench.serving.record import Record
from windlass.bench.serving.tables import as_csv, as_text
from windlass.errors import ServerError, UsageError

TRACE_NUMBERS = ("timestamp", "input_length", "output_length")
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "tekken.json", "vocab.json")


def check(load: Load) -> None:
    """Raise UsageError when the tokenizer or the data set is missing, or has another format than its option says."""
    directory = Path(load.tokenizer)
    if not directory.is_dir():
        raise UsageError(f"--tokenizer {directory} is no directory; name the directory of the model that is served")
    if not any((directory / name).is_file() for name in TOKENIZERS):
        raise UsageError(f"--tokenizer {directory} holds no tokenizer; it needs one of {', '.join(TOKENIZERS)}")
    if load.dataset_path is None:
        return
    path = Path(load.dataset_path)
    try:
        with path.open(encoding="utf-8") as lines:
            if load.dataset in {DataSet.SHAREGPT, DataSet.MULTI_TURN}:
                check_sharegpt(path, lines.read(4096))
            elif load.dataset is DataSet.TRACE:
                check_trace(path, lines)
            else:
                check_jsonl(path, lines, has_length=load.output_len is not None)
    except OSError as error:
        raise UsageError(f"--dataset-path {path} cannot be read: {error.strerror}; name a file") from None
    except UnicodeDecodeError:
        raise UsageError(f"--dataset-path {path} is no UTF-8 text; name a file of JSON") from None


def check_sharegpt(path: Path, beginning: str) -> None:
    """ShareGPT's file is one JSON list; it may have 700 MB, so only its beginning is looked at."""
    if not beginning.lstrip().startswith("["):
        raise UsageError(f"--dataset-path {path} is no list of conversations; a ShareGPT file begins with [")


def check_jsonl(path: Path, lines: Iterable[str], *, has_length: bool) -> None:
    """Each line is an object with a prompt, and with output_tokens unless one length is given for all."""
    if path.suffix != ".jsonl":
        raise UsageError(f"--dataset-path {path} is no .jsonl file; vLLM's client reads no other")
    count = 0
    for count, line in enumerate(lines, 1):
        where = f"--dataset-path {path}, line {count}:"
        try:
            row = json.loads(line)
        except ValueError:
            raise UsageError(f"{where} no JSON; write one object a line") from None
        if not isinstance(row, dict) or not isinstance(row.get("prompt"), str):
            raise UsageError(f'{where} no prompt; write it as {{"prompt": "…", "output_tokens": 64}}')
        if not has_length and type(row.get("output_tokens")) is not int:
            raise UsageError(f"{where} no output_tokens; add a whole number, or give --output-len for all")
    if not count:
        raise UsageError(f"--dataset-path {path} is empty; write a prompt a line")


def check_trace(path: Path, lines: Iterable[str]) -> None:
    """Each line has a time in milliseconds, two lengths in tokens, and hashes of the prompt's blocks; times rise."""
    last = -math.inf
    for count, line in enumerate(lines, 1):
        where = f"--dataset-path {path}, line {count}:"
        try:
            row = json.loads(line)
        except ValueError:
            raise UsageError(f"{where} no JSON; write one object a line") from None
        if not isinstance(row, dict) or not all(type(row.get(name)) in {int, float} for name in TRACE_NUMBERS):
            raise UsageError(f"{where} it needs the numbers {', '.join(TRACE_NUMBERS)}, as Mooncake's traces have them")
        if not isinstance(row.get("hash_ids"), list):
            raise UsageError(f"{where} no hash_ids; they are a list with a number for each block of the prompt")
        if row["timestamp"] < last:
            raise UsageError(f"{where} its timestamp is before the line above; sort the lines by it")
        last = row["timestamp"]
    if math.isinf(last):
        raise UsageError(f"--dataset-path {path} is empty; write a request a line")


def make(folder: Path) -> None:
    """Make the folder of a benchmark; it must be new, so that figures of two benchmarks never mix."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise UsageError(f"--output-dir {folder} cannot be made: {error.strerror}; name another") from None
    if taken:
        raise UsageError(f"--output-dir {folder} holds files already; name a new folder")


def write_commands(folder: Path, versions: dict[str, str], commands: Sequence[Sequence[str]]) -> None:
    """commands.txt: versions, and each command as a shell takes it. Keys are in variables, never among the words."""
    append_versions(folder, versions)
    for words in commands:
        append_command(folder, words)


def append_versions(folder: Path, versions: dict[str, str]) -> None:
    """Write the versions into commands.txt, before the commands."""
    with (folder / "commands.txt").open("a", encoding="utf-8") as file:
        file.writelines(f"# {name} {value}\n" for name, value in versions.items())


def append_command(folder: Path, words: Sequence[str]) -> None:
    """One more line of commands.txt."""
    with (folder / "commands.txt").open("a", encoding="utf-8") as file:
        file.write(shlex.join(words) + "\n")


def read_result(path: Path) -> dict[str, object]:
    """Read the result that vLLM's client saved."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ServerError(f"vLLM's load generator left no result in {path}; its words are above") from None
    if not isinstance(result, dict):
        raise ServerError(f"vLLM's load generator wrote no object into {path}")
    return result


def write(folder: Path, records: Sequence[Record]) -> None:
    """Write tables and page of all finished runs, and the counters of the last one."""
    last = records[-1]
    if last.counted is not None:
        counters = json.dumps(last.counted.to_dict(), indent=1) + "\n"
        (folder / last.point.folder / "counters.json").write_text(counters, encoding="utf-8")
    texts = {
        "summary.csv": as_csv(records),
        "summary.txt": "\n".join(as_text(record) for record in records),
        "report.html": as_page(records),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    if plots.can_draw():
        plots.write(folder, [_plot(chart, records) for chart in CHARTS])


def _plot(chart: Chart, records: Sequence[Record]) -> plots.Plot:
    lines = {name: [record.number(field) for record in records] for name, field in chart.lines}
    places = [at_once(record) for record in records]
    return plots.Plot(f"{chart.name}.png", f"{chart.title}, by requests at once", places, lines)
