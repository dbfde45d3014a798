// Continues Saver (checkpoint/save.h). Saver on rank 0, once it knows the outcome of all files:
// commits the save or removes a failed one, reports it, and deletes steps that are no longer
// wanted. The committer thread does the file work, so that training never waits for it.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "runtime/checkpoint/save.h"
#include "runtime/core/show_bytes.h"

namespace trireme::checkpoint {

Saver::ShardReport Saver::report_in(const ReportMessage& message) {
  ShardReport report;
  std::memcpy(&report, message.data(), sizeof report);
  report.error[sizeof report.error - 1] = '\0';
  return report;
}

std::vector<Checksum> Saver::checksums_in(const ReportMessage& message) {
  std::vector<Checksum> sums((message.size() - header_bytes) / sizeof(Checksum));
  std::memcpy(sums.data(), message.data() + header_bytes, sums.size() * sizeof(Checksum));
  return sums;
}

/// "rank 3: … (and 2 more ranks)"; "" when all succeeded.
std::string Saver::failure_of_ranks() const {
  std::string first;
  int failed = 0;
  for (std::size_t r = 0; r < reports_.size(); ++r) {
    const ShardReport report = report_in(reports_[r]);
    if (report.failed == 0) continue;
    if (failed++ == 0) first = fmt::format("rank {}: {}", r, report.error);
  }
  return failed > 1 ? fmt::format("{} (and {} more ranks)", first, failed - 1) : first;
}

void Saver::start_commit() {
  phase_ = Phase::committing;
  report_prune();
  committer_->start([this, failure = failure_of_ranks()] { commit(failure); });
}

/// Runs on the worker.
void Saver::commit(const std::string& failure) {
  commit_error_ = failure;
  try {
    require(failure.empty(), failure);
    require(lease_->held(), "another job has taken over ", options_.save,
            " while this one was stopped; nothing is saved there any more");
    commit_step(options_.save, complete_manifest());
    durable_ = Clock::now();
    return;
  } catch (const std::exception& error) {
    commit_error_ = error.what();
  }
  try {
    discard_step(options_.save, step_, run_);
  } catch (const std::exception& error) {
    commit_error_ += str("; and what it left cannot be removed: ", error.what());
  }
}

Manifest Saver::complete_manifest() const {
  Manifest manifest = head_;
  manifest.files = catalog_.files;
  manifest.tensors = catalog_.tensors;
  for (std::size_t r = 0; r < reports_.size(); ++r)
    manifest.files[r].blocks = checksums_in(reports_[r]);
  manifest.files.back().blocks = outputs_.back().snapshot->report().blocks;
  return manifest;
}

void Saver::report_success() {
  ShardReport worst;
  for (const ReportMessage& message : reports_) {
    const ShardReport report = report_in(message);
    worst.stall_ms = std::max(worst.stall_ms, report.stall_ms);
    worst.copy_ms = std::max(worst.copy_ms, report.copy_ms);
    worst.write_ms = std::max(worst.write_ms, report.write_ms);
    worst.bytes += report.bytes;
    worst.direct &= report.direct;
    worst.reserved &= report.reserved;
  }
  const auto rate = [&](double ms) {
    return static_cast<double>(worst.bytes) / std::max(ms, 1e-3) / 1e6;
  };
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  std::string before = "the first of this job";
  if (durable_before_ != Clock::time_point())
    before = fmt::format("last durable step {}, {:.1f} s older", last_committed_,
                         seconds(durable_ - durable_before_));
  context_.log().info(fmt::format(
      "saved step {}: stall {:.1f} ms (copy {:.2f} GB/s), write {:.2f} GB/s, {} over {} rank{}, "
      "durable after {:.2f} s; {}",
      step_, worst.stall_ms, rate(worst.copy_ms), rate(worst.write_ms), show_bytes(worst.bytes),
      reports_.size(), reports_.size() == 1 ? "" : "s", seconds(durable_ - began_), before));
  durable_before_ = durable_;
  if (said_how_written_) return;
  said_how_written_ = true;
  if (worst.direct == 0)
    context_.log().info("O_DIRECT is refused in " + options_.save +
                        ": checkpoints go through the page cache");
  if (worst.reserved == 0)
    context_.log().info("space cannot be reserved in " + options_.save +
                        ": a full disk is noticed only while a checkpoint is written");
}

void Saver::report_failure() const {
  context_.log().warning(fmt::format(
      "step {} is not saved: {}; training continues, {}{}", step_, commit_error_,
      last_committed_ < 0 ? "without any checkpoint of this job"
                          : fmt::format("the newest checkpoint is step {}", last_committed_),
      failures_ > 1 ? fmt::format("; the last {} saves have failed", failures_) : ""));
}

void Saver::delete_older() {
  const Retention retention{options_.keep_last, options_.save_retain_interval};
  if (!delete_due_ || retention.keep_last == 0 || !committer_->finished()) return;
  delete_due_ = false;
  committer_->start([this, retention] {
    try {
      prune_steps(options_.save, retention);
    } catch (const std::exception& error) {
      prune_error_ = error.what();
    }
  });
}

/// Call while the committer is idle.
void Saver::report_prune() {
  if (!prune_error_.empty())
    context_.log().warning("old checkpoints cannot be deleted: " + prune_error_);
  prune_error_.clear();
}

}  // namespace trireme::checkpoint
