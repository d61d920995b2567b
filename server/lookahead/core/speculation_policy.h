// How many drafts the scheduler plans for a request, a step verifies, and the device waits for.
// docs/explanation/speculation.md tells the rules in words.
//
// The policy has no clock, no thread and no lock: callers pass times. RoundTrip calls drafts_to_verify from the
// engine's thread and the rest from its drafting thread. It holds a lock around each call that writes what
// drafts_to_verify reads.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model_rest.h"
#include "policy_config.h"
#include "step_cost_model.h"

namespace windlass {

// Milliseconds that a model on the host takes for so many rows and so many drafts of each.
using HostCosts = std::function<double(std::size_t rows, int drafts)>;

// The next step of a batch as the engine schedules it.
struct NextStep {
  const std::vector<std::string>& ids;
  const std::vector<int>& planned;      // drafts of each request
  const std::vector<double>& costs_ms;  // of the step with 0, 1, … drafts; its end is the most that may be verified
  int emitting;                         // requests that get a token without any draft; the others read prompts
  bool is_decoding;                     // each request has one token beside its drafts
  int steps_behind;                     // steps whose doorbell has rung and whose drafts are not there
};

// A step after its drafts were made.
struct CompletedStep {
  std::size_t rows;
  bool is_decoding;      // every row got a token
  bool is_awaited;       // drafts of the next step are planned
  std::size_t verified;  // drafts
  int modelled;          // drafts of each row that the model beside the cache had made for it, or ModelRest::kRested
};

class SpeculationPolicy {
 public:
  // A draft budget is one byte: 0 plans none, else 1 + the drafts that a full step plans.
  static constexpr int kBudgetMax = 254;

  SpeculationPolicy(int max_drafts, const PolicyConfig& config);

  // -- Steps, in this order: doorbell, the drafts of each request, completed, update_planning. --

  // A doorbell rang for a step of `rows` rows, `period_us` after the one before. `is_late`: it rang before the host
  // looked for it, so the period says nothing of the step.
  void doorbell(double period_us, bool is_late, std::size_t rows);
  void completed(const CompletedStep& step);
  // Decides whether drafts are planned for the step after the next; returns whether that changed, so that budgets
  // change, too.
  bool update_planning(const std::vector<std::string>& ids, bool is_decoding);

  // -- Requests. --

  // Tokens that the first draft of a new request is expected to save.
  float new_request_tokens() const;
  // Tokens that the next draft is expected to save, by the one before and the latest draft: for each of its tokens the
  // probability that it and all before it are accepted.
  float expected_tokens(float before, const std::vector<float>& survivals) const;
  // Whether a step waits for drafts that are expected to save so many tokens, rather than drafting after the answer.
  bool is_awaited(float tokens) const { return tokens * step_us_ >= config_.wait_us + config_.wait_row_us * rows_; }
  // The request's draft budget.
  int draft_budget(float tokens) const;
  // Keeps a request's latest draft; one that no step waits for counts as none.
  void drafted(const std::string& id, const std::vector<float>& survivals, float tokens);
  // The request is served without drafts from here on.
  void abandon(const std::string& id) { keep(id, {}, false); }
  void finish(const std::string& id) {
    latest_.erase(id);
    host_ready_.erase(id);
    rest_.finish(id);
  }

  // -- A draft model or a head that drafts beside the cache. --

  // From here on a row without better drafts of the cache has the model's.
  void add_model();
  // A step judged the model's drafts of a row: so many were verified, and the first so many of them accepted.
  void model_judged(std::size_t verified, std::size_t accepted);
  // Tokens that the model's drafts of a row are expected to save; 0 without a model.
  float model_tokens() const { return model_tokens_; }
  // By place: that its draft is accepted if those before it are.
  const std::vector<float>& model_accepted() const { return model_accepted_; }
  // How many drafts of each row the model makes after this step: all, the first alone, or none, as where they are not
  // wanted. It reads what was accepted in any case, unless it rests: ModelRest::kRested. `model_ms`: the milliseconds
  // that it takes for all of them.
  int model_drafts(const std::vector<std::string>& ids, double model_ms, bool is_wanted);
  // The rows of these requests for which the model has no drafts, since it rested when their text came.
  std::vector<int> unread(const std::vector<std::string>& ids) const { return rest_.unread(ids); }
  bool has_read(const std::string& id) const { return rest_.has_read(id); }
  // The model's work after a decoding step of `rows` rows took `ms`: it had made so many drafts of each. `model_ms` as
  // in model_drafts.
  void model_took(std::size_t rows, int made, double ms, double model_ms) {
    rest_.took(costs_.group_of(rows), made, ms, model_ms);
  }

  // -- A draft model on the host's cores, for whose drafts a step waits. --

