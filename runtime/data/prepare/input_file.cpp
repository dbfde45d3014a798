#include "runtime/data/prepare/input_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <tuple>
#include <utility>

#include <bzlib.h>
#include <fcntl.h>
#include <lzma.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme::data {
namespace {

/// What has been read of the file and not yet used.
class Plain final : public TextStream {
 public:
  explicit Plain(InputFile& file) : file_(file) {}
  Index read(char* out, Index most) override {
    if (rest_.empty()) rest_ = file_.next();
    const std::size_t bytes = std::min(rest_.size(), static_cast<std::size_t>(most));
    std::memcpy(out, rest_.data(), bytes);
    rest_.remove_prefix(bytes);
    return static_cast<Index>(bytes);
  }
  bool is_compressed() const override { return false; }

 private:
  InputFile& file_;
  std::string_view rest_;
};

/// What a step of a decompressor has come to: the end of a stream, or why there is none.
struct Step {
  bool ended = false;
  std::string damage = {};   // what is wrong with the data
  std::string refusal = {};  // "has ...": why sound data is not read
};

/// Members (RFC 1952), as gzip, pigz and bgzip write them.
struct GzipCodec {
  static constexpr const char* kind = "gzip";
  z_stream state{};

  bool start() {
    constexpr int gzip_only = 16;
    return ::inflateInit2(&state, MAX_WBITS + gzip_only) == Z_OK;
  }
  bool restart() { return ::inflateReset(&state) == Z_OK; }
  Step step() {
    const int result = ::inflate(&state, Z_NO_FLUSH);
    if (result == Z_STREAM_END) return {.ended = true};
    if (result == Z_OK || result == Z_BUF_ERROR) return {};
    return {.damage = state.msg == nullptr ? ::zError(result) : state.msg};
  }
  void end() { ::inflateEnd(&state); }
};

/// Streams, as bzip2, pbzip2 and lbzip2 write them.
struct Bzip2Codec {
  static constexpr const char* kind = "bzip2";
  bz_stream state{};

  bool start() { return ::BZ2_bzDecompressInit(&state, 0, 0) == BZ_OK; }
  bool restart() {
    const bz_stream places = state;
    end();
    state = {};
    if (!start()) return false;
    std::tie(state.next_in, state.avail_in) = std::tie(places.next_in, places.avail_in);
    std::tie(state.next_out, state.avail_out) = std::tie(places.next_out, places.avail_out);
    return true;
  }
  Step step() {
    const int result = ::BZ2_bzDecompress(&state);
    if (result == BZ_STREAM_END) return {.ended = true};
    if (result == BZ_OK) return {};
    if (result == BZ_MEM_ERROR) throw std::bad_alloc();
    return {.damage = result == BZ_DATA_ERROR_MAGIC ? "no stream begins here"
                                                    : "a block or its checksum is wrong"};
  }
  void end() { ::BZ2_bzDecompressEnd(&state); }
};

/// Streams, as xz and pixz write them.
struct XzCodec {
  static constexpr const char* kind = "xz";
  lzma_stream state = LZMA_STREAM_INIT;

  bool start() {
    constexpr std::uint64_t most_memory = 129 << 20;  // a dictionary of 128 MiB, as zstd's window
    return ::lzma_stream_decoder(&state, most_memory, 0) == LZMA_OK;
  }
  bool restart() { return start(); }
  Step step() {
    const lzma_ret result = ::lzma_code(&state, LZMA_RUN);
    if (result == LZMA_STREAM_END) return {.ended = true};
    if (result == LZMA_OK) return {};
    if (result == LZMA_MEM_ERROR) throw std::bad_alloc();
    if (result == LZMA_OPTIONS_ERROR) return {.refusal = "has a filter that liblzma does not know"};
    if (result == LZMA_MEMLIMIT_ERROR)
      return {.refusal =
                  "needs a dictionary over 128 MiB; give its text through a pipe: xz -dc "
                  "FILE with --input -"};
    return {.damage = result == LZMA_FORMAT_ERROR ? "no stream begins here"
                                                  : "a block or its checksum is wrong"};
  }
  void end() { ::lzma_end(&state); }
};

/// One or more streams of a kind; zero bytes behind one are padding, as of tapes and blocks.
template <class Codec>
class Streams final : public TextStream {
 public:
  explicit Streams(InputFile& file) : file_(file) {
    require(codec_.start(), Codec::kind, ": no memory");
  }
  ~Streams() override { codec_.end(); }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  Index read(char* out, Index most) override {
    const Index wanted = std::min(most, most_at_once);
    state_.next_out = reinterpret_cast<decltype(state_.next_out)>(out);
    state_.avail_out = static_cast<unsigned>(wanted);
    while (static_cast<Index>(state_.avail_out) == wanted && has_more()) {
      if (std::exchange(ended_, false))
        require(codec_.restart(), Codec::kind, ": cannot be started again");
      const Step step = codec_.step();
      require(step.refusal.empty(), file_.name(), ": ", step.refusal);
      require(step.damage.empty(), file_.name(), ": ", Codec::kind, " data is damaged before byte ",
              file_.position(), ": ", step.damage);
      ended_ = step.ended;
    }
    return wanted - static_cast<Index>(state_.avail_out);
  }

