# Warnings are errors everywhere; sanitizers by preset (MUSTER_SANITIZE=address,undefined or thread).
add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wvla -Werror
                    -fno-omit-frame-pointer)
add_compile_definitions(_GNU_SOURCE MUSTER_VERSION="${PROJECT_VERSION}")

set(MUSTER_SANITIZE "" CACHE STRING "Sanitizers to build with, comma-separated")
if(MUSTER_SANITIZE)
    add_compile_options(-fsanitize=${MUSTER_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${MUSTER_SANITIZE})
endif()
