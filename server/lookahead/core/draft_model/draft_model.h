// A small decoder on the host's cores that drafts greedy chains for the rows of a batch.
//
// It follows each row's text in a key-value cache of its own. A draft may see only the end of a long text, or text that
// is a little late: its worth suffers, what is served does not. One thread calls; the decoder's own threads are beneath.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "decoder.h"
#include "table.h"

namespace windlass {

struct DraftLimits {
  int rows_max = 64;  // rows with a key-value cache; a row beyond them has no drafts
  int window = 1024;  // tokens of a row's text that the decoder sees at most
};

class DraftModel {
 public:
  using Clock = std::chrono::steady_clock;

  // The weights are complete; the constructor times some batches of made-up rows, which takes a few passes.
  DraftModel(std::unique_ptr<Decoder> decoder, const DraftLimits& limits);
  ~DraftModel();
  DraftModel(const DraftModel&) = delete;
  DraftModel& operator=(const DraftModel&) = delete;

  // These note text and compute nothing. A key that is in use begins anew; an unknown key is no error.
  void begin(const std::string& key, std::span<const Token> tokens);
  void append(const std::string& key, std::span<const Token> tokens);
  void finish(const std::string& key);

  // Whether all text but the newest tokens (kNewest at most) is in the key-value cache.
  bool ready(const std::string& key) const;
  // Reads text that waits, for about `budget_us` (a layer of a piece at a time); whether more waits.
  bool work(double budget_us);
  // Greedy chains of k tokens, one for each key in order; empty for a row that is not ready or unknown. Each key once.
  // Tokens of the row's last chain that its text took over are not computed again.
  void draft(std::span<const std::string> keys, int k, std::vector<std::vector<Token>>& chains);
  // What draft takes, in ms, learned from what it took.
  double draft_ms(int rows, int k) const;
  // What reading a token of a prompt takes, in us, learned from what it took; 0 before the first.
  double prompt_token_us() const { return prompt_token_us_; }
  // Tokens that wait to be read by work(), all rows together.
  std::size_t waiting() const;
  // Host memory of weights, activations and key-value caches, in bytes; `planned`: with all rows' caches.
  std::size_t bytes(bool planned) const;
  int window() const { return limits_.window; }
  int vocabulary() const { return decoder_->config().vocabulary; }

  // Logits of the next token after the row's text; empty unless the row is ready. For tests.
  std::vector<float> logits(const std::string& key);

  static constexpr std::size_t kNewest = 32;  // tokens of a row that one draft reads at most

 private:
  struct Row {
    std::vector<Token> text;        // since the row's window began
    std::vector<Token> fed;         // tokens whose keys and values are in the cache
    std::size_t agreed = 0;         // of `fed`, from the front: tokens that are the text's
    std::unique_ptr<KeyValues> kv;  // null: no room, the row has no drafts
  };

  void trim(Row& row) const;
  static void agree(Row& row);
  static std::size_t pending(const Row& row);
  bool take_piece();
  void end_piece();
  void feed(std::span<Row*> rows);
  void measure();
  double base_ms(int rows) const;

  std::unique_ptr<Decoder> decoder_;
  DraftLimits limits_;
  std::unordered_map<std::string, Row> rows_;
  std::vector<std::unique_ptr<KeyValues>> spare_;
  std::deque<std::string> queue_;  // keys whose text waits, oldest first
  Batch batch_;                    // of draft()
  Batch piece_;                    // of work(): a prompt's part, which may stop after any layer
  std::string piece_key_;          // empty: no piece is under way
  double piece_us_ = 0;            // that it took until now
  double prompt_token_us_ = 0;
  std::vector<double> knots_ms_;   // of one pass over 1, 4, 16, 64 rows, as measured at first
  double factor_ = 1;              // what passes took of late, of that
};

}  // namespace windlass
