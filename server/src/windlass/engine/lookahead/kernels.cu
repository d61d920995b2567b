// The kernels of the GPU integration: write a step record, take the host's drafts, and place the drafts that a step
// verifies.
//
// Compiled with these macros:
//   MOST  drafts of a row at most      SPAN  newest tokens of a step record, behind its RECORD_HEADER words
//   PATIENCE_NS, ROW_NS  that a step waits for its drafts, and more for each of its rows
//   THREADS  of the block that places drafts, a multiple of 32      ROWS  of each of them
// A row of a step is a request; its place is where the engine's arrays by request have it.

typedef unsigned long long u64;
typedef long long i64;

// One block, to the host's memory: of each row step, emitted, rejected, length, source, then the newest tokens, newest
// first. It then rings the doorbell: the step's number, once all words are visible to the host.
extern "C" __global__ void write_record(const int* tokens, const i64* places, const int* lengths, const int* emitted,
                                        const int* rejected, int* source, int* record, int* doorbell, int stride,
                                        int rows, int step) {
  for (int i = threadIdx.x; i < rows * (RECORD_HEADER + SPAN); i += blockDim.x) {
    const int row = i / (RECORD_HEADER + SPAN), word = i % (RECORD_HEADER + SPAN), at = word - RECORD_HEADER;
    const i64 place = places[row];
    const int length = lengths[place];
    if (at >= 0)
      record[i] = at < length ? tokens[place * stride + length - 1 - at] : 0;
    else if (word == 4)
      record[i] = source[place], source[place] = 0;
    else
      record[i] = word == 0 ? step : word == 1 ? emitted[row] : word == 2 ? rejected[row] : length;
  }
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("st.release.sys.global.b32 [%0], %1;" ::"l"(doorbell), "r"(step) : "memory");
}

__device__ __forceinline__ int acquired(const int* word) {
  int value;
  asm volatile("ld.acquire.sys.global.b32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ __forceinline__ u64 now_ns() {
  u64 time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time)::"memory");
  return time;
}

// Tokens that a row's drafts save on average.
__device__ __forceinline__ float expected_tokens(const float* sure) {
  float survival = 1, tokens = 0;
#pragma unroll
  for (int at = 0; at < MOST; at++) tokens += survival *= sure[at];
  return tokens;
}

// One block: all drafts and confidences, as soon as the host has completed this step; without an answer in time, none.
// A host whose own model drafts is waited for `more_us` longer.
// Beside the cache a model has made its first `modelled` drafts, 0 for no model, sure by place: a row has those that
// save more tokens, the cache's where both save the same. A row that begins with -1 has none of the model. `source`
// tells whose they are: 0 the cache's, 1 none, 2 the model's. One thread reads the word: several would read one after
// the other, 1 us each, and might see different words. A host that has not completed the step before either is not
// waited for. Numbers wrap, so their difference counts.
extern "C" __global__ void take_drafts(const int* completed, const i64* tokens, const float* confidences,
                                       const i64* places, const i64* model_tokens, const float* model_sure, i64* drafts,
                                       float* sure, i64* drafts_by_place, float* sure_by_place, int* source, int stride,
                                       int rows, int step, int modelled, int more_us) {
  __shared__ bool came;
  __shared__ float models[MOST];
  for (int at = threadIdx.x; at < MOST; at += blockDim.x) models[at] = at < modelled ? __ldcv(model_sure + at) : 0;
  if (threadIdx.x == 0) {
    const u64 begun = now_ns(), patience = PATIENCE_NS + (u64)ROW_NS * rows + (u64)1000 * more_us;
    auto behind = [&] { return (int)((unsigned)step - (unsigned)acquired(completed)); };
    int left = behind();
    for (bool waits = left == 1; waits; waits = left > 0 && now_ns() - begun < patience) left = behind();
    came = left <= 0;
  }
  __syncthreads();  // and with the word, all that the host wrote before it
  for (int row = threadIdx.x; row < rows; row += blockDim.x) {
    float cached[MOST];
    bool is_models = modelled > 0;  // without a model nothing is read here: the host's memory is far
    if (is_models) {
#pragma unroll
      for (int at = 0; at < MOST; at++) cached[at] = came ? __ldcv(confidences + row * MOST + at) : 0;
      is_models = model_tokens[row * MOST] >= 0 && expected_tokens(models) > expected_tokens(cached);
    }
    source[places[row]] = is_models ? 2 : !came;
  }
  __syncthreads();  // each row's source
  for (int i = threadIdx.x; i < rows * MOST; i += blockDim.x) {
    const i64 place = places[i / MOST];
    const bool is_models = source[place] == 2, is_made = i % MOST < modelled;
    const i64 token = is_models ? (is_made ? model_tokens[i] : 0) : came ? __ldcv(tokens + i) : 0;
    const float confidence = is_models ? models[i % MOST] : came ? __ldcv(confidences + i) : 0;
    drafts[i] = token, drafts_by_place[place * stride + i % MOST] = token;
    sure[i] = confidence, sure_by_place[place * MOST + i % MOST] = confidence;
  }
}

