"""What becomes of the adapters that there are."""

from dataclasses import replace

import pytest
from windlass.engine.adapters.model import FOUND, Adapter, AdapterPlan, Adapters, Shard, Want
from windlass.engine.adapters.plan import decide
from windlass.errors import ModelError, UsageError, WindlassError
from windlass_sizing.settings.lora_modules import Given

WANT = Want(("model",), "/data/model", cache="/cache")
SQL = Adapter("sql", "/data/model/lora/sql", FOUND, rank=8, digest="d")
POET = Adapter("poet", "/data/model/lora/poet", FOUND, rank=20, digest="e")
MINE = Adapter("mine", "/l/mine", "flag", rank=4, digest="f", given=Given("mine", "/l/mine"))
OWN = Adapter("model", "/data/model", FOUND, rank=16, digest="g")
SHARDS = (Shard("model.safetensors", 10, 1),)


def names(plan: AdapterPlan) -> list[str]:
    return [adapter.name for adapter in plan.served]


def test_nothing_there() -> None:
    """A model without adapters is started as ever."""
    assert AdapterPlan() == decide(Adapters(), WANT)


def test_found_and_given_are_served_by_name() -> None:
    """Given ones first; the rank is one of the engine's that holds the largest."""
    plan = decide(Adapters(found=(SQL, POET), given=(MINE,)), WANT)
    assert (names(plan), plan.rank, plan.base_names, plan.lead) == (["mine", "sql", "poet"], 32, (), ())


def test_a_found_one_may_be_renamed() -> None:
    """Given by its path it is served under the given name only."""
    renamed = replace(MINE, path=SQL.path)
    assert names(decide(Adapters(found=(SQL,), given=(renamed,)), WANT)) == ["mine"]


def test_a_given_one_wins_the_name() -> None:
    """The found one of that name is left out, and told."""
    plan = decide(Adapters(found=(SQL,), given=(replace(MINE, name="sql"),)), WANT)
    assert [adapter.path for adapter in plan.served] == ["/l/mine"]
    assert plan.notes == (
        'adapter "sql" (/data/model/lora/sql) is not served: --lora-modules gives its name to another',
    )


def test_a_broken_found_one_is_left_out() -> None:
    """What nobody asked for does not keep the model from being served."""
    plan = decide(Adapters(found=(replace(SQL, problem="is a DoRA adapter"), POET)), WANT)
    assert names(plan) == ["poet"]
    assert plan.notes == ('adapter "sql" (/data/model/lora/sql) is not served: it is a DoRA adapter',)


def test_the_model_directory_is_an_adapter() -> None:
    """It takes the model's names, one each; the base goes by its directory's name."""
    want = replace(WANT, served=("model", "chat"), base="/data/Qwen2-7B")
    plan = decide(Adapters(own=OWN), want)
    assert (names(plan), plan.base_names, plan.lead) == (["model", "chat"], ("Qwen2-7B",), ("model", "chat"))
    assert decide(Adapters(own=OWN), replace(want, base="/base/chat")).base_names == ("chat-base",)


def test_switched_off() -> None:
    """--enable-lora false leaves found ones out."""
    assert AdapterPlan() == decide(Adapters(found=(SQL,)), replace(WANT, enabled=False))


