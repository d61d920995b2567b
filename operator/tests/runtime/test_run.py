"""The operator's start: rights that are missing end it with a sentence, a CRD that is missing is awaited."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from windlass_operator.cluster.rest import StatusError
from windlass_operator.errors import SettingsError
from windlass_operator.runtime.run import wait_for_crd


def answering(code: int) -> SimpleNamespace:
    async def call(*_: object) -> bytes:
        raise StatusError(code, json.dumps({"message": "no rights"}).encode())

    return SimpleNamespace(call=call)


@pytest.mark.parametrize("code", [401, 403])
async def test_missing_rights_are_a_sentence(code):
    with pytest.raises(SettingsError, match=rf"no access to llmservices\.\S+ the API server answers {code}: no rights"):
        await wait_for_crd(answering(code), None)


async def test_a_missing_crd_is_no_error():
    await wait_for_crd(answering(404), None, once=True)
