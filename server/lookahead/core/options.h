// Options of the cache. Names, defaults and meaning are those of docs/reference/lookahead.md; Python validates.
#pragma once

#include <cstdint>

namespace windlass {

using Token = std::uint32_t;

enum class Mode : int { kRaw = 0, kTurbo = 1, kBoth = 2 };

struct Options {
  Mode mode = Mode::kBoth;
  std::uint64_t cache_size = 5'000'000;
  int copy_length = 7;
  int match_length = 2;
  int turbo_match_length = 7;
  int min_match_length = 2;
  int cell_max_size = 16;
  Token voc_size = 200'000;
  std::uint32_t max_seq_len = 32'768;
  Token eos_token_id = 2;
  int top_k = 1;
  float threshold = 2.0F;
  float decay = 0.5F;
  bool is_hybrid = true;
  int target_parallelism = 512;
  int top_k_in_cell = 16;
  int token_paths_top_k = 2;
  float start_freq = 10.0F;
  int num_threads = 8;
  bool global_cache_switch = true;
  bool ignore_prompt = false;
  float min_gain = 0.14F;  // a drafted token stays when it is accepted with at least this probability
};

}  // namespace windlass
