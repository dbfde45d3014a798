#include "runtime/data/prepare/other_formats.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::data {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(OtherFormats, AreKnownByHowTheyBegin) {
  const std::string tar = "notes.txt"s + std::string(248, '\0') + "ustar\0"s + "00";
  for (const auto& [begin, what] : {
           std::pair("\xfd\x37zXZ\0\0\4"s,
                     "xz data inside of other compressed data, whose text has"),
           std::pair("BZh91AY&SY\x10"s, "bzip2 data inside of other compressed data"),
           std::pair("\x04\x22\x4d\x18\x64\x40"s, "lz4 data"),
           std::pair("PK\x03\x04\x14\0"s, "a zip archive; give its text"),
           std::pair(tar, "a tar archive"),
           std::pair("PAR1\x15\0"s, "a parquet file, whose text has to be taken out first"),
           std::pair("ARROW1\0\0"s, "an Arrow file"),
           std::pair("SQLite format 3\0"s, "an SQLite database"),
           std::pair("\x80\x04\x95"s, "a pickle of Python"),
           std::pair("\x89HDF\r\n\x1a\n"s, "an HDF5 file"),
           std::pair("%PDF-1.7\n"s,
                     "a PDF document; give its text through a pipe: pdftotext a.xz -"),
           std::pair("\xff\xfe\0\0a\0\0\0"s, "text in UTF-32"),
           std::pair("\xff\xfe"
                     "a\0"s,
                     "text in UTF-16; give its text through a pipe: iconv"),
           std::pair("h\0e\0l\0l\0o\0"s,
                     "text in UTF-16; give its text through a pipe: iconv -f UTF-16LE"),
           std::pair("\0h\0e\0l\0l\0o"s,
                     "text in UTF-16; give its text through a pipe: iconv -f UTF-16BE"),
           std::pair("\x1f\x8b\x08\0"s, "gzip data inside of other compressed data"),
           std::pair("\x04\x22\x4d\x18\x64"s,
                     "lz4 data; give its text through a pipe: lz4 -dc a.xz with"),
           std::pair("\0\0\0\x18"
                     "ftypmp42"s,
                     "a film or sound (MP4), whose text"),
           std::pair("\x40\0\0\0\0\0\0\0{\"a\":{}}"s, "a safetensors model"),
           std::pair("\x14\0\0\0\0\0\0\0\1\2\3\4\n\x12text"s, "a TFRecord file"),
           std::pair("/annex/objects/SHA256E-s1--a\n"s, "a pointer of git-annex"),
           std::pair("version https://git-lfs.github.com/spec/v1\noid sha256:1\n"s,
                     "a pointer of Git LFS"),
       })
    EXPECT_THAT(other_format(begin, "a.xz"), StartsWith(what)) << begin;
}

TEST(OtherFormats, AreNotTextThatBeginsAlike) {
  for (const char* text : {"",
                           "a",
                           "ORCHIDS are plants",
                           "RIFFS and solos",
                           "ID3 is a tag",
                           "PAR1 of 3",
                           "GIF89a is",
                           "070701 was the date",
                           "BZhang wrote",
                           "\xef\xbb\xbfText",
                           "{\"text\":\"a\"}",
                           "\xc3\xbc",
                           "version https://example.org",
                           "PK is a label",
                           "GGUF is a format",
                           "ustar",
                           "MZ is short",
                           "wOFF",
                           "fLaC",
                           "xxxxftyp"})
    EXPECT_THAT(other_format(text, "a"), IsEmpty()) << text;
}

}  // namespace
}  // namespace trireme::data
