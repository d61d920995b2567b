#include "host_drafting.h"

#include <algorithm>
#include <cstdio>
#include <exception>

namespace windlass {

namespace {
// The share of a step that a trial reads for, but a layer at least; guess. More would often answer the next doorbell
// late. Less would let the text, which grows with each step, outrun the reading.
constexpr double kReadShare = 0.5;
// Steps of reading after which a trial ends without a chain: a text that outruns its drafter by then goes on to; guess.
constexpr int kReadStepsMost = 96;
// µs of debt at most, so that one stall does not end trials for hours; guess
constexpr double kDebtUsMost = 2'000'000;
}  // namespace

HostDrafting::HostDrafting(std::shared_ptr<HostDrafter> drafter, int most, Token vocabulary, const PolicyConfig& config,
                           Clock clock)
    : drafter_(std::move(drafter)), most_(most), vocabulary_(vocabulary), config_(config), clock_(std::move(clock)) {}

HostDrafting::~HostDrafting() {
  end_trial();
  rest();
}

// A drafter that fails, as for want of memory, drafts no more; serving goes on.
template <class Work>
void HostDrafting::guarded(Work&& work) {
  if (has_failed_) return;
  try {
    work();
  } catch (const std::exception& error) {
    has_failed_ = true;
    std::fprintf(stderr, "windlass: lookahead: the draft model on the host failed and drafts no more: %s\n",
                 error.what());
  }
}

void HostDrafting::begin(const std::string& id, const std::vector<Token>& prompt) {
  const std::size_t kept = std::min(prompt.size(), static_cast<std::size_t>(drafter_->window()));
  texts_[id].assign(prompt.end() - static_cast<std::ptrdiff_t>(kept), prompt.end());
  if (id == trial_) end_trial();
  if (is_resting_) return;
  is_reading_ = true;
  guarded([&] { drafter_->begin(id, prompt); });
}

// A text is cut at two windows, so that cutting costs nothing a token.
void HostDrafting::append(const std::string& id, const std::vector<Token>& tokens) {
  const auto found = texts_.find(id);
  if (found == texts_.end()) return;
  std::vector<Token>& text = found->second;
  text.insert(text.end(), tokens.begin(), tokens.end());
  const auto window = static_cast<std::size_t>(drafter_->window());
  if (text.size() > 2 * window) text.erase(text.begin(), text.end() - static_cast<std::ptrdiff_t>(window));
  if (id == trial_) judge(tokens);
  if (!is_resting_ || id == trial_) guarded([&] { drafter_->append(id, tokens); });
}

void HostDrafting::finish(const std::string& id) {
  texts_.erase(id);
  if (id == trial_) end_trial();
  if (!is_resting_) guarded([&] { drafter_->finish(id); });
}

std::vector<std::vector<Token>> HostDrafting::draft(const std::vector<std::string>& ids, int k) {
  std::vector<std::vector<Token>> chains(ids.size());
  guarded([&] { drafter_->draft(ids, k, is_resting_, chains); });
  if (has_failed_) chains.assign(ids.size(), {});
  for (std::vector<Token>& chain : chains) {
    const auto unknown = std::find_if(chain.begin(), chain.end(), [this](Token token) { return token >= vocabulary_; });
    chain.erase(unknown, chain.end());
  }
  return chains;
}

std::vector<std::string> HostDrafting::readable(const std::vector<std::string>& ids) const {
  std::vector<std::string> found;
  for (const std::string& id : ids) {
    if (found.size() < drafter_->rows() && texts_.contains(id)) found.push_back(id);
  }
  return found;
}

bool HostDrafting::work(double budget_us) {
  if (is_resting_) return false;
  is_reading_ = false;
  guarded([&] { is_reading_ = drafter_->work(budget_us); });
  return is_reading_;
}

void HostDrafting::rest() {
  if (is_resting_) return;
  is_resting_ = true;
  ++counts_.rests;
  guarded([&] {
    for (const auto& [id, text] : texts_) drafter_->finish(id);
  });
}

void HostDrafting::wake() {
  if (!is_resting_) return;
  end_trial();
  is_resting_ = false;
  is_reading_ = true;
  ++counts_.wakes;
  guarded([&] {
    for (const auto& [id, text] : texts_) drafter_->begin(id, text);
  });
}

void HostDrafting::step(const std::vector<std::string>& ids, double step_us) {
  if (!is_resting_ || has_failed_ || ids.empty()) return;
  // A row that is preempted has no text that would judge its chain.
  if (!trial_.empty() && std::find(ids.begin(), ids.end(), trial_) == ids.end()) end_trial();
  const double times = config_.host_first_trials / (1.0 + tried_us_ / config_.host_first_trials_us);
  const double share = config_.host_trial_share * std::max(1.0, times);
  allowance_us_ = std::min(allowance_us_ + share * step_us, config_.host_trial_us_max);
  if (!chain_.empty() || (trial_.empty() && allowance_us_ <= 0)) return;
  const Clock::Point since = clock_.now();
  if (trial_.empty()) {
    const auto found = texts_.find(ids[next_++ % ids.size()]);
    if (found == texts_.end()) return;
    const std::size_t length =
        std::min<std::size_t>(found->second.size(), static_cast<std::size_t>(config_.host_trial_tokens));
    trial_ = found->first;
    ++counts_.trials;
    chains_ = 0;
    read_steps_ = 0;
    guarded([&] { drafter_->begin(trial_, std::span(found->second).last(length)); });
  } else if (!drafter_->ready(trial_)) {
    if (++read_steps_ > kReadStepsMost) {
      ++counts_.outrun;
      end_trial();
    } else {
      guarded([&] { drafter_->work(kReadShare * step_us); });
    }
  } else if (chains_ >= config_.host_trial_chains) {
    end_trial();
  } else {
    chain_ = draft({trial_}, most_)[0];
    agreed_ = 0;
    ++chains_;
    if (chain_.empty()) end_trial();
  }
  const double took_us = clock_.us_since(since);
  allowance_us_ = std::max(allowance_us_ - took_us, -kDebtUsMost);
  tried_us_ += took_us;
}

void HostDrafting::judge(const std::vector<Token>& tokens) {
  for (const Token token : tokens) {
    if (chain_.empty()) return;
    const bool is_right = chain_[agreed_] == token;
    agreed_ += is_right;
    if (is_right && agreed_ < chain_.size()) continue;
    judged_.emplace_back(chain_.size(), agreed_);
    chain_.clear();
  }
}

void HostDrafting::end_trial() {
  chain_.clear();
  if (trial_.empty()) return;
  guarded([&] { drafter_->finish(trial_); });
  trial_.clear();
}

}  // namespace windlass
