# Warnings are errors, except in builds with planted bugs (tests/mutation). The presets asan and tsan set MUSTER_SANITIZE
# to address,undefined and to thread.
option(MUSTER_WARNINGS_ARE_ERRORS "Stop the build at a compiler warning" ON)
set(werror $<$<BOOL:${MUSTER_WARNINGS_ARE_ERRORS}>:-Werror>)
add_compile_options("$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wstrict-prototypes;-Wvla;${werror}>"
                    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wno-missing-field-initializers;${werror}>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers,-Werror>"
                    "$<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>")
add_compile_definitions(_GNU_SOURCE MUSTER_VERSION="${PROJECT_VERSION}")

set(MUSTER_SANITIZE "" CACHE STRING "Sanitizers to build with, comma-separated")
if(MUSTER_SANITIZE)
    add_compile_options(-fsanitize=${MUSTER_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${MUSTER_SANITIZE})
endif()

# The preset fuzz builds the programs of tests/fuzz, and the libraries that they link, with clang. -Wconversion is left
# to gcc, because clang reports more with it.
option(MUSTER_FUZZ "Build for libFuzzer" OFF)
if(MUSTER_FUZZ)
    set(fuzz_sanitizers fuzzer-no-link,address,undefined)
    add_compile_options(-fsanitize=${fuzz_sanitizers} -fno-sanitize-recover=all -Wno-conversion)
    add_link_options(-fsanitize=${fuzz_sanitizers})
endif()
