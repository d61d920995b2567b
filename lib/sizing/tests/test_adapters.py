"""An adapter directory is inspected as what it is: its rank, its base on the volume, and what cannot be served."""

from __future__ import annotations

import datetime
import json
import os
import pickle
from contextlib import nullcontext
from itertools import product
from pathlib import Path, PurePosixPath

import pytest
from windlass_sizing.errors import CheckpointError
from windlass_sizing.files import documents
from windlass_sizing.files.adapters import Beside, FoundAdapter, Named, places
from windlass_sizing.files.checkpoint import CheckpointReport, inspect
from windlass_sizing.files.directory import Directory
from windlass_sizing.files.tensor_names import tensor_names
from windlass_sizing.model import lora

from .test_checkpoint import CONFIG, safetensors
from .test_torch_names import torch_archive

LORA = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "bias": "none"}
BASE_NAME = "meta/Llama-Tiny"


def model(place: Path, **more: object) -> Path:
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps({**CONFIG, **more}))
    (place / "tokenizer.json").write_text("{}")
    (place / "model.safetensors").write_bytes(safetensors(2000))
    return place


MATRIX = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


def adapter(place: Path, *, tensor: str = MATRIX, suffix: str = "safetensors", **more: object) -> Path:
    place.mkdir(parents=True)
    (place / "adapter_config.json").write_text(json.dumps({**LORA, "base_model_name_or_path": BASE_NAME, **more}))
    file = place / f"adapter_model.{suffix}"
    if suffix == "safetensors":
        file.write_bytes(safetensors(64, "F32", tensor))
    else:
        torch_archive(file, {tensor: 1})
    return place


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A model under its name, an adapter of it beside, and one that never had its base here."""
    model(tmp_path / "Llama-Tiny")
    adapter(tmp_path / "loras/sql")
    adapter(tmp_path / "loras/lost", base_model_name_or_path="/opt/nowhere/qwen")
    return tmp_path


def seen(volume: Path, path: str, beside: Beside | None = None) -> CheckpointReport:
    report = inspect(volume, path, "pvc/models", beside or Beside())
    assert CheckpointReport.from_dict(json.loads(report.to_json())) == report
    return report


def told(report: CheckpointReport) -> tuple[str, str]:
    assert not report.ok
    return report.reason, report.message


def own(root: Path, path: str, field: str = "spec.model.base: path") -> Directory:
    return Directory(root, path, "PVC other", field)


def test_an_adapter_gives_the_facts_of_its_base(volume):
    """With the base's place on the volume, and the room that one adapter of its rank takes."""
    facts = seen(volume, "loras/sql").facts
    width = lora.width_of(CONFIG)
    assert (facts.architecture, facts.weights_bytes, facts.base_path) == ("LlamaForCausalLM", 2000, "Llama-Tiny")
    assert (facts.is_adapter, facts.adapters, facts.lora_slots, facts.lora_rank) == (True, 1, 1, 8)
    assert (facts.lora_whole, facts.lora_split) == (width.whole, width.split)


def test_a_plain_model_has_the_facts_that_it_always_had(volume):
    """No key of adapters: the plan's digest of a running service stays."""
    assert (
        not {"is_adapter", "base_path", "adapters", "lora_slots", "draft"}
        & seen(volume, "Llama-Tiny").facts.to_dict().keys()
    )


@pytest.mark.parametrize(
    ("base", "named"),
    [
        ("meta/Llama-Tiny", BASE_NAME),
        ("models/Llama-Tiny", "/mnt/models/Llama-Tiny"),
        ("loras/Llama-Tiny", BASE_NAME),
        ("loras/sql/base", ""),
        ("base_model", ""),
        ("loras/tiny", "../tiny"),
    ],
)
def test_where_a_base_is_found(tmp_path, base, named):
    """By its whole name, by the ends of a path of another machine, beside the adapter, under a neighbour's name."""
    adapter(tmp_path / "loras/sql", base_model_name_or_path=named)
    model(tmp_path / base)
    assert seen(tmp_path, "loras/sql").facts.base_path == base


def test_no_place_lies_outside_of_the_volume():
    """However the base is named."""
    for named in ("../../../etc", "/", "", "..", "a/../../b"):
        for path in places(PurePosixPath("loras/sql"), named):
            assert ".." not in path.parts
            assert not path.is_absolute()


def test_a_missing_base_is_reported_with_what_is_there(volume):
    """What, where it was looked for, what is there, what to do."""
    reason, message = told(seen(volume, "loras/lost"))
    assert reason == "BaseMissing"
    assert 'source.path "loras/lost" in PVC models is a LoRA adapter of "/opt/nowhere/qwen"' in message
    assert "/ has: Llama-Tiny, loras; put the base on the volume" in message
    assert "spec.model.base" in message


