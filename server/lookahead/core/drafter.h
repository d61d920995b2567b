// One draft: a chain of tokens, each with the probability that it and all before it are accepted.
//
// Turbo follows the likeliest next token by all evidence, along up to token_paths_top_k first tokens. Raw copies what
// followed the last match_length tokens. Both end where the next token is not worth its place.
#pragma once

#include <algorithm>
#include <vector>

#include "calibration.h"
#include "predictor.h"
#include "request.h"

namespace windlass {

class Drafter {
 public:
  Drafter(const Options& options, const Sources& sources, const Mixer& mixer, const Calibration& calibration,
          float min_gain)
      : options_(options),
        sources_(sources),
        predictor_(sources),
        mixer_(mixer),
        calibration_(calibration),
        min_gain_(min_gain) {}

  // Writes request.draft, at most `most` tokens; the request's text and matches stay as they are.
  void draft(Request& request, int most) {
    Draft& best = request.draft;
    best.tokens.clear();
    best.probabilities.clear();
    most = std::min(most, options_.copy_length);
    most = std::min<int>(
        most, static_cast<int>(std::max<std::int64_t>(
                  0, std::int64_t{options_.max_seq_len} - static_cast<std::int64_t>(request.text.size()) - 1)));
    predictor_.look(request.text, request.track, request.next);
    request.next_known = true;
    if (most <= 0 || request.next.size == 0) return;
    if (options_.mode != Mode::kRaw && request.next.longest >= options_.min_match_length) turbo(request, most);
    if (options_.mode == Mode::kRaw || (options_.mode == Mode::kBoth && best.tokens.empty())) raw(request, most);
  }

 private:
  struct Choice {
    int index = -1;
    float p = 0;
  };

  void turbo(Request& request, int most) {
    std::vector<Choice> firsts(static_cast<std::size_t>(request.next.size));
    for (int i = 0; i < request.next.size; ++i) firsts[i] = {i, price(request.next, i, 0)};
    std::stable_sort(firsts.begin(), firsts.end(), [](const Choice& a, const Choice& b) { return a.p > b.p; });
    const auto paths = std::min<std::size_t>(firsts.size(), static_cast<std::size_t>(options_.token_paths_top_k));
    float best = 0;
    for (std::size_t path = 0; path < paths; ++path) {
      const Choice& first = firsts[path];
      if (first.p < min_gain_ || first.p < firsts[0].p / 2 || first.p * static_cast<float>(most) <= best) break;
      Draft chain;
      const float gain = follow(request, request.next.candidates[first.index].token, first.p, most, chain);
      if (gain > best) {
        best = gain;
        request.draft = std::move(chain);
      }
    }
  }

  // Extends a chain by the likeliest token until it is not worth its place; returns the expected number of accepted
  // tokens.
  float follow(Request& request, Token token, float together, int most, Draft& chain) {
    const std::size_t length = request.text.size();
    Track track = request.track;
    float gain = 0;
    for (;;) {
      gain += together;
      chain.tokens.push_back(token);
      chain.probabilities.push_back(together);
      const int depth = static_cast<int>(chain.tokens.size());
      if (depth == most || token == options_.eos_token_id) break;
      predictor_.advance(request.text, track, token);
      request.text.push_back(token);
      predictor_.look(request.text, track, view_);
      const Choice next = likeliest(view_, depth);
      if (next.index < 0 || together * next.p < min_gain_) break;
      together *= next.p;
      token = view_.candidates[next.index].token;
    }
    request.text.resize(length);
    return gain;
  }

  // Copies: the phrase that followed the last match_length tokens (is_hybrid: or fewer), the request's own first.
  void raw(Request& request, int most) {
    const int shortest = options_.is_hybrid ? 1 : options_.match_length;
    for (int order = std::min<int>(options_.match_length, static_cast<int>(request.text.size())); order >= shortest;
         --order) {
      const std::uint64_t hash = hash_of(request.text, order);
      if (sources_.own->find(hash, cell_) && copy(request, request.track.own, true, most)) return;
      if (sources_.shared != nullptr && sources_.shared->find(hash, cell_) &&
          copy(request, request.track.shared, false, most)) {
        return;
      }
    }
  }

  // Tries the top_k most frequent, newest phrases of the cell; false: none is worth drafting.
  bool copy(Request& request, const Pointer& longest, bool own, int most) {
    auto* first = cell_.items;
    std::stable_sort(first, first + cell_.size, [](const Successor& a, const Successor& b) {
      return a.freq != b.freq ? a.freq > b.freq : static_cast<std::int32_t>(a.position - b.position) > 0;
    });
    const Cell phrases = cell_;
    for (int i = 0; i < std::min(phrases.size, options_.top_k); ++i) {
      const bool is_longest =
          longest.next != kNowhere && token_at(request, longest.next, own) == phrases.items[i].token;
      if (copy_from(request, is_longest ? longest.next : phrases.items[i].position, phrases.items[i].token, own, most))
        return true;
    }
    return false;
  }

  bool copy_from(Request& request, std::uint32_t from, Token token, bool own, int most) {
    const std::size_t length = request.text.size();
    Track track = request.track;
    const View* view = &request.next;
    float together = 1;
    while (static_cast<int>(request.draft.tokens.size()) < most && token != kNoToken) {
      together *= price_of(*view, token, static_cast<int>(request.draft.tokens.size()));
      if (together < min_gain_) break;
      request.draft.tokens.push_back(token);
      request.draft.probabilities.push_back(together);
      if (token == options_.eos_token_id) break;
      predictor_.advance(request.text, track, token);
      request.text.push_back(token);
      predictor_.look(request.text, track, view_);
      view = &view_;
      from = own ? from + 1 : sources_.history->after(from);
      token = from == kNowhere ? kNoToken : token_at(request, from, own);
    }
    request.text.resize(length);
    return !request.draft.tokens.empty();
  }

  Token token_at(const Request& request, std::uint32_t position, bool own) const {
    if (own) return position < request.text.size() ? request.text[position] : kNoToken;
    return sources_.history->at(position);
  }

  float price(const View& view, int candidate, int depth) const {
    return calibration_.right(mixer_.probability(view.candidates[candidate].evidence, view.set), depth);
  }
  float price_of(const View& view, Token token, int depth) const {
    for (int i = 0; i < view.size; ++i) {
      if (view.candidates[i].token == token) return price(view, i, depth);
    }
    return 0;
  }
  Choice likeliest(const View& view, int depth) const {
    Choice best;
    for (int i = 0; i < view.size; ++i) {
      const float p = price(view, i, depth);
      if (p > best.p) best = {i, p};
    }
    return best;
  }

  const Options& options_;
  Sources sources_;
  Predictor predictor_;
  const Mixer& mixer_;
  const Calibration& calibration_;
  float min_gain_;
  View view_;
  Cell cell_;
};

}  // namespace windlass
