// What may come next after a text, by the request's own contexts, the shared ones, and the longest matches of both.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "history.h"
#include "table.h"
#include "view.h"

namespace windlass {

// A match of this length needs no shorter contexts beside it.
constexpr std::uint32_t kSure = 16;

// The hash of the last `order` tokens of a text that is at least as long.
inline std::uint64_t hash_of(const std::vector<Token>& text, int order) {
  std::uint64_t hash = 0;
  for (int i = 0; i < order; ++i) hash = extend_hash(hash, text[text.size() - 1 - static_cast<std::size_t>(i)]);
  return hash;
}

// The tables that a prediction reads. `shared` and `history` may be absent (global_cache_switch off).
struct Sources {
  const ContextTable* own = nullptr;
  const ContextTable* shared = nullptr;
  const History* history = nullptr;
  const std::vector<std::uint32_t>* uses = nullptr;  // of each token, in the shared cache
  int orders = 7;
  int top_k_in_cell = 16;
};

class Predictor {
 public:
  explicit Predictor(const Sources& sources) : sources_(sources) {}

  // Fills `view` for the end of `text`; moves the matches of `track` to longer ones where it finds them.
  void look(const std::vector<Token>& text, Track& track, View& view) {
    view.size = 0;
    std::array<std::uint64_t, kOrders> hashes;
    const int orders = static_cast<int>(std::min<std::size_t>(text.size(), static_cast<std::size_t>(sources_.orders)));
    std::uint64_t hash = 0;
    for (int i = 0; i < orders; ++i) {
      hash = extend_hash(hash, text[text.size() - 1 - static_cast<std::size_t>(i)]);
      hashes[static_cast<std::size_t>(i)] = hash;
    }
    if (sources_.shared != nullptr) {
      for (int i = 0; i < orders; ++i) sources_.shared->prefetch(hashes[static_cast<std::size_t>(i)]);
    }
    const bool sure = std::max(track.own.length, track.shared.length) >= kSure;
    own_.read(sources_.own, hashes, orders, sure);
    shared_.read(sources_.shared, hashes, orders, sure);
    if (own_.ranks > 0) find_own(text, track.own);
    if (shared_.ranks > 0) find_shared(text, track.shared);
    collect(text, track, view);
  }

  // The text grew by `token`: matches go on or break.
  void advance(const std::vector<Token>& text, Track& track, Token token) const {
    if (track.aligned.next != kNowhere) {
      const bool agrees = track.aligned.next < text.size() && text[track.aligned.next] == token;
      track.aligned.length = agrees ? std::min(track.aligned.length + 1, kLongest) : 0;
      track.aligned.next = track.aligned.next + 1 < text.size() ? track.aligned.next + 1 : kNowhere;
    }
    if (track.own.next != kNowhere) {
      if (text[track.own.next] == token) {
        step(track.own, track.own.next + 1);
      } else {
        if (track.own.length >= 6) track.aligned = {track.own.next + 1, 0};
        track.own = {};
      }
    }
    if (track.shared.next != kNowhere) {
      if (sources_.history->at(track.shared.next) == token) {
        step(track.shared, sources_.history->after(track.shared.next));
      } else {
        track.shared = {};
      }
    }
  }

 private:
  // The cells of one source, longest context first, each with more to say than the one before.
  struct Ladder {
    std::array<Cell, kOrders> cells;
    std::array<int, kRanks> order;
    int ranks = 0;

    void read(const ContextTable* table, const std::array<std::uint64_t, kOrders>& hashes, int orders, bool sure) {
      ranks = 0;
      if (table == nullptr || orders == 0) return;
      int found = sure ? orders - 1 : 0;
      const int first = found;
      while (found < orders &&
             table->find(hashes[static_cast<std::size_t>(found)], cells[static_cast<std::size_t>(found)]))
        ++found;
      std::uint32_t total = 0;
      for (int at = found - 1; at >= first && ranks < kRanks; --at) {
        if (ranks > 0 && cells[static_cast<std::size_t>(at)].total <= total) continue;
        total = cells[static_cast<std::size_t>(at)].total;
        order[static_cast<std::size_t>(ranks++)] = at + 1;
      }
    }
    const Cell& cell(int rank) const {
      return cells[static_cast<std::size_t>(order[static_cast<std::size_t>(rank)] - 1)];
    }
  };

  // The next tokens by the three matches, and how long these are.
  struct Pointed {
    std::array<Token, kPointers> tokens;
    std::array<std::uint32_t, kPointers> lengths;
  };

  Pointed pointed_at(const std::vector<Token>& text, const Track& track) const {
    const Token own = track.own.next < text.size() ? text[track.own.next] : kNoToken;
    const Token shared = track.shared.next == kNowhere ? kNoToken : sources_.history->at(track.shared.next);
    const Token aligned = track.aligned.next < text.size() ? text[track.aligned.next] : kNoToken;
    return {{own, shared, aligned}, {track.own.length, track.shared.length, track.aligned.length}};
  }

  static void step(Pointer& pointer, std::uint32_t next) {
    pointer.next = next;
    pointer.length = std::min(pointer.length + 1, kLongest);
  }

