# Fails when an object of kernels/cpu/simd defines a weak symbol: the linker may keep any one of
# several weak definitions, so AVX-512 code of a shared inline function could end up in the path of
# an older machine. Called with -DNM=nm "-DOBJECTS=a.o;b.o".
if(NOT OBJECTS)
  message(FATAL_ERROR "no objects to look at")
endif()
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} --defined-only ${object} OUTPUT_VARIABLE symbols
    RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${NM} ${object} failed: ${failed}")
  endif()
  string(REGEX MATCHALL "[^\n]* [WVuvw] [^\n]*" weak "${symbols}")
  # What the compiler emits for a debugger or a personality routine holds an address, no code.
  list(FILTER weak EXCLUDE REGEX "DW\\.ref\\.")
  if(weak)
    message(SEND_ERROR "${object} defines weak symbols:\n${weak}")
  endif()
endforeach()
