"""The order in which `weights.cuh` and `few.cu` read FP8 makes a product of whole rows: lane by lane, as PTX has it."""

K, ROW_BYTES = 64, 64 * 2 + 16  # a block of columns; of x in shared memory, with the padding of few.cu
LANES = [(lane >> 2, lane & 3) for lane in range(32)]
# of mma.m16n8k16, by register and half: (row, k) of operand A, (k, column) of operand B, (row, column) of the sums
A = [[(g + 8 * (r & 1), 2 * t + half + 8 * (r >> 1)) for r in range(4) for half in (0, 1)] for g, t in LANES]
B = [[(2 * t + half + 8 * r, g) for r in (0, 1) for half in (0, 1)] for g, t in LANES]
SUMS = [[(g + 8 * h, 2 * t + c) for h in (0, 1) for c in (0, 1)] for g, t in LANES]


def held(w, g, t, s):
    """What a lane has for operand A of product s: `fragment` in weights.cuh, a byte being a weight."""
    upper, lower = (w[row][16 * t + 4 * s : 16 * t + 4 * s + 4] for row in (g, g + 8))
    return [*upper[:2], *lower[:2], *upper[2:], *lower[2:]]


def loaded(x, g, t, s):
    """And for operand B: 16 bytes of shared memory for two products, OWN_X and HALF in few.cu."""
    address = g * ROW_BYTES + t * 32 + (s >> 1) * 16
    row, column = address // ROW_BYTES, address % ROW_BYTES // 2
    return x[row][column : column + 8][4 * (s & 1) :][:4]


def test_four_products_are_the_product_of_a_block():
    w = [[(17 * row + 5 * k * k + 3 * row * k) % 23 - 11 for k in range(K)] for row in range(16)]
    x = [[(13 * row + 7 * k * k + 2 * row * k) % 19 - 9 for k in range(K)] for row in range(8)]
    sums = [[0] * 8 for _ in range(16)]
    for s in range(4):
        a, b = {}, {}
        for lane, (g, t) in enumerate(LANES):
            a |= zip(A[lane], held(w, g, t, s), strict=True)
            b |= zip(B[lane], loaded(x, g, t, s), strict=True)
        assert (len(a), len(b)) == (16 * 16, 16 * 8)
        for row, column in (place for lane in SUMS for place in lane):
            sums[row][column] += sum(a[row, k] * b[k, column] for k in range(16))
    assert sums == [[sum(map(int.__mul__, row, other)) for other in x] for row in w]


def test_lanes_that_load_together_meet_in_no_bank():
    """A quarter of a warp loads 16 bytes each at once: all eight units of the banks, whatever the row's length."""
    for blocks in (1, 2, 4, 8, 16, 32):
        row_bytes = blocks * 128 + 16
        for quarter in range(4):
            units = {(g * row_bytes + t * 32) // 16 % 8 for g, t in LANES[8 * quarter : 8 * quarter + 8]}
            assert len(units) == 8
