// GemmCache: the algorithms chosen for products, on disk, so that every rank and every later job
// uses the same ones.
//
// Rule: the first rank that publishes a choice decides for all, and no rank uses a choice that was
// not published. There is one small text file per product, in one folder per GPU model and version
// of cuBLASLt. It appears complete under its name by link(2), which fails if another rank was
// faster. A file that is damaged, or belongs to another product, is left unchanged and not used.
#pragma once

#include <string>

namespace trireme::kernels {

class GemmCache {
 public:
  /// What the disk has for a product.
  struct Entry {
    enum class State { missing, good, unusable };
    State state = State::missing;
    std::string choice;  // good
    std::string why;     // unusable: for people
  };

  /// `directory` is made when something is stored; empty: no cache. `gpu` and `library` are
  /// whatever a choice is only good for.
  GemmCache(const std::string& directory, std::string gpu, std::string library);

  bool on() const { return !folder_.empty(); }
  Entry find(const std::string& product) const;
  /// Stores `choice` (one line) unless another rank was faster. Returns what is then on disk.
  /// Throws: Error when it cannot be written: ranks could then not agree.
  Entry publish(const std::string& product, const std::string& choice) const;

 private:
  std::string path_of(const std::string& product) const;
  std::string head(const std::string& product) const;

  std::string gpu_, library_, folder_;
};

}  // namespace trireme::kernels
