#include "trireme/comm/agree.h"

#include <algorithm>

#include "runtime/core/text/exception_text.h"

namespace trireme {

std::string broadcast_text(const Host& host, const std::string& of_root) {
  Index length = static_cast<Index>(of_root.size());
  host.broadcast({&length, 1, DType::i64}, 0);
  std::string text = of_root;
  text.resize(static_cast<std::size_t>(length));
  host.broadcast({text.data(), length, DType::u8}, 0);
  return text;
}

std::vector<std::string> gather_strings(const Host& host, const std::string& mine) {
  Communicator& group = host.world();
  const Index ranks = group.size();
  Index length = static_cast<Index>(mine.size());
  std::vector<Index> lengths(static_cast<std::size_t>(ranks));
  group.all_gather({&length, 1, DType::i64}, {lengths.data(), ranks, DType::i64}, host.stream);
  const Index longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = mine;
  padded.resize(static_cast<std::size_t>(longest));
  std::string all(static_cast<std::size_t>(longest * ranks), '\0');
  group.all_gather({padded.data(), longest, DType::u8}, {all.data(), longest * ranks, DType::u8},
                   host.stream);
  std::vector<std::string> strings;
  for (Index r = 0; r < ranks; ++r)
    strings.push_back(all.substr(static_cast<std::size_t>(r * longest),
                                 static_cast<std::size_t>(lengths[static_cast<std::size_t>(r)])));
  return strings;
}

std::vector<std::vector<std::string>> gather_lists(const Host& host,
                                                   const std::vector<std::string>& mine) {
  constexpr char end_of_string = '\x1e';
  std::string packed;
  for (const std::string& string : mine) packed += string + end_of_string;
  std::vector<std::vector<std::string>> lists;
  for (const std::string& all : gather_strings(host, packed)) {
    std::vector<std::string>& list = lists.emplace_back();
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t end = all.find(end_of_string, begin);
      list.push_back(all.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return lists;
}

void agree(const Host& host, const std::function<void()>& work) {
  std::string failure;
  std::int32_t failed = 0;
  try {
    work();
  } catch (...) {
    failure = current_exception_text();
    failed = 1;
  }
  Communicator& group = host.world();
  std::vector<std::int32_t> votes(static_cast<std::size_t>(group.size()));
  group.all_gather({&failed, 1, DType::i32}, {votes.data(), group.size(), DType::i32}, host.stream);
  const auto first = std::find(votes.begin(), votes.end(), 1);
  if (first == votes.end()) return;
  const auto failures = gather_strings(host, failure);
  const auto rank = first - votes.begin();
  throw Error(str("rank ", rank, ": ", failures[static_cast<std::size_t>(rank)]));
}

}  // namespace trireme
