"""A12: draft models, Eagle and Medusa by flags: which words the engine gets, and what is refused before the start."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from windlass.errors import UsageError
from windlass.launch import draft_files, probe
from windlass.launch.model import DraftFiles, LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import NATIVE, looked_for, resolve
from windlass.launch.speculation import requested
from windlass.license.model import Gpu
from windlass_sizing.model.drafter import Stored, read
from windlass_sizing.model.facts import from_config
from windlass_testbed.cases import every_case

L20 = Machine("cuda", (Gpu("GPU-0", "NVIDIA L20"),))
TWO = Machine("cuda", tuple(Gpu(f"GPU-{number}", "NVIDIA L20") for number in range(2)))
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 8, "num_attention_heads": 4, "vocab_size": 6144, "max_position_embeddings": 4096,
}  # fmt: skip
SMALL = {**LLAMA, "num_hidden_layers": 2, "max_position_embeddings": 1024}
EAGLE = {**LLAMA, "num_hidden_layers": 1, "architectures": ["EagleLlamaForCausalLM"]}
EAGLE3 = {**LLAMA, "num_hidden_layers": 1, "draft_vocab_size": 4096}
MEDUSA = {"model_type": "medusa", "hidden_size": 256, "vocab_size": 6144, "num_heads": 3}
NAMELESS = {**LLAMA, "num_hidden_layers": 1}
"""An Eagle head that its tensors' names alone would show."""
STORED = Stored()
DEMO = Path(__file__).parents[3] / "models/demo"


def drafted_by(config: dict[str, object], path: str = "/d", stored: Stored = STORED, **more: object) -> ModelFiles:
    draft = DraftFiles(path, "/m", from_config(LLAMA), read(config, stored), **more)
    return ModelFiles("/m", "llama", 4096, attention_heads=4, architecture="LlamaForCausalLM", draft=draft)


def launch(line: str | tuple[str, ...], model: ModelFiles, **environment: str) -> LaunchPlan:
    words = tuple(line.split()) if isinstance(line, str) else line
    return resolve(words, {"HOME": "/cache", **environment}, model, L20)


def config(plan: LaunchPlan) -> dict[str, object]:
    words = plan.engine_args
    assert words.count("--speculative-config") == 1
    return dict(json.loads(words[words.index("--speculative-config") + 1]))


def completed(method: str, path: str, tokens: int) -> dict[str, object]:
    """The configuration of a method; a draft model alone runs by our worker, which chooses how many it verifies."""
    more = {"enable_adaptive_verification": True} if method == "draft_model" else {}
    return {"model": path, "method": method, "num_speculative_tokens": tokens, **more}


MODEL, SPECULATIVE = "--speculative-model /d", "--num-speculative-tokens"


@every_case(
    "head, line, environment, wanted",
    [
        (SMALL, f"{MODEL} {SPECULATIVE} 3", {}, ("draft_model", "/d", 3)),
        (SMALL, MODEL, {}, ("draft_model", "/d", 4)),
        (SMALL, MODEL, {"NUM_SPECULATIVE_TOKENS": "2"}, ("draft_model", "/d", 2)),
        (EAGLE, MODEL, {}, ("eagle", "/d", 4)),
        (EAGLE3, f"{MODEL} {SPECULATIVE} 5", {}, ("eagle3", "/d", 5)),
        (MEDUSA, MODEL, {}, ("medusa", "/d", 3)),
        (EAGLE, '--speculative-config {"model":"/d"}', {}, ("eagle", "/d", 4)),
        (
            EAGLE,
            f'--speculative_config={{"model":"/d"}} {SPECULATIVE} 2',
            {},
            ("eagle", "/d", 2),
        ),
        (EAGLE, '-sc {"model":"/d","method":"eagle"}', {}, ("eagle", "/d", 4)),
        (EAGLE, "--speculative-config.model /d", {}, ("eagle", "/d", 4)),
        (EAGLE, "--spec-model /d --spec-tokens 2", {}, ("eagle", "/d", 2)),
        (
            EAGLE,
            '--speculative-config {"model":"/d","num-speculative-tokens":2}',
            {"NUM_SPECULATIVE_TOKENS": "5"},
            ("eagle", "/d", 2),
        ),
    ],
)
def test_the_files_complete_the_configuration(head, line, environment, wanted):
    """The method is the directory's, the tokens are the flag's, the variable's or four, and no more than heads."""
    assert config(launch(line, drafted_by(head), **environment)) == completed(*wanted)


