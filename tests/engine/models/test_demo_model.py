"""The demo model: its script makes a model, its weights answer, and vLLM says what transformers says."""

import json
import subprocess
import sys

import pytest
from windlass_testbed.paths import REPOSITORY

DEMO = REPOSITORY / "models/demo"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """The collected data, with whatever versions of the packages Debian has today."""
    folder = tmp_path_factory.mktemp("data")
    code = "import sys, pathlib, collect; collect.collect(pathlib.Path(sys.argv[1]), accept=True)"
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    done = subprocess.run([sys.executable, "-c", code, folder], cwd=DEMO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.long
def test_the_training_script_makes_a_model(engine, work, tmp_path):
    """A short run of the smaller recipe: the loss falls, and what is written is a whole model directory."""
    words = ["/repo/models/demo/train.py", "--cpu", "--steps", "40", "--work", "/work", "--out", "/out"]
    printed = engine.python(*words, mounts={work: "/work", tmp_path: "/out"})
    training = json.loads((tmp_path / "training.json").read_text())
    assert training["loss_answers"] < 7, printed
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= {
        p.name for p in tmp_path.iterdir()
    }


def test_most_answers_are_right(engine, work):
    """A sample of the evaluation; the whole table stands in the model card."""
    words = [
        "/repo/models/demo/evaluate.py",
        "--work",
        "/work",
        "--questions",
        "60",
        "--calls",
        "24",
        "--files",
        "3",
        "-o",
        "json",
    ]
    rows = json.loads(engine.python(*words, mounts={work: "/work"}))
    found = {row["measure"]: row["value"] for row in rows}
    assert float(found["held-out phrasings, exact answer"].split()[0]) >= 85
    assert float(found["tool calls, right arguments"].split()[0]) >= 80
    assert float(found["held-out source, perplexity a token"]) < 8


def test_vllm_says_what_transformers_says(engine, work):
    """Greedy, float32, token for token; `make bench-demo` compares 50 prompts."""
    words = ["/repo/models/demo/evaluate.py", "--work", "/work", "--equality", "12", "-o", "json"]
    (row,) = json.loads(engine.python(*words, mounts={work: "/work"}))
    assert (row["items"], row["value"]) == (12, "12")


def test_the_chat_template_is_the_one_it_was_trained_with(engine):
    """transformers renders tools and turns as the training's own renderer does."""
    ours, theirs = engine.result("/repo/tests/engine/models/render_chat.py")
    assert ours == theirs
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>' in theirs
