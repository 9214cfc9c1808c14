# NVIDIA's GPUs: the CUDA toolkit with cuBLASLt, cuDNN 9 and NCCL. All optional: without them the trainer
# computes on CPUs.
#
# MUSTER_CUDA_FOUND: all are there; muster_cuda is what to link, and .cu files compile.
# MUSTER_CUDA_INCLUDE: the toolkit's headers; also where its programs are not wanted (sanitizers).
#
# CUDNN_ROOT, NCCL_ROOT and CUBLAS_ROOT, of CMake or the environment, are folders with lib and include that are looked
# at first. NVIDIA's Python packages (nvidia/cudnn, nvidia/nccl, nvidia/cu13) are such; their libraries are found, and
# found again when the program runs, though they are there by their versions' names alone.
set(MUSTER_CUDA AUTO CACHE STRING "Build for NVIDIA's GPUs: AUTO (where all that it takes is found), ON, OFF")
set_property(CACHE MUSTER_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MUSTER_CUDA_FOUND OFF)
set(MUSTER_CUDA_INCLUDE "")
if(NOT MUSTER_CUDA OR MUSTER_FUZZ)
    return()
endif()

# A library, what it is called with its version, one of its headers, and the variable that says where both may lie.
function(find_cuda_part library versioned header root)
    set(hints ${${root}} $ENV{${root}})
    find_library(MUSTER_LIB_${library} NAMES ${library} ${versioned} NAMES_PER_DIR
                 HINTS ${hints} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
    find_path(MUSTER_INCLUDE_${library} ${header} HINTS ${hints} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
    mark_as_advanced(MUSTER_LIB_${library} MUSTER_INCLUDE_${library})
    if(NOT MUSTER_LIB_${library} OR NOT MUSTER_INCLUDE_${library})
        list(APPEND cuda_missing ${library})
        set(cuda_missing ${cuda_missing} PARENT_SCOPE)
    endif()
endfunction()

set(cuda_missing "")
find_package(CUDAToolkit 12.8 QUIET) # which knows the B200
if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    set(major ${CUDAToolkit_VERSION_MAJOR})
    find_cuda_part(cublasLt libcublasLt.so.${major} cublasLt.h CUBLAS_ROOT)
    find_cuda_part(cudnn libcudnn.so.9 cudnn_version.h CUDNN_ROOT)
    find_cuda_part(nccl libnccl.so.2 nccl.h NCCL_ROOT)
    # cuDNN compiles its attention with it, and would look for it in few places.
    find_cuda_part(nvrtc libnvrtc.so.${major} nvrtc.h CUBLAS_ROOT)
    if(MUSTER_INCLUDE_cudnn)
        file(STRINGS ${MUSTER_INCLUDE_cudnn}/cudnn_version.h lines REGEX "define CUDNN_M(AJOR|INOR) ")
        string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" cudnn_version "${lines}")
        if(cudnn_version VERSION_LESS 9.8)
            list(APPEND cuda_missing "cudnn 9.8 (this is ${cudnn_version})")
        endif()
    endif()
else()
    set(cuda_missing "the CUDA toolkit 12.8")
endif()
if(cuda_missing)
    list(JOIN cuda_missing ", " cuda_missing)
    if(NOT MUSTER_CUDA STREQUAL "AUTO")
        message(FATAL_ERROR "MUSTER_CUDA=${MUSTER_CUDA}, but not found: ${cuda_missing}. CUDNN_ROOT, NCCL_ROOT "
                            "and CUBLAS_ROOT say where else to look.")
    endif()
    message(STATUS "GPUs: not built for; not found: ${cuda_missing}")
    return()
endif()
set(MUSTER_CUDA_INCLUDE ${CUDAToolkit_INCLUDE_DIRS})
if(MUSTER_SANITIZE) # the driver's mappings are none that sanitizers could live with
    return()
endif()

set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
# A100, H100 and B200; what is newer still compiles the last one's code for itself when it starts.
if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED OFF) # CMake 3.25 does not know that nvcc has it, and takes what CXX says for this
enable_language(CUDA)

add_library(muster_cuda INTERFACE)
target_include_directories(muster_cuda SYSTEM INTERFACE ${MUSTER_INCLUDE_cublasLt} ${MUSTER_INCLUDE_cudnn}
                           ${MUSTER_INCLUDE_nccl} ${MUSTER_INCLUDE_nvrtc})
target_link_libraries(muster_cuda INTERFACE ${MUSTER_LIB_cublasLt} ${MUSTER_LIB_cudnn} ${MUSTER_LIB_nccl}
                      ${MUSTER_LIB_nvrtc} ${CMAKE_DL_LIBS})
# CMake takes the toolkit's folder for one that the loader knows, which it need not be.
get_filename_component(cuda_folder ${MUSTER_LIB_cublasLt} DIRECTORY)
target_link_options(muster_cuda INTERFACE LINKER:-rpath,${cuda_folder})
set(MUSTER_CUDA_FOUND ON)
message(STATUS "GPUs: CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}, ${MUSTER_LIB_cudnn}, "
               "${MUSTER_LIB_nccl}")
