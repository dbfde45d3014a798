#include "runtime/optim/replica_hashes.h"

#include "trireme/kernels/hash.h"
#include "trireme/kernels/kernels.h"

namespace trireme {
namespace {

/// Where buckets are that were trained, or frozen.
bool in_copy(const FlatLayout& flat, bool frozen) {
  return flat.masters_are_slices() || (frozen && flat.has_copy());
}

/// Such buckets, in words of what is hashed.
std::vector<ListedRange> word_ranges(const FlatLayout& flat, bool frozen) {
  const DType type = in_copy(flat, frozen) ? flat.options().compute : DType::f32;
  const Index elements = hashed_word_bytes / size_bytes(type);
  std::vector<ListedRange> ranges;
  for (const Bucket& bucket : flat.all_buckets()) {
    if (bucket.frozen != frozen) continue;
    const FlatRange& range = bucket.range;
    require(range.begin % elements == 0 && range.count % elements == 0, "a bucket of elements ",
            range.begin, " to ", range.end(), " is no row of words");
    ranges.push_back({range.begin / elements, range.count / elements});
  }
  return ranges;
}

Index replica_hash_bytes(const FlatLayout& flat) {
  constexpr Index alignment = 64;  // of what may follow
  const Index bytes =
      hashed_word_bytes * static_cast<Index>(flat.all_buckets().size()) * flat.options().data_size;
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

Index ReplicaHashes::bytes(const FlatLayout& flat) {
  if (flat.options().data_size == 1) return 0;
  return list_bytes(word_ranges(flat, false)) + list_bytes(word_ranges(flat, true)) +
         replica_hash_bytes(flat);
}

ReplicaHashes::ReplicaHashes(const FlatParameters& flat, Mesh& mesh, Stream& stream,
                             std::byte* memory)
    : flat_(flat),
      data_(mesh.group(Role::gradient)),
      stream_(stream),
      buckets_(static_cast<int>(flat.all_buckets().size())),
      arrived_(stream.device().allocate_pinned(replica_hash_bytes(flat))),
      copied_(stream.device().make_event()) {
  const auto listed = [&](bool frozen) {
    std::vector<ListedRange> ranges = word_ranges(flat, frozen);
    const DeviceList<ListedRange> list = upload(ranges, stream, memory);
    memory += list_bytes(ranges);
    return list;
  };
  trained_ = listed(false);
  frozen_ = listed(true);
  hashes_ = reinterpret_cast<std::uint64_t*>(memory);
}

void ReplicaHashes::start() {
  std::uint64_t* mine = hashes_ + Index{data_.rank()} * buckets_;
  const auto hash = [&](const DeviceList<ListedRange>& list, bool frozen, std::uint64_t* hashes) {
    if (list.count == 0) return;
    const void* hashed = in_copy(flat_, frozen) ? static_cast<const void*>(flat_.compute_data())
                                                : flat_.master_data();
    stream_.kernels().hash.ranges(
        stream_,
        {.list = list, .words = static_cast<const std::uint64_t*>(hashed), .hashes = hashes});
  };
  hash(trained_, false, mine);
  hash(frozen_, true, mine + trained_.count);
  const Index all = Index{buckets_} * data_.size();
  data_.all_gather({mine, buckets_, DType::i64}, {hashes_, all, DType::i64}, stream_);
  stream_.copy(arrived_.data(), hashes_, all * hashed_word_bytes);
  copied_->record(stream_);
}

std::uint64_t ReplicaHashes::at(int data_rank, int bucket) const {
  return reinterpret_cast<const std::uint64_t*>(
      arrived_.data())[Index{data_rank} * buckets_ + bucket];
}

bool ReplicaHashes::differs(int bucket) const {
  for (int replica = 1; replica < replicas(); ++replica)
    if (at(replica, bucket) != at(0, bucket)) return true;
  return false;
}

bool ReplicaHashes::any_differs() const {
  for (int bucket = 0; bucket < buckets_; ++bucket)
    if (differs(bucket)) return true;
  return false;
}

std::string names_in_bucket(const FlatLayout& flat, int bucket) {
  constexpr int most = 3;
  std::string names;
  int count = 0;
  for (std::size_t i = 0; i < flat.parameters().size(); ++i) {
    if (flat.parameters()[i].bucket != bucket) continue;
    const std::string name = flat.declared(static_cast<int>(i)).name();
    if (++count <= most) names += str(names.empty() ? "'" : ", '", name, "'");
  }
  return count > most ? str(names, " and ", count - most, " more") : names;
}

}  // namespace trireme
