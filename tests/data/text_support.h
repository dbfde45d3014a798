// What tests of text have in common: a tokenizer that adds 2 to each byte, and compressed files,
// of which gzip and zstd hold their text as it is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bzlib.h>
#include <lzma.h>

#include "trireme/core/error.h"

#include "runtime/data/prepare/encoder.h"

namespace trireme::data {

/// Vocabulary 258: bos 0, eod 1, then the bytes.
class ShiftedBytes : public TextEncoder {
 public:
  static constexpr std::int32_t first_byte = 2;

  std::unique_ptr<Worker> worker() const override { return std::make_unique<Shift>(); }
  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens)
      text += token == 0   ? "<bos>"
              : token == 1 ? "<eod>"
                           : std::string(1, static_cast<char>(token - first_byte));
    return text;
  }
  std::string decode_or(std::span<const std::int32_t> tokens,
                        std::string_view /*unknown*/) const override {
    return decode(tokens);
  }
  Index vocabulary() const override { return 258; }
  std::optional<Index> bos() const override { return 0; }
  std::optional<Index> eod() const override { return 1; }
  std::string hash() const override { return "00000000000000ab"; }
  bool of_bytes() const override { return false; }

 protected:
  class Shift : public Worker {
   public:
    void encode(std::string_view text, std::vector<std::int32_t>& tokens) override {
      require(text.find('\xff') == std::string_view::npos, "byte ", text.find('\xff'), " is wrong");
      const std::size_t before = tokens.size();
      tokens.resize(before + text.size());
      for (std::size_t i = 0; i < text.size(); ++i)
        tokens[before + i] = static_cast<unsigned char>(text[i]) + first_byte;
    }
  };
};

/// The `bytes` lowest bytes of a number.
inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

/// A gzip member (RFC 1952) of stored blocks.
inline std::string gzip(std::string_view text) {
  using namespace std::string_literals;
  std::uint32_t crc = 0xffff'ffff;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb8'8320u : 0u);
  }
  std::string out = "\x1f\x8b\x08\0\0\0\0\0\0\xff"s;
  constexpr std::size_t most = 0xffff;
  for (std::size_t at = 0; at == 0 || at < text.size(); at += most) {
    const std::string_view block = text.substr(at, most);
    out += at + most >= text.size() ? '\1' : '\0';
    out += little_endian(block.size(), 2) + little_endian(~block.size(), 2);
    out += block;
  }
  return out + little_endian(~crc, 4) + little_endian(text.size(), 4);
}

/// A zstd frame (RFC 8878) of raw blocks, without a checksum.
inline std::string zstd(std::string_view text) {
  using namespace std::string_literals;
  std::string out = "\x28\xb5\x2f\xfd\x00\x38"s;  // a window of 128 KiB
  constexpr std::size_t most = 1 << 17;
  for (std::size_t at = 0; at == 0 || at < text.size(); at += most) {
    const std::string_view block = text.substr(at, most);
    const bool last = at + most >= text.size();
    out += little_endian(block.size() << 3 | (last ? 1u : 0u), 3);
    out += block;
  }
  return out;
}

/// A stream of bzip2, in blocks of 100 kB.
inline std::string bzip2(std::string_view text) {
  std::string from(text), out(text.size() + text.size() / 100 + 600, '\0');
  auto bytes = static_cast<unsigned>(out.size());
  require(::BZ2_bzBuffToBuffCompress(out.data(), &bytes, from.data(),
                                     static_cast<unsigned>(from.size()), 1, 0, 0) == BZ_OK,
          "bzip2");
  out.resize(bytes);
  return out;
}

/// A stream of xz whose dictionary has `dictionary` bytes.
inline std::string xz(std::string_view text, std::uint32_t dictionary = 1 << 20) {
  lzma_options_lzma options;
  require(!::lzma_lzma_preset(&options, 0), "xz");
  options.dict_size = dictionary;
  lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  std::string out(::lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t bytes = 0;
  require(::lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC64, nullptr,
                                      reinterpret_cast<const std::uint8_t*>(text.data()),
                                      text.size(), reinterpret_cast<std::uint8_t*>(out.data()),
                                      &bytes, out.size()) == LZMA_OK,
          "xz");
  out.resize(bytes);
  return out;
}

}  // namespace trireme::data
