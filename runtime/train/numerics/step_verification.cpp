#include "runtime/train/numerics/step_verification.h"

#include "trireme/comm/agree.h"

#include "runtime/core/process/host_name.h"
#include "runtime/optim/replica_hashes.h"
#include "runtime/train/numerics/replica_checks.h"

namespace trireme::train {
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
