// GemmCache: which algorithm was chosen for a product, on disk, so that every rank and every later
// job takes the same one.
//
// Rule: the first that publishes a choice decides for all, and nobody uses a choice that was not
// published. One small text file a product, in one folder for each GPU model and version of
// cuBLASLt; it appears whole, under its name, by link(2), which fails where another rank was
// faster. A file that is damaged, or that belongs elsewhere, is left as it is and not used.
#pragma once

#include <string>

namespace trireme {

class GemmCache {
 public:
  /// What stands on disk for a product.
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
  /// Stores `choice` (one line) unless another was faster. Returns: what then stands there.
  /// Throws: Error when it cannot be written: ranks could then not agree.
  Entry publish(const std::string& product, const std::string& choice) const;

 private:
  std::string path_of(const std::string& product) const;
  std::string head(const std::string& product) const;

  std::string gpu_, library_, folder_;
};

}  // namespace trireme
