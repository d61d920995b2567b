"""The start command: a flag wins over its variable, a variable over the default."""

import pytest
from windlass_deepspeed.cli import help_text
from windlass_deepspeed.errors import UsageError
from windlass_deepspeed.flags import FLAGS, resolve

MANUAL = (
    # flag, variable, default, another value, the field, default and other as they are used
    ("--model-path", "MODEL_PATH", "/models/a", "model_path", "/data/model", "/models/a"),
    ("--num-gpus", "TP", "2", "num_gpus", 1, 2),
    ("--worker-num", "WORKER_NUM", "3", "worker_num", 1, 3),
    ("--limit-worker-concurrency", "MAX_CONCURRENCY", "8", "limit_worker_concurrency", 32, 8),
    ("--dtype", "DTYPE", "bfloat16", "dtype", "float16", "bfloat16"),
    ("--max-model-len", "MAX_MODEL_LEN", "2048", "max_model_len", None, 2048),
    ("--seed", "SEED", "7", "seed", None, 7),
    ("--ds-dtype", "DS_DTYPE", "int8", "ds_dtype", None, "int8"),
    ("--max-batch-size", "MAX_BATCH_SIZE", "4", "max_batch_size", 16, 4),
    ("--batch-wait-timeout", "BATCH_WAIT_TIMEOUT", "0.5", "batch_wait_timeout_s", 0.1, 0.5),
    ("--api-keys", "OPENAI_API_KEYS", "sk-a, sk-b", "api_keys", (), ("sk-a", "sk-b")),
)


@pytest.mark.parametrize(("flag", "variable", "said", "field", "default", "value"), MANUAL, ids=[r[0] for r in MANUAL])
def test_flag_variable_default(flag: str, variable: str, said: str, field: str, default: object, value: object) -> None:
    """Each row of the manual: its default, its variable, its flag in three spellings."""
    assert default == getattr(resolve((), {}), field)
    assert value == getattr(resolve((), {variable: said}), field)
    assert value == getattr(resolve((flag, said), {}), field)
    assert value == getattr(resolve((f"{flag}={said}",), {}), field)
    assert value == getattr(resolve((flag.replace("-", "_").replace("__", "--", 1), said), {}), field)


def test_a_flag_wins_over_its_variable() -> None:
    """As the manual says; the last of two equal flags wins."""
    assert resolve(("--num-gpus", "1", "--num-gpus", "3"), {"TP": "2"}).num_gpus == 3


def test_variables_without_flags() -> None:
    """MODEL_ID and CONV_TEMPLATE are variables only; an empty variable says nothing."""
    settings = resolve((), {"MODEL_ID": "Qwen-7B-Chat", "CONV_TEMPLATE": "generate", "TP": ""})
    assert (settings.model_id, settings.conv_template, settings.num_gpus) == ("Qwen-7B-Chat", "generate", 1)
    with pytest.raises(UsageError, match="no flag of this image"):
        resolve(("--model-id", "x"), {})


@pytest.mark.parametrize(
    ("argv", "environment", "words"),
    [
        (("--ds-dtype", "float8"), {}, "choose one of float16, bfloat16, float32, int8"),
        ((), {"MAX_BATCH_SIZE": "many"}, 'variable MAX_BATCH_SIZE is "many"'),
        (("--max-batch-size", "0"), {}, "no whole number above 0"),
        (("--batch-wait-timeout", "nan"), {}, "no number of seconds"),
        (("--batch-wait-timeout=-1",), {}, "no number of seconds"),
        (("--num-gpus",), {}, "--num-gpus needs a value"),
        (("--num-gpus", "--seed", "1"), {}, "--num-gpus needs a value"),
        (("--worker-num", "0"), {}, "no whole number above 0"),
        (("run",), {}, '"run" is no flag'),
        (("--port", "99999"), {}, '--port is "99999", which is no port; write a number from 1 to 65535'),
        (("--modle", "x"), {}, "no flag --modle of this image; write --model"),
    ],
)
def test_wrong_words(argv: tuple[str, ...], environment: dict[str, str], words: str) -> None:
    """A sentence that names the flag or variable and what to do."""
    with pytest.raises(UsageError) as caught:
        resolve(argv, environment)
    assert words in str(caught.value)


def test_help_names_every_flag_and_variable() -> None:
    """The table is the only source."""
    shown = help_text()
    for flag in FLAGS:
        assert flag.help in shown
        assert not flag.variable or flag.variable in shown
