// What the kernels share: weights as operand A of a matrix product. Macros, given at compile time:
//   BITS  4 (NF4, a float16 scale for 64 weights of a row) or 8 (INT8, a float32 scale for a row)
//   CODE  the 16 float16 bit patterns of the codebook
//   FP8   set: the 8 bits are E4M3, row by row as the engine has them, and not packed
//   BF16  set: x, bias and out are bfloat16; with FP8 only
//
// packing.py lays W out so that the 16 (or 32) bytes of a lane are its fragments of one tile of 16 x 64: weights go
// from global memory straight to registers. An NF4 byte is a pair of weights: one load from a table of 256 pairs of
// float16, which lies in shared memory once for each bank, so that no two lanes ever meet.
//
// FP8 lies row by row, [N, K]. The order of K within a product is free as long as W and x agree, so that lane 4 g + t
// takes 16 bytes in a row of W, from column 16 t of its block of 64, for rows g and g + 8: of product s it is columns
// 16 t + 4 s to 16 t + 4 s + 3. The same columns of x are 8 bytes in a row of its own.

typedef unsigned int u32;
typedef unsigned long long u64;

#define TABLE_BYTES (BITS == 4 ? 32768 : 0)
#define WORDS (BITS / 4)  // 16-byte loads a lane makes for a tile

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void copy_async(u32 to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0));
}

#ifdef AHEAD
#define READ_ONLY ""  // with .nc the compiler moves the first loads behind the wait for the kernel in front
#else
#define READ_ONLY ".nc"
#endif

__device__ __forceinline__ uint4 load_once(const uint4* p) {
  uint4 v;
  asm volatile("ld.global" READ_ONLY ".L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

__device__ __forceinline__ uint4 load_shared(u32 address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
  return v;
}

__device__ __forceinline__ u32 load_table(u32 address) {
  u32 v;
  asm("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address));
  return v;
}

__device__ __forceinline__ u32 multiply2(u32 a, u32 b) {
  u32 c;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  return c;
}

__device__ __forceinline__ u32 subtract2(u32 a, u32 b) {
  u32 c;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  return c;
}

__device__ __forceinline__ float half_to_float(unsigned short h) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
  return v;
}

// A number of x, bias and out, to and from float32.
#ifdef BF16
#define X_TYPE "bf16"
__device__ __forceinline__ unsigned short to_half(float v) {
  unsigned short h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
}

__device__ __forceinline__ float to_float(unsigned short h) { return __uint_as_float((u32)h << 16); }
#else
#define X_TYPE "f16"
__device__ __forceinline__ unsigned short to_half(float v) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
}

__device__ __forceinline__ float to_float(unsigned short h) { return half_to_float(h); }
#endif

struct Table {  // of pairs: where it lies, and this lane's place in each entry of 128 bytes
  u32 start, own;
};

struct Tile {
  uint4 words[WORDS];
  u32 scales;  // NF4: float16 of row g, and of row g + 8
};

#ifdef FP8
// Two numbers of x's type from the low half of `pair`: exact, E4M3 is a part of both.
__device__ __forceinline__ u32 widened(u32 pair) {
  u32 halves;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low; }" : "=r"(halves) : "r"(pair));
#ifdef BF16
  float first = half_to_float(halves & 0xffff), second = half_to_float(halves >> 16);
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(second), "f"(first));
#endif
  return halves;
}

__device__ __forceinline__ void fragment(u32* a, const Tile& tile, int s, Table) {
  const uint4 &v = tile.words[0], &w = tile.words[1];
  u32 upper = s == 0   ? v.x
              : s == 1 ? v.y
              : s == 2 ? v.z
                       : v.w,
      lower = s == 0   ? w.x
              : s == 1 ? w.y
              : s == 2 ? w.z
                       : w.w;
  a[0] = widened(upper), a[1] = widened(lower), a[2] = widened(upper >> 16), a[3] = widened(lower >> 16);
}
#elif BITS == 4
__constant__ unsigned short code[16] = {CODE};

__device__ __forceinline__ void fill_table(char* table, int threads = blockDim.x) {
  for (int entry = threadIdx.x; entry < 256; entry += threads) {
    u32 pair = code[entry & 15] | ((u32)code[entry >> 4] << 16);
    for (int j = 0; j < 8; j++)  // turned by the lane, so that stores do not meet in a bank
      *(uint4*)(table + entry * 128 + ((j + entry) & 7) * 16) = make_uint4(pair, pair, pair, pair);
  }
}