  // From here on it drafts at most `most` tokens for a row without better drafts of the cache.
  void add_host_model(std::size_t most);
  // Whether the model has read the row's text.
  void host_reads(const std::string& id, bool is_ready);
  // How many drafts of each row it makes after the next step: those with the highest rate of tokens, 0 where none are
  // worth the wait. `ms` tells what so many rows and drafts take.
  int host_drafts(const std::vector<std::string>& ids, const HostCosts& ms);
  // The same if the model had read the rows `readable` of them; nothing changes.
  int host_would_draft(const std::vector<std::string>& ids, const std::vector<std::string>& readable,
                       const HostCosts& ms) const;
  // A row's drafts are the model's if they save more tokens than this; no row's where the model makes none.
  float host_tokens() const;
  // Whether any row could have had drafts of the model when host_drafts was last asked.
  bool could_host_draft() const { return could_host_; }
  // Whether the step of the last drafts_to_verify waits for the model's drafts, and for how many µs at most: beyond
  // that the cache's drafts alone have the higher rate of tokens.
  bool awaits_host() const { return awaits_host_; }
  double host_wait_us() const { return host_wait_us_; }
  // The same for a step that nobody asks drafts_to_verify for.
  double host_usual_wait_us() const { return 1500 * host_ms_ + config_.host_late_us; }

  // -- Verification. --

  // Drafts to verify in a step whose drafts are not known yet: those with the most tokens for the time.
  int drafts_to_verify(const NextStep& step);
  // Whether a decoding step of these requests would verify any of their latest drafts; unknown where no table says what
  // so many drafts cost.
  std::optional<bool> would_verify(const std::vector<std::string>& ids);

  double step_us() const { return step_us_; }

 private:
  struct Best {
    int drafts = 0;
    double times = 1;  // rate of tokens, as a multiple of the rate without drafts
    double ms = 0;     // of the step
  };
  struct HostChoice {
    std::size_t drafts = 0;
    double ms = 0;  // that they take
    bool could = false;
  };

  void keep(const std::string& id, const std::vector<float>& survivals, bool is_awaited);
  void forget_acceptance();
  void accumulate_acceptance();
  void judge_rest(const CompletedStep& step);
  bool is_beside() const { return host_most_ == 0 && !model_survivals_.empty(); }
  const std::vector<double>& without_model(const std::vector<double>& costs_ms);
  bool is_read(const std::string& id) const { return host_most_ > 0 ? host_ready_.contains(id) : rest_.has_read(id); }
  const std::vector<float>& cache_survivals(const std::string& id) const;
  template <class Planned>
  void collect_scores(const std::vector<std::string>& ids, Planned planned, std::size_t made, bool is_late);
  Best best_beside_host(const NextStep& step, Best cache, double extra_ms);
  HostChoice best_of_host(const std::vector<std::string>& ids, const std::vector<std::string>& read,
                          const HostCosts& ms) const;
  Best best_of(const std::vector<double>& costs_ms, int emitting, double extra_ms, std::vector<double>* mean,
               double rows) const;

  const PolicyConfig config_;
  const std::size_t max_drafts_;

  // Of the drafting thread alone.
  double step_us_;        // a running mean
  double period_us_ = 0;  // between the last two doorbells
  double rows_ = 1;
  bool is_late_ = false;
  bool was_late_ = false;
  bool was_decoding_ = false;
  bool was_awaited_ = true;  // the step before was, so this one had drafts planned
  int unworthy_ = 0;         // steps in a row that would verify none
  bool is_planning_ = true;
  float model_worth_ = 0;  // tokens that a budget counts on: model_tokens_, or none where the model rests

  // Of both threads, under the caller's lock.
  std::vector<float> new_request_;  // survivals of a new request's first draft
  std::unordered_map<std::string, std::vector<float>> latest_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>>
      means_;                                                 // by rows and planned drafts: tokens saved a row
  std::map<std::size_t, std::vector<double>> planned_means_;  // by rows: tokens that latest drafts would save a row
  std::vector<float> scores_;                                 // survivals that a step may verify, the likeliest first
  double known_step_us_;                                      // step_us_, as of the last completed step
  std::vector<float> model_accepted_;    // by place: the model's draft is accepted if those before it are; or empty
  std::vector<float> model_survivals_;   // by place: it and all before it are accepted
  float model_tokens_ = 0;               // their sum
  std::size_t model_made_;               // drafts of each row that the model was last asked for
  double model_ms_ = 0;                  // that it took for all of them, when it was last asked
  bool is_out_ = false;                  // it neither reads nor drafts after the step that it was last asked for
  ModelRest rest_;                       // of a model beside the cache
  std::vector<double> rested_costs_ms_;  // a table without the model's time
  std::size_t host_most_ = 0;            // that the model on the host makes; 0 without one
  std::unordered_set<std::string> host_ready_;  // rows whose text it has read
  double host_ms_ = 0;                          // that its drafts take after the next step
  bool could_host_ = false;
  bool awaits_host_ = false;
  double host_wait_us_ = 0;
  StepCostModel costs_;
};

}  // namespace windlass
