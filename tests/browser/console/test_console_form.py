"""The form: made of the schema, in step with the YAML, with the plan beside it."""

import json
import re

import yaml
from playwright.sync_api import expect

from .conftest import texts

VALUE = re.compile(r"\{(\w+)")  # a value in a text: {n}, {n|GPU|GPUs}
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
}


def test_form_and_yaml_stay_in_step(console):
    """What a field writes stands in the YAML; what is typed there stands in the field; comments stay."""
    page = console.page
    console.go("new")
    console.take_known_model()
    console.field("spec.resources.gpus").fill("2")
    document = yaml.safe_load(console.yaml())
    assert document["metadata"] == {"name": "tried", "namespace": "chat"}
    assert document["spec"]["resources"] == {"gpus": 2}
    assert document["spec"]["model"]["source"]["pvc"] == {"claimName": "models", "path": "qwen2-7b"}

    text = console.yaml().replace("gpus: 2", "gpus: 4 # as the team agreed")
    console.type_yaml(text + "  replicas: 3\n")
    expect(console.field("spec.resources.gpus")).to_have_value("4")
    expect(console.field("spec.replicas")).to_have_value("3")
    console.field("spec.replicas").fill("")
    assert "# as the team agreed" in console.yaml()
    assert "replicas" not in yaml.safe_load(console.yaml())["spec"]
    page.get_by_role("link", name="Cancel").click(no_wait_after=True)


def test_a_yaml_that_is_none_locks_the_form(console):
    """The line is named, the fields wait, and the text can be mended."""
    console.go("new")
    good = console.yaml()
    console.type_yaml("spec: [\n")
    expect(console.page.locator("#yaml-problem")).to_contain_text("Line ")
    expect(console.field("spec.model.id")).to_be_disabled()
    console.type_yaml(good)
    expect(console.field("spec.model.id")).to_be_enabled()


def test_the_plan_follows_the_keys(console):
    """Cards and memory appear, change with a field, and an advice is taken by one click."""
    page = console.page
    console.go("new")
    console.take_known_model()
    plan = page.get_by_role("region", name="Plan")
    expect(plan.locator(".cards-line")).to_have_text("1 × L20")
    expect(plan.locator(".memory")).to_contain_text("Weights 14.2 GiB")
    expect(plan.get_by_text("Fits", exact=True).first).to_be_visible()
    plan.get_by_text("Settings in force").click()
    expect(plan.get_by_role("row", name="max-model-len")).to_contain_text("plan")
    console.field("spec.resources.gpuType").fill("H20")
    expect(plan.locator(".cards-line")).to_have_text("1 × H20")
    expect(plan.get_by_text("Could be better")).to_have_count(0)
    console.type_yaml(console.yaml() + "  engine:\n    maxModelLen: 32768\n    gpuMemoryUtilizationPercent: 22\n")
    expect(plan.locator(".problem")).to_contain_text("warning: only 2 requests of 32768 tokens fit")
    plan.get_by_text("Could be better").click()
    plan.get_by_role("button", name="Use: quantization ifq").click()
    expect(console.field("spec.engine.quantization")).to_have_value("ifq")
    assert yaml.safe_load(console.yaml())["spec"]["engine"]["quantization"] == "ifq"


def test_a_refusal_is_shown_in_our_sentences(console):
    """What cannot be placed is refused with what would help; a bad spec names its field, and leads to it."""
    page = console.page
    console.go("new")
    console.field("metadata.name").fill("large")
    console.field("spec.model.id").fill("Large")
    console.field("spec.model.source.pvc.claimName").fill("models")
    page.get_by_label("config.json of the model").fill(json.dumps(CONFIG | {"num_hidden_layers": 400}))
    expect(page.locator(".plan")).to_contain_text("does not fit the largest placement")
    expect(page.locator(".plan .remedies li").first).to_contain_text("more or larger GPUs")
    console.type_yaml(console.yaml() + "  engine:\n    maxModelLen: 0\n")
    expect(page.locator(".plan .trouble")).to_contain_text("“Context length”")
    page.get_by_role("button", name="Show field").first.click()
    expect(console.field("spec.engine.maxModelLen")).to_be_focused()
    expect(console.field("spec.engine.maxModelLen")).to_have_attribute("aria-invalid", "true")


