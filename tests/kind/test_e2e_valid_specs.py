"""Valid specs on a real cluster: a broken chat template is refused; a CPU service with defaults calls a tool."""

import json
import shutil
import urllib.request

import pytest
from windlass_testbed import cluster, deploy
from windlass_testbed.forward import forward

TEMPLATE = "{% for message in messages %}\n{{ message.content }\n{% endfor %}\n"
"""Its second line lacks a brace."""
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
        },
    },
}


def source(path):
    return {"pvc": {"claimName": "models", "path": path}}


@pytest.fixture(scope="module")
def broken(bed):
    """The demo's model with a chat template that does not compile."""
    folder = cluster.models_folder(bed.paths) / "broken-template"
    shutil.copytree(folder.parent / deploy.MODEL, folder, dirs_exist_ok=True)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    for place in (folder, *folder.iterdir()):
        place.chmod(0o755)  # the server is no root
    yield folder.name
    shutil.rmtree(folder)


def test_a_broken_template_is_refused_with_its_line(bed, namespace, broken):
    """Never Ready, and no license is asked for."""
    bed.apply(namespace, "broken", model={"id": "broken", "source": source(broken)})
    ready = bed.reason(namespace, "broken", "ChatTemplateBroken")
    print(bed.kubectl("-n", namespace, "get", "llm", "broken"))
    assert ready["status"] == "False"
    assert "line 2 of the chat template" in ready["message"]
    assert "chat_template.jinja" in ready["message"]
    bed.kubectl("-n", namespace, "delete", "llm", "broken", "--timeout=600s")


@pytest.fixture(scope="module")
def on_cpu(bed, namespace):
    """A service with a model and no GPUs: all else is a default."""
    bed.apply(namespace, "on-cpu", resources={"gpus": 0}, license={"required": False})
    bed.ready(namespace, "on-cpu")
    print(bed.kubectl("-n", namespace, "get", "llm", "on-cpu"))
    return "on-cpu"


def test_a_service_without_gpus_asks_for_none(bed, namespace, on_cpu):
    """Which image it takes is held without a cluster: here both settings name the CPU image."""
    labels = f"serving.windlass.dev/service={on_cpu},app.kubernetes.io/component=server"
    (pod,) = bed.items(namespace, "pods", "-l", labels)
    (container,) = pod["spec"]["containers"]
    assert "nvidia.com/gpu" not in json.dumps(container["resources"])


def test_a_tool_is_called_without_a_flag(bed, namespace, on_cpu):
    """The parser is found from the checkpoint; the spec names none."""
    body = {
        "model": "demo",
        "messages": [{"role": "user", "content": "What is the weather in Paris in celsius?"}],
        "tools": [WEATHER],
        "temperature": 0,
        "max_tokens": 80,
    }
    with forward(bed.paths, namespace, f"svc/{on_cpu}", 8501) as url:
        request = urllib.request.Request(
            f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            message = json.loads(answer.read())["choices"][0]["message"]
    (call,) = message["tool_calls"]
    print(json.dumps(call["function"]))
    assert call["function"]["name"] == "get_weather"
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris", "unit": "celsius"}
