// Implements TokenFileWriter (trireme/data/token_file.h).
// TokenFileWriter: tokens go to disk as they come; only the length of each document is kept in
// memory.
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/data/token_file.h"

#include "runtime/core/require_call.h"
#include "runtime/data/prepare/sidecar.h"
#include "runtime/data/token_layout.h"

namespace trireme {

using namespace data;
using namespace data::token_layout;

namespace {

// A file that is being written under PATH.tmp, and is renamed to PATH when it is complete.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path), file_(std::fopen(temporary().c_str(), "wb")) {
    require_call(file_ != nullptr, temporary(), ": cannot be written");
  }
  ~NewFile() {
    if (file_ != nullptr) std::fclose(file_);
    if (!renamed_) std::remove(temporary().c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, std::size_t bytes) {
    if (bytes > 0) check(std::fwrite(data, 1, bytes, file_) == bytes);
  }
  template <class T>
  void write(const T& value) {
    write(&value, sizeof value);
  }
  /// Makes the content durable, still under the temporary name.
  void close() {
    check(std::fflush(file_) == 0 && ::fsync(::fileno(file_)) == 0);
    FILE* file = std::exchange(file_, nullptr);
    check(std::fclose(file) == 0);
  }
  /// Removes the file that an earlier run left under this name.
  void remove_old() const { std::remove(path_.c_str()); }
  void rename() {
    check(std::rename(temporary().c_str(), path_.c_str()) == 0);
    renamed_ = true;
  }

 private:
  std::string temporary() const { return path_ + ".tmp"; }
  void check(bool good) const { require_call(good, temporary(), ": cannot be written"); }

  std::string path_;
  FILE* file_;
  bool renamed_ = false;
};

}  // namespace

struct TokenFileWriter::State {
  std::string prefix;
  TokenType type;
  NewFile bin, index;
  std::vector<Index> documents;  // tokens of each that has ended
  Index open = 0;                // tokens of the one that has not
  std::vector<std::byte> packed;

  State(const std::string& prefix_, TokenType type_)
      : prefix(prefix_), type(type_), bin(prefix_ + ".bin"), index(prefix_ + ".idx") {}

  template <class Token>
  void add(std::span<const Token> tokens) {
    with_type(type, [&](auto zero) {
      using Stored = decltype(zero);
      packed.resize(tokens.size() * sizeof(Stored));
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const std::int64_t token = tokens[i];
        const auto stored = static_cast<Stored>(token);
        require(static_cast<std::int64_t>(stored) == token, prefix, ": token ", token,
                " of document ", documents.size(), " does not fit ", name(type));
        std::memcpy(packed.data() + i * sizeof stored, &stored, sizeof stored);
      }
    });
    bin.write(packed.data(), packed.size());
    open += static_cast<Index>(tokens.size());
    require(open <= std::numeric_limits<std::int32_t>::max(), prefix, ": document ",
            documents.size(), " has more than 2^31 - 1 tokens, the most that the format can hold");
  }
};

TokenFileWriter::TokenFileWriter(const std::string& prefix, TokenType type)
    : state_(std::make_unique<State>(prefix, type)) {}
TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::add(std::span<const std::int64_t> tokens) { state_->add(tokens); }
void TokenFileWriter::add(std::span<const std::int32_t> tokens) { state_->add(tokens); }

void TokenFileWriter::end_document() {
  state_->documents.push_back(std::exchange(state_->open, 0));
}

void TokenFileWriter::finish(const std::string& sidecar) {
  State& s = *state_;
  require(s.open == 0, s.prefix, ": the last document has not ended");
  s.index.write(magic, sizeof magic);
  s.index.write(version);
  s.index.write(s.type);
  s.index.write(static_cast<std::uint64_t>(s.documents.size()));
  s.index.write(static_cast<std::uint64_t>(s.documents.size() + 1));
  for (const Index length : s.documents) s.index.write(static_cast<std::int32_t>(length));
  std::int64_t offset = 0;
  for (const Index length : s.documents) {
    s.index.write(offset);
    offset += length * size_bytes(s.type);
  }
  for (std::size_t d = 0; d <= s.documents.size(); ++d) s.index.write(static_cast<std::int64_t>(d));
  std::optional<NewFile> beside;
  if (!sidecar.empty()) {
    beside.emplace(sidecar_path(s.prefix));
    beside->write(sidecar.data(), sidecar.size());
    beside->close();
  }
  s.bin.close();
  s.index.close();
  s.index.remove_old();  // so that an index never accompanies another run's .bin
  remove_sidecar(s.prefix);
  s.bin.rename();
  if (beside) beside->rename();
  s.index.rename();
}

}  // namespace trireme
