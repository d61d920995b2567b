// out[M, N] = q[M, K] . W[N, K]^T with a scale for each row of both (+ bias): q and W E4M3, sums float32, on Hopper.
// For as many rows as one block serves, where the weights' way from memory is what takes the time.
//
// Compiled behind weights.cuh (BF16: bias and out are bfloat16), for sm_90a, with these macros:
//   BM      rows of q, at most: the n of wgmma, a multiple of 16
//   R       tiles of 64 rows of W that one warpgroup serves        WG  warpgroups that multiply
//   STAGES  stages of q and W in shared memory, 128 columns of K each
//   COLUMNS BM as a string; SUMS, A_AT, B_AT, ADDS the names of wgmma's operands; INOUT the constraints of its sums
//
// All tiles of W are one row of steps, and each block takes an even share of it (stream-K, Osama et al., 2023), so that
// no multiprocessor waits for another's last tile. A tile that two or more blocks share is added up by the last of them.
// One warp asks for bytes, the others multiply straight from shared memory: no weight passes a register. The weights of
// the first stages are asked for before the kernel in front, which makes q, has ended.
//
// tokens.cu lays q out as [K / 128][BM][128], each stage as wgmma wants it (swizzled by 128 bytes), so that one copy
// fetches it. Rows past M hold anything: columns of a product do not meet.

#define WORKERS (WG * 128)
#define BLOCK_N (WG * R * 64)
#define W_BYTES (BLOCK_N * 128)
#define Q_BYTES (BM * 128)
#define STAGE_BYTES (W_BYTES + Q_BYTES)
#define OUT_BYTES (BLOCK_N * 2 + 16)
#define PART (R * BM / 8 * WORKERS)  // float4 of one block's sums of a tile

struct __align__(64) TensorMap {
    char opaque[128];
};

__device__ __forceinline__ void wgmma(float (&d)[BM / 2], u64 a, u64 b, int adds) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADDS ", 0; wgmma.mma_async.sync.aligned.m64n" COLUMNS "k32.f32.e4m3.e4m3 {" SUMS "}, " A_AT ", " B_AT ", p, 1, 1; }"
                 : INOUT : "l"(a), "l"(b), "r"(adds));
}

__device__ __forceinline__ void store_transposed(u32 address, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d));
}

__device__ __forceinline__ void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void await(u32 barrier, u32 parity) {
    u32 done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

__device__ __forceinline__ void workers_meet() { asm volatile("bar.sync 1, %0;" ::"n"(WORKERS) : "memory"); }

// K-major, swizzled by 128 bytes, 1024 bytes from 8 rows to the next 8.
__device__ __forceinline__ u64 operand(u32 address) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}

// q and its scales are not __restrict__: they must not be read before the kernel that writes them is done.
extern "C" __global__ void __launch_bounds__(WORKERS + 32) stream_gemm(
    const __grid_constant__ TensorMap weights, const char* q, const float* token_scales,
    const float* __restrict__ scales, const unsigned short* __restrict__ bias, unsigned short* out, float4* partial,
    int* arrived, int M, int N, int K) {
    extern __shared__ __align__(1024) char shared[];
    char* const turned = shared + STAGES * STAGE_BYTES;
    const u32 base = shared_address(shared), room = shared_address(turned);
    const u32 full = room + BM * OUT_BYTES, empty = full + STAGES * 8;
    int* const is_last = (int*)(turned + BM * OUT_BYTES + STAGES * 16);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int steps = K / 128;
    const u32 all = (N + BLOCK_N - 1) / BLOCK_N * steps;  // at least as many as there are blocks
    const int begin = all * blockIdx.x / gridDim.x, end = all * (blockIdx.x + 1) / gridDim.x;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + i * 8) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty + i * 8), "r"(WG * 4) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("griddepcontrol.launch_dependents;");  // what is behind waits for the end of this by itself
    __syncthreads();

    if (warp == WG * 4) {  // asks for bytes
        if (lane) return;
        u64 once;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
        int step = begin % steps, row = begin / steps * BLOCK_N, q_step = step;
        auto load_weights = [&](int stage) {
            const u32 to = base + stage * STAGE_BYTES, barrier = full + stage * 8;
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(STAGE_BYTES) : "memory");
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
                         ::"r"(to), "l"(&weights), "r"(step * 128), "r"(row), "r"(barrier), "l"(once) : "memory");
            if (++step == steps) step = 0, row += BLOCK_N;
        };
        auto load_q = [&](int stage) {
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         ::"r"(base + stage * STAGE_BYTES + W_BYTES), "l"(q + (u64)q_step * Q_BYTES), "r"(Q_BYTES), "r"(full + stage * 8) : "memory");
            if (++q_step == steps) q_step = 0;
        };
        const int early = min(STAGES, end - begin);
        for (int i = 0; i < early; i++) load_weights(i);
        asm volatile("griddepcontrol.wait;" ::: "memory");
        for (int i = 0; i < early; i++) load_q(i);
        for (int i = early, stage = 0, parity = 0; i < end - begin; i++) {
            await(empty + stage * 8, parity);
            load_weights(stage), load_q(stage);
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        return;
    }

    asm volatile("griddepcontrol.wait;" ::: "memory");  // nothing is written before what is in front has ended
    const int own_row = (warp >> 2) * R * 64;  // of a tile of W
    float sums[R][BM / 2];
    int stage = 0, parity = 0;
