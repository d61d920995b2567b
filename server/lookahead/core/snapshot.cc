// The shared cache in a file: a header that says whose tokens these are, the arrays, and a checksum of all.
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <type_traits>

#include "cache.h"

namespace windlass {

namespace {

constexpr std::array<char, 8> kMagic = {'W', 'L', 'L', 'O', 'O', 'K', '0', '1'};
constexpr std::size_t kTokenizerBytes = 64;

struct Header {
  std::array<char, 8> magic;
  std::array<char, kTokenizerBytes> tokenizer;
  std::uint64_t voc_size;
  std::uint64_t turbo_match_length;
  std::uint64_t lines;
  std::uint64_t used;
  std::uint64_t payload_bytes;
  std::uint64_t checksum;
};

// Words of eight bytes by multiply and shift: it finds a damaged file, it does not guard against a forged one.
std::uint64_t checksum_of(std::uint64_t sum, const char* data, std::size_t size) {
  for (std::size_t at = 0; at < size; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<std::size_t>(8, size - at));
    sum = (sum ^ word) * 0x9FB21C651E98DF25ULL;
    sum ^= sum >> 29;
  }
  return sum;
}

template <class Part>
std::pair<char*, std::size_t> span_of(Part& part) {
  if constexpr (std::is_trivially_copyable_v<Part>) {
    return {reinterpret_cast<char*>(&part), sizeof(Part)};
  } else {
    static_assert(std::is_trivially_copyable_v<typename Part::value_type>);
    return {reinterpret_cast<char*>(part.data()), part.size() * sizeof(typename Part::value_type)};
  }
}

// Reads a file's header; throws std::runtime_error with a sentence where its tokens are not ours.
Header header_of(std::ifstream& file, const std::string& path, const std::string& tokenizer, std::uint64_t voc_size) {
  Header header{};
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  if (!file || header.magic != kMagic) {
    throw std::runtime_error(path + " is not a lookahead cache file of this version; delete it.");
  }
  std::array<char, kTokenizerBytes> wanted{};
  tokenizer.copy(wanted.data(), kTokenizerBytes);
  if (header.tokenizer != wanted || header.voc_size != voc_size) {
    throw std::runtime_error(path + " holds tokens of another tokenizer; delete it or name another file.");
  }
  return header;
}
}  // namespace

template <class Visitor>
void Cache::visit(Visitor&& visitor) {
  visitor(shared_.lines());
  history_.visit(visitor);
  visitor(uses_);
  mixer_.visit(visitor);
  calibration_.visit(visitor);
}

// Copies under the lock and writes without it: a slow volume holds no request up.
void Cache::save(const std::string& path, const std::string& tokenizer) {
  std::unique_lock lock(mutex_);
  learn();
  publish(std::numeric_limits<std::size_t>::max());
  Header header{kMagic,
                {},
                options_.voc_size,
                static_cast<std::uint64_t>(options_.turbo_match_length),
                shared_.lines().size(),
                shared_.used(),
                0,
                0};
  tokenizer.copy(header.tokenizer.data(), kTokenizerBytes);
  std::vector<std::vector<char>> parts;
  visit([&](auto& part) {
    const auto [data, size] = span_of(part);
    parts.emplace_back(data, data + size);
  });
  lock.unlock();
  for (const std::vector<char>& part : parts) {
    header.payload_bytes += part.size();
    header.checksum = checksum_of(header.checksum, part.data(), part.size());
  }
  const std::string unfinished = path + ".part";
  std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const std::vector<char>& part : parts) file.write(part.data(), static_cast<std::streamsize>(part.size()));
  file.close();
  if (!file || std::rename(unfinished.c_str(), path.c_str()) != 0) {
    std::remove(unfinished.c_str());
    throw std::runtime_error("cannot write the lookahead cache file " + path +
                             "; is there space, and may we write there?");
  }
}

void Cache::load(const std::string& path, const std::string& tokenizer) {
  const std::lock_guard lock(mutex_);
  learn();
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read the lookahead cache file " + path + ".");
  const Header header = header_of(file, path, tokenizer, options_.voc_size);
  auto fresh = std::make_unique<Cache>(options_);
  std::uint64_t bytes = 0;
  fresh->visit([&](auto& part) { bytes += span_of(part).second; });
  if (header.lines != shared_.lines().size() || bytes != header.payload_bytes ||
      header.turbo_match_length != static_cast<std::uint64_t>(options_.turbo_match_length)) {
    throw std::runtime_error(
        path + " was written with another cache_size or turbo_match_length; delete it or set these again.");
  }
  std::uint64_t sum = 0;
  fresh->visit([&](auto& part) {
    const auto [data, size] = span_of(part);
    file.read(data, static_cast<std::streamsize>(size));
    sum = checksum_of(sum, data, size);
  });
  if (!file || sum != header.checksum || file.peek() != std::ifstream::traits_type::eof()) {
    throw std::runtime_error(path + " is damaged; delete it.");
  }
  shared_ = std::move(fresh->shared_);
  shared_.set_used(header.used);
  history_ = std::move(fresh->history_);
  uses_ = std::move(fresh->uses_);
  mixer_ = fresh->mixer_;
  calibration_ = fresh->calibration_;
  for (auto& [id, request] : requests_) {
    request->track.shared = {};
    request->next_known = false;
  }
}

}  // namespace windlass
