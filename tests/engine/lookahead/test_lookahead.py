"""Lookahead in an engine: the same answers as without it, its counts, its file, and what it refuses.

In the CPU image; and on a card, where the integration is another, with `make test-gpu-lookahead`. On CPUs
`make identity` is the whole of `test_output_is_unchanged`: every workload, row, mode and batch size.
"""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from windlass_testbed.waiting import wait_until

from ..identity.chi_square import p_value
from .lookahead_answers import (
    BEGINNINGS,
    CONTEXT,
    DRAWN_TOKENS,
    DRAWS,
    ENTRIES,
    LEAST_P,
    QUESTIONS,
    asked,
    cache_file,
    choices,
    counts,
    drafted_tokens,
    draws,
    empty_cache,
    lead,
    post,
    token_ids,
    vocabulary,
)
from .side_by_side import Servers, Start

IDENTITY = "/repo/tests/engine/identity/identity.py"
MODEL = "/repo/models/demo"
SAMPLE = ("--workloads", "repeat-50", "--rows", "12", "--batches", "4", "--modes", "2", "--draws", "2000")
CONFIG = {"cache_size": ENTRIES, "turbo_match_length": CONTEXT, "is_debug": True, "log_interval": 20}
FLAGS = "--dtype float32 --max-model-len 256 --served-model-name demo".split()
LORA = "--enable-lora --max-lora-rank 8 --lora-modules adapter=/lora/lora".split()
ADAPTED_ON_CARD = (*LORA, "--dtype", "float16")
"""The engine's kernels for adapters take no float32, and drafts of any length no adapters: a card has two pairs."""
TIE = {"cpu": 0, "cuda": 0.05}
"""How near two tokens are that may change places where an adapter's pair computes in its own type."""
DRAFT = "--use-lookahead --num-speculative-tokens 8 --lookahead-cache-config-dir /lookahead".split()
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
COUNTS = (
    *("num_iters_total", "hit_iters_total", "hit_len_total", "invalid_len_total"),
    *("requests_total", "requests_ended_total"),
    *("hit_rate", "hit_valid_rate", "global_average_hit_len", "valid_average_hit_len", "entries", "memory_bytes"),
)
WRITE_TIMEOUT_S = 600


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("config")
    (folder / "lookahead_cache_config.json").write_text(json.dumps(CONFIG))
    return opened(folder)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The server's /cache, with a cache file of another tokenizer in the place of its own."""
    folder = tmp_path_factory.mktemp("cache")
    file = folder / "windlass/lookahead" / cache_file()
    file.parent.mkdir(parents=True)
    foreign = empty_cache()
    foreign.teach(list(range(100)), list(range(100)))
    foreign.save(file, "0" * 64)
    return opened(folder)


def opened(folder):
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777)  # the server is no root
    return folder


@pytest.fixture(scope="module")
def servers(request, engine, adapter, config, kept):
    """By name; on a card all that the chosen tests need are started at once."""
    run, with_adapter, configured = ("windlass", "run", *FLAGS), {adapter: "/lora:ro"}, {config: "/lookahead:ro"}
    cached = ("--lookahead-cache-config-dir", "/lookahead")
    eight = {"USE_LOOKAHEAD": "1", "NUM_SPECULATIVE_TOKENS": "8"}
    on_card = engine.device == "cuda"
    both = (*run, *(ADAPTED_ON_CARD if on_card else LORA))
    starts = {
        "adapted": Start(both, with_adapter),
        "adapting": Start((*both, *cached), with_adapter | configured | ({} if on_card else {kept: "/cache"}), eight),
        "plain": Start(run, {}),
        "drafting": Start((*run, *cached), configured | {kept: "/cache"}, eight),
        "ranks": Start((*run, *DRAFT, "--tensor-parallel-size", "2"), configured),
    }
    with Servers(engine, starts) as found:
        if engine.is_many_at_once:
            for name in starts.keys() & {name for item in request.session.items for name in item.fixturenames}:
                found.begin(name)
        yield found


@pytest.fixture(scope="module")
def plain(servers, engine):
    return servers.address("plain" if engine.device == "cuda" else "adapted")


@pytest.fixture(scope="module")
def drafting(servers, engine):
    return servers.address("drafting" if engine.device == "cuda" else "adapting")


@pytest.fixture(scope="module")
def adapted(servers):
    """`plain` with the adapter; on CPUs it is the same server."""
    return servers.address("adapted")