// The sum of the threads in front of this one, and of all, which come to the same call together.
struct Sums {
  int before, all;
};
__device__ __forceinline__ Sums sums_of(int mine) {
  __shared__ int of_warps[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int upto = mine;
  for (int by = 1; by < 32; by *= 2) {
    const int other = __shfl_up_sync(~0u, upto, by);
    if (lane >= by) upto += other;
  }
  __syncthreads();  // those of the call before are read
  if (lane == 31) of_warps[warp] = upto;
  __syncthreads();
  Sums sums{upto - mine, 0};
  for (int i = 0; i < THREADS / 32; i++) {
    if (i == warp) sums.before += sums.all;
    sums.all += of_warps[i];
  }
  return sums;
}

// One block: the drafts that most probably survive, as many as the budget, and the batch that they make. Survival falls
// along a row, so the best drafts of all rows are the first ones of each. `planned` and `plain` are a row's drafts and
// other tokens; logits_from and tokens_from [rows + 1] get where each row's begin.
extern "C" __global__ void __launch_bounds__(THREADS)
    place_drafts(const float* sure_by_place, const i64* places, const int* planned, const int* plain, int* logits_from,
                 int* tokens_from, int rows, int budget, int bonus) {
  int score[ROWS][MOST],
      first = threadIdx.x * ROWS;  // 16 bits are fine enough: found in 16 steps; 0 is no draft at all
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const bool here = first + r < rows;
    const int most = here ? planned[first + r] : 0;
    const float* sure = sure_by_place + (here ? places[first + r] : 0) * MOST;
    float survival = 1;
#pragma unroll
    for (int at = 0; at < MOST; at++) {
      if (at < most) survival *= sure[at];
      score[r][at] = at < most ? 1 + (int)(fminf(fmaxf(survival, 0), 1) * 65534) : 0;
    }
  }
  auto counted = [&](int r, auto matches) {
    int count = 0;
#pragma unroll
    for (int at = 0; at < MOST; at++) count += matches(score[r][at]);
    return count;
  };
  int threshold = 0;
  for (int bit = 32768; bit; bit /= 2) {
    int mine = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) mine += counted(r, [&](int one) { return one >= threshold + bit; });
    if (sums_of(mine).all >= budget) threshold += bit;
  }
  int above[ROWS], level[ROWS], sum_above = 0, sum_level = 0;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    sum_above += above[r] = counted(r, [&](int one) { return one > threshold; });
    sum_level += level[r] = counted(r, [&](int one) { return one == threshold && one; });
  }
  int left =
      budget - sums_of(sum_above).all - sums_of(sum_level).before;  // for those at the threshold, first rows first
  int sum_tokens = 0, sum_logits = 0;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const bool here = first + r < rows;
    above[r] += min(level[r], max(left, 0)), left -= level[r];
    level[r] = here ? above[r] + plain[first + r] : 0;
    sum_tokens += level[r], sum_logits += here ? above[r] + bonus : 0;
  }
  int tokens = sums_of(sum_tokens).before, logits = sums_of(sum_logits).before;
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    if (first + r < rows)
      logits_from[first + r + 1] = logits += above[r] + bonus, tokens_from[first + r + 1] = tokens += level[r];
  if (threadIdx.x == 0) logits_from[0] = tokens_from[0] = 0;
}