__device__ __forceinline__ void look_up(u32* pairs, const Tile& tile, int s, Table table) {
  // s is a constant after unrolling
  u32 w = s == 0 ? tile.words[0].x : s == 1 ? tile.words[0].y : s == 2 ? tile.words[0].z : tile.words[0].w;
  pairs[0] = load_table((w << 7 & 0x7f80 | table.own) + table.start);
  pairs[1] = load_table((w >> 1 & 0x7f80 | table.own) + table.start);
  pairs[2] = load_table((w >> 9 & 0x7f80 | table.own) + table.start);
  pairs[3] = load_table((w >> 17 & 0x7f80 | table.own) + table.start);
}

__device__ __forceinline__ void finish(u32* a, const u32* pairs, const Tile& tile, int) {
  u32 upper = __byte_perm(tile.scales, 0, 0x1010), lower = __byte_perm(tile.scales, 0, 0x3232);
  a[0] = multiply2(pairs[0], upper), a[1] = multiply2(pairs[1], lower);
  a[2] = multiply2(pairs[2], upper), a[3] = multiply2(pairs[3], lower);
}

__device__ __forceinline__ void fragment(u32* a, const Tile& tile, int s, Table table) {
  u32 pairs[4];
  look_up(pairs, tile, s, table), finish(a, pairs, tile, s);
}
#else
__device__ __forceinline__ void fragment(u32* a, const Tile& tile, int s, Table) {
  const uint4& v = tile.words[s >> 1];
  u32 first = s & 1 ? v.z : v.x, second = s & 1 ? v.w : v.y;
  // a byte b behind 0x64 is the float16 1024 + b; b is the weight + 128
  a[0] = subtract2(__byte_perm(first, 0x64646464, 0x4140), 0x64806480);
  a[1] = subtract2(__byte_perm(first, 0x64646464, 0x4342), 0x64806480);
  a[2] = subtract2(__byte_perm(second, 0x64646464, 0x4140), 0x64806480);
  a[3] = subtract2(__byte_perm(second, 0x64646464, 0x4342), 0x64806480);
}

__device__ __forceinline__ void look_up(u32*, const Tile&, int, Table) {}

__device__ __forceinline__ void finish(u32* a, const u32*, const Tile& tile, int s) { fragment(a, tile, s, Table{}); }
#endif

#ifndef FP8
// Of four chunks, of which every lane of a group of four holds its word: lane t gets the whole chunk t.
__device__ __forceinline__ uint4 gathered(const u32* mine, int t) {
  u32 words[4];
#pragma unroll
  for (int r = 0; r < 4; r++) {
    int to = t ^ r;
    u32 sent = to == 0 ? mine[0] : to == 1 ? mine[1] : to == 2 ? mine[2] : mine[3];
    u32 got = __shfl_xor_sync(~0u, sent, r);
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (to == i) words[i] = got;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// The whole matrix as float16 [N, K], for products with many rows: one warp for each tile of 16 x 64.
extern "C" __global__ void __launch_bounds__(256)
    dequantize(const uint4* __restrict__ weights, const void* __restrict__ scales, uint4* __restrict__ out, int N,
               int K) {
  extern __shared__ __align__(128) char shared[];
#if BITS == 4
  fill_table(shared);
  __syncthreads();
#endif
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, blocks = K / 64;
  const Table table{shared_address(shared), (u32)lane * 4};
  const u64 tiles = (u64)(N / 16) * blocks, step = (u64)gridDim.x * 8;
  auto load = [&](Tile& tile, u64 at) {
    if (at >= tiles) return;
#pragma unroll
    for (int i = 0; i < WORDS; i++) tile.words[i] = load_once(weights + (at * WORDS + i) * 32 + lane);
    tile.scales = BITS == 4 ? __ldg((const u32*)scales + at * 8 + g) : 0;
  };
  u64 at = (u64)blockIdx.x * 8 + (threadIdx.x >> 5);
  Tile tile, next, after;
  load(tile, at), load(next, at + step);
  for (; at < tiles; at += step) {
    load(after, at + 2 * step);
    int row = (int)(at / blocks) * 16 + g, column = (int)(at % blocks) * 64;
    u32 rows[2][8];
#pragma unroll
    for (int s = 0; s < 4; s++) {
      u32 a[4];
      fragment(a, tile, s, table);
#if BITS == 8
      for (int i = 0; i < 4; i++) {
        float scale = ((const float*)scales)[row + (i & 1) * 8];
        a[i] = to_half(to_float(a[i] & 0xffff) * scale) | (u32)to_half(to_float(a[i] >> 16) * scale) << 16;
      }
#endif
      rows[0][2 * s] = a[0], rows[1][2 * s] = a[1], rows[0][2 * s + 1] = a[2], rows[1][2 * s + 1] = a[3];
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      uint4* to = out + ((u64)(row + h * 8) * K + column) / 8;
      to[t] = gathered(rows[h], t), to[t + 4] = gathered(rows[h] + 4, t);
    }
    tile = next, next = after;
  }
}
#endif
