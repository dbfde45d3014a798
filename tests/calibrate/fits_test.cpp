// What is made of times: lines, and the model of products.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/calibrate/measurements.h"

namespace trireme::calibrate {
namespace {

TEST(FittedLine, IsThatOfPointsOnALine) {
  const Line line = fit_line({{1e3, 2 + 1e3 / 1e2}, {1e4, 2 + 1e4 / 1e2}, {1e6, 2 + 1e6 / 1e2}});
  EXPECT_NEAR(line.seconds, 2, 1e-9);
  EXPECT_NEAR(line.bytes_per_s, 1e2, 1e-9);
}

TEST(FittedLine, IsNeverNegative) {
  const Line steep = fit_line({{1, 1}, {2, 4}, {4, 16}});
  EXPECT_EQ(steep.seconds, 0);
  EXPECT_GT(steep.bytes_per_s, 0);
  const Line falling = fit_line({{1, 3}, {100, 2}});
  EXPECT_GT(falling.bytes_per_s, 0);
}

TEST(SharedTime, OfPartsThatKeepTheirShareIsAllThatThereIs) {
  SharedTime time(50, 1 + 3 + 6);
  EXPECT_DOUBLE_EQ(time.next(1, 0), 5);
  EXPECT_DOUBLE_EQ(time.next(3, 5), 15);
  EXPECT_DOUBLE_EQ(time.next(6, 20), 30);
}

TEST(SharedTime, IsTakenFromThePartsBehindOneThatTakesLonger) {
  SharedTime time(50, 1 + 3 + 6);
  time.next(1, 0);
  EXPECT_DOUBLE_EQ(time.next(3, 41), 3);
  EXPECT_DOUBLE_EQ(time.next(6, 44), 6);
  SharedTime late(50, 2);
  late.next(1, 0);
  EXPECT_EQ(late.next(1, 60), 0);
}

TEST(FittedProducts, GiveBackTheirModel) {
  cost::Profile profile;
  for (const Index k : {256, 512, 1024, 8192})
    profile.products.push_back(
        {k, k, k, DType::f32, 0.5 * 1000 * static_cast<double>(k) / static_cast<double>(k + 100)});
  fit_product_model(profile);
  EXPECT_EQ(profile.peak_f32, profile.products.back().flops_per_s);
  EXPECT_NEAR(profile.half_k, 100, 1e-6);
  EXPECT_NEAR(profile.efficiency * profile.peak_f32, 500, 1e-6);
}

TEST(UsualProducts, AreForwardAndBothGradients) {
  const Products all = usual_products(DType::f32);
  EXPECT_EQ(all.size(), 48u);
  for (const auto& product : all)
    if (product.kind == "TN")
      EXPECT_EQ(product.m, product.n) << "the gradient of a square weight";
    else
      EXPECT_EQ(product.n, product.k);
}

TEST(ProductsOfAModel, AreThoseOfItsLayersAndHead) {
  const TransformerConfig tiny = preset("tiny");  // width 128, sequence 128, vocabulary 256
  const Products all = products_of_model(tiny, DType::f32, DeviceTraits(), 2);
  const auto has = [&](Index m, Index n, Index k) {
    return std::any_of(all.begin(), all.end(), [&](const cost::MeasuredProduct& each) {
      return each.m == m && each.n == n && each.k == k && each.kind == "NT";
    });
  };
  EXPECT_TRUE(has(128, 512, 128)) << "up";
  EXPECT_TRUE(has(512, 512, 128)) << "up, of 4 samples";
  EXPECT_TRUE(has(128, 256, 128)) << "up on two tensor ranks, and the head";
  EXPECT_FALSE(has(128, 512, 64));
}

}  // namespace
}  // namespace trireme::calibrate