def test_a_head_of_unknown_names_takes_the_method_that_is_set():
    """Its shapes are compared all the same; the log says what is not."""
    unknown = drafted_by(NAMELESS, stored=Stored(None))
    plan = launch('--speculative-config {"model":"/d","method":"eagle"}', unknown)
    assert config(plan)["method"] == "eagle"
    assert any("nothing shows that it drafts by eagle" in line for line in plan.warnings)
    with pytest.raises(UsageError, match="the head reads hidden states of 512 values"):
        launch("--spec-model /d --spec-method eagle", drafted_by({**NAMELESS, "hidden_size": 512}, stored=Stored(None)))


@pytest.mark.parametrize(("path", "method"), [("/d", "draft_model"), ("/EAGLE-x", "eagle"), ("/x-eagle3", "eagle3")])
def test_without_names_and_method_the_engine_guesses(path, method):
    """By its own rule, since the files do not tell."""
    found = config(launch(f"--spec-model {path}", drafted_by(NAMELESS, path, Stored(None))))
    assert found == completed(method, path, 4)


@pytest.mark.parametrize(
    ("model", "line", "wanted"),
    [
        (None, '{"model":"/m/Qwen3-8B-DFlash","num_speculative_tokens":15}', {"num_speculative_tokens": 15}),
        (None, '{"model":"/m/dspark_qwen3"}', {}),
        (None, '{"model":"z-lab/Qwen3-DFlash"} --num-speculative-tokens 7', {"num_speculative_tokens": 7}),
        ({**SMALL, "architectures": ["Qwen3DSparkModel"]}, '{"model":"/d"}', {}),
        ({**SMALL, "architectures": ["MuseGlimmerAssistantModel"]}, '{"model":"/d"}', {}),
    ],
)
def test_the_engines_other_drafters_start_as_they_are_written(model, line, wanted):
    """The engine knows them by path or architecture, and fills in the method."""
    words = ("--speculative-config", *line.split())
    asked = looked_for(("--model", "/m", *words), {}).draft
    files = drafted_by(model) if model else replace(drafted_by(SMALL), draft=None)
    assert asked == ("/d" if model else "")
    assert config(launch(words, files)) == {**json.loads(words[1]), **wanted}


@every_case(
    "model, line, words",
    [
        (
            drafted_by(EAGLE),
            '--speculative-config {"model":"/d","method":"medusa"}',
            "holds an Eagle head, and the method",
        ),
        (
            drafted_by({**SMALL, "vocab_size": 99}),
            MODEL,
            "/d cannot draft for /m: the draft model has a vocabulary of 99",
        ),
        (
            drafted_by({**EAGLE, "hidden_size": 512}),
            MODEL,
            "/d cannot draft for /m: the head reads hidden states of 512",
        ),
        (
            drafted_by({**SMALL, "num_hidden_layers": 80}),
            MODEL,
            "take a draft model that is smaller than the served one",
        ),
        (
            drafted_by(MEDUSA),
            f"{MODEL} {SPECULATIVE} 4",
            "4 tokens are to be drafted, and the draft directory has 3 Medusa",
        ),
        (drafted_by(EAGLE), f"{MODEL} {SPECULATIVE} 0", "--num-speculative-tokens 0 cannot be drafted; set at least 1"),
        (
            drafted_by(SMALL, has_same_vocabulary=False),
            MODEL,
            "tokenizer.json has another vocabulary; take a draft model",
        ),
        (drafted_by(SMALL, problem="what drafts cannot be read: x"), MODEL, "what drafts cannot be read: x"),
        (
            drafted_by(SMALL, "/m/eagle-land"),
            MODEL.replace("/d", "/m/eagle-land"),
            'takes a path with "eagle-" for another',
        ),
        (
            drafted_by(MEDUSA, "/m/EAGLE3-x"),
            MODEL.replace("/d", "/m/EAGLE3-x"),
            "by medusa: the engine takes a path with",
        ),
        (drafted_by(EAGLE), "--speculative-config nothing", "--speculative-config is no JSON object: nothing; write"),
        (drafted_by(EAGLE), f"--speculative-config {'[' * 100_000}", "--speculative-config is no JSON object: [[["),
        (drafted_by(EAGLE), f"--spec-model /d --spec-tokens {'1' * 5000}", "1 cannot be drafted; set at least 1"),
        (
            drafted_by(SMALL, "/m/dflash-x"),
            "--spec-model /m/dflash-x --spec-method draft_model",
            'by draft_model: the engine takes a path with "dflash" for another method; rename it',
        ),
        (
            drafted_by(EAGLE),
            f'--speculative-config {{"model":"/d","num_speculative_tokens":2}} {SPECULATIVE} 3',
            "--speculative-config drafts 2 tokens, and --num-speculative-tokens says 3; leave one of them out",
        ),
    ],
)
def test_what_cannot_draft_is_refused_before_the_start(model, line, words):
    """In one sentence that names both sides and the remedy."""
    with pytest.raises(UsageError) as refused:
        launch(line, model)
    assert words in str(refused.value)


