// The phases of a save, and its end on rank 0, the commit.
#include "runtime/checkpoint/tiers/saver.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "runtime/checkpoint/tensors.h"
#include "runtime/checkpoint/tiers/tier.h"
#include "runtime/comm/page_of.h"
#include "runtime/core/seconds_since.h"
#include "runtime/core/show_bytes.h"
#include "runtime/store/file.h"

namespace trireme::checkpoint {
namespace {

double milliseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

std::size_t Saver::report_bytes(Index file_bytes) {
  return static_cast<std::size_t>(header_bytes +
                                  blocks_of(file_bytes) * static_cast<Index>(sizeof(Checksum)));
}

Saver::Saver(const Context& context, Parts parts)
    : context_(context),
      options_(context.options().checkpoint),
      page_(comm::page_of(context.host().mesh, no_page_)),
      run_(std::move(parts.run)),
      head_of_(std::move(parts.head)),
      saved_(std::move(parts.saved)),
      catalog_(std::move(parts.catalog)),
      lease_(std::move(parts.lease)),
      group_(std::move(parts.group)) {
  const Index image = parts.layout.bytes;
  report_.resize(report_bytes(image));
  add_output(shard_name(group_->rank()), shard_snapshot(std::move(parts.layout)));
  log_how_it_saves(image);
  if (group_->rank() != 0) return;
  FileLayout global = lay_out_global(global_tensors(catalog_));
  const Index global_bytes = global.bytes;
  add_output(global_name, std::make_unique<Snapshot>(std::move(global), 0));
  for (const Manifest::File& file : catalog_.files) reports_.emplace_back(report_bytes(file.bytes));
  for (std::size_t r = 1; r < reports_.size(); ++r)
    receives_.push_back(
        {static_cast<int>(r), reports_[r].data(), static_cast<Index>(reports_[r].size())});
  catalog_.files.push_back({global_name, global_bytes, {}});
  committer_ = std::make_unique<Worker>();
}

std::unique_ptr<Snapshot> Saver::shard_snapshot(FileLayout layout) {
  Device& device = context_.device();
  if (device.kind() == DeviceKind::cpu)
    return std::make_unique<Snapshot>(std::move(layout), options_.save_buffer);
  copies_ = device.make_stream();
  ready_ = device.make_event();
  return std::make_unique<Snapshot>(std::move(layout), options_.save_buffer, device);
}

void Saver::add_output(const std::string& name, std::unique_ptr<Snapshot> snapshot) {
  Output& output = outputs_.emplace_back();
  output.name = name;
  output.snapshot = std::move(snapshot);
  output.snapshot->while_waiting([this] { page_.heartbeat(); });
  output.worker = std::make_unique<Worker>();
}

void Saver::log_how_it_saves(Index image_bytes) const {
  Index numbers[] = {image_bytes, outputs_.front().snapshot->buffer_bytes()};
  group_->all_reduce({numbers, 2, DType::i64}, Reduction::max, context_.host().stream);
  const Log& log = context_.log();
  log.info(fmt::format("saves to {}: at most {} a rank, copied into a buffer of {}", options_.save,
                       show_bytes(numbers[0]), show_bytes(numbers[1])));
  if (options_.save_buffer > 0 && numbers[1] < numbers[0])
    log.info(fmt::format(
        "--save-buffer {} is smaller than a rank's share: a save holds training until what does "
        "not fit is on disk",
        options_.save_buffer));
}

TierNeed Saver::need(const Context& context, const FlatLayout& flat,
                     const OptimizerOptions& optimizer) {
  const CheckpointOptions& options = context.options().checkpoint;
  if (options.save.empty()) return {};
  const FileLayout layout =
      lay_out(options, planned_pieces(flat, optimizer, context.mesh().rank() == 0));
  return {Snapshot::buffer_bytes(layout.bytes, options.save_buffer), 0};
}

FileLayout Saver::lay_out(const CheckpointOptions& options, std::vector<Piece> pieces) {
  try {
    return lay_out_shard(std::move(pieces));
  } catch (const Error& error) {
    throw Error(str("--save ", options.save, ": ", error.what()));
  }
}

bool Saver::due(Index step) const {
  return asked_ || (options_.save_interval > 0 && step % options_.save_interval == 0);
}

double Saver::vote() const {
  const double interval = options_.save_interval_seconds;
  const bool asks = interval > 0 && group_->rank() == 0 && seconds_since(last_start_) >= interval;
  return asks ? 1 : 0;
}

void Saver::start(const SavedState& state) {
  last_start_ = Clock::now();
  asked_ = false;
  start_writing(state.progress.step, head_of_(state));
  if (!options_.async_save) finish();
}

void Saver::start_writing(Index step, Manifest head) {
  const Clock::time_point called = Clock::now();
  wait_until_idle();
  if (step == last_committed_) return;  // this state is saved
  began_ = Clock::now();
  step_ = step;
  head_ = std::move(head);
  failure_.clear();
  const std::string directory = unfinished_path(options_.save, step, run_);
  try {
    const StorageWait shown(page_);  // a save waits where its buffer is full
    make_directory(directory);
    start_outputs(directory);
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  stall_ms_ = milliseconds(Clock::now() - called);
  if (group_->rank() == 0)
    reports_ticket_ = group_->start_exchange({}, receives_, context_.host().stream);
  phase_ = Phase::writing;
}

void Saver::start_outputs(const std::string& directory) {
  for (Output& output : outputs_) {
    const std::string path = directory + "/" + output.name;
    const bool of_device = copies_ && &output == &outputs_.front();
    if (!of_device) {
      output.snapshot->save(path, context_.host().stream.pool(), *output.worker);
      continue;
    }
    copies_->synchronize();  // a save that failed may have left some
    ready_->record(context_.stream());
    ready_->make_wait(*copies_);
    output.snapshot->start_saving(path, *copies_, *output.worker);
    copying_ = true;
  }
}

void Saver::before_update() {
  if (!copying_) return;
  const Clock::time_point called = Clock::now();
  const StorageWait shown(page_);
  outputs_.front().snapshot->finish_copying(*copies_);
  ready_->record(*copies_);
  ready_->make_wait(context_.stream());
  copying_ = false;
  stall_ms_ += milliseconds(Clock::now() - called);
}

bool Saver::written() const {
  return std::all_of(outputs_.begin(), outputs_.end(),
                     [](const Output& output) { return output.worker->finished(); });
}

void Saver::poll() {
  if (idle()) return;
  group_->progress();
  if (phase_ == Phase::writing && copies_) outputs_.front().snapshot->move_on(*copies_);
  if (phase_ == Phase::writing && written()) send_report();
  if (phase_ == Phase::gathering && group_->done(reports_ticket_) && committer_->finished())
    start_commit();
  if (phase_ == Phase::committing && committer_->finished()) send_outcome();
  if (phase_ == Phase::waiting && group_->done(reports_ticket_) && group_->done(outcome_ticket_))
    end_save();
}

/// The outcome of this rank's files.
void Saver::write_report() {
  ShardReport report;
  report.stall_ms = stall_ms_;
  for (Output& output : outputs_) {
    try {
      output.worker->wait();
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
    if (!failure_.empty()) break;  // the reports are those of the save before
    const SnapshotReport& file = output.snapshot->report();
    failure_ = file.error;
    report.direct &= file.direct ? 1 : 0;
    report.reserved &= file.reserved ? 1 : 0;
    report.copy_ms += file.copy_ms;
    report.write_ms = std::max(report.write_ms, file.write_ms);
    report.bytes += file.bytes;
  }
  report.failed = failure_.empty() ? 0 : 1;
  failure_.copy(report.error, sizeof report.error - 1);
  std::memcpy(report_.data(), &report, sizeof report);
  const std::vector<Checksum>& sums = outputs_.front().snapshot->report().blocks;
  const std::size_t sum_bytes = sums.size() * sizeof(Checksum);
  if (report.failed != 0) return;
  require(header_bytes + sum_bytes == report_.size(), "a file of ", report_.size(),
          " bytes of checksums has ", sum_bytes);
  std::memcpy(report_.data() + header_bytes, sums.data(), sum_bytes);
}

void Saver::send_report() {
  write_report();
  if (group_->rank() == 0) {
    reports_[0] = report_;
    phase_ = Phase::gathering;
    return;
  }
  const Message send{0, report_.data(), static_cast<Index>(report_.size())};
  reports_ticket_ = group_->start_exchange({&send, 1}, {}, context_.host().stream);
  outcome_ticket_ = group_->start_broadcast({&outcome_, 1, DType::i64}, 0, context_.host().stream);
  phase_ = Phase::waiting;
}

void Saver::send_outcome() {
  outcome_ = commit_error_.empty() ? 1 : 0;
  outcome_ticket_ = group_->start_broadcast({&outcome_, 1, DType::i64}, 0, context_.host().stream);
  phase_ = Phase::waiting;
}

void Saver::end_save() {
  phase_ = Phase::idle;
  const bool committed = outcome_ == 1;
  failures_ = committed ? 0 : failures_ + 1;
  if (group_->rank() == 0) report_save();
  if (!committed) return;
  last_committed_ = step_;
  page_.set_durable_step(step_);
  delete_due_ = group_->rank() == 0;
}

void Saver::resumed_from(Index step) {
  last_committed_ = step;
  page_.set_durable_step(step);
  delete_due_ = group_->rank() == 0;
}

/// Waits without a time limit and serves the other groups of this rank in the meantime.
void Saver::wait_until_idle() {
  if (idle()) return;
  const StorageWait shown(page_);
  while (!idle()) {
    page_.heartbeat();
    poll();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Saver::finish() {
  wait_until_idle();
  if (!committer_) return;
  const StorageWait shown(page_);  // older steps are being deleted
  for (; !committer_->finished(); std::this_thread::sleep_for(std::chrono::microseconds(100)))
    page_.heartbeat();
  committer_->wait();
  report_prune();
}

void Saver::finish_and_delete_older() {
  finish();
  delete_older();
  finish();
}

// Saver on rank 0, once it knows the outcome of all files:
// commits the save or removes a failed one, reports it, and deletes steps that are no longer
// wanted. The committer thread does the file work, so that training never waits for it.

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

void Saver::report_save() {
  SaveRecord record{step_, commit_error_};
  record.step_before = last_committed_;
  record.failures = failures_;
  record.ranks = static_cast<Index>(reports_.size());
  if (!record.error.empty()) return saved_(record);
  bool direct = true, reserved = true;
  for (const ReportMessage& message : reports_) {
    const ShardReport report = report_in(message);
    record.stall_ms = std::max(record.stall_ms, report.stall_ms);
    record.copy_ms = std::max(record.copy_ms, report.copy_ms);
    record.write_ms = std::max(record.write_ms, report.write_ms);
    record.bytes += report.bytes;
    direct = direct && report.direct != 0;
    reserved = reserved && report.reserved != 0;
  }
  record.durable_after_s = milliseconds(durable_ - began_) / 1e3;
  if (durable_before_ != Clock::time_point())
    record.after_that_s = milliseconds(durable_ - durable_before_) / 1e3;
  durable_before_ = durable_;
  saved_(record);
  if (std::exchange(said_how_written_, true)) return;
  if (!direct)
    context_.log().info("O_DIRECT is refused in " + options_.save +
                        ": checkpoints go through the page cache");
  if (!reserved)
    context_.log().info("space cannot be reserved in " + options_.save +
                        ": a full disk is noticed only while a checkpoint is written");
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
