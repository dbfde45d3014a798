// Slots on their way from rank to rank.
#include "runtime/checkpoint/tiers/slot_transfer.h"

#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "trireme/comm/mesh.h"
#include "trireme/core/buffer.h"
#include "trireme/kernels/device.h"

#include "runtime/observe/page_reader.h"
#include "tests/support/scratch_directory.h"

namespace trireme::checkpoint {
namespace {

// A transfer of many gigabytes takes longer than a rank may be still.
TEST(SlotTransfer, ShowsEachPieceThatArrivesAsProgress) {
  constexpr Index pieces = 4, bytes = pieces << 23;
  const ScratchDirectory pages;
  run_on_threads({1, 2, 1}, [&](Mesh& mesh) {
    const int me = mesh.rank();
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    observe::StatusPage page(pages.path(), me, 2);
    const Buffer memory = allocate_host(bytes);
    std::memset(memory.data(), me == 0 ? 7 : 0, static_cast<std::size_t>(bytes));
    SlotTransfer transfer(mesh.split(0, "transfer"));
    const SlotEnd end{1 - me, memory.data(), bytes, me == 0 ? "header" : ""};
    const std::uint64_t before = observe::PageReader(page.path()).read().ops;
    if (me == 0)
      transfer.start({end}, {}, *stream);
    else
      transfer.start({}, {end}, *stream);
    transfer.wait(*stream, page);
    const observe::PageState after = observe::PageReader(page.path()).read();
    EXPECT_GE(after.ops - before, static_cast<std::uint64_t>(pieces));
    EXPECT_GT(after.heartbeat_ns, 0);
    if (me == 0) return;
    EXPECT_EQ(transfer.received().front().header, "header");
    EXPECT_EQ(static_cast<int>(memory.data()[bytes - 1]), 7);
  });
}

}  // namespace
}  // namespace trireme::checkpoint
