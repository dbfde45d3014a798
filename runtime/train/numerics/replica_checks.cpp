#include "runtime/train/numerics/replica_checks.h"

#include <algorithm>
#include <cstdlib>

#include "trireme/comm/agree.h"

#include "runtime/core/process/this_machine.h"
#include "runtime/optim/replica_hashes.h"
#include "runtime/store/file.h"

namespace trireme::train {
namespace {

/// Which buckets are compared: records of another layout say nothing of these.
std::string layout_of(const Context& context, const FlatLayout& flat) {
  Index elements = flat.count();
  context.host().all_reduce({&elements, 1, DType::i64}, Reduction::sum);
  return str(context.mesh().shape().describe(), flat.masters_are_slices() ? ", copies" : "", ", ",
             elements, " elements, ", context.options().bucket_size, " a bucket");
}

// The file replicas.jsonl of the --save directory: what ranks held or computed when bits differed.

constexpr Index most_bytes = Index{16} << 20;  // a record takes some KiB

std::string file_of(const Context& context) {
  const std::string& directory = context.options().checkpoint.save;
  return directory.empty() ? "" : str(directory, '/', replica_file_name);
}

/// Returns the attempt of the supervisor that started this job; 0: none did.
Index this_attempt() {
  const char* attempt = std::getenv("TRIREME_ATTEMPT");
  return attempt == nullptr ? 0 : Index{std::atoll(attempt)};
}

/// Returns the newest records; empty where there is no --save directory, or no file. Throws: Error
/// when it cannot be read.
std::string read_records(const Context& context) {
  const std::string path = file_of(context);
  return path.empty() ? "" : read_last_lines(path, most_bytes);
}

/// On rank 0. Where it cannot be written, a warning says why.
void append_record(const Context& context, const ReplicaRecord& record) {
  const std::string path = file_of(context);
  if (path.empty() || context.host().rank() != 0) return;
  try {
    append_line(path, to_line(record));
  } catch (const Error& error) {
    context.log().warning(str("what the ranks held is not recorded: ", error.what()));
  }
}

}  // namespace

ReplicaChecks::ReplicaChecks(const Context& context, const FlatLayout& flat, ReplicaHashes* hashes)
    : context_(context), flat_(flat), hashes_(hashes) {
  if (!on()) return;
  const Host& host = context.host();
  layout_ = layout_of(context, flat);
  std::string file;
  agree_or_stop(host, [&] {
    if (host.rank() == 0) file = read_records(context);
  });
  undecided_ = undecided(broadcast_text(host, file), layout_);
}

bool ReplicaChecks::due(Index step) const {
  return on() && (step % context_.options().check_replicas == 0 ||
                  (!undecided_.empty() && undecided_.front().step == step));
}

std::string ReplicaChecks::check(Index step) {
  if (!on() || last_clean_ == step) return "";
  hashes_->start();
  hashes_->wait();
  Index differs = hashes_->any_differs() ? 1 : 0;
  context_.host().all_reduce({&differs, 1, DType::i64}, Reduction::max);
  if (differs != 0) return differ(step);
  last_clean_ = step;
  if (!undecided_.empty() && undecided_.front().step == step) decide(step);
  return "";
}

/// Collective. Of all data groups.
Index ReplicaChecks::differing_buckets() const {
  const Mesh& mesh = context_.mesh();
  Index count = 0;
  if (mesh.shape().coordinate(mesh.rank(), Role::gradient) == 0)
    for (int bucket = 0; bucket < hashes_->buckets(); ++bucket)
      count += hashes_->differs(bucket) ? 1 : 0;
  context_.host().all_reduce({&count, 1, DType::i64}, Reduction::sum);
  return count;
}

/// What this rank's data group holds: of the first buckets that differ, and of those that an
/// undecided record is about. One rank of each group reports.
std::vector<BucketVote> ReplicaChecks::votes() const {
  constexpr std::size_t most_votes = 8;  // more decide no better, and make a record long
  std::vector<BucketVote> votes;
  std::size_t differing = 0;
  const MeshShape& shape = context_.mesh().shape();
  const int rank = context_.mesh().rank();
  if (shape.coordinate(rank, Role::gradient) != 0) return votes;
  for (int bucket = 0; bucket < hashes_->buckets(); ++bucket) {
    BucketVote vote{str("stage ", shape.coordinate(rank, Role::stage), ", tensor rank ",
                        shape.coordinate(rank, Role::tensor), ", bucket ", bucket),
                    names_in_bucket(flat_, bucket),
                    {},
                    shape.group(rank, Role::gradient)};
    const auto same = [&](const BucketVote& each) { return each.place == vote.place; };
    const bool asked = std::any_of(undecided_.begin(), undecided_.end(), [&](const auto& record) {
      return std::any_of(record.votes.begin(), record.votes.end(), same);
    });
    const bool differs = hashes_->differs(bucket);
    if (!asked && (!differs || differing >= most_votes)) continue;
    if (differs) ++differing;
    for (int replica = 0; replica < hashes_->replicas(); ++replica)
      vote.hashes.push_back(hashes_->at(replica, bucket));
    votes.push_back(std::move(vote));
  }
  return votes;
}

/// Collective. The same on every rank.
ReplicaRecord ReplicaChecks::gather(Index step) const {
  ReplicaRecord mine{step, this_attempt(), layout_, {}, votes(), {}};
  ReplicaRecord all = mine;
  all.votes.clear();
  all.hosts = gather_strings(context_.host(), host_name());
  for (const std::string& line : gather_strings(context_.host(), to_line(mine))) {
    const auto record = parse_replica_record(line);
    require(record.has_value(), "a rank sent no votes");
    all.votes.insert(all.votes.end(), record->votes.begin(), record->votes.end());
  }
  return all;
}

std::string ReplicaChecks::differ(Index step) {
  const Index others = differing_buckets() - 1;
  ReplicaRecord record = gather(step);
  std::vector<ReplicaRecord> all{record};
  if (!undecided_.empty() && undecided_.front().step == step)
    all.insert(all.end(), undecided_.begin(), undecided_.end());
  record.wrong = outvoted(all);
  append_record(context_, record);
  const auto first =
      std::find_if(record.votes.begin(), record.votes.end(), [](const BucketVote& vote) {
        return !std::equal(vote.hashes.begin() + 1, vote.hashes.end(), vote.hashes.begin());
      });
  if (first == record.votes.end())  // the exchange of the hashes is what differs
    return str("silent corruption: after step ", step,
               " ranks have other hashes of the same data replicas");
  const BucketVote& shown = *first;
  std::string held;
  for (const int rank : shown.ranks)
    held += str(held.empty() ? "rank " : ", rank ", rank, " on ",
                record.hosts[static_cast<std::size_t>(rank)]);
  return str("silent corruption: after step ", step, " the data replicas differ in ", shown.names,
             " (", shown.place, others > 0 ? str(", and ", others, " other buckets") : "", "): ",
             record.wrong.empty()
                 ? str(held,
                       " hold different bits, and the replicas do not decide whose are wrong: "
                       "the step done again from a checkpoint does")
                 : describe(record.wrong, record.attempt) +
                       (record.wrong.size() == 1 ? " has" : " have") +
                       " other bits than the others");
}

/// The replicas agree at a step at which they did not before: so it is known now who was wrong.
void ReplicaChecks::decide(Index step) {
  ReplicaRecord record = gather(step);
  std::vector<ReplicaRecord> all{record};
  all.insert(all.end(), undecided_.begin(), undecided_.end());
  record.wrong = outvoted(all);
  undecided_.clear();
  append_record(context_, record);
  if (record.wrong.empty()) {
    context_.log().info(str("step ", step,
                            " is done again, and its replicas agree; no rank held "
                            "these bits before, so it stays open which was wrong"));
    return;
  }
  context_.log().info(str("step ", step, " is done again, and its replicas agree: ",
                          describe(record.wrong, record.attempt), " had wrong bits"));
}

namespace {

using Part = StepHashes::Part;

// In the order of a step: what follows from a wrong number is wrong as well.
struct Named {
  Part part;
  const char* name;
};
constexpr Named parts_of_a_rank[] = {{Part::terms, "gradients"},
                                     {Part::masters, "masters"},
                                     {Part::first, "first moments"},
                                     {Part::second, "second moments"}};

}  // namespace

std::string StepVerification::check(Index step) {
  hashes_->finish();
  std::string mine;
  Index differs[2] = {0, hashes_->difference(Part::sums) >= 0 ? 1 : 0};
  const Named* first = nullptr;
  for (const Named& each : parts_of_a_rank)
    if (first == nullptr && hashes_->difference(each.part) >= 0) first = &each;
  if (first != nullptr) differs[0] = 1;
  context_.host().all_reduce({differs, 2, DType::i64}, Reduction::max);
  if (differs[0] + differs[1] == 0) {
    last_clean_ = step;
    return "";
  }
  if (first != nullptr)
    mine = str("other ", first->name, " of ",
               names_in_bucket(flat_, hashes_->difference(first->part)));
  const std::vector<std::string> all = gather_strings(context_.host(), mine);
  ReplicaRecord record{step, this_attempt(), "", gather_strings(context_.host(), host_name()), {},
                       {}};
  record.clean = last_clean_;
  std::string what;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    record.wrong.push_back({record.attempt, static_cast<int>(rank), record.hosts[rank]});
    what += str(what.empty() ? "" : "; ", "rank ", rank, " on ", record.hosts[rank], " computed ",
                all[rank]);
  }
  if (what.empty())
    what = "every rank computed the same gradients, and their sums over the ranks differ";
  append_record(context_, record);
  return str("silent corruption: step ", step,
             ", computed twice, has other bits the second time: ", what);
}

}  // namespace trireme::train
