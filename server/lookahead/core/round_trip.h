// Drafts for a device whose stream waits for them. The device writes a step record into memory that both see and rings
// a doorbell; the drafting thread answers there. Neither an interrupt nor the interpreter is between the two.
//
// SpeculationPolicy decides which rows the device waits for; the drafting thread follows all others after the answer,
// while the device computes the next step. The draft budgets lie in memory that the engine's scheduler reads.
//
// The device does not wait for a step whose drafts nobody planned, nor for a host that takes long: a thread is put off
// its processor now and then. The device may then be steps ahead, so each of the last kRecords steps has a record of
// its own. Before it reuses the record of a step that is not completed, it waits.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache.h"
#include "clock.h"
#include "host_drafting.h"
#include "speculation_policy.h"

namespace windlass {

// Whether a number that wraps has come to another.
inline bool reached(std::uint32_t at, std::uint32_t number) { return static_cast<std::int32_t>(at - number) >= 0; }

// Memory that the device sees; the caller owns it and keeps it until the RoundTrip is gone.
struct Shared {
  // [kRecords, rows, kRecordHeader + span], by the step's number: step, tokens emitted, drafts rejected, length, whose
  // drafts were before it (Source), the newest tokens first
  const std::int32_t* records;
  std::int64_t* tokens;      // [rows, most]; a slot without a draft repeats the newest token
  float* confidences;        // [rows, most]: that a token is accepted when those before it are; 0 without a draft
  std::uint32_t* doorbell;   // the step whose record the device wrote last
  std::uint32_t* completed;  // the step whose drafts the host wrote last
  std::uint8_t* budgets;     // [kBudgets + 1] or null: by the CRC-32 of a request's id; the last is of unknown ones
  float* model;              // [most] or null: that a draft of the model is accepted when those before it are
  int rows;
  int most;
  int span;
};
constexpr int kRecordHeader = 5;          // words of a step record before its tokens
constexpr std::uint32_t kRecords = 32;    // steps that the device may be ahead
constexpr std::uint32_t kBudgets = 4096;  // bytes; of two requests with one place either may read the other's budget,
                                          // or be unknown for a step: that costs time at worst
constexpr int kUnknownBudget = 255;       // of no request, or of one that has not come to the drafter

// Whose drafts a row has.
enum class Source : std::int32_t {
  kCache = 0,
  kLate = 1,   // the cache's came too late: it has none
  kModel = 2,  // of a draft model or a head beside the cache
};

struct Step {
  std::uint32_t number = 0;
  std::vector<std::string> finished;
  std::vector<std::pair<std::string, std::vector<Token>>> begun;
  std::vector<std::string> rows;
  bool wanted = true;  // whether drafts of the next step are planned, so that the device may wait for them
  int modelled = 0;    // drafts of each row that a model had made for this step, or ModelRest::kRested
};

struct TripCounts {
  std::uint64_t steps = 0;
  std::uint64_t in_time = 0;   // rows that the device waited for
  std::uint64_t later = 0;     // rows that were followed after the answer
  std::uint64_t missed = 0;    // rows that verified something else in the place of drafts that came too late
  std::uint64_t models = 0;    // rows that verified drafts of the model beside the cache
  std::uint64_t lost = 0;      // requests that are served without drafts from here on: their text had a hole
  std::uint64_t released = 0;  // answers that the watchdog gave
  double wait_us = 0;          // between doorbell and answer, all steps together
  double step_us = 0;          // of a step, a running mean
  std::uint64_t hosted = 0;    // steps after which the model on the host drafted
  double host_us = 0;          // that steps waited for it, in all
  std::uint64_t rested = 0;    // steps for which the model beside the cache neither read nor drafted
  HostCounts host;
};

class RoundTrip {
 public:
  RoundTrip(Cache& cache, const Shared& shared, int patience_ms, const PolicyConfig& policy = {}, Clock clock = {});
  ~RoundTrip();
  RoundTrip(const RoundTrip&) = delete;
  RoundTrip& operator=(const RoundTrip&) = delete;

  // Starts the drafting thread, which serves step after step, and its watchdog; not with a simulated time.
  void start();
  // Serves the next step that is announced: waits for its doorbell, answers, and works ahead. False: it is to end.
  bool serve_next();

  // Announces a step before its doorbell rings; steps come in the order of their numbers, which may wrap. A step
  // without rows only names requests that came or ended: no doorbell rings for it, and its number is not read.
  void submit(Step step);
  TripCounts counts() const;
  // The step whose doorbell the drafting thread looks for: a doorbell that rings from here on is on time.
  std::uint32_t awaited() const { return awaited_; }
  // When the last answer was there; for the thread that serves.
  Clock::Point completed_at() const { return completed_at_; }
  // Drafts that the step after the one under way verifies: SpeculationPolicy::drafts_to_verify. For any thread.
  int choose(const std::vector<std::string>& ids, const std::vector<int>& planned, const std::vector<double>& costs_ms,
             int emitting, bool is_decoding);
  // From here on a model drafts beside the cache; before the first step.
  void add_model();
  // From here on a model on the host's cores drafts beside the cache, at most `most` tokens below `vocabulary` of a
  // row; before the first step.
  void add_host_model(std::shared_ptr<HostDrafter> drafter, int most, Token vocabulary);
  // The device begins to wait for the answer to the last step that was announced: for so many µs beside what it waits
  // for the cache's drafts.
  int begin_wait();
  // Drafts that the model makes of each row after this step: SpeculationPolicy::model_drafts. For any thread.
  int model_drafts(const std::vector<std::string>& ids, double model_ms, bool is_wanted);
  // What it took for its drafts of so many rows: SpeculationPolicy::model_took. For any thread.
  void model_took(std::size_t rows, int made, double ms, double model_ms);
  // Rows that it has no drafts for: SpeculationPolicy::unread. For any thread.
  std::vector<int> unread(const std::vector<std::string>& ids);

