from windlass.engine.prefix_offload.in_step import BYTES_MAX, InStep

TOKEN_BYTES, CHUNK = 131_072, 256


def step() -> InStep:
    return InStep(TOKEN_BYTES, CHUNK)


def granted(one: InStep, request: str, found: int = 9_984, left: int = 16) -> bool:
    """As the scheduler asks: may it, it gets blocks, the step is built."""
    allowed = one.allows(request, found, left)
    one.joined(request)
    return allowed and one.taken() == {request}


def test_a_request_that_is_alone_is_copied_inside_its_step():
    assert granted(step(), "a")


def test_beside_one_that_runs_the_copy_is_between_steps():
    one = step()
    one.joined("b")
    assert not one.allows("a", 9_984, 16)


def test_one_that_ended_is_nobody_to_wait_for():
    one = step()
    one.joined("b")
    one.ended("b")
    assert granted(one, "a")


def test_a_step_has_one_such_copy():
    one = step()
    assert one.allows("a", 9_984, 16)
    one.joined("a")
    assert not one.allows("b", 9_984, 16)


def test_one_without_blocks_is_not_in_the_step():
    one = step()
    assert one.allows("a", 9_984, 16)
    assert one.taken() == frozenset()
    assert granted(one, "b")


def test_blocks_of_a_copy_between_steps_grant_nothing():
    one = step()
    assert not one.allows("a", 9_984, CHUNK)
    one.joined("a")
    assert one.taken() == frozenset()


def test_a_long_copy_is_between_steps():
    tokens = BYTES_MAX // TOKEN_BYTES
    assert step().allows("a", tokens, 16)
    assert not step().allows("a", tokens + CHUNK, 16)


def test_no_chunk_may_be_left_to_compute():
    assert step().allows("a", 9_984, CHUNK - 1)
    assert not step().allows("a", 9_984, CHUNK)


def test_something_is_left_to_compute():
    assert not step().allows("a", 9_984, 0)


def test_the_next_copy_would_wait_for_those_under_way():
    assert not step().allows("a", 9_984, 16, loads=True)
