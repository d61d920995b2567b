// Rows of one batch on several threads, under the thread sanitizer, which ends the program at the first race.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "random_decoder.h"
#include "recorded_drafter.h"
#include "round_trip.h"
#include "simulated_model.h"

namespace {
constexpr int kRows = 24;
constexpr int kSteps = 1500;

std::vector<windlass::Token> text(int row, int from, int count) {
  std::vector<windlass::Token> tokens;
  for (int at = from; at < from + count; ++at) tokens.push_back(static_cast<windlass::Token>((at * 7 + row) % 50));
  return tokens;
}

windlass::Options small() {
  windlass::Options options;
  options.voc_size = 1000;
  options.cache_size = 5000;
  options.num_threads = 4;
  return options;
}

// A batch whose rows are read and drafted side by side; how many tokens were drafted.
std::size_t batches() {
  windlass::Cache cache(small());
  std::vector<std::string> ids;
  for (int row = 0; row < kRows; ++row) {
    ids.push_back(std::to_string(row));
    cache.begin(ids.back(), text(row, 0, 60));
  }
  std::size_t drafted = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<windlass::Token>> tokens;
    for (int row = 0; row < kRows; ++row) tokens.push_back(text(row, step, 1 + step % 3));
    cache.append(ids, tokens, {});
    for (const windlass::Draft& draft : cache.propose(ids, std::vector<int>(kRows, 6), -1))
      drafted += draft.tokens.size();
    if (step % 2 == 0) cache.settle();
    if (step % 50 == 49) {
      cache.finish(ids[static_cast<std::size_t>(step % kRows)]);
      cache.begin(ids[static_cast<std::size_t>(step % kRows)], text(step, 0, 20));
    }
  }
  return drafted;
}

// A device that writes step records and rings the doorbell, and an engine's thread beside it that asks how many drafts
// to verify; the sum of the answers. The model beside the cache is on the device or on the host.
std::size_t trips(bool on_host) {
  constexpr int kMost = 6;
  constexpr int kSpan = kMost + 1;
  constexpr int kTrips = 400;
  constexpr int kRun = 20;
  std::vector<std::int32_t> records(windlass::kRecords * kRows * (windlass::kRecordHeader + kSpan));
  std::vector<std::int64_t> tokens(kRows * kMost);
  std::vector<float> confidences(kRows * kMost);
  std::uint32_t doorbell = 0;
  std::uint32_t completed = 0;
  windlass::Cache cache(small());
  std::vector<std::string> ids;
  for (int row = 0; row < kRows; ++row) ids.push_back(std::to_string(row));
  std::vector<float> model(kMost);
  const windlass::Shared shared{records.data(), tokens.data(), confidences.data(), &doorbell,
                                &completed,     nullptr,       model.data(),       kRows,
                                kMost,          kSpan};
  windlass::PolicyConfig policy;
  policy.model_rest_steps = 8;
  policy.model_trial_us = 1000;
  windlass::RoundTrip trip(cache, shared, 600'000, policy);  // ms: a thread may be put off its processor
  if (on_host) {
    auto drafter = std::make_unique<windlass::RecordedDrafter>(
        std::make_shared<windlass::SimulatedModel>(windlass::Clock(), std::make_shared<windlass::ModelTimes>(1, 10),
                                                   kRows),
        0.5, 1);
    for (int row = 0; row < kRows; ++row) drafter->record(text(row, 0, 60), text(row, 60, kTrips));
    trip.add_host_model(std::move(drafter), kMost, 1000);
  } else {
    trip.add_model();
  }
  trip.start();
  std::atomic<bool> ended{false};
  std::atomic<std::size_t> chosen{0};
  std::atomic<int> made{kMost};
  std::thread engine([&] {
    const std::vector<double> costs(static_cast<std::size_t>(kRows * kMost + 1), 0.02);
    while (!ended) {
      if (on_host) {
        chosen += static_cast<std::size_t>(trip.begin_wait());
      } else {
        made = trip.model_drafts(ids, 0.01, true);
        trip.model_took(ids.size(), made, 0.01, 0.01);
        chosen += trip.unread(ids).size();
      }
      chosen += static_cast<std::size_t>(trip.choose(ids, std::vector<int>(kRows, kMost), costs, kRows, true));
    }
  });
  const auto await = [&](int number) {
    while (static_cast<std::int32_t>(__atomic_load_n(&completed, __ATOMIC_ACQUIRE)) < number) std::this_thread::yield();
  };
  for (int number = 1; number <= kTrips; ++number) {
    const bool wanted =
        number / kRun % 2 == 1;  // some steps are waited for, then some are not, more than there are records
    windlass::Step step{static_cast<std::uint32_t>(number), {}, {}, ids, wanted, made};
    for (int row = 0; row < kRows && number == 1; ++row)
      step.begun.emplace_back(ids[static_cast<std::size_t>(row)], text(row, 0, 60));
    trip.submit(std::move(step));
    await(number - static_cast<int>(windlass::kRecords));
    for (int row = 0; row < kRows; ++row) {
      std::int32_t* record = records.data() + (number % static_cast<int>(windlass::kRecords) * kRows + row) *
                                                  (windlass::kRecordHeader + kSpan);
      record[0] = number, record[1] = 1, record[2] = row % 2, record[3] = 60 + number;
      record[4] = number % 2 != 0 && !on_host
                      ? 2
                      : 0;  // in every second step drafts were the model's; half of all are rejected
      record[windlass::kRecordHeader] = static_cast<std::int32_t>(text(row, 59 + number, 1)[0]);
    }
    __atomic_store_n(&doorbell, static_cast<std::uint32_t>(number), __ATOMIC_RELEASE);
    if (wanted && number % 3 != 0) await(number);  // it does not wait for ever
  }
  ended = true;
  engine.join();
  return trip.counts().lost == 0 ? chosen.load() : 0;
}

// Rows of a draft model whose passes four threads share; tokens drafted.
std::size_t chains() {
  const auto model = windlass::random_model(8, windlass::Path::kBest, 4, kRows, 128);
  std::vector<std::string> ids;
  for (int row = 0; row < kRows; ++row) ids.push_back(std::to_string(row));
  for (const std::string& id : ids) model->begin(id, text(static_cast<int>(id.size()), 0, 60));
  while (model->work(1000)) {}
  std::size_t drafted = 0;
  for (const std::size_t rows : {std::size_t{1}, ids.size()}) {  // each thread for itself, and all together
    for (int step = 0; step < 10; ++step) {
      std::vector<std::vector<windlass::Token>> drafts;
      model->draft({ids.data(), rows}, 3, false, drafts);
      for (const auto& draft : drafts) drafted += draft.size();
      for (const std::string& id : ids) model->append(id, text(step, 0, 1 + step % 2));
    }
  }
  return drafted;
}
}  // namespace

int main() {
  const std::size_t drafted = batches();
  const std::size_t chosen = std::min(trips(false), trips(true));
  const std::size_t modelled = chains();
  std::printf("%d rows on 4 threads: %zu tokens drafted, %zu chosen, %zu of a model, no race\n", kRows, drafted, chosen,
              modelled);
  return drafted == 0 || chosen == 0 || modelled == 0 ? 1 : 0;
}
