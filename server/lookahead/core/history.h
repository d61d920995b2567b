// The text that positions point into: blocks of tokens, linked in the order in which one request wrote them.
//
// Requests decode side by side, so each writes into a block of its own; the oldest block is taken again when all are in
// use. A position is never taken on trust: whoever follows one compares the tokens before it.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "options.h"

namespace windlass {

constexpr std::uint32_t kBlock = 64;
constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
constexpr Token kNoToken = std::numeric_limits<Token>::max();

class History {
 public:
  explicit History(std::uint64_t tokens)
      : blocks_(static_cast<std::uint32_t>(std::bit_ceil(std::max<std::uint64_t>(tokens / kBlock, 4)))),
        tokens_(static_cast<std::uint64_t>(blocks_) * kBlock, kNoToken),
        previous_(blocks_, kNowhere),
        next_(blocks_, kNowhere) {}

  // Writes one token behind position `last` of the same request (kNowhere: a new beginning) and returns its position.
  std::uint32_t append(std::uint32_t last, Token token) {
    std::uint32_t at = 0;
    if (last != kNowhere && alive(last) && (last + 1) % kBlock != 0) {
      at = last + 1;
    } else {
      at = take_block(last != kNowhere && alive(last) ? last / kBlock : kNowhere) * kBlock;
    }
    tokens_[index(at)] = token;
    return at;
  }

  Token at(std::uint32_t position) const { return alive(position) ? tokens_[index(position)] : kNoToken; }

  std::uint32_t after(std::uint32_t position) const {
    if (!alive(position)) return kNowhere;
    if ((position + 1) % kBlock != 0) return position + 1;
    const std::uint32_t block = next_[slot(position / kBlock)];
    return block == kNowhere ? kNowhere : block * kBlock;
  }

  std::uint32_t before(std::uint32_t position) const {
    if (!alive(position)) return kNowhere;
    if (position % kBlock != 0) return position - 1;
    const std::uint32_t block = previous_[slot(position / kBlock)];
    return block == kNowhere ? kNowhere : block * kBlock + kBlock - 1;
  }

  std::uint64_t bytes() const { return tokens_.size() * sizeof(Token) + 2ULL * blocks_ * sizeof(std::uint32_t); }

  template <class Visitor>
  void visit(Visitor&& visitor) {
    visitor(taken_), visitor(tokens_), visitor(previous_), visitor(next_);
  }

 private:
  std::uint32_t slot(std::uint32_t block) const { return block & (blocks_ - 1); }
  std::uint64_t index(std::uint32_t position) const {
    return static_cast<std::uint64_t>(slot(position / kBlock)) * kBlock + position % kBlock;
  }
  bool alive(std::uint32_t position) const {
    const std::uint32_t block = position / kBlock;
    return block < taken_ && taken_ - block <= blocks_;
  }
  std::uint32_t take_block(std::uint32_t from) {
    if (taken_ == kNowhere / kBlock)
      taken_ = 0;  // 4 thousand million tokens later: old positions fail their comparison
    const std::uint32_t block = taken_++;
    const std::uint32_t here = slot(block);
    const std::uint32_t lost = next_[here];
    if (lost != kNowhere && alive(lost * kBlock)) previous_[slot(lost)] = kNowhere;
    std::fill_n(tokens_.begin() + static_cast<std::int64_t>(here) * kBlock, kBlock, kNoToken);
    previous_[here] = kNowhere;
    next_[here] = kNowhere;
    if (from != kNowhere && alive(from * kBlock)) {
      previous_[here] = from;
      next_[slot(from)] = block;
    }
    return block;
  }

  std::uint32_t blocks_;
  std::uint32_t taken_ = 0;
  std::vector<Token> tokens_;
  std::vector<std::uint32_t> previous_;
  std::vector<std::uint32_t> next_;
};

}  // namespace windlass
