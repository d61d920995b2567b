"""Pixels of images inside a request: the sum is bounded by what their headers declare."""

import base64
import sys
from io import BytesIO

import pytest
from PIL import Image
from windlass.api import body, pixels
from windlass.api.routes import ROUTES
from windlass.front.refusal import Refusal
from windlass.front.settings import ApiSettings

CHAT = ROUTES["/v1/chat/completions"]
SIDE = 8
MOST = 2 * SIDE * SIDE


def encoded(form: str = "PNG") -> str:
    """A small image in base64."""
    file = BytesIO()
    Image.new("RGB", (SIDE, SIDE)).save(file, form)
    return base64.b64encode(file.getvalue()).decode()


def url(form: str = "PNG", kind: str = "image/png") -> tuple[str, str]:
    return "image_url", f"data:{kind};base64,{encoded(form)}"


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_images_count_together(form):
    """As many pixels as are allowed pass; one image more does not."""
    pixels.check([url(form)] * 2, MOST)
    with pytest.raises(Refusal) as caught:
        pixels.check([url(form)] * 3, MOST)
    assert (caught.value.status, caught.value.param) == (413, "image_url")
    assert str(caught.value) == (
        "image_url holds images of more than 128 pixels together; send smaller or fewer images"
    )


def test_the_named_type_does_not_count():
    """The engine opens by the field, not by the type that the address names."""
    with pytest.raises(Refusal):
        pixels.check([url(kind="audio/mp3")] * 3, MOST)


def test_frames_of_a_video_count():
    frames = ",".join([encoded("JPEG")] * 3)
    with pytest.raises(Refusal):
        pixels.check([("video_url", f"data:video/jpeg;base64,{frames}")], MOST)


@pytest.mark.parametrize("payload", ["", "A", "AAAA", "!", base64.b64encode(b"ID3" + bytes(500)).decode()])
def test_no_image_has_no_pixels(payload):
    """The engine refuses it, or it is sound."""
    pixels.check([("audio_url", f"data:audio/mp3;base64,{payload}")], 0)


def test_a_fetched_image_is_not_read_here():
    pixels.check([("image_url", "https://images.example.com/cat.png")], 0)


def test_headers_have_so_many_reads(monkeypatch):
    """For all images of a request together."""
    monkeypatch.setattr(pixels, "READS_MAX", 60)
    pixels.check([url()], MOST)
    with pytest.raises(Refusal, match="image_url holds images with headers of too many parts") as caught:
        pixels.check([url()] * 40, 40 * MOST)
    assert caught.value.status == 413


def test_pillows_own_bound_is_a_refusal(monkeypatch):
    """Pillow refuses twice its bound when it reads the header."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", SIDE)
    with pytest.raises(Refusal):
        pixels.check([url()], MOST)


def test_the_formats_are_the_engines(monkeypatch):
    """An image that the engine does not open has no pixels."""
    loader = type(sys)(pixels.LOADER)
    loader.ALLOWED_IMAGE_FORMATS = ("JPEG",)
    monkeypatch.setitem(sys.modules, pixels.LOADER, loader)
    pixels.check([url()], 0)
    with pytest.raises(Refusal):
        pixels.check([url("JPEG")], 0)


def test_without_pillow_nothing_is_read(monkeypatch):
    address = url()
    monkeypatch.setitem(sys.modules, "PIL", None)
    pixels.check([address], 0)


def test_a_body_is_held_to_the_setting():
    """Before the engine gets it."""
    image = {"type": "image_url", "image_url": {"url": url()[1]}}
    document = {"messages": [{"role": "user", "content": [image] * 3}]}
    with pytest.raises(Refusal) as caught:
        body.prepare(document, CHAT, ApiSettings(max_image_pixels=MOST))
    assert caught.value.status == 413
    assert body.prepare(document, CHAT, ApiSettings())["messages"] == document["messages"]
