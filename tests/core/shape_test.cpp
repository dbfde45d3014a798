// Shapes and strides, packed and read-only tensors, and element types.
#include "trireme/core/shape.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/tensor.h"

namespace trireme {
namespace {

TEST(Shape, CountsElementsAndRows) {
  EXPECT_EQ(Shape({2, 3, 5}).count(), 30);
  EXPECT_EQ(Shape({2, 3, 5}).rows(), 6);
  EXPECT_EQ(Shape({2, 3, 5}).back(), 5);
  EXPECT_EQ(Shape({2, 0, 5}).count(), 0);
  EXPECT_EQ(Shape({2, 0}).rows(), 0);
}

TEST(Shape, OfAScalarHasOneElement) {
  EXPECT_EQ(Shape().dims(), 0);
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(Shape().rows(), 1);
}

TEST(Shape, PackedStridesAreRowMajor) {
  EXPECT_EQ(Shape({2, 3, 5}).packed_strides(), Shape({15, 5, 1}));
  EXPECT_EQ(Shape({7}).packed_strides(), Shape({1}));
  EXPECT_EQ(Shape().packed_strides(), Shape());
}

TEST(Shape, ComparesDimsAndExtents) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({2, 3, 1}));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
}

TEST(Shape, HasAtMostSixDims) {
  EXPECT_EQ(Shape({1, 2, 3, 4, 5, 6}).dims(), 6);
  EXPECT_THROW(Shape({1, 2, 3, 4, 5, 6, 7}), Error);
}

TEST(Shape, PrintsAsATuple) {
  EXPECT_EQ(str(Shape({2, 256, 384})), "(2, 256, 384)");
  EXPECT_EQ(str(Shape()), "()");
}

TEST(Tensor, KnowsWhetherItIsPacked) {
  float data[12] = {};
  Tensor x(data, {3, 4});
  EXPECT_TRUE(x.packed());
  EXPECT_EQ(x.bytes(), 48);
  x.shape = {3, 2};
  EXPECT_FALSE(x.packed());
  x.shape = {1, 4};  // the stride of a dim of one element does not matter
  x.strides = {99, 1};
  EXPECT_TRUE(x.packed());
}

TEST(Tensor, IsReadOnlyAsItsElementType) {
  float data[2] = {1, 2};
  const Tensor x(data, {2});
  EXPECT_EQ(x.as<float>(), data);
  try {
    (void)x.as<double>();
    FAIL() << "read as double";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "tensor of f32 read as f64");
  }
}

TEST(DType, HasSizesAndNames) {
  const std::pair<DType, Index> sizes[] = {{DType::f32, 4}, {DType::bf16, 2}, {DType::f64, 8},
                                           {DType::i32, 4}, {DType::i64, 8},  {DType::u8, 1}};
  for (const auto& [dtype, bytes] : sizes) EXPECT_EQ(size_bytes(dtype), bytes) << dtype;
  EXPECT_EQ(str(DType::bf16), "bf16");
  EXPECT_TRUE(is_floating(DType::bf16));
  EXPECT_FALSE(is_floating(DType::i64));
}

}  // namespace
}  // namespace trireme
