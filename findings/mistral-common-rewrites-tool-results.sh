#!/usr/bin/env bash
# Behaviour: with a tokenizer of format 2 or 3, mistral-common parses the text that a tool returned as JSON wherever that is
#   possible, and puts the value into the prompt in its own spelling. The text 3.10 becomes 3.1, 12345678901234567890.5
#   becomes 1.2345678901234567e+19, {"a": 1, "a": 2} loses its first member, and 4e12345, which could be the short name
#   of a commit, becomes Infinity, which is no JSON. Format 7 puts the text in as it is.
# Expected: the content of a tool message is a text in the chat API, so the model reads that text, in quotation marks where
#   the format has JSON around it, as happens to each text that is not by chance JSON (Python 3.10 stays).
# Why users care: tools answer with versions, amounts, account numbers and hashes. The model is asked for the version, is
#   shown 3.1, and says 3.1; the log of the request has 3.10 in it, so it looks as if the model had made that up.
# Seen with: mistral-common 1.13.1, with the tokenizers that the package ships; sentencepiece 0.2.3.
# Exits 1 when the behaviour is another one.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check mistral-common==1.13.1 sentencepiece==0.2.3
cat > "$work/look.py" <<'PY'
import pathlib
import sys

import mistral_common
from mistral_common.protocol.instruct.messages import AssistantMessage, ToolMessage, UserMessage
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.tool_calls import Function, FunctionCall, Tool, ToolCall
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

CONTENTS = ("Python 3.10", "3.10", "12345678901234567890.5", '{"a": 1, "a": 2}', "4e12345")
SHOWN = ('"Python 3.10"', "3.1", "1.2345678901234567e+19", '{"a": 2}', "Infinity")
NUMBER = "a1b2c3d4e"


def prompt(tokenizer, content):
    """The end of the prompt for a conversation whose tool returned the content."""
    call = ToolCall(id=NUMBER, function=FunctionCall(name="look_up", arguments="{}"))
    messages = [
        UserMessage(content="Which one is it?"),
        AssistantMessage(content=None, tool_calls=[call]),
        ToolMessage(tool_call_id=NUMBER, content=content),
    ]
    tools = [Tool(function=Function(name="look_up", parameters={"type": "object", "properties": {}}))]
    text = tokenizer.encode_chat_completion(ChatCompletionRequest(messages=messages, tools=tools)).text
    return text[text.index("[TOOL_RESULTS]"):].replace("\u2581", " ")


def look(name, shown):
    """Whether each content is shown to the model as expected."""
    tokenizer = MistralTokenizer.from_file(str(pathlib.Path(mistral_common.__file__).parent / "data" / name))
    print(f"  {name}, format {tokenizer.instruct_tokenizer.tokenizer.version.value}")
    found = []
    for content, expected in zip(CONTENTS, shown):
        end = prompt(tokenizer, content)
        print(f"    the tool returned {content}, the model reads {end}")
        found.append(f'{{"content": {expected}, "call_id"' in end or f"[TOOL_CONTENT] {expected}[/TOOL_RESULTS]" in end)
    return all(found)


print(f"mistral-common {mistral_common.__version__}")
rewritten = look("tekken_240911.json", SHOWN)
kept = look("mistral_instruct_tokenizer_241114.model.v7", CONTENTS)
sys.exit(0 if rewritten and kept else 1)
PY
"$work/venv/bin/python" -W ignore "$work/look.py" || { echo "changed: a tool's result is shown to the model in another way"; exit 1; }
