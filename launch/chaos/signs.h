// By what `trireme chaos` notices a fault that ends no attempt.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/observe/page_reader.h"

namespace trireme::supervisor {

/// How many ranks each pipeline stage has, and how many data replicas there are; 0: not known.
struct Replicas {
  Index of_stage = 0, data = 0;
};
Replicas replicas_of(const std::vector<observe::PageState>& pages);

/// The first skipped step after step `after` in a metrics file; -1: none.
Index skipped_step(const std::string& metrics, Index after);

/// Bytes of a file; 0: there is none.
Index size_of(const std::string& path);
/// What an attempt's log gains, also where it is rotated meanwhile (OutputLog).
class LogTail {
 public:
  /// Reads what is written from now on.
  explicit LogTail(std::string log);
  ~LogTail();
  LogTail(const LogTail&) = delete;
  LogTail& operator=(const LogTail&) = delete;

  /// All so far. Call it often: of a log that was rotated twice since, what is gone is left out.
  const std::string& read();

 private:
  void read_to_end();

  const std::string log_;
  int file_ = -1;  // it is open, so that no other file gets its number; -1: there was none
  std::string text_;
};
/// The line that says that a save has failed; empty: none.
std::string failed_save(const std::string& text);
/// The step from which the attempt with this log has continued, as its ranks say; -1: not known.
Index loaded_step(const std::string& log);
/// Reads the log by `read`, which returns the text of a file, "" where there is none; the log may
/// be rotated before, between and after its calls.
using ReadText = std::function<std::string(const std::string& path)>;
Index loaded_step(const std::string& log, const ReadText& read);

/// The hosts of the ranks that held the others up in an attempt that hung, by the verdict in its
/// folder; none where there is no verdict.
std::vector<std::string> suspected_hosts(const std::string& folder);

/// What became of a bit that was flipped in a copy of a checkpoint.
struct CorruptCopy {
  std::string where;    // "step-000120/rank-00003.h5, byte 17"
  std::string problem;  // what the reader of checkpoints says of this file; empty: nothing
};
/// Copies the newest durable step of a run to `directory`, which is new or empty, flips a bit of
/// the copy, and has it read. The copy is removed. Throws: Error.
CorruptCopy corrupt_a_copy(const std::string& run, const std::string& directory, Index draw);

}  // namespace trireme::supervisor
