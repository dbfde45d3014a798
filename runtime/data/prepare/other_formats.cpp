#include "runtime/data/prepare/other_formats.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "trireme/core/error.h"

namespace trireme::data {
namespace {

using namespace std::string_view_literals;

struct Mark {
  std::string_view bytes;
  const char *what, *command = "";  // that prints the text of the file {}; empty: there is none
  std::size_t at = 0;
  bool letters = false;  // as a text may begin too, which has no zeros
};

constexpr bool as_letters = true;
constexpr Mark marks[] = {
    // compressed; the first four are read, but not inside of one another
    {"\x1f\x8b"sv, "gzip data inside of other compressed data"},
    {"1AY&SY"sv, "bzip2 data inside of other compressed data", "", 4},
    {"\xfd\x37zXZ\0"sv, "xz data inside of other compressed data"},
    {"\x28\xb5\x2f\xfd"sv, "zstd data inside of other compressed data"},
    {"\x04\x22\x4d\x18"sv, "lz4 data", "lz4 -dc {}"},
    {"\x02\x21\x4c\x18"sv, "lz4 data", "lz4 -dc {}"},
    {"\x5d\0\0"sv, "lzma data", "xz -dc {}"},
    {"LZIP\x01"sv, "lzip data", "lzip -dc {}"},
    {"\x89LZO\0\r\n\x1a\n"sv, "lzop data", "lzop -dc {}"},
    {"\x1f\x9d"sv, "data of compress", "gzip -dc {}"},
    {"\x78\x9c"sv, "zlib data"},
    {"\xff\x06\0\0sNaPpY"sv, "snappy data", "snzip -dc {}"},
    // archives
    {"PK\x03\x04"sv, "a zip archive", "unzip -p {}"},
    {"PK\x05\x06"sv, "a zip archive without files"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "7z x -so {}"},
    {"Rar!\x1a\x07"sv, "a rar archive", "unrar p -inul {}"},
    {"ustar"sv, "a tar archive", "tar -xOf {}", 257, as_letters},
    {"!<arch>\n"sv, "an ar archive", "ar p {}"},
    {"070701"sv, "a cpio archive", "", 0, as_letters},
    {"\xed\xab\xee\xdb"sv, "a package (RPM)"},
    // tables and numbers
    {"PAR1"sv, "a parquet file", "", 0, as_letters},
    {"ARROW1"sv, "an Arrow file", "", 0, as_letters},
    {"\xff\xff\xff\xff"sv, "an Arrow stream"},
    {"FEA1"sv, "a feather file", "", 0, as_letters},
    {"ORC"sv, "an ORC file", "", 0, as_letters},
    {"Obj\x01"sv, "an Avro file"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {"SQLite format 3\0"sv, "an SQLite database"},
    {"\x93NUMPY"sv, "an array of NumPy"},
    {"\x80\x02"sv, "a pickle of Python"},
    {"\x80\x03"sv, "a pickle of Python"},
    {"\x80\x04"sv, "a pickle of Python"},
    {"\x80\x05"sv, "a pickle of Python"},
    {"MMIDIDX\0\0"sv, "an index of token files"},
    {"GGUF"sv, "a GGUF model", "", 0, as_letters},
    {"\0\0\0{\""sv, "a safetensors model", "", 5},  // after the low bytes of a length
    // documents, pictures, sound, programs
    {"%PDF-"sv, "a PDF document", "pdftotext {} -"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "an Office document"},
    {"{\\rtf"sv, "an RTF document"},
    {"\x89PNG\r\n"sv, "a PNG picture"},
    {"\xff\xd8\xff"sv, "a JPEG picture"},
    {"GIF8"sv, "a GIF picture", "", 0, as_letters},
    {"RIFF"sv, "a sound, film or picture (RIFF)", "", 0, as_letters},
    {"OggS"sv, "a sound or film (Ogg)", "", 0, as_letters},
    {"ID3"sv, "a sound (MP3)", "", 0, as_letters},
    {"ftyp"sv, "a film or sound (MP4)", "", 4, as_letters},
    {"\x1a\x45\xdf\xa3"sv, "a film (Matroska)"},
    {"fLaC"sv, "a sound (FLAC)", "", 0, as_letters},
    {"II*\0"sv, "a TIFF picture"},
    {"MM\0*"sv, "a TIFF picture"},
    {"wOFF"sv, "a font", "", 0, as_letters},
    {"wOF2"sv, "a font", "", 0, as_letters},
    {"\x7f\x45LF"sv, "a program (ELF)"},
    {"MZ"sv, "a program (of Windows)", "", 0, as_letters},
    {"\xcf\xfa\xed\xfe"sv, "a program (of macOS)"},
    // text in other encodings
    {"\xff\xfe\0\0"sv, "text in UTF-32", "iconv -f UTF-32 -t UTF-8 {}"},
    {"\0\0\xfe\xff"sv, "text in UTF-32", "iconv -f UTF-32 -t UTF-8 {}"},
    {"\xff\xfe"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 {}"},
    {"\xfe\xff"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 {}"},
};

bool fits(const Mark& mark, std::string_view begin) {
  return begin.size() >= mark.at && begin.substr(mark.at).starts_with(mark.bytes) &&
         (!mark.letters || begin.find('\0') != begin.npos);
}

/// Stands where a file is that another program has put away.
struct Pointer {
  std::string_view begin;
  const char *what, *command;  // that brings the file
};
constexpr Pointer pointers[] = {
    {"version https://git-lfs.github.com/spec/", "Git LFS", "git lfs pull"},
    {"version https://hawser.github.com/spec/", "Git LFS", "git lfs pull"},
    {"/annex/objects/", "git-annex", "git annex get"},
};

/// ASCII in UTF-16 without a mark has a zero in every second byte.
bool is_in_utf16(std::string_view begin) {
  std::size_t zeros[2] = {};
  for (std::size_t i = 0; i < begin.size(); ++i) zeros[i % 2] += begin[i] == '\0' ? 1 : 0;
  return std::min(zeros[0], zeros[1]) == 0 && 3 * std::max(zeros[0], zeros[1]) > begin.size();
}

/// The length of the first record, its checksum, and a message that begins with its field 1.
bool is_tfrecord(std::string_view begin) {
  constexpr std::size_t record = 12, high_half = 4;
  return begin.size() > record && begin[record] == '\n' && begin[0] != '\0' &&
         begin.substr(high_half).starts_with("\0\0\0\0"sv);
}

/// Of a file without a mark.
std::string without_mark(std::string_view begin, const std::string& name) {
  if (is_tfrecord(begin)) return "a TFRecord file, whose text has to be taken out first";
  if (!is_in_utf16(begin)) return "";
  return fmt::format(
      "text in UTF-16; give its text through a pipe: iconv -f UTF-16{} -t UTF-8 {} with --input -",
      begin.front() == '\0' ? "BE" : "LE", name);
}

}  // namespace

std::string other_format(std::string_view begin, const std::string& name) {
  for (const Pointer& pointer : pointers)
    if (begin.starts_with(pointer.begin))
      return str("a pointer of ", pointer.what, " to a file that is not here: ", pointer.command,
                 " brings it");
  const auto* const mark = std::find_if(std::begin(marks), std::end(marks),
                                        [&](const Mark& each) { return fits(each, begin); });
  if (mark == std::end(marks)) return without_mark(begin, name);
  if (mark->command == ""sv) return str(mark->what, ", whose text has to be taken out first");
  return str(mark->what,
             "; give its text through a pipe: ", fmt::format(fmt::runtime(mark->command), name),
             " with --input -");
}

}  // namespace trireme::data
