"""What becomes of a request's JSON body on its way to the engine. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from windlass.api import fields, media, names, pixels, work
from windlass.api.routes import Route
from windlass.engine import response_items
from windlass.front import scan
from windlass.front.refusal import Refusal
from windlass.front.settings import ApiSettings

NGRAM = "no_repeat_ngram_size"
BINDING = ("structured_outputs", "response_format", "text", "tools")
"""Fields that make the engine compile a grammar."""
XARGS = "vllm_xargs"
LONGEST_WORD = 40


def parse(raw: bytes) -> dict[str, Any]:
    """The body as an object, or a refusal that says where it is broken."""
    try:
        # Decoded here, since `json` takes UTF-16 and UTF-32 for JSON too, which `scan` has not measured.
        document = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        where = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise Refusal(400, f"the body is not JSON: {where}; send one JSON object") from None
    except UnicodeDecodeError as error:
        raise Refusal(400, f"the body is not UTF-8 at byte {error.start}; send one JSON object") from None
    except ValueError as error:
        raise Refusal(400, f"the body cannot be read as JSON: {error}; send one JSON object") from None
    if not isinstance(document, dict):
        raise Refusal(400, f"the body is JSON but {_kind(document)}; send one JSON object")
    return document


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes for the engine, and what of them counts when the engine fails on them."""

    raw: bytes
    model: str = ""
    bindings: tuple[str, ...] = ()
    """Fields of BINDING that the request fills: its answer is bound to a schema, a grammar or a tool's arguments."""
    fetches: bool = False
    """It names media on another host."""
    hides_usage: bool = False
    """Its stream tells its usage because we asked for it, not the client."""


EMPTY = Body(b"")


def rewrite(raw: bytes, route: Route, settings: ApiSettings, models: tuple[str, ...] = ()) -> Body:
    """The body as the engine gets it, measured before it is parsed; `models` are those of the key, if it names some."""
    scan.check(raw, settings.json_limits)
    try:
        prepared = prepare(parse(raw), route, settings, models)
        hides_usage = route.stream_options and _ask_for_usage(prepared)
        bindings = tuple(name for name in BINDING if prepared.get(name))
        text = json.dumps(prepared, ensure_ascii=False).encode()
        return Body(text, prepared.get("model") or "", bindings, media.fetches(prepared), hides_usage)
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply; send a flatter JSON object") from None
    except UnicodeEncodeError:
        message = "the body holds half of a surrogate pair, which is no character; send both halves or none"
        raise Refusal(400, message) from None


def prepare(
    document: Mapping[str, Any], route: Route, settings: ApiSettings, models: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The body as the engine gets it: checked, the model named, defaults filled in."""
    pixels.check(media.check(document, settings.image_domains), settings.max_image_pixels)
    work.check(document)
    if isinstance(document.get("input"), list):
        response_items.check(document["input"])
    prepared = dict(document)
    if not prepared.get("model") and (models or settings.served_names):
        prepared["model"] = (models or settings.served_names)[0]
    if not isinstance(prepared.get("model") or "", str):
        raise Refusal(400, "model must be a string: one of the names of GET /v1/models", param="model")
    if models and prepared["model"] not in models:
        raise names.withheld(prepared["model"], models)
    if route.sampled:
        fields.check(document)
        _move_ngram(prepared, settings.no_repeat_missing)
    if route.filled:
        prepared |= fields.defaults(document, settings.generation_fields)
        _add_stop_ids(prepared, settings.extra_stop_ids)
    return prepared


def _ask_for_usage(document: dict[str, Any]) -> bool:
    """Make a stream tell its usage; whether the client did not ask for it."""
    options = document.get("stream_options")
    if document.get("stream") is not True or not isinstance(options, dict | None):
        return False  # what is neither an object nor left out the engine refuses
    if options and options.get("include_usage") is True:
        return False
    document["stream_options"] = {**(options or {}), "include_usage": True, "continuous_usage_stats": False}
    return True


def _add_stop_ids(document: dict[str, Any], extra: tuple[int, ...]) -> None:
    asked = document.get("stop_token_ids") or []
    if extra and isinstance(asked, list):  # what is no list the engine refuses
        document["stop_token_ids"] = list(dict.fromkeys([*asked, *extra]))


def _move_ngram(document: dict[str, Any], missing: str) -> None:
    size = document.pop(NGRAM, None)
    if not size:  # none, or off
        return
    if missing:
        raise Refusal(400, f"{NGRAM} is not there: {missing}; leave it out", param=NGRAM)
    if document.get("use_beam_search") is True:
        raise Refusal(400, f"{NGRAM} does not go with use_beam_search; leave one of them out", param=NGRAM)
    others = document.get(XARGS) or {}
    if not isinstance(others, dict):
        raise Refusal(400, f"{XARGS} must be an object", param=XARGS)
    document[XARGS] = {NGRAM: size} | others


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word[:LONGEST_WORD]} is too large for a number")
    return number


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _kind(document: object) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(document), "a single value")
