// out[M, N] = x[M, K] . dequantize(W)[N, K]^T (+ bias), for many rows, on Hopper: x, out, bias float16, sums float32.
//
// Compiled behind weights.cuh, for sm_90a, with these macros:
//   BM      rows of x that one block serves: the n of wgmma, a multiple of 16
//   R       tiles of 64 rows of W that one warpgroup serves        WG  warpgroups, along N
//   STAGES  stages of x and W in shared memory, at least 4
//   IN_FLIGHT  products under way while fragments are made: 1 or 2
//   COLUMNS BM as a string; SUMS, FRAGMENT, DESCRIPTOR the names of wgmma's operands; INOUT the constraints of its sums
//
// Weights are operand A of wgmma from registers, so that one conversion serves BM rows; x is operand B from shared
// memory with the 128-byte swizzle. While one product runs, the fragments of the next are made. Weights wait in shared
// memory too, where a thread reads only what it copied itself: so that enough bytes are under way when rows are few.

#define THREADS (WG * 128)
#define BLOCK_N (WG * R * 64)
#define X_BYTES (BM * 128)
#define LANE_BYTES (16 * WORDS)  // of a tile's weights; 4 more of its scales
#define TILE_BYTES (32 * LANE_BYTES + (BITS == 4 ? 128 : 0))
#define STAGE_BYTES (X_BYTES + (BLOCK_N / 16 * TILE_BYTES + 1023) / 1024 * 1024)
#define CHUNKS ((BM * 8 + THREADS - 1) / THREADS)  // of 16 bytes that a thread copies of x
#define OUT_BYTES (BLOCK_N * 2 + 16)

__device__ __forceinline__ void wgmma(float (&d)[BM / 2], const u32 (&a)[4], u64 b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32.f16.f16 {" SUMS "}, {" FRAGMENT "}, " DESCRIPTOR ", p, 1, 1, 0; }"
                 : INOUT : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ __forceinline__ void store_transposed(u32 address, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d));
}

extern "C" __global__ void __launch_bounds__(THREADS) wide_gemm(
    const unsigned short* __restrict__ x, const uint4* __restrict__ weights, const void* __restrict__ scales,
    const unsigned short* __restrict__ bias, unsigned short* __restrict__ out, float4* __restrict__ partial,
    int* __restrict__ arrived, int M, int N, int K, int splits) {
    extern __shared__ __align__(1024) char shared[];
    char* const table_room = shared + STAGES * STAGE_BYTES;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2;
    const int blocks = K / 64, tiles = N / 16;
    const int first_step = (int)((long long)blocks * blockIdx.z / splits);
    const int last_step = (int)((long long)blocks * (blockIdx.z + 1) / splits);
    const int m0 = blockIdx.x * BM, n0 = blockIdx.y * BLOCK_N;
    // the warps of a warpgroup hold 16 rows each of its tiles of 64
    const int tile0 = n0 / 16 + (warp >> 2) * R * 4 + (warp & 3);

    // Rows past the end of x or W are read as the last one: what they add to is never stored.
    const uint4* weights_at[R];
    const u32* scales_at[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        u64 at = (u64)min(tile0 + r * 4, tiles - 1) * blocks;
        weights_at[r] = weights + at * WORDS * 32 + lane;
        scales_at[r] = (const u32*)scales + at * 8 + g;
    }
    u32 rows[CHUNKS];  // where the rows that this thread copies begin
#pragma unroll
    for (int j = 0; j < CHUNKS; j++) rows[j] = (u32)min(m0 + j * (THREADS / 8) + (int)(threadIdx.x >> 3), M - 1) * (u32)K;
    const u32 own_x = (threadIdx.x >> 3) * 128 + (((threadIdx.x & 7) ^ (threadIdx.x >> 3 & 7)) << 4);
    const u32 own_tile = X_BYTES + ((warp >> 2) * R * 4 + (warp & 3)) * TILE_BYTES;
    const u32 base = shared_address(shared);

    auto load = [&](int step, u32 stage) {
        if (step < last_step) {
#pragma unroll
            for (int r = 0; r < R; r++) {
                u32 to = stage + own_tile + r * 4 * TILE_BYTES;
#pragma unroll
                for (int i = 0; i < WORDS; i++)
                    copy_async(to + (i * 32 + lane) * 16, weights_at[r] + (step * WORDS + i) * 32, true);
                if (BITS == 4)
                    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to + 512 + lane * 4), "l"(scales_at[r] + step * 8));
            }
            const unsigned short* from = x + step * 64 + (threadIdx.x & 7) * 8;
#pragma unroll
            for (int j = 0; j < CHUNKS; j++) {
                if (BM * 8 % THREADS && j * (THREADS / 8) + (threadIdx.x >> 3) >= BM) break;
                copy_async(stage + own_x + j * (THREADS * 16), from + rows[j], true);
            }
        }
        asm volatile("cp.async.commit_group;");
    };
    auto read = [&](Tile (&to)[R], u32 stage) {
#pragma unroll
        for (int r = 0; r < R; r++) {
            u32 from = stage + own_tile + r * 4 * TILE_BYTES;
#pragma unroll
            for (int i = 0; i < WORDS; i++) to[r].words[i] = load_shared(from + (i * 32 + lane) * 16);
            to[r].scales = BITS == 4 ? load_table(from + 512 + lane * 4) : 0;
        }
    };
    auto after = [&](u32 stage) { return stage + STAGE_BYTES == base + STAGES * STAGE_BYTES ? base : stage + STAGE_BYTES; };

    u32 stage = base, filled = base;  // what is multiplied, and what is filled next
    for (int i = 0; i < STAGES - 2; i++, filled = after(filled)) load(first_step + i, filled);