@pytest.fixture(scope="module")
def adapting(servers):
    """`drafting` with the adapter; on CPUs it is the same server."""
    return servers.address("adapting")


@pytest.fixture(scope="module")
def ranks(servers):
    return servers.address("ranks")


class TestServed:
    """One server with lookahead beside one without."""

    def test_the_same_tokens_twice_and_at_once(self, plain, drafting):
        """The second time from the first answer's text; then all of them together."""
        wanted = [token_ids(plain, asked(question)) for question in QUESTIONS]
        assert [token_ids(drafting, asked(question)) for question in QUESTIONS * 2] == wanted * 2
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda question: token_ids(drafting, asked(question)), QUESTIONS * 3))
        assert together == wanted * 3

    def test_the_counts_are_at_metrics(self, drafting):
        """Every name; and what was drafted for the repeated questions was accepted."""
        for question in QUESTIONS * 2:
            token_ids(drafting, asked(question))
        found = counts(drafting)
        assert found.keys() == set(COUNTS)
        assert found["hit_len_total"] >= 100
        assert found["hit_len_total"] / found["num_iters_total"] == pytest.approx(found["global_average_hit_len"])
        assert 0.3 < found["hit_rate"] <= 1
        accepted = re.search(
            r"^vllm:spec_decode_num_accepted_tokens_total{.*} (\S+)$",
            httpx.get(f"{drafting}/metrics").text,
            re.MULTILINE,
        )
        assert float(accepted[1]) == pytest.approx(found["hit_len_total"], rel=0.1)

    def test_up_to_the_end_of_the_context(self, plain, drafting):
        """No draft goes beyond the longest sequence."""
        fields = {"prompt": "def add(a, b):", "ignore_eos": True, "max_tokens": 240}
        wanted = token_ids(plain, fields, "/v1/completions")
        assert len(wanted) > 200
        assert [token_ids(drafting, fields, "/v1/completions") for _ in range(2)] == [wanted] * 2

    def test_structured_output(self, plain, drafting):
        """A schema and a choice; a draft that the grammar does not allow is no output."""
        shape = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
        for fields in (
            asked(QUESTIONS[2]) | {"response_format": shape},
            asked(QUESTIONS[0]) | {"structured_outputs": {"choice": ["Return it", "Join it"]}},
        ):
            wanted = token_ids(plain, fields)
            assert [token_ids(drafting, fields) for _ in range(2)] == [wanted] * 2

    def test_log_probabilities(self, plain, drafting):
        """Of each token and of the next best."""
        fields = asked(QUESTIONS[0]) | {"logprobs": True, "top_logprobs": 2, "max_tokens": 30}

        def rows(url):
            found = choices(url, fields)[0]["logprobs"]["content"]
            return [(row["token"], row["logprob"], [top["token"] for top in row["top_logprobs"]]) for row in found]

        for (token, value, tops), (wanted, wanted_value, wanted_tops) in zip(rows(drafting), rows(plain), strict=True):
            assert (token, tops) == (wanted, wanted_tops)
            assert value == pytest.approx(wanted_value, abs=1e-3)

    def test_sampling_of_several(self, drafting):
        """Each of n has its own text, its own length and log-probabilities."""
        fields = {"prompt": "import os\n", "temperature": 1.0, "n": 4, "max_tokens": 20, "logprobs": 1}
        found = choices(drafting, fields | {"seed": 7, "ignore_eos": True}, "/v1/completions")
        assert [len(one["token_ids"]) for one in found] == [20] * 4
        assert [len(one["logprobs"]["token_logprobs"]) for one in found] == [20] * 4
        assert len({one["text"] for one in found}) == 4

    def test_an_adapter(self, engine, adapted, adapting):
        """Beside the base, whose text is of no use to it."""
        fields = {"prompt": QUESTIONS[0], "max_tokens": 40, "logprobs": 3}
        for model in ("adapter", "demo", "adapter"):
            wanted, found = (
                choices(url, fields | {"model": model}, "/v1/completions")[0] for url in (adapted, adapting)
            )
            assert lead(wanted, found) <= TIE[engine.device], model

    def test_penalties_and_bad_words(self, plain, drafting):
        """What depends on the tokens before is computed for drafts as well."""
        for more in (
            {"repetition_penalty": 1.3},
            {"presence_penalty": 1, "frequency_penalty": 0.5},
            {"bad_words": ["path"]},
            {"min_tokens": 40},
        ):
            fields = asked(QUESTIONS[0]) | more
            wanted = token_ids(plain, fields)
            assert [token_ids(drafting, fields) for _ in range(2)] == [wanted] * 2, more

    def test_cancelled_and_sampled_neighbours(self, plain, drafting):
        """Half of the clients sample and leave in mid-stream; the others' answers, and the next ones, are as ever."""
        wanted = [token_ids(plain, asked(question)) for question in QUESTIONS]

        def leave(question):
            body = {"model": "demo", **asked(question), "temperature": 1, "ignore_eos": True, "stream": True}
            with httpx.stream("POST", f"{drafting}/v1/chat/completions", json=body, timeout=120) as answer:
                for _ in zip(answer.iter_lines(), range(20), strict=False):
                    pass

        with ThreadPoolExecutor(8) as pool:
            gone = pool.map(leave, QUESTIONS)
            stayed = pool.map(lambda question: token_ids(drafting, asked(question)), QUESTIONS)
            assert list(stayed) == wanted
            list(gone)
        assert [token_ids(drafting, asked(question)) for question in QUESTIONS] == wanted
        assert 'vllm:num_requests_running{engine="0",model_name="demo"} 0.0' in httpx.get(f"{drafting}/metrics").text

    @pytest.mark.parametrize("rule", ["no_repeat_ngram_size", "logit_bias", "min_p", "all"])
    def test_rules_of_sampling(self, plain, drafting, rule):
        """Each changes the tokens, and they are those without drafts; `min_p` at 1 leaves the likeliest token alone."""
        free = asked(QUESTIONS[0]) | {"ignore_eos": True}
        usual = token_ids(plain, free)
        ngram, bias = {"no_repeat_ngram_size": 3}, {"logit_bias": {str(usual[0]): -100, str(usual[4]): 3}}
        rules = {"no_repeat_ngram_size": ngram, "logit_bias": bias, "min_p": {"min_p": 1, "temperature": 1}}
        rules["all"] = {name: value for one in rules.values() for name, value in one.items()}
        fields = free | rules[rule]
        wanted = token_ids(plain, fields)
        assert (wanted == usual) == (rule == "min_p")
        assert [token_ids(drafting, fields) for _ in range(2)] == [wanted] * 2

    @pytest.mark.on_card
    def test_drafts_are_of_any_length(self, engine, drafting):
        """Or these tests would be of the other way to verify."""
        assert "are verified in each step" not in engine.output(drafting)

    @pytest.mark.on_card
    def test_drawn_tokens_are_of_one_distribution(self, plain, drafting):
        """At each place and as a whole, at beginnings that are drawn from again and again; identity.py is the CPU's."""
        before = counts(drafting)
        drawn = {url: [draws(url, first, start) for start in BEGINNINGS] for first, url in enumerate((plain, drafting))}
        after = counts(drafting)
        for name in ("hit_len_total", "invalid_len_total"):
            assert after[name] - before[name] > DRAWS / 20, name
        chances = [
            p_value([row[place] for row in one], [row[place] for row in two])
            for one, two in zip(drawn[plain], drawn[drafting], strict=True)
            for place in (slice(1, 2), slice(2, 3), slice(3, 4), slice(DRAWN_TOKENS))
        ]
        assert min(chances) * len(chances) > LEAST_P, chances

    def test_hostile_token_ids(self, plain, drafting):
        """Refused, and the next request is served as ever."""
        for prompt in ([10**9], [-1], [vocabulary()], [2**63], [[1], [10**7]]):
            answer = post(drafting, {"prompt": prompt}, "/v1/completions")
            assert answer.status_code == 400, (prompt, answer.text)
        fields = {"prompt": [1, 5, vocabulary() - 1, 5, 1, 5], "max_tokens": 20}
        assert token_ids(drafting, fields, "/v1/completions") == token_ids(plain, fields, "/v1/completions")

    def test_a_cache_file_of_another_tokenizer_is_not_read(self, engine, drafting):
        """The server says so and starts with an empty cache; its own file takes the place at rest."""
        assert "windlass: lookahead: the lookahead cache starts empty: " in engine.output(drafting)

    def test_the_log_has_the_metrics(self, engine, drafting):
        """Each log_interval with is_debug."""
        token_ids(drafting, {"prompt": "import os", "ignore_eos": True, "max_tokens": 100}, "/v1/completions")
        assert re.search(r"windlass: lookahead: num_iters: \d+\.\d{4}, hit_iters: ", engine.output(drafting))


