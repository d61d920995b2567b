// What kernels that stream weights share: barriers, copies by the tensor memory accelerator, sums that several blocks
// share, and the way of a tile's results to memory. Hopper only. Macros: BM, R, WG, STAGES as the kernels have them;
// PAIR is 2 where two blocks, a cluster, have tiles of W side by side and fetch half of x each, for both.

#ifndef PAIR
#define PAIR 1
#endif

#define WORKERS (WG * 128)
#define TAKES_REGISTERS (R * BM >= 192 || (WG == 4 && BM >= 64))  // sums need more than an even share, see below
#define THREADS (WORKERS + (TAKES_REGISTERS ? 128 : 32))
#define BLOCK_N (WG * R * 64)
#define OUT_BYTES (BLOCK_N * 2 + 16)
#define TOKENS (BM % 64 ? BM : 64)  // rows of x whose results are in the room at once
#define ROOM_BYTES (TOKENS * OUT_BYTES)
#define QUADS (R * BM / 8)      // of a thread's sums of a tile
#define PART (QUADS * WORKERS)  // float4 of one block's
#define AT_ONCE                                                     \
  (QUADS == 8 || (QUADS % 8 == 0 && WG == 2 && TAKES_REGISTERS) ? 8 \
   : QUADS % 4 == 0                                             ? 4 \
                                                                : 2)  // that are on their way while parts are added
#define PARTS_AT_ONCE (WG == 4 ? 2 : 4)  // of few sums, whose numbers are on their way together

struct __align__(64) TensorMap {
  char opaque[128];
};

// Work is shared out among pairs: which one this block is of, of how many, and which of the two it is.
__device__ __forceinline__ int share() { return blockIdx.x / PAIR; }
__device__ __forceinline__ int shares() { return gridDim.x / PAIR; }
__device__ __forceinline__ int half() { return blockIdx.x % PAIR; }

__device__ __forceinline__ void init_barriers(u32 full, u32 empty) {
  for (int i = 0; i < STAGES; i++) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + i * 8) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty + i * 8), "r"(PAIR * WG * 4) : "memory");
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// A stage is empty when both blocks of a pair are done with it: what one fetches fills both.
__device__ __forceinline__ void release(u32 barrier) {
  arrive(barrier);
#if PAIR == 2
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::
          "r"(barrier),
      "r"(half() ^ 1)
      : "memory");
#endif
}

// All threads of both blocks, before one signals the other: their barriers are there.
__device__ __forceinline__ void pair_begins() {
#if PAIR == 2
  asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait;" ::: "memory");
#endif
}

// Those that have not ended, when all they signalled to the other block has arrived: it must not have ended before.
__device__ __forceinline__ void pair_ends() {
#if PAIR == 2
  asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

__device__ __forceinline__ void await(u32 barrier, u32 parity) {
  u32 done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
  } while (!done);
}

// Of a tile of W: the first of this warp's 16 rows in its r-th 64.
__device__ __forceinline__ int own_row(int r) {
  return ((threadIdx.x >> 7) * R + r) * 64 + (threadIdx.x >> 5 & 3) * 16;
}

static_assert(!TAKES_REGISTERS || WG == 2 || (WG == 4 && R * BM < 192), "the registers that are taken must be there");
// With `TAKES_REGISTERS`, by threads of a group of 128: two groups that multiply and one that asks share 3 * 168, four
// and one 5 * 96, which is what the launch gives them. More than that would wait forever.
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
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, "
      "%3}], [%4], %5;" ::"r"(to),
      "l"(from), "r"(at), "r"(row), "r"(barrier), "l"(policy)
      : "memory");
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

__device__ __forceinline__ u32 load_acquired(const u32* p) {
  u32 v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

// Adds to a counter behind all that this block has written and in front of all that it reads; all of it sees the sum
// before.
__device__ __forceinline__ u32 count(u32* counter, u32 more, u32* word) {
  workers_meet();
  if (threadIdx.x == 0)
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(*word) : "l"(counter), "r"(more) : "memory");
  workers_meet();
  return *word;
}