  void find_own(const std::vector<Token>& text, Pointer& pointer) const {
    const Cell& cell = own_.cell(0);
    const std::uint32_t next = cell.items[cell.newest].position;
    if (pointer.next == next || pointer.length >= kLongest) return;
    std::uint32_t length = 0;
    while (length < kLongest && length < next && text[next - 1 - length] == text[text.size() - 1 - length]) ++length;
    if (length > pointer.length || (length == pointer.length && length > 0)) pointer = {next, length};
  }

  void find_shared(const std::vector<Token>& text, Pointer& pointer) const {
    const Cell& cell = shared_.cell(0);
    const std::uint32_t next = cell.items[cell.newest].position;
    if (pointer.next == next || pointer.length >= kLongest) return;
    std::uint32_t length = 0;
    std::uint32_t at = sources_.history->before(next);
    while (length < kLongest && length < text.size() && at != kNowhere &&
           sources_.history->at(at) == text[text.size() - 1 - length]) {
      ++length;
      at = sources_.history->before(at);
    }
    if (length > pointer.length || (length == pointer.length && length > 0)) pointer = {next, length};
  }

  static void propose(View& view, Token token) {
    for (int i = 0; i < view.size; ++i) {
      if (view.candidates[static_cast<std::size_t>(i)].token == token) return;
    }
    if (view.size == kCandidates || token == kNoToken) return;
    Candidate& added = view.candidates[static_cast<std::size_t>(view.size++)];
    added.token = token;
    added.evidence = Evidence();
  }

  static int strongest(const Cell& cell) {
    int best = 0;
    for (int i = 1; i < cell.size; ++i) {
      const auto& a = cell.items[i];
      const auto& b = cell.items[best];
      if (a.freq > b.freq || (a.freq == b.freq && static_cast<std::int32_t>(a.position - b.position) > 0)) best = i;
    }
    return best;
  }

  void collect(const std::vector<Token>& text, Track& track, View& view) const {
    const Pointed pointed = pointed_at(text, track);
    propose(view, pointed.tokens[0]);
    propose(view, pointed.tokens[1]);
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const Ladder* ladder : {&own_, &shared_}) {
        if (rank >= ladder->ranks) continue;
        const Cell& cell = ladder->cell(rank);
        propose(view, cell.items[strongest(cell)].token);
        if (rank == 0 && sources_.top_k_in_cell > 1) propose(view, cell.items[cell.newest].token);
      }
    }
    propose(view, pointed.tokens[2]);
    for (int i = 0; i < view.size; ++i) weigh(view.candidates[static_cast<std::size_t>(i)], pointed);
    view.longest = std::max<int>({own_.ranks > 0 ? own_.order[0] : 0, shared_.ranks > 0 ? shared_.order[0] : 0});
    const std::uint32_t far = std::max(track.own.length, track.shared.length);
    view.set = (level(own_) * 6 + level(shared_)) * 4 + (far >= kSure ? 3 : far >= 8 ? 2 : far >= 4 ? 1 : 0);
  }

  static int level(const Ladder& ladder) {
    if (ladder.ranks == 0) return 0;
    const int order = ladder.order[0];
    return order <= 3 ? order : order <= 5 ? 4 : 5;
  }

  void weigh(Candidate& candidate, const Pointed& pointed) const {
    weigh_cells(candidate, own_, 0);
    weigh_cells(candidate, shared_, 1);
    weigh_use(candidate);
    for (int i = 0; i < kPointers; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (pointed.tokens[at] == kNoToken) continue;
      candidate.evidence.states[static_cast<std::size_t>(kSources) * kRanks + at] =
          static_cast<std::int16_t>(pointer_state(i, pointed.lengths[at], pointed.tokens[at] == candidate.token));
    }
  }

  void weigh_use(Candidate& candidate) const {
    Cell cell;
    std::uint32_t own = 0;
    if (sources_.own->find(extend_hash(kUseSalt, candidate.token), cell)) own = cell.items[0].freq;
    const std::uint32_t shared = candidate.token < sources_.uses->size() ? (*sources_.uses)[candidate.token] : 0;
    const auto unit = static_cast<std::uint32_t>(kFreqUnit);
    candidate.evidence.states[kVoices - 1] = static_cast<std::int16_t>(use_state(own / unit, shared));
  }

  static void weigh_cells(Candidate& candidate, const Ladder& ladder, int source) {
    for (int rank = 0; rank < ladder.ranks; ++rank) {
      const Cell& cell = ladder.cell(rank);
      std::uint32_t freq = 0;
      bool newest = false;
      for (int i = 0; i < cell.size; ++i) {
        if (cell.items[i].token != candidate.token) continue;
        freq = cell.items[i].freq;
        newest = i == cell.newest;
        break;
      }
      const auto unit = static_cast<std::uint32_t>(kFreqUnit);
      const std::uint32_t count = (freq + unit / 2) / unit;
      const std::uint32_t rest = (cell.total - freq + unit / 2) / unit;
      candidate.evidence.states[static_cast<std::size_t>(source) * kRanks + static_cast<std::size_t>(rank)] =
          static_cast<std::int16_t>(
              cell_state(source, ladder.order[static_cast<std::size_t>(rank)], count, rest, newest));
    }
  }

  Sources sources_;
  Ladder own_;
  Ladder shared_;
};

}  // namespace windlass
