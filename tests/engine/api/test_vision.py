"""Images in a chat, with a tiny random model that reads them: what is fetched, and what is not."""

import base64
import math

import httpx
import pytest

from ..conftest import SEEING_KEY
from .image_host import CHESS, PNG, PORT

DATA, OTHER = ("data:image/png;base64," + base64.b64encode(picture).decode() for picture in (PNG, CHESS))
LOGPROBS = {"logprobs": True, "top_logprobs": 1}
HOST = f"http://localhost:{PORT}"
IMAGE_TOKENS = 16
"""Patches of 14 pixels in 56 × 56."""
TEXT = {"type": "text", "text": "What is in this picture?"}


@pytest.fixture(scope="module")
def http(seeing):
    headers = {"Authorization": f"Bearer {SEEING_KEY}"}
    with httpx.Client(base_url=seeing, headers=headers, timeout=120) as found:
        yield found


def ask(http, *parts, **fields):
    body = {"messages": [{"role": "user", "content": list(parts)}], "max_tokens": 4, "temperature": 0}
    return http.post("/v1/chat/completions", json=body | fields)


def image(url):
    return {"type": "image_url", "image_url": {"url": url}}


def first_logprob(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["logprobs"]["content"][0]["logprob"]


def prompt_tokens(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["usage"]["prompt_tokens"]


def test_an_image_is_part_of_the_prompt(http):
    """Each image adds its patches, and the line break before it."""
    none, one, two = (prompt_tokens(ask(http, TEXT, *[image(DATA)] * count)) for count in range(3))
    assert (one - none, two - one) == (IMAGE_TOKENS + 1, IMAGE_TOKENS + 1)


def test_an_image_changes_the_answer(http):
    """The pixels reach the model, not only their number."""
    seen, same, unlike = (first_logprob(ask(http, TEXT, image(url), **LOGPROBS)) for url in (DATA, DATA, OTHER))
    assert math.isclose(seen, same, rel_tol=1e-4)
    assert not math.isclose(seen, unlike, rel_tol=1e-4)


def test_an_image_of_an_allowed_host_is_fetched(http):
    assert prompt_tokens(ask(http, TEXT, image(f"{HOST}/red.png"))) == prompt_tokens(ask(http, TEXT, image(DATA)))


def test_no_rule_of_sampling_stumbles_over_an_image(http):
    """Its tokens stand in the prompt again and again, and are not in the vocabulary."""
    assert ask(http, TEXT, image(DATA), no_repeat_ngram_size=1).status_code == 200


def test_an_image_that_is_not_there_is_reported(http):
    """vLLM's own sentence and status, which names the host's."""
    answer = ask(http, TEXT, image(f"{HOST}/absent.png"))
    assert answer.status_code == 422
    assert "HTTP 404" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        pytest.param("https://example.com/a.png", "names the host example.com, from which", id="other host"),
        pytest.param("file:///etc/passwd", "is neither a data: URL nor a plain http(s) URL", id="file"),
        pytest.param("http://169.254.169.254/latest", "names the IP address 169.254.169.254", id="link-local"),
        pytest.param("http://127.0.0.1:8502/", "names the IP address 127.0.0.1", id="loopback"),
        pytest.param("http://2852039166/", "names the IP address 2852039166", id="number"),
        pytest.param(f"http://localhost:{PORT}@169.254.169.254/", "is neither a data: URL nor", id="user info"),
        pytest.param("http://[::1]/red.png", "is neither a data: URL nor", id="IPv6"),
        pytest.param("http://localhost:9/a.png", "an address in the request could not be fetched", id="no server"),
        pytest.param(f"{HOST}/away.png", "", id="redirect to what is allowed"),
        pytest.param(f"{HOST}/inner.png", "", id="redirect to the inside"),
        pytest.param("data:image/png,AAAA", "is a data: URL without base64", id="no base64"),
        pytest.param("data:image/png;base64,AAAA", "cannot identify image file", id="no image"),
    ],
)
def test_what_is_not_fetched(http, url, says):
    """A sentence and 400; a redirect is not followed, wherever it leads."""
    answer = ask(http, TEXT, image(url))
    assert answer.status_code == 400, answer.text
    assert says in answer.json()["error"]["message"]


def test_the_server_is_well_after_all_that(http):
    assert ask(http, TEXT, image(DATA)).status_code == 200
