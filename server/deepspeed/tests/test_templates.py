"""Chat templates by name: which one is taken, and what the model reads."""

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from windlass_deepspeed.errors import UsageError
from windlass_deepspeed.templates import TEMPLATES, choose

TALK = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Bye"},
]
READS = {
    "generate": "Be short.HiHelloBye",
    "llama-3": (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe short.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "llama-2": "<s>[INST] <<SYS>>\nBe short.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Bye [/INST]",
    "qwen-7b-chat": (
        "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
    ),
    "baichuan2-chat": "Be short.<reserved_106>Hi<reserved_107>Hello<reserved_106>Bye<reserved_107>",
    "baichuan-chat": "Be short.<reserved_102>Hi<reserved_103>Hello<reserved_102>Bye<reserved_103>",
    "chatglm3": "<|system|>\n Be short.<|user|>\n Hi<|assistant|>\n Hello<|user|>\n Bye<|assistant|>",
    "chatglm2": "Be short.\n\n[Round 1]\n\n问：Hi\n\n答：Hello\n\n[Round 2]\n\n问：Bye\n\n答：",
}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda row: row.name)
def test_what_the_model_reads(template: object) -> None:
    """A conversation of three turns, rendered as tokenizers render."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    assert READS[template.name] == environment.from_string(template.text).render(messages=TALK)


@pytest.mark.parametrize(
    ("name", "model_id", "own", "taken"),
    [
        ("generate", "Qwen-7B-Chat", True, "generate"),
        ("LLaMA-3", "", True, "llama-3"),
        (None, "Qwen-7B-Chat", True, "the model's own"),
        (None, "qwen/Qwen-7B-CHAT", False, "qwen-7b-chat"),
        (None, "Baichuan2-13B-Chat", False, "baichuan2-chat"),
        (None, "Baichuan-13B-Chat", False, "baichuan-chat"),
        (None, "chatglm3-6b", False, "chatglm3"),
        (None, "gpt2", False, None),
    ],
)
def test_which_template(name: str | None, model_id: str, own: bool, taken: str | None) -> None:
    """A name that is said, else the model's own, else the one that MODEL_ID means."""
    chosen = choose(name, model_id, own=own)
    assert taken == (chosen.name if chosen else None)


def test_a_name_that_is_not_known() -> None:
    """The sentence lists the names."""
    with pytest.raises(UsageError, match="choose one of generate, llama-3"):
        choose("shennong_chat", "", own=True)
