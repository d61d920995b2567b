// The rows of a drafter on the host: their text, what of it the drafter has, and its trials while it rests.
//
// The drafter rests where the policy found that it cannot win: it then holds no text, and no step waits for it. Now and
// then it reads the end of one row's text and drafts a chain that no device sees. The text that follows judges the
// chain, so the policy learns whether waking it pays. Trials have the allowance of PolicyConfig::host_trial_share; at
// first they have a multiple of it, since nothing is known then. One that has begun goes on to its end,
// or until its text outruns it, and its time is paid for before the next begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "clock.h"
#include "host_drafter.h"
#include "policy_config.h"

namespace windlass {

struct HostCounts {
  std::uint64_t rests = 0;
  std::uint64_t wakes = 0;
  std::uint64_t trials = 0;  // that began
  std::uint64_t outrun = 0;  // of them, those that were given up after too many steps of reading
};

class HostDrafting {
 public:
  // Drafts at most `most` tokens, each below `vocabulary`.
  HostDrafting(std::shared_ptr<HostDrafter> drafter, int most, Token vocabulary, const PolicyConfig& config,
               Clock clock);
  // The drafter may serve another one next, which needs the rows.
  ~HostDrafting();
  HostDrafting(const HostDrafting&) = delete;
  HostDrafting& operator=(const HostDrafting&) = delete;

  void begin(const std::string& id, const std::vector<Token>& prompt);
  void append(const std::string& id, const std::vector<Token>& tokens);
  void finish(const std::string& id);
  bool is_resting() const { return is_resting_; }
  // Of these rows those that it can read: it has their text, and room for so many.
  std::vector<std::string> readable(const std::vector<std::string>& ids) const;
  bool ready(const std::string& id) const { return !is_resting_ && !has_failed_ && drafter_->ready(id); }
  double draft_ms(std::size_t rows, int k) const { return drafter_->draft_ms(static_cast<int>(rows), k); }
  // Chains of at most k tokens; none where the drafter failed, which ends it.
  std::vector<std::vector<Token>> draft(const std::vector<std::string>& ids, int k);
  // Reads text that waits. Whether more of it waits.
  bool work(double budget_us);
  // Whether text waited when work() last looked, or a request began since.
  bool is_reading() const { return is_reading_ && !is_resting_ && !has_failed_; }

  void rest();
  void wake();
  // A step of these rows took so many µs; a trial goes on, or begins where allowance is left. Chains that the text
  // judged are put out as drafts made and drafts accepted.
  void step(const std::vector<std::string>& ids, double step_us);
  std::vector<std::pair<std::size_t, std::size_t>> take_judged() { return std::exchange(judged_, {}); }
  const HostCounts& counts() const { return counts_; }

 private:
  void judge(const std::vector<Token>& tokens);
  void end_trial();
  template <class Work>
  void guarded(Work&& work);

  std::shared_ptr<HostDrafter> drafter_;
  int most_;
  Token vocabulary_;
  PolicyConfig config_;
  Clock clock_;
  std::unordered_map<std::string, std::vector<Token>> texts_;  // the end of each, at least a window
  bool is_resting_ = false;
  bool is_reading_ = false;
  bool has_failed_ = false;
  std::string trial_;         // the row that is tried; empty for none
  std::vector<Token> chain_;  // its drafts that are not judged yet
  std::size_t agreed_ = 0;    // of them, that the text has taken over
  int chains_ = 0;            // of this trial
  int read_steps_ = 0;        // of this trial
  std::size_t next_ = 0;      // row of the step that the next trial takes
  double allowance_us_ = 0;
  double tried_us_ = 0;  // of all trials
  std::vector<std::pair<std::size_t, std::size_t>> judged_;
  HostCounts counts_;
};

}  // namespace windlass
