// Rows of one batch on several threads, under the thread sanitizer, which ends the program at the first race.
#include <cstdio>
#include <string>
#include <vector>

#include "cache.h"

namespace {
constexpr int kRows = 24;
constexpr int kSteps = 1500;

std::vector<windlass::Token> text(int row, int from, int count) {
  std::vector<windlass::Token> tokens;
  for (int at = from; at < from + count; ++at) tokens.push_back(static_cast<windlass::Token>((at * 7 + row) % 50));
  return tokens;
}
}  // namespace

int main() {
  windlass::Options options;
  options.voc_size = 1000;
  options.cache_size = 5000;
  options.num_threads = 4;
  windlass::Cache cache(options);
  std::vector<std::string> ids;
  for (int row = 0; row < kRows; ++row) {
    ids.push_back(std::to_string(row));
    cache.begin(ids.back(), text(row, 0, 60));
  }
  std::size_t drafted = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<windlass::Token>> tokens;
    for (int row = 0; row < kRows; ++row) tokens.push_back(text(row, step, 1 + step % 3));
    cache.append(ids, tokens, {});
    for (const windlass::Draft& draft : cache.propose(ids, std::vector<int>(kRows, 6), -1)) drafted += draft.tokens.size();
    if (step % 2 == 0) cache.settle();
    if (step % 50 == 49) {
      cache.finish(ids[static_cast<std::size_t>(step % kRows)]);
      cache.begin(ids[static_cast<std::size_t>(step % kRows)], text(step, 0, 20));
    }
  }
  std::printf("%d steps of %d rows on %d threads, %zu tokens drafted: no race\n", kSteps, kRows, options.num_threads, drafted);
  return drafted == 0 ? 1 : 0;
}
