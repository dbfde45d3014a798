#include "runtime/checkpoint/memory/lost_pieces.h"

#include <vector>

#include "trireme/comm/agree.h"
#include "trireme/core/error.h"

namespace trireme::checkpoint {

LostPieces LostPieces::of_all(const Host& host) const {
  std::vector<std::string> mine;
  for (const auto& [rank, why] : reasons_) mine.push_back(str(rank, ' ', why));
  LostPieces all;
  for (const std::vector<std::string>& noticed : gather_lists(host, mine))
    for (const std::string& line : noticed)
      all.add(std::stoi(line), line.substr(line.find(' ') + 1));
  return all;
}

std::string LostPieces::text() const {
  if (empty()) return "";
  const auto& [rank, why] = *reasons_.begin();
  const std::size_t more = reasons_.size() - 1;
  return str("rank ", rank, ": ", why,
             more == 0 ? "" : str(" (and of ", more, more == 1 ? " more rank)" : " more ranks)"));
}

}  // namespace trireme::checkpoint
