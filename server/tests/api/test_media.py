"""Which addresses a request may make the server fetch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass.api import media
from windlass.front.refusal import Refusal
from windlass_testbed.cases import every_case

DOMAINS = ("images.example.com", "*.cdn.example.com")


@pytest.mark.parametrize(
    "address",
    [
        "data:image/png;base64,AAAA",
        "DATA:image/png;base64,AAAA",
        "https://images.example.com/cat.png?size=1#top",
        "http://images.example.com:8080/cat.png",
        "HTTPS://Images.Example.COM/cat.png",
        "https://a.cdn.example.com",
        "https://a.b.cdn.example.com/x",
    ],
)
def test_may_be_fetched(address: str) -> None:
    """Data URLs, and listed hosts."""
    assert media.objection(address, DOMAINS) == ""


@every_case(
    "address",
    [
        "https://evil.example.com/cat.png",
        "https://cdn.example.com/",
        "https://evilcdn.example.com/",
        "https://images.example.com.evil.org/",
        "https://images.example.com@169.254.169.254/",
        "https://user:pass@images.example.com/",
        "https://169.254.169.254/latest/meta-data",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://127.1/",
        "http://[::1]/",
        "http://[::ffff:169.254.169.254]/",
        "https://images.example.com\\@evil.org/",
        "https://evil.org\\images.example.com/",
        "https://images.example.com\t.evil.org/",
        " https://images.example.com/",
        "https://images.example.com/\nHost: evil",
        "https:images.example.com",
        "//images.example.com/cat.png",
        "file:///etc/passwd",
        "ftp://images.example.com/cat.png",
        "httpx://images.example.com/cat.png",
        "gopher://images.example.com:25/",
        "https://ímages.example.com/",
        "https://images.example.com./",
        "images.example.com/cat.png",
        "data:,x",
        "data:text/plain,base64",
        "data:image/png,;base64,AAAA",
        "",
    ],
)
def test_may_not_be_fetched(address: str) -> None:
    """Other hosts, numbers, user info, other schemes, and whatever two parsers could read differently."""
    assert media.objection(address, DOMAINS)


@given(host=st.ip_addresses(v=4), shown=st.sampled_from(["{}", "{}.", "{}:80"]))
def test_no_ipv4_address_is_fetched(host: object, shown: str) -> None:
    """Not even when a domain of that spelling were allowed."""
    assert media.objection(f"http://{shown.format(host)}/", (str(host), *DOMAINS))


@pytest.mark.parametrize(
    ("field", "document"),
    [
        ("image_url", {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "http://x/"}}]}]}),
        ("image_url", {"messages": [{"content": [{"image_url": "http://x/"}]}]}),
        ("image_url", {"input": [{"content": [{"type": "input_image", "image_url": "http://x/"}]}]}),
        ("video_url", {"messages": [{"content": [{"type": "video_url", "video_url": {"url": "http://x/"}}]}]}),
        ("audio_url", {"data": {"content": [{"audio_url": "http://x/"}]}}),
        ("url", {"messages": [{"content": [{"type": "image", "source": {"type": "url", "url": "http://x/"}}]}]}),
        ("images", {"images": ["data:,", "http://x/"]}),
    ],
)
def test_every_place_of_the_engines_apis_is_seen(field: str, document: dict) -> None:
    """Chat, responses, messages, embeddings and decisions name their media differently."""
    with pytest.raises(Refusal) as caught:
        media.check(document, DOMAINS)
    assert (caught.value.status, caught.value.param) == (400, field)


def test_schemas_of_tools_are_no_addresses() -> None:
    """A tool may have an argument of that name."""
    tool = {"function": {"parameters": {"properties": {"image_url": {"type": "string", "url": "x"}}}}}
    media.check({"tools": [tool], "messages": [{"content": "image_url"}]}, ())


def test_the_engines_own_check_is_set_too() -> None:
    """Exact hosts are told to it; none means a name that never resolves; redirects are off in any case."""
    assert media.engine_media(("a.example",)).arguments == ("--allowed-media-domains", "a.example")
    assert media.engine_media(()).arguments == ("--allowed-media-domains", media.NOWHERE)
    assert media.engine_media(DOMAINS).arguments == ()
    assert media.engine_media(DOMAINS).variables == {"VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0"}


@pytest.mark.parametrize(
    "body",
    [
        {"content_parts": [{"type": "image_url", "url": "http://10.0.0.1/"}]},
        {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "http://10.0.0.1/"}}]}]},
        {"input": [{"type": "input_image", "image_url": "http://10.0.0.1/"}]},
        {"messages": [{"content": [{"type": "x", "any_new_url": "http://10.0.0.1/"}]}]},
        {"anything": {"deep": [{"image_urls": ["data:image/png;base64,AA", "http://10.0.0.1/"]}]}},
        {"source": {"type": "file", "uri": "file:///etc/passwd"}},
    ],
    ids=str,
)
def test_whatever_is_named_like_an_address_is_one(body: dict) -> None:
    """At any depth, under names that no engine has yet."""
    with pytest.raises(Refusal):
        media.check(body, DOMAINS)


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"content": [{"type": "text", "text": "see http://10.0.0.1/"}]}]},
        {"messages": [{"content": "x", "annotations": [{"type": "url_citation", "url": "http://10.0.0.1/"}]}]},
        {"messages": [{"content": [{"type": "tool_use", "name": "get", "input": {"url": "http://10.0.0.1/"}}]}]},
        {"documents": [{"title": "x", "url": "http://10.0.0.1/"}]},
        {"tools": [{"type": "mcp", "server_url": "http://10.0.0.1/"}]},
        {"input": [{"type": "web_search_call", "action": {"type": "open_page", "url": "cursor:1"}}]},
    ],
    ids=str,
)
def test_what_a_body_quotes_is_text(body: dict) -> None:
    """Citations, calls of tools, documents and schemas are handed to the model."""
    media.check(body, DOMAINS)
