#include "runtime/data/prepare/decompress.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "trireme/core/error.h"

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

/// One or more members (RFC 1952), as gzip, pigz and bgzip write them; zero bytes behind one are
/// padding, as of tapes and blocks.
class Gzip final : public TextStream {
 public:
  explicit Gzip(InputFile& file) : file_(file) {
    constexpr int gzip_only = 16;
    require(::inflateInit2(&state_, MAX_WBITS + gzip_only) == Z_OK, "zlib: no memory");
  }
  ~Gzip() override { ::inflateEnd(&state_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  Index read(char* out, Index most) override {
    state_.next_out = reinterpret_cast<Bytef*>(out);
    state_.avail_out = static_cast<uInt>(std::min(most, most_at_once));
    const uInt wanted = state_.avail_out;
    while (state_.avail_out == wanted && has_more()) {
      if (std::exchange(ended_, false))
        require(::inflateReset(&state_) == Z_OK, "zlib: cannot be reset");
      const int result = ::inflate(&state_, Z_NO_FLUSH);
      ended_ = result == Z_STREAM_END;
      require(ended_ || result == Z_OK || result == Z_BUF_ERROR, file_.name(),
              ": gzip data is damaged before byte ", file_.position(), ": ",
              state_.msg == nullptr ? ::zError(result) : state_.msg);
    }
    return static_cast<Index>(wanted - state_.avail_out);
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
      require(!bytes.empty() || ended_, file_.name(), ": gzip data is truncated: it ends at byte ",
              file_.position());
      if (bytes.empty()) return false;
      // zlib does not write to its input.
      state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      state_.avail_in = static_cast<uInt>(bytes.size());
    }
  }

  InputFile& file_;
  z_stream state_{};
  bool ended_ = false;  // a member has
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
              "with PrepareOptions::inputs -");
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

/// pzstd begins with one.
bool begins_skippable_frame(std::string_view text) {
  constexpr std::string_view behind_first = "\x2a\x4d\x18";
  return text.size() >= 4 && (text[0] & 0xf0) == 0x50 && text.substr(1, 3) == behind_first;
}

}  // namespace

std::unique_ptr<TextStream> open_text(InputFile& file) {
  constexpr std::string_view gzip = "\x1f\x8b", zstd = "\x28\xb5\x2f\xfd";
  const std::string_view begin = file.peek(zstd.size());
  if (begin.starts_with(gzip)) return std::make_unique<Gzip>(file);
  if (begin.starts_with(zstd) || begins_skippable_frame(begin)) return std::make_unique<Zstd>(file);
  return std::make_unique<Plain>(file);
}

}  // namespace trireme::data
