// MemoryChecker: runs a program against memory as the strictest transport sees it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/pipeline/program.h"

namespace trireme {

// From start to wait, what is
// sent must not change and what is received must not be looked at. Each region of a slot carries
// the micro-batch it belongs to.
class MemoryChecker {
 public:
  enum Region { values_in, values_out, gradients_in, gradients_out, kept, regions };

  explicit MemoryChecker(const StageProgram& program) : program_(program) {
    cells_.resize(program.slots.size());
    for (std::size_t c = 0; c < cells_.size(); ++c)
      cells_[c].resize(static_cast<std::size_t>(program.slots[c]));
  }

  /// The first thing that is wrong; empty when nothing is.
  std::string run() {
    for (const Action& action : program_.actions) {
      if (action.kind == Action::Kind::work) work(action);
      if (action.kind == Action::Kind::start) start(action.exchange);
      if (action.kind == Action::Kind::wait) wait(action.exchange);
    }
    for (const auto& chunk : cells_)
      for (const Cell& cell : chunk)
        for (const Content& content : cell) expect(!content.busy, "a transfer is never waited for");
    return problem_;
  }

 private:
  struct Content {
    Index micro_batch = -1;
    bool busy = false;
  };
  using Cell = std::array<Content, regions>;

  void expect(bool condition, const char* problem) {
    if (!condition && problem_.empty()) problem_ = problem;
  }
  Content& at(int chunk, int slot, Region region) {
    return cells_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(slot)][region];
  }
  void read(int chunk, int slot, Region region, Index micro_batch) {
    const Content& content = at(chunk, slot, region);
    expect(content.micro_batch == micro_batch, "the wrong micro-batch is read");
    expect(!content.busy || region == values_out || region == gradients_out,
           "read before it arrived");
  }
  void write(int chunk, int slot, Region region, Index micro_batch, bool transfer) {
    Content& content = at(chunk, slot, region);
    expect(!content.busy, "written while in transfer");
    content = {micro_batch, transfer};
  }

  void work(const Action& action) {
    const PipelineShape& shape = program_.shape;
    const auto [kind, chunk, i] = action.work;
    const int v = shape.virtual_stage(program_.stage, chunk);
    const bool first = v == 0, last = v == shape.virtual_stages() - 1;
    expect(action.slot == program_.slot(chunk, i), "the wrong slot is used");
    if (!first) read(chunk, action.slot, values_in, i);  // backward reads it too
    if (kind == WorkKind::forward) {
      write(chunk, action.slot, kept, i, false);
      if (!last) write(chunk, action.slot, values_out, i, false);
      return;
    }
    read(chunk, action.slot, kept, i);
    if (!last) read(chunk, action.slot, gradients_in, i);
    if (!first && kind != WorkKind::backward_weight)
      write(chunk, action.slot, gradients_out, i, false);
  }

  void start(int exchange) {
    const Exchange& e = program_.exchanges[static_cast<std::size_t>(exchange)];
    for (const Hop& hop : e.sends) {
      const Region region = hop.kind == Hop::Kind::values ? values_out : gradients_out;
      read(hop.chunk, hop.slot, region, hop.micro_batch);
      at(hop.chunk, hop.slot, region).busy = true;
    }
    for (const Hop& hop : e.receives)
      write(hop.chunk, hop.slot, hop.kind == Hop::Kind::values ? values_in : gradients_in,
            hop.micro_batch, true);
    for (const LocalHop& hop : e.copies) {
      const bool values = hop.from.kind == Hop::Kind::values;
      read(hop.from.chunk, hop.from.slot, values ? values_out : gradients_out,
           hop.from.micro_batch);
      write(hop.to.chunk, hop.to.slot, values ? values_in : gradients_in, hop.to.micro_batch,
            false);
    }
  }

  void wait(int exchange) {
    const Exchange& e = program_.exchanges[static_cast<std::size_t>(exchange)];
    for (const Hop& hop : e.sends)
      at(hop.chunk, hop.slot, hop.kind == Hop::Kind::values ? values_out : gradients_out).busy =
          false;
    for (const Hop& hop : e.receives)
      at(hop.chunk, hop.slot, hop.kind == Hop::Kind::values ? values_in : gradients_in).busy =
          false;
  }

  const StageProgram& program_;
  std::string problem_;
  std::vector<std::vector<Cell>> cells_;  // chunk, slot
};

}  // namespace trireme
