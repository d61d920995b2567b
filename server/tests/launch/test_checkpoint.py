"""Where a checkpoint's marks are read from, and files that are none."""

import json
from pathlib import Path

import pytest
from windlass.engine.adapters.model import Asked
from windlass.errors import ModelError
from windlass.launch import checkpoint, probe

CHECKPOINTS = Path(__file__).with_name("checkpoints")


def write(folder: Path, name: str, content: object) -> None:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def test_the_template_in_the_engines_order(tmp_path: Path) -> None:
    """A file of its own, the processor's, the tokenizer's; among several, the one for tools."""
    several = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    write(tmp_path, "tokenizer_config.json", {"chat_template": several})
    assert checkpoint.marks(tmp_path, "").template == "t"
    write(tmp_path, "tokenizer_config.json", {"chat_template": several[:1]})
    assert checkpoint.marks(tmp_path, "").template == "d"
    write(tmp_path, "chat_template.json", {"chat_template": "p"})
    assert (checkpoint.marks(tmp_path, "").template, checkpoint.marks(tmp_path, "").file) == ("p", "")
    write(tmp_path, "chat_template.jinja", "j")
    found = checkpoint.marks(tmp_path, "")
    assert (found.template, found.file) == ("j", str(tmp_path / "chat_template.jinja"))
    folder = tmp_path / "additional_chat_templates"
    folder.mkdir()
    write(folder, "tool_use.jinja", "a")
    found = checkpoint.marks(tmp_path, "")
    assert (found.template, found.tools_file) == ("a", str(folder / "tool_use.jinja"))
    assert (found.plain, found.file) == ("j", str(tmp_path / "chat_template.jinja"))


def test_the_tokens_of_every_file(tmp_path: Path) -> None:
    """Of the tokenizer's configuration, of its own list, and of the lists of older and of other tokenizers."""
    write(tmp_path, "tokenizer_config.json", {"added_tokens_decoder": {"0": {"content": "a"}, "1": 3}})
    write(tmp_path, "tokenizer.json", {"added_tokens": [{"content": "b"}, {}], "model": {}})
    write(tmp_path, "added_tokens.json", {"c": 7})
    write(tmp_path, "tekken.json", {"vocab": [], "special_tokens": [{"token_str": "d"}]})
    assert checkpoint.marks(tmp_path, "").tokens == set("abcd")


@pytest.mark.parametrize("text", ["", "{", '{"added_tokens":', '{"added_tokens": [', '{"added_tokens": 3}', "[" * 9999])
def test_a_broken_tokenizer_is_left_to_the_engine(tmp_path: Path, text: str) -> None:
    """It has no tokens, and is no error of the marks."""
    write(tmp_path, "tokenizer.json", text)
    assert checkpoint.marks(tmp_path, "").tokens == set()


def test_a_template_that_is_none(tmp_path: Path) -> None:
    """A sentence, as for every file of the model."""
    (tmp_path / "chat_template.jinja").write_bytes(b" " * (checkpoint.TEMPLATE_BYTES_MAX + 1))
    with pytest.raises(ModelError, match=r"chat_template.jinja is no chat template: it is larger than 1 MiB"):
        checkpoint.marks(tmp_path, "")


def test_a_tokenizer_of_mistral_common_wants_its_weights_too(tmp_path: Path) -> None:
    """The engine takes the tokenizer only beside consolidated weights."""
    write(tmp_path, "tekken.json", {})
    assert not checkpoint.marks(tmp_path, "").is_mistral_format
    write(tmp_path, "consolidated.safetensors", "")
    assert checkpoint.marks(tmp_path, "").is_mistral_format


def test_the_template_of_an_adapter_counts(tmp_path: Path) -> None:
    """It is the one that is rendered."""
    base, adapter = CHECKPOINTS / "qwen2.5", tmp_path / "lora"
    adapter.mkdir()
    write(adapter, "chat_template.jinja", "{{ messages }}")
    found = checkpoint.marks(base, "Qwen2ForCausalLM", adapter / "chat_template.jinja")
    assert (found.template, found.file) == ("{{ messages }}", str(adapter / "chat_template.jinja"))
    assert probe.look(Asked(str(base))).marks.file == str(base / "chat_template.jinja")
