// What a product with FP8 weights takes, by rows (tokens): E4M3 q[M, K] with a float32 scale for each row, or WHOLE,
// numbers as they are. What is in front of the product in a model goes with it, so that x is neither written nor read
// in between.
//
// Compiled behind weights.cuh (BF16: x, residual, gain and whole numbers are bfloat16) with these macros:
//   VECTORS  of 8 numbers that a thread holds; a block is a row, and has threads enough for all of it (CLUSTER: or a
//   part;
//            with SILU and WHOLE too, which look at nothing else of the row)
//   NORM     set: x [M, K] is divided by its root mean square and multiplied by gain [K]
//   ADDS     with NORM: residual [M, K] is added first, and the sum written to total
//   SILU     set: of x [M, 2 K] the first half goes through SiLU and is multiplied by the second
//   WHOLE    set: nothing is quantized
//   CLUSTER  set: so many blocks share a row; on Hopper and later, not with NORM
//   TILED    rows of a stage: q is [K / 128][TILED][128], in each the 16 bytes at place p of row m at p ^ m % 8
//   AHEAD    set: launched before the kernel in front has ended, on Hopper and later; so may be the one behind
//
// Reckoned in float32 and rounded to x's type. The quantized numbers are those of the engine's own kernel: the scale is
// the largest magnitude / 448, not less than 1 / (448 * 512), and a number is divided by it and rounded to the nearest.

// The magnitudes of the larger of four pairs: their bits ascend as they do.
__device__ __forceinline__ u32 largest_of(uint4 held) {
  u32 first = __vmaxu2(held.x & 0x7fff7fff, held.y & 0x7fff7fff);
  return __vmaxu2(first, __vmaxu2(held.z & 0x7fff7fff, held.w & 0x7fff7fff));
}

__device__ __forceinline__ u32 narrowed(u32 pair, float scale) {
  unsigned short two;
  float first = to_float(pair & 0xffff) / scale, second = to_float(pair >> 16) / scale;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(second), "f"(first));
  return two;
}

__device__ __forceinline__ void widen(float (&to)[8], uint4 held) {
  const u32 pairs[4] = {held.x, held.y, held.z, held.w};
#pragma unroll
  for (int i = 0; i < 8; i++) to[i] = to_float(i & 1 ? pairs[i / 2] >> 16 : pairs[i / 2] & 0xffff);
}

