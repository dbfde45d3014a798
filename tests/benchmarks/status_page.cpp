// What a status page costs: an operation (begun and ended), an op boundary, a heartbeat; each with
// a page, and without one.
//   build/release/bin/status_page
#include "runtime/observe/status_page.h"

#include <array>
#include <memory>

#include <benchmark/benchmark.h>

#include "tests/support/scratch_directory.h"

namespace trireme::observe {
namespace {

/// Argument 1: with a page; 0: without.
class Page {
 public:
  explicit Page(const benchmark::State& state)
      : page_(state.range(0) == 1 ? std::make_unique<StatusPage>(folder_.path(), 0, 8)
                                  : std::make_unique<StatusPage>()),
        world_(page_->add_group("world", std::array{0, 1, 2, 3, 4, 5, 6, 7})),
        op_(page_->add_name("attention")) {}
  StatusPage& operator*() { return *page_; }
  GroupId world() const { return world_; }
  NameId op() const { return op_; }

 private:
  const ScratchDirectory folder_{ScratchDirectory::in_memory()};
  const std::unique_ptr<StatusPage> page_;
  const GroupId world_;
  const NameId op_;
};

void operation(benchmark::State& state) {
  Page page(state);
  for (auto _ : state)
    (*page).end((*page).begin(page.world(), {OperationKind::all_reduce, DType::f32, 1000, -1}));
}

void wait(benchmark::State& state) {
  Page page(state);
  const std::array operations = {(*page).begin(page.world(), {})};
  for (auto _ : state) {
    (*page).wait_for(operations);
    (*page).stop_waiting();
  }
}

void op_boundary(benchmark::State& state) {
  Page page(state);
  int index = 0;
  for (auto _ : state) (*page).begin_op(++index, page.op());
}

void heartbeat(benchmark::State& state) {
  Page page(state);
  for (auto _ : state) (*page).heartbeat();
}

BENCHMARK(operation)->ArgName("page")->Arg(1)->Arg(0);
BENCHMARK(wait)->ArgName("page")->Arg(1)->Arg(0);
BENCHMARK(op_boundary)->ArgName("page")->Arg(1)->Arg(0);
BENCHMARK(heartbeat)->ArgName("page")->Arg(1)->Arg(0);

}  // namespace
}  // namespace trireme::observe

BENCHMARK_MAIN();
