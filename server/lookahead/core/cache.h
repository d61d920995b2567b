// The lookahead cache: begin, propose, accept, finish, for many requests at a time. Every method may be called by any
// thread.
//
// Drafts depend on the order of the calls alone, not on time or threads: tensor-parallel ranks that see the same calls
// draft the same tokens.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "drafter.h"
#include "threads.h"

namespace windlass {

class Cache {
 public:
  explicit Cache(const Options& options);

  // A new request; an id that is in use begins anew. Throws std::invalid_argument for a token outside the vocabulary.
  void begin(const std::string& id, const std::vector<Token>& prompt);
  // Drafts for a batch; row i has at most `most[i]` tokens. Throws std::out_of_range for an id that never began.
  std::vector<Draft> propose(const std::vector<std::string>& ids, const std::vector<int>& most, float min_gain);
  // The tokens that the engine emitted for each row: accepted drafts and the one after them. `verified` says how many
  // drafted tokens of each row were looked at; empty: all of them. What was not looked at counts as not drafted.
  void accept(const std::vector<std::string>& ids, const std::vector<std::vector<Token>>& tokens,
              const std::vector<int>& verified = {});
  // The two halves of it: what the next drafts of these rows need, and what can be learned from them for all, which may
  // be done when nobody waits any more. It is done before anything else but a `propose` or `withhold`.
  void append(const std::vector<std::string>& ids, const std::vector<std::vector<Token>>& tokens,
              const std::vector<int>& verified);
  void settle();
  // Takes the last drafts of these rows back: they came too late to be verified.
  void withhold(const std::vector<std::string>& ids);
  // Ends a request, finished or cancelled; its text becomes known to later requests. An id that never began is no
  // error.
  void finish(const std::string& id);
  // Teaches a recorded exchange, as a warm-up file holds it.
  void teach(const std::vector<Token>& prompt, const std::vector<Token>& output);

  // Whether somebody waits for the rows of a batch: if not, one thread does them all, and wakes no other.
  void hurry(bool is_hurried) { is_hurried_ = is_hurried; }

  bool knows(const std::string& id) const;
  Counts counts(const std::string& id) const;
  Counts totals() const;
  std::uint64_t requests_seen() const;
  std::uint64_t active() const;
  std::uint64_t entries() const;
  std::uint64_t bytes() const;

  // Writes and reads the shared cache. Both throw std::runtime_error with a sentence.
  void save(const std::string& path, const std::string& tokenizer);
  void load(const std::string& path, const std::string& tokenizer);

  const Options& options() const { return options_; }

 private:
  // Text of an ended request on its way into the shared cache, a few tokens a step.
  struct Pending {
    std::vector<Token> text;
    std::size_t at = 0;
    std::uint32_t last = kNowhere;
  };

  template <class Visitor>
  void visit(Visitor&& visitor);
  Sources sources(const Request& request) const;
  void check(const std::vector<Token>& tokens) const;
  Request& find(const std::string& id) const;
  Request& once(const std::string& id);
  void each(std::size_t rows, double& row_us, const std::function<void(std::size_t)>& work);
  void read(Request& request, const std::vector<Token>& tokens) const;
  void learn();
  void count(Request& request, const std::vector<Token>& tokens);
  static void keep(Draft& draft, std::size_t tokens);
  void queue(std::vector<Token> text);
  void publish(std::size_t tokens);
  float eager_gain() const;
  void trim(std::vector<Draft>& drafts) const;

  Options options_;
  mutable std::mutex mutex_;
  Mixer mixer_;
  Calibration calibration_;
  ContextTable shared_;
  History history_;
  std::vector<std::uint32_t> uses_;
  std::deque<Pending> pending_;
  std::unordered_map<std::string, std::unique_ptr<Request>> requests_;
  Counts totals_;
  std::uint64_t ended_ = 0;
  std::uint64_t batch_ = 0;
  std::vector<Request*> unsettled_;
  std::unique_ptr<Threads> threads_;
  std::atomic<bool> is_hurried_{true};
  double reading_us_ = Threads::kFirstUs;  // of one row; what threads are woken by, and nothing else
  double drafting_us_ = Threads::kFirstUs;
};

}  // namespace windlass
