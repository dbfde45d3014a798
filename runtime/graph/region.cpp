#include "runtime/graph/region.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace trireme::graph {

namespace {

struct Interval {
  Index begin, size;
};
using Coordinates = std::vector<Interval>;  // a box: one interval per stride of the chain

// All strides in use, descending to 1; none when one does not divide the one before.
std::optional<std::vector<Index>> common_strides(const std::vector<Region>& regions) {
  std::vector<Index> strides{1};
  for (const Region& region : regions)
    for (const Region::Dim& dim : region.dims) strides.push_back(dim.stride);
  std::sort(strides.begin(), strides.end(), std::greater<>());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  for (std::size_t k = 1; k < strides.size(); ++k)
    if (strides[k - 1] % strides[k] != 0) return std::nullopt;
  return strides;
}

// The region as a box in the coordinates of `strides`, if it is one.
std::optional<Coordinates> box_in(const std::vector<Index>& strides, const Region& region) {
  Coordinates box;
  Index rest = region.first;
  for (const Index stride : strides) {
    box.push_back({rest / stride, 1});
    rest %= stride;
  }
  for (std::size_t d = region.dims.size(); d-- > 0;) {
    const Region::Dim& dim = region.dims[d];
    auto k = static_cast<std::size_t>(std::find(strides.begin(), strides.end(), dim.stride) -
                                      strides.begin());
    for (Index extent = dim.extent; extent > 1; --k) {
      if (box[k].size != 1) return std::nullopt;
      const Index radix = k == 0 ? box[k].begin + extent : strides[k - 1] / strides[k];
      if (box[k].begin + extent <= radix) {
        box[k].size = extent;
        break;
      }
      if (box[k].begin != 0 || extent % radix != 0) return std::nullopt;
      box[k].size = radix;  // this coordinate is full: continue in the next coarser one
      extent /= radix;
    }
  }
  return box;
}

std::optional<std::vector<Coordinates>> boxes_of(const std::vector<Region>& regions) {
  const auto strides = common_strides(regions);
  if (!strides) return std::nullopt;
  std::vector<Coordinates> boxes;
  for (const Region& region : regions) {
    auto box = box_in(*strides, region);
    if (!box) return std::nullopt;
    boxes.push_back(std::move(*box));
  }
  return boxes;
}

Index common_elements(const Coordinates& a, const Coordinates& b) {
  Index count = 1;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const Index begin = std::max(a[k].begin, b[k].begin);
    const Index end = std::min(a[k].begin + a[k].size, b[k].begin + b[k].size);
    count *= std::max<Index>(0, end - begin);
  }
  return count;
}

bool same(const Region& a, const Region& b) {
  return a.first == b.first &&
         std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                    [](const Region::Dim& x, const Region::Dim& y) {
                      return x.extent == y.extent && x.stride == y.stride;
                    });
}

}  // namespace

void Region::Dims::insert(const Dim& dim) {
  std::size_t i = size_++;
  for (; i > 0 && all_[i - 1].stride < dim.stride; --i) all_[i] = all_[i - 1];
  all_[i] = dim;
}

Index Region::count() const {
  Index count = 1;
  for (const Dim& dim : dims) count *= dim.extent;
  return count;
}

Index span(const Spec& spec) {
  Index last = 0;
  for (int d = 0; d < spec.shape.dims(); ++d) {
    if (spec.shape[d] == 0) return 0;
    last += (spec.shape[d] - 1) * spec.strides[d];
  }
  return last + 1;
}

Region region_of(const Spec& spec, Index first) {
  Region region{first, {}};
  if (spec.shape.count() == 0) {
    region.dims.push_back({0, 1});
    return region;
  }
  Region::Dims dims;
  for (int d = 0; d < spec.shape.dims(); ++d)
    if (spec.shape[d] != 1) dims.insert({spec.shape[d], spec.strides[d]});
  Index span = 1;  // of the dims that are finer than the current one
  for (std::size_t d = dims.size(); d-- > 0;) {
    require(dims[d].stride >= span, "the view ", spec, " with strides ", spec.strides,
            " reaches some elements twice; a view has no gradient then, use an op that copies");
    span += (dims[d].extent - 1) * dims[d].stride;
  }
  for (const Region::Dim& dim : dims) {
    if (!region.dims.empty() && region.dims.back().stride == dim.extent * dim.stride)
      region.dims.back() = {region.dims.back().extent * dim.extent, dim.stride};
    else
      region.dims.push_back(dim);
  }
  return region;
}

bool disjoint(const Region& a, const Region& b) {
  if (a.count() == 0 || b.count() == 0) return true;
  const auto boxes = boxes_of({a, b});
  return boxes && common_elements((*boxes)[0], (*boxes)[1]) == 0;
}

Gathering gather(const Region& root, const std::vector<Region>& writes) {
  if (root.count() == 0) return {false, std::vector<WriteMode>(writes.size(), WriteMode::assign)};
  if (!writes.empty() && same(writes.front(), root)) {
    Gathering out{false, std::vector<WriteMode>(writes.size(), WriteMode::add)};
    out.modes.front() = WriteMode::assign;
    return out;
  }
  const Gathering zeroed{true, std::vector<WriteMode>(writes.size(), WriteMode::add)};
  std::vector<Region> all = writes;
  all.push_back(root);
  const auto boxes = boxes_of(all);
  if (!boxes) return zeroed;
  Gathering out;
  std::vector<Coordinates> covered;  // disjoint
  Index covered_elements = 0;
  for (std::size_t w = 0; w < writes.size(); ++w) {
    const Coordinates& box = (*boxes)[w];
    const Index count = writes[w].count();
    Index known = 0;
    for (const Coordinates& old : covered) known += count == 0 ? 0 : common_elements(box, old);
    if (known != 0 && known != count) return zeroed;
    out.modes.push_back(known == 0 ? WriteMode::assign : WriteMode::add);
    if (known != 0 || count == 0) continue;
    covered.push_back(box);
    covered_elements += count;
  }
  return covered_elements == root.count() ? out : zeroed;
}

}  // namespace trireme::graph
