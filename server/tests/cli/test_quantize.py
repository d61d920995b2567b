"""`windlass quantize`: quick help without torch, and what is refused before anything is loaded."""

import json
import subprocess
import sys

import pytest
from windlass.cli import main, quantize


@pytest.mark.parametrize("command", ["smoothquant", "gptq"])
def test_help_imports_no_torch(command) -> None:
    program = (
        "import sys; from windlass.cli.main import app\n"
        f"try: app(['quantize', '{command}', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'torch', 'transformers', 'vllm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "--samples" in done.stdout


@pytest.mark.parametrize(
    ("config", "data", "words"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, True, "is quantized already; name the model that it was"),
        ({}, False, "is no file; give one of text, or of JSON lines"),
    ],
)
def test_refusals(tmp_path, monkeypatch, capsys, config, data, words) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2"} | config))
    if data:
        (tmp_path / "data.txt").write_text("text")
    argv = ["windlass", "quantize", "smoothquant", str(tmp_path), "--data", str(tmp_path / "data.txt")]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit):
        main.main()
    assert words in capsys.readouterr().err


def test_progress_is_a_bar_on_a_terminal(monkeypatch, capsys) -> None:
    """One line that is written over, with what is left at the pace so far, and a new line at the end."""
    clock = iter([0.0, 10.0, 40.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    report = quantize.progress()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for done in (1, 2, 4):
        report("layers", done, 4)
    shown = capsys.readouterr().err
    first, second, third = shown.split("\r")[1:]
    assert first.rstrip() == "layers   [#######                       ] 1/4"
    assert second.rstrip() == "layers   [###############               ] 2/4, 0:20 left"
    assert third == f"layers   [{'#' * 30}] 4/4{' ' * 14}\n"


def test_progress_is_plain_lines_elsewhere(monkeypatch, capsys) -> None:
    """In a log: one when some seconds passed, one at the end, nothing that moves a cursor."""
    clock = iter([100.0, 101.0, 107.0, 107.5])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    report = quantize.progress()
    for done in (1, 2, 3, 4):
        report("samples", done, 4)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"windlass: samples {done} of 4" for done in (1, 3, 4)]