#if BITS == 4
    fill_table(table_room);
#endif
    Table table{shared_address(table_room), (u32)lane * 4};
    float sums[R][BM / 2];
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int i = 0; i < BM / 2; i++) sums[r][i] = 0;
    Tile now[R];
    u32 a[R][4];
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 3) : "memory");
    __syncthreads();
    asm volatile("" : "+r"(table.own)::"memory");  // the table is not read before the barrier
    read(now, stage);
#pragma unroll
    for (int r = 0; r < R; r++) fragment(a[r], now[r], 0, table);

#pragma unroll 1
    for (int step = first_step; step < last_step; step++) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        // K-major, swizzled by 128 bytes, 1024 bytes from 8 rows to the next 8
        u64 b = (u64)((stage & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
#pragma unroll
        for (int s = 0; s < 4; s++) {
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int r = 0; r < R; r++) wgmma(sums[r], a[r], b + 2 * s);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            if (s == 0) {
                load(step + STAGES - 2, filled);
                filled = after(filled);
            }
            if (s == 3) {
                asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 3) : "memory");
                stage = after(stage);
                read(now, stage);  // of no use after the last step
            }
            asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(IN_FLIGHT) : "memory");
#pragma unroll
            for (int r = 0; r < R; r++) fragment(a[r], now[r], (s + 1) & 3, table);
        }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    asm volatile("cp.async.wait_group 0;");

    if (splits > 1) {  // the last block to arrive adds the parts in their order: the same bits every time
        u64 group = (u64)blockIdx.y * gridDim.x + blockIdx.x;
        float4* parts = partial + group * splits * (R * BM / 8 * THREADS) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < R * BM / 8; i++) {
            const float* d = sums[i / (BM / 8)] + i % (BM / 8) * 4;
            parts[((u64)blockIdx.z * (R * BM / 8) + i) * THREADS] = make_float4(d[0], d[1], d[2], d[3]);
        }
        __threadfence();
        __syncthreads();
        int* last = (int*)shared;  // the stages are done with
        if (threadIdx.x == 0) {
            *last = atomicAdd(arrived + group, 1) == splits - 1;
            if (*last) arrived[group] = 0;
        }
        __syncthreads();
        if (!*last) return;
        __threadfence();
#pragma unroll
        for (int i = 0; i < R * BM / 8; i++) {
            float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
            for (int s = 0; s < splits; s++) {
                float4 part = __ldcg(parts + ((u64)s * (R * BM / 8) + i) * THREADS);
                sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
            }
            float* d = sums[i / (BM / 8)] + i % (BM / 8) * 4;
            d[0] = sum.x, d[1] = sum.y, d[2] = sum.z, d[3] = sum.w;
        }
    }

    __syncthreads();  // the stages become the room in which out is turned
#pragma unroll
    for (int r = 0; r < R; r++) {
        int row = (tile0 + r * 4) * 16 + g, column = (tile0 + r * 4) * 16 - n0;
        float scale[2] = {1, 1}, add[2] = {0, 0};
#pragma unroll
        for (int h = 0; h < 2; h++)
            if (row + h * 8 < N) {
                if (BITS == 8) scale[h] = ((const float*)scales)[row + h * 8];
                if (bias) add[h] = to_float(bias[row + h * 8]);
            }
#pragma unroll
        for (int j = 0; j < BM / 8; j += 2) {
            u32 packed[4];  // columns 8 j, rows g and g + 8; columns 8 j + 8, the same rows
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float* d = sums[r] + (j + i / 2) * 4 + (i & 1) * 2;
                float scaled[2] = {d[0] * scale[i & 1] + add[i & 1], d[1] * scale[i & 1] + add[i & 1]};
                packed[i] = to_half(scaled[0]) | (u32)to_half(scaled[1]) << 16;
            }
            // lane l names row l % 8 of matrix l / 8: matrices are (columns, half of the rows of W)
            u32 to = shared_address(shared) + (j * 8 + (lane >> 4) * 8 + (lane & 7)) * OUT_BYTES + (column + (lane >> 3 & 1) * 8) * 2;
            store_transposed(to, packed[0], packed[1], packed[2], packed[3]);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * (BLOCK_N / 8); i += THREADS) {
        int m = i / (BLOCK_N / 8), n = i % (BLOCK_N / 8) * 8;
        if (m0 + m < M && n0 + n < N)
            *(uint4*)(out + (u64)(m0 + m) * N + n0 + n) = *(const uint4*)(shared + m * OUT_BYTES + n * 2);
    }
}
