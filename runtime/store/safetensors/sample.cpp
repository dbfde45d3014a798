#include "runtime/store/safetensors/sample.h"

#include <algorithm>

#include "trireme/core/error.h"

#include "runtime/store/file.h"

namespace trireme::safetensors {

Checksum sample_of(const Directory& directory) {
  const Index all = directory.bytes();
  std::string sampled;
  Index place = 0, before = 0;  // bytes of the tensors before this one
  for (const LocatedTensor& tensor : directory.tensors) {
    for (; place < sampled_places; ++place) {
      const Index begin = all / sampled_places * place - before;
      if (begin >= tensor.bytes) break;
      const Index bytes = std::min(sampled_bytes, tensor.bytes - begin);
      std::string part(static_cast<std::size_t>(bytes), '\0');
      const std::string path = directory.file_path(tensor);
      const File file = File::open(path, Caching::buffered);
      require(file.read_at(tensor.offset + begin, part.data(), bytes) == bytes, path,
              ": ends in tensor ", tensor.name);
      sampled += part;
    }
    before += tensor.bytes;
  }
  return checksum(sampled.data(), static_cast<Index>(sampled.size()));
}

}  // namespace trireme::safetensors
