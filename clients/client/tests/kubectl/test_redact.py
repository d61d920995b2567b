"""No planted secret survives, wherever it stands; what is no secret stays readable."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windlass_kubectl.redact import GONE, clean_object, cleaner, is_secret_name, secrets_in
from windlass_testbed.cases import every_case

PLAIN = cleaner(())
TEXTS = {
    "bearer": ("Authorization: Bearer abc.def-123456", "abc.def"),
    "bearer in a sentence": ("the client sent bearer 0123456789abcdef to us", "0123456789abcdef"),
    "address with a password": ("curl http://user:hunter2@host/x", "hunter2"),
    "variable": ("HF_TOKEN=abcdefghijklmnop", "abcdefghijklmnop"),
    "hub's own form": ("login with hf_abcdefghijklmnop", "hf_abc"),
    "key's own form": ("sk-1234567890abcdef", "1234567890"),
    "cloud key": ("AKIAABCDEFGHIJKLMNOP", "AKIAABC"),
    "quoted, with a blank": ('{"password": "hunter2 x", "max_tokens": 12}', "hunter2 x"),
    "flag and word": ("--api-key abc123 --max-model-len 5", "abc123"),
    "flag and equals": ("--hf-token=abc", "=abc"),
    "query": ("GET /v1/models?token=abcdef&x=1", "abcdef"),
    "json web token": ("got eyJhbGciOiJIUzI1.eyJzdWIi.c2ln now", "eyJzdWIi"),
    "private key": ("-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\nafter", "MIIabc"),
    "private key cut off": ("-----BEGIN PRIVATE KEY-----\nMIIabc", "MIIabc"),
    "python's own form": ("{'api_key': 'abc', 'x': 1}", "'abc'"),
    "yaml": ("password: hunter2", "hunter2"),
    "several keys, with commas": ("OPENAI_API_KEYS=first1,second2", "second2"),
    "several keys behind a flag": ("run --api-keys first1,second2 --seed 1", "second2"),
    "a list": ("non-default args: {'api_key': ['first1', 'second2'], 'seed': 1}", "second2"),
    "a list that is cut off": ('"api_keys": ["first1", "second2', "second2"),
    "json inside json": (r'{"line": "{\"api_key\": \"abcdefgh\", \"seed\": 1}"}', "abcdefgh"),
    "a quote inside": (r'{"password": "hunter\"rest of it", "seed": 1}', "rest of it"),
    "cookie": ("Set-Cookie: session=abcdef; Path=/", "abcdef"),
    "signed address": ("GET https://hub.example/m?X-Amz-Date=1&X-Amz-Signature=abcdef0123 206", "abcdef0123"),
}


@every_case("text, secret", TEXTS.values(), ids=TEXTS.keys())
def test_a_credential_in_text_is_taken_out(text, secret):
    cleaned = PLAIN(text)
    assert secret not in cleaned
    assert GONE in cleaned
    assert PLAIN(cleaned).count(GONE) == cleaned.count(GONE)


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=128 prompt tokens: 5, token ids [1, 2]",
        "Secret team/keys not found",
        "tokenizer=/data/model",
        "INFO 12:00:01 GPU KV cache size: 51,344 tokens",
        "key: value of the monkey",
        "https://hub.example/model?revision=main",
        '{"tokenSecret": {"name": "hub", "key": "token"}}',
    ],
)
def test_what_is_no_secret_stays(text):
    """A report without its figures is worth nothing."""
    assert PLAIN(text) == text


NAMES = {
    "HF_TOKEN": True, "OPENAI_API_KEY": True, "apiKey": True, "PASSWORD": True, "DB_PASS": True, "client_secret": True,
    "AWS_SECRET_ACCESS_KEY": True, "Authorization": True, "LICENSE_KEY": True, "COOKIE": True, "SIGNING_KEY": True,
    "secretName": False, "apiKeysSecret": False, "apiKeysSecretRef": False, "tlsSecretRef": False,
    "tokenSecret": False, "key": False, "speculativeTokens": False,
    "max_tokens": False, "TOKENIZERS_PARALLELISM": False, "kvTokens": False, "SEED": False, "MODEL_ID": False,
    "tokens\n": True,
}  # fmt: skip


@every_case("name, secret", NAMES.items())
def test_names_that_sound_secret(name, secret):
    assert is_secret_name(name) is secret


SECRET = st.text(st.characters(categories=("Ll", "Lu", "Nd"), max_codepoint=0x7E), min_size=8, max_size=40).map(
    lambda text: f"Zq{text}"
)


def test_each_of_several_keys_is_gone_everywhere():
    """Listed with commas, on lines, or as words behind one flag; the next flag stays."""
    document = {
        "env": [{"name": "OPENAI_API_KEYS", "value": "firstkey,secondkey"}],
        "password": "thirdkey\nfourthkey",
        "args": ["--api-key", "fifthkey", "sixthkey", "--seed", "17"],
    }
    clean = cleaner(secrets_in(document))
    words = ("firstkey", "secondkey", "thirdkey", "fourthkey", "fifthkey", "sixthkey")
    said = json.dumps(clean_object(document, clean)) + "".join(clean(f"who is {word}?") for word in words)
    assert not [word for word in words if word in said]
    assert clean_object(document, clean)["args"] == ["--api-key", GONE, GONE, "--seed", "17"]


@settings(deadline=None)  # the machine may be busy
@given(secret=SECRET, where=st.sampled_from(["env", "flag", "flag=", "short flag", "short flag=", "field", "nested"]))
def test_a_secret_met_once_is_gone_everywhere(secret, where):
    """Under its name, in the log line that repeats it, and in a message that quotes it."""
    holder = {
        "env": {"env": [{"name": "HF_TOKEN", "value": secret}, {"name": "SEED", "value": "17"}]},
        "flag": {"args": ["--api-key", secret, "--seed", "17"]},
        "flag=": {"args": [f"--api-key={secret}"]},
        "short flag": {"args": ["--api-k", secret]},
        "short flag=": {"args": [f"--hf-tok={secret}"]},
        "field": {"password": secret},
        "nested": {"a": [{"b": {"accessToken": secret}}]},
    }[where]
    document = {**holder, "message": f"cannot log in as {secret}", "number": 5}
    clean = cleaner(secrets_in(document))
    assert secret not in json.dumps(clean_object(document, clean))
    assert secret not in clean(f"log: trying {secret}!")


@every_case(
    "piece",
    [
        "a-",
        "a.token",
        "eyJ-",
        "password",
        "ab+",
        "://",
        "x_KEY",
        '"',
        "bearer ",
        "key=[",
        '\\"',
        'password="\\',
        "api_key:",
    ],
)
def test_a_long_line_is_no_trap(piece):
    """A model's output may be one line, and hostile: a quadratic search in it would not end within a test's limit."""
    PLAIN(piece * (400_000 // len(piece)))


def test_references_and_bookkeeping():
    """Which Secret is meant stays; what repeats the whole object goes."""
    document = {
        "metadata": {
            "managedFields": [{}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{…}", "note": "kept"},
        },
        "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}],
        "secret": {"secretName": "keys"},
    }
    assert clean_object(document, PLAIN) == {
        "metadata": {"annotations": {"note": "kept"}},
        "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}],
        "secret": {"secretName": "keys"},
    }
