// Drafts for a device whose stream waits for them: the device tells a step's tokens in memory that both see and rings, a
// thread of ours answers there. Neither an interrupt nor the interpreter is between the two.
//
// A row is answered in time when what its drafts are expected to save is worth what they cost the whole batch; all others are
// followed after the answer, while the device computes the next step. Which rows these are stands in memory that the engine's
// scheduler reads: it plans no drafts for them, and for the others, where prompts wait for the room, as many as are worth it.
// None at all where the whole batch would not verify any.
//
// The device does not wait for a step whose drafts nobody wants, since none are planned for the step after it, nor for a host
// that takes long: a thread is put off its processor now and then. It may be steps ahead then, so each of the last kTurns has
// room of its own; before it takes the room of one that is not answered it waits.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache.h"
#include "foresight.h"

namespace windlass {

// Memory that the device sees; the caller owns it and keeps it until the RoundTrip is gone.
struct Shared {
  // [kTurns, rows, kTold + span], by the step's number: step, tokens emitted, drafts rejected, length, 1 where the drafts before
  // it came too late, the newest tokens first
  const std::int32_t* told;
  std::int64_t* tokens;       // [rows, most]; a slot without a draft repeats the newest token
  float* confidences;         // [rows, most]: that a token is accepted when those before it are; 0 without a draft
  std::uint32_t* rung;        // the step that the device told of last
  std::uint32_t* answered;    // the step that was answered last
  // [kPromises] or null: by the CRC-32 of a request's id, 0 where drafts are not worth their cost, else 1 + those worth a place in
  // a step that prompts fill.
  std::uint8_t* promises;
  int rows;
  int most;
  int span;
};
constexpr int kTold = 5;
constexpr std::uint32_t kTurns = 32;
constexpr std::uint32_t kPromises = 4096;

struct Step {
  std::uint32_t number = 0;
  std::vector<std::string> finished;
  std::vector<std::pair<std::string, std::vector<Token>>> begun;
  std::vector<std::string> rows;
  bool wanted = true;  // whether the device waits for its drafts, for a while
};

struct TripCounts {
  std::uint64_t steps = 0;
  std::uint64_t in_time = 0;   // rows that the device waited for
  std::uint64_t later = 0;     // rows that were followed after the answer
  std::uint64_t missed = 0;    // rows that verified something else in the place of drafts that came too late
  std::uint64_t lost = 0;      // requests that are served without drafts from here on: their text had a hole
  std::uint64_t released = 0;  // answers that the watchdog gave
  double wait_us = 0;          // between ring and answer, all steps together
  double step_us = 0;          // of a step, a running mean
};

class RoundTrip {
 public:
  using Clock = std::chrono::steady_clock;

  RoundTrip(Cache& cache, const Shared& shared, int patience_ms);
  ~RoundTrip();
  RoundTrip(const RoundTrip&) = delete;
  RoundTrip& operator=(const RoundTrip&) = delete;

  // Announces a step before the device rings for it; steps come in the order of their numbers, which may wrap. One without
  // rows is none of the device's: it is for requests that came or went, nobody rings for it, and its number is not looked at.
  void submit(Step step);
  TripCounts counts() const;
  // The number that is looked for now: a ring that comes from here on is on time.
  std::uint32_t awaited() const { return awaited_; }
  // Drafts that the step after the one under way should verify: see Foresight::choose; none while we are late. For any thread.
  int choose(const std::vector<std::string>& ids, const std::vector<int>& planned, const std::vector<double>& costs, int emitting,
             bool decoding);

 private:
  struct Known {
    std::uint32_t length = 0;  // of the text, in tokens
    float expected = 0;        // tokens that a draft is expected to save
    std::uint8_t* promise = nullptr;  // its place among the promises, or null
  };
  struct Batch {
    std::vector<std::string> ids;
    std::vector<std::vector<Token>> tokens;
    std::vector<int> verified;
    std::vector<int> places;
  };

  void serve();
  void linger() const;
  void watch();
  bool await(std::uint32_t number);
  void change(Step& step);
  void answer(const Step& step);
  void sort(const Step& step, Batch& soon, Batch& later);
  std::vector<Draft> follow(const Batch& batch);
  void note(const Batch& batch, const std::vector<Draft>& drafts);
  void hope(const Step& step);
  void time(const Step& step);
  void write(const Batch& batch, const std::vector<Draft>& drafts);
  void clear(const Step& step);
  void lose(const std::string& id);
  bool worth(float expected) const;
  std::uint8_t* place_of(const std::string& id) const;
  void promise(std::uint8_t* place, float expected) const;
  const std::int32_t* told(std::uint32_t number, int row) const {
    return shared_.told + (static_cast<int>(number % kTurns) * shared_.rows + row) * (kTold + shared_.span);
  }

  Cache& cache_;
  Shared shared_;
  int patience_ms_;
  Foresight foresight_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Step> steps_;
  std::atomic<std::uint32_t> awaited_{0};
  std::atomic<std::size_t> announced_{0};  // steps in it, for a look without the lock
  std::unordered_map<std::string, Known> known_;
  TripCounts counts_;
  double step_us_ = 5000;
  Clock::time_point rang_;
  double period_us_ = 0;        // between the last two rings
  std::size_t verified_ = 0;    // drafts, in the step under way
  std::uint64_t missed_ = 0;    // rows of it that verified something else
  bool is_late_ = false;        // the device had rung before we looked, so the time between two rings is not known
  bool was_late_ = false;
  bool is_decoding_ = false;    // every row of it got a token
  bool was_decoding_ = false;   // the same of the step before
  bool was_wanted_ = true;      // the drafts of the step before, so this one has some planned
  double rows_ = 1;
  int hopeless_ = 0;            // steps in a row after which no draft of the batch was worth verifying
  bool hopes_ = true;
  std::atomic<bool> stopping_{false};
  std::thread server_;
  std::thread watchdog_;
};

}  // namespace windlass
