# Finds what the trainer needs for NVIDIA's GPUs: the CUDA toolkit with cuBLASLt, cuDNN 9 and NCCL. All are optional;
# without them the trainer computes on CPUs.
#
# MUSTER_CUDA_FOUND: ON if all were found; then programs link muster_cuda, and .cu files can be compiled.
# MUSTER_CUDA_INCLUDE: the headers of the toolkit; also set for sanitizers, which build no CUDA programs.
#
# CUDNN_ROOT, NCCL_ROOT and CUBLAS_ROOT (CMake or environment variables) name folders with lib and include that are
# searched first. The folders of NVIDIA's Python packages (nvidia/cudnn, nvidia/nccl, nvidia/cu13) are suitable,
# although their libraries exist only under names with versions; programs find them at run time, too.
set(MUSTER_CUDA AUTO CACHE STRING "Build for NVIDIA's GPUs: AUTO (if all parts are found), ON, OFF")
set_property(CACHE MUSTER_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MUSTER_CUDA_FOUND OFF)
set(MUSTER_CUDA_INCLUDE "")
if(NOT MUSTER_CUDA OR MUSTER_FUZZ)
    return()
endif()

# Finds a library (by its plain or versioned name) and one of its headers. `root` is the variable with a folder for both.
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
find_package(CUDAToolkit 12.8 QUIET) # the first version for the B200
if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    set(major ${CUDAToolkit_VERSION_MAJOR})
    find_cuda_part(cublasLt libcublasLt.so.${major} cublasLt.h CUBLAS_ROOT)
    find_cuda_part(cudnn libcudnn.so.9 cudnn_version.h CUDNN_ROOT)
    find_cuda_part(nccl libnccl.so.2 nccl.h NCCL_ROOT)
    # cuDNN compiles its attention kernels with NVRTC, but searches few folders for it.
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
        message(FATAL_ERROR "MUSTER_CUDA=${MUSTER_CUDA}, but not found: ${cuda_missing}. Set CUDNN_ROOT, "
                            "NCCL_ROOT or CUBLAS_ROOT to the folders of the libraries, or MUSTER_CUDA to OFF.")
    endif()
    message(STATUS "GPUs: not supported by this build; not found: ${cuda_missing}")
    return()
endif()
set(MUSTER_CUDA_INCLUDE ${CUDAToolkit_INCLUDE_DIRS})
if(MUSTER_SANITIZE) # the memory mappings of the CUDA driver conflict with those of sanitizers
    return()
endif()

set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
# A100, H100 and B200. The driver compiles the code of the last one for newer GPUs at the start of a program.
if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED OFF) # CMake 3.25 does not know that nvcc supports C++20
enable_language(CUDA)

add_library(muster_cuda INTERFACE)
target_include_directories(muster_cuda SYSTEM INTERFACE ${MUSTER_INCLUDE_cublasLt} ${MUSTER_INCLUDE_cudnn}
                           ${MUSTER_INCLUDE_nccl} ${MUSTER_INCLUDE_nvrtc})
target_link_libraries(muster_cuda INTERFACE ${MUSTER_LIB_cublasLt} ${MUSTER_LIB_cudnn} ${MUSTER_LIB_nccl}
                      ${MUSTER_LIB_nvrtc} ${CMAKE_DL_LIBS})
# CMake assumes that the loader searches the toolkit's folder, which is not always true.
get_filename_component(cuda_folder ${MUSTER_LIB_cublasLt} DIRECTORY)
target_link_options(muster_cuda INTERFACE LINKER:-rpath,${cuda_folder})
set(MUSTER_CUDA_FOUND ON)
message(STATUS "GPUs: CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}, ${MUSTER_LIB_cudnn}, "
               "${MUSTER_LIB_nccl}")
