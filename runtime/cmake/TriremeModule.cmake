# trireme_module(name [CONTROL] SOURCES dir... [IMPORTS modules...] [LIBRARIES targets...])
# A module is an object library trireme_<name>. IMPORTS are the modules it may use (their headers
# come along, transitively recorded in the property TRIREME_MODULES so that a test program can link
# exactly this module and those below it); TRIREME_LIBRARIES are what its own sources need. CONTROL:
# it has no loop over values or layouts, and is compiled by -O1. modules.txt of the build directory
# has a line for each: its name and those of TRIREME_MODULES (tests/changed_modules reads it).
file(WRITE ${PROJECT_BINARY_DIR}/modules.txt "")
function(trireme_module name)
  cmake_parse_arguments(MODULE "CONTROL" "" "SOURCES;IMPORTS;LIBRARIES" ${ARGN})
  set(sources)
  foreach(dir IN LISTS MODULE_SOURCES)
    file(GLOB found CONFIGURE_DEPENDS ${dir}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  if(NOT sources)
    set(sources ${PROJECT_SOURCE_DIR}/runtime/cmake/empty.cpp)
  endif()
  add_library(trireme_${name} OBJECT ${sources})
  target_include_directories(trireme_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(trireme_${name} PRIVATE trireme_warnings ${MODULE_LIBRARIES})
  if(MODULE_CONTROL)
    trireme_precompile(trireme_${name} CONTROL)
  else()
    trireme_precompile(trireme_${name})
  endif()
  trireme_compile_together(trireme_${name})
  set(closure ${name})
  foreach(import IN LISTS MODULE_IMPORTS)
    get_target_property(below trireme_${import} TRIREME_MODULES)
    list(APPEND closure ${below})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  set_target_properties(trireme_${name} PROPERTIES
    TRIREME_MODULES "${closure}" TRIREME_LIBRARIES "${MODULE_LIBRARIES}")
  list(JOIN closure " " closure)
  file(APPEND ${PROJECT_BINARY_DIR}/modules.txt "${name} ${closure}\n")
endfunction()

# trireme_link_objects(target modules...): links the objects of these modules, with what they need.
function(trireme_link_objects target)
  foreach(module IN LISTS ARGN)
    target_link_libraries(${target} PRIVATE trireme_${module})
    foreach(property TRIREME_EXTRA_OBJECTS TRIREME_LIBRARIES)
      get_target_property(more trireme_${module} ${property})
      if(more)
        target_link_libraries(${target} PRIVATE ${more})
      endif()
    endforeach()
  endforeach()
  target_link_libraries(${target} PRIVATE trireme_warnings Threads::Threads)
endfunction()

# trireme_link_module(target name): links the objects of a module and of all modules below it.
function(trireme_link_module target name)
  get_target_property(modules trireme_${name} TRIREME_MODULES)
  trireme_link_objects(${target} ${modules})
endfunction()
