// Every number of the speculation policy: its unit, and where its value comes from.
//
// "H200" is a measurement of benchmarks/lookahead/results; "guess" is a value that no measurement has tested alone.
// `windlass_lookahead.policy` names the rules and the values that switch each of them off.
#pragma once

#include <cstddef>
#include <cstdint>

namespace windlass {

struct PolicyConfig {
  // -- What a request's drafts are expected to save. --
  // probability that the first draft token of a request is accepted before any request was seen, half of it for each
  // next one; guess
  float new_request_survival = 0.1F;
  // share of the newest request in that expectation: about 20 requests count; guess
  float new_request_weight = 0.05F;
  // share of an expectation that a step without a better one keeps; guess
  float expectation_kept = 0.9F;

  // -- How long a step is, for what waiting is worth. --
  // µs of a step before any was timed: a 7B model's step on an H100, rounded up
  double first_step_us = 5000;
  // share of the newest step in the mean: about 20 steps count; guess
  double step_weight = 0.05;
  // µs; a longer step counts as this, and is no sample of the cost model; guess, 10 usual steps
  double step_us_max = 50'000;
  // µs between two doorbells from which on there was no work in between; guess
  double idle_us = 200'000;

  // -- Whether a step waits for a request's drafts. --
  // µs of a step that waits for drafts at all: the doorbell, the answer and taking it; H200
  double wait_us = 20;
  // µs for each row of the batch: drafting one takes 3 to 10; H200's host
  double wait_row_us = 10;
  // µs that the device waits for an answer that does not come: some times a usual answer; H200
  int device_wait_us = 500;
  // µs more for each row; H200's host, as wait_row_us
  int device_wait_row_us = 10;

  // -- How many drafts the scheduler plans for a request. --
  // planned for each token that they are expected to save, where prompts fill the step; guess
  float drafts_per_token = 2;
  // subtracted from that product: a planned draft takes a place from the waiting prompts, which is a fifth of a
  // token's time in a batch of 64; reckoned from an H200's steps
  float tokens_ignored = 0.4F;
  // rows up to which a batch always plans; simulated with slow hosts, ADR 105
  int always_planned_rows = 0;
  // steps in a row that would verify none, after which none are planned: planning again comes two steps late; guess
  int unworthy_steps = 3;

  // -- How many drafts a step verifies. --
  // rows up to which the batch's mean counts, and rows that this mean looks back; recorded text: the mean gains nothing
  // in larger batches
  int mean_rows_max = 16;
  // times the rate without drafts, from which on plain steps need not be seen first; guess
  double sure_gain = 1.5;
  // steps that the host may lag: drafts of an earlier one come too late; by construction
  int steps_behind_max = 1;
  // µs that judging drafts adds to a step, beside the engine's table; H200
  double judge_step_us = 25;
  // µs for each word of each row of logits; H200
  double judge_logit_us = 8e-6;

  // -- What steps with drafts really take. --
  // plain steps by which their time is known; guess
  double plain_steps_min = 8;
  // steps that go without drafts to see plain ones: some batches never have any; guess
  int plain_steps_patience = 64;
  // steps that a mean looks back; guess
  double memory_steps = 20;
  // groups of row counts between two powers of two: counts within an eighth are one; simulated
  std::size_t row_groups = 8;
  // times the mean that a plain step counts at most: threads stall; simulated
  double outlier_times = 2;
  // times a step's expected time that it may count as extra; guess
  double extra_times_max = 1;
  // share of the extra time that a step without drafts keeps: a host may recover; guess
  double extra_kept = 0.998;
  // share of the extra time that is charged
  double extra_weight = 1;
  // steps with and without planned drafts, from which on extra time is counted over planned ones
  double baseline_steps_min = 3;
  // the same, from which on the price of planning is known; simulated with slow hosts
  double compared_steps_min = 3;
  // steps that their means look back: planning is tried for a few steps at a time; simulated
  double planning_memory_steps = 8;
  // share of the trust in that price which a step without planned drafts takes; simulated
  double planning_forgotten = 0.01;
  // least share of planned steps that verify any, over which the price is spread; simulated
  double verifying_share_min = 0.33;
  // share of the price that is charged
  double planning_weight = 1;

  // -- What a draft model or a head beside the cache is worth. --
  // probability that its draft is accepted if those before it are, before any was judged; guess, a trained head's
  float model_acceptance = 0.6F;
  // share of the newest judged draft in that probability, for each place: about 50 count; guess
  float model_weight = 0.02F;
  // share of the way to the place before it that a place goes when its draft was not verified, so that it is tried
  // again after some hundred rows; guess
  float model_forgotten = 0.002F;
  // steps in a row that decide whether it rests; guess
  int model_rest_steps = 64;
  // share of a pass of the model that its first draft takes: the output head, beside reading what was accepted; guess,
  // between heads of 128,000 and of 32,000 tokens
  double model_first_share = 0.5;
  // times the rate with it, from which on it rests without it, and the other way about; guess, above the noise of its
  // times
  double model_rest_gain = 1.03;
  // µs of rest after which it is tried with the next request that begins, twice as long after each trial that it lost,
  // and at most; guess: a trial of model_rest_steps steps that are twice as long takes 1 % of the first
  double model_trial_us = 60'000'000;
  double model_trial_us_max = 960'000'000;
  // steps after which a trial is over: won, if so many rows with its drafts were judged; guess
  int model_trial_steps = 256;
  int model_trial_rows = 64;

