#include "runtime/checkpoint/tiers/partner_copies.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include <fmt/format.h>

#include "trireme/comm/agree.h"

#include "runtime/comm/page_of.h"

namespace trireme::checkpoint {
namespace {

using store::SlotHeader;
using store::Slots;

/// The ranks of each node, in the order of their lowest rank.
std::vector<std::vector<int>> ranks_by_node(const std::vector<std::string>& nodes) {
  std::vector<std::string> names;
  std::vector<std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    const auto at = std::find(names.begin(), names.end(), nodes[rank]) - names.begin();
    if (at == static_cast<std::ptrdiff_t>(names.size())) {
      names.push_back(nodes[rank]);
      ranks.emplace_back();
    }
    ranks[static_cast<std::size_t>(at)].push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace

std::vector<int> partners(const std::vector<std::string>& nodes) {
  const std::vector<std::vector<int>> ranks = ranks_by_node(nodes);
  if (ranks.size() < 2) return {};
  std::vector<int> all(nodes.size());
  for (std::size_t node = 0; node < ranks.size(); ++node) {
    const std::vector<int>& other = ranks[(node + ranks.size() / 2) % ranks.size()];
    for (std::size_t place = 0; place < ranks[node].size(); ++place)
      all[static_cast<std::size_t>(ranks[node][place])] = other[place % other.size()];
  }
  return all;
}

PartnerCopies::PartnerCopies(const Context& context, const Slots& mine, bool& warned,
                             const std::string& node)
    : context_(context),
      page_(comm::page_of(context.host().mesh, no_page_)),
      directory_(mine.directory()),
      nodes_(gather_strings(context.host(), node)),
      partners_(partners(nodes_)),
      transfer_(context.host().mesh.split(0, "snapshots")),
      warned_(warned) {
  for (const std::string& bytes : gather_strings(context.host(), std::to_string(mine.bytes())))
    bytes_.push_back(std::stoll(bytes));
  for (std::size_t rank = 0; rank < partners_.size(); ++rank)
    if (partners_[rank] == context.host().rank())
      sources_.push_back({static_cast<int>(rank), copies_of(static_cast<int>(rank)), 0});
}

Index PartnerCopies::more_than_own(const Context& context, Index bytes, const std::string& node) {
  const Host& host = context.host();
  const std::vector<int> partner_of = partners(gather_strings(host, node));
  const std::vector<std::string> all = gather_strings(host, std::to_string(bytes));
  Index copies = 0;
  for (std::size_t rank = 0; rank < partner_of.size(); ++rank)
    if (partner_of[rank] == host.rank()) copies += std::stoll(all[rank]);
  return copies - bytes;
}

Slots PartnerCopies::copies_of(int rank) const {
  return {directory_, rank, bytes_[static_cast<std::size_t>(rank)], Slots::Whose::copy};
}

std::vector<std::string> PartnerCopies::find(const store::TimeLine& line,
                                             const std::function<bool(const SlotHeader&)>&) {
  const auto me = static_cast<std::size_t>(context_.host().rank());
  if (std::find(nodes_.begin(), nodes_.end(), nodes_[me]) - nodes_.begin() !=
      static_cast<std::ptrdiff_t>(me))
    return {};
  std::vector<std::string> all;
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank)
    for (int slot = 0; slot < Slots::count; ++slot) {
      const auto header = copies_of(static_cast<int>(rank)).header(slot);
      if (!header || header->rank != static_cast<int>(rank) ||
          header->ranks != static_cast<int>(nodes_.size()) || !line.has(header->step, header->job))
        continue;
      all.push_back(fmt::format("copy {} {} {} {} {}", rank, slot, to_text(header->form),
                                header->step, header->job));
    }
  return all;
}

void PartnerCopies::note(const std::vector<std::vector<std::string>>& found, PiecePlaces& places) {
  const std::string prefix = "form ";
  std::vector<std::string> forms(found.size());
  for (std::size_t rank = 0; rank < found.size(); ++rank)
    for (const std::string& line : found[rank])
      if (line.starts_with(prefix)) forms[rank] = line.substr(prefix.size());
  places_.clear();
  for (std::size_t holder = 0; holder < found.size(); ++holder)
    for (const std::string& line : found[holder]) {
      std::istringstream in(line);
      std::string what, form;
      std::size_t rank = 0;
      int slot = 0;
      SnapshotStep step;
      if (!(in >> what) || what != "copy") continue;
      in >> rank >> slot >> form >> step.step >> step.job;
      if (form != forms.at(rank)) continue;
      places_[step].emplace(static_cast<int>(rank), Place{static_cast<int>(holder), slot});
      places.add(step, static_cast<int>(rank), PieceAt::partner);
    }
}

std::string PartnerCopies::fetch(const SnapshotStep& step, const std::vector<int>& ranks,
                                 const Slots& memory, int slot, LostPieces& lost) {
  const int me = context_.host().rank();
  std::vector<Slots> read;  // whose memory is sent
  std::vector<SlotEnd> held, sends, receives;
  for (const int rank : ranks) {
    const Place place = places_.at(step).at(rank);
    if (place.holder == me)
      lost.collect(rank, [&] {
        Slots& copies = read.emplace_back(copies_of(rank));
        copies.reserve(place.slot);
        const auto header = copies.header(place.slot);
        require(header.has_value(), directory_, "/", copies.shard(place.slot),
                ": its header is gone");
        held.push_back({rank, copies.memory(place.slot), copies.bytes(), to_text(*header)});
      });
  }
  lost = lost.of_all(context_.host());
  std::string here;  // the header of a copy that this rank holds itself
  for (SlotEnd& copy : held) {
    if (lost.has(copy.peer)) continue;
    if (copy.peer != me) {
      sends.push_back(std::move(copy));
      continue;
    }
    std::memcpy(memory.memory(slot), copy.data, static_cast<std::size_t>(copy.bytes));
    here = std::move(copy.header);
  }
  const bool comes = std::find(ranks.begin(), ranks.end(), me) != ranks.end();
  if (comes && here.empty() && !lost.has(me))
    receives.push_back({places_.at(step).at(me).holder, memory.memory(slot), memory.bytes()});
  transfer_.start(std::move(sends), std::move(receives), context_.host().stream);
  wait();
  return transfer_.received().empty() ? here : transfer_.received().front().header;
}

void PartnerCopies::open(const std::optional<SnapshotStep>& kept) {
  for (Source& source : sources_) {
    for (int slot = 0; slot < Slots::count; ++slot) {
      const auto header = source.slots.header(slot);
      const bool keeps = header && kept && SnapshotStep{header->step, header->job} == *kept;
      if (keeps)
        source.next = 1 - slot;
      else
        source.slots.begin(slot);
    }
    source.slots.reserve();
  }
}

std::vector<int> PartnerCopies::sources_of_node() const {
  std::vector<int> all;
  const std::string& here = nodes_[static_cast<std::size_t>(context_.host().rank())];
  for (std::size_t rank = 0; rank < partners_.size(); ++rank)
    if (nodes_[static_cast<std::size_t>(partners_[rank])] == here)
      all.push_back(static_cast<int>(rank));
  return all;
}

void PartnerCopies::start(const Slots& memory, int slot, const SlotHeader& header) {
  memory_ = memory.memory(slot);
  header_ = header;
  sent_ = false;
  enter(Phase::done, [&] {  // gives up the older copies
    for (const Source& source : sources_) source.slots.begin(source.next);
  });
}

/// All have done that.
void PartnerCopies::send() {
  const auto me = static_cast<std::size_t>(context_.host().rank());
  std::vector<SlotEnd> sends, receives;
  if (!partners_.empty()) sends.push_back({partners_[me], memory_, bytes_[me], to_text(header_)});
  for (const Source& source : sources_)
    receives.push_back({source.rank, source.slots.memory(source.next), source.slots.bytes()});
  transfer_.start(std::move(sends), std::move(receives), context_.host().stream);
  enter(Phase::busy);
}

void PartnerCopies::poll() {
  if (!is_busy() || !transfer_.poll(context_.host().stream)) return;
  sent_ = true;
  enter(Phase::done, [&] { write_headers(); });
}

/// Throws: Error, after it has written all it could.
void PartnerCopies::write_headers() {
  Problems problems;
  for (std::size_t i = 0; i < sources_.size(); ++i)
    problems.collect([&] {
      sources_[i].slots.finish(sources_[i].next,
                               store::parse_slot_header(transfer_.received()[i].header));
    });
  require(problems.empty(), problems.empty() ? "" : problems.all().front());
}

// Copies of a step that is not complete are the first to be overwritten.
void PartnerCopies::complete() {
  if (!sent_) return send();
  for (Source& source : sources_) {
    ignore_failure([&] { source.slots.confirm(source.next); });
    source.next = 1 - source.next;
  }
  newest_ = header_.step;
}

void PartnerCopies::end(bool) {
  if (!is_busy()) return;
  wait();
  poll();  // writes the headers, without which they would not be found
}

void PartnerCopies::warn(const std::string& why) {
  warn_of_memory(context_, warned_, "a copy of the snapshot of", header_.step, why);
}

}  // namespace trireme::checkpoint
