// out[M, N] = q[M, K] . W[N, K]^T with a scale for each row of both (+ bias): q and W E4M3, sums float32, on Hopper.
// For as many rows as one block serves, where the weights' way from memory is what takes the time.
//
// Compiled behind weights.cuh (BF16: bias and out are bfloat16) and streaming.cuh, for sm_90a, with these macros:
//   BM      rows of q, at most: the n of wgmma, a multiple of 16
//   R       tiles of 64 rows of W that one warpgroup serves        WG  warpgroups that multiply
//   STAGES  stages of q and W in shared memory, 128 columns of K each
//   COLUMNS BM as a string; SUMS, A_AT, B_AT, ADDS the names of wgmma's operands; INOUT the constraints of its sums
//
// All tiles of W are one row of steps, and each block takes an even share of it (stream-K, Osama et al., 2023), so that
// no multiprocessor waits for another's last tile. A tile that two or more blocks share is added up by the last of
// them. One warp asks for bytes, the others multiply straight from shared memory: no weight passes a register. The
// weights of the first stages are asked for before the kernel in front, which makes q, has ended.
//
// tokens.cu lays q out as [K / 128][BM][128], each stage as wgmma wants it (swizzled by 128 bytes), so that one copy
// fetches it. Rows past M hold anything: columns of a product do not meet.

#define W_BYTES (BLOCK_N * 128)
#define Q_BYTES (BM * 128)
#define STAGE_BYTES (W_BYTES + Q_BYTES)

static_assert(!TAKES_REGISTERS, "one warp asks, and gives no registers up");

__device__ __forceinline__ void wgmma(float (&d)[BM / 2], u64 a, u64 b, int adds) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADDS ", 0; wgmma.mma_async.sync.aligned.m64n" COLUMNS
               "k32.f32.e4m3.e4m3 {" SUMS "}, " A_AT ", " B_AT ", p, 1, 1; }"
               : INOUT
               : "l"(a), "l"(b), "r"(adds));
}

// q and its scales are not __restrict__: they must not be read before the kernel that writes them is done.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    stream_gemm(const __grid_constant__ TensorMap weights, const char* q, const float* token_scales,
                const float* __restrict__ scales, const unsigned short* __restrict__ bias, unsigned short* out,
                float4* partial, u32* arrived, int M, int N, int K) {
  extern __shared__ __align__(1024) char shared[];
  char* const turned = shared + STAGES * STAGE_BYTES;
  const u32 base = shared_address(shared);
  const u32 full = shared_address(turned) + ROOM_BYTES, empty = full + STAGES * 8;
  u32* const word = (u32*)(turned + ROOM_BYTES + STAGES * 16);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2;
  const int steps = K / 128;
  const u32 all = (N + BLOCK_N - 1) / BLOCK_N * steps;  // at least as many as there are blocks
  const int begin = all * blockIdx.x / gridDim.x, end = all * (blockIdx.x + 1) / gridDim.x;

  if (threadIdx.x == 0) init_barriers(full, empty);
  asm volatile("griddepcontrol.launch_dependents;");  // what is behind waits for the end of this by itself
  __syncthreads();

  if (warp == WG * 4) {  // asks for bytes
    if (lane) return;
    const u64 once = policy_of(true);
    int step = begin % steps, row = begin / steps * BLOCK_N, q_step = step;
    auto load_weights = [&](int stage) {
      const u32 barrier = full + stage * 8;
      expect(barrier, STAGE_BYTES);
      copy_box(base + stage * STAGE_BYTES, &weights, step * 128, row, barrier, once);
      if (++step == steps) step = 0, row += BLOCK_N;
    };
    auto load_q = [&](int stage) {
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       base + stage * STAGE_BYTES + W_BYTES),
                   "l"(q + (u64)q_step * Q_BYTES), "r"(Q_BYTES), "r"(full + stage * 8)
                   : "memory");
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
      const u64 a = operand(from + (warp >> 2) * R * 64 * 128), b = operand(from + W_BYTES);
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
    hold(sums);
    if (count < steps && !add_parts(sums, partial, arrived, word, tile, steps, all)) continue;
    const int n0 = tile * BLOCK_N;
    float scale[R][2] = {}, add[R][2] = {};
#pragma unroll
    for (int i = 0; i < 2 * R; i++) {
      const int r = i / 2, h = i & 1, row = n0 + own_row(r) + g + h * 8;
      if (row >= N) continue;
      scale[r][h] = scales[row];
      if (bias) add[r][h] = to_float(bias[row]);
    }
    give(sums, turned, out, n0, M, N, [&](float d, int r, int h, int token) {
      return d * scale[r][h] * (token < M ? token_scales[token] : 0) + add[r][h];
    });
  }
}
