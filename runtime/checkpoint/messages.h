// Text between rank 0 and all others, for one-time messages: catalogues, manifests, verdicts.
// Unlike with gather_strings only rank 0 holds the texts of all ranks, so that a thousand ranks do
// not hold them a thousand times.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/agree.h"

namespace trireme::checkpoint {

/// Collective. On rank 0 the texts of all ranks, in rank order; on others nothing.
std::vector<std::string> gather_on_root(const Host& host, const std::string& mine);

/// Collective. Runs `work` on rank 0. Returns the message of its exception on every rank; "" when
/// there was none.
template <class F>
std::string on_root(const Host& host, F&& work);

/// Collective. Runs `work` on all ranks. Returns the message of the exception of one of them on
/// every rank; "" when there was none.
template <class F>
std::string on_all(const Host& host, F&& work);

/// Bytes one after the other: whole numbers and texts.
class Packer {
 public:
  void put(Index value);
  void put(const std::string& text);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(const std::string& bytes) : bytes_(bytes) {}
  Index number();
  std::string text();
  bool at_end() const { return next_ == bytes_.size(); }

 private:
  const char* take(std::size_t count);
  const std::string& bytes_;
  std::size_t next_ = 0;
};

template <class F>
std::string on_root(const Host& host, F&& work) {
  std::string failure;
  if (host.rank() == 0) try {
      work();
    } catch (const std::exception& error) {
      failure = error.what();
    }
  return broadcast_text(host, failure);
}

template <class F>
std::string on_all(const Host& host, F&& work) {
  std::string failure;
  try {
    work();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const std::vector<std::string> failures = gather_on_root(host, failure);
  for (const std::string& each : failures)
    if (failure.empty()) failure = each;
  return broadcast_text(host, failure);
}

}  // namespace trireme::checkpoint
