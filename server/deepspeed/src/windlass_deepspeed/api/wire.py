"""What a client sends, checked: fields, ranges and defaults. The edge where pydantic is; inside are `Sampling` values.

Fields that would change the answer and are not served here are refused; others that clients add are ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from windlass.engine.sampling.ngrams import SIZE_MAX

from windlass_deepspeed.errors import RequestError
from windlass_deepspeed.sampling import Sampling

MAX_STOPS = 16
MAX_PROMPTS = 128
MAX_BIASES = 1024
"""As many as vLLM takes on a GPU."""
STOP_CHARACTERS = 1000
NOT_SERVED = ("tools", "functions", "logprobs", "top_logprobs", "best_of", "echo", "suffix")

Bias = Annotated[float, Field(ge=-100, le=100)]
Token = Annotated[int, Field(ge=0)]
Stop = Annotated[str, Field(min_length=1, max_length=STOP_CHARACTERS)]


class StreamOptions(BaseModel):
    """`stream_options`."""

    include_usage: bool = False


class _Body(BaseModel):
    """What chat and text completion share."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=0.7, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = -1
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    repetition_penalty: float = Field(default=1.0, ge=1, le=2)
    min_p: float = Field(default=0.0, ge=0, le=1)
    logit_bias: dict[Token, Bias] = Field(default_factory=dict, max_length=MAX_BIASES)
    no_repeat_ngram_size: int = Field(default=0, ge=0, le=SIZE_MAX, strict=True)
    stop: Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None = None
    ignore_eos: bool = False
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    n: int = 1

    @model_validator(mode="before")
    @classmethod
    def _null_says_nothing(cls, data: object) -> object:
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data

    @field_validator("top_k")
    @classmethod
    def _top_k_is_off_or_above_0(cls, value: int) -> int:
        if value < -1:
            raise ValueError("should be -1 (off) or greater than 0")
        return value

    @property
    def asked_tokens(self) -> int | None:
        """The limit that the client set."""
        return self.max_tokens

    @property
    def with_usage(self) -> bool:
        """Whether a stream ends with its token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def refuse_what_is_not_served(self) -> None:
        """RequestError for a field that would change the answer."""
        extra = self.model_extra or {}
        for name in NOT_SERVED:
            if extra.get(name):
                raise RequestError(f"{name} is not served by this image; leave it out", param=name)
        if self.n != 1:
            raise RequestError(f"n is {self.n}, and one answer a request is served; leave it out", param="n")
        wanted = extra.get("response_format") or {}
        if isinstance(wanted, dict) and wanted.get("type", "text") != "text":
            raise RequestError("response_format is served as text only; leave it out", param="response_format")

    def sampling(self, prompt_tokens: int, context: int) -> Sampling:
        """How this request is drawn; RequestError when prompt and answer do not fit the context."""
        left = context - prompt_tokens
        asked = self.asked_tokens
        if left < 1 or (asked or 1) > left:
            raise RequestError(
                f"the context is {context} tokens: the prompt has {prompt_tokens}"
                + (f" and max_tokens asks for {asked} more; ask for at most {left}" if left > 0 else "; shorten it"),
                param="max_tokens" if left > 0 else "messages",
                code="context_length_exceeded",
            )
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return Sampling(
            max_tokens=asked or left,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            min_p=self.min_p,
            logit_bias=tuple(self.logit_bias.items()),
            no_repeat_ngram_size=self.no_repeat_ngram_size,
            seed=self.seed,
            stop=tuple(stop),
            ignore_eos=self.ignore_eos,
        )


class TextPart(BaseModel):
    """A part of a message's content; text is all that is served."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One turn."""

    role: Literal["system", "user", "assistant"]
    content: str | list[TextPart]

    @property
    def text(self) -> str:
        """The content as one text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(_Body):
    """`POST /v1/chat/completions`."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)

    @field_validator("messages")
    @classmethod
    def _system_is_first(cls, messages: list[Message]) -> list[Message]:
        if any(message.role == "system" for message in messages[1:]):
            raise ValueError("the system message comes once, at the beginning")
        return messages

    @property
    def asked_tokens(self) -> int | None:
        """The limit that the client set, by either name."""
        return self.max_completion_tokens or self.max_tokens

    def turns(self) -> list[dict[str, str]]:
        """The conversation as templates read it."""
        return [{"role": message.role, "content": message.text} for message in self.messages]


class TextBody(_Body):
    """`POST /v1/completions`."""

    prompt: str | list[str] | list[int] | list[list[int]]

    @field_validator("prompt")
    @classmethod
    def _prompts_are_few(cls, prompt: str | list[str] | list[int] | list[list[int]]) -> object:
        if not isinstance(prompt, str) and len(prompt) > MAX_PROMPTS and not isinstance(prompt[0], int):
            raise ValueError(f"should hold at most {MAX_PROMPTS} prompts")
        return prompt

    def prompts(self) -> list[str | list[int]]:
        """Each prompt, as text or as tokens."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if self.prompt and isinstance(self.prompt[0], int):
            return [[token for token in self.prompt if isinstance(token, int)]]
        return [one for one in self.prompt if isinstance(one, (str, list))]
