// One request's own text: its tokens, the contexts in them, and where its longest matches stand.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "options.h"
#include "table.h"
#include "view.h"

namespace windlass {

struct Draft {
  std::vector<Token> tokens;
  std::vector<float> probabilities;  // that this token and all before it are accepted
};

struct Counts {
  std::uint64_t num_iters = 0;
  std::uint64_t hit_iters = 0;
  std::uint64_t hit_len = 0;
  std::uint64_t lookahead_len = 0;
};

// What was predicted for a place, and what stood there.
struct Lesson {
  View view;
  Token token = 0;
};

class Request {
 public:
  Request(const Options& options, std::size_t tokens) : options_(options) { rebuild(tokens * 2 + 512); }

  // Notes `token` behind the text in the request's own index.
  void append(Token token) {
    const auto here = static_cast<std::uint32_t>(text.size());
    if (text.size() == room_) rebuild(room_ * 2);
    index(here, token);
    text.push_back(token);
  }

  const ContextTable& contexts() const { return *contexts_; }
  std::uint64_t bytes() const {
    return contexts_->bytes() + text.capacity() * sizeof(Token) + lessons.capacity() * sizeof(Lesson);
  }

  std::vector<Token> text;  // prompt, then output
  Track track;
  Draft draft;
  bool proposed = false;  // since the last accept
  View next;              // of the text's end, as the last proposal saw it
  bool next_known = false;
  std::vector<Lesson> lessons;  // of its newest tokens, until they are settled
  Counts counts;
  std::uint64_t batch = 0;  // the last batch that named it

 private:
  void index(std::uint32_t here, Token token) {
    contexts_->add(extend_hash(kUseSalt, token), token, here);
    std::uint64_t hash = 0;
    for (int order = 1; order <= options_.turbo_match_length && static_cast<std::uint32_t>(order) <= here; ++order) {
      hash = extend_hash(hash, text[here - static_cast<std::uint32_t>(order)]);
      contexts_->add(hash, token, here);
    }
  }
  void rebuild(std::size_t room) {
    room_ = room;
    const CellRules rules{options_.cell_max_size, options_.threshold, options_.decay};
    const auto orders = static_cast<std::uint64_t>(options_.turbo_match_length);
    contexts_ = std::make_unique<ContextTable>(room * (orders + 1) * 3 / 2, rules);
    for (std::uint32_t here = 0; here < text.size(); ++here) index(here, text[here]);
  }

  const Options& options_;
  std::size_t room_ = 0;
  std::unique_ptr<ContextTable> contexts_;
};

}  // namespace windlass