def test_the_next_server_goes_on_with_the_file(engine, plain, drafting, config, kept):
    """By the engine's own command; its first answer is drafted from what another server answered."""
    wanted = token_ids(plain, asked(QUESTIONS[0]))
    assert token_ids(drafting, asked(QUESTIONS[0])) == wanted
    file = kept / "windlass/lookahead" / cache_file()  # first written behind the server's own first chat
    wait_until(lambda: drafted_tokens(file, wanted) >= len(wanted) / 2, "the answer in the file", WRITE_TIMEOUT_S, 0.5)
    words = ("vllm", "serve", "/data/model", "--port", "8501", *FLAGS, *DRAFT)
    with engine.serving(*words, mounts={config: "/lookahead:ro", kept: "/cache"}) as url:
        said = engine.output(url)
        assert re.search(r"the lookahead cache has [1-9]\d* entries from /cache/windlass/lookahead/", said)
        before = counts(url)  # the server's own first chat counts too
        assert token_ids(url, asked(QUESTIONS[0])) == wanted
        after = counts(url)
        assert after["requests_total"] - before["requests_total"] == 1
        assert after["hit_len_total"] - before["hit_len_total"] >= len(wanted) / 2


def test_what_cannot_be_used_ends_the_start(engine):
    """One sentence and exit code 2, before the engine starts: configurations, warm-up files, numbers of tokens."""
    wrong = engine.result("/repo/tests/engine/lookahead/refuse_lookahead.py", MODEL)
    assert wrong == {}


