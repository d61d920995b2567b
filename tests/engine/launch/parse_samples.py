"""Runs inside the serving image: what the engine's own parsers make of `parser_samples`, at once and streamed.

Prints one line of JSON: the engine's registered names, and for each sample the parsers that the checkpoint's marks gave
and what they read. The tokenizer of a sample is made here: bytes, and the checkpoint's own tokens. No model is loaded.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CHECKPOINTS = HERE.parents[2] / "server/tests/launch/checkpoints"
sys.path.insert(0, str(HERE))
os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}

from parser_samples import SAMPLES, WEATHER, Sample  # noqa: E402 - beside this file, wherever it is run
from windlass.launch import parsers, probe  # noqa: E402
from windlass.launch.marks import Marks  # noqa: E402

CONTROLS = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
    "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[CALL_ID]", "[ARGS]", "[THINK]", "[/THINK]",
)  # fmt: skip
"""Control tokens that mistral-common asks every tekken.json for."""
STEPS = (1, 4)
"""Tokens of one streamed piece; an engine that drafts gives several."""


@dataclass
class Answer:
    """What a client gets."""

    reasoning: str = ""
    content: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        """As JSON has it; blanks around texts do not count."""
        calls = [{**call, "arguments": _parsed(call["arguments"])} for call in self.calls]
        return {"reasoning": self.reasoning.strip(), "content": self.content.strip(), "calls": calls}

    def add(self, delta: Any) -> None:
        """Take a streamed piece, as a client of the API does."""
        self.reasoning += delta.reasoning or ""
        self.content += delta.content or ""
        for call in delta.tool_calls or ():
            if call.index == len(self.calls):
                self.calls.append({"name": "", "arguments": ""})
            self.calls[call.index]["name"] += call.function.name or ""
            self.calls[call.index]["arguments"] += call.function.arguments or ""


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def tokenizer(marks: Marks) -> Any:
    """A tokenizer of the checkpoint's kind with its tokens."""
    return mistral_tokenizer(marks) if marks.is_mistral_format else plain_tokenizer(marks)


def mistral_tokenizer(marks: Marks) -> Any:
    """One of mistral-common: bytes, and the control tokens of its newer files."""
    from vllm.tokenizers.mistral import MistralTokenizer

    names = list(dict.fromkeys((*CONTROLS, *sorted(marks.tokens))))
    special = [{"rank": rank, "token_str": name, "is_control": True} for rank, name in enumerate(names)]
    single = [base64.b64encode(bytes([rank])).decode() for rank in range(256)]
    config = {
        "pattern": r"\s?\w+|.",
        "num_vocab_tokens": len(single),
        "default_vocab_size": len(single) + len(names),
        "default_num_special_tokens": len(names),
        "version": "v11",
    }
    vocab = [{"rank": rank, "token_bytes": text, "token_str": None} for rank, text in enumerate(single)]
    folder = Path(tempfile.mkdtemp())
    text = json.dumps({"config": config, "vocab": vocab, "special_tokens": special})
    (folder / "tekken.json").write_text(text)
    return MistralTokenizer.from_pretrained(str(folder))


def plain_tokenizer(marks: Marks) -> Any:
    """Pieces as long as those of real tokenizers, learned from the samples, and the added tokens of the checkpoint."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator([*(sample.text for sample in SAMPLES), " </", " </"], trainer)
    made.add_tokens([AddedToken(token, normalized=False) for token in sorted(marks.tokens)])
    return PreTrainedTokenizerFast(tokenizer_object=made)


def request(sample: Sample) -> Any:
    """A request with the tool."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    return ChatCompletionRequest(
        model="m",
        messages=[{"role": "user", "content": "How is the weather in Paris?"}],
        tools=[WEATHER],
        tool_choice="auto",
        chat_template_kwargs=dict(sample.options),
    )


def parser(sample: Sample, words: Any) -> Any:
    """The engine's parser of one request, checked against the tokenizer as at its start."""
    from vllm.parser.parser_manager import ParserManager

    kind = ParserManager.get_parser(
        tool_parser_name=sample.tools or None,
        reasoning_parser_name=sample.reasoning or None,
        enable_auto_tools=bool(sample.tools),
        tokenizer=words,
    )
    assert kind is not None
    return kind(words, request(sample).tools, chat_template_kwargs=dict(sample.options))


def at_once(one: Any, sample: Sample, words: Any) -> Answer:
    """The whole text."""
    one.set_prompt_token_ids(_ids(words, sample.prompt))
    reasoning, content, calls = one.parse(
        sample.text, request(sample), enable_auto_tools=True, model_output_token_ids=_ids(words, sample.text)
    )
    found = [{"name": call.name, "arguments": call.arguments} for call in calls or ()]
    return Answer(reasoning or "", content or "", found)


def streamed(one: Any, sample: Sample, words: Any, step: int) -> Answer:
    """The text in pieces of some tokens."""
    answer, asked = Answer(), request(sample)
    prompt = _ids(words, sample.prompt)
    for piece, is_last in _pieces(_ids(words, sample.text), step):
        text = words.decode(list(piece), skip_special_tokens=False)
        if delta := one.parse_delta(text, list(piece), asked, prompt_token_ids=prompt, finished=is_last):
            answer.add(delta)
    return answer


def _pieces(ids: Sequence[int], step: int) -> Iterator[tuple[Sequence[int], bool]]:
    for start in range(0, len(ids), step):
        yield ids[start : start + step], start + step >= len(ids)


def _ids(words: Any, text: str) -> list[int]:
    """Tokens of a text; control tokens too, which mistral-common reads in no text."""
    known = words.get_vocab()
    parts = re.split(r"(\[/?[A-Z_]+\])", text) if _is_mistral(words) else [text]
    ids = (
        [known[part]] if _is_mistral(words) and part in known else words.encode(part, add_special_tokens=False)
        for part in parts
        if part
    )
    return [one for some in ids for one in some]


def _is_mistral(words: Any) -> bool:
    return type(words).__name__ == "MistralTokenizer"


def outcome(sample: Sample) -> dict[str, Any]:
    """What became of a sample."""
    marks = probe.model_files(str(CHECKPOINTS / sample.checkpoint)).marks
    words = tokenizer(marks)
    tools, reasoning = parsers.tools(marks), parsers.reasoning(marks)
    answers = {"at once": at_once(parser(sample, words), sample, words)}
    answers |= {f"by {step}": streamed(parser(sample, words), sample, words, step) for step in STEPS}
    return {
        "taken": [tools.parser, reasoning.parser],
        "why": [tools.why, reasoning.why],
        "answers": {name: answer.shown() for name, answer in answers.items()},
    }


def registered() -> dict[str, list[str]]:
    """The names of the engine's parsers."""
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    return {"tools": ToolParserManager.list_registered(), "reasoning": ReasoningParserManager.list_registered()}


def main() -> None:
    """Every sample, whatever becomes of the others."""
    found: list[dict[str, Any]] = []
    for sample in SAMPLES:
        try:
            found.append(outcome(sample))
        except Exception as error:  # told as the failure of the sample
            found.append({"failed": f"{type(error).__name__}: {error}"[:2000]})
    print("RESULT " + json.dumps({"registered": registered(), "samples": found}))


if __name__ == "__main__":
    main()
