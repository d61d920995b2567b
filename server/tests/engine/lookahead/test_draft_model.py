"""The decoder on the host's cores against plain numpy, and against itself: other rows, other paths, other threads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from windlass_lookahead.draft_model import (
    KIND_BYTES,
    Settings,
    check,
    host_bytes,
    load,
    rope_frequencies,
    shape_of,
)
from windlass_lookahead.errors import OptionError

from .tiny_decoders import LLAMA, QWEN2, QWEN3, logits_of, weights_of, write_model

CONFIGS = {"llama": LLAMA, "qwen2": QWEN2, "qwen3": QWEN3}
SETTINGS = Settings(rows=8, window=256, threads=1)
CHAIN = 4


@pytest.fixture(scope="module")
def directories(tmp_path_factory) -> dict[str, Path]:
    """A model's directory for each config."""
    root = tmp_path_factory.mktemp("drafts")
    return {name: write_model(root / name, config, weights_of(config)) for name, config in CONFIGS.items()}


def text(count: int, seed: int = 1) -> list[int]:
    """Tokens drawn by chance."""
    return [int(token) for token in np.random.default_rng(seed).integers(0, LLAMA["vocab_size"], count)]


def read(model, key: str, tokens: list[int]) -> None:
    """Begin a row and read its prompt."""
    model.begin(key, tokens)
    while model.work(1e6):
        pass
    assert model.ready(key)


def fresh_chain(directory: Path, tokens: list[int], settings: Settings = SETTINGS) -> list[int]:
    """What a model drafts that never saw anything else."""
    model = load(directory, settings)
    read(model, "only", tokens)
    [chain] = model.draft(["only"], CHAIN)
    return chain


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_those_of_numpy(name, directories):
    """Eight bits cost less than a tenth of the spread; a wrong position, bias or head would cost all of it."""
    config, tokens = CONFIGS[name], text(60)
    expected = logits_of(config, weights_of(config), tokens)[-1]
    model = load(directories[name], SETTINGS)
    read(model, "a", tokens)
    got = np.array(model.logits("a"))
    assert got.shape == expected.shape
    assert np.corrcoef(expected, got)[0, 1] > 0.995
    assert np.sqrt(np.mean((expected - got) ** 2)) < 0.1 * expected.std()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_chain_is_greedy_where_the_best_is_clear(name, directories):
    """Each drafted token is numpy's best after the text and the chain before it, or nearly as good."""
    config, weights, model = CONFIGS[name], weights_of(CONFIGS[name]), load(directories[name], SETTINGS)
    clear = 0
    for seed in range(12):
        tokens = text(30, seed)
        read(model, "a", tokens)
        [chain] = model.draft(["a"], CHAIN)
        assert len(chain) == CHAIN
        logits = logits_of(config, weights, [*tokens, *chain])
        for place, token in enumerate(chain):
            row = logits[len(tokens) + place - 1]
            assert row[token] > row.max() - 0.35 * row.std()
            clear += token == row.argmax()
    assert clear >= 0.85 * 12 * CHAIN


def test_a_tied_llama_and_biases_of_all_projections_are_known(tmp_path):
    """`attention_bias` gives Llama biases of queries, keys, values and output."""
    config = LLAMA | {"attention_bias": True, "tie_word_embeddings": True}
    weights = weights_of(config)
    chance = np.random.default_rng(5)
    for layer in range(config["num_hidden_layers"]):
        for name in "qkvo":
            weights[f"model.layers.{layer}.self_attn.{name}_proj.bias"] = np.zeros(64, np.float32)
    plain = fresh_chain(write_model(tmp_path / "zero", config, weights), text(20))
    for layer in range(config["num_hidden_layers"]):
        weights[f"model.layers.{layer}.self_attn.o_proj.bias"] = chance.normal(0, 3, 64).astype(np.float32)
    assert fresh_chain(write_model(tmp_path / "biased", config, weights), text(20)) != plain


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("path", ["portable", "avx2", "vnni", "amx"])
@pytest.mark.parametrize("name", CONFIGS)
def test_all_paths_compute_the_same(name, path, bits, directories):
    """Kernels differ by the last digits of a sum, which now and then round an activation to its other neighbour."""
    both = [load(directories[name], Settings(8, 256, bits, bits, 1, kernels)) for kernels in ("portable", path)]
    for model in both:
        read(model, "a", text(100))
        read(model, "b", text(7, 2))
    for key in "ab":
        first, second = (np.array(model.logits(key)) for model in both)
        assert np.sqrt(np.mean((first - second) ** 2)) < 0.04 * first.std()
        assert first[second.argmax()] > first.max() - 0.1 * first.std()