@pytest.mark.long
def test_a_warm_up_file_serves_the_first_request(engine, plain, config, kept, tmp_path):
    """By the engine's module; the cache file is cut short, so the server says so and begins with the warm-up file."""
    wanted = token_ids(plain, asked(QUESTIONS[0]))
    warm = {**CONFIG, "warmup_file": f"{engine.seen(tmp_path, '/lookahead')}/warm.json"}
    (tmp_path / "lookahead_cache_config.json").write_text(json.dumps(warm))
    (tmp_path / "warm.json").write_text(json.dumps([{"prompt": [], "output": wanted}]))
    file = tmp_path / "cache/windlass/lookahead" / cache_file()
    file.parent.mkdir(parents=True)
    file.write_bytes((kept / "windlass/lookahead" / cache_file()).read_bytes()[:-100])
    module = ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "/data/model", "--port", "8501")
    mounts = {opened(tmp_path): "/lookahead:ro", tmp_path / "cache": "/cache"}
    with engine.serving(*module, *FLAGS, *DRAFT, mounts=mounts) as url:
        assert "windlass: lookahead: the lookahead cache starts empty: " in engine.output(url)
        assert token_ids(url, asked(QUESTIONS[0])) == wanted
        assert counts(url)["hit_len_total"] >= len(wanted) / 2


@pytest.mark.long
def test_two_ranks(plain, ranks):
    """With tensor parallel the first rank drafts for all."""
    wanted = [token_ids(plain, asked(question)) for question in QUESTIONS]
    assert [token_ids(ranks, asked(question)) for question in QUESTIONS * 2] == wanted * 2
    assert counts(ranks)["hit_len_total"] >= 20


@pytest.mark.on_cpu
def test_output_is_unchanged(engine):
    """Repeats, a batch that is preempted, and 2,000 draws; at least 30 % of the tokens are accepted drafts."""
    found = engine.result(IDENTITY, MODEL, *SAMPLE)
    assert found["red"] == []
    lines = {line["workload"]: line for line in found["lines"]}
    assert (lines["repeat-50"]["different"], lines["preempted"]["different"]) == (0, 0)
    assert lines["repeat-50"]["accepted"] >= 0.3
    assert lines["preempted"]["preempted"] > 0
    assert found["chances"]["drafted"] > found["chances"]["accepted"] > 0


@pytest.mark.on_cpu
@pytest.mark.long
def test_a_broken_token_is_found(engine):
    """One accepted token changed in the engine turns the same comparison red."""
    with pytest.raises(pytest.fail.Exception, match="exited with 1"):
        engine.python(IDENTITY, MODEL, *SAMPLE, "--break-a-token")