def test_two_vocabularies_may_be_mixed_where_that_is_set():
    """The engine's own key for it; without it the sizes must be equal."""
    mixed = '--speculative-config {"model":"/d","use_heterogeneous_vocab":true}'
    model = drafted_by({**SMALL, "vocab_size": 99}, has_same_vocabulary=False)
    assert config(launch(mixed, model))["method"] == "draft_model"


def test_a_shorter_draft_model_is_noted_in_the_log():
    """Its context ends first; an Eagle head takes the served model's."""
    assert any(
        "reads 1024 tokens at most: longer texts of up to 4096" in line
        for line in launch(MODEL, drafted_by(SMALL)).warnings
    )
    assert not any("tokens at most" in line for line in launch(MODEL, drafted_by(EAGLE)).warnings)
    assert not any(
        "tokens at most" in line for line in launch(f"{MODEL} --max-model-len 512", drafted_by(SMALL)).warnings
    )


def test_methods_without_a_directory_pass():
    """The flag's tokens are added where the configuration has none of its own."""
    plain = replace(drafted_by(SMALL), draft=None)
    assert config(launch('--speculative-config {"method":"ngram"}', plain)) == {"method": "ngram"}
    assert config(launch(f'--speculative-config {{"method":"ngram"}} {SPECULATIVE} 5', plain)) == {
        "method": "ngram", "num_speculative_tokens": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "directory"),
    [
        ((), None),
        (("--speculative-config", '{"method":"ngram"}'), ""),
        (("--speculative-config", '{"model":"ngram"}'), ""),
        (("--speculative-config", '{"method":"mtp","model":"/d"}'), ""),
        (("--speculative-config", '{"model":"a_package.Drafter"}'), ""),
        (("--speculative-config", '{"model":"/d"}'), "/d"),
        (("--speculative-config", '{"model":"/m/Qwen3-DFlash"}'), ""),
        (("--speculative-config", '{"model":"/m/eagle3-dflash"}'), "/m/eagle3-dflash"),
        (("--speculative-config", '{"model":"/m/dspark","method":"eagle3"}'), "/m/dspark"),
        (("--seed", "1", "--spec-model=drafts/d", "--spec-method", "eagle3"), "drafts/d"),
    ],
)
def test_which_directory_is_looked_at(words, directory):
    """None without speculation; empty for a method that needs no files."""
    found = requested(words)
    assert (found.directory if found else None) == directory


@pytest.mark.parametrize(
    ("head", "method", "words", "more"),
    [
        (SMALL, "draft_model", "", {"enable_adaptive_verification": True}),
        (EAGLE, "eagle", "", {"enable_adaptive_verification": True}),
        (EAGLE3, "eagle3", "", {"enable_adaptive_verification": True}),
        (EAGLE, "eagle", "--enforce-eager", {}),
        (EAGLE, "eagle", "--enable-lora", {}),
    ],
)
def test_lookahead_drafts_beside_a_model(head, method, words, more):
    """Our worker and scheduler, and the engine's own method; each request's drafts are of any length where they can."""
    plan = launch(f"--use-lookahead {MODEL} {SPECULATIVE} 3 {words}", drafted_by(head))
    assert config(plan) == {"model": "/d", "method": method, "num_speculative_tokens": 3, **more}
    assert "windlass.engine.lookahead.vllm_gpu.DeviceWorker" in plan.engine_args
    assert "windlass.engine.lookahead.scheduler.LookaheadScheduler" in plan.engine_args
    assert plan.variables["WINDLASS_LOOKAHEAD"]


def test_a_fixed_number_of_drafts_beside_a_model():
    """Whoever asks for it gets it."""
    fixed = json.dumps({"model": "/d", "enable_adaptive_verification": False})
    plan = launch(("--use-lookahead", "--speculative-config", fixed), drafted_by(EAGLE))
    assert config(plan)["enable_adaptive_verification"] is False


def test_where_lookahead_is_off_the_model_drafts_as_ever():
    plan = launch(f"--use-lookahead --worker-cls my.Worker {MODEL}", drafted_by(EAGLE))
    assert config(plan) == {"model": "/d", "method": "eagle", "num_speculative_tokens": 4}
    assert any(note.startswith("--use-lookahead is off for this start") for note in plan.warnings)