#pragma unroll 1
    for (int at = begin, count; at < end; at += count) {
        const int tile = at / steps, first = at - tile * steps;
        count = min(steps - first, end - at);
        u32 before = 0;
#pragma unroll 1
        for (int step = 0; step < count; step++) {
            await(full + stage * 8, parity);
            const u32 from = base + stage * STAGE_BYTES;
            const u64 a = operand(from + own_row * 128), b = operand(from + W_BYTES);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int s = 0; s < 4; s++)
#pragma unroll
                for (int r = 0; r < R; r++) wgmma(sums[r], a + r * 512 + 2 * s, b + 2 * s, step | s);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            if (step) {
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (!lane) arrive(before);
            }
            before = empty + stage * 8;
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (!lane) arrive(before);
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int i = 0; i < BM / 2; i++) asm volatile("" : "+f"(sums[r][i])::"memory");  // not read before the wait

        if (count < steps) {  // the last block to arrive adds the parts in their order: the same bits every time
            auto part_of = [&](int block) { return partial + (u64)(block * 2 + (all * block / gridDim.x / steps != tile)) * PART; };
            const int from_block = ((u32)(tile * steps + 1) * gridDim.x - 1) / all;
            const int to_block = ((u32)(tile + 1) * steps * gridDim.x - 1) / all;
            float4* mine = part_of(blockIdx.x) + threadIdx.x;
#pragma unroll
            for (int i = 0; i < R * BM / 8; i++) {
                const float* d = sums[i / (BM / 8)] + i % (BM / 8) * 4;
                __stcg(mine + i * WORKERS, make_float4(d[0], d[1], d[2], d[3]));
            }
            __threadfence();
            workers_meet();
            if (threadIdx.x == 0) {
                *is_last = atomicAdd(arrived + tile, 1) == to_block - from_block;
                if (*is_last) arrived[tile] = 0;
            }
            workers_meet();
            if (!*is_last) continue;
            __threadfence();
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int i = 0; i < BM / 2; i++) sums[r][i] = 0;
            for (int block = from_block; block <= to_block; block++) {
                const float4* part = part_of(block) + threadIdx.x;
#pragma unroll
                for (int i = 0; i < R * BM / 8; i++) {
                    float4 more = __ldcg(part + i * WORKERS);
                    float* d = sums[i / (BM / 8)] + i % (BM / 8) * 4;
                    d[0] += more.x, d[1] += more.y, d[2] += more.z, d[3] += more.w;
                }
            }
        }

        workers_meet();  // the results of the tile before are out of the room
        const int n0 = tile * BLOCK_N;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const int column = own_row + r * 64 + (warp & 3) * 16;
            float scale[2] = {0, 0}, add[2] = {0, 0};
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (n0 + column + g + h * 8 < N) {
                    scale[h] = scales[n0 + column + g + h * 8];
                    if (bias) add[h] = to_float(bias[n0 + column + g + h * 8]);
                }
#pragma unroll
            for (int j = 0; j < BM / 8; j += 2) {
                u32 packed[4];  // columns 8 j, rows g and g + 8; columns 8 j + 8, the same rows
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int place = j + i / 2, h = i & 1, token = place * 8 + t * 2;
                    const float* d = sums[r] + place * 4 + h * 2;
                    const float low = token < M ? token_scales[token] : 0, high = token + 1 < M ? token_scales[token + 1] : 0;
                    packed[i] = to_half(d[0] * scale[h] * low + add[h]) | (u32)to_half(d[1] * scale[h] * high + add[h]) << 16;
                }
                // lane l names row l % 8 of matrix l / 8: matrices are (columns, half of the rows of W)
                u32 to = room + (j * 8 + (lane >> 4) * 8 + (lane & 7)) * OUT_BYTES + (column + (lane >> 3 & 1) * 8) * 2;
                store_transposed(to, packed[0], packed[1], packed[2], packed[3]);
            }
        }
        workers_meet();
        for (int i = threadIdx.x; i < M * (BLOCK_N / 8); i += WORKERS) {
            int m = i / (BLOCK_N / 8), n = i % (BLOCK_N / 8) * 8;
            if (n0 + n < N) *(uint4*)(out + (u64)m * N + n0 + n) = *(const uint4*)(turned + m * OUT_BYTES + n * 2);
        }
    }
}