 private:
  static constexpr Index most_at_once = Index{1} << 30;

  /// Whether there is another byte of the file, besides padding.
  bool has_more() {
    while (true) {
      for (; ended_ && state_.avail_in > 0 && *state_.next_in == 0; ++state_.next_in)
        --state_.avail_in;
      if (state_.avail_in > 0) return true;
      const std::string_view bytes = file_.next();
      require(!bytes.empty() || ended_, file_.name(), ": ", Codec::kind,
              " data is truncated: it ends at byte ", file_.position());
      if (bytes.empty()) return false;
      // No decompressor writes to its input.
      char* const begin = const_cast<char*>(bytes.data());
      state_.next_in = reinterpret_cast<decltype(state_.next_in)>(begin);
      state_.avail_in = static_cast<unsigned>(bytes.size());
    }
  }

  InputFile& file_;
  Codec codec_;
  decltype(codec_.state)& state_ = codec_.state;
  bool ended_ = false;  // a stream has
};

/// One or more frames (RFC 8878), skippable ones among them.
class Zstd final : public TextStream {
 public:
  explicit Zstd(InputFile& file) : file_(file), state_(::ZSTD_createDStream()) {
    require(state_ != nullptr, "zstd: no memory");
  }
  ~Zstd() override { ::ZSTD_freeDStream(state_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;

  Index read(char* out, Index most) override {
    ZSTD_outBuffer to{out, static_cast<std::size_t>(most), 0};
    while (to.pos == 0) {
      if (from_.pos == from_.size && !flushing_ && !load()) break;
      const std::size_t result = ::ZSTD_decompressStream(state_, &to, &from_);
      require(::ZSTD_getErrorCode(result) != ZSTD_error_frameParameter_windowTooLarge, file_.name(),
              ": needs a window over 128 MiB; give its text through a pipe: zstd -dc -M2048MB FILE "
              "with --input -");
      require(::ZSTD_isError(result) == 0, file_.name(), ": zstd data before byte ",
              file_.position(), ": ", ::ZSTD_getErrorName(result));
      open_frame_ = result != 0;
      flushing_ = open_frame_ && to.pos == to.size;  // there may be more text without more input
    }
    return static_cast<Index>(to.pos);
  }

 private:
  bool load() {
    const std::string_view bytes = file_.next();
    require(!bytes.empty() || !open_frame_, file_.name(),
            ": zstd data is truncated: it ends at byte ", file_.position());
    from_ = {bytes.data(), bytes.size(), 0};
    return !bytes.empty();
  }

  InputFile& file_;
  ZSTD_DStream* state_;
  ZSTD_inBuffer from_{nullptr, 0, 0};
  bool open_frame_ = false, flushing_ = false;
};

template <class Stream>
std::unique_ptr<TextStream> open_as(InputFile& file) {
  return std::make_unique<Stream>(file);
}

/// A format that is read.
struct Compression {
  const char* ending;  // of a file's name
  bool (*begins)(std::string_view text);
  std::unique_ptr<TextStream> (*open)(InputFile& file);
};

bool begins_gzip(std::string_view text) { return text.starts_with("\x1f\x8b"); }
bool begins_bzip2(std::string_view text) {
  constexpr std::string_view block = "1AY&SY", end = "\x17\x72\x45\x38\x50\x90";
  return text.starts_with("BZh") && text.size() >= 4 &&
         (text.substr(4).starts_with(block) || text.substr(4).starts_with(end));
}
bool begins_xz(std::string_view text) {
  return text.starts_with(std::string_view("\xfd\x37zXZ\0", 6));
}
/// pzstd begins with a skippable frame.
bool begins_zstd(std::string_view text) {
  constexpr std::string_view frame = "\x28\xb5\x2f\xfd", skippable = "\x2a\x4d\x18";
  return text.starts_with(frame) ||
         (text.size() >= 4 && (text[0] & 0xf0) == 0x50 && text.substr(1, 3) == skippable);
}

constexpr std::size_t longest_beginning = 10;
constexpr Compression compressions[] = {
    {".gz", begins_gzip, open_as<Streams<GzipCodec>>},
    {".bz2", begins_bzip2, open_as<Streams<Bzip2Codec>>},
    {".xz", begins_xz, open_as<Streams<XzCodec>>},
    {".zst", begins_zstd, open_as<Zstd>},
};

}  // namespace

std::unique_ptr<TextStream> open_text(InputFile& file) {
  const std::string_view begin = file.peek(longest_beginning);
  for (const Compression& each : compressions)
    if (each.begins(begin)) return each.open(file);
  return std::make_unique<Plain>(file);
}

std::string_view compressed_ending(std::string_view name) {
  for (const Compression& each : compressions)
    if (name.ends_with(each.ending)) return each.ending;
  return "";
}

namespace {

constexpr std::size_t buffer_bytes = 1 << 18;
const std::string standard_input = "-";

std::string shown(const std::string& path) {
  return path == standard_input ? "standard input" : path;
}

struct stat status_of(const std::string& path) {
  struct stat status {};
  const int failed =
      path == standard_input ? ::fstat(STDIN_FILENO, &status) : ::stat(path.c_str(), &status);
  require_call(failed == 0, shown(path), ": cannot be opened");
  return status;
}

}  // namespace

Interruption::Interruption(int file) : outer_(file), inner_(::eventfd(0, EFD_CLOEXEC)) {
  require_call(inner_ >= 0, "eventfd");
}
Interruption::~Interruption() { ::close(inner_); }

void Interruption::interrupt() {
  const std::uint64_t one = 1;
  require_call(::write(inner_, &one, sizeof one) == sizeof one, "eventfd");
}

void Interruption::wait_for(int descriptor) const {
  pollfd files[] = {{descriptor, POLLIN, 0}, {inner_, POLLIN, 0}, {outer_, POLLIN, 0}};
  while (::poll(files, 3, -1) < 0) require_call(errno == EINTR, "poll");
  require(files[1].revents == 0 && files[2].revents == 0, "interrupted");
}

void Interruption::check() const {
  pollfd files[] = {{inner_, POLLIN, 0}, {outer_, POLLIN, 0}};
  int ready = 0;
  while ((ready = ::poll(files, 2, 0)) < 0) require_call(errno == EINTR, "poll");
  require(ready == 0, "interrupted");
}

// A pipe with a name opens at once, even if its writer is not there yet; poll then waits for it.
InputFile::InputFile(const std::string& path, const Interruption& interruption)
    : name_(shown(path)),
      interruption_(interruption),
      buffer_(buffer_bytes),
      descriptor_(path == standard_input
                      ? STDIN_FILENO
                      : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  require_call(descriptor_ >= 0, name_, ": cannot be opened");
}

InputFile::~InputFile() {
  if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
}

bool InputFile::read_more() {
  while (true) {
    interruption_.wait_for(descriptor_);
    const ssize_t got = ::read(descriptor_, buffer_.data() + filled_, buffer_.size() - filled_);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    require_call(got >= 0, name_, ": cannot be read");
    filled_ += static_cast<std::size_t>(got);
    return got > 0;
  }
}

std::string_view InputFile::peek(std::size_t bytes) {
  while (filled_ < bytes && read_more()) {
  }
  return {buffer_.data(), filled_};
}

std::string_view InputFile::next() {
  if (filled_ == 0) read_more();
  const std::size_t bytes = std::exchange(filled_, 0);
  position_ += static_cast<Index>(bytes);
  return {buffer_.data(), bytes};
}

Index check_input(const std::string& path) {
  const struct stat status = status_of(path);
  if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode) || S_ISSOCK(status.st_mode)) return 0;
  require(S_ISREG(status.st_mode), shown(path), ": is neither a file nor a pipe");
  require(status.st_size > 0, shown(path), ": is empty; leave it out");
  require_call(path == standard_input || ::access(path.c_str(), R_OK) == 0, path,
               ": cannot be opened");
  return status.st_size;
}

}  // namespace trireme::data
