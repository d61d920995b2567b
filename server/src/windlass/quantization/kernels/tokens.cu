// Activations as E4M3 with a float32 scale for each row (token): q[M, K], scales[M] of x[M, K].
//
// Compiled behind weights.cuh (BF16: x is bfloat16) with these macros:
//   VECTORS  of 8 numbers that a thread holds; a block is a row, and has threads enough for all of it
//   AHEAD    set: launched before the kernel in front has ended, on Hopper
//
// The numbers are those of the engine's own kernel: the scale is the largest magnitude / 448, not less than
// 1 / (448 * 512), and a number is divided by it and rounded to the nearest.

__device__ __forceinline__ u32 narrowed(u32 pair, float scale) {
    unsigned short two;
    float first = to_float(pair & 0xffff) / scale, second = to_float(pair >> 16) / scale;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(second), "f"(first));
    return two;
}

// x is not __restrict__: it must not be read before the kernel that writes it is done.
extern "C" __global__ void __launch_bounds__(1024) quantize_tokens(const uint4* x, uint2* __restrict__ q,
                                                                   float* __restrict__ scales, int count) {
    __shared__ u32 largest[32];
    uint4 held[VECTORS];
    const u64 at = (u64)blockIdx.x * count;
#ifdef AHEAD
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    u32 most = 0;  // magnitudes of two numbers: their bits ascend as they do
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        int place = i * blockDim.x + threadIdx.x;
        held[i] = place < count ? x[at + place] : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        u32 first = __vmaxu2(held[i].x & 0x7fff7fff, held[i].y & 0x7fff7fff);
        most = __vmaxu2(most, __vmaxu2(first, __vmaxu2(held[i].z & 0x7fff7fff, held[i].w & 0x7fff7fff)));
    }
    most = __reduce_max_sync(~0u, max(most & 0xffff, most >> 16));
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = most;
    __syncthreads();
    most = threadIdx.x % 32 < blockDim.x / 32 ? largest[threadIdx.x % 32] : 0;
    const float scale = fmaxf(to_float(__reduce_max_sync(~0u, most)) / 448.0f, 1.0f / (448.0f * 512.0f));
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        int place = i * blockDim.x + threadIdx.x;
        if (place >= count) continue;
        q[at + place] = make_uint2(narrowed(held[i].x, scale) | narrowed(held[i].y, scale) << 16,
                                   narrowed(held[i].z, scale) | narrowed(held[i].w, scale) << 16);
    }
}
