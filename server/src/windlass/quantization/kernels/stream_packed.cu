// out[M, N] = x[M, K] . dequantize(W)[N, K]^T (+ bias) on Hopper: x, out, bias float16, W packed NF4 or INT8, sums float32.
// With few rows the weights' way from memory takes the time, with many the products do.
//
// Compiled behind weights.cuh and streaming.cuh, for sm_90a, with these macros:
//   BM      rows of x that one block serves: the n of wgmma, a multiple of 16
//   R       tiles of 64 rows of W that one warpgroup serves        WG  warpgroups that multiply; WG * R at most 4
//   KB      blocks of 64 columns of a stage, from 2 on             STAGES  stages of x and W in shared memory
//   IN_FLIGHT  products under way while the fragments of the next are made: 2 or 4
//   COLUMNS BM as a string; SUMS, FRAGMENT, B_AT, ADDS the names of wgmma's operands; INOUT the constraints of its sums
//
// As stream.cu, but weights are operand A from registers: what a warp reads of its tile of 16 x 64 are its fragments.
// Words are read a block before they are needed, pairs looked up a product before, and made float16 while the products
// before run. x is fetched as it is, swizzled on the way.

#define TILES (BLOCK_N / 16)
#define TILE_BYTES (KB * 512 * WORDS)
#define SCALE_BYTES (BITS == 4 ? KB * 32 : 0)
#define X_BYTES (KB * BM * 128)
#define FILLED_BYTES (X_BYTES + TILES * (TILE_BYTES + SCALE_BYTES))
#define STAGE_BYTES ((FILLED_BYTES + 1023) / 1024 * 1024)
#define PRODUCTS (KB * 4)  // of a stage, 16 columns each
#define BOX_BLOCKS (KB * WORDS <= 4 ? KB : 4 / WORDS)  // of 64 columns of W that come at once, of all tiles
#define BOX_BYTES (BOX_BLOCKS * 512 * WORDS)

static_assert(KB >= 2 && KB % BOX_BLOCKS == 0, "a stage is whole boxes, and words are read two blocks ahead");
static_assert(IN_FLIGHT == 2 || IN_FLIGHT == 4, "fragments lie at i % IN_FLIGHT, and a stage is KB * 4 products");
static_assert(TILES <= 16, "one block of a tile's rows");