@pytest.mark.parametrize(
    ("head", "words", "machine", "said"),
    [
        (MEDUSA, (), L20, "--use-lookahead and --speculative-config both draft; leave one of the two out"),
        (SMALL, (), Machine("cpu"), "--use-lookahead and --speculative-config both draft; leave one of the two out"),
        (EAGLE, ("-tp", "2"), TWO, "--use-lookahead beside what drafts by --speculative-config needs one GPU, and "
            "--tensor-parallel-size is 2; leave --use-lookahead or --speculative-config out"),
        (EAGLE, ("--enable-chunked-prefill",), L20, "--use-lookahead and --enable-chunked-prefill exclude each other"),
    ],
)  # fmt: skip
def test_what_lookahead_does_not_go_with(head, words, machine, said):
    with pytest.raises(UsageError, match=said):
        resolve(("--use-lookahead", *MODEL.split(), *words), {"HOME": "/cache"}, drafted_by(head), machine)


def test_drafts_beside_lookahead_are_greedy():
    """Those of the cache have no probabilities of a distribution."""
    drawn = json.dumps({"model": "/d", "draft_sample_method": "probabilistic"})
    with pytest.raises(UsageError, match="--use-lookahead takes greedy drafts beside it; leave draft_sample_method"):
        launch(("--use-lookahead", "--speculative-config", drawn), drafted_by(EAGLE))


INDEX = "model.safetensors.index.json"


def head(place: Path, config: dict[str, object], *, weights: bool = True) -> Path:
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config))
    if weights:
        header = json.dumps({"fc.weight": {"dtype": "BF16", "shape": [1, 1], "data_offsets": [0, 2]}}).encode()
        (place / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"12")
    return place


def test_a_directory_is_read(tmp_path):
    """Method by the tensors' names; a head has no tokenizer to compare."""
    found = draft_files.look(str(head(tmp_path / "d", {**EAGLE, "architectures": ["LlamaForCausalLM"]})), str(DEMO))
    assert (found.facts.drafts_by, found.has_same_vocabulary, found.problem) == ("eagle", None, "")
    assert found.served.vocab_size == 6144


def test_a_directory_of_torchs_older_format_is_no_complete_model(tmp_path):
    """Its tensors' names cannot be read: the method is not known, and the engine's to say."""
    place = head(tmp_path / "d", NAMELESS, weights=False)
    (place / "pytorch_model.bin").write_bytes(pickle.dumps({"fc.weight": 1}))
    assert draft_files.look(str(place), str(DEMO)).facts.drafts_by == "unknown"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda place: place, "model directory {} is not there; mount the model, or name its directory"),
        (
            lambda place: head(place, {}, weights=False),
            "it has no weights (*.safetensors, *.bin, *.pt)",
        ),
        (
            lambda place: (head(place, {}) / INDEX).write_text("{"),
            f"{{}} cannot draft: it has weights that cannot be read: {INDEX}",
        ),
        (lambda place: (place.mkdir(), (place / "x").touch()), "{} has no config.json; it has: x"),
        (lambda place: (place.mkdir(), (place / "config.json").write_text("[")), "{}/config.json is broken"),
    ],
)
def test_missing_files_are_named(tmp_path, make, words):
    """Before anything is started; the sentence says what is there."""
    make(tmp_path / "d")
    found = draft_files.look(str(tmp_path / "d"), str(DEMO))
    assert words.format(tmp_path / "d") in found.problem


def test_vocabularies_are_compared(tmp_path):
    """Added tokens and merges do not count; a file without a vocabulary tells nothing."""
    for name, vocabulary in (("a", {"x": 0}), ("b", {"x": 0}), ("c", {"y": 0})):
        (tmp_path / name).mkdir()
        body = {"added_tokens": [{"content": name}], "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}
        (tmp_path / name / "tokenizer.json").write_text(json.dumps(body))
    (tmp_path / "d").mkdir()
    same = [draft_files.has_same_vocabulary(tmp_path / "a", tmp_path / other) for other in "abcd"]
    assert same == [True, True, False, None]


def test_a_start_command_is_checked_whole(tmp_path):
    """From the words to the sentence, for the engine's own command as well."""
    place = head(tmp_path / "d", {**EAGLE, "hidden_size": 512})
    words = (
        str(DEMO),
        "--speculative-config",
        json.dumps({"method": "eagle", "model": str(place), "num_speculative_tokens": 2}),
    )
    files = probe.look(looked_for(words, {}, NATIVE))
    with pytest.raises(
        UsageError, match=f"{place} cannot draft for {DEMO}: the head reads hidden states of 512 values"
    ):
        resolve(words, {}, files, Machine("cpu"), NATIVE)
