// Random calls against the core under the sanitizers: few token ids, tiny tables, so that evictions and wraps come at
// once.
//
// `lookahead_fuzz [rounds] [seed]` draws the calls itself; a file of bytes as the first argument is read in place of
// chance.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "cache.h"
#include "random_decoder.h"

namespace {

using windlass::Cache;
using windlass::Options;
using windlass::Token;

class Source {
 public:
  explicit Source(std::uint32_t seed) : random_(seed) {}
  explicit Source(std::vector<unsigned char> bytes) : bytes_(std::move(bytes)), from_file_(true) {}
  std::uint32_t below(std::uint32_t limit) {
    if (!from_file_) return static_cast<std::uint32_t>(random_() % limit);
    return at_ < bytes_.size() ? bytes_[at_++] % limit : 0;
  }
  bool ended() const { return from_file_ && at_ >= bytes_.size(); }

 private:
  std::mt19937 random_{0};
  std::vector<unsigned char> bytes_;
  std::size_t at_ = 0;
  bool from_file_ = false;
};

Options options_from(Source& source) {
  Options options;
  options.mode = static_cast<windlass::Mode>(source.below(3));
  options.cache_size = 16 + source.below(2000);
  options.copy_length = 1 + static_cast<int>(source.below(20));
  options.match_length = 1 + static_cast<int>(source.below(5));
  options.turbo_match_length = 1 + static_cast<int>(source.below(16));
  options.min_match_length = 1 + static_cast<int>(source.below(static_cast<std::uint32_t>(options.turbo_match_length)));
  options.cell_max_size = 1 + static_cast<int>(source.below(32));
  options.voc_size = 4 + source.below(40);
  options.max_seq_len = 1 + source.below(300);
  options.top_k = 1 + static_cast<int>(source.below(4));
  options.is_hybrid = source.below(2) == 0;
  options.target_parallelism = 1 + static_cast<int>(source.below(60));
  options.top_k_in_cell = 1 + static_cast<int>(source.below(16));
  options.token_paths_top_k = 1 + static_cast<int>(source.below(4));
  options.num_threads = 1 + static_cast<int>(source.below(3));
  options.global_cache_switch = source.below(4) != 0;
  options.ignore_prompt = source.below(4) == 0;
  options.min_gain = static_cast<float>(source.below(100)) / 200.0F;
  return options;
}

std::vector<Token> text(Source& source, const Options& options, std::uint32_t most) {
  std::vector<Token> tokens(source.below(most + 1));
  for (Token& token : tokens) token = source.below(options.voc_size + (source.below(200) == 0 ? 1 : 0));
  return tokens;
}

void check(const std::vector<windlass::Draft>& drafts, const std::vector<int>& most, const Options& options) {
  std::size_t total = drafts.size();
  for (std::size_t row = 0; row < drafts.size(); ++row) {
    const windlass::Draft& draft = drafts[row];
    if (draft.tokens.size() != draft.probabilities.size()) std::abort();
    if (static_cast<int>(draft.tokens.size()) > std::min(std::max(most[row], 0), options.copy_length)) std::abort();
    for (const Token token : draft.tokens) {
      if (token >= options.voc_size) std::abort();
    }
    total += draft.tokens.size();
  }
  if (total > std::max<std::size_t>(drafts.size(), static_cast<std::size_t>(options.target_parallelism))) std::abort();
}

void round(Source& source, const std::string& file) {
  const Options options = options_from(source);
  Cache cache(options);
  const std::uint64_t bytes = cache.bytes();
  for (int call = 0; call < 200 && !source.ended(); ++call) {
    std::vector<std::string> ids;
    for (std::uint32_t i = 0, rows = source.below(24); i < rows; ++i)
      ids.push_back(std::to_string(source.below(4) == 0 ? i / 2 : i));
    try {
      switch (source.below(8)) {
        case 0:
        case 1:
          cache.begin(std::to_string(source.below(24)), text(source, options, 200));
          break;
        case 2:
          cache.finish(std::to_string(source.below(24)));
          break;
        case 3:
          cache.teach(text(source, options, 50), text(source, options, 50));
          break;
        case 4: {
          const std::string tokenizer = source.below(2) == 0 ? "a" : "b";
          if (source.below(10) == 0) cache.save(file, tokenizer);
          if (source.below(10) == 0) cache.load(file, "a");
          break;
        }
        default: {
          std::vector<int> most;
          std::vector<std::vector<Token>> rows;
          std::erase_if(ids, [&](const std::string& id) { return !cache.knows(id) && source.below(8) != 0; });
          for (std::size_t i = 0; i < ids.size(); ++i) most.push_back(static_cast<int>(source.below(24)) - 2);
          const auto drafts = cache.propose(ids, most, source.below(3) == 0 ? 0.0F : -1.0F);
          check(drafts, most, options);
          for (const auto& draft : drafts) {
            rows.push_back(source.below(2) == 0 ? draft.tokens
                                                : text(source, options, source.below(40) == 0 ? 700 : 8));
          }
          if (source.below(2) == 0) {
            cache.accept(ids, rows);
          } else {
            std::vector<int> verified;
            for (std::size_t i = 0; i < ids.size(); ++i) verified.push_back(static_cast<int>(source.below(8)) - 1);
            cache.append(ids, rows, verified);  // settled by what comes next
            if (source.below(2) == 0) cache.withhold(ids);
          }
        }
      }
    } catch (const std::logic_error&) {
    } catch (const std::runtime_error&) {}
    if (cache.entries() * 16 > bytes + 64) std::abort();
  }
}

// Rows of a draft model that begin, go on and end in any order; a chain has as many tokens as were asked for.
void draft_round(Source& source) {
  const auto path = static_cast<windlass::Path>(source.below(5));
  const auto model = windlass::random_model(source.below(2) == 0 ? 8 : 4, path, 1 + static_cast<int>(source.below(2)),
                                            1 + static_cast<int>(source.below(4)), 64);
  const auto tokens = [&](std::uint32_t most) {
    std::vector<Token> text(source.below(most));
    for (Token& token : text) token = source.below(windlass::kTinyVocabulary);
    return text;
  };
  for (int call = 0; call < 60 && !source.ended(); ++call) {
    const std::string key(1, static_cast<char>('a' + source.below(6)));
    switch (source.below(6)) {
      case 0:
        model->begin(key, tokens(200));
        break;
      case 1:
        model->finish(key);
        break;
      case 2:
        model->work(source.below(2) * 200);
        break;
      case 3: {
        std::vector<std::vector<Token>> chains;
        const std::vector<std::string> keys = {"a", "b", "c", "d", "e", "f", "none"};
        std::vector<bool> ready;
        for (const std::string& one : keys) ready.push_back(model->ready(one));
        const std::uint32_t k = source.below(20);
        model->draft(keys, static_cast<int>(k), k % 2 == 0, chains);
        for (std::size_t i = 0; i < keys.size(); ++i) {
          if (!chains[i].empty() && (!ready[i] || chains[i].size() != std::min<std::size_t>(k, 16))) std::abort();
          if (source.below(2) == 0) model->append(keys[i], chains[i]);
        }
        break;
      }
      default:
        model->append(key, tokens(source.below(4) == 0 ? 100 : 6));
    }
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("lookahead-fuzz-" + std::to_string(std::random_device{}()))).string();
  if (count > 1 && std::filesystem::is_regular_file(words[1])) {
    std::ifstream input(words[1], std::ios::binary);
    Source source(std::vector<unsigned char>{std::istreambuf_iterator<char>(input), {}});
    round(source, file);
  } else {
    const int rounds = count > 1 ? std::atoi(words[1]) : 200;
    const int seed = count > 2 ? std::atoi(words[2]) : 1;
    for (int i = 0; i < rounds; ++i) {
      Source source(static_cast<std::uint32_t>(seed + i));
      round(source, file);
      if (i % 4 == 0) draft_round(source);
    }
    std::printf("%d rounds from seed %d: nothing found\n", rounds, seed);
  }
  std::filesystem::remove(file);
  return 0;
}
