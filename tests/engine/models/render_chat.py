"""Runs inside the serving image: one conversation with a tool, by the training's renderer and by transformers."""

import json
import sys

sys.path.insert(0, "/repo/models/demo")


def main() -> None:
    """Print both texts."""
    from dialogue import TOOLS, Dialogue, Template
    from transformers import AutoTokenizer

    call = {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}}
    messages = (
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "How warm is it in Paris?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": '{"temperature": 20}'},
    )
    tools = tuple(tool.schema for tool in TOOLS[:2])
    tokenizer = AutoTokenizer.from_pretrained("/repo/models/demo")
    theirs = tokenizer.apply_chat_template(
        list(messages), tools=list(tools), tokenize=False, add_generation_prompt=True
    )
    print("RESULT " + json.dumps([Template()(Dialogue(messages, tools), prompt=True), theirs]))


if __name__ == "__main__":
    main()
