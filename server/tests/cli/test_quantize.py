"""`windlass quantize`: quick help without torch, and what is refused before anything is loaded."""

import json
import subprocess
import sys

import pytest
from windlass.cli import main


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
