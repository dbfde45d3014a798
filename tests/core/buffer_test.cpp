// Memory of the host: its content, its alignment, its owners, and the error when there is too
// little.
#include "trireme/core/buffer.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

TEST(Buffer, OfTheHostIsZeroFilledAndAligned) {
  for (const Index bytes : {1, 4095, 4097, 3'000'000}) {
    const Buffer buffer = allocate_host(bytes);
    ASSERT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0u);
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
    buffer.data()[bytes - 1] = std::byte{1};
  }
}

TEST(Buffer, OfNoBytesIsEmpty) {
  EXPECT_FALSE(allocate_host(0));
  EXPECT_EQ(allocate_host(0).bytes(), 0);
}

TEST(Buffer, FreesOnceWhenTheLastOwnerGoes) {
  int freed = 0, memory = 0;
  {
    Buffer a(&memory, 4, std::shared_ptr<void>(&memory, [&](void*) { ++freed; }));
    Buffer b = std::move(a);
    EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): a moved-from buffer is empty
    EXPECT_EQ(a.bytes(), 0);
    EXPECT_TRUE(b);
    b = Buffer();
    EXPECT_EQ(freed, 1);
  }
  EXPECT_EQ(freed, 1);
}

TEST(Buffer, SaysHowMuchCouldNotBeAllocated) {
  try {
    (void)allocate_host(Index{1} << 60);
    FAIL() << "an exbibyte was allocated";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("1152921504606846976 bytes"), std::string::npos)
        << e.what();
  }
  EXPECT_THROW(allocate_host(-1), Error);
}

}  // namespace
}  // namespace trireme