def test_a_broken_base_is_reported_as_the_base(volume):
    """The sentence names the base's directory, not the adapter's file."""
    (volume / "Llama-Tiny/tokenizer.json").unlink()
    reason, message = told(seen(volume, "loras/sql"))
    assert reason == "TokenizerMissing"
    assert message.startswith('source.path "loras/sql": its base "Llama-Tiny" has no tokenizer')


def test_a_base_of_its_own_source(volume, tmp_path_factory):
    """It is read there; its path is the spec's, not the plan's."""
    other = tmp_path_factory.mktemp("other")
    model(other / "base", num_hidden_layers=4)
    facts = seen(volume, "loras/lost", Beside(base=own(other, "base"))).facts
    assert (facts.num_hidden_layers, facts.base_path, facts.lora_slots) == (4, None, 1)
    reason, message = told(seen(volume, "loras/lost", Beside(base=own(other, "no"))))
    assert (reason, message) == ("PathNotFound", 'spec.model.base: path "no" is not in PVC other; / has: base')


def test_a_base_for_a_whole_model_is_refused(volume):
    """As the server refuses it."""
    reason, message = told(seen(volume, "Llama-Tiny", Beside(base=own(volume, "Llama-Tiny"))))
    assert (reason, message.rpartition("; ")[2]) == ("NotAnAdapter", "leave spec.model.base out")
    assert told(seen(volume, "Llama-Tiny", Beside(merge=True)))[0] == "NotAnAdapter"


def test_adapters_of_the_directory_and_of_other_volumes_are_counted(volume, tmp_path_factory):
    """Found ones as the server finds them, named ones once; the widest rank counts, rounded to the engine's."""
    other = tmp_path_factory.mktemp("other")
    adapter(other / "poet", r=20)
    adapter(volume / "Llama-Tiny/lora/inner")
    adapter(volume / "Llama-Tiny/dora", use_dora=True)
    wanted = (Named("inner", "lora/inner"), Named("poet", own=own(other, "poet", 'spec.model.adapters "poet": path')))
    facts = seen(volume, "Llama-Tiny", Beside(adapters=wanted)).facts
    assert (facts.adapters, facts.lora_slots, facts.lora_rank, facts.is_adapter) == (2, 2, 32, None)


def test_a_merged_adapter_takes_no_room(volume):
    """By the spec's switch, and by a named one."""
    assert seen(volume, "loras/sql", Beside(merge=True)).facts.lora_slots == 0
    adapter(volume / "Llama-Tiny/sql")
    facts = seen(volume, "Llama-Tiny", Beside(adapters=(Named("sql", "sql", merge=True),))).facts
    assert (facts.adapters, facts.lora_slots) == (1, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"use_dora": True}, "the adapter is a DoRA adapter"),
        ({"peft_type": "IA3"}, "the adapter is a IA3 adapter"),
        ({"r": 600}, "the adapter has rank 600, and the engine takes at most 512"),
    ],
)
def test_an_adapter_that_the_engine_refuses_takes_no_gpu(volume, change, words):
    """In the words of the server's own rules."""
    (volume / "loras/sql/adapter_config.json").write_text(json.dumps({**LORA, **change}))
    reason, message = told(seen(volume, "loras/sql"))
    assert reason == "AdapterUnusable"
    assert message.startswith(f'source.path "loras/sql" in PVC models: {words}')


