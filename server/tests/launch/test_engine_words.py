"""The engine's own words against the record of its flags: what the engine's parser takes passes, the rest is named."""

import pytest
from windlass.errors import UsageError
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.resolve import NATIVE, RUN, resolve
from windlass_sizing.engine_flags import record
from windlass_sizing.errors import SettingsError
from windlass_sizing.settings.engine_words import check
from windlass_testbed.cases import every_case

CPU = Machine("cpu", has_compiler=False)
MODEL = ModelFiles("/data/model", max_model_len=32768, attention_heads=28)


def unknown(flag, instead):
    release = record().release
    return f"there is no flag {flag}, nor has vLLM {release} one; {instead}, or add --allow-unknown-flags to pass it on"


@every_case(
    "line",
    [
        "--kv-cache-dtype fp8 --block_size=32",
        "--no-async-scheduling --enable-log-requests",
        "--hf-overrides.rope_parameters.rope_theta 1e6 --hf_overrides.a=1 -cc.mode 3 -cc.mode=3",
        "--kv-offloading-s 4",
        "-O3 --enable-log-requests",
        "-O 3",
        "-O=3",
        "-n2 -r 0 -dp=2 -dph",
        "--lora-target-modules q_proj k_proj",
        "--hf-token --enable-log-requests",
        "--hf-token abc",
        "--data-parallel-rank -1",
        "--middleware a.b.C --middleware d.e.F",
        "--config /etc/engine.yaml",
    ],
)
def test_what_the_engine_takes_passes(line):
    check(tuple(line.split()), record())


@pytest.mark.parametrize("text", ['{"a": -1, "b": [1]}', "-- {{ messages }}", '--x "a b"'])
def test_a_value_with_blanks_is_a_value(text):
    check(("--default-chat-template-kwargs", text), record())


@every_case(
    "words, sentence",
    [
        (("--quantisation", "fp8"), unknown("--quantisation", "write --quantization")),
        (("--max-modle-len=4K",), unknown("--max-modle-len", "write --max-model-len")),
        (("--max_modle_len", "9"), unknown("--max_modle_len", "write --max-model-len")),
        (("--use-lookahaed",), unknown("--use-lookahaed", "write --use-lookahead")),
        (("--kv-ofloading-size", "4"), unknown("--kv-ofloading-size", "write --kv-offloading-size")),
        (("--hf-overides.a", "4"), unknown("--hf-overides", "write --hf-overrides")),
        (("--zzzz",), unknown("--zzzz", "see windlass run --help")),
        (("-x",), unknown("-x", "see windlass run --help")),
        (
            ("qwen",),
            '"qwen" belongs to no flag; the model directory is the first word, each value stands behind its flag',
        ),
        (
            ("--enable-log-requests", "yes"),
            '"yes" belongs to no flag: --enable-log-requests takes no value; leave one of them out',
        ),
        (("--enable-log-requests=yes",), "--enable-log-requests takes no value; write --enable-log-requests alone"),
        (("--block-size",), "--block-size needs a value; write it behind the flag"),
        (("--block-size", "--enable-log-requests"), "--block-size needs a value; write it behind the flag"),
        (("--",), '"--" belongs to no flag; the model directory is the first word, each value stands behind its flag'),
    ],
)
@every_case("style", [RUN, NATIVE], ids=["run", "serve"])
def test_what_it_would_refuse_is_named(words, sentence, style):
    with pytest.raises(UsageError) as refused:
        resolve(("/data/model", *words), {}, MODEL, CPU, style)
    assert str(refused.value) == sentence
    assert refused.value.exit_code == 2


def test_a_beginning_of_several_names_them():
    with pytest.raises(
        SettingsError, match=r"--kv-off is the beginning of --kv-off\S+, --kv-off\S+; write one of them"
    ):
        check(("--kv-off", "1"), record())


@pytest.mark.parametrize(
    ("words", "variables"), [(("--allow-unknown-flags",), {}), ((), {"ALLOW_UNKNOWN_FLAGS": "true"})]
)
def test_who_knows_better_passes_them_on(words, variables):
    plan = resolve(("/data/model", *words, "--of-tomorrow", "x"), variables, MODEL, CPU)
    assert plan.engine_args[-2:] == ("--of-tomorrow", "x")


def test_a_misspelled_flag_does_not_show_its_value():
    """It may be a key."""
    with pytest.raises(SettingsError) as refused:
        check(("--api-kyes=s3cret",), record(), ("api-keys",))
    assert "s3cret" not in str(refused.value)
