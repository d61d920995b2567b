// out[M, N] = x[M, K] . dequantize(W)[N, K]^T (+ bias), for few rows: x, out, bias float16 (BF16: bfloat16), sums
// float32.
//
// Compiled behind weights.cuh with these macros:
//   MT    tiles of 8 rows of x that one block serves          NT  tiles of 16 rows of W that one warp serves
//   WN    warps along N        WK  warps along K              U   blocks of 64 in K that a warp takes per stage
//   STAGES  stages of x in shared memory
//   AHEAD   set: launched before the kernel in front has ended, on Hopper; the first weights are read meanwhile
//
// Weights are operand A of mma.m16n8k16, read once; x is operand B, staged for the whole block.

#define THREADS (WN * WK * 32)
#define BLOCK_M (8 * MT)
#define STAGE_K (64 * U * WK)
#define ROW_BYTES (STAGE_K * 2 + 16)  // an odd number of 16-byte units: no bank conflict between rows
#define STAGE_BYTES (BLOCK_M * ROW_BYTES)

// Operand B of two products: four words of a lane from its place in 8 rows of x, HALF bytes after those of the two
// before.
#ifdef FP8
#define OWN_X (g * ROW_BYTES + t * 32)
#define HALF 16
#define load_x_fragments load_shared
#else
#define OWN_X ((lane & 7) * ROW_BYTES + (lane >> 3) * 16)
#define HALF 64
#define load_x_fragments load_matrices
#endif

__device__ __forceinline__ uint4 load_matrices(u32 address) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address));
  return v;
}

