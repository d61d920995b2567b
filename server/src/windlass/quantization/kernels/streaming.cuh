// What kernels that stream weights share: barriers, copies by the tensor memory accelerator, sums that several blocks
// share, and the way of a tile's results to memory. Hopper only. Macros: BM, R, WG, STAGES as the kernels have them.

#define WORKERS (WG * 128)
#define TAKES_REGISTERS (R * BM >= 256 || (WG == 4 && BM >= 64))  // sums need more than an even share, see below
#define THREADS (WORKERS + (TAKES_REGISTERS ? 128 : 32))
#define BLOCK_N (WG * R * 64)
#define OUT_BYTES (BLOCK_N * 2 + 16)
#define TOKENS (BM % 64 ? BM : 64)  // rows of x whose results are in the room at once
#define ROOM_BYTES (TOKENS * OUT_BYTES)
#define PART (R * BM / 8 * WORKERS)  // float4 of one block's sums of a tile

struct __align__(64) TensorMap {
    char opaque[128];
};

__device__ __forceinline__ void init_barriers(u32 full, u32 empty) {
    for (int i = 0; i < STAGES; i++) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + i * 8) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty + i * 8), "r"(WG * 4) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
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

// Of a tile of W: the first of this warp's 16 rows in its r-th 64.
__device__ __forceinline__ int own_row(int r) { return ((threadIdx.x >> 7) * R + r) * 64 + (threadIdx.x >> 5 & 3) * 16; }

static_assert(!TAKES_REGISTERS || WG == 2 || (WG == 4 && R * BM < 256), "the registers that are taken must be there");
// With `TAKES_REGISTERS`, by threads of a group of 128: two groups that multiply and one that asks share 3 * 168, four and
// one 5 * 96, which is what the launch gives them. More than that would wait forever.
#if TAKES_REGISTERS && WG == 4
#define GIVEN "24"
#define TAKEN "112"
#else
#define GIVEN "40"
#define TAKEN "232"
#endif
__device__ __forceinline__ void give_registers() {
#if TAKES_REGISTERS
    asm volatile("setmaxnreg.dec.sync.aligned.u32 " GIVEN ";");
#endif
}

__device__ __forceinline__ void take_registers() {
#if TAKES_REGISTERS
    asm volatile("setmaxnreg.inc.sync.aligned.u32 " TAKEN ";");
#endif
}

__device__ __forceinline__ void workers_meet() { asm volatile("bar.sync 1, %0;" ::"n"(WORKERS) : "memory"); }

// Of bytes that are asked for once, or again for the next rows of x.
__device__ __forceinline__ u64 policy_of(bool once) {
    u64 policy;
    if (once)
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    else
        asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ void copy_box(u32 to, const TensorMap* from, int at, int row, u32 barrier, u64 policy) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(to), "l"(from), "r"(at), "r"(row), "r"(barrier), "l"(policy) : "memory");
}

// K-major, swizzled by 128 bytes, 1024 bytes from 8 rows to the next 8.
__device__ __forceinline__ u64 operand(u32 address) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}

// Sums are not read before the wait in front of this.
__device__ __forceinline__ void hold(float (&sums)[R][BM / 2]) {
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int i = 0; i < BM / 2; i++) asm volatile("" : "+f"(sums[r][i])::"memory");
}

// Of a tile that several blocks share: the last to arrive adds the parts in their order, the same bits every time, and
// gets true. `all` steps stand in a row, `steps` for each tile.
__device__ __forceinline__ bool add_parts(float (&sums)[R][BM / 2], float4* partial, int* arrived, int* is_last, int tile, int steps, u32 all) {
    auto part_of = [&](int block) { return partial + (u64)(block * 2 + (all * block / gridDim.x / steps != tile)) * PART + threadIdx.x; };
    const int from_block = ((u32)(tile * steps + 1) * gridDim.x - 1) / all;
    const int to_block = ((u32)(tile + 1) * steps * gridDim.x - 1) / all;
    float4* mine = part_of(blockIdx.x);
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
    if (!*is_last) return false;
    __threadfence();
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int i = 0; i < BM / 2; i++) sums[r][i] = 0;
    for (int block = from_block; block <= to_block; block++) {
        const float4* part = part_of(block);
#pragma unroll
        for (int i = 0; i < R * BM / 8; i++) {
            float4 more = __ldcg(part + i * WORKERS);
            float* d = sums[i / (BM / 8)] + i % (BM / 8) * 4;
            d[0] += more.x, d[1] += more.y, d[2] += more.z, d[3] += more.w;
        }
    }
    return true;
}

// A tile's results, of up to M rows of x, to memory: TOKENS rows at a time, turned in the room. `finish` makes a result
// of a sum, by its 64 rows of W, the half of a warp's 16 of them, and the row of x.
template <class Finish>
__device__ __forceinline__ void give(const float (&sums)[R][BM / 2], char* turned, unsigned short* out, int n0, int M, int N, Finish finish) {
    const u32 room = shared_address(turned);
    const int lane = threadIdx.x & 31, t = lane & 3;
#pragma unroll
    for (int from = 0; from < BM; from += TOKENS) {
        if (from >= M) break;
        workers_meet();  // the results before are out of the room
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int j = 0; j < TOKENS / 8; j += 2) {
                u32 packed[4];  // columns 8 j, rows g and g + 8; columns 8 j + 8, the same rows
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int place = j + i / 2, h = i & 1, token = from + place * 8 + t * 2;
                    const float* d = sums[r] + from / 2 + place * 4 + h * 2;
                    packed[i] = to_half(finish(d[0], r, h, token)) | (u32)to_half(finish(d[1], r, h, token + 1)) << 16;
                }
                // lane l names row l % 8 of matrix l / 8: matrices are (columns, half of the rows of W)
                const u32 to = room + (j * 8 + (lane >> 4) * 8 + (lane & 7)) * OUT_BYTES + (own_row(r) + (lane >> 3 & 1) * 8) * 2;
                asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};"
                             ::"r"(to), "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3]) : "memory");
            }
        workers_meet();
        for (int i = threadIdx.x; i < min(TOKENS, M - from) * (BLOCK_N / 8); i += WORKERS) {
            const int m = i / (BLOCK_N / 8), n = i % (BLOCK_N / 8) * 8;
            if (n0 + n < N) *(uint4*)(out + (u64)(from + m) * N + n0 + n) = *(const uint4*)(turned + m * OUT_BYTES + n * 2);
        }
    }
}
