// What a disk may hold after the power went, given what a process did to it
// (tests/io_shim/record.h). The rule is what POSIX promises, and nothing of what file systems do
// besides: the data of a file are durable by fsync of that file, names by fsync of their directory.
// Of all that was done since, any part may be there: a write, half of it, a name without its file's
// data, a later change without an earlier one. A rename is one change.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace trireme::test {

struct RecordedCall {
  std::string name, path, other;  // paths below the root; "" is the root
  std::int64_t offset = 0;
  std::string data;
};

/// Throws: Error for a call outside of `root`, or a file that breaks off.
std::vector<RecordedCall> read_record(const std::string& file, const std::string& root);

/// Paths and contents ("/" at the end: a directory).
using Tree = std::map<std::string, std::string>;
Tree read_tree(const std::string& root);
void write_tree(const Tree& tree, const std::string& root);

class Disk {
 public:
  /// All of `tree` is durable.
  explicit Disk(const Tree& tree);
  /// Throws: Error when the call could not have succeeded.
  void apply(const RecordedCall& call);
  /// What may be found now: without everything that is not durable; with all of it; with all but
  /// one change or half of it; with one change alone; and `random` parts of it.
  std::set<Tree> after_cut(int random) const;

 private:
  enum class Kept { nothing, front, back, all };  // of a change; halves of a write only
  using Kepts = std::map<std::size_t, Kept>;      // by number; else what `others` says

  /// To a file: `data` at `offset`, or the new size. To a directory: the names with their new
  /// files, -1 for none.
  struct Change {
    std::size_t number;
    std::int64_t offset = 0;
    std::string data = {};
    bool resizes = false;
    std::map<std::string, int> names = {};
  };
  struct Node {
    bool is_directory = false;
    std::string durable = {}, now = {};
    std::map<std::string, int> durable_names = {}, names = {};
    std::vector<Change> pending = {};
  };

  int make(bool is_directory);
  int find(const std::string& path) const;
  void change_names(const std::string& path, std::map<std::string, int> names);
  void change_file(int node, Change change);
  void sync(int node);
  Tree tree(Kept others, const Kepts& kepts) const;
  void add_to(Tree& tree, const std::string& path, int node, Kept others, const Kepts& kepts) const;
  static void apply(const Change& change, Kept kept, std::string& bytes);
  static void apply(const Change& change, std::map<std::string, int>& names);

  std::vector<Node> nodes_;  // 0: the root
  std::size_t changes_ = 0;
};

}  // namespace trireme::test
