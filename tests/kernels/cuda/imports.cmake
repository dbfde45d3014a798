# Fails unless the host emulation defines exactly the functions of the CUDA libraries that the
# module calls: what is missing was never tested, what is never called is dead. Looks at objects: in
# the linked module cudart is inside already. Called with -DNM=nm "-DMODULE=a.o;b.o"
# "-DEMULATION=c.o;d.o".
#
# How kernels are launched is the one thing that the emulation does in its own way (gpu_launch).
set(launching cudaLaunchKernel cudaLaunchKernelExC)

# symbols(result objects... ): C functions of the libraries' names that `nm ${which}` lists.
function(symbols result which)
  set(found)
  foreach(object IN LISTS ARGN)
    execute_process(COMMAND ${NM} ${which} ${object} OUTPUT_VARIABLE listed RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "${NM} ${object} failed: ${failed}")
    endif()
    string(REGEX MATCHALL " (cuda|cublasLt|nccl)[A-Z][A-Za-z0-9_]*" names "${listed}")
    list(APPEND found ${names})
  endforeach()
  list(TRANSFORM found STRIP)
  list(REMOVE_DUPLICATES found)
  list(REMOVE_ITEM found ${launching})
  set(${result} ${found} PARENT_SCOPE)
endfunction()

symbols(imported --undefined-only ${MODULE})
symbols(defined --defined-only ${EMULATION})
list(LENGTH imported count)
if(count EQUAL 0)
  message(FATAL_ERROR "the module calls nothing: are these its objects? ${MODULE}")
endif()
set(missing ${imported})
list(REMOVE_ITEM missing ${defined})
set(unused ${defined})
list(REMOVE_ITEM unused ${imported})
if(missing)
  message(SEND_ERROR "the module calls what the emulation does not define: ${missing}")
endif()
if(unused)
  message(SEND_ERROR "the emulation defines what the module does not call: ${unused}")
endif()
if(NOT missing AND NOT unused)
  message(STATUS "${count} functions of the CUDA libraries are called, all emulated")
endif()
