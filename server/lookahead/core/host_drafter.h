// What drafts on the host's cores beside the cache: DraftModel, or recorded text for tests and measurements. One thread
// calls.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "table.h"

namespace windlass {

class HostDrafter {
 public:
  HostDrafter() = default;
  HostDrafter(const HostDrafter&) = delete;
  HostDrafter& operator=(const HostDrafter&) = delete;
  virtual ~HostDrafter() = default;

  // These note text and compute nothing. A key that is in use begins anew; an unknown key is no error.
  virtual void begin(const std::string& key, std::span<const Token> tokens) = 0;
  virtual void append(const std::string& key, std::span<const Token> tokens) = 0;
  virtual void finish(const std::string& key) = 0;
  // Whether the row's text has been read, so that it can be drafted for.
  virtual bool ready(const std::string& key) const = 0;
  // Reads text that waits, for about so many µs; whether more waits.
  virtual bool work(double budget_us) = 0;
  // Greedy chains of k tokens, one for each key; empty for a row that is not ready. A trial is of a drafter that rests.
  virtual void draft(std::span<const std::string> keys, int k, bool is_trial,
                     std::vector<std::vector<Token>>& chains) = 0;
  // Milliseconds that draft is expected to take.
  virtual double draft_ms(int rows, int k) const = 0;
  // Texts that it holds at a time.
  virtual std::size_t rows() const = 0;
  // Tokens at the end of a text that it reads at most.
  virtual int window() const = 0;
};

}  // namespace windlass