def test_a_merge_into_quantized_weights_is_refused(volume):
    """There is nothing to add to."""
    config = {**CONFIG, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
    (volume / "Llama-Tiny/config.json").write_text(json.dumps(config))
    reason, message = told(seen(volume, "loras/sql", Beside(merge=True)))
    assert reason == "AdapterUnusable"
    assert "the base's weights are quantized (gptq)" in message


def test_a_named_adapter_must_be_there(volume):
    """The sentence names the adapter, and says what is there."""
    adapter(volume / "Llama-Tiny/sql")
    reason, message = told(seen(volume, "Llama-Tiny", Beside(adapters=(Named("poet", "peot"),))))
    assert reason == "PathNotFound"
    assert message.startswith(
        'spec.model.adapters "poet": path "Llama-Tiny/peot" is not in PVC models; /Llama-Tiny has: '
    )
    (volume / "Llama-Tiny/empty").mkdir()
    reason, message = told(seen(volume, "Llama-Tiny", Beside(adapters=(Named("poet", "empty"),))))
    assert reason == "NotAnAdapter"
    assert "has no adapter_config.json in PVC models; it has: nothing" in message


def test_cut_weights_and_pipes_of_an_adapter_are_reported(volume):
    """Nothing waits for a pipe's writer."""
    weights = volume / "loras/sql/adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert told(seen(volume, "loras/sql"))[0] == "ShardBroken"
    (volume / "loras/sql/adapter_config.json").unlink()
    os.mkfifo(volume / "loras/sql/adapter_config.json")
    assert told(seen(volume, "loras/sql"))[0] in ("NotRegularFile", "ConfigMissing")


def test_a_draft_model_is_read_too(volume):
    """Its facts lie in the model's; a broken one is told by its own field."""
    model(volume / "draft", num_hidden_layers=1)
    field = "spec.engine.speculation.source: path"
    facts = seen(volume, "Llama-Tiny", Beside(draft=own(volume, "draft", field))).facts
    assert (facts.draft.num_hidden_layers, facts.draft.weights_bytes) == (1, 2000)
    (volume / "draft/config.json").unlink()
    reason, message = told(seen(volume, "Llama-Tiny", Beside(draft=own(volume, "draft", field))))
    assert (reason, message.startswith(f'{field} "draft" has no config.json')) == ("ConfigMissing", True)


TENSORS = {
    "trained tokens": ("embed_tokens.token_adapter.trainable_tokens_delta", "has trained single tokens", False, True),
    "a whole head": ("lm_head.weight", "holds a whole tensor (lm_head.weight)", True, True),
    "the head": ("lm_head.lora_A.weight", "changes lm_head, which the engine's Qwen2ForCausalLM takes", True, False),
    "the embedding": ("model.embed_tokens.lora_embedding_A", "changes embed_tokens, which the engine's", True, False),
}


@pytest.mark.parametrize("suffix", ["safetensors", "bin", "pt"])
@pytest.mark.parametrize(("tensor", "words", "can_merge", "everywhere"), TENSORS.values(), ids=TENSORS.keys())
def test_tensors_that_the_engine_takes_from_no_adapter(tmp_path, tensor, words, can_merge, everywhere, suffix):
    """Told by their names and the base's class, before a GPU is taken; some can be merged all the same."""
    model(tmp_path / "base", architectures=["Qwen2ForCausalLM"], model_type="qwen2")
    model(tmp_path / "llama")
    named = adapter(
        tmp_path / "loras/own", tensor=f"base_model.model.{tensor}", suffix=suffix, base_model_name_or_path="base"
    )
    reason, message = told(seen(tmp_path, "loras/own"))
    assert (reason, words in message) == ("AdapterUnusable", True)
    assert seen(tmp_path, "loras/own", Beside(merge=True)).ok is can_merge
    of_llama = seen(tmp_path, "loras/own", Beside(base=own(tmp_path, "llama")))
    assert of_llama.ok is not everywhere
    beside = Beside(adapters=(Named("x", own=own(tmp_path, "loras/own")),))
    assert told(seen(tmp_path, "base", beside))[0] == "AdapterUnusable"
    assert seen(tmp_path, "llama", beside).ok is not everywhere
    named.rename(tmp_path / "base/found")
    assert seen(tmp_path, "base").facts.adapters is None


@pytest.mark.parametrize(
    ("architecture", "is_taken"),
    [
        ("Qwen2_5_VLForConditionalGeneration", False),
        ("Gemma3ForConditionalGeneration", False),
        ("Qwen3VLForConditionalGeneration", True),
        ("LlavaForConditionalGeneration", True),  # its configuration names the language model: left to the engine
    ],
)
def test_a_multimodal_base_offers_what_its_language_model_offers(architecture, is_taken):
    """By the record of the engine's classes; a tower's own matrices are no embedding."""
    prefix = "base_model.model.model"
    head = FoundAdapter(Path(), 8, "", tensors=frozenset({f"{prefix}.language_model.embed_tokens.lora_embedding_A"}))
    with nullcontext() if is_taken else pytest.raises(CheckpointError, match=f"changes embed_tokens.*{architecture}"):
        head.must_fit(architecture, merge=False)
    head.must_fit(architecture, merge=True)
    tower = FoundAdapter(Path(), 8, "", tensors=frozenset({f"{prefix}.visual.blocks.0.attn.qkv.lora_A.weight"}))
    tower.must_fit(architecture, merge=False)


QWEN_VL = "Qwen2_5_VLForConditionalGeneration"


@pytest.mark.parametrize(
    ("architecture", "module", "ignored"),
    [
        (QWEN_VL, "model.visual.blocks.0.attn.qkv", "1 of 2 tensors (visual) of adapter tuned"),
        (QWEN_VL, "model.language_model.layers.0.mlp.up_proj", ""),
        ("Gemma3ForConditionalGeneration", "vision_tower.fc1", "1 of 2 tensors (vision_tower) of adapter tuned"),
        ("NemotronHForCausalLM", "mtp.layers.0.mixer.q_proj", "1 of 2 tensors (mtp) of adapter tuned"),
        ("LlamaForCausalLM", "model.visual.blocks.0.attn.qkv", ""),
    ],
)
def test_tensors_that_the_engine_ignores_are_named(architecture, module, ignored):
    """Of towers, connectors and draft layers, by the record of the engine's classes."""
    names = (f"base_model.model.{one}.lora_A.weight" for one in (module, "model.layers.0.self_attn.q_proj"))
    found = FoundAdapter(Path("/models/tuned"), 8, "", tensors=frozenset(names))
    found.must_fit(architecture, merge=False)
    assert found.ignored(architecture) == ignored


def test_the_facts_say_what_is_ignored(tmp_path):
    """By the name that the spec gives; nothing of a merged adapter."""
    model(tmp_path / "base", architectures=[QWEN_VL])
    adapter(tmp_path / "tuned", tensor="base_model.model.visual.blocks.0.attn.qkv.lora_A.weight")
    for merge, expected in ((False, "1 of 1 tensors (visual) of adapter seeing"), (True, None)):
        named = Named("seeing", merge=merge, own=own(tmp_path, "tuned"))
        assert seen(tmp_path, "base", Beside(adapters=(named,))).facts.lora_ignored == expected


def test_tensors_that_the_engine_takes(tmp_path):
    """Matrices, classifiers, and what peft keeps of the base's own embedding."""
    model(tmp_path / "base")
    kept = ("score.weight", "classifier.bias", "model.embed_tokens.base_layer.weight", "lm_head.lora_B.weight")
    for number, (tensor, suffix) in enumerate(product(kept, ("safetensors", "bin"))):
        place = tmp_path / f"{number}"
        adapter(place, tensor=f"base_model.model.{tensor}", suffix=suffix, base_model_name_or_path="base")
        assert seen(tmp_path, f"{number}").ok


def test_what_training_leaves_beside_an_adapter_makes_it_no_model(volume):
    """A trainer writes its arguments and its state into the same directory."""
    for name in ("training_args.bin", "optimizer.pt", "scheduler.pt"):
        (volume / "loras/sql" / name).write_bytes(b"x")
    assert seen(volume, "loras/sql").facts.base_path == "Llama-Tiny"


def test_a_pickle_of_more_than_tensors_is_refused(volume):
    """The engine does not load it; a file that is cut off is refused, and one without names is left to the engine."""
    own, file = volume / "loras/sql", volume / "loras/sql/adapter_model.bin"
    (own / "adapter_model.safetensors").unlink()
    torch_archive(file, {MATRIX: datetime.date(2026, 1, 1)})
    for beside in (Beside(), Beside(merge=True)):
        reason, message = told(seen(volume, "loras/sql", beside))
        assert reason == "AdapterUnusable"
        assert "the adapter holds more than tensors (adapter_model.bin: datetime.date), which the engine" in message
    file.write_bytes(torch_archive(file, {MATRIX: 1}).read_bytes()[:-30])
    assert told(seen(volume, "loras/sql"))[0] == "ShardBroken"
    file.write_bytes(pickle.dumps({MATRIX: 1}))
    assert seen(volume, "loras/sql").ok


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_what_is_read_of_many_adapters_is_bounded(tmp_path, monkeypatch, suffix):
    """Refused by the sum: each adapter alone is within the bound."""
    model(tmp_path / "base")
    monkeypatch.setattr(documents.Budget.__init__, "__defaults__", (3000,))
    for number in range(30):
        adapter(tmp_path / f"base/{number}", suffix=suffix)
    reason, message = told(seen(tmp_path, "base"))
    assert reason == "AdapterUnusable"
    assert message.endswith("keep fewer in the model's directory")


def test_what_is_read_of_many_shards_is_bounded(tmp_path, monkeypatch):
    model(tmp_path / "base")
    for number in range(30):
        (tmp_path / f"base/model-{number + 1:05d}-of-00030.safetensors").write_bytes(safetensors(64))
    assert seen(tmp_path, "base").ok
    monkeypatch.setattr(documents.Budget.__init__, "__defaults__", (1000,))
    reason, message = told(seen(tmp_path, "base"))
    assert (reason, "save the model in fewer tensors or files" in message) == ("ShardBroken", True)
    files = sorted((tmp_path / "base").glob("*.safetensors"))
    assert (tensor_names(files[:2]) is None, tensor_names(files)) == (False, None)