def test_a_plan_needs_no_name(console):
    """Model and volume are enough; what is still needed, and what is refused, has the words of the form."""
    page = console.page
    console.go("new")
    plan = page.get_by_role("region", name="Plan")
    expect(plan.locator(".needed li")).to_have_text(["Model name", "Claim (PersistentVolumeClaim)"])
    page.get_by_label("The model of an existing service").select_option(index=1)
    expect(plan.locator(".cards-line")).to_have_text("1 × L20")
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".note.bad")).to_contain_text("Fill in first: Name of the service")
    expect(page.locator(".fields")).not_to_contain_text("claimName")
    page.get_by_label("Download the model into the volume first").check()
    for label in ("Hub", "Name on the hub", "Directory in the volume"):
        expect(page.locator(".field .name", has_text=label).first).to_be_visible()


def test_every_field_is_behind_the_simple_ones(console):
    """A field is found by a word, set, and stands in the YAML; a list of objects grows and shrinks."""
    page = console.page
    console.go("new")
    page.get_by_role("heading", name="All fields").click()
    page.get_by_label("Find a field").fill("drain")
    console.field("spec.deployment.drainSeconds").fill("120")
    page.get_by_label("Find a field").fill("spec.env")
    page.locator('[data-path="spec.env"]').click()
    console.field("spec.env[0].name").fill("OMP_NUM_THREADS")
    console.field("spec.env[0].value").fill("8")
    spec = yaml.safe_load(console.yaml())["spec"]
    assert spec["deployment"] == {"drainSeconds": 120}
    assert spec["env"] == [{"name": "OMP_NUM_THREADS", "value": "8"}]
    page.get_by_role("button", name="Remove entry 1").click()
    assert "env" not in yaml.safe_load(console.yaml())["spec"]


def test_create_edit_scale_suspend_delete(console):
    """A whole life; deletion asks for the name."""
    page = console.page
    console.go("new")
    page.get_by_role("button", name="Create").click()
    expect(console.field("metadata.name")).to_be_focused()  # what is needed first
    console.take_known_model()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="tried")).to_be_visible()

    page.get_by_role("link", name="Edit").click()
    console.field("spec.engine.maxModelLen").fill("4096")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="YAML").click()
    expect(page.get_by_role("region", name="YAML")).to_contain_text("maxModelLen: 4096")

    page.get_by_role("button", name="Scale").click()
    page.get_by_role("spinbutton", name="Replicas").fill("3")
    page.get_by_role("dialog").get_by_role("button", name="Scale").click()
    expect(page.get_by_role("region", name="YAML")).to_contain_text("replicas: 3")
    page.get_by_role("button", name="Suspend").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Suspended")

    page.get_by_role("button", name="Delete").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Delete")
    expect(confirm).to_be_disabled()
    page.get_by_role("dialog").get_by_role("textbox").fill("tried")
    confirm.click()
    expect(page.get_by_role("heading", name="Services")).to_be_visible()
    expect(page.get_by_role("link", name="tried", exact=True)).to_have_count(0)


def test_the_page_asks_before_it_throws_away(console):
    """Leaving with something typed asks once; to stay keeps it."""
    page = console.page
    console.go("new")
    console.field("metadata.name").fill("kept")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("link", name="Capacity").click()
    expect(console.field("metadata.name")).to_have_value("kept")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("link", name="Capacity").click()
    expect(page.get_by_role("heading", name="Capacity")).to_be_visible()


def test_both_languages_have_the_same_keys():
    """No key is missing in a language, none is empty, and the values in braces are the same."""
    english, chinese = texts("en"), texts("zh")
    assert english.keys() == chinese.keys()
    assert all(english.values())
    assert all(chinese.values())
    for key, text in chinese.items():
        assert set(VALUE.findall(text)) <= set(VALUE.findall(english[key])), key


def test_a_sentence_leads_to_a_field_behind_the_simple_ones(console):
    """The part with all fields opens for it."""
    page = console.page
    console.go("new")
    console.take_known_model()
    console.type_yaml(console.yaml() + "  deployment:\n    drainSeconds: -1\n")
    page.get_by_role("button", name="Show field").first.click()
    expect(console.field("spec.deployment.drainSeconds")).to_be_focused()
