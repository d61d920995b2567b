// out[M, N] = x[M, K] . dequantize(W)[N, K]^T (+ bias) on Hopper: x, out, bias float16, W packed NF4 or INT8, sums
// float32. With few rows the weights' way from memory takes the time, with many the products do.
//
// Compiled behind weights.cuh and streaming.cuh, for sm_90a, with these macros:
//   BM      rows of x that one block serves: the n of wgmma, a multiple of 16
//   R       tiles of 64 rows of W that one warpgroup serves        WG  warpgroups that multiply; WG * R at most 4
//   KB      blocks of 64 columns of a stage                        STAGES  stages of x and W in shared memory
//   IN_FLIGHT  products under way while the fragments of the next are made: 2 or 4
//   COLUMNS BM as a string; SUMS, FRAGMENT, B_AT, ADDS the names of wgmma's operands; INOUT the constraints of its sums
//
// As stream.cu, but weights are operand A from registers: what a warp reads of its tile of 16 x 64 are its fragments.
// Words are read a block before they are needed, pairs looked up a product before, and made float16 while the products
// before run. x is fetched as it is, swizzled on the way. The first `whole` tiles, as many for each block, are one
// block's each, so that all blocks are at the same columns of x; of the others each block has an even share. A pair of
// blocks (PAIR, see streaming.cuh) reads x from the L2 cache once.

#define TILES (BLOCK_N / 16)
#define TILE_BYTES (KB * 512 * WORDS)
#define SCALE_BYTES (BITS == 4 ? KB * 32 : 0)
#define X_BYTES (KB * BM * 128)
#define FILLED_BYTES (X_BYTES + TILES * (TILE_BYTES + SCALE_BYTES))
#define STAGE_BYTES ((FILLED_BYTES + 1023) / 1024 * 1024)
#define PRODUCTS (KB * 4)                              // of a stage, 16 columns each
#define BOX_BLOCKS (KB * WORDS <= 4 ? KB : 4 / WORDS)  // of 64 columns of W that come at once, of all tiles
#define BOX_BYTES (BOX_BLOCKS * 512 * WORDS)
// Of W, of two stages at least, that are asked for before the kernel in front has ended: more would stand in its way.
#define EARLY_BYTES 24576
#define EARLY_STAGES ((EARLY_BYTES - 1) / (TILES * (TILE_BYTES + SCALE_BYTES)) + 1)
#define EARLY (EARLY_STAGES < 2 ? 2 : EARLY_STAGES < STAGES ? EARLY_STAGES : STAGES)

static_assert(KB % BOX_BLOCKS == 0, "a stage is whole boxes");
static_assert(EARLY <= STAGES, "each has a stage of its own");
static_assert(KB > 1 || STAGES > 2, "words are read two blocks ahead");
static_assert(IN_FLIGHT == 2 || IN_FLIGHT == 4, "fragments lie at i % IN_FLIGHT, and a stage is KB * 4 products");
static_assert(TILES <= 16, "one block of a tile's rows");

__device__ __forceinline__ void wgmma(float (&d)[BM / 2], const u32 (&a)[4], u64 b, int adds) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADDS ", 0; wgmma.mma_async.sync.aligned.m64n" COLUMNS
               "k16.f32.f16.f16 {" SUMS "}, {" FRAGMENT "}, " B_AT ", p, 1, 1, 0; }"
               : INOUT
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}

// A block's steps in their order: those of its whole tiles, then its share of the others.
struct Walk {
  int tile, step, left;  // whole tiles that are to come, with this one
  __device__ __forceinline__ void next(int steps, u32 whole, u32 begin) {
    if (++step < steps) return;
    step = 0;
    if (left > 1)
      left--, tile += shares();
    else if (left == 1)
      left = 0, tile = whole + begin / steps, step = begin % steps;
    else
      tile++;
  }
};

// Asks for a box of x; a pair of blocks gets it at once.
__device__ __forceinline__ void copy_x(u32 to, const TensorMap* x, int row, int block, u32 barrier) {
#if PAIR == 2
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(x), "r"(0), "r"(row), "r"(block), "r"(barrier), "h"((unsigned short)3)
      : "memory");
#else
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(to),
      "l"(x), "r"(0), "r"(row), "r"(block), "r"(barrier)
      : "memory");
#endif
}

// The producer: asks for the weights of the first stages before the kernel in front has ended, and for a stage once it
// is empty.
template <class Weights, class X>
__device__ __forceinline__ void fill_stages(int count, u32 empty, Weights load_weights, X load_x) {
  const int early = min(EARLY, count);
  for (int i = 0; i < early; i++) load_weights(i);
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int i = 0; i < early; i++) load_x(i);
  for (int i = early, stage = early, parity = 1; i < count; i++, stage++) {  // the first of a stage waits for nothing
    if (stage == STAGES) stage = 0, parity ^= 1;
    await(empty + stage * 8, parity);
    load_weights(stage), load_x(stage);
  }
}

// The epilogue's part that does not wait for sums: what each is multiplied by, and what is added.
__device__ __forceinline__ void scale_of(float (&scale)[R][2], float (&add)[R][2], const char* scales,
                                         const unsigned short* bias, int n0, int lane, int N) {
#pragma unroll
  for (int i = 0; i < 2 * R; i++) {
    const int r = i / 2, h = i & 1, row = n0 + own_row(r) + (lane >> 2) + h * 8;
    if (row >= N) continue;
    scale[r][h] = BITS == 8 ? ((const float*)scales)[row] : 1;
    if (bias) add[r][h] = to_float(bias[row]);
  }
}