__device__ __forceinline__ void wgmma(float (&d)[BM / 2], const u32 (&a)[4], u64 b, int adds) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADDS ", 0; wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32.f16.f16 {" SUMS "}, {" FRAGMENT "}, " B_AT ", p, 1, 1, 0; }"
                 : INOUT : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) stream_packed(
    const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap weights,
    const __grid_constant__ TensorMap scale_boxes, const char* __restrict__ scales, const unsigned short* __restrict__ bias,
    unsigned short* out, float4* partial, int* arrived, int M, int N, int K) {
    extern __shared__ __align__(1024) char shared[];
    char* const turned = shared + STAGES * STAGE_BYTES + TABLE_BYTES;
    const u32 base = shared_address(shared);
    const u32 full = shared_address(turned) + ROOM_BYTES, empty = full + STAGES * 8;
    int* const is_last = (int*)(turned + ROOM_BYTES + STAGES * 16);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int blocks = K / 64, steps = blocks / KB;
    const int across = (M + BM - 1) / BM;  // tiles of x; those of the same W stand side by side
    const u32 all = (N + BLOCK_N - 1) / BLOCK_N * across * steps;  // at least as many as there are blocks
    const int begin = all * blockIdx.x / gridDim.x, end = all * (blockIdx.x + 1) / gridDim.x;

    if (threadIdx.x == 0) init_barriers(full, empty);
    asm volatile("griddepcontrol.launch_dependents;");  // what is behind waits for the end of this by itself
    __syncthreads();

    if (warp >= WG * 4) {  // asks for bytes, in few and large boxes: each takes a hundred cycles, however small it is
        give_registers();
        if (warp > WG * 4 || lane) return;
        const u64 once = policy_of(across == 1);
        int step = begin % steps, tile = begin / steps, x_step = step, x_tile = tile % across;
        auto load_weights = [&](int stage) {
            const u32 barrier = full + stage * 8, to = base + stage * STAGE_BYTES + X_BYTES;
            const int row = tile / across * TILES;
            expect(barrier, FILLED_BYTES);
#pragma unroll
            for (int i = 0; i < KB / BOX_BLOCKS; i++)
                copy_box(to + i * TILES * BOX_BYTES, &weights, (step * (KB / BOX_BLOCKS) + i) * (BOX_BYTES / 8), row, barrier, once);
            if (BITS == 4) copy_box(to + TILES * TILE_BYTES, &scale_boxes, step * (SCALE_BYTES / 8), row, barrier, once);
            if (++step == steps) step = 0, tile++;
        };
        auto load_x = [&](int stage) {
            asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                         ::"r"(base + stage * STAGE_BYTES), "l"(&x), "r"(0), "r"(x_tile * BM), "r"(x_step * KB), "r"(full + stage * 8) : "memory");
            if (++x_step == steps) x_step = 0, x_tile = x_tile + 1 == across ? 0 : x_tile + 1;
        };
        const int early = min(STAGES, end - begin);
        for (int i = 0; i < early; i++) load_weights(i);
        asm volatile("griddepcontrol.wait;" ::: "memory");
        for (int i = 0; i < early; i++) load_x(i);
        for (int i = early, stage = 0, parity = 0; i < end - begin; i++) {
            await(empty + stage * 8, parity);
            load_weights(stage), load_x(stage);
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        return;
    }

    take_registers();
#if BITS == 4
    fill_table(shared + STAGES * STAGE_BYTES, WORKERS);
    workers_meet();
#endif
    asm volatile("griddepcontrol.wait;" ::: "memory");  // nothing is written before what is in front has ended
    Table table{base + STAGES * STAGE_BYTES, (u32)lane * 4};
    asm volatile("" : "+r"(table.own)::"memory");  // it is not read before the barrier
    const int first_tile = (warp >> 2) * R * 4 + (warp & 3);  // of 16 rows, in a block's; the next is 4 further
    auto read = [&](Tile (&tiles)[R], u32 from, int block) {
#pragma unroll
        for (int r = 0; r < R; r++) {
            const u32 box_at = from + X_BYTES + block / BOX_BLOCKS * (TILES * BOX_BYTES) + (first_tile + r * 4) * BOX_BYTES;
            const u32 weights_at = box_at + block % BOX_BLOCKS * (512 * WORDS) + lane * 16;
#pragma unroll
            for (int i = 0; i < WORDS; i++) tiles[r].words[i] = load_shared(weights_at + i * 512);
            const u32 scales_at = from + X_BYTES + TILES * TILE_BYTES + (first_tile + r * 4) * SCALE_BYTES;
            if (BITS == 4) tiles[r].scales = load_table(scales_at + block * 32 + (lane >> 2) * 4);
        }
    };
    float sums[R][BM / 2];
    u32 a[IN_FLIGHT][R][4], pairs[R][4];
    Tile now[R], next[R];
    int stage = 0, parity = 0;
    auto advance = [&] {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    };
#pragma unroll 1
    for (int at = begin, count; at < end; at += count) {
        const int tile = at / steps, first = at - tile * steps;
        count = min(steps - first, end - at);
        u32 from = base + stage * STAGE_BYTES, before = 0;
        await(full + stage * 8, parity);
        read(now, from, 0), read(next, from, 1);
#pragma unroll
        for (int r = 0; r < R; r++) look_up(pairs[r], now[r], 0, table);
#pragma unroll 1
        for (int step = 0; step < count; step++) {
            const u64 b = operand(from);
            const u32 own = empty + stage * 8;
#pragma unroll
            for (int i = 0; i < PRODUCTS; i++) {
                asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(IN_FLIGHT - 1) : "memory");
                if (i == IN_FLIGHT - 1 && step && !lane) arrive(before);
#pragma unroll
                for (int r = 0; r < R; r++) finish(a[i % IN_FLIGHT][r], pairs[r], now[r], i & 3);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int r = 0; r < R; r++) wgmma(sums[r], a[i % IN_FLIGHT][r], b + (i / 4) * (BM * 8) + (i & 3) * 2, step | i);
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                if ((i & 3) == 3) {
                    const int block = (i / 4 + 2) % KB;  // two ahead
#pragma unroll
                    for (int r = 0; r < R; r++) now[r] = next[r];
                    if (block == 0 && step + 1 < count) {  // else nothing of what is read then is used
                        advance();
                        await(full + stage * 8, parity);
                        from = base + stage * STAGE_BYTES;
                    }
                    read(next, from, block);
                }
#pragma unroll
                for (int r = 0; r < R; r++) look_up(pairs[r], now[r], (i + 1) & 3, table);
            }
            before = own;
        }
        advance();
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (!lane) arrive(before);
        hold(sums);
        if (count < steps && !add_parts(sums, partial, arrived, is_last, tile, steps, all)) continue;
        const int n0 = tile / across * BLOCK_N, m0 = tile % across * BM;
        float scale[R][2] = {}, add[R][2] = {};
#pragma unroll
        for (int i = 0; i < 2 * R; i++) {
            const int r = i / 2, h = i & 1, row = n0 + own_row(r) + (lane >> 2) + h * 8;
            if (row >= N) continue;
            scale[r][h] = BITS == 8 ? ((const float*)scales)[row] : 1;
            if (bias) add[r][h] = to_float(bias[row]);
        }
        give(sums, turned, out + (u64)m0 * N, n0, M - m0, N, [&](float d, int r, int h, int) { return d * scale[r][h] + add[r][h]; });
    }
}
