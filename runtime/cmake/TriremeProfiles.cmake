# The profiles of data sheets (runtime/cost/profiles): part of the program, so that no
# installation is without them, and installed as files, to read and to copy.
file(GLOB profiles CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/cost/profiles/*.json)
set(texts)
foreach(profile IN LISTS profiles)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${profile})
  file(READ ${profile} text)
  string(APPEND texts "    R\"json(${text})json\",\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/known_profiles.cpp @ONLY CONTENT
"#include \"runtime/cost/profile.h\"

std::vector<std::string_view> trireme::cost::texts_of_known_profiles() {
  return {
@texts@  };
}
")
target_sources(trireme_cost PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/known_profiles.cpp)
install(FILES ${profiles} DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme/profiles)