@pytest.mark.parametrize(
    ("adapters", "changes", "error", "said"),
    [
        pytest.param(Adapters(given=(replace(MINE, problem="has no weights; copy it"),)), {}, UsageError,
                     'adapter "mine" (/l/mine) has no weights; copy it', id="given-broken"),
        pytest.param(Adapters(own=replace(OWN, problem="is a DoRA adapter")), {}, ModelError,
                     'adapter "model" (/data/model) is a DoRA adapter', id="own-broken"),
        pytest.param(Adapters(found=(replace(SQL, name="model"),)), {}, UsageError,
                     'adapter "model" (/data/model/lora/sql) has the model\'s own name; give it another with --lora',
                     id="found-as-model"),
        pytest.param(Adapters(given=(replace(MINE, name="model"),)), {}, UsageError,
                     'adapter "model" (/l/mine) has the model\'s own name; give it another in --lora',
                     id="given-as-model"),
        pytest.param(Adapters(given=(MINE, replace(MINE, path="/l/b"))), {}, UsageError,
                     '--lora-modules names "mine" twice (/l/mine, /l/b); give one', id="given-twice"),
        pytest.param(Adapters(found=(SQL, replace(SQL, path="/data/model/x/sql"))), {}, UsageError,
                     'two adapters of the model directory are called "sql" (/data/model/lora/sql, /data/model/x/sql); '
                     "name them with --lora-modules, as sql=/data/model/lora/sql sql-2=/data/model/x/sql",
                     id="found-twice"),
        pytest.param(Adapters(found=(POET,)), {"max_rank": 16}, UsageError,
                     '--max-lora-rank 16 is less than the rank 20 of adapter "poet" (/data/model/lora/poet); set 32',
                     id="rank"),
        pytest.param(Adapters(own=OWN), {"enabled": False}, UsageError,
                     "--enable-lora false, and model directory /data/model is an adapter itself", id="off-own"),
        pytest.param(Adapters(given=(MINE,)), {"enabled": False}, UsageError,
                     '--enable-lora false, and --lora-modules names "mine"; leave', id="off-given"),
        pytest.param(Adapters(found=(SQL,)), {"merge": "mine"}, UsageError,
                     "--merge-lora mine names no adapter; there are: sql", id="merge-unknown"),
        pytest.param(Adapters(), {"merge": "true"}, UsageError,
                     "--merge-lora true names no adapter; there are: none", id="merge-none"),
        pytest.param(Adapters(found=(SQL, POET)), {"merge": "true"}, UsageError,
                     "--merge-lora true means several adapters (/data/model/lora/sql, /data/model/lora/poet); name one",
                     id="merge-several"),
        pytest.param(Adapters(found=(SQL,)), {"merge": "sql", "quantization": "gptq"}, UsageError,
                     'adapter "sql" (/data/model/lora/sql) cannot be merged: the base\'s weights are quantized (gptq)',
                     id="merge-quantized"),
        pytest.param(Adapters(found=(replace(SQL, merge_problem="is a DoRA adapter"),)), {"merge": "sql"}, UsageError,
                     'adapter "sql" (/data/model/lora/sql) cannot be merged: it is a DoRA', id="merge-dora"),
        pytest.param(Adapters(found=(SQL,), given=(MINE,)), {"merge": "sql"}, UsageError,
                     '--merge-lora sql changes the weights that adapter "mine" was trained on; leave mine out',
                     id="merge-beside-given"),
    ],
)  # fmt: skip
def test_refused(adapters: Adapters, changes: dict[str, object], error: type[WindlassError], said: str) -> None:
    """One sentence: what, where, what to do."""
    with pytest.raises(error) as raised:
        decide(adapters, replace(WANT, **changes))
    assert str(raised.value).startswith(said)


def test_merged() -> None:
    """Its name means the merged model too; other adapters of the directory are left out, and told."""
    plan = decide(Adapters(found=(SQL, POET), shards=SHARDS), replace(WANT, merge="sql"))
    assert (names(plan), plan.base_names, plan.rank) == ([], ("model", "sql"), 0)
    assert plan.merge is not None
    assert (plan.merge.base, plan.merge.adapter, plan.merge.shards) == ("/data/model", SQL, SHARDS)
    assert plan.notes == ("poet not served beside the merged sql: trained on the base's own weights",)


@pytest.mark.parametrize("name", ["true", "model", "chat"])
def test_the_model_directorys_own_is_merged_under_its_names(name: str) -> None:
    """No name is added: the merged model is what was asked for."""
    plan = decide(Adapters(own=OWN, shards=SHARDS), replace(WANT, served=("chat",), base="/b", merge=name))
    assert plan.merge is not None
    assert (plan.base_names, plan.merge.base) == ((), "/b")


def test_the_place_is_named_by_what_goes_into_it() -> None:
    """Another adapter, another shard or another base gives another directory; the same gives the same."""

    def target(adapters: Adapters, **changes: str) -> str:
        plan = decide(adapters, replace(WANT, merge="sql", **changes))
        assert plan.merge is not None
        return plan.merge.target

    there = Adapters(found=(SQL,), shards=SHARDS)
    others = [
        target(replace(there, found=(replace(SQL, digest="x"),))),
        target(replace(there, shards=(replace(SHARDS[0], size=11),))),
        target(replace(there, shards=(replace(SHARDS[0], mtime_ns=2),))),
        target(there, base="/other"),
    ]
    assert target(there) == target(there)
    assert target(there).startswith("/cache/merged/")
    assert len({target(there), *others}) == 5


def test_tensors_that_the_engine_ignores_are_noted_once() -> None:
    """Of an adapter that goes by several names, too; of a merged one nothing is ignored."""
    own = replace(OWN, ignored="2 of 4 tensors (visual) of adapter sql", digest="d")
    plan = decide(Adapters(own=own), replace(WANT, served=("model", "chat"), base="/data/Qwen2-7B"))
    assert plan.notes == (
        "warning: the engine ignores 2 of 4 tensors (visual) of adapter sql: they change nothing, "
        "unless the class takes --enable-tower-connector-lora",
    )
