"""The matrix: which servers and loads it names, in which order they are measured, and what it refuses."""

import pytest
from windlass.bench.running.matrix import Arm, Asked, arms, axes, loads, seed, steps
from windlass.errors import UsageError
from windlass_testbed.cases import every_case


def test_the_issues_words() -> None:
    """Three methods with and without lookahead, three loads."""
    found = axes(["quantization=none,fp8,ifq", "lookahead=off,on", "concurrency=1,10,64"])
    servers = arms(found, ("--seed", "3"), ("--dtype", "float16"))
    assert [arm.name for arm in servers] == [
        *(f"quantization={method} lookahead={switch}" for method in ("none", "fp8", "ifq") for switch in ("off", "on")),
        "stock",
    ]
    assert servers[3].words == ("--quantization", "fp8", "--use-lookahead", "--seed", "3")
    assert (servers[6].words, servers[6].is_stock) == (("--dtype", "float16"), True)
    assert [asked.folder for asked in loads(found)] == ["concurrency-1", "concurrency-10", "concurrency-64"]
    assert len({arm.folder for arm in servers}) == 7


def test_an_empty_matrix() -> None:
    """One server as it is, one load without a limit."""
    assert arms(axes([]), (), None) == [Arm("windlass")]
    assert loads(axes([])) == [Asked()]
    assert Asked().folder == "open"
    assert Asked(10, 0.7, "2.5").folder == "concurrency-10_temperature-0.7_rate-2.5"


@every_case(
    "words, said",
    [
        (["quantization"], "write a name and values"),
        (["quantization="], "write a name and values"),
        (["Quantization=none"], "write a name and values"),
        (["quantization=no ne"], "write a name and values"),
        (["quantization=--port"], "write a name and values"),
        (["quantization=../x"], "write a name and values"),
        (["quantization=none,none"], "name each axis and each value once"),
        (["lookahead=on", "lookahead=off"], "name each axis and each value once"),
        (["lookahead=yes"], "write off, on or off,on"),
        (["concurrency=0"], "write whole numbers from 1 on"),
        (["temperature=-1"], "write a name and values"),
        (["temperature=hot"], "write a number from 0 on"),
        (["request-rate=0"], "write requests a second, or inf"),
        (["seed=" + ",".join(map(str, range(65)))], "name 64 at most"),
    ],
)
def test_refused(words: list[str], said: str) -> None:
    """One sentence that says what to write."""
    with pytest.raises(UsageError) as refused:
        found = axes(words)
        loads(found)
        arms(found, (), None)
    assert said in str(refused.value)


A, B = Arm("a"), Arm("b")
ONE, TEN = Asked(1), Asked(10)


def test_order() -> None:
    """Every second round goes backwards; servers side by side take turns within a load."""
    together = [(step.round, step.asked, step.arm) for step in steps([A, B], [ONE, TEN], 2, together=True)]
    assert together == [
        *((1, ONE, A), (1, ONE, B), (1, TEN, A), (1, TEN, B)),
        *((2, ONE, B), (2, ONE, A), (2, TEN, B), (2, TEN, A)),
    ]
    after = [(step.round, step.arm, step.asked) for step in steps([A, B], [ONE, TEN], 2, together=False)]
    assert after == [
        *((1, A, ONE), (1, A, TEN), (1, B, ONE), (1, B, TEN)),
        *((2, B, ONE), (2, B, TEN), (2, A, ONE), (2, A, TEN)),
    ]


def test_folders_make_pairs() -> None:
    """Behind the server's name all servers have the same places."""
    places = {step.folder.partition("/")[2] for step in steps([A, B], [ONE, TEN], 2, together=True)}
    assert len(places) == 4
    assert {step.folder.partition("/")[0] for step in steps([A, B], [ONE], 1, together=True)} == {"a", "b"}


def test_seeds() -> None:
    """Every round and load has its own."""
    assert sorted(seed(7, number, place, 3) for number in (1, 2) for place in range(3)) == [7, 8, 9, 10, 11, 12]
