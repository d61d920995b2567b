// Activations as E4M3 with a float32 scale for each row (token): q[M, K], scales[M] of x[M, K].
//
// Compiled behind weights.cuh (BF16: x is bfloat16) with these macros:
//   VECTORS  of 8 numbers that a thread holds; a block is a row, and has threads enough for all of it
//   AHEAD    set: launched before the kernel in front has ended, on Hopper; so may be the one behind
//   TILED    rows of a stage: q is [K / 128][TILED][128], in each the 16 bytes at place p of row m at p ^ m % 8
//
// The numbers are those of the engine's own kernel: the scale is the largest magnitude / 448, not less than
// 1 / (448 * 512), and a number is divided by it and rounded to the nearest.

// The magnitudes of the larger of four pairs: their bits ascend as they do.
__device__ __forceinline__ u32 largest_of(uint4 held) {
    u32 first = __vmaxu2(held.x & 0x7fff7fff, held.y & 0x7fff7fff);
    return __vmaxu2(first, __vmaxu2(held.z & 0x7fff7fff, held.w & 0x7fff7fff));
}

__device__ __forceinline__ float scale_of(u32 largest) {
    return fmaxf(to_float(largest) / 448.0f, 1.0f / (448.0f * 512.0f));
}

__device__ __forceinline__ u32 narrowed_pair(u32 pair, float scale) {
    unsigned short two;
    float first = to_float(pair & 0xffff) / scale, second = to_float(pair >> 16) / scale;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(second), "f"(first));
    return two;
}

__device__ __forceinline__ uint2 narrowed(uint4 held, float scale) {
    return make_uint2(narrowed_pair(held.x, scale) | narrowed_pair(held.y, scale) << 16,
                      narrowed_pair(held.z, scale) | narrowed_pair(held.w, scale) << 16);
}

// x is not __restrict__: it must not be read before the kernel that writes it is done.
extern "C" __global__ void __launch_bounds__(1024) quantize_tokens(const uint4* x, uint2* __restrict__ q,
                                                                   float* __restrict__ scales, int count) {
    __shared__ u32 largest[32];
    uint4 held[VECTORS];
    const u64 at = (u64)blockIdx.x * count;
#ifdef AHEAD
    asm volatile("griddepcontrol.launch_dependents;");  // the product behind reads weights until all of this is done
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    u32 most = 0;
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        int place = i * blockDim.x + threadIdx.x;
        held[i] = place < count ? x[at + place] : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        most = __vmaxu2(most, largest_of(held[i]));
    }
    most = __reduce_max_sync(~0u, max(most & 0xffff, most >> 16));
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = most;
    __syncthreads();
    most = threadIdx.x % 32 < blockDim.x / 32 ? largest[threadIdx.x % 32] : 0;
    const float scale = scale_of(__reduce_max_sync(~0u, most));
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        int place = i * blockDim.x + threadIdx.x;
        if (place >= count) continue;
#ifdef TILED
        const u64 to = ((u64)(place / 16) * TILED + blockIdx.x) * 16 + (place % 16 ^ (blockIdx.x & 7) * 2);
#else
        const u64 to = at + place;
#endif
        q[to] = narrowed(held[i], scale);
    }
}
