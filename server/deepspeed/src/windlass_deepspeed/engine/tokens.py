"""The model directory's tokenizer with its chat template, by transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from windlass_deepspeed import templates
from windlass_deepspeed.errors import ModelError, RequestError
from windlass_deepspeed.flags import Settings
from windlass_deepspeed.model_files import ModelFiles


class ModelTokenizer:
    """A `Tokenizer` from the model directory, with the chosen chat template."""

    def __init__(self, inner: PreTrainedTokenizerBase, template: templates.Template | None) -> None:
        self._inner, self._template = inner, template
        own = inner.eos_token_id
        self.stop_ids = frozenset(() if own is None else (own,)) | frozenset(template.stop_ids if template else ())

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """A conversation as the model wants it, ready for its answer."""
        if self._template is None:
            raise RequestError("this model has no chat template; set CONV_TEMPLATE, or ask /v1/completions")
        text = self._inner.apply_chat_template(
            list(messages), chat_template=self._template.text or None, add_generation_prompt=True, tokenize=False
        )
        return self.encode(text, special=False)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Plain text; templates bring their own special tokens."""
        tokens: list[int] = self._inner.encode(text, add_special_tokens=special)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text without special tokens."""
        text: str = self._inner.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


def tokenizer(settings: Settings, files: ModelFiles, model_id: str) -> ModelTokenizer:
    """The directory's tokenizer with the template that is said, its own, or the one of its name."""
    try:
        inner = AutoTokenizer.from_pretrained(settings.model_path, trust_remote_code=True)
    except (OSError, ValueError) as error:
        raise ModelError(f"the tokenizer in {settings.model_path} cannot be loaded: {error}") from error
    said = settings.conv_template or files.conv_template
    return ModelTokenizer(inner, templates.choose(said, model_id, own=bool(inner.chat_template)))