 private:
  struct Request {
    std::uint32_t length = 0;        // of the text, in tokens
    float expected = 0;              // tokens that a draft is expected to save
    int hosted = 0;                  // its latest drafts are the host's model's: so many
    std::uint8_t* budget = nullptr;  // its place among the draft budgets, or null
  };
  struct Batch {
    std::vector<std::string> ids;
    std::vector<std::vector<Token>> tokens;
    std::vector<int> verified;
    std::vector<int> places;
  };
  // Drafts of the model in a row of a step.
  struct Judged {
    int row = 0;
    std::size_t verified = 0;
    std::size_t accepted = 0;
  };
  // What the engine's thread decided on the step after `number`.
  struct Choice {
    std::uint32_t number = 0;
    bool is_made = false;
    double host_wait_us = 0;  // 0: the step does not wait for the model on the host
  };
  // Of the device, for the answer to step `number`.
  struct Wait {
    std::uint32_t number = 0;
    int more_us = 0;  // for the model on the host
    Clock::Point begun_at;
  };
  static constexpr std::size_t kChoices = 8;  // steps that the engine plans ahead, and more

  bool linger() const;
  void watch();
  bool await(const Step& step, bool has_lingered);
  void change(Step& step);
  void answer(const Step& step);
  void learn(const Step& step);
  void rest(const Step& step);
  void count(const Step& step, const Batch& soon, const Batch& later, double waited_us);
  void sort(const Step& step, Batch& soon, Batch& later);
  std::vector<Draft> follow(const Batch& batch);
  void note(const Batch& batch, const std::vector<Draft>& drafts);
  void plan(const Step& step);
  void publish_budgets() const;
  void append_on_host(const Batch& batch);
  double draft_on_host(const Step& step, const Batch& soon, const Batch& later, const std::vector<Draft>& drafts);
  double host_patience_us(const Step& step);
  double host_waited_us(const Step& step, Clock::Point since);
  void write_chain(int row, const std::vector<Token>& chain);
  void plan_host(const Step& step);
  bool read_on_host();
  void write(const Batch& batch, const std::vector<Draft>& drafts);
  void clear(const Step& step);
  void lose(const std::string& id);
  void publish_model() const;
  std::uint8_t* place_of(const std::string& id) const;
  void publish(std::uint8_t* place, int budget) const;
  const std::int32_t* record(std::uint32_t number, int row) const {
    return shared_.records +
           (static_cast<int>(number % kRecords) * shared_.rows + row) * (kRecordHeader + shared_.span);
  }

  Cache& cache_;
  Shared shared_;
  int patience_ms_;
  const PolicyConfig config_;
  const Clock clock_;
  std::mutex policy_mutex_;  // over what drafts_to_verify shares with the drafting thread
  SpeculationPolicy policy_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Step> steps_;
  std::atomic<std::uint32_t> awaited_{0};
  std::atomic<std::size_t> announced_{0};  // steps in steps_, readable without the lock
  std::unordered_map<std::string, Request> requests_;
  TripCounts counts_;
  Clock::Point doorbell_at_;            // when the last doorbell rang
  std::size_t verified_ = 0;            // drafts, in the step under way
  std::uint64_t missed_ = 0;            // rows of it that verified something else
  std::vector<Judged> judged_;          // of its rows with the model's drafts
  bool is_decoding_ = false;            // every row of it got a token
  bool is_resting_ = false;             // no drafts are planned: nobody waits for an answer
  std::unique_ptr<HostDrafting> host_;  // of the drafting thread, as what follows
  Clock::Point completed_at_;           // when the last answer was there
  double host_us_ = 0;                  // that the device waited for the host's model before it
  bool is_hosted_ = false;              // the host's model drafted for it
  int host_made_ = 0;                   // drafts of each row that it makes after a step
  int host_idle_ = 0;                   // steps in a row that could have had its drafts
  std::atomic<int> host_wait_us_{0};
  std::atomic<std::uint32_t> submitted_{0};  // the last step with rows
  bool has_chosen_ = false;                  // the engine asks; several ranks choose for themselves, so theirs does not
  std::array<Choice, kChoices> choices_;     // by the step's number
  Wait wait_;                                // the last; these three under policy_mutex_
  std::atomic<bool> stopping_{false};
  std::thread server_;
  std::thread watchdog_;
};

}  // namespace windlass