  // -- When a draft model on the host's cores drafts. --
  // times the rate without it, from which on steps wait for its drafts; guess, above the noise of its times
  double host_gain_min = 1.03;
  // µs that a step waits for its drafts at most; guess, some times the step of the largest model on one GPU
  double host_wait_us_max = 40'000;
  // µs that a wait may exceed the expected one, beside half of that; guess
  double host_late_us = 1000;
  // steps in a row that could have had its drafts and would not, after which it rests; guess
  int host_rest_steps = 64;
  // share of the time that its trials take while it rests, of the host's cores and not of the device
  double host_trial_share = 0.005;
  // times that share at first; guess, so that the first request of some hundred tokens has chains that are judged
  double host_first_trials = 20;
  // µs of trials after which that is half as much, after twice as long a third, until it is the share alone; guess
  double host_first_trials_us = 400'000;
  // µs of trials that may be saved up; guess, a short text's reading
  double host_trial_us_max = 20'000;
  // tokens at the end of a text that a trial reads; guess
  int host_trial_tokens = 128;
  // chains of one trial; guess: more put a trial far into debt, fewer are mostly reading
  int host_trial_chains = 4;
};

// Calls visitor(name, number) for each number of a configuration, in the order above.
#define WINDLASS_NUMBER(name) visitor(#name, config.name)
template <class Config, class Visitor>
void visit_host(Config& config, Visitor&& visitor) {
  WINDLASS_NUMBER(host_gain_min);
  WINDLASS_NUMBER(host_wait_us_max);
  WINDLASS_NUMBER(host_late_us);
  WINDLASS_NUMBER(host_rest_steps);
  WINDLASS_NUMBER(host_trial_share);
  WINDLASS_NUMBER(host_first_trials);
  WINDLASS_NUMBER(host_first_trials_us);
  WINDLASS_NUMBER(host_trial_us_max);
  WINDLASS_NUMBER(host_trial_tokens);
  WINDLASS_NUMBER(host_trial_chains);
}
template <class Config, class Visitor>
void visit_model(Config& config, Visitor&& visitor) {
  WINDLASS_NUMBER(model_acceptance);
  WINDLASS_NUMBER(model_weight);
  WINDLASS_NUMBER(model_forgotten);
  WINDLASS_NUMBER(model_first_share);
  WINDLASS_NUMBER(model_rest_gain);
  WINDLASS_NUMBER(model_rest_steps);
  WINDLASS_NUMBER(model_trial_us);
  WINDLASS_NUMBER(model_trial_us_max);
  WINDLASS_NUMBER(model_trial_steps);
  WINDLASS_NUMBER(model_trial_rows);
}
template <class Config, class Visitor>
void visit_policy(Config& config, Visitor&& visitor) {
  WINDLASS_NUMBER(new_request_survival);
  WINDLASS_NUMBER(new_request_weight);
  WINDLASS_NUMBER(expectation_kept);
  WINDLASS_NUMBER(first_step_us);
  WINDLASS_NUMBER(step_weight);
  WINDLASS_NUMBER(step_us_max);
  WINDLASS_NUMBER(idle_us);
  WINDLASS_NUMBER(wait_us);
  WINDLASS_NUMBER(wait_row_us);
  WINDLASS_NUMBER(device_wait_us);
  WINDLASS_NUMBER(device_wait_row_us);
  WINDLASS_NUMBER(drafts_per_token);
  WINDLASS_NUMBER(tokens_ignored);
  WINDLASS_NUMBER(always_planned_rows);
  WINDLASS_NUMBER(unworthy_steps);
  WINDLASS_NUMBER(mean_rows_max);
  WINDLASS_NUMBER(sure_gain);
  WINDLASS_NUMBER(steps_behind_max);
  WINDLASS_NUMBER(judge_step_us);
  WINDLASS_NUMBER(judge_logit_us);
  WINDLASS_NUMBER(plain_steps_min);
  WINDLASS_NUMBER(plain_steps_patience);
  WINDLASS_NUMBER(memory_steps);
  WINDLASS_NUMBER(row_groups);
  WINDLASS_NUMBER(outlier_times);
  WINDLASS_NUMBER(extra_times_max);
  WINDLASS_NUMBER(extra_kept);
  WINDLASS_NUMBER(extra_weight);
  WINDLASS_NUMBER(baseline_steps_min);
  WINDLASS_NUMBER(compared_steps_min);
  WINDLASS_NUMBER(planning_memory_steps);
  WINDLASS_NUMBER(planning_forgotten);
  WINDLASS_NUMBER(verifying_share_min);
  WINDLASS_NUMBER(planning_weight);
  visit_model(config, visitor);
  visit_host(config, visitor);
}
#undef WINDLASS_NUMBER

}  // namespace windlass
