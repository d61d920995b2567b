// Which token followed which context, how often and where last: a table of fixed size.
//
// A slot is one (context, next token) pair. The slots of a context lie in one window of neighbouring cache lines, so a
// look-up touches one or two lines, and a full window gives up its rarest, oldest slot. A position counts history
// tokens, so it is the slot's time as well.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "options.h"
#include "pages.h"

namespace windlass {

constexpr int kSlotsPerLine = 4;
constexpr int kMaxCell = 32;
constexpr float kFreqUnit = 16.0F;  // a frequency is kept in sixteenths

struct Slot {
  std::uint32_t check = 0;  // 0: empty
  Token token = 0;
  std::uint32_t position = 0;  // where the token stood last
  std::uint16_t freq = 0;
  std::uint16_t unused = 0;
};
static_assert(sizeof(Slot) == 16);

struct alignas(64) Line {
  Slot slots[kSlotsPerLine];
};

using Lines = std::vector<Line, LargePages<Line>>;

struct Successor {
  Token token;
  std::uint32_t position;
  std::uint32_t freq;  // sixteenths
};

// The successors of one context, as read at one moment.
struct Cell {
  Successor items[kMaxCell];
  int size = 0;
  std::uint32_t total = 0;  // sixteenths
  int newest = 0;           // index of the most recent successor
};

// Hashes of the last 1, 2, … tokens; index 0 is the last token alone.
inline std::uint64_t extend_hash(std::uint64_t shorter, Token token) {
  std::uint64_t h = (shorter ^ (token + 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL;
  return h ^ (h >> 32);
}

struct CellRules {
  int cell_max_size;
  float threshold;
  float decay;
};

class ContextTable {
 public:
  ContextTable(std::uint64_t slots, CellRules rules)
      : rules_(rules),
        lines_(std::max<std::uint64_t>(4, slots / kSlotsPerLine)),
        window_(static_cast<int>(std::min<std::uint64_t>(lines_.size(), std::max(2, rules.cell_max_size / 2)))) {}

  // Reads the successors of a context; false when there are none.
  bool find(std::uint64_t hash, Cell& cell) const {
    const std::uint32_t check = check_of(hash);
    cell.size = 0;
    cell.total = 0;
    cell.newest = 0;
    std::uint64_t at = line_of(hash);
    for (int probe = 0; probe < window_; ++probe, at = next(at)) {
      const Line& line = lines_[at];
      for (const Slot& slot : line.slots) {
        if (slot.check == 0) return cell.size > 0;
        if (slot.check != check || cell.size == kMaxCell) continue;
        cell.items[cell.size] = {slot.token, slot.position, slot.freq};
        if (static_cast<std::int32_t>(slot.position - cell.items[cell.newest].position) > 0) cell.newest = cell.size;
        cell.total += slot.freq;
        ++cell.size;
      }
    }
    return cell.size > 0;
  }

  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&lines_[line_of(hash)]); }

  // Notes that `token` followed the context at `position`.
  void add(std::uint64_t hash, Token token, std::uint32_t position) {
    const std::uint32_t check = check_of(hash);
    Slot* cell[kMaxCell];
    int size = 0;
    Slot* weakest = nullptr;
    std::uint64_t at = line_of(hash);
    for (int probe = 0; probe < window_; ++probe, at = next(at)) {
      for (Slot& slot : lines_[at].slots) {
        if (slot.check == 0) {
          place(cell, size, slot, check, token, position);
          return;
        }
        if (slot.check == check) {
          if (slot.token == token) return strengthen(slot, position);
          if (size < kMaxCell) cell[size++] = &slot;
        }
        if (weakest == nullptr || weaker(slot, *weakest)) weakest = &slot;
      }
    }
    if (size > 0 && size >= rules_.cell_max_size) weakest = victim(cell, size);
    // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a line has slots
    write(*weakest, check, token, position);
  }

  std::uint64_t used() const { return used_; }
  std::uint64_t capacity() const { return lines_.size() * kSlotsPerLine; }
  std::uint64_t bytes() const { return lines_.capacity() * sizeof(Line); }
  Lines& lines() { return lines_; }
  const Lines& lines() const { return lines_; }
  void set_used(std::uint64_t used) { used_ = used; }

 private:
  static std::uint32_t check_of(std::uint64_t hash) {
    const auto check = static_cast<std::uint32_t>(hash);
    return check == 0 ? 1 : check;
  }
  // A multiply in place of a modulus: the table may have any number of lines.
  std::uint64_t line_of(std::uint64_t hash) const {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(hash * 0x9FB21C651E98DF25ULL) * lines_.size()) >>
                                      64);
  }
  std::uint64_t next(std::uint64_t line) const { return line + 1 == lines_.size() ? 0 : line + 1; }
  static bool weaker(const Slot& a, const Slot& b) {
    if (a.freq != b.freq) return a.freq < b.freq;
    return static_cast<std::int32_t>(a.position - b.position) < 0;
  }
  static void strengthen(Slot& slot, std::uint32_t position) {
    slot.freq =
        static_cast<std::uint16_t>(std::min<std::uint32_t>(0xFFFF, slot.freq + static_cast<std::uint32_t>(kFreqUnit)));
    slot.position = position;
  }
  static void write(Slot& slot, std::uint32_t check, Token token, std::uint32_t position) {
    slot = {check, token, position, static_cast<std::uint16_t>(kFreqUnit), 0};
  }
  void place(Slot** cell, int size, Slot& empty, std::uint32_t check, Token token, std::uint32_t position) {
    if (size > 0 && size >= rules_.cell_max_size) return write(*victim(cell, size), check, token, position);
    write(empty, check, token, position);
    ++used_;
  }
  // A full cell loses its weakest successor; when none is below the threshold, all decay first.
  Slot* victim(Slot** cell, int size) {
    Slot* weakest = cell[0];
    for (int i = 1; i < size; ++i) {
      if (weaker(*cell[i], *weakest)) weakest = cell[i];
    }
    if (weakest->freq >= rules_.threshold * kFreqUnit) {
      for (int i = 0; i < size; ++i) {
        cell[i]->freq = static_cast<std::uint16_t>(std::max(1.0F, static_cast<float>(cell[i]->freq) * rules_.decay));
      }
    }
    return weakest;
  }
  CellRules rules_;
  Lines lines_;
  int window_;  // lines in which the slots of a context may lie
  std::uint64_t used_ = 0;
};

}  // namespace windlass
