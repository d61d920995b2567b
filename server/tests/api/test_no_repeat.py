"""`no_repeat_ngram_size` on its way through the guard."""

import pytest
from windlass.api.body import prepare
from windlass.api.routes import ROUTES
from windlass.front.refusal import Refusal
from windlass.front.settings import ApiSettings

CHAT = ROUTES["/v1/chat/completions"]
WITHOUT = ApiSettings(no_repeat_missing="the model does not generate")


@pytest.mark.parametrize("size", [0, None])
def test_off_is_off_everywhere(size: int | None) -> None:
    """The engine hears nothing of it."""
    assert "vllm_xargs" not in prepare({"no_repeat_ngram_size": size, "use_beam_search": True}, CHAT, WITHOUT)


@pytest.mark.parametrize(
    ("document", "settings", "message"),
    [
        ({}, WITHOUT, "no_repeat_ngram_size is not there: the model does not generate; leave it out"),
        (
            {"use_beam_search": True},
            ApiSettings(),
            "no_repeat_ngram_size does not go with use_beam_search; leave one of them out",
        ),
    ],
)
def test_a_rule_that_would_not_be_kept_is_refused(document: dict, settings: ApiSettings, message: str) -> None:
    """Rather than forgotten."""
    with pytest.raises(Refusal) as refused:
        prepare({"no_repeat_ngram_size": 3, **document}, CHAT, settings)
    assert (refused.value.status, refused.value.message, refused.value.param) == (400, message, "no_repeat_ngram_size")