__device__ __forceinline__ uint4 rounded(const float (&from)[8]) {
  u32 pairs[4];
#pragma unroll
  for (int i = 0; i < 4; i++) pairs[i] = to_half(from[2 * i]) | (u32)to_half(from[2 * i + 1]) << 16;
  return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

#ifdef NORM
// Of all threads of the block.
__device__ __forceinline__ float sum_of(float mine) {
  __shared__ float parts[32];
#pragma unroll
  for (int other = 16; other; other /= 2) mine += __shfl_xor_sync(~0u, mine, other);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : 0;
#pragma unroll
  for (int other = 16; other; other /= 2) mine += __shfl_xor_sync(~0u, mine, other);
  return mine;
}
#endif

#ifdef CLUSTER
// Of all blocks that share the row; one warp is enough.
__device__ __forceinline__ u32 largest_of_cluster(u32 mine) {
  __shared__ u32 of_block;
  const u32 lane = threadIdx.x % 32;
  if (threadIdx.x == 0) of_block = mine;
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
  u32 other = 0;
  if (lane < CLUSTER)
    asm volatile("{ .reg .u32 at; mapa.shared::cluster.u32 at, %1, %2; ld.shared::cluster.u32 %0, [at]; }"
                 : "=r"(other)
                 : "r"(shared_address(&of_block)), "r"(lane)
                 : "memory");
  return __reduce_max_sync(~0u, other);
}
#endif

// What is read is not __restrict__: it must not be read before the kernel that writes it is done.
extern "C" __global__ void __launch_bounds__(1024)
#ifdef CLUSTER
    __cluster_dims__(1, CLUSTER, 1)
#endif
        quantize_tokens(const uint4* x, void* out, float* __restrict__ scales, const uint4* residual, uint4* total,
                        const uint4* gain, int count, float epsilon) {
  uint4 held[VECTORS];
  const u64 at = (u64)blockIdx.x * count;
#ifdef AHEAD
  asm volatile("griddepcontrol.launch_dependents;");  // the product behind reads weights until all of this is done
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  auto place_of = [&](int i) { return (i * (int)gridDim.y + (int)blockIdx.y) * (int)blockDim.x + (int)threadIdx.x; };
#ifdef NORM
  float wide[VECTORS][8], squares = 0;
#pragma unroll
  for (int i = 0; i < VECTORS; i++) {
    const int place = place_of(i);
    widen(wide[i], place < count ? x[at + place] : make_uint4(0, 0, 0, 0));
#ifdef ADDS
    float more[8];
    widen(more, place < count ? residual[at + place] : make_uint4(0, 0, 0, 0));
#pragma unroll
    for (int j = 0; j < 8; j++) wide[i][j] += more[j];
    if (place < count) total[at + place] = rounded(wide[i]);
#endif
#pragma unroll
    for (int j = 0; j < 8; j++) squares += wide[i][j] * wide[i][j];
  }
  const float factor = rsqrtf(sum_of(squares) / (count * 8) + epsilon);
#pragma unroll
  for (int i = 0; i < VECTORS; i++) {
    float gains[8];
    widen(gains, place_of(i) < count ? gain[place_of(i)] : make_uint4(0, 0, 0, 0));
#pragma unroll
    for (int j = 0; j < 8; j++) wide[i][j] *= factor * gains[j];
    held[i] = rounded(wide[i]);
  }
#elif defined(SILU)
#pragma unroll
  for (int i = 0; i < VECTORS; i++) {
    const int place = place_of(i);
    float gates[8], ups[8];
    widen(gates, place < count ? x[2 * at + place] : make_uint4(0, 0, 0, 0));
    widen(ups, place < count ? x[2 * at + count + place] : make_uint4(0, 0, 0, 0));
#pragma unroll
    for (int j = 0; j < 8; j++) gates[j] = gates[j] / (1.0f + __expf(-gates[j])) * ups[j];
    held[i] = rounded(gates);
  }
#else
#pragma unroll
  for (int i = 0; i < VECTORS; i++) held[i] = place_of(i) < count ? x[at + place_of(i)] : make_uint4(0, 0, 0, 0);
#endif
#ifdef WHOLE
#pragma unroll
  for (int i = 0; i < VECTORS; i++)
    if (place_of(i) < count) ((uint4*)out)[at + place_of(i)] = held[i];
#else
  __shared__ u32 largest[32];
  u32 most = 0;
#pragma unroll
  for (int i = 0; i < VECTORS; i++) most = __vmaxu2(most, largest_of(held[i]));
  most = __reduce_max_sync(~0u, max(most & 0xffff, most >> 16));
  if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = most;
  __syncthreads();
  most = threadIdx.x % 32 < blockDim.x / 32 ? largest[threadIdx.x % 32] : 0;
  most = __reduce_max_sync(~0u, most);
#ifdef CLUSTER
  most = largest_of_cluster(most);
#endif
  const float scale = fmaxf(to_float(most) / 448.0f, 1.0f / (448.0f * 512.0f));
  if (threadIdx.x == 0 && blockIdx.y == 0) scales[blockIdx.x] = scale;
#pragma unroll
  for (int i = 0; i < VECTORS; i++) {
    const int place = place_of(i);
    if (place >= count) continue;
#ifdef TILED
    const u64 to = ((u64)(place / 16) * TILED + blockIdx.x) * 16 + (place % 16 ^ (blockIdx.x & 7) * 2);
#else
    const u64 to = at + place;
#endif
    ((uint2*)out)[to] = make_uint2(narrowed(held[i].x, scale) | narrowed(held[i].y, scale) << 16,
                                   narrowed(held[i].z, scale) | narrowed(held[i].w, scale) << 16);
  }
#ifdef CLUSTER  // no block leaves while others may read of it
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
#endif
#endif
}