@pytest.mark.parametrize("bits", [8, 4])
def test_two_threads_compute_what_one_does(bits, directories):
    for name in CONFIGS:
        one, two = (load(directories[name], Settings(8, 256, bits, bits, threads)) for threads in (1, 2))
        for model in (one, two):
            for row in range(5):
                read(model, str(row), text(30 + 20 * row, row))
        keys = [str(row) for row in range(5)]
        assert one.draft(keys, CHAIN) == two.draft(keys, CHAIN)
        assert one.logits("3") == two.logits("3")


def test_four_bits_compute_what_their_rounded_weights_do(tmp_path):
    """Weights that four bits hold exactly come out as with eight bits: a group has its own scale."""
    chance = np.random.default_rng(3)
    weights = weights_of(LLAMA)
    for name, values in weights.items():
        if values.ndim == 2:
            codes = chance.integers(-8, 8, values.shape).astype(np.float32)
            codes[:, ::32] = -8
            scales = 2.0 ** chance.integers(-6, -3, (values.shape[0], values.shape[1] // 32, 1))
            weights[name] = (codes.reshape(values.shape[0], -1, 32) * scales).reshape(values.shape).astype(np.float32)
    directory = write_model(tmp_path / "exact", LLAMA, weights)
    tokens = text(40)
    expected = logits_of(LLAMA, weights, tokens)[-1]
    model = load(directory, Settings(8, 256, 4, 4, 1))
    read(model, "a", tokens)
    assert np.corrcoef(expected, np.array(model.logits("a")))[0, 1] > 0.99


@pytest.mark.parametrize("kind", KIND_BYTES)
def test_every_type_of_number_is_read(kind, tmp_path, directories):
    """Weights of bfloat16 digits are the same numbers in each type, in one file or in three."""
    directory = write_model(tmp_path / kind, LLAMA, weights_of(LLAMA), kind, files=3)
    assert fresh_chain(directory, text(50)) == fresh_chain(directories["llama"], text(50))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("accepted", range(CHAIN + 1))
def test_a_partly_accepted_chain_is_rolled_back(name, accepted, directories):
    """After the accepted drafts and another token, the chain is that of a model which never drafted."""
    tokens = text(50, accepted)
    model = load(directories[name], SETTINGS)
    read(model, "a", tokens)
    for step in range(3):
        [chain] = model.draft(["a"], CHAIN)
        emitted = [*chain[:accepted], (7 * step + 1) % 200]
        model.append("a", emitted)
        tokens += emitted
    assert model.draft(["a"], CHAIN) == [fresh_chain(directories[name], tokens)]


def test_a_draft_without_new_tokens_is_the_same_again(directories):
    model = load(directories["qwen2"], SETTINGS)
    read(model, "a", text(50))
    assert model.draft(["a"], CHAIN) == model.draft(["a"], CHAIN)
    assert model.draft(["a"], 2) == [model.draft(["a"], CHAIN)[0][:2]]


@pytest.mark.parametrize("name", CONFIGS)
def test_several_rows_are_drafted_as_each_alone(name, directories):
    """A row's place in the batch, and how many new tokens others have, change nothing."""
    model = load(directories[name], SETTINGS)
    texts = {str(row): text(20 + 17 * row, row) for row in range(8)}
    for key, tokens in texts.items():
        read(model, key, tokens)
    model.draft(list(texts), CHAIN)
    for row, key in enumerate(texts):
        extra = text(row, 90 + row)
        model.append(key, extra)
        texts[key] += extra
    order = ["5", "0", "7", "1", "2", "6", "3", "4"]
    chains = model.draft(order, CHAIN)
    assert chains == [fresh_chain(directories[name], texts[key]) for key in order]


def test_a_text_beyond_the_window_goes_on_with_its_second_half(directories):
    """The row waits until the half is read anew, and drafts as one that began there."""
    settings = Settings(rows=2, window=128, threads=1)
    model = load(directories["llama"], settings)
    tokens = text(100)
    read(model, "a", tokens)
    more = text(20, 2)
    model.append("a", more[:16])
    tokens += more[:16]
    assert not model.ready("a")
    assert model.draft(["a"], CHAIN) == [[]]
    while model.work(1e6):
        pass
    assert model.draft(["a"], CHAIN) == [fresh_chain(directories["llama"], tokens[-64:], settings)]


def test_a_long_prompt_is_read_from_the_window_on(directories):
    settings = Settings(rows=2, window=128, threads=1)
    assert fresh_chain(directories["llama"], text(1000), settings) == fresh_chain(
        directories["llama"], text(1000)[-64:], settings
    )


def test_rows_come_and_go_for_long(directories):
    """Text by chance against fresh models: begun anew, ended, appended to, drafted, in any order."""
    settings = Settings(rows=3, window=64, threads=1)
    model = load(directories["qwen2"], settings)
    chance = np.random.default_rng(11)
    texts: dict[str, list[int]] = {}
    for step in range(200):
        key = str(chance.integers(4))
        match chance.integers(6):
            case 0:
                texts[key] = text(int(chance.integers(1, 120)), step)
                model.begin(key, texts[key])
            case 1:
                texts.pop(key, None)
                model.finish(key)
            case 2 | 3 if key in texts:
                extra = text(int(chance.integers(1, 6)), step)
                model.append(key, extra)
                texts[key] += extra
            case 4:
                model.work(0)
            case _:
                ready = [each for each in texts if model.ready(each)][:3]
                for each, chain in zip(ready, model.draft(ready, CHAIN), strict=True):
                    if chain and chance.integers(2):
                        model.append(each, chain[:2])
                        texts[each] += chain[:2]
    while model.work(1e6):
        pass
    assert model.waiting == 0 or len(texts) > 3


def test_work_without_a_budget_goes_on(directories):
    """It still does one layer a call, so that prompts are read at last."""
    model = load(directories["llama"], SETTINGS)
    model.begin("a", text(200))
    calls = 1
    while model.work(0):
        calls += 1
    assert calls >= LLAMA["num_hidden_layers"] * 2
    assert model.draft(["a"], CHAIN) == [fresh_chain(directories["llama"], text(200))]


def test_a_row_that_ends_while_it_is_read_leaves_no_trace(directories):
    model = load(directories["llama"], SETTINGS)
    model.begin("a", text(200))
    model.work(0)
    model.begin("a", text(150, 3))
    model.work(0)
    model.finish("a")
    read(model, "b", text(90, 4))
    assert model.draft(["a", "b"], CHAIN) == [[], fresh_chain(directories["llama"], text(90, 4))]


def test_rows_beyond_the_most_have_no_drafts_until_one_ends(directories):
    model = load(directories["llama"], Settings(rows=1, window=128, threads=1))
    read(model, "a", text(50))
    model.begin("b", text(60, 2))
    while model.work(1e6):
        pass
    assert model.draft(["a", "b"], CHAIN)[1] == []
    model.finish("a")
    model.append("b", [5])
    while model.work(1e6):
        pass
    assert model.draft(["b"], CHAIN) == [fresh_chain(directories["llama"], [*text(60, 2), 5])]


def test_a_plan_counts_the_memory_that_is_taken(directories):
    for name, config in CONFIGS.items():
        for bits in (8, 4):
            settings = Settings(8, 256, bits, bits, 1)
            model = load(directories[name], settings)
            assert host_bytes(shape_of(config), settings) == pytest.approx(model.bytes(True), rel=0.06)
            assert model.bytes(False) < model.bytes(True)


REFUSED = {
    "architecture": ({"architectures": ["GPT2LMHeadModel"]}, "does not know GPT2LMHeadModel"),
    "activation": ({"hidden_act": "gelu"}, "does not know hidden_act 'gelu'"),
    "quantized": ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
    "rope": ({"rope_scaling": {"rope_type": "yarn", "factor": 4}}, "rope type 'yarn'"),
    "no layers": ({"num_hidden_layers": None}, "num_hidden_layers must be a whole number above 0"),
    "head": ({"head_dim": 24}, "head_dim 24 is no multiple of 16"),
    "groups": ({"num_key_value_heads": 3}, "no multiple of num_key_value_heads"),
    "shape": ({"intermediate_size": 192}, "has shape .160, 64., and the config says .192, 64."),
    "vocabulary": ({"vocab_size": 300}, "has shape .203, 64., and the config says .300, 64."),
    "layers": ({"num_hidden_layers": 4}, "have no tensor .model.layers.3.input_layernorm.weight. .9 are missing."),
    "fewer layers": ({"num_hidden_layers": 2}, "knows no tensor .model.layers.2."),
    "tied": ({"tie_word_embeddings": False}, "have no tensor .lm_head.weight. .1 are missing."),
}


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=list(REFUSED))
def test_what_the_decoder_does_not_know_is_refused(change, words, tmp_path):
    config = LLAMA | {"tie_word_embeddings": True}
    directory = write_model(tmp_path, config, weights_of(config))
    (directory / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(OptionError, match=words):
        load(directory, SETTINGS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": 80, "head_dim": 16}, "hidden_size 80 is no multiple of 32"),
        ({"intermediate_size": 100}, "intermediate_size 100 is no multiple of 32"),
        ({"head_dim": 24}, "head_dim 24 is no multiple of 16"),
        ({"num_key_value_heads": 3}, "is no multiple of 3"),
    ],
)
def test_sizes_are_refused_before_weights_are_read(change, words, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | change))
    with pytest.raises(OptionError, match=words):
        check(tmp_path)


