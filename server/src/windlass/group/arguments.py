"""What a group makes of the engine: its share of the cards, its words, and its commands. Pure.

The words are vLLM's own: `--nnodes` and its companions for its own group, `--distributed-executor-backend ray` for a
Ray cluster. vLLM's followers have no API server, which only `vllm serve --headless` knows.
"""

from __future__ import annotations

from windlass.errors import UsageError
from windlass.group.contract import RAY, RAY_ADDRESS
from windlass.group.plan import GroupPlan

ENGINE_CLI = "vllm.entrypoints.cli.main"
RAY_CLI = "ray.scripts.scripts"
RAY_VARIABLES = {"RAY_raylet_start_wait_time_s": "120", "RAY_USAGE_STATS_ENABLED": "0"}
"""Ray's own 30 seconds are too few for a busy machine that starts everything at once."""
MODEL = "--model"
BY_HAND = ("--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--master-port", "--headless")


def default_tp(group: GroupPlan, cards: int, pp: int) -> int:
    """Cards that share each stage of layers: all `cards` of each member, divided among the `pp` stages."""
    whole = group.size * cards
    if pp < 1 or whole % pp:
        fitting = ", ".join(str(number) for number in range(1, whole + 1) if whole % number == 0)
        raise UsageError(
            f"--pipeline-parallel-size {pp} does not divide the {_cards(group, cards)}; set it to one of {fitting}"
        )
    return whole // pp


def check(group: GroupPlan, cards: int, tp: int, pp: int) -> None:
    """UsageError when TP × PP cannot be put on the members."""
    asked, whole = tp * pp, group.size * cards
    product = (
        f"--tensor-parallel-size {tp} × --pipeline-parallel-size {pp}" if pp > 1 else f"--tensor-parallel-size {tp}"
    )
    if asked > whole:
        raise UsageError(f"{product} is more than the {_cards(group, cards)}; lower it, or leave it out to take all")
    if group.engine != RAY and asked % group.size:
        raise UsageError(
            f"{product} cannot be shared equally by {group.size} members; leave it out to take all {whole} cards"
        )


def _cards(group: GroupPlan, cards: int) -> str:
    return f"{group.size * cards} cards of the group ({group.size} members × {cards})"


def check_words(group: GroupPlan, words: tuple[str, ...]) -> None:
    """UsageError when the command line tells of a group, too."""
    for word in words:
        if word.partition("=")[0].replace("_", "-") in BY_HAND:
            raise UsageError(
                f"{word.partition('=')[0]} is set by the group that the environment tells of (head {group.head}, "
                f"{group.size} members); leave it out, or unset the variables WINDLASS_GROUP_…"
            )


def engine_words(group: GroupPlan) -> tuple[str, ...]:
    """What the engine's command line gets more."""
    if group.engine == RAY:
        return ("--distributed-executor-backend", "ray")
    place = ("--nnodes", str(group.size), "--node-rank", str(group.index))
    head = ("--master-addr", group.head, "--master-port", str(group.engine_port))
    return (*place, *head) if group.is_head else (*place, *head, "--headless")


def engine_variables(group: GroupPlan) -> dict[str, str]:
    """What the engine's process gets more."""
    if group.engine != RAY:
        return {}
    return {**RAY_VARIABLES, **({RAY_ADDRESS: ray_address(group)} if group.is_head else {})}


def follower_command(group: GroupPlan, python: str, engine_args: tuple[str, ...], cards: int) -> tuple[str, ...]:
    """What a follower runs: vLLM without its API, or its part of the Ray cluster, where the head puts workers."""
    if group.engine == RAY:
        return ray_command(group, python, cards)
    return (python, "-m", ENGINE_CLI, "serve", *_model_first(engine_args))


def _model_first(engine_args: tuple[str, ...]) -> tuple[str, ...]:
    """`vllm serve` wants its model without a flag."""
    if MODEL not in engine_args:
        return engine_args
    at = engine_args.index(MODEL)
    return (engine_args[at + 1], *engine_args[:at], *engine_args[at + 2 :])


def ray_command(group: GroupPlan, python: str, cards: int) -> tuple[str, ...]:
    """This member's part of the Ray cluster: it lives as long as the part does."""
    where = ("--head", f"--port={group.ray_port}") if group.is_head else (f"--address={ray_address(group)}",)
    words = (*where, "--block", "--disable-usage-stats")
    words += ("--include-dashboard=false",) if group.is_head else ()
    words += (f"--num-gpus={cards}",) if cards else ()
    words += (f"--node-ip-address={group.host_ip}",) if group.host_ip else ()
    return (python, "-m", RAY_CLI, "start", *words)


def ray_address(group: GroupPlan) -> str:
    """Where the Ray cluster is met."""
    host = f"[{group.head}]" if ":" in group.head else group.head
    return f"{host}:{group.ray_port}"