extern "C" __global__ void __cluster_dims__(PAIR, 1, 1) __launch_bounds__(THREADS, 1)
    stream_packed(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap weights,
                  const __grid_constant__ TensorMap scale_boxes, const char* __restrict__ scales,
                  const unsigned short* __restrict__ bias, unsigned short* out, float4* partial, u32* arrived, int M,
                  int N, int K, int whole) {
  extern __shared__ __align__(1024) char shared[];
  char* const turned = shared + STAGES * STAGE_BYTES + TABLE_BYTES;
  const u32 base = shared_address(shared);
  const u32 full = shared_address(turned) + ROOM_BYTES, empty = full + STAGES * 8;
  u32* const word = (u32*)(turned + ROOM_BYTES + STAGES * 16);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int blocks = K / 64, steps = blocks / KB;
  const int across = (M + BM - 1) / BM;  // tiles of x; those of the same W stand side by side
  const u32 all = ((N + PAIR * BLOCK_N - 1) / (PAIR * BLOCK_N) * across - whole) * steps;  // that are shared
  const u32 begin = all * share() / shares(), end = all * (share() + 1) / shares();
  const int alone = whole / shares();
  const Walk start = alone ? Walk{share(), 0, alone} : Walk{(int)(begin / steps), (int)(begin % steps), 0};

  if (threadIdx.x == 0) init_barriers(full, empty);
  asm volatile("griddepcontrol.launch_dependents;");  // what is behind waits for the end of this by itself
  __syncthreads();
  pair_begins();

  if (warp >= WG * 4) {  // asks for bytes, in few and large boxes: each takes a hundred cycles, however small it is
    give_registers();
    if (warp > WG * 4 || lane) return;
    const u64 once = policy_of(across == 1);
    Walk at = start, x_at = start;
    auto load_weights = [&](int stage) {
      const u32 barrier = full + stage * 8, to = base + stage * STAGE_BYTES + X_BYTES;
      const int row = (at.tile / across * PAIR + half()) * TILES;
      expect(barrier, FILLED_BYTES);
#pragma unroll
      for (int i = 0; i < KB / BOX_BLOCKS; i++)
        copy_box(to + i * TILES * BOX_BYTES, &weights, (at.step * (KB / BOX_BLOCKS) + i) * (BOX_BYTES / 8), row,
                 barrier, once);
      if (BITS == 4) copy_box(to + TILES * TILE_BYTES, &scale_boxes, at.step * (SCALE_BYTES / 8), row, barrier, once);
      at.next(steps, whole, begin);
    };
    auto load_x = [&](int stage) {
      const u32 barrier = full + stage * 8, to = base + stage * STAGE_BYTES + half() * (X_BYTES / 2);
      const int row = x_at.tile % across * BM + (KB == 1 ? half() * (BM / 2) : 0),
                block = x_at.step * KB + half() * (KB / 2);
      copy_x(to, &x, row, block, barrier);
      x_at.next(steps, whole, begin);
    };
    fill_stages(alone * steps + end - begin, empty, load_weights, load_x);
    return;
  }

  take_registers();
#if BITS == 4
  fill_table(shared + STAGES * STAGE_BYTES, WORKERS);
  workers_meet();
#endif
  asm volatile("griddepcontrol.wait;" ::: "memory");  // nothing is written before what is in front has ended
  Table table{base + STAGES * STAGE_BYTES, (u32)lane * 4};
  asm volatile("" : "+r"(table.own)::"memory");             // it is not read before the barrier
  const int first_tile = (warp >> 2) * R * 4 + (warp & 3);  // of 16 rows, in a block's; the next is 4 further
  auto read = [&](Tile(&tiles)[R], u32 from, int block) {
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
  int stage = 0, parity = 0, current = 0;  // from which words are read, and what is multiplied
  auto advance = [&] {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  };
  auto filled = [&] {
    await(full + stage * 8, parity);
    return base + stage * STAGE_BYTES;
  };
  Walk at = start;
#pragma unroll 1
  for (int left = alone * steps + end - begin, count; left; left -= count) {
    const int tile = at.tile;
    count = min(steps - at.step, left);
    u32 from = filled();
    read(now, from, 0);
    if (KB > 1) {
      read(next, from, 1);
    } else if (count > 1) {
      advance();
      read(next, from = filled(), 0);
    }
    u32 before = 0;
#pragma unroll
    for (int r = 0; r < R; r++) look_up(pairs[r], now[r], 0, table);
#pragma unroll 1
    for (int step = 0; step < count; step++) {
      const u64 b = operand(base + current * STAGE_BYTES);
      const u32 own = empty + current * 8;
#pragma unroll
      for (int i = 0; i < PRODUCTS; i++) {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(IN_FLIGHT - 1) : "memory");
        if (i == IN_FLIGHT - 1 && step && !lane) release(before);
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
          if (block == 0 && step + (i / 4 + 2) / KB < count) {  // else nothing of what is read then is used
            advance();
            from = filled();
          }
          read(next, from, block);
        }
#pragma unroll
        for (int r = 0; r < R; r++) look_up(pairs[r], now[r], (i + 1) & 3, table);
      }
      before = own;
      if (++current == STAGES) current = 0;
    }
    advance();
    at.step += count - 1, at.next(steps, whole, begin);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (!lane) release(before);
    hold(sums);
    if (count < steps && !add_parts(sums, partial, arrived, word, tile - whole, steps, all)) continue;
    const int n0 = (tile / across * PAIR + half()) * BLOCK_N, m0 = tile % across * BM;
    float scale[R][2] = {}, add[R][2] = {};
    scale_of(scale, add, scales, bias, n0, lane, N);
    give(sums, turned, out + (u64)m0 * N, n0, M - m0, N,
         [&](float d, int r, int h, int) { return d * scale[r][h] + add[r][h]; });
  }
  pair_ends();
}
