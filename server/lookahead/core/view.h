// What a look at the end of a text yields: candidates with their evidence, and where the longest matches stand.
#pragma once

#include <array>
#include <cstdint>

#include "history.h"
#include "mixer.h"

namespace windlass {

constexpr int kCandidates = 8;
constexpr std::uint32_t kLongest = 32;                     // lengths beyond it say nothing new
constexpr std::uint64_t kUseSalt = 0x5BD1E9955BD1E995ULL;  // the context of "used at all"

// A place in a text whose preceding tokens are the request's last ones.
struct Pointer {
  std::uint32_t next = kNowhere;  // the token that it foretells
  std::uint32_t length = 0;
};

struct Track {
  Pointer own;      // into the request's own tokens
  Pointer shared;   // into the history
  Pointer aligned;  // where the own match stood when it broke; length counts the agreements since
};

struct Candidate {
  Token token = 0;
  Evidence evidence;
};

struct View {
  std::array<Candidate, kCandidates> candidates;
  int size = 0;
  int set = 0;      // which weights the mixer uses
  int longest = 0;  // the longest context found, in tokens
};

}  // namespace windlass
