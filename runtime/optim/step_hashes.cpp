#include "runtime/optim/step_hashes.h"

#include <algorithm>

#include "trireme/kernels/hash.h"
#include "trireme/kernels/kernels.h"

namespace trireme {
namespace {

constexpr Index floats_of_word = 2;

// The kinds of ranges: a bucket, what is updated of it in the gradients, in the masters, in a state
// buffer, and a copy of it at the start of its memory.
enum Kind { whole, updated, masters, state, copied, kinds };

std::vector<ListedRange> word_ranges(const FlatLayout& flat) {
  std::vector<ListedRange> ranges;
  for (int kind = 0; kind < kinds; ++kind)
    for (const Bucket& bucket : flat.buckets()) {
      const FlatRange mine = flat.updated(bucket);
      const Index begins[kinds] = {bucket.range.begin, mine.begin, flat.master_begin(bucket),
                                   bucket.state_begin, 0};
      const Index count = kind == whole ? bucket.range.count : mine.count;
      require(begins[kind] % floats_of_word == 0 && count % floats_of_word == 0, "a bucket of ",
              count, " elements is no row of words");
      ranges.push_back({begins[kind] / floats_of_word, count / floats_of_word});
    }
  return ranges;
}

/// Elements of the largest copy, as whole 64 bytes.
Index copied_elements(const FlatLayout& flat) {
  Index most = 0;
  for (const Bucket& bucket : flat.buckets()) most = std::max(most, flat.updated(bucket).count);
  constexpr Index together = 16;
  return (most + together - 1) / together * together;
}

Index step_hash_bytes(const FlatLayout& flat) {
  constexpr Index times = 2, alignment = 64;
  const Index bytes =
      hashed_word_bytes * times * StepHashes::parts * static_cast<Index>(flat.buckets().size());
  return (bytes + alignment - 1) / alignment * alignment;
}

/// A pointer to which an offset is added that begins at `begin` elements.
float* before(float* data, Index begin) {
  return reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(data) -
                                  static_cast<std::uintptr_t>(begin) * sizeof(float));
}

}  // namespace

Index StepHashes::bytes(const FlatLayout& flat) {
  constexpr Index copies = 3;
  return list_bytes(word_ranges(flat)) + step_hash_bytes(flat) +
         copies * copied_elements(flat) * size_bytes(DType::f32);
}

StepHashes::StepHashes(const FlatParameters& flat, Stream& stream, std::byte* memory)
    : flat_(flat),
      stream_(stream),
      buckets_(static_cast<int>(flat.buckets().size())),
      ranges_(word_ranges(flat)),
      arrived_(stream.device().allocate_pinned(step_hash_bytes(flat))) {
  lists_ = upload(ranges_, stream, memory);
  memory += list_bytes(ranges_);
  hashes_ = reinterpret_cast<std::uint64_t*>(memory);
  memory += step_hash_bytes(flat);
  for (float*& copy : scratch_) {
    copy = reinterpret_cast<float*>(memory);
    memory += copied_elements(flat) * size_bytes(DType::f32);
  }
}

std::uint64_t* StepHashes::place(Part part, int time, int bucket) const {
  return hashes_ + (Index{time} * parts + static_cast<Index>(part)) * buckets_ + bucket;
}

void StepHashes::hash(Part part, int time, int bucket, int kind, const float* data) {
  const Index i = Index{kind} * buckets_ + bucket;
  const DeviceList<ListedRange> list{lists_.ranges + i, 1,
                                     ranges_[static_cast<std::size_t>(i)].tiles()};
  stream_.kernels().hash.ranges(
      stream_, {.list = list,
                .words = static_cast<const std::uint64_t*>(static_cast<const void*>(data)),
                .hashes = place(part, time, bucket)});
}

void StepHashes::hash_terms(int bucket) {
  hash(Part::terms, time_, bucket, whole, flat_.gradient_data());
}

void StepHashes::hash_sums() {
  for (int bucket = 0; bucket < buckets_; ++bucket)
    hash(Part::sums, time_, bucket, updated, flat_.gradient_data());
}

UpdatedBuffers StepHashes::copy(int bucket, const UpdatedBuffers& original) {
  const Bucket& b = flat_.buckets()[static_cast<std::size_t>(bucket)];
  const Index bytes = flat_.updated(b).count * size_bytes(DType::f32);
  const auto copied = [&](float* to, const float* from, Index begin) -> float* {
    if (from == nullptr) return nullptr;
    stream_.copy(to, from + begin, bytes);
    return before(to, begin);
  };
  return {.masters = copied(scratch_[0], original.masters, flat_.master_begin(b)),
          .first = copied(scratch_[1], original.first, b.state_begin),
          .second = copied(scratch_[2], original.second, b.state_begin),
          .copy = nullptr};
}

void StepHashes::hash_update(int bucket, const UpdatedBuffers& original) {
  const auto both = [&](Part part, int kind, const float* data, const float* scratch) {
    if (data == nullptr) return;
    hash(part, 0, bucket, kind, data);
    hash(part, 1, bucket, copied, scratch);
  };
  both(Part::masters, masters, original.masters, scratch_[0]);
  both(Part::first, state, original.first, scratch_[1]);
  both(Part::second, state, original.second, scratch_[2]);
}

void StepHashes::finish() {
  stream_.copy(arrived_.data(), hashes_, step_hash_bytes(flat_));
  stream_.synchronize();
}

int StepHashes::difference(Part part) const {
  const auto* hashes = reinterpret_cast<const std::uint64_t*>(arrived_.data());
  for (int bucket = 0; bucket < buckets_; ++bucket)
    if (hashes[place(part, 0, bucket) - hashes_] != hashes[place(part, 1, bucket) - hashes_])
      return bucket;
  return -1;
}

}  // namespace trireme
