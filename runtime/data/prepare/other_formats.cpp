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
    // compressed
    {"\xfd\x37zXZ\0"sv, "xz data", "xz -dc {}"},
    {"1AY&SY"sv, "bzip2 data", "bzip2 -dc {}", 4},
    {"\x04\x22\x4d\x18"sv, "lz4 data", "lz4 -dc {}"},
    {"\x02\x21\x4c\x18"sv, "lz4 data", "lz4 -dc {}"},
    {"\x5d\0\0"sv, "lzma data", "xz -dc {}"},
    {"LZIP\x01"sv, "lzip data", "lzip -dc {}"},
    {"\x89LZO\0\r\n\x1a\n"sv, "lzop data", "lzop -dc {}"},
    {"\x1f\x9d"sv, "data of compress", "gzip -dc {}"},
    {"\xff\x06\0\0sNaPpY"sv, "snappy data", "snzip -dc {}"},
    // archives
    {"PK\x03\x04"sv, "a zip archive", "unzip -p {}"},
    {"PK\x05\x06"sv, "a zip archive without files"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "7z x -so {}"},
    {"Rar!\x1a\x07"sv, "a rar archive", "unrar p -inul {}"},
    {"ustar"sv, "a tar archive", "tar -xOf {}", 257, as_letters},
    {"!<arch>\n"sv, "an ar archive", "ar p {}"},
    {"070701"sv, "a cpio archive", "", 0, as_letters},
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
    {"\x7f\x45LF"sv, "a program (ELF)"},
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

constexpr std::string_view lfs_pointer = "version https://git-lfs.github.com/spec/";

}  // namespace

std::string other_format(std::string_view begin, const std::string& name) {
  if (begin.starts_with(lfs_pointer))
    return "a pointer of Git LFS to a file that is not here: git lfs pull brings it";
  const auto* const mark = std::find_if(std::begin(marks), std::end(marks),
                                        [&](const Mark& each) { return fits(each, begin); });
  if (mark == std::end(marks)) return "";
  if (mark->command == ""sv) return str(mark->what, ", whose text has to be taken out first");
  return str(mark->what,
             "; give its text through a pipe: ", fmt::format(fmt::runtime(mark->command), name),
             " with PrepareOptions::inputs -");
}

}  // namespace trireme::data
