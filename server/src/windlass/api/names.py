"""The names that a request may put into `model`. Adapters come and go while the engine runs, so it is asked."""

from __future__ import annotations

from windlass.front.refusal import Refusal
from windlass.front.settings import ApiSettings

SHOWN = 20


def served(settings: ApiSettings, application: object) -> tuple[str, ...]:
    """Every name in order: the model's, the adapters of the start, and what the engine has loaded since."""
    models = getattr(getattr(application, "state", None), "openai_serving_models", None)
    base = (path.name for path in getattr(models, "base_model_paths", ()))
    adapters = tuple(getattr(models, "lora_requests", ()))
    static = () if models else settings.lora_names  # the engine knows whether they are still loaded
    return tuple(dict.fromkeys((*settings.served_names, *base, *static, *adapters)))


def unknown(model: str, names: tuple[str, ...]) -> Refusal:
    """The 404 that helps: it lists what there is."""
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    message = (
        f'model "{model}" is not served here; this server has: {shown or "none"}; leave model out to ask the first'
    )
    return Refusal(404, message, param="model")


def withheld(model: str, names: tuple[str, ...]) -> Refusal:
    """The same for a model that the key does not name: as OpenAI, it does not say whether the model is there."""
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    message = f'model "{model}" does not exist or this API key may not use it; the key has: {shown}'
    return Refusal(404, message, param="model")
