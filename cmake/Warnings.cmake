# Warnings are errors, except where bugs are planted (tests/mutation); sanitizers by preset
# (MUSTER_SANITIZE=address,undefined or thread).
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

# The programs of tests/fuzz and all that they link, by clang: preset fuzz. What is lost in conversions
# is for gcc to say; clang means more by it.
option(MUSTER_FUZZ "Build for libFuzzer" OFF)
if(MUSTER_FUZZ)
    set(fuzz_sanitizers fuzzer-no-link,address,undefined)
    add_compile_options(-fsanitize=${fuzz_sanitizers} -fno-sanitize-recover=all -Wno-conversion)
    add_link_options(-fsanitize=${fuzz_sanitizers})
endif()
