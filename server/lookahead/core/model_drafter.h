// A DraftModel as what drafts beside the cache.
#pragma once

#include <memory>
#include <utility>

#include "draft_model/draft_model.h"
#include "host_drafter.h"

namespace windlass {

class ModelDrafter : public HostDrafter {
 public:
  explicit ModelDrafter(std::unique_ptr<DraftModel> model) : model_(std::move(model)) {}

  void begin(const std::string& key, std::span<const Token> tokens) override { model_->begin(key, tokens); }
  void append(const std::string& key, std::span<const Token> tokens) override { model_->append(key, tokens); }
  void finish(const std::string& key) override { model_->finish(key); }
  bool ready(const std::string& key) const override { return model_->ready(key); }
  bool work(double budget_us) override { return model_->work(budget_us); }
  void draft(std::span<const std::string> keys, int k, bool is_trial,
             std::vector<std::vector<Token>>& chains) override {
    model_->draft(keys, k, is_trial, chains);
  }
  double draft_ms(int rows, int k) const override { return model_->draft_ms(rows, k); }
  std::size_t rows() const override { return model_->rows(); }
  int window() const override { return static_cast<int>(model_->decoder().config().window); }

 private:
  std::unique_ptr<DraftModel> model_;
};

}  // namespace windlass
