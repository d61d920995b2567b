"""How many API processes are chosen from cores and requests at a time, and what leaves one."""

import pytest
from windlass_sizing.placement.api_processes import MOST, Cores, because, choose, obstacle
from windlass_testbed.cases import every_case


@every_case(
    "streams, cores, number",
    [
        (1, 64, 1), (32, 64, 1), (33, 64, 2), (64, 64, 2), (96, 64, 3), (128, 64, 4), (256, 64, 4), (10**6, 64, 4),
        (128, 0, 1), (128, 1, 1), (128, 2, 1), (128, 3, 1), (128, 4, 2), (128, 5, 3), (128, 6, 4), (128, 16, 4),
        (0, 16, 1),
    ],
)  # fmt: skip
def test_one_for_32_streams_with_a_core_each(streams: int, cores: int, number: int) -> None:
    """Beside one GPU and one engine; four at most."""
    assert choose(streams, Cores(cores, gpus=1)) == number


@pytest.mark.parametrize(
    ("cores", "number"),
    [
        (Cores(16, gpus=8), 4),
        (Cores(12, gpus=8), 3),
        (Cores(8, gpus=8), 1),
        (Cores(16, gpus=8, engines=4), 4),
        (Cores(16, gpus=8, engines=8), 1),
        (Cores(16, gpus=1, drafting=12), 2),
        (Cores(16, gpus=1, drafting=15), 1),
    ],
)
def test_gpus_engines_and_drafts_have_their_cores_first(cores: Cores, number: int) -> None:
    assert choose(512, cores) == number


def test_more_cores_or_streams_never_mean_fewer() -> None:
    rows = [[choose(streams, Cores(cores, 1)) for streams in range(0, 300, 7)] for cores in range(12)]
    assert all(list(row) == sorted(row) for row in (*rows, *zip(*rows, strict=True)))
    assert {number for row in rows for number in row} == set(range(1, MOST + 1))


def test_the_reason_names_both_figures() -> None:
    said = "128 requests at a time, and 14 of 16 cores beside GPUs, engines and drafts"
    assert because(128, Cores(16, gpus=1)) == said


@pytest.mark.parametrize(
    ("variables", "words", "found"),
    [
        ({}, (), ""),
        ({"VLLM_USE_RUST_FRONTEND": "0", "VLLM_ENABLE_RESPONSES_API_STORE": "False"}, ("--seed", "1"), ""),
        ({"VLLM_USE_RUST_FRONTEND": "1"}, (), "VLLM_USE_RUST_FRONTEND"),
        ({}, ("--enable_elastic_ep",), "--enable-elastic-ep"),
        ({}, ("--fault-tolerance-config.x=1",), "--fault-tolerance-config"),
        ({}, ("-dpn", "1"), "-dpn"),
        ({}, ("--served-model-name", "VLLM_USE_RUST_FRONTEND"), ""),
    ],
)
def test_what_leaves_one(variables: dict[str, str], words: tuple[str, ...], found: str) -> None:
    assert obstacle(variables, words) == found