__device__ __forceinline__ void mma(float* c, const u32* a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." X_TYPE "." X_TYPE
      ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The warps along K add up, each lane with the lane of the same fragment.
__device__ __forceinline__ void add_warps(float (&sums)[NT][MT][4], char* shared, int warp_n, int warp_k, int lane) {
  const int place = warp_n * 32 + lane;
  float4* room = (float4*)shared;
  if (warp_k)
#pragma unroll
    for (int i = 0; i < NT * MT; i++)
      room[((warp_k - 1) * NT * MT + i) * WN * 32 + place] = *(float4*)sums[i / MT][i % MT];
  __syncthreads();
  if (!warp_k)
    for (int w = 0; w < WK - 1; w++)
#pragma unroll
      for (int i = 0; i < NT * MT; i++) {
        float4 other = room[(w * NT * MT + i) * WN * 32 + place];
        float* mine = sums[i / MT][i % MT];
        mine[0] += other.x, mine[1] += other.y, mine[2] += other.z, mine[3] += other.w;
      }
}

// The epilogue: a warp's sums, scaled, to memory.
__device__ __forceinline__ void store(const float (&sums)[NT][MT][4], const void* scales, const unsigned short* bias,
                                      unsigned short* out, int tile0, int m0, int g, int t, int M, int N) {
#pragma unroll
  for (int n = 0; n < NT; n++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      int row = (tile0 + n) * 16 + h * 8 + g;
      if (row >= N) continue;
      float scale = BITS == 8 ? ((const float*)scales)[row] : 1.0f, add = bias ? to_float(bias[row]) : 0.0f;
#pragma unroll
      for (int m = 0; m < MT; m++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
          int column = m0 + m * 8 + t * 2 + c;
          if (column < M) out[(u64)column * N + row] = to_half(sums[n][m][h * 2 + c] * scale + add);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    few_gemm(const unsigned short* __restrict__ x, const uint4* __restrict__ weights, const void* __restrict__ scales,
             const unsigned short* __restrict__ bias, unsigned short* __restrict__ out, float4* __restrict__ partial,
             int* __restrict__ arrived, int M, int N, int K, int splits) {
  extern __shared__ __align__(128) char shared[];
  char* stages = shared + TABLE_BYTES;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const int warp_n = warp % WN, warp_k = warp / WN;
  const int blocks = K / 64, tiles = N / 16;
  const int all_steps = (blocks + U * WK - 1) / (U * WK);
  const int first_step = (int)((long long)all_steps * blockIdx.y / splits);
  const int last_step = (int)((long long)all_steps * (blockIdx.y + 1) / splits);
  const int tile0 = (blockIdx.x * WN + warp_n) * NT, m0 = blockIdx.z * BLOCK_M;

  u64 tile_at[NT];
#pragma unroll
  for (int n = 0; n < NT; n++) tile_at[n] = (u64)min(tile0 + n, tiles - 1) * blocks;
  auto load_tiles = [&](Tile(&to)[U][NT], int step) {
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
      for (int n = 0; n < NT; n++) {
        // past the end the last tile is read: x is zero there, or the sums are never stored
        int block = min((step * WK + warp_k) * U + u, blocks - 1);
#ifdef FP8
        const uint4* at = weights + (tile_at[n] * 16 + (u64)g * blocks + block) * 4 + t;
        to[u][n].words[0] = load_once(at), to[u][n].words[1] = load_once(at + (u64)blocks * 32);
#else
        u64 at = tile_at[n] + block;
#pragma unroll
        for (int i = 0; i < WORDS; i++) to[u][n].words[i] = load_once(weights + (at * WORDS + i) * 32 + lane);
        to[u][n].scales = BITS == 4 ? __ldg((const u32*)scales + at * 8 + g) : 0;
#endif
      }
  };
  auto load_x = [&](int step) {
    if (step < last_step) {
      u32 to = shared_address(stages) + (step % STAGES) * STAGE_BYTES;
      for (int i = threadIdx.x; i < BLOCK_M * (STAGE_K / 8); i += THREADS) {
        int row = i / (STAGE_K / 8), column = i % (STAGE_K / 8), k = step * STAGE_K + column * 8;
        bool inside = m0 + row < M && k < K;
        copy_async(to + row * ROW_BYTES + column * 16, x + (inside ? (u64)(m0 + row) * K + k : 0), inside);
      }
    }
    asm volatile("cp.async.commit_group;");
  };

#ifdef AHEAD
  asm volatile("griddepcontrol.launch_dependents;");  // what is behind waits for the end of this by itself
#endif
  Tile now[U][NT], next[U][NT];
  load_tiles(now, first_step);
#ifdef AHEAD
  asm volatile("griddepcontrol.wait;" ::: "memory");  // from here on what is before in the stream is done
#endif
  for (int i = 0; i < STAGES - 1; i++) load_x(first_step + i);
#if BITS == 4
  fill_table(shared);
#endif
  Table table{shared_address(shared), (u32)lane * 4};
  float sums[NT][MT][4] = {};
#pragma unroll 2
  for (int step = first_step; step < last_step; step++) {
    load_tiles(next, step + 1);
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    asm volatile("" : "+r"(table.own)::"memory");  // the table is not read before the barrier
    load_x(step + STAGES - 1);
    u32 stage = shared_address(stages) + (step % STAGES) * STAGE_BYTES + warp_k * U * 128 + OWN_X;
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        uint4 b[MT];
#pragma unroll
        for (int m = 0; m < MT; m++) b[m] = load_x_fragments(stage + m * 8 * ROW_BYTES + u * 128 + half * HALF);
#pragma unroll
        for (int n = 0; n < NT; n++) {
          u32 a[4];
          fragment(a, now[u][n], 2 * half, table);
#pragma unroll
          for (int m = 0; m < MT; m++) mma(sums[n][m], a, b[m].x, b[m].y);
          fragment(a, now[u][n], 2 * half + 1, table);
#pragma unroll
          for (int m = 0; m < MT; m++) mma(sums[n][m], a, b[m].z, b[m].w);
        }
      }
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
      for (int n = 0; n < NT; n++) now[u][n] = next[u][n];
  }
  asm volatile("cp.async.wait_group 0;");
  __syncthreads();

  const int place = warp_n * 32 + lane;
  if (WK > 1) add_warps(sums, shared, warp_n, warp_k, lane);
  if (splits > 1) {  // the last block to arrive adds the parts in their order: the same bits every time
    __shared__ int last;
    u64 group = (u64)blockIdx.z * gridDim.x + blockIdx.x;
    float4* parts = partial + group * splits * (NT * MT * WN * 32);
    if (!warp_k)
#pragma unroll
      for (int i = 0; i < NT * MT; i++)
        parts[((u64)blockIdx.y * NT * MT + i) * WN * 32 + place] = *(float4*)sums[i / MT][i % MT];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      last = atomicAdd(arrived + group, 1) == splits - 1;
      if (last) arrived[group] = 0;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    if (!warp_k) {
#pragma unroll
      for (int i = 0; i < NT * MT; i++) {
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
        for (int s = 0; s < splits; s++) {
          float4 part = __ldcg(parts + ((u64)s * NT * MT + i) * WN * 32 + place);
          sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
        }
        *(float4*)sums[i / MT][i % MT] = sum;
      }
    }
  }
  if (warp_k) return;
  store(sums, scales, bias, out, tile0, m0, g, t, M, N);
}
