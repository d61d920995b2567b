// A small decoder on the host's cores that drafts greedy chains for the rows of a batch.
//
// It follows each row's text in a key-value cache of its own. A draft may see only the end of a long text, or text that
// is a little late: its worth suffers, what is served does not. One thread calls; the decoder's own threads are
// beneath.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "../clock.h"
#include "decoder.h"
#include "draft_time.h"

namespace windlass {

class DraftModel {
 public:
  // The weights are complete, else std::invalid_argument; the constructor times a few passes. Of more rows than
  // `rows_max` some have no key-value cache, and so no drafts.
  DraftModel(std::unique_ptr<Decoder> decoder, int rows_max, Clock clock = {});
  DraftModel(const DraftModel&) = delete;
  DraftModel& operator=(const DraftModel&) = delete;

  // These note text and compute nothing. A key that is in use begins anew; an unknown key is no error.
  void begin(const std::string& key, std::span<const Token> tokens);
  void append(const std::string& key, std::span<const Token> tokens);
  void finish(const std::string& key);

  // Whether all text but the newest tokens (kNewest at most) is in the key-value cache.
  bool ready(const std::string& key) const;
  // Reads text that waits for about `budget_us`, a layer of a piece at a time; whether more waits.
  bool work(double budget_us);
  // Greedy chains of k tokens, one for each key in order; empty for a row that is not ready or unknown. Each key once.
  // Tokens of the row's last chain that its text took over are not computed again. A trial is of a model that rests.
  void draft(std::span<const std::string> keys, int k, bool is_trial, std::vector<std::vector<Token>>& chains);
  // What draft takes, in ms, learned from what it took.
  double draft_ms(int rows, int k) const { return time_.draft_ms(rows, k); }
  // Rows that have a key-value cache at a time.
  std::size_t rows() const { return rows_max_; }
  // What reading a token of a prompt takes, in us, learned from what it took.
  double prompt_token_us() const { return prompt_token_us_; }
  // Tokens that wait to be read by work(), all rows together.
  std::size_t waiting() const;
  // Host memory of weights and key-value caches, in bytes; `is_full`: as if all rows had one.
  std::size_t bytes(bool is_full) const;
  const Decoder& decoder() const { return *decoder_; }

  // Logits of the next token after the row's text; empty unless the row is ready. For tests.
  std::vector<float> logits(const std::string& key);

  static constexpr std::size_t kNewest = 16;  // tokens of a row that one draft reads at most
  static constexpr std::size_t kChain = 16;   // drafts of a row at most

 private:
  struct Row {
    std::vector<Token> text;        // since the row's window began
    std::vector<Token> fed;         // tokens whose keys and values are in the cache; a chain may go beyond the text
    std::size_t agreed = 0;         // of `fed`, from the front: tokens that are the text's
    std::unique_ptr<KeyValues> kv;  // null: none was free yet
    bool is_queued = false;
  };

  static std::size_t pending(const Row& row) { return row.text.size() - row.agreed; }
  static void agree(Row& row);
  bool is_ready(const Row& row) const;
  void queue(const std::string& key, Row& row);
  void trim(const std::string& key, Row& row);
  bool acquire(Row& row);
  void cancel(const std::string& key);
  bool take_piece();
  void end_piece();
  void enter_newest(std::span<Row* const> rows);
  std::size_t chain(std::span<Row* const> rows, int k, std::span<std::vector<Token>* const> chains);
  std::array<double, DraftTime::kKnots.size()> passes_ms();

  std::unique_ptr<Decoder> decoder_;
  Clock clock_;
  std::size_t rows_max_;
  std::size_t window_;
  std::unordered_map<std::string, Row> rows_;
  std::vector<std::unique_ptr<KeyValues>> spare_;
  std::size_t caches_ = 0;         // that exist
  std::deque<std::string> queue_;  // keys whose text waits, oldest first
  Batch batch_;                    // of draft()
  Batch piece_;                    // of work(): a part of a prompt, which may stop after any layer
  std::string piece_key_;
  double piece_us_ = 0;  // that it took until now
  double prompt_token_us_ = 0;
  DraftTime time_;  // the last, since passes are timed with the members above
};

}  // namespace windlass