__device__ __forceinline__ float4 sum_of(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// This block's sums and those of the others, in the order of the parts.
template <class Place>
__device__ __forceinline__ void sum_parts(float (&sums)[R][BM / 2], int first, int last, Place part_of) {
#if R * BM == 16  // their way takes longer than adding them: several parts at a time
  float4 total[2] = {};
#pragma unroll 1
  for (int part = first; part <= last; part += PARTS_AT_ONCE) {
    const float4* from = part_of(part);
    const int behind = part == first ? PART : 0;  // of the others; only the first one's place is another
    float4 more[PARTS_AT_ONCE][2] = {};
#pragma unroll
    for (int p = 0; p < PARTS_AT_ONCE; p++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const float* d = sums[0] + i * 4;
        if (part + p == share())
          more[p][i] = make_float4(d[0], d[1], d[2], d[3]);
        else if (part + p <= last)
          more[p][i] = __ldcg(from + p * (2 * PAIR * PART) - (p ? behind : 0) + i * WORKERS);
      }
#pragma unroll
    for (int p = 0; p < PARTS_AT_ONCE; p++)
#pragma unroll
      for (int i = 0; i < 2; i++) total[i] = sum_of(total[i], more[p][i]);
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    float* d = sums[0] + i * 4;
    d[0] = total[i].x, d[1] = total[i].y, d[2] = total[i].z, d[3] = total[i].w;
  }
#else
  auto add = [&](int i, float4 more) {
    float* d = sums[i / (BM / 8)] + i % (BM / 8) * 4;
    d[0] += more.x, d[1] += more.y, d[2] += more.z, d[3] += more.w;
  };
  int part = first;
  if (share() - first > 1) {  // those before this one's are added up first
#pragma unroll
    for (int i = 0; i < QUADS; i += AT_ONCE) {
      float4 before[AT_ONCE] = {};
      for (part = first; part < share(); part++) {
        const float4* from = part_of(part) + i * WORKERS;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
          const float4 more = __ldcg(from + j * WORKERS);
          before[j].x += more.x, before[j].y += more.y, before[j].z += more.z, before[j].w += more.w;
        }
      }
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) add(i + j, before[j]);
    }
  }
  for (; part <= last; part++) {
    if (part == share()) continue;
    const float4* from = part_of(part);
#pragma unroll
    for (int i = 0; i < QUADS; i++) add(i, __ldcg(from + i * WORKERS));
  }
#endif
}

// Of a tile that several blocks share: the last to arrive keeps its sums, adds those of the others, and gets true. The
// order of the parts is the tile's own, whoever is last: the same bits every time. `all` steps stand in a row, `steps`
// for each tile. Few sums are written before it is known who is last, which is quick; of many the last writes none.
// `arrived` counts who arrived in its lower half and who has written in the upper; it is left at zero.
__device__ __forceinline__ bool add_parts(float (&sums)[R][BM / 2], float4* partial, u32* arrived, u32* word, int tile,
                                          int steps, u32 all) {
  const int first = ((u32)(tile * steps + 1) * shares() - 1) / all,
            last = ((u32)(tile + 1) * steps * shares() - 1) / all;
  const u32 others = last - first;
  u32* const counter = arrived + tile * PAIR + half();
  auto part_of = [&](int share) {  // a block is the first of one of its shared tiles, and not of the other
    return partial + (u64)((share * PAIR + half()) * 2 + (share == first)) * PART + threadIdx.x;
  };
  auto write = [&] {
    float4* mine = part_of(share());
#pragma unroll
    for (int i = 0; i < QUADS; i++) {
      const float* d = sums[i / (BM / 8)] + i % (BM / 8) * 4;
      __stcg(mine + i * WORKERS, make_float4(d[0], d[1], d[2], d[3]));
    }
  };
  if (QUADS <= 8) {
    write();
    if (count(counter, 1, word) != others) return false;
    if (threadIdx.x == 0) *counter = 0;
  } else {
    if ((count(counter, 1, word) & 0xffff) != others) {
      write();
      workers_meet();
      if (threadIdx.x == 0)
        asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(0x10000) : "memory");
      return false;
    }
    if (threadIdx.x == 0) {
      while (load_acquired(counter) >> 16 != others);  // who arrived is writing already
      *counter = 0;
    }
    workers_meet();
  }
  sum_parts(sums, first, last, part_of);
  return true;
}

// A tile's results, of up to M rows of x, to memory: TOKENS rows at a time, turned in the room. `finish` makes a result
// of a sum, by its 64 rows of W, the half of a warp's 16 of them, and the row of x.
template <class Finish>
__device__ __forceinline__ void give(const float (&sums)[R][BM / 2], char* turned, unsigned short* out, int n0, int M,
                                     int N, Finish finish) {
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
        const u32 to =
            room + (j * 8 + (lane >> 4) * 8 + (lane & 7)) * OUT_BYTES + (own_row(r) + (lane >> 3 & 1) * 8) * 2;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(packed[0]),
                     "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                     : "memory");
      }
    workers_meet();
    for (int i = threadIdx.x; i < min(TOKENS, M - from) * (BLOCK_N / 8); i += WORKERS) {
      const int m = i / (BLOCK_N / 8), n = i % (BLOCK_N / 8) * 8;
      if (n0 + n < N) *(uint4*)(out + (u64)(from + m) * N + n0 + n) = *(const uint4*)(turned + m * OUT_BYTES + n * 2);
    }
  }
}
