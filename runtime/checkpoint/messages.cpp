#include "runtime/checkpoint/messages.h"

#include <cstring>

namespace trireme::checkpoint {

std::vector<std::string> gather_on_root(const Host& host, const std::string& mine) {
  Communicator& group = host.world();
  const auto ranks = static_cast<std::size_t>(group.size());
  Index length = static_cast<Index>(mine.size());
  std::vector<Index> lengths(ranks);
  group.all_gather({&length, 1, DType::i64}, {lengths.data(), group.size(), DType::i64},
                   host.stream);
  if (group.rank() != 0) {
    std::string copy = mine;
    const Message send{0, copy.data(), length};
    group.exchange({&send, 1}, {}, host.stream);
    return {};
  }
  std::vector<std::string> all(ranks);
  std::vector<Message> receives;
  all[0] = mine;
  for (std::size_t r = 1; r < ranks; ++r) {
    all[r].resize(static_cast<std::size_t>(lengths[r]));
    receives.push_back({static_cast<int>(r), all[r].data(), lengths[r]});
  }
  group.exchange({}, receives, host.stream);
  return all;
}

void Packer::put(Index value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes_.append(raw, sizeof value);
}

void Packer::put(const std::string& text) {
  put(static_cast<Index>(text.size()));
  bytes_ += text;
}

const char* Unpacker::take(std::size_t count) {
  require(count <= bytes_.size() - next_, "a message of ", bytes_.size(), " bytes ends at byte ",
          next_, ", where ", count, " more are expected");
  const char* at = bytes_.data() + next_;
  next_ += count;
  return at;
}

Index Unpacker::number() {
  Index value = 0;
  std::memcpy(&value, take(sizeof value), sizeof value);
  return value;
}

std::string Unpacker::text() {
  const auto length = static_cast<std::size_t>(number());
  return {take(length), length};
}

}  // namespace trireme::checkpoint
