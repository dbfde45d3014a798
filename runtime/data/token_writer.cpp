// Implements TokenFileWriter (trireme/data/token_file.h).
// TokenFileWriter: tokens go to disk as they come; only the length of each document is kept in
// memory.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/data/token_file.h"

#include "runtime/core/output/output_file.h"
#include "runtime/core/require_call.h"
#include "runtime/data/prepare/sidecar.h"
#include "runtime/data/token_layout.h"

namespace trireme {

using namespace data;
using namespace data::token_layout;

namespace {

template <class Call>
auto repeat_while_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// A file or directory, for what only descriptors can do.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, const char* failure)
      : number_(repeat_while_interrupted([&] {
          return ::open(path.c_str(), flags | O_CLOEXEC, 0666);  // and the umask
        })) {
    require_call(number_ >= 0, path, failure);
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(const Descriptor&) = delete;

  bool write(const std::byte* data, std::size_t bytes, off_t at) const {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t some = repeat_while_interrupted([&] {
        return ::pwrite(number_, data + done, bytes - done, at + static_cast<off_t>(done));
      });
      if (some <= 0) return false;
      done += static_cast<std::size_t>(some);
    }
    return true;
  }
  bool sync() const {
    return repeat_while_interrupted([&] { return ::fsync(number_); }) == 0;
  }
  bool is_plain() const {
    struct stat status {};
    return ::fstat(number_, &status) == 0 && S_ISREG(status.st_mode);
  }
  bool clear() const {
    return repeat_while_interrupted([&] { return ::ftruncate(number_, 0); }) == 0;
  }
  bool lock() const {
    return repeat_while_interrupted([&] { return ::flock(number_, LOCK_EX | LOCK_NB); }) == 0 ||
           errno != EWOULDBLOCK;  // a file system without locks has no more to give
  }
  bool is_at(const std::string& path) const {
    struct stat own {};
    struct stat there {};
    return ::fstat(number_, &own) == 0 && ::lstat(path.c_str(), &there) == 0 &&
           own.st_dev == there.st_dev && own.st_ino == there.st_ino;
  }

 private:
  int number_;
};

void remove_if_there(const std::string& path) {
  require_call(::unlink(path.c_str()) == 0 || errno == ENOENT, path, ": cannot be removed");
}

// A file that is being written under PATH.tmp, and is renamed to PATH when it is complete. That
// name may be left from a process that was killed, so it is taken over; but not from one that still
// has it, nor what another program has put there.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : NewFile(path, open_locked(path + ".tmp")) {
    check(file_.clear());
  }
  ~NewFile() {
    if (!renamed_) ::unlink(temporary().c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    if (buffer_.size() + bytes > most_buffered) flush();
    if (bytes > most_buffered) return put(begin, bytes);
    buffer_.insert(buffer_.end(), begin, begin + bytes);
  }
  template <class T>
  void write(const T& value) {
    write(&value, sizeof value);
  }
  /// Makes the content durable, still under the temporary name.
  void sync() {
    flush();
    check(file_.sync());
  }
  /// Removes the file that an earlier run left under this name.
  void remove_old() const { remove_if_there(path_); }
  void rename() {
    check(::rename(temporary().c_str(), path_.c_str()) == 0);
    renamed_ = true;
  }

 private:
  static constexpr const char* unwritable = ": cannot be written";
  static constexpr std::size_t most_buffered = 1 << 18;

  NewFile(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  /// A lock ends with its process, however that ends.
  static Descriptor open_locked(const std::string& path) {
    constexpr int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK;  // waits for no pipe
    for (;;) {
      Descriptor file(path, flags, unwritable);
      require(file.is_plain(), path, ": is no plain file");
      require(file.lock(), path, ": another process writes it");
      if (file.is_at(path)) return file;  // else its writer has just ended
    }
  }
  std::string temporary() const { return path_ + ".tmp"; }
  void check(bool good) const { require_call(good, temporary(), unwritable); }
  void put(const std::byte* data, std::size_t bytes) {
    check(file_.write(data, bytes, written_));
    written_ += static_cast<off_t>(bytes);
  }
  void flush() {
    put(buffer_.data(), buffer_.size());
    buffer_.clear();
  }

  std::string path_;
  Descriptor file_;
  std::vector<std::byte> buffer_;
  off_t written_ = 0;
  bool renamed_ = false;
};

// The directory of the files: names are durable once it is synced.
class Folder {
 public:
  explicit Folder(const std::string& prefix)
      : path_(std::filesystem::path(prefix).parent_path() / "."),
        directory_(path_, O_RDONLY | O_DIRECTORY, ": cannot be opened") {}
  /// A file system that cannot (EINVAL) has no more to give.
  void sync() const {
    require_call(directory_.sync() || errno == EINVAL, path_, ": cannot be synced");
  }

 private:
  std::string path_;
  Descriptor directory_;
};

void require_output(const std::string& path, const OutputKind& kind) {
  const std::string wrong = why_no_output(path, kind);
  require(wrong.empty(), path, ": ", wrong);
}

/// Whether a file without a mark of its own has none of the files by which it is known. Another
/// process may begin or finish meanwhile, so it is looked at twice.
bool is_foreign(const std::string& path, const std::vector<std::string>& known_by) {
  const auto there = [](const std::string& name) {
    std::error_code unknown;
    return std::filesystem::exists(std::filesystem::symlink_status(name, unknown));
  };
  for (int look = 0; look < 2; ++look)
    if (!there(path) || std::any_of(known_by.begin(), known_by.end(), there)) return false;
  return true;
}

}  // namespace

void data::check_token_outputs(const std::string& prefix, bool with_sidecar) {
  const std::string bin = prefix + ".bin", index = prefix + ".idx", sidecar = sidecar_path(prefix);
  const std::string unfinished = ".tmp", begun = index + unfinished;
  require_output(index, outputs::token_index);
  require_output(begun, outputs::token_index);
  if (with_sidecar) require_output(sidecar, outputs::token_sidecar);
  const auto check = [](const std::string& path, const std::vector<std::string>& known_by) {
    require_output(path, outputs::numbers);
    require(!is_foreign(path, known_by), path, ": exists, and has no index ", known_by.back(),
            ": it may be of another program; remove it, or give another name");
  };
  check(bin, {begun, sidecar, index});
  check(bin + unfinished, {begun});
  if (with_sidecar) check(sidecar + unfinished, {begun});
}

struct TokenFileWriter::State {
  std::string prefix;
  TokenType type;
  NewFile index, bin;  // the index first: who has it has all of the prefix
  Folder folder;
  std::vector<Index> documents;  // tokens of each that has ended
  Index open = 0;                // tokens of the one that has not
  std::vector<std::byte> packed;

  State(const std::string& prefix_, TokenType type_)
      : prefix(prefix_),
        type(type_),
        index(prefix_ + ".idx"),
        bin(prefix_ + ".bin"),
        folder(prefix_) {}

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
    : state_((check_token_outputs(prefix, false), std::make_unique<State>(prefix, type))) {}
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
    beside->sync();
  }
  s.bin.sync();
  s.index.sync();
  // An index never accompanies another run's .bin, also when the power goes: until a directory is
  // synced, any of its changes may be lost, and others not.
  s.index.remove_old();
  s.folder.sync();
  remove_sidecar(s.prefix);
  s.bin.rename();
  if (beside) beside->rename();
  s.folder.sync();
  s.index.rename();
  s.folder.sync();
}

}  // namespace trireme