def test_damaged_files_are_refused(tmp_path):
    """Each with the file's name, and none with a crash."""
    weights = weights_of(LLAMA)
    directory = write_model(tmp_path / "one", LLAMA, weights)
    file = directory / "model.safetensors"
    whole = file.read_bytes()
    for damaged in (whole[:4], whole[:100], whole[:-1000], b"\xff" * 64, b""):
        file.write_bytes(damaged)
        with pytest.raises(OptionError, match=r"one"):
            load(directory, SETTINGS)
    file.unlink()
    with pytest.raises(OptionError, match=r"has no model\.safetensors"):
        load(directory, SETTINGS)
    weights["model.norm.weight"] = np.full(64, np.nan, np.float32)
    with pytest.raises(OptionError, match="not finite"):
        load(write_model(tmp_path / "odd", LLAMA, weights), SETTINGS)


def test_rope_is_scaled_as_llama_3_does():
    """Short waves stay, those beyond the training's length are eight times as long."""
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling["original_max_position_embeddings"] = 8192
    plain = rope_frequencies({"rope_theta": 500000.0}, 128, "here")
    scaled = rope_frequencies({"rope_theta": 500000.0, "rope_scaling": scaling}, 128, "here")
    ratios = [a / b for a, b in zip(plain, scaled, strict=True)]
    assert ratios[0] == 1
    assert ratios[-1] == pytest.approx(8)
    assert ratios == sorted(ratios)
    assert rope_frequencies({"rope_scaling": {"type": "linear", "factor": 2}}, 4, "here") == (0.5, 0.005)


def test_the_repositorys_own_model_drafts_as_numpy_says():
    """Trained weights have outliers that random ones lack."""
    directory = Path(__file__).parents[4] / "models" / "demo"
    model = load(directory, Settings(rows=2, window=512, threads=1))
    tokens = [int(token) for token in np.random.default_rng(0).integers(10, 6000, 40)]
    read(model, "a", tokens)
    from windlass_lookahead.draft_model import tensors

    config = json.loads((directory / "config.json").read_text())
    weights = {
        name: (np.frombuffer(bytes(data), np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(sizes)
        for name, kind, sizes, data in tensors(directory / "model.safetensors")
    }
    expected = logits_of(config, weights, tokens)[-1]
    got = np.array(model.logits("a"))
    assert np.corrcoef(expected, got)[0, 1] > 0.99
    assert got.argmax() == expected.argmax()
